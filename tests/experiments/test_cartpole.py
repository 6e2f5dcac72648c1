"""`gumdrop reproduce cartpole` on a small scale."""

import threading

import pytest
from PIL import Image

from gumdrop_experiments.cartpole import study
from gumdrop_experiments.cartpole.control import swing_up
from gumdrop_experiments.cartpole.study import VARIANTS
from gumdrop_experiments.harness import parts

from builders.reproduced import reproduce, reproduced, results_of


@pytest.fixture(autouse=True)
def _small(monkeypatch, constants):
    for name, value in {"hidden": (8, 8), "model_steps": 8, "policy_steps": 2, "num_policies": 2}.items():
        monkeypatch.setitem(study.QUICK, name, value)
    constants(swing_up, FRAMES_PER_STEP=1, FINER=1)
    constants(study, HELD_OUT_TRIALS=2, NUM_STARTS=5)


@pytest.mark.slow
def test_two_short_trials_leave_every_figure_and_number(tmp_path, capsys):
    words = ["--quick", "--trials", 2, "--seeds", 2]
    results = reproduced("cartpole", tmp_path, *words)
    assert "learned, seed 1, trial 2 of 2: reward" in capsys.readouterr().out
    assert list(results["arms"]) == list(results["settings"]) == list(VARIANTS)
    for variant, runs in results["arms"].items():
        assert [len(run) for run in runs] == [2, 2]
        first, second = runs[0]
        assert "held_out" not in first
        assert second["held_out"]["error"] > 0
        assert (second["held_out"]["epistemic"] > 0) == (variant != "none")
        assert len(second["rates"]) == (3 if variant == "learned" else 0)
        assert len(second["distance"]) == 25
        assert results["summary"][variant]["median"] == pytest.approx(sum(run[-1]["reward"] for run in runs) / 2)
    starts = [results["arms"][variant][0][0] for variant in VARIANTS]
    assert starts[0]["distance"] == starts[1]["distance"] == starts[2]["distance"]  # the same random trial for all
    assert "states" in starts[0]
    assert "states" not in starts[1]
    with Image.open(tmp_path / "cartpole.gif") as picture:
        assert picture.n_frames > 10
    page = (tmp_path / "report.html").read_text()
    for text in ("A quick run", "16.5", "Without a model", "learned rates"):
        assert text in page
    # Searches go on from their states: with a part deleted, the same numbers come without a new trial.
    (tmp_path / "parts" / "learned-0.json").unlink()
    assert reproduce("cartpole", tmp_path, *words, "--resume") == 0
    assert results_of(tmp_path) == results


def test_pendulum_runs_by_a_flag_and_searches_can_travel_to_other_processes(tmp_path, monkeypatch):
    cloudpickle, lock = pytest.importorskip("cloudpickle"), threading.Lock()

    def in_turn(name, call, *, threads):
        with lock:
            return parts._guarded(cloudpickle.loads(cloudpickle.dumps(call)), threads)

    monkeypatch.setattr(parts, "_in_process", in_turn)
    words = ["--quick", "--environment", "pendulum", "--trials", 2, "--seeds", 1, "--jobs", 2]
    assert reproduced("cartpole", tmp_path, *words)["summary"]["learned"]["median"] < 0
    assert not (tmp_path / "cartpole.gif").exists()
