"""Scores of times that are known in part, beside plain transcriptions of their formulas."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2, norm
from torch.testing import assert_close

from gumdrop.likelihoods import RegressionPrediction
from gumdrop.metrics.survival import (
    brier_scores,
    concordance,
    d_calibration,
    integrated_brier,
    kaplan_meier,
    share_below,
    survival,
)

RNG = np.random.default_rng(0)
MEAN = RNG.normal(10, 2, 60)
TRUE, END = MEAN + RNG.normal(0, 1, 60), RNG.uniform(5, 18, 60)
TIMES = np.round(np.minimum(TRUE, END), 1)  # some are equal
SEEN = TRUE <= END
OBSERVED = torch.tensor(np.stack([TIMES, np.where(SEEN, TIMES, np.inf)], axis=1))


def gaussian(std: float = 1.0) -> RegressionPrediction:
    return RegressionPrediction.gaussian(torch.tensor(MEAN)[:, None], torch.full((60, 1), std**2).double())


def naive_kaplan_meier(times, events, at, *, events_first=None) -> float:
    """Of ties those of `events_first` have left before."""
    result = 1.0
    for time in sorted({t for t, e in zip(times, events, strict=True) if e and t <= at}):
        at_risk = sum(t >= time for t in times)
        if events_first is not None:
            at_risk -= sum(t == time and first for t, first in zip(times, events_first, strict=True))
        result *= 1 - sum(t == time and e for t, e in zip(times, events, strict=True)) / at_risk
    return result


def test_kaplan_meier() -> None:
    at = torch.tensor([4.0, 8.05, 9.0, 12.3]).double()
    found = kaplan_meier(torch.tensor(TIMES), torch.tensor(SEEN), at)
    assert_close(found, torch.tensor([naive_kaplan_meier(TIMES, SEEN, t) for t in at.tolist()]).double())
    one = torch.tensor([TIMES[SEEN][0]])
    earlier = naive_kaplan_meier(TIMES, SEEN, float(one) - 1e-9)
    assert kaplan_meier(torch.tensor(TIMES), torch.tensor(SEEN), one, before=True).item() == pytest.approx(earlier)


def test_brier_scores() -> None:
    times = torch.tensor([7.0, 9.5, 11.0]).double()
    found = brier_scores(survival(gaussian(), times), times, OBSERVED)
    for t, score in zip(times.tolist(), found.tolist(), strict=True):
        total = 0.0
        for mean, time, seen in zip(MEAN, TIMES, SEEN, strict=True):
            alive = norm.sf(t, mean, 1)
            if time > t:
                total += (1 - alive) ** 2 / naive_kaplan_meier(TIMES, ~SEEN, t, events_first=SEEN)
            elif seen:
                total += alive**2 / naive_kaplan_meier(TIMES, ~SEEN, time - 1e-9, events_first=SEEN)
        assert score == pytest.approx(total / 60)
    worse = integrated_brier(
        RegressionPrediction.gaussian(torch.full((60, 1), 10.0), torch.full((60, 1), 5.0)), OBSERVED
    )
    assert integrated_brier(gaussian(), OBSERVED) < 0.8 * worse
    all_seen = torch.tensor(TIMES)[:, None].expand(-1, 2)
    plain = ((survival(gaussian(), times) - (torch.tensor(TIMES)[:, None] > times).double()) ** 2).mean(0)
    assert_close(brier_scores(survival(gaussian(), times), times, all_seen), plain)


def test_concordance() -> None:
    right = pairs = 0.0
    for i in np.flatnonzero(SEEN):
        for j in range(60):
            if TIMES[j] > TIMES[i] or (TIMES[j] == TIMES[i] and not SEEN[j]):
                pairs += 1
                right += MEAN[i] < MEAN[j]
    assert concordance(gaussian(), OBSERVED).item() == pytest.approx(right / pairs)
    alike = RegressionPrediction.gaussian(torch.zeros(60, 1), torch.ones(60, 1))
    assert concordance(alike, OBSERVED).item() == 0.5
    none_seen = torch.stack([torch.tensor(TIMES), torch.full((60,), torch.inf)], dim=1)
    assert concordance(gaussian(), none_seen).item() == 0.5


def test_d_calibration() -> None:
    counts = np.zeros(10)
    for mean, time, seen in zip(MEAN, TIMES, SEEN, strict=True):
        left = norm.cdf(time, mean, 1)
        for k in range(10):
            if seen:
                counts[k] += k / 10 <= left < (k + 1) / 10
            else:
                counts[k] += max(0.0, (k + 1) / 10 - max(left, k / 10)) / (1 - left)
    expect = chi2.sf(((counts - 6) ** 2 / 6).sum(), 9)
    assert d_calibration(gaussian(), OBSERVED).item() == pytest.approx(expect)
    assert d_calibration(gaussian(4.0), OBSERVED) < 0.01 < d_calibration(gaussian(), OBSERVED)


def test_what_is_expected_below_a_quantile() -> None:
    observed = torch.tensor([[0.0, 0.0], [0.0, math.inf], [-math.inf, 0.0], [-1.0, 1.0]]).double()
    fair = RegressionPrediction.gaussian(torch.zeros(4, 1).double(), torch.ones(4, 1).double())
    found = share_below(fair, observed, torch.tensor([0.25, 0.75]))
    assert_close(found[:3], torch.tensor([[0.0, 1.0], [0.0, 0.5], [0.5, 1.0]]).double())
    assert found[3].tolist() == pytest.approx([0.5 - 0.25 / 0.6827, 0.5 + 0.25 / 0.6827], abs=1e-4)
