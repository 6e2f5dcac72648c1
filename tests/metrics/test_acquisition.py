"""Choosing rows: by score, at random in proportion to it, and jointly."""

import pytest
import torch

from gumdrop.likelihoods import RegressionPrediction
from gumdrop.metrics import choose, choose_jointly


def record(draws: torch.Tensor, noise: torch.Tensor) -> RegressionPrediction:
    """A prediction of one output from draws, shape (S, N), with noise variances, shape (N,)."""
    means = draws.unsqueeze(2)
    variances = noise.expand_as(draws).unsqueeze(2)
    return RegressionPrediction(means.mean(0), means.var(0, correction=0), variances.mean(0), means, variances)


def test_the_highest_scores_come_first_and_a_random_choice_is_in_proportion_to_the_score() -> None:
    score, before = torch.tensor([1.0, 2.0, 0.0, 5.0]), torch.get_rng_state()
    assert choose(score, 3).tolist() == [3, 1, 0]
    first = torch.tensor([int(choose(score, 1, seed=seed)) for seed in range(4000)])
    shares = torch.bincount(first, minlength=4) / 4000
    torch.testing.assert_close(shares, score / 8, atol=0.03, rtol=0)
    assert all(len(set(choose(score, 3, seed=seed).tolist())) == 3 for seed in range(20))  # without replacement
    assert choose(score, 3, seed=1).tolist() == choose(score, 3, seed=1).tolist()
    assert torch.equal(before, torch.get_rng_state())
    assert score.tolist() == [1, 2, 0, 5]


def naive(prediction: RegressionPrediction, count: int) -> list[int]:
    """Condition the whole covariance matrix on each label, as for a Gaussian process."""
    draws, noise = prediction.draw_means.squeeze(2).double(), prediction.aleatoric.squeeze(1).double()
    covariance = torch.cov(draws.T, correction=0)
    chosen: list[int] = []
    for _ in range(count):
        gain = torch.log1p(covariance.diag() / noise)
        gain[chosen] = -torch.inf
        best = int(gain.argmax())
        chosen.append(best)
        column = covariance[:, best]
        covariance = covariance - torch.outer(column, column) / (covariance[best, best] + noise[best])
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_a_joint_choice_is_that_of_conditioning_on_each_label(seed) -> None:
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(30, 6, generator=generator) @ torch.randn(6, 20, generator=generator)
    prediction = record(mixed, 0.1 + torch.rand(20, generator=generator))
    assert choose_jointly(prediction, 8).tolist() == naive(prediction, 8)


def test_a_joint_choice_does_not_take_the_same_row_twice_over() -> None:
    """Rows 0 to 3 are one row, and the most uncertain; row 4 is another."""
    draws = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    prediction = record(torch.cat([2 * draws[:, :1].expand(-1, 4), draws[:, 1:]], dim=1), torch.full((5,), 0.1))
    assert set(choose(prediction.epistemic.squeeze(1), 2).tolist()) < {0, 1, 2, 3}
    assert choose_jointly(prediction, 2).tolist() == [0, 4]
    known = record(torch.zeros(3, 4), torch.ones(4))  # there is still something to choose from
    assert sorted(choose_jointly(known, 4).tolist()) == [0, 1, 2, 3]


def test_errors() -> None:
    for count in (0, 4):
        with pytest.raises(ValueError, match=f"`count` must be at least 1 and at most the 3 rows .*, got {count}"):
            choose(torch.ones(3), count)
    for wrong in (torch.tensor([0.1, -1.0]), torch.tensor([0.1, float("nan")]), torch.ones(2, 1)):
        with pytest.raises(ValueError, match="`score` must hold finite numbers of at least 0"):
            choose(wrong, 1)
    several = record(torch.randn(3, 4), torch.ones(4))
    bare = RegressionPrediction(several.mean, several.epistemic, several.aleatoric, None, None)
    with pytest.raises(ValueError, match=r"`prediction` must be of one output and hold its draws, .* without draws"):
        choose_jointly(bare, 1)
