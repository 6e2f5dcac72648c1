"""The folder of a fit under kills, beside other fits, and among files of other people."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gumdrop.cli import main
from gumdrop.machine.files import replacing
from gumdrop.tables import TableError, load_table_model, model_file
from gumdrop.tables.fitting import folder as table_folder
from gumdrop.tables.fitting.fit import fit_table
from gumdrop.tables.fitting.folder import held_folder, put_in_place
from gumdrop.tables.folders import NEW, OLD, whole_folder
from gumdrop.tables.results import read_results

from builders.tables import ALONE, NO_GRADE, ONE, write_table

FILES = ("model.json", "model.safetensors", "results.json")
FIT = ["--target", "price", *ONE]

KILLED = """
import os, sys
from pathlib import Path
from gumdrop.tables.fitting.folder import held_folder, put_in_place
from gumdrop.tables.folders import NEW

place, names = Path(sys.argv[1]), sys.argv[2:]
WRITES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "open"}
left = None

def watch(event, arguments):
    global left
    if left is None or event not in WRITES or str(place) not in os.fspath(str(arguments[0])):
        return
    left -= 1
    if left < 0:
        os._exit(9)

def fit(text, overwrite):
    with held_folder(place, overwrite=overwrite, notify=str) as work:
        (work / "learned.checkpoint").write_text(text)
        for name in names:
            (work / NEW / name).write_text(text)
        put_in_place(work, place, overwrite=overwrite, keep_checkpoints=False)

sys.addaudithook(watch)
for step in range(1000):
    fit("old", True)
    if (child := os.fork()) == 0:
        left = step
        fit("new", True)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with held_folder(place, overwrite=True, notify=str):
        found = {path.name: path.read_text() for path in place.iterdir()}
    print(code, *sorted(set(found.values())), len(found), flush=True)
    if code == 0:
        break
"""


def killed(place: Path) -> list[list[str]]:
    """What is in a folder after a kill at each step of replacing it."""
    words = [sys.executable, "-c", KILLED, str(place), *FILES]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [line.split() for line in said.splitlines()]


def test_a_kill_at_each_step_of_an_overwrite_leaves_the_old_or_the_new(tmp_path) -> None:
    found = killed(tmp_path / "run")
    assert len(found) > 20
    texts = ["".join(words[1:-1]) for words in found]
    assert set(texts) == {"old", "new"}
    assert texts == sorted(texts, reverse=True), "from some step on it is the new one"
    assert {words[-1] for words in found} == {str(len(FILES))}
    assert [words[0] for words in found] == ["9"] * (len(found) - 1) + ["0"]
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("table") / "houses.csv")


def fill(work: Path, text: str = "new") -> None:
    for name in FILES:
        (work / NEW / name).write_text(text)


def refused(place: Path, message: str, *, overwrite: bool = False) -> None:
    with pytest.raises(TableError, match=message), held_folder(place, overwrite=overwrite, notify=str):
        pass


def make(place: Path, text: str = "old") -> None:
    with held_folder(place, overwrite=True, notify=str) as work:
        fill(work, text)
        put_in_place(work, place, overwrite=True, keep_checkpoints=False)


def test_a_second_fit_is_refused_while_the_first_is_at_work(table, tmp_path) -> None:
    with held_folder(tmp_path / "run", overwrite=False, notify=str) as work:
        with pytest.raises(TableError, match=r"another fit is at work on .*run: wait"):
            fit_table(table, "price", tmp_path / "run", reading=NO_GRADE, settings=ALONE, overwrite=True)
        assert (work / NEW).is_dir()
    assert not list(tmp_path.iterdir())


def test_the_lock_is_not_inherited_and_dies_with_its_process(tmp_path) -> None:
    program = (
        "import os, sys, time\n"
        "from gumdrop.tables.fitting.folder import held_folder\n"
        "with held_folder(sys.argv[1], overwrite=False, notify=str):\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        "        time.sleep(600)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "run")], stdout=subprocess.PIPE) as run:
        child = int(run.stdout.readline())
        try:
            refused(tmp_path / "run", "another fit")
            run.kill()
            run.wait()
            with held_folder(tmp_path / "run", overwrite=False, notify=str):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_many_fits_at_once_leave_one_whole_model(tmp_path) -> None:
    def attempt(number: int) -> str:
        try:
            make(tmp_path / "run", str(number))
        except TableError as error:
            assert "another fit is at work" in str(error)  # noqa: PT017
            return "refused"
        return str(number)

    with ThreadPoolExecutor(8) as pool:
        made = {*pool.map(attempt, range(40))} - {"refused"}
    assert made
    (text,) = {(tmp_path / "run" / name).read_text() for name in FILES}
    assert text in made
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EIO])
def test_a_drive_without_locks_is_named(monkeypatch, tmp_path, number) -> None:
    def refuse(lock, timeout):
        raise OSError(number, "no locks")

    monkeypatch.setattr(table_folder.FileLock, "acquire", refuse)
    told, expected = [], pytest.raises(OSError, match="no locks") if number == errno.EIO else contextlib.nullcontext()
    with expected, held_folder(tmp_path / "run", overwrite=False, notify=told.append) as work:
        assert work.is_dir()
    assert ["has no locks" in note for note in told] == [True] * (number == errno.ENOLCK)


# Files of other people


def test_what_comes_into_the_place_meanwhile_is_not_replaced(table, tmp_path) -> None:
    make(tmp_path / "run")

    def others(results, folder):
        (tmp_path / "run" / "thesis.txt").write_text("years")

    with pytest.raises(TableError, match=r"holds 'thesis.txt'.*came there during this fit"):
        fit_table(table, "price", tmp_path / "run", reading=NO_GRADE, settings=ALONE, overwrite=True, finish=others)
    assert (tmp_path / "run" / "thesis.txt").read_text() == "years"
    assert (tmp_path / "run" / "model.json").read_text() == "old"


def test_a_folder_that_appears_meanwhile_is_not_replaced(table, tmp_path) -> None:
    def others(results, folder):
        (tmp_path / "run").mkdir()

    with pytest.raises(TableError, match="exists already"):
        fit_table(table, "price", tmp_path / "run", reading=NO_GRADE, settings=ALONE, finish=others)
    assert not list((tmp_path / "run").iterdir())


def test_files_of_others_in_the_working_folder_stay_there(table, tmp_path) -> None:
    work = tmp_path / "run.partial"
    work.mkdir()
    theirs = ("model.json", "notes.txt", "learned.checkpoint.txt", "1.partial")
    for name in theirs:
        (work / name).write_text("mine")
    fit_table(table, "price", tmp_path / "run", reading=NO_GRADE, settings=ALONE, overwrite=True)
    assert {path.name for path in work.iterdir()} == set(theirs)
    assert "notes.txt" not in {path.name for path in (tmp_path / "run").iterdir()}
    load_table_model(tmp_path / "run")


def test_files_of_others_in_the_new_folder_are_not_moved_in(tmp_path) -> None:
    new = tmp_path / "run.partial" / NEW
    new.mkdir(parents=True)
    (new / "notes.txt").write_text("mine")
    refused(tmp_path / "run", r"new holds 'notes.txt'", overwrite=True)
    assert [path.name for path in new.iterdir()] == ["notes.txt"]


def test_a_stopped_fit_is_replaced_only_by_one_that_goes_on(tmp_path) -> None:
    make(tmp_path / "run", '{"stopped": {"done": 3, "planned": 4}}')
    refused(tmp_path / "run", "exists already; name another folder")
    (tmp_path / "run.partial").mkdir()
    (tmp_path / "run.partial" / "learned.checkpoint").write_text("3 of 4 epochs")
    with held_folder(tmp_path / "run", overwrite=False, notify=str) as work:
        assert (work / "learned.checkpoint").read_text() == "3 of 4 epochs"


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_what_only_has_the_name_of_a_result_is_not_replaced(tmp_path, kind) -> None:
    make(tmp_path / "run")
    theirs = tmp_path / "run" / "report.html"
    if kind == "link":
        theirs.symlink_to(tmp_path / "far.html")
    else:
        theirs.mkdir()
    with pytest.raises(TableError, match=r"run holds 'report\.html', which gumdrop did not make"):
        make(tmp_path / "run", "new")
    assert theirs.is_symlink() == (kind == "link")
    assert (tmp_path / "run" / "model.json").read_text() == "old"


def test_part_files_of_a_kill_are_swept(tmp_path) -> None:
    make(tmp_path / "run")
    work = tmp_path / "run.partial"
    for name in ("learned.checkpoint.77.partial", "new/model.safetensors.77.partial", "new/report.html"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("half")
    make(tmp_path / "run", "new")
    assert {path.name for path in (tmp_path / "run").iterdir()} == set(FILES)
    assert not work.exists()


def test_a_model_between_the_two_renames_is_read_from_where_it_is(table, tmp_path, monkeypatch, capsys) -> None:
    """A kill there leaves OUT absent; `predict` and `info` answer all the same, and the next fit puts it in place."""
    monkeypatch.chdir(tmp_path)
    assert main(["fit", str(table), "--drop", "grade", "--out", "run", *FIT]) == 0
    for left in ((OLD, NEW), (OLD,)):
        Path("run.partial").mkdir()
        for name in left:
            shutil.copytree("run", f"run.partial/{name}")
        shutil.rmtree("run")
        capsys.readouterr()
        assert main(["predict", "run", str(table), "--out", "rows.csv", "--overwrite"]) == 0
        assert main(["info", "run", "--json"]) == 0
        said = capsys.readouterr()
        with pytest.warns(UserWarning, match="killed while it put the model there"):
            load_table_model("run")
        with pytest.warns(UserWarning, match="killed while it put the model there"):
            read_results(Path("run"))
        words = f"killed while it put the model there: read from run.partial/{left[-1]}, which the next `gumdrop fit`"
        assert words in said.out
        assert words in said.err
        assert sorted(path.name for path in Path("run.partial").iterdir()) == sorted(left)
        with held_folder("run", overwrite=True, notify=str):
            assert whole_folder(Path("run"), str) == Path("run")
        load_table_model("run")


def test_a_model_that_a_fit_replaces_meanwhile_is_read_again(table, tmp_path, monkeypatch) -> None:
    for name, seed in (("run", "0"), ("next", "1")):
        words = ["fit", str(table), "--drop", "grade", "--seed", seed, "--out", str(tmp_path / name), *FIT]
        assert main(words) == 0
    described, wanted = model_file._description, load_table_model(tmp_path / "next").ensemble.state_dict()

    def description(path: Path) -> object:
        """Read it, and let a fit replace the folder before its weights are read."""
        found = described(path)
        if (tmp_path / "next").exists():
            (tmp_path / "run").rename(tmp_path / "old")
            (tmp_path / "next").rename(tmp_path / "run")
            shutil.rmtree(tmp_path / "old")
        return found

    monkeypatch.setattr(model_file, "_description", description)
    found = load_table_model(tmp_path / "run").ensemble.state_dict()
    assert all(found[name].equal(tensor) for name, tensor in wanted.items())
    (tmp_path / "run" / "model.safetensors").write_bytes(b"short")
    with pytest.raises(TableError, match="is missing, damaged or of another model; fit again"):
        load_table_model(tmp_path / "run")


def test_a_model_that_is_about_to_be_put_in_place_is_waited_for(tmp_path, monkeypatch) -> None:
    (tmp_path / "run.partial" / OLD).mkdir(parents=True)
    monkeypatch.setattr("time.sleep", lambda seconds: (tmp_path / "run").mkdir())
    assert whole_folder(tmp_path / "run", pytest.fail) == tmp_path / "run"


def test_a_folder_and_what_it_holds_are_on_the_disk_before_and_after_it_has_its_name(tmp_path, monkeypatch) -> None:
    synced: list[tuple[Path, bool]] = []
    monkeypatch.setattr(table_folder, "sync", lambda path: synced.append((path, (tmp_path / "run").exists())))
    make(tmp_path / "run", "new")
    work = tmp_path / "run.partial"
    assert [path for path, there in synced if not there] == [*sorted(work / NEW / name for name in FILES), work / NEW]
    assert [path for path, there in synced if there] == [work, tmp_path]


def test_a_folder_that_nobody_made_is_absent_as_before(tmp_path, shell) -> None:
    assert "holds no model.json" in shell.refused("info", tmp_path / "run")
    for place in (Path(), Path(".."), Path("/")):
        assert whole_folder(place, str) == place


def test_parts_of_a_killed_predict_are_swept_by_the_next(tmp_path) -> None:
    """The next one of the same file, and only what a process that is no more has left."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    swept = [f"rows[1].csv.{gone.pid}.partial"]
    kept = ["rows[1].csv.1.partial", "rows[1].csv.x.partial", f"rows1.csv.{gone.pid}.partial", "rows[1].csv.partial"]
    for name in swept + kept:
        (tmp_path / name).write_text("half")
    with replacing(tmp_path / "rows[1].csv") as file:
        file.write("whole")
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "rows[1].csv"}


# Places that are none


def test_a_folder_that_is_a_link_is_followed(tmp_path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "far" / "model")
    make(tmp_path / "run")
    make(tmp_path / "run", "new")
    assert (tmp_path / "run").is_symlink()
    assert (tmp_path / "far" / "model" / "model.json").read_text() == "new"
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["model"]


def test_a_file_that_is_a_link_is_followed(tmp_path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "out.csv").symlink_to(tmp_path / "far" / "rows.csv")
    for text in ("one", "two"):
        with replacing(tmp_path / "out.csv") as file:
            file.write(text)
        assert (tmp_path / "out.csv").is_symlink()
        assert (tmp_path / "far" / "rows.csv").read_text() == text
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["rows.csv"]


@pytest.mark.parametrize("kind", ["pipe", "device", "file"])
def test_a_fit_makes_no_folder_of_a_device(table, tmp_path, shell, kind) -> None:
    place = tmp_path / "out"
    if kind == "device":
        place = Path("/dev/null")
    else:
        os.mkfifo(place) if kind == "pipe" else place.write_text("mine")
    assert "and a fit makes a folder" in shell.refused("fit", table, *FIT, "--out", place, "--overwrite")
    assert place.exists()


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_no_file_takes_the_place_of_a_device(tmp_path, kind) -> None:
    place = Path("/dev/null") if kind == "device" else tmp_path / "out"
    if kind != "device":
        os.mkfifo(place) if kind == "pipe" else place.mkdir()
    with pytest.raises(FileExistsError, match=r"is a (device or a pipe|folder), and not a file"), replacing(place):
        pass
    assert not place.is_file()


@pytest.mark.parametrize("place", ["missing/run", "/", "file/run"])
def test_a_place_that_cannot_be_made_is_refused(tmp_path, place) -> None:
    (tmp_path / "file").write_text("")
    refused(tmp_path / place, "--out", overwrite=True)
