"""The noisy line: the experiment on a small scale, and its closed form."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from gumdrop_experiments.line import study
from gumdrop_experiments.line.study import SIZES, STRENGTHS, TUNED_SIZES, even_network, points

from builders.reproduced import figures_of, reproduced


def test_a_small_run_leaves_every_figure_and_number(tmp_path, constants) -> None:
    constants(study, QUICK=tuple(dataclasses.replace(scale, num_samples=4) for scale in study.QUICK))
    constants(study, BATCH_SIZE=1000)
    results = reproduced("line", tmp_path, "--quick", "--steps", 4)
    assert figures_of(tmp_path) == ["line-fits.png", "line-fits-narrow.png", "line-uncertainty.png", "line-rates.png"]
    for network in results["networks"]:
        for runs in (network["runs"], network["half_the_steps"]):
            assert [run["num_data"] for run in runs] == list(SIZES)
            assert all(len(run["rates"]) == 4 and run["aleatoric"] > 0 and run["epistemic"] > 0 for run in runs)
        assert [result["num_data"] for result in network["held_out"]] == list(TUNED_SIZES)
        for result in network["held_out"]:
            assert result["chosen"] in STRENGTHS
            assert [run["strength"] for run in result["strengths"]] == list(STRENGTHS)
            assert all(run["error"] > 0 and run["score"] < 0 for run in result["strengths"])
        assert [run["steps"] for run in network["runs"]] == [4, 4, 4, 4, 8, 20]  # whole epochs
    page = (tmp_path / "report.html").read_text()
    for words in ("1.23", "0.54", "16 units", "64 units", "A quick run", "two strengths of dropout"):
        assert words in page


def test_points_lie_about_the_line() -> None:
    x, y = points(10_000, seed=3)
    noise = y - 2 * x - 8
    assert noise.mean().abs() < 0.05
    assert noise.std() == pytest.approx(1, abs=0.03)
    assert torch.equal(points(10_000, seed=3)[1], y)
    assert not torch.equal(points(10_000, seed=4)[1], y)


def test_even_network_is_a_stationary_point_that_falls_with_data() -> None:
    width, num_data = 256, 3000

    def objective(p: float) -> float:
        variance = 3 * p / (1 - p) * 8 / width
        return 0.5 * math.log1p(variance) + 3 * width / num_data * (p * math.log(p) + (1 - p) * math.log(1 - p))

    p = even_network(num_data, width)["p"]
    assert objective(p) < min(objective(0.98 * p), objective(1.02 * p))
    found = [even_network(n, width) for n in (10, 1000, 10_000, 1_000_000)]
    assert found[0]["p"] == pytest.approx(0.5, abs=1e-3)
    for name in ("p", "epistemic", "aleatoric"):
        values = [each[name] for each in found]
        assert values == sorted(values, reverse=True)
    assert found[-1]["aleatoric"] == pytest.approx(1, abs=1e-3)
