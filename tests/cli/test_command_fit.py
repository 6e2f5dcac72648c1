"""`gumdrop fit`: its config, and its interruption."""

import json
import math
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gumdrop.cli import main
from gumdrop.ensembles import Architecture, choosing

from builders.waiting import HANG, until


def test_the_config_of_a_run_repeats_it_exactly(place, tmp_path) -> None:
    config = place / "run" / "config.toml"
    assert tomllib.loads(config.read_text())["drop"] == ["grade", "id"]
    assert main(["fit", "--config", str(config), "--out", str(tmp_path / "again"), "--quiet"]) == 0
    for name in ("model.safetensors", "predictions.csv", "model.json", "config.toml"):
        assert (tmp_path / "again" / name).read_bytes() == (place / "run" / name).read_bytes(), name


@pytest.mark.parametrize(("least_gain", "share"), [(-math.inf, 1), (math.inf, 0.4)])
def test_the_config_repeats_what_pilots_chose(least_gain, share, place, tmp_path, monkeypatch) -> None:
    worse = Architecture((4,), lengthscale=100.0)  # than the prior that is tried as well where epochs are given
    monkeypatch.setattr("gumdrop.ensembles.folds.STEPS", 100)
    monkeypatch.setattr(choosing, "LEAST_GAIN", least_gain)
    monkeypatch.setattr(choosing, "candidates", lambda num_inputs, likelihood: [worse])
    one, again = tmp_path / "one", tmp_path / "again"
    words = ["--target", "price", "--drop", "id", "grade", "--members", "5", "--no-compare", "--quiet"]
    assert main(["fit", str(place / "houses.csv"), *words, "--out", str(one)]) == 0
    assert main(["fit", "--config", str(one / "config.toml"), "--out", str(again), "--quiet"]) == 0
    of_one, of_again = (json.loads((folder / "results.json").read_text()) for folder in (one, again))
    assert of_one["settings"]["share"] == share
    assert of_again["settings"] == of_one["settings"]
    assert (again / "predictions.csv").read_bytes() == (one / "predictions.csv").read_bytes()


def test_flags_count_more_than_the_config(place, tmp_path) -> None:
    words = ["--config", str(place / "run" / "config.toml"), "--seed", "7", "--members", "3"]
    assert main(["fit", *words, "--out", str(tmp_path / "new"), "--quiet"]) == 0
    written = tomllib.loads((tmp_path / "new" / "config.toml").read_text())
    assert (written["seed"], written["members"], written["hidden"]) == (7, 3, [6])


def test_each_flag_reaches_the_fit(place, tmp_path) -> None:
    given = {
        "task": "regression", "drop": ["id", "grade"], "unit": "euro", "dates": "day-first", "decimal": ".",
        "hidden": [5, 4], "members": 2, "epochs": 3, "batch-size": 17, "lr": 0.003, "strength": 2.5, "seed": 5,
        "draws": 9, "coverage": 0.8, "test-fraction": 0.3, "split-by": "sold", "split-as": "time", "background": 40,
    }  # fmt: skip
    words = [str(place / "houses.csv"), "--target", "price", "--no-compare", "--quiet"]
    for name, value in given.items():
        words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    assert main(["fit", *words, "--out", str(tmp_path / "run")]) == 0
    written = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert {name: written[name] for name in given} == given
    assert written["compare"] is False
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert max(record["learning_rate"] for record in results["history"]) <= given["lr"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('table = "houses.csv"\ntarget = "price"\ncolour = 3\n', "colour"),
        ('table = "houses.csv"\ntarget = "price"\nepochs = "many"\n', "epochs"),
        ('table = "houses.csv"\ntarget = "price"\ncoverage = 2\n', "coverage"),
        ("table =", "config.toml"),
        ("a = " + "[" * 5000, "config.toml"),
        ('table = "houses.csv"\ntarget = "price"\nepochs = 1000000000000\n', "at most 1,000,000"),
        ('table = "houses.csv"\ntarget = "price"\nhidden = [9000000000]\n', "`hidden` must hold"),
        (None, "--config config.toml is not there"),
    ],
)
def test_a_config_that_cannot_be_used_is_explained(place, tmp_path, monkeypatch, shell, text, message) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("config.toml").write_text(text)
    said = shell.refused("fit", "--config", "config.toml")
    assert message in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_an_interrupted_fit_leaves_a_model_and_goes_on(place, tmp_path) -> None:
    hurry = "import gumdrop.training.state as s; s.SECONDS_BETWEEN_CHECKPOINTS = 0.1; "
    # A shell starts what it runs in the background, such as these tests, with interruptions ignored.
    hurry += "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    words = [sys.executable, "-c", hurry + "from gumdrop.cli.commands import main; raise SystemExit(main())", "fit"]
    words += [str(place / "houses.csv"), "--target", "grade", "--drop", "price", "id", "--out", str(tmp_path / "run")]
    words += ["--epochs", "100000", "--members", "2", "--hidden", "6", "--draws", "6", "--json"]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    checkpoint = tmp_path / "run.partial" / "learned.checkpoint"
    until(lambda: checkpoint.exists() or run.poll() is not None, "no checkpoint")
    assert run.poll() is None, run.communicate()
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=HANG)
    assert run.returncode == 130, err
    stopped = json.loads(out)["stopped"]
    assert 0 < stopped["done"] < stopped["planned"] == 100000
    assert "holds the model as it was then" in err
    assert (tmp_path / "run" / "report.html").is_file()
    assert main(["predict", str(tmp_path / "run"), str(place / "houses.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    assert (tmp_path / "run.partial" / "learned.checkpoint").is_file()
