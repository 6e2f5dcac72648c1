"""The room that experiments live in: parts, stop and resume, what a run leaves, and its page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gumdrop_experiments
from gumdrop import cli
from gumdrop.cli.reproduce import reproduce as experiments
from gumdrop.networks import mlp
from gumdrop.training import fit
from gumdrop_experiments.catalogue import EXPERIMENTS
from gumdrop_experiments.harness.reproduce import command, reproduce
from gumdrop_experiments.harness.run import Run, command_line
from gumdrop_experiments.harness.settings import RunOptions, data_folder
from gumdrop_experiments.pages.page import Table

from builders.browser import views
from builders.sums import ABOUT, Settings
from builders.sums.study import CALLS

PACKAGE = "builders.sums"


def sums(out: Path | None = None, *, seed: int = 0, quick: bool = False, resume: bool = False, **settings) -> None:
    """Run the small experiment."""
    reproduce(PACKAGE, RunOptions(out=out, seed=seed, quick=quick, resume=resume), Settings(**settings))


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr("gumdrop.cli.reproduce.EXPERIMENTS", {**EXPERIMENTS, "sums": ABOUT})
    experiments.command(command(PACKAGE), name="sums")
    CALLS.clear()
    yield
    del experiments["sums"]


def results_of(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())


# What a run leaves


def test_a_run_leaves_results_figures_parts_and_a_page(tmp_path) -> None:
    sums(tmp_path / "out", seed=4, width=2)
    results = results_of(tmp_path / "out")
    assert results["results"] == {"sums": {"N=2": [2, 2], "N=5": [5, 20]}}
    assert results["command"] == "gumdrop reproduce sums --seed 4 --device cpu --width 2 --sizes 2 5"
    assert (results["seed"], results["quick"], results["width"], results["figures"]) == (4, False, 2, ["tiny-sums.png"])
    assert results["environment"]["torch"] == torch.__version__
    names = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    assert names == {"results.json", "run.json", "report.html", "tiny-sums.png", "parts/N=2.json", "parts/N=5.json"}
    assert str(tmp_path) not in (tmp_path / "out" / "results.json").read_text()
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Sums &lt;by size&gt;" in page
    assert '<td class="best">2</td>' in page
    assert "A quick run" not in page


def test_the_command_in_the_results_gives_the_same_results(tmp_path, monkeypatch) -> None:
    sums(tmp_path / "a", quick=True, sizes=(7, 3))
    a = results_of(tmp_path / "a")
    assert a["width"] == 2  # that of a quick run
    monkeypatch.chdir(tmp_path)
    assert cli.main(a["command"].split()[1:]) == 0
    default = tmp_path / "runs" / "sums"
    assert {**a, "seconds": 0} == {**results_of(default), "seconds": 0}
    assert "A quick run" in (default / "report.html").read_text()


def test_the_command_has_one_flag_for_several_values() -> None:
    settings = {"regularisers": [0.01, 100.0], "ways": ["fixed 0.5", "learned"], "dataset": [], "splits": None}
    words = "gumdrop reproduce uci --regularisers 0.01 100.0 --ways 'fixed 0.5' learned"
    assert command_line("uci", settings) == words


# Stop and resume


def test_a_stopped_run_goes_on(tmp_path, shell) -> None:
    words = ["reproduce", "sums", "--out", tmp_path / "out", "--resume"]
    assert "the same command with --resume goes on in" in shell.said(*words, "--stop", "N=5", status=130)
    assert "N=2 was done before" in shell.said(*words)
    assert CALLS == ["N=2", "N=5", "N=5"]
    whole = results_of(tmp_path / "out")["results"]
    sums(tmp_path / "at once")
    assert whole == results_of(tmp_path / "at once")["results"]


def test_figures_and_page_are_drawn_again_without_computing(tmp_path) -> None:
    sums(tmp_path)
    seconds = results_of(tmp_path)["seconds"]
    for name in ("report.html", "tiny-sums.png"):
        (tmp_path / name).unlink()
    CALLS.clear()
    sums(tmp_path, resume=True)
    assert CALLS == []
    assert (tmp_path / "report.html").is_file()
    assert results_of(tmp_path)["seconds"] >= seconds


def test_other_settings_are_named(tmp_path) -> None:
    sums(tmp_path)
    before = (tmp_path / "run.json").read_text()
    with pytest.raises(FileExistsError, match="holds a run of sums; add --resume"):
        sums(tmp_path)
    with pytest.raises(ValueError, match=r"other settings \(seed was 0, is 1; width was 3, is 4\)"):
        sums(tmp_path, seed=1, resume=True, width=4)
    with (
        pytest.raises(ValueError, match=r"experiment was sums, is other"),
        Run("other", RunOptions(out=tmp_path, resume=True)),
    ):
        pass
    assert (tmp_path / "run.json").read_text() == before


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("out", ["", "thesis.tex"])
def test_what_is_no_run_is_left_alone(tmp_path, out, resume) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match="no run"):
        sums(tmp_path / out, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_damaged_part_says_what_to_do(tmp_path) -> None:
    sums(tmp_path)
    (tmp_path / "parts" / "N=2.json").write_text("{")
    with pytest.raises(ValueError, match=r"N=2.json is damaged .* delete it"):
        sums(tmp_path, resume=True)


def test_a_part_is_what_json_can_hold_and_has_a_name_of_its_own(tmp_path) -> None:
    with Run("names", RunOptions(out=tmp_path), notify=lambda note: None) as run:
        assert run.part("one", lambda: {1: (2.5, None)}) == {"1": [2.5, None]}
        for value in (float("nan"), torch.ones(2)):
            with pytest.raises(ValueError, match="part 'bad' must hold finite numbers, texts"):
                Run("bad", RunOptions(out=tmp_path / "new", resume=True)).part("bad", lambda value=value: value)
        with pytest.raises(ValueError, match="'one' is used twice"):
            run.part("one", dict)
        with pytest.raises(ValueError, match="'a/b' is no plain file name"):
            run.part("a/b", dict)
        assert not (tmp_path / "parts" / "bad.json").exists()


def test_a_training_goes_on_from_its_checkpoint(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("gumdrop.training.state.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    x = torch.linspace(-1, 1, 8).unsqueeze(1)

    def train(run: Run, stop: bool) -> list[float]:
        def likelihood(output, target):
            nonlocal steps
            steps += 1
            if stop and steps == 4:
                raise KeyboardInterrupt
            return (output[:, :1] - target).square().sum(1)

        steps = 0
        torch.manual_seed(0)
        network = mlp(1, 2, hidden=(4,))
        checkpoint = run.checkpoint("network")
        result = fit(network, (x, x), likelihood=likelihood, lengthscale="weak", epochs=5, checkpoint=checkpoint)
        return [steps, *(record.nll for record in result.history)]

    options = RunOptions(out=tmp_path / "a", resume=True)
    with pytest.raises(KeyboardInterrupt, match="--resume"), Run("train", options) as run:
        run.part("network", lambda: train(run, stop=True))
    assert (tmp_path / "a" / "parts" / "network.checkpoint").is_file()
    with Run("train", options) as run:
        steps, *losses = run.part("network", lambda: train(run, stop=False))
    assert steps == 2
    assert not (tmp_path / "a" / "parts" / "network.checkpoint").exists()
    with Run("train", RunOptions(out=tmp_path / "b")) as run:
        assert run.part("network", lambda: train(run, stop=False)) == [5, *losses]


# Options and data


def test_the_folder_of_a_data_set(tmp_path, monkeypatch) -> None:
    options = RunOptions(data=tmp_path / "data")
    with pytest.raises(FileNotFoundError, match=r"data has no folder 'uci'; .* with --data"):
        data_folder(options, "uci")
    (tmp_path / "data" / "uci").mkdir(parents=True)
    assert data_folder(options, "uci") == tmp_path / "data" / "uci"
    with pytest.raises(FileNotFoundError, match=r"lacks the file boston/data\.txt; put it there"):
        data_folder(options, "uci", files=["boston/data.txt"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError, match=r"'uci' is not in .*cache.gumdrop; put its files into"):
        data_folder(RunOptions(), "uci")
    (tmp_path / "cache" / "gumdrop" / "uci").mkdir(parents=True)
    assert data_folder(RunOptions(), "uci") == tmp_path / "cache" / "gumdrop" / "uci"


# The command line


def test_the_list_says_what_each_shows(shell) -> None:
    for words in (["reproduce", "--list"], ["reproduce"]):
        said = shell.said(*words)
        assert "sums (2 minutes; 0.1 with --quick)" in said
        assert "sums of ranges" in said
        assert "Data: none to be fetched" in said
        assert "Data: mnist, images" in said
        assert "nobody [2020]" in said


def test_an_unknown_experiment_is_told_the_names(shell) -> None:
    said = shell.refused("reproduce", "suns", "--quick", "--seed", "3")
    assert "there is no experiment 'suns'; there are: " in said
    assert "sums. See" in said


def test_shared_flags_are_told_by_each_experiment(shell) -> None:
    said = shell.said("reproduce", "sums", "--help")
    for flag in ("--data", "--out", "--seed", "--quick", "--device", "--resume", "--jobs", "--launcher", "--width"):
        assert f" {flag} " in said
    assert "--no-quick" not in said
    assert "Go on with a run that was stopped." in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "-1"], "`seed` must be at least 0, got -1"),
        (["--jobs", "0"], "`jobs` must be at least 1, got 0"),
        (["--sead", "1"], "--sead"),
    ],
)
def test_a_bad_flag_is_one_line(words, message, shell) -> None:
    assert message in shell.refused("reproduce", "sums", *words)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_experiment_is_whole(name, shell) -> None:
    said = shell.said("reproduce", name, "--help")
    assert f"{EXPERIMENTS[name].shows[1:]}." in said
    assert "--quick" in said
    assert "SETTINGS" not in said
    assert EXPERIMENTS[name].minutes[1] < EXPERIMENTS[name].minutes[0]


def test_the_list_has_every_package_that_is_an_experiment() -> None:
    studies = Path(gumdrop_experiments.__file__).parent.glob("*/study.py")
    assert set(EXPERIMENTS) == {study.parent.name for study in studies}


def test_the_makefile_and_the_docs_have_the_list() -> None:
    root = Path(__file__).parents[2]
    makefile = (root / "Makefile").read_text()
    assert set(re.search(r"^EXPERIMENTS := (.*)$", makefile, re.M)[1].split()) == set(EXPERIMENTS)
    docs = (root / "docs" / "experiments.md").read_text()
    assert set(re.findall(r"gumdrop reproduce (\w+)", docs)) - {"NAME"} == set(EXPERIMENTS)
    data = re.search(r"names the folder with (.*?)\)", docs, re.S)[1]
    assert set(re.findall("`(.*?)`", data)) == {name for about in EXPERIMENTS.values() for name in about.data}


def test_the_list_needs_no_torch() -> None:
    code = "import sys, gumdrop_experiments.catalogue; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_what_fails_before_the_first_part_leaves_nothing(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="no sizes"):
        sums(tmp_path / "out", sizes=())
    assert not (tmp_path / "out").exists()


# The page


def test_a_row_of_another_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="must have 2 cells, got 3"):
        Table("caption", ["a", "b"], [["1", "2", "3"]])


def test_the_page_in_a_browser(browser, tmp_path) -> None:
    sums(tmp_path, quick=True, sizes=(2, 5, 10, 20, 30, 40, 50, 60))
    for page in views(browser, (tmp_path / "report.html").as_uri()):
        assert page.evaluate("document.querySelector('figure svg').getBBox().width") > 0
