"""Conformal levels: the rank of exact arithmetic, the share that is promised, and that it is kept while rows drift."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from gumdrop.likelihoods import ClassificationPrediction, HurdlePrediction, RegressionPrediction, TargetScale
from gumdrop.likelihoods.conformal import ConformalLevels, rank_of


def standard_normal(num_rows: int, num_outputs: int = 1) -> RegressionPrediction:
    zero = torch.zeros(num_rows, num_outputs, dtype=torch.float64)
    return RegressionPrediction.gaussian(zero, zero + 1)


def observed(num_rows: int, seed: int = 0, num_outputs: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, num_outputs, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("coverage", "rank"), [(0.5, 10), (0.9, 18), (0.95, 19)])
def test_an_interval_reaches_as_far_as_the_residual_of_its_rank(coverage: float, rank: int) -> None:
    """Of 19 rows, ranks are those of 20 c; of a Gaussian they are those of split-conformal residuals."""
    y = 3 * observed(19, num_outputs=2)
    levels = ConformalLevels.of(standard_normal(19, 2).conformity(y))
    lower, upper = replace(standard_normal(5, 2), levels=(levels,)).interval(coverage)
    torch.testing.assert_close(upper, y.abs().sort(0).values[rank - 1].expand(5, 2), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(lower, -upper)


def test_quantiles_are_rounded_away_from_the_median_and_never_cross() -> None:
    y = observed(99)
    prediction = replace(standard_normal(1), levels=(ConformalLevels.of(standard_normal(99).conformity(y)),))
    ordered = y.flatten().sort().values
    for probability, rank in ((0.1, 10), (0.105, 10), (0.5, 50), (0.895, 90), (0.9, 90)):
        assert prediction.quantile(probability).item() == pytest.approx(ordered[rank - 1].item(), abs=1e-5)
    found = torch.cat([prediction.quantile(p / 100) for p in range(1, 100)])
    assert (found.diff(dim=0) >= 0).all()


def test_an_atom_counts_once_for_both_ends() -> None:
    """A third of the rows is 0 exactly, all others lie above."""
    num_rows = 3000
    y = observed(num_rows).abs() * (torch.arange(num_rows)[:, None] % 3 > 0)
    atoms = torch.full((1, num_rows, 1), 1 / 3, dtype=torch.float64)
    half = HurdlePrediction(**vars(standard_normal(num_rows)), draw_atoms=atoms).on(TargetScale(0.0, atoms=(0.0,)))
    below, up_to = half.conformity(y).unbind(-1)
    assert (below[y == 0] == -4).all()
    assert torch.special.ndtr(up_to[y == 0]).mean() == pytest.approx(1 / 3)
    prediction = replace(half, levels=(ConformalLevels.of(half.conformity(y)),))
    for coverage, share in ((0.5, 2 / 3), (0.9, 0.9)):  # all rows at 0 are in the interval of .5, or none
        lower, upper = prediction.interval(coverage)
        assert ((lower <= y) & (y <= upper)).double().mean().item() == pytest.approx(share, abs=0.01)


def test_sets_of_classes_hold_the_label_and_never_are_empty() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(4000, 5, generator=generator)
    labels = torch.multinomial((logits / 2).softmax(1), 1, generator=generator)[:, 0]
    whole = ClassificationPrediction.from_log_probabilities(logits.log_softmax(1))
    held_out, new = whole.rows(torch.arange(2000)), whole.rows(torch.arange(2000, 4000))
    levels = ConformalLevels.of(held_out.conformity(labels[:2000]))
    for coverage in (0.8, 0.95):
        sets = replace(new, levels=(levels,)).sets(coverage)
        assert sets.gather(1, labels[2000:, None]).double().mean().item() == pytest.approx(coverage, abs=0.02)
        assert sets.gather(1, new.label[:, None]).all()
        own = new.sets(coverage)
        assert ((new.probabilities * own).sum(1) >= coverage - 1e-6).all()


def test_a_row_of_several_groups_has_the_widest_interval() -> None:
    narrow, wide = (ConformalLevels.of(standard_normal(99).conformity(scale * observed(99))) for scale in (1, 4))
    prediction = replace(standard_normal(3), levels=(narrow, wide), groups=torch.tensor([[0, 0], [1, 1], [0, 1]]))
    upper = prediction.interval(0.9)[1][:, 0]
    assert upper[0] < upper[1] == upper[2]
    assert prediction.rows(torch.tensor([2])).quantile(0.05).item() == prediction.quantile(0.05)[1].item()


def test_levels_follow_rows_that_drift() -> None:
    """The spread grows to four times what it was; what the levels are before each row is what counts."""
    levels = ConformalLevels.of(standard_normal(200).conformity(observed(200)))
    spread = torch.linspace(1, 4, 3000, dtype=torch.float64)[:, None]
    conformity = standard_normal(3000).conformity(observed(3000, seed=1) * spread)
    held = []
    for row, place in enumerate(conformity[:, 0, 0].abs()):
        held.append([place <= levels.reach(coverage) for coverage in (0.5, 0.9)])
        levels = levels.updated(conformity[row : row + 1])
    for shares in torch.tensor(held).double().split(1000):
        torch.testing.assert_close(shares.mean(0), torch.tensor([0.5, 0.9]).double(), rtol=0, atol=0.04)
    assert (levels.central.diff(dim=1) >= 0).all()
    assert (levels.signed.diff(dim=1) >= 0).all()


def test_a_rank_is_that_of_exact_arithmetic() -> None:
    """24 rows at 0.28 ask for the seventh: (24 + 1) 0.28 is a little more than that in floating point."""
    for count in range(9, 60):
        for percent in range(1, 91):
            assert rank_of(count, percent / 100) == math.ceil((count + 1) * Fraction(percent, 100))


def test_too_few_rows_and_bad_levels_are_told_with_a_way_out() -> None:
    levels = ConformalLevels.of(standard_normal(50).conformity(observed(50)))
    with pytest.raises(ValueError, match=r"`coverage` of 0.99 needs at least 99 held-out rows, got 50"):
        levels.reach(0.99)
    for probability in (0.01, 0.99):
        with pytest.raises(ValueError, match=r"`probability` of 0.99 needs at least 99"):
            levels.quantile(probability)
    with pytest.raises(ValueError, match="`coverage` must be strictly between 0 and 1, got 1"):
        levels.reach(1)
    with pytest.raises(ValueError, match="at least one row"):
        ConformalLevels.of(torch.empty(0, 1, 2))
    assert math.isfinite(levels.updated(torch.full((9, 1, 2), 40.0)).central.max())
