"""Sweeps: parts of an experiment in processes of their own, here, through submitit, and as torchrun starts them."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from gumdrop_experiments.harness.parts import _CrashError, _tried, launch
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.settings import RunOptions

from builders.pieces import note, sweep
from builders.processes import environment, run_two
from builders.waiting import HANG

KINDS = {"once": "killed once", "wrong": "error"}


def calls_of(folder: Path) -> dict[str, int]:
    return {name: len((folder / name).read_text()) for name in KINDS}


def test_a_piece_that_always_crashes_is_reported() -> None:
    def attempt(name, call):
        raise _CrashError("was killed by signal 9")

    said: list[str] = []
    assert _tried("bad", int, attempt, said.append) == "was killed by signal 9, 2 times"
    assert said == ["bad was killed by signal 9; it is tried again", "bad failed: was killed by signal 9, 2 times"]


@pytest.mark.slow
def test_submitit_runs_the_same_pieces(tmp_path, monkeypatch) -> None:
    job = pytest.importorskip("submitit").core.core.Job
    monkeypatch.setattr(job, "_results_timeout_s", 1)  # on this disk, what a job leaves is there when it ends
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    said: list[str] = []
    work = {name: partial(note, tmp_path, name, KINDS[name]) for name in ("once", "wrong")}
    problems = launch(work, jobs=2, launcher="submitit", folder=tmp_path / "jobs", notify=said.append)
    assert problems == {"wrong": "ValueError: no such thing"}
    assert (tmp_path / "once").read_text() == "xx"
    assert any(text.startswith("once left no result as job") for text in said)


@pytest.mark.slow
def test_what_is_done_is_kept_a_crash_is_tried_again_and_an_error_is_named(tmp_path, capfd) -> None:
    out = tmp_path / "out"
    with pytest.raises(ChildProcessError, match=r"1 of 2 parts failed; the others are kept.*\nwrong: ValueError"):
        sweep(tmp_path, out, {"once": "killed once", "wrong": "error"}, jobs=2)
    assert "once was killed by signal 9; it is tried again" in capfd.readouterr().out
    found = sweep(tmp_path, out, {"once": "good", "wrong": "good"})
    assert found == {"once": {"length": 4}, "wrong": {"length": 5}}
    assert [len((tmp_path / name).read_text()) for name in ("once", "wrong")] == [2, 2]
    assert not list(out.rglob("*.partial"))


JOB = """
import pathlib, sys
import gumdrop.tables, gumdrop.views.report  # once for both processes
from builders import pieces, processes
from gumdrop import cli
processes.fork()
place = pathlib.Path(sys.argv[1])
pieces.sweep(place, place / "out", dict.fromkeys(["once", "wrong"], "good"))
flags = ["--members", "3", "--epochs", "2", "--target", "y", "--no-compare", "--out"]
sys.exit(cli.main(["fit", str(place / "rows.csv"), *flags, str(place / "fit")]))
"""


@pytest.mark.slow
def test_processes_as_of_torchrun_share_the_work_and_one_writes(tmp_path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{i},{i * i % 17 + 0.5}\n" for i in range(40)))
    said = run_two(tmp_path / "job.py", tmp_path)
    assert set(calls_of(tmp_path).values()) == {1}
    assert said.count("Look at") == 2  # the page of the sweep, and that of the fit
    assert sorted(path.name for path in (tmp_path / "fit").glob("model*")) == ["model.json", "model.safetensors"]
    assert not (tmp_path / "fit.partial").exists()
    best = json.loads((tmp_path / "fit" / "results.json").read_text())["best_epochs"]
    assert best in ([2] * 3, [2] * 6)  # members of one strength of dropout, or of both
    assert '"total": 9' in (tmp_path / "out" / "results.json").read_text()


STAYING = """
import pathlib, sys
from builders import pieces
from gumdrop_experiments.harness.parts import launch
if __name__ == "__main__":
    launch({"long": pieces.stay}, jobs=1, folder=pathlib.Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_pieces_of_a_killed_run_end(tmp_path) -> None:
    (tmp_path / "job.py").write_text(STAYING)
    run = subprocess.Popen(
        [sys.executable, str(tmp_path / "job.py"), str(tmp_path)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    piece = int(run.stdout.readline())
    run.kill()
    try:
        run.communicate(timeout=HANG)  # the piece holds the pipe, too: this waits for both
    except subprocess.TimeoutExpired:
        os.kill(piece, signal.SIGKILL)
        raise


def test_a_part_of_uci_can_travel_to_another_process(tmp_path) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    from gumdrop_experiments.data.uci import read_splits  # not above, where each process of these tests would load them
    from gumdrop_experiments.uci import study as uci
    from gumdrop_experiments.uci.work import Work

    from builders.uci import write_set

    write_set(tmp_path / "uci" / "diabetes")
    work = Work("diabetes", read_splits(tmp_path / "uci" / "diabetes", most=1), 0, 2)
    with Run("uci", RunOptions(out=tmp_path / "out")) as run:
        call = partial(uci.part, run, "no-dropout", work)
        one, two = call(), cloudpickle.loads(cloudpickle.dumps(call))()
    assert one | {"seconds": 0} == two | {"seconds": 0}
