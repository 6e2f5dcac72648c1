import itertools
import statistics
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gumdrop import metrics
from gumdrop.likelihoods import LIKELIHOODS, ClassificationPrediction, RegressionPrediction, TargetScale, scaled_mixture


def mixture(num_draws: int = 7, num_rows: int = 5, seed: int = 0) -> RegressionPrediction:
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(num_draws, num_rows, 1, generator=generator, dtype=torch.float64) * 2
    variances = torch.rand(num_draws, num_rows, 1, generator=generator, dtype=torch.float64) + 0.3
    return RegressionPrediction(means.mean(0), means.var(0, correction=0), variances.mean(0), means, variances)


def simulate(prediction: RegressionPrediction, size: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    means, variances = prediction.draw_means, prediction.draw_variances
    chosen = torch.randint(len(means), (size,), generator=generator)
    noise = torch.randn(size, *means.shape[1:], generator=generator, dtype=means.dtype)
    return means[chosen] + noise * variances[chosen].sqrt()


def test_rmse_accuracy_and_coverage() -> None:
    assert metrics.rmse(torch.tensor([1.0, 2.0]), torch.tensor([4.0, 6.0])).item() == pytest.approx(12.5**0.5)
    assert metrics.accuracy(torch.tensor([1, 2, 0]), torch.tensor([1, 0, 0])).item() == pytest.approx(2 / 3)
    lower, upper = torch.tensor([[0.3]]).expand(5, 1), torch.tensor([[2.5]]).expand(5, 1)
    target = torch.tensor([[0.29], [0.3], [1.0], [2.5], [2.51]])  # both ends belong to the interval
    assert metrics.interval_coverage(lower, upper, target).item() == pytest.approx(0.6)


def test_crps_of_one_gaussian_has_its_textbook_value() -> None:
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    prediction = RegressionPrediction(one[0], 0 * one[0], 4 * one[0], one, 4 * one)
    # Gneiting & Raftery 2007, eq. 21, at the mean: sigma (2 phi(0) - 1/sqrt(pi))
    assert metrics.crps(prediction, one[0]).item() == pytest.approx(2 * (0.7978845608 - 0.5641895835), rel=1e-6)


def test_central_coverage_of_what_the_mixture_itself_draws_is_the_level() -> None:
    prediction = mixture()
    levels = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    targets = simulate(prediction, 4000)
    observed = torch.stack([metrics.central_coverage(prediction, y, levels) for y in targets])
    assert observed.mean(0).tolist() == pytest.approx(levels.tolist(), abs=0.02)
    ends = prediction.interval(0.9)
    for y, found in zip(targets[:20], observed[:, 2], strict=False):
        assert found.item() == pytest.approx(metrics.interval_coverage(*ends, y).item())


def classes(probabilities: list[list[float]]) -> ClassificationPrediction:
    log_p = torch.tensor(probabilities, dtype=torch.float64).log()
    return ClassificationPrediction(log_p, torch.special.entr(log_p.exp()).sum(1))


@pytest.mark.parametrize(
    ("confidence", "correct", "rows", "expected"),
    [
        ([0.9, 0.9, 0.7, 0.55], [1, 0, 1, 1], [1, 1, 2], ([0.55, 0.7, 0.9], [1.0, 1.0, 0.5])),
        ([0.52, 0.58, 0.64, 0.66, 0.97], [1, 1, 0, 1, 1], [2, 2, 1], ([0.55, 0.65, 0.97], [1.0, 0.5, 1.0])),
        ([1.0, 0.96, 1.0], [1, 0, 1], [3], ([2.96 / 3], [2 / 3])),  # certain, together with what is nearly so
    ],
)
def test_bins_by_hand(confidence, correct, rows, expected) -> None:
    prediction = classes([[p, 1 - p] for p in confidence])
    target = 1 - torch.tensor(correct)
    bins = metrics.reliability(prediction, target, num_bins=10)
    assert bins.num_rows.tolist() == rows
    assert bins.confidence.tolist() == pytest.approx(expected[0])
    assert bins.accuracy.tolist() == pytest.approx(expected[1])
    error = sum(n * abs(p - share) for n, p, share in zip(rows, *expected, strict=True)) / sum(rows)
    assert metrics.calibration_error(prediction, target, num_bins=10).item() == pytest.approx(error)


def test_bins_of_more_pixels_than_float32_counts() -> None:
    pixels = 2**24 + 2**20
    log_p = torch.tensor([0.75, 0.25]).log()[None, :, None].expand(1, 2, pixels)
    prediction = ClassificationPrediction(log_p, torch.zeros(1, pixels))
    bins = metrics.reliability(prediction, torch.zeros(1, pixels, dtype=torch.int8))
    assert (bins.confidence.item(), bins.accuracy.item()) == pytest.approx((0.75, 1.0))


def test_brier_score_by_hand() -> None:
    prediction = classes([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.0, 1.0, 0.0]])
    target = torch.tensor([0, 0, 2])
    expected = (0.3**2 + 0.2**2 + 0.1**2 + 0.7**2 + 0.3**2 + 0.4**2 + 1 + 1) / 3
    assert metrics.brier_score(prediction, target).item() == pytest.approx(expected)
    pixels = ClassificationPrediction(prediction.log_probabilities.T[None], torch.zeros(1, 3))
    assert metrics.brier_score(pixels, target[None]).item() == pytest.approx(expected)


def naive_aurc(uncertainty: list[float], loss: list[float]) -> float:
    """Mean over all orders of equally sure rows, from the surest on, of the mean loss of the k surest, over all k."""
    areas = []
    for order in itertools.permutations(range(len(loss))):
        if all(uncertainty[a] <= uncertainty[b] for a, b in itertools.pairwise(order)):
            risks = [statistics.fmean(loss[i] for i in order[: k + 1]) for k in range(len(order))]
            areas.append(statistics.fmean(risks))
    return statistics.fmean(areas)


@pytest.mark.parametrize(
    "uncertainty", [[0.3, 0.1, 0.9, 0.5, 0.2], [0.3, 0.1, 0.3, 0.3, 0.1], [2.0] * 5, [0.1, 0.2, 0.2, 0.2, 0.9]]
)
def test_area_under_the_risk_coverage_curve_against_its_definition(uncertainty) -> None:
    for loss in ([0.0, 0.0, 1.0, 1.0, 0.0], [0.5, 0.1, 2.0, 0.3, 7.0]):
        found = metrics.aurc(torch.tensor(uncertainty), torch.tensor(loss)).item()
        assert found == pytest.approx(naive_aurc(uncertainty, loss), rel=1e-6)


def test_area_under_the_risk_coverage_curve_at_its_limits() -> None:
    loss = torch.tensor([False, True, False, True])
    assert metrics.aurc(torch.zeros(4), loss).item() == 0.5  # no order, so the mean loss
    assert metrics.aurc(torch.tensor([0.0, 2.0, 1.0, 3.0]), loss).item() == pytest.approx((1 / 3 + 2 / 4) / 4)
    assert metrics.aurc(torch.tensor([3.0, 0.0, 2.0, 1.0]), loss).item() == pytest.approx((1 + 1 + 2 / 3 + 0.5) / 4)
    grid = torch.arange(4.0).view(2, 2)
    assert metrics.aurc(grid, grid) == metrics.aurc(grid.flatten(), grid.flatten())
    with pytest.raises(ValueError, match=r"`loss` must have the shape of `uncertainty`, \(4,\), got \(4, 1\)"):
        metrics.aurc(torch.zeros(4), loss[:, None])


@pytest.mark.parametrize(
    "call",
    [
        lambda: metrics.rmse(torch.zeros(3), torch.zeros(3, 1)),
        lambda: metrics.accuracy(torch.zeros(3), torch.zeros(4)),
        lambda: metrics.interval_coverage(torch.zeros(3, 1), torch.zeros(3, 1), torch.zeros(3)),
        lambda: metrics.crps(mixture(), torch.zeros(5)),
        lambda: metrics.central_coverage(mixture(), torch.zeros(5), torch.tensor([0.5])),
        lambda: metrics.brier_score(classes([[0.5, 0.5]]), torch.tensor([[0]])),
        lambda: metrics.reliability(classes([[0.5, 0.5]]), torch.tensor([[0]])),
    ],
)
def test_shapes_never_broadcast(call) -> None:
    with pytest.raises(ValueError, match="`target` must have the shape"):
        call()


@pytest.mark.parametrize("kind", ["student_t", "poisson", "negative_binomial"])
def test_other_predictions_are_covered_or_refused_by_their_names(kind: str) -> None:
    output = torch.randn(6, 300, 1 if kind == "poisson" else 2, generator=torch.Generator().manual_seed(0))
    prediction = LIKELIHOODS[kind].predict([output], 6)
    quantiles = [prediction.quantile(p) for p in (0.02, 0.1, 0.4, 0.6, 0.9, 0.98)]
    for i, target in enumerate(quantiles):
        found = metrics.central_coverage(prediction, target, torch.tensor([0.5, 0.9])).tolist()
        inside = [float(i in (2, 3)), float(0 < i < 5)]
        assert found == inside if kind == "student_t" else all(a >= b for a, b in zip(found, inside, strict=True))
    for refused in (lambda: metrics.crps(prediction, target), lambda: metrics.choose_jointly(prediction, 2)):
        with pytest.raises(TypeError, match=f"mixture of Gaussians.*got {type(prediction).__name__}"):
            refused()


class _Largest(TorchDispatchMode):
    """The largest result of an operation, in numbers."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not func.is_view:
            self.numbers = max(self.numbers, result.numel())
        return result


@pytest.mark.parametrize("kind", ["plain", "log"])
def test_many_rows_are_scored_in_parts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    means, variances, target = torch.randn(20, 50, 1), torch.rand(20, 50, 1) + 0.1, torch.rand(50, 1) + 0.5
    prediction = RegressionPrediction(means.mean(0), means.var(0), variances.mean(0), means, variances)
    if kind == "log":
        prediction = prediction.on(TargetScale(least=0.0, kind="log"))

    def scores() -> list[Tensor]:
        ends = prediction.interval(0.9)
        whole = [metrics.crps(prediction, target), prediction.log_prob(target), prediction.cdf(target), *ends]
        return [*whole, prediction.log_probability(target - 0.1, target + 0.1)]

    expected = scores()
    monkeypatch.setattr(scaled_mixture, "AT_ONCE", 7 * 20)
    with _Largest() as largest:
        found = scores()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)  # quantiles are no closer
    assert largest.numbers <= 7 * 20
