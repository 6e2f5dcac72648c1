"""Split-conformal intervals and p-values: the guarantee over many splits, and a library as oracle."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.metrics import log_loss

from gumdrop.calibration import ConformalIntervals, outlier_p_values
from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor

QUICK = {"hidden_layer_sizes": (16,), "n_members": 2, "n_mc_samples": 40, "random_state": 0}


class Wrong:
    """A model that is wrong in mean and in spread."""

    def predict(self, X, return_std=False):
        return X[:, 0] + 3, 0.1 + 0.05 * np.abs(X[:, 0])


def data(num_rows: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = random.normal(size=(num_rows, 2))
    return x, 2 * x[:, 0] + random.standard_t(3, num_rows)


@pytest.mark.parametrize(("count", "coverage"), [(9, 0.9), (30, 0.9), (57, 0.8), (40, 0.5)])
def test_coverage_over_many_splits_is_that_of_the_guarantee(count, coverage) -> None:
    """Held-out and new rows are exchangeable, so the rank of a new residual is uniform: exactly k / (n + 1)."""
    random, splits = np.random.default_rng(0), 2000
    inside = 0
    for _ in range(splits):
        x, y = data(count + 1, random)
        lower, upper = ConformalIntervals(Wrong()).calibrate(x[:count], y[:count]).predict_interval(x[count:], coverage)
        inside += int(lower[0] <= y[count] <= upper[0])
    expected = math.ceil((count + 1) * coverage - 1e-9) / (count + 1)
    assert coverage <= expected + 1e-9 <= coverage + 1 / (count + 1)
    low, high = stats.binom(splits, expected).ppf([0.0005, 0.9995])
    assert low <= inside <= high


def test_the_rank_of_the_residual_is_that_of_exact_arithmetic() -> None:
    """24 rows at 0.28 ask for residual 7: (24 + 1) 0.28 is a little more than that in floating point."""

    class Zero:
        def predict(self, X, return_std=False):
            return np.zeros(len(X)), np.ones(len(X))

    for count in range(9, 60):
        intervals = ConformalIntervals(Zero()).calibrate(np.zeros((count, 1)), 1.0 + np.arange(count))
        for percent in range(1, 91):
            _, upper = intervals.predict_interval(np.zeros((1, 1)), percent / 100)
            assert upper[0] == math.ceil((count + 1) * Fraction(percent, 100))


def test_intervals_of_the_estimator_hold_what_they_promise_on_a_real_set() -> None:
    """A poor model, three passes long, on patients: over 300 splits of held-out rows."""
    X, y = load_diabetes(return_X_y=True)
    model = ConcreteDropoutRegressor(**QUICK, max_iter=3).fit(X[:150], y[:150])
    mean, std = model.predict(X[150:], return_std=True)

    class Known:
        def predict(self, rows, return_std=False):
            return mean[rows], std[rows]

    random, shares = np.random.default_rng(0), []
    for _ in range(300):
        order = random.permutation(len(mean))
        held_out, new = order[:100], order[100:]
        lower, upper = ConformalIntervals(Known()).calibrate(held_out, y[150:][held_out]).predict_interval(new, 0.9)
        shares.append(np.mean((lower <= y[150:][new]) & (y[150:][new] <= upper)))
    expected = math.ceil(101 * 0.9) / 101
    assert np.mean(shares) == pytest.approx(expected, abs=4 * np.std(shares) / 300**0.5)


def test_intervals_agree_with_the_library_crepes() -> None:
    crepes = pytest.importorskip("crepes")
    random = np.random.default_rng(1)
    x, y = data(150, random)
    model = BayesianRidge().fit(x[:50], y[:50])
    ours = ConformalIntervals(model).calibrate(x[50:100], y[50:100])
    mean, std = model.predict(x[50:], return_std=True)
    oracle = crepes.ConformalRegressor().fit(y[50:100] - mean[:50], sigmas=std[:50])
    for coverage in (0.5, 0.8, 0.93):
        expected = oracle.predict_int(mean[50:], sigmas=std[50:], confidence=coverage)
        np.testing.assert_allclose(np.column_stack(ours.predict_interval(x[100:], coverage)), expected)


def test_several_outputs_have_intervals_of_their_own() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 1))
    y = np.column_stack([x[:, 0] + random.normal(size=200), 100 * random.normal(size=200)])
    model = GaussianProcessRegressor(alpha=1.0, normalize_y=True).fit(x[:50], y[:50])
    lower, upper = ConformalIntervals(model).calibrate(x[50:100], y[50:100]).predict_interval(x[100:])
    assert lower.shape == (100, 2)
    assert (((lower <= y[100:]) & (y[100:] <= upper)).mean(0) > 0.75).all()


def test_errors_say_what_to_do() -> None:
    x, y = data(20, np.random.default_rng(0))
    intervals = ConformalIntervals(Wrong())
    with pytest.raises(AttributeError, match=r"call `calibrate\(X, y\)` first"):
        intervals.predict_interval(x)
    for wrong in (y[:-1], y[:, None], np.full(20, np.nan)):
        with pytest.raises(ValueError, match=r"`y` must hold finite numbers of shape \(20,\)"):
            intervals.calibrate(x, wrong)
    intervals.calibrate(x[:8], y[:8])
    with pytest.raises(ValueError, match=r"`coverage` of 0.9 needs at least 9 held-out rows, got 8"):
        intervals.predict_interval(x, 0.9)
    for wrong in (0.0, 1.0):
        with pytest.raises(ValueError, match="`coverage` must be strictly between 0 and 1"):
            intervals.predict_interval(x, wrong)
    with pytest.raises(ValueError, match=r"`score` and `reference` must be of shape \(N,\) and \(n,\)"):
        outlier_p_values([1.0], [])


def test_p_values_are_their_definition_and_alarms_are_false_as_often_as_they_say() -> None:
    random = np.random.default_rng(0)
    reference, new = random.integers(0, 5, 40), random.integers(0, 7, 30)
    expected = [(1 + sum(r >= s for r in reference)) / 41 for s in new]
    np.testing.assert_allclose(outlier_p_values(new, reference), expected)
    alarms = sum(outlier_p_values(*np.split(random.normal(size=20), [1]))[0] <= 0.1 for _ in range(3000))
    low, high = stats.binom(3000, 0.1).ppf([0.0005, 0.9995])
    assert low <= alarms <= high


def test_temperature_of_scikit_learn_works_on_the_classifier() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:900], y[:900].astype(str)
    model = ConcreteDropoutClassifier(**QUICK, max_iter=8).fit(X[:300], y[:300])
    scaled = CalibratedClassifierCV(FrozenEstimator(model), method="temperature").fit(X[300:600], y[300:600])
    before, after = model.predict_proba(X[600:]), scaled.predict_proba(X[600:])
    assert log_loss(y[600:], after) < log_loss(y[600:], before)
    np.testing.assert_array_equal(before.argmax(1), after.argmax(1))
