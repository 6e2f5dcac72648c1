"""Mixtures on the scale of a logarithm, cut off at a bound, or beside values that many rows share: against draws."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from gumdrop.likelihoods import PLAIN, HurdlePrediction, RegressionPrediction, TargetScale, scaled_mixture
from gumdrop.likelihoods.hurdle import Hurdle
from gumdrop.likelihoods.target_scale import Kind
from gumdrop.metrics import central_coverage, crps

SCALES = [
    TargetScale(),
    TargetScale(least=0.7),
    TargetScale(least=0.0, kind="log"),
    TargetScale(least=-1.0, step=0.5, kind="log"),
    TargetScale(least=-0.5, kind="log", horizon=1.5),
    TargetScale(least=0.5, step=0.5),
    TargetScale(least=0.2, kind="sqrt"),
    TargetScale(least=0.0, step=0.5, kind="sqrt"),
]
WITH_ATOMS = [
    TargetScale(atoms=(-1.0, 0.5, 2.5)),
    TargetScale(least=0.0, atoms=(0.0,)),
    TargetScale(least=0.0, step=0.5, kind="sqrt", atoms=(0.0, 2.0)),
    TargetScale(least=0.0, kind="log", atoms=(0.0, 2.5)),
    TargetScale(least=0.7, kind="censored", atoms=(0.7,)),
]


def parts_of(scale: TargetScale, num_rows: int) -> list[RegressionPrediction]:
    generator = torch.Generator().manual_seed(1)
    means = 0.6 + 0.4 * torch.randn(4, num_rows, 1, generator=generator, dtype=torch.float64)
    variances = 0.1 + 0.4 * torch.rand(4, num_rows, 1, generator=generator, dtype=torch.float64)
    parts = [RegressionPrediction.gaussian(m, v) for m, v in zip(means, variances, strict=True)]
    if scale.atoms:
        shares = torch.randn(4, num_rows, len(scale.atoms) + 1, generator=generator, dtype=torch.float64).softmax(2)
        pairs = zip(parts, shares[..., 1:].split(1), strict=True)
        parts = [HurdlePrediction(**vars(part), draw_atoms=share) for part, share in pairs]
    if scale.kind == "censored":
        parts = [part.censored(scale.floor) for part in parts]
    return [part.on(scale) for part in parts]


def mixture(scale: TargetScale = PLAIN, num_rows: int = 3) -> RegressionPrediction:
    parts = parts_of(scale, num_rows)
    return type(parts[0]).mixture(parts)


def drawn(prediction: RegressionPrediction, count: int = 100_000) -> Tensor:
    """Targets of each row, (count, N): Gaussians of random draws, refused below the bound, carried back."""
    generator = torch.Generator().manual_seed(2)
    means, variances = (part[..., 0] for part in prediction.components())
    which = torch.randint(len(means), (count,), generator=generator)
    noise = torch.randn(count, means.shape[1], generator=generator, dtype=torch.float64)
    values = means[which] + variances[which].sqrt() * noise
    if prediction.scale.kind == "censored":
        return values.clamp(min=prediction.scale.floor)
    if prediction.scale.cuts:
        values = torch.where(values >= prediction.scale.floor, values, torch.nan)
    values = prediction.scale.unbounded(values)
    if isinstance(prediction, HurdlePrediction):
        ends, uniform = prediction.atom_probabilities.cumsum(1), torch.rand(values.shape, generator=generator)
        for k, atom in reversed(list(enumerate(prediction.scale.atoms))):
            values = torch.where((uniform < ends[:, k]) & ~values.isnan(), atom, values)
    return values


@pytest.mark.parametrize("scale", SCALES + WITH_ATOMS)
class TestAgainstDraws:
    def test_moments(self, scale: TargetScale) -> None:
        prediction = mixture(scale)
        values = drawn(prediction).clamp(max=scale.horizon)
        mean = values.nanmean(0)
        torch.testing.assert_close(prediction.mean[:, 0], mean, rtol=0.015, atol=0.005)
        torch.testing.assert_close(prediction.variance[:, 0], (values - mean).square().nanmean(0), rtol=0.05, atol=0)

    def test_quantiles_and_their_probabilities(self, scale: TargetScale) -> None:
        prediction = mixture(scale)
        values = drawn(prediction)
        for probability in (0.02, 0.3, 0.5, 0.95):
            found = prediction.quantile(probability)
            clamped, known = values.clamp(min=scale.least), (~values.isnan()).sum(0)
            assert ((clamped < found.T - 1e-9).sum(0) / known < probability + 0.01).all()
            assert ((clamped <= found.T + 1e-9).sum(0) / known > probability - 0.01).all()
            is_inner = (found > scale.least) & ~torch.isin(found, torch.tensor(scale.atoms).to(found))
            wanted = torch.full_like(found, probability)
            torch.testing.assert_close(prediction.cdf(found)[is_inner], wanted[is_inner])
            assert (prediction.cdf(found) > probability - 1e-6).all()
        assert (prediction.interval(0.999)[0] >= scale.least).all()

    def test_a_density_integrates_to_probabilities(self, scale: TargetScale) -> None:
        prediction = mixture(scale)
        low, high = torch.tensor(0.9).double(), torch.tensor(1.4).double()
        grid = torch.linspace(0.9, 1.4, 401, dtype=torch.float64)
        density = torch.stack([prediction.log_prob(y.expand(3, 1)).exp() for y in grid])
        mass = torch.trapezoid(density, grid, dim=0)
        torch.testing.assert_close(mass, (prediction.cdf(high) - prediction.cdf(low))[:, 0], rtol=1e-6, atol=0)
        torch.testing.assert_close(mass, prediction.log_probability(low, high).exp(), rtol=1e-6, atol=0)

    def test_crps(self, scale: TargetScale) -> None:
        prediction = mixture(scale)
        values = drawn(prediction)
        known = [row[~row.isnan()] for row in values.T]
        for target in (0.55, 1.5, 40.0):
            errors = []
            for row in known:
                ordered = row.sort().values
                ranks = 2 * torch.arange(1, len(row) + 1) - len(row) - 1
                spread = 2 * (ranks * ordered).sum() / len(row) ** 2  # mean distance of two draws
                errors.append(((row - target).abs().mean() - spread / 2).item())
            found = crps(prediction, torch.full((3, 1), target, dtype=torch.float64)).item()
            assert found == pytest.approx(np.mean(errors), rel=0.01)

    def test_other_units(self, scale: TargetScale) -> None:
        prediction, y = mixture(scale), torch.tensor([[0.9], [1.2], [3.0]], dtype=torch.float64)
        other = prediction.rescale(20.0, 3.0)
        torch.testing.assert_close(other.log_prob(20 * y + 3), prediction.log_prob(y) - math.log(20))
        torch.testing.assert_close(other.quantile(0.3), 20 * prediction.quantile(0.3) + 3)
        again = other.on(other.scale)
        for name in ("mean", "epistemic", "aleatoric"):
            torch.testing.assert_close(getattr(again, name), getattr(other, name))

    def test_parts_are_mixed_and_joined(self, scale: TargetScale) -> None:
        whole, parts = mixture(scale), parts_of(scale, 3)
        again = type(whole).mixture(parts).on(scale)
        for name in ("mean", "epistemic", "aleatoric", "draw_means"):
            torch.testing.assert_close(getattr(again, name), getattr(whole, name))
        joined = type(whole).joined([whole, whole])
        torch.testing.assert_close(joined.quantile(0.2), torch.cat([whole.quantile(0.2)] * 2))
        torch.testing.assert_close(whole.scale_noise(1.0).mean, whole.mean)


def test_a_quadrature_agrees_with_the_closed_form() -> None:
    y = torch.tensor([[0.2], [0.9], [2.0]], dtype=torch.float64)
    far = TargetScale(least=-1e6)
    assert crps(mixture(far), y).item() == pytest.approx(crps(mixture(), y).item(), rel=1e-6)


@pytest.mark.parametrize("kind", ["identity", "sqrt", "log"])
def test_the_cells_of_counts_tile_what_can_be(kind: Kind) -> None:
    prediction = mixture(TargetScale(least=0.0, step=1.0, kind=kind))
    found = prediction.level_probabilities(list(range(60)), 1.0)
    torch.testing.assert_close(found.sum(-1), torch.ones_like(found[..., 0]), rtol=1e-3, atol=0)
    zero = torch.zeros(3, 1, dtype=torch.float64)
    torch.testing.assert_close(prediction.log_probability(zero - 0.5, zero + 0.5).exp(), found[:, 0, 0])
    assert prediction.log_prob(zero).isfinite().all()


@pytest.mark.parametrize("scale", SCALES[1:])
def test_below_the_bound_is_no_density_and_scores_stay_numbers(scale: TargetScale) -> None:
    prediction = mixture(scale)
    outside = torch.full((3, 1), scale.bound - 0.3, dtype=torch.float64)
    assert prediction.log_prob(outside).tolist() == [math.log(torch.finfo(torch.float64).tiny)] * 3
    assert prediction.cdf(outside).tolist() == [[0.0]] * 3
    assert (
        prediction.log_probability(outside - 0.1, outside).tolist() == [math.log(torch.finfo(torch.float64).tiny)] * 3
    )
    whole = crps(prediction, outside).item()
    assert whole == pytest.approx(crps(prediction, outside + 0.3).item() + 0.3, rel=1e-3)


def test_what_is_nearly_all_cut_off_has_finite_moments_and_quantiles() -> None:
    for dtype in (torch.float32, torch.float64):
        far = RegressionPrediction.gaussian(torch.tensor([[-60.0], [-5.0]], dtype=dtype), torch.ones(2, 1, dtype=dtype))
        cut = far.on(TargetScale(least=0.0))
        torch.testing.assert_close(cut.mean[0, 0].item(), 1 / 60, rtol=0.01, atol=0)
        torch.testing.assert_close(cut.std[0, 0].item(), 1 / 60, rtol=0.01, atol=0)
        torch.testing.assert_close(cut.quantile(0.5)[0, 0].item(), math.log(2) / 60, rtol=0.01, atol=0)
        assert (cut.variance > 0).all()
        root = far.on(TargetScale(least=0.0, kind="sqrt"))
        torch.testing.assert_close(root.mean[0, 0].item(), 2 / 60**2, rtol=0.02, atol=0)
        torch.testing.assert_close(root.std[0, 0].item(), 20**0.5 / 60**2, rtol=0.02, atol=0)


@pytest.mark.parametrize("scale", SCALES)
def test_quantiles_are_those_of_bisection(scale: TargetScale) -> None:
    for pair in itertools.product([0.3, 4.0], [0.001, 0.05, 0.5, 0.95]):
        check_quantiles(scale, *pair)


def check_quantiles(scale: TargetScale, spread: float, probability: float) -> None:
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(2, 60, 40, 1, generator=generator, dtype=torch.float64)
    means = torch.linspace(-5.0, 3.0, 40, dtype=torch.float64)[:, None] + spread * noise[0]  # some nearly all cut off
    variances = (0.5 * spread * noise[1] - 1).exp()
    low, high = torch.full_like(means[0], -60.0), torch.full_like(means[0], 60.0)
    if scale.cuts:
        low = torch.full_like(low, scale.floor)
    for _ in range(60):
        middle = (low + high) / 2
        below = scaled_mixture.below(means, variances, scale, middle) < probability
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-3)):
        found = scaled_mixture.quantile(means.to(dtype), variances.to(dtype), scale, probability)
        error = (found.double() - middle).abs() / (middle - (scale.floor if scale.cuts else 0.0)).abs().clamp(min=0.1)
        assert error.max() < tolerance


def test_a_wide_logarithm_stays_finite() -> None:
    wide = RegressionPrediction.gaussian(torch.tensor([[30.0]]), torch.tensor([[900.0]]))
    prediction = wide.on(TargetScale(least=0.0, kind="log"))
    assert prediction.mean.item() == pytest.approx(math.exp(35), rel=1e-4)
    for value in (prediction.mean, prediction.std, *prediction.interval(0.9), crps(prediction, torch.ones(1, 1))):
        assert value.isfinite().all()
    restricted = wide.on(TargetScale(least=0.0, kind="log", horizon=5.0))
    assert restricted.mean.item() == pytest.approx(5 * torch.special.ndtr(torch.tensor(1.0)).item(), rel=0.03)
    assert restricted.std.item() == pytest.approx(5 * (0.8413 * 0.1587) ** 0.5, rel=0.05)  # it is over, or hardly begun


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ValueError, match="`kind` 'log' needs a finite `least`, got -inf"):
        TargetScale(kind="log")
    with pytest.raises(ValueError, match=r"`kind` must be one of .*, got 'cube'"):
        TargetScale(least=0.0, kind="cube")  # type: ignore[arg-type]
    two = RegressionPrediction.gaussian(torch.zeros(1, 2), torch.ones(1, 2))
    with pytest.raises(ValueError, match="must be plain for several outputs"):
        two.on(TargetScale(least=0.0))
    with pytest.raises(ValueError, match="must be predictions of one kind"):
        RegressionPrediction.joined([mixture(), mixture(SCALES[1])])
    with pytest.raises(ValueError, match="draws were not kept"):
        replace(mixture(), draw_means=None).on(SCALES[1])


# Values that many rows share


@pytest.mark.parametrize("scale", WITH_ATOMS)
def test_atoms_have_probabilities(scale: TargetScale) -> None:
    prediction = mixture(scale)
    values = drawn(prediction)
    for k, atom in enumerate(scale.atoms):
        share, at = prediction.atom_probabilities[:, k], torch.full((3, 1), atom, dtype=torch.float64)
        torch.testing.assert_close(prediction.log_prob(at).exp(), share)
        known = (values == atom).sum(0) / (~values.isnan()).sum(0)
        torch.testing.assert_close(known.double(), share, atol=0.005, rtol=0)
        jump = prediction.cdf(at) - prediction.cdf(at - 1e-9)
        torch.testing.assert_close(jump[:, 0], share, atol=1e-6, rtol=0)
        mass = prediction.log_probability(at - 1e-9, at).exp()
        torch.testing.assert_close(mass, share, atol=1e-6, rtol=0)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
@pytest.mark.parametrize("scale", WITH_ATOMS)
def test_intervals_that_end_at_an_atom_hold_no_more_than_they_must(scale: TargetScale, coverage: float) -> None:
    prediction = mixture(scale, num_rows=30)
    (lower, upper), values = prediction.interval(coverage), drawn(prediction, 40_000).clamp(min=scale.least)
    held = ((values >= lower.T) & (values <= upper.T)).sum(0) / (~values.isnan()).sum(0)
    assert (held > coverage - 0.02).all()
    ends = torch.tensor(scale.atoms).double()
    is_simple = ~torch.isin(upper, ends) & ~((lower == scale.least) & ~torch.isin(lower, ends))
    assert (held[is_simple[:, 0]] < coverage + 0.02).all()
    shares = central_coverage(
        prediction, drawn(prediction, 1000)[0].nan_to_num(1.0)[:, None], torch.tensor([0.2, 0.99])
    )
    assert shares[0] <= shares[1]


def test_the_likelihood_of_atoms() -> None:
    generator = torch.Generator().manual_seed(0)
    output = torch.randn(6, 6, generator=generator, dtype=torch.float64)  # mean, two logits, and the log variances
    target = torch.tensor([[0.3, 0], [7.0, 1], [-1.0, 2], [0.0, 0], [0.0, 1], [2.0, 0]], dtype=torch.float64)
    expected = []
    for (mean, *logits, log_variance, _, _), (value, which) in zip(output.tolist(), target.tolist(), strict=True):
        weights = [1.0, *map(math.exp, logits)]
        nll = -math.log(weights[int(which)] / sum(weights))
        if which == 0:
            nll += 0.5 * (math.log(2 * math.pi) + log_variance + (value - mean) ** 2 / math.exp(log_variance))
        expected.append(nll)
    censored = Hurdle(bound=0.4).nll(output[:, [0, 1, 3, 4]], target)
    is_end = target[:, 1] > 0
    gaussian = torch.distributions.Normal(output[:, 0], (output[:, 3] / 2).exp())
    torch.testing.assert_close(censored[~is_end], -gaussian.log_prob(target[:, 0])[~is_end])
    torch.testing.assert_close(censored[is_end], -gaussian.cdf(torch.tensor(0.4).double()).log()[is_end])
    likelihood = Hurdle(num_atoms=2)
    torch.testing.assert_close(likelihood.nll(output, target), torch.tensor(expected, dtype=torch.float64))
    squares = likelihood.square_residuals(output, target)
    of_numbers = [(output[i, 0] - target[i, 0]).square() for i in (0, 3, 5)]
    torch.testing.assert_close(squares, torch.stack([sum(of_numbers) / 3, squares[1] * 0 + 1, squares[2] * 0 + 1]))
    found = likelihood.predict([output[None], output[None]], 2)
    torch.testing.assert_close(found.atom_probabilities.sum(1) + found._rest[:, 0], torch.ones(6).double())
    torch.testing.assert_close(found.draw_means[0], output[:, :1])


@pytest.mark.parametrize("kind", ["log", "sqrt"])
def test_a_bound_that_no_target_reaches_has_no_density(kind: Kind) -> None:
    scale = TargetScale(0.5, kind=kind)
    found = RegressionPrediction.gaussian(torch.zeros(2, 1).double(), torch.ones(2, 1).double()).on(scale)
    at, above = found.log_prob(torch.tensor([[scale.bound], [scale.bound + 0.1]]).double()).tolist()
    assert at == pytest.approx(math.log(torch.finfo(torch.float64).tiny))
    assert above > -5


@pytest.mark.parametrize("bound", [-1.0, 0.3, 4.0])
def test_what_is_censored_has_the_square_of_a_truncated_normal(bound: float) -> None:
    mean, std = 0.5, 1.7
    output = torch.tensor([[mean, 0.0, 2 * math.log(std), 0.0]], dtype=torch.float64)
    square = Hurdle(bound=bound).square_residuals(output, torch.tensor([[bound, 1.0]]).double())[0].item()
    below = stats.truncnorm(-math.inf, (bound - mean) / std, mean, std)
    assert square == pytest.approx(below.var() + (below.mean() - mean) ** 2)


def test_the_noise_of_what_is_censored_follows_what_would_be_seen() -> None:
    generator, truth = torch.Generator().manual_seed(0), 0.8
    mean = torch.randn(40_000, 1, generator=generator, dtype=torch.float64)
    latent = mean + math.sqrt(truth) * torch.randn(mean.shape, generator=generator, dtype=torch.float64)
    target = torch.cat([latent.clamp(min=0.0), (latent < 0).double()], dim=1)
    variance = torch.tensor(3.0).double()
    for _ in range(60):
        output = torch.cat([mean, mean, variance.log().expand_as(mean), torch.zeros_like(mean)], dim=1)
        variance = Hurdle(bound=0.0).square_residuals(output, target)[0]
    assert variance.item() == pytest.approx(truth, rel=0.05)


def test_numbers_of_64_bits_are_as_large_as_they_can_be() -> None:
    scale, far = TargetScale(0.0, kind="log"), torch.tensor([[100.0]])
    wide = RegressionPrediction.gaussian(far.double(), torch.ones(1, 1).double()).on(scale)
    assert wide.quantile(0.5).item() == pytest.approx(math.exp(100))
    assert scale.unbounded(far).isfinite().all()  # of which 32 bits have none
