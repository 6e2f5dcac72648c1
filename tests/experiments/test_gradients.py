"""`gumdrop reproduce gradients` on made-up digits and rows, and the estimators that it compares."""

import pytest
import torch

from gumdrop_experiments.gradients import study
from gumdrop_experiments.gradients.estimators import ESTIMATORS, RELAXED, exact_gradient
from gumdrop_experiments.gradients.uci import SETS
from gumdrop_experiments.networks import convolutional

from builders.digits import write_digits
from builders.reproduced import reproduced
from builders.uci import write_set

WEIGHT = torch.tensor([1.5, -2.0, 0.7, 3.0], dtype=torch.float64)
LOGIT = torch.tensor([0.0, -1.0, 2.0, 0.5], dtype=torch.float64)


def curved(masks: torch.Tensor) -> torch.Tensor:
    return (masks @ WEIGHT).square() + (3 * masks[:, 0] * masks[:, 3]).sin()


def noise(rows: int) -> torch.Tensor:
    return torch.rand(2, rows, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_enumeration_agrees_with_the_derivative_of_a_linear_expectation() -> None:
    p = torch.sigmoid(LOGIT)
    torch.testing.assert_close(exact_gradient(LOGIT, lambda masks: masks @ WEIGHT), -WEIGHT * p * (1 - p))


@pytest.mark.parametrize("name", ["REINFORCE", "DisARM"])
def test_unbiased_estimators_average_to_the_exact_gradient(name) -> None:
    rows = 200_000
    slope, values = ESTIMATORS[name](LOGIT.expand(rows, 4), noise(rows), curved, 0.1)
    error = slope.std(dim=0) / rows**0.5
    assert ((slope.mean(0) - exact_gradient(LOGIT, curved)).abs() < 4 * error).all()
    assert values.shape == (rows,)


def test_disarm_varies_less_than_reinforce() -> None:
    variances = [
        ESTIMATORS[name](LOGIT.expand(50_000, 4), noise(50_000), curved, 0.1)[0].var(dim=0).sum()
        for name in ("DisARM", "REINFORCE")
    ]
    assert variances[0] < variances[1]


@pytest.mark.parametrize("temperature", [0.05, 0.1, 1.0])
def test_the_three_forms_of_the_relaxation_are_one_gradient(temperature) -> None:
    slopes = [f(LOGIT.expand(500, 4), noise(500), curved, temperature)[0] for f in RELAXED.values()]
    torch.testing.assert_close(slopes[0], slopes[2], rtol=1e-3, atol=1e-4)  # the original's margin of 1e-7
    torch.testing.assert_close(slopes[1], slopes[2], equal_nan=True)


def test_relaxations_come_close_to_the_exact_gradient_as_the_temperature_falls() -> None:
    exact = exact_gradient(LOGIT, curved)
    errors = [
        (ESTIMATORS["ours"](LOGIT.expand(100_000, 4), noise(100_000), curved, t)[0].mean(0) - exact).norm()
        / exact.norm()
        for t in (1.0, 0.1)
    ]
    assert errors[1] < 0.05 < errors[0]


def test_straight_through_is_exact_where_the_objective_is_linear() -> None:
    slope, _ = ESTIMATORS["straight-through"](LOGIT.expand(10, 4), noise(10), lambda masks: masks @ WEIGHT, 0.1)
    torch.testing.assert_close(slope.mean(0), exact_gradient(LOGIT, lambda masks: masks @ WEIGHT))


def test_a_run_leaves_its_numbers_and_figures(tmp_path, monkeypatch) -> None:
    data = tmp_path / "data"
    write_digits(data / "mnist", count=1030)
    for name in SETS:
        write_set(data / "uci" / name)
    monkeypatch.setattr(convolutional, "CLASSIFIER_STEPS", 20)
    monkeypatch.setattr(study, "EPOCHS", 1)
    words = ["--runs", 2, "--iterations", 2, "--num-draws", 50, "--splits", 2]
    results = reproduced("gradients", tmp_path / "out", *words, data=data)
    for form in ("original", "simplified"):
        for t in ("0.1", "1"):
            ours = results["norms"][f"ours t={t}"]["mean"]
            assert results["norms"][f"{form} t={t}"]["mean"] == pytest.approx(ours, rel=1e-2)
    assert set(results["uci"]) == set(SETS)
