"""Split-conformal sets and p-values by their definitions, and the temperature."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import optimize, special, stats
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from gumdrop.estimators import ConcreteDropoutClassifier
from gumdrop.metrics import conformal_sets, fit_temperature, outlier_p_values


def test_p_values_are_their_definition_and_alarms_are_false_as_often_as_they_say() -> None:
    random = np.random.default_rng(0)
    reference, new = random.integers(0, 5, 40), random.integers(0, 7, 30)
    expected = [(1 + sum(r >= s for r in reference)) / 41 for s in new]
    np.testing.assert_allclose(outlier_p_values(new, reference), expected)
    alarms = sum(outlier_p_values(*np.split(random.normal(size=20), [1]))[0] <= 0.1 for _ in range(3000))
    low, high = stats.binom(3000, 0.1).ppf([0.0005, 0.9995])
    assert low <= alarms <= high


@pytest.mark.filterwarnings("ignore:`X` differs from training in columns that never varied:UserWarning")
def test_temperature_of_scikit_learn_works_on_the_classifier() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:900], y[:900].astype(str)
    quick = {"hidden_layer_sizes": (16,), "n_members": 2, "n_mc_samples": 40, "random_state": 0}
    model = ConcreteDropoutClassifier(**quick, max_iter=8).fit(X[:300], y[:300])
    scaled = CalibratedClassifierCV(FrozenEstimator(model), method="temperature").fit(X[300:600], y[300:600])
    before, after = model.predict_proba(X[600:]), scaled.predict_proba(X[600:])
    assert log_loss(y[600:], after) < log_loss(y[600:], before)
    np.testing.assert_array_equal(before.argmax(1), after.argmax(1))


# Sets of classes


def rows_of_classes(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of a model that is far too sure of itself, and labels."""
    logits = random.normal(size=(count, 4))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([random.choice(4, p=each) for each in p])
    sure = np.exp(3 * logits)
    return sure / sure.sum(1, keepdims=True), labels


def naive_sets(p, held_out, target, coverage, score) -> np.ndarray:
    def of(row, c):
        if score == "lac":
            return 1 - row[c]
        ahead = [k for k in range(len(row)) if row[k] > row[c] or (row[k] == row[c] and k < c)]
        return min(sum(sorted((row[k] for k in ahead), reverse=True)), math.erf(8**0.5))  # beyond 4 all are alike

    known = sorted(of(row, y) for row, y in zip(held_out, target, strict=True))
    reached = known[math.ceil((len(known) + 1) * coverage - 1e-9) - 1]
    return np.array([[of(row, c) <= reached for c in range(len(row))] for row in p])


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_sets_are_their_definition(score) -> None:
    """With 39 rows held out the rank is a whole number, and with 40 it lies between two."""
    p, y = rows_of_classes(60, np.random.default_rng(2))
    p[::5] = [0.4, 0.2, 0.2, 0.2]  # classes that are equally likely
    for count, coverage in itertools.product((24, 39, 40), (0.28, 0.5, 0.8, 0.925)):
        found = conformal_sets(p[40:], p[:count], y[:count], coverage=coverage, score=score)
        np.testing.assert_array_equal(found, naive_sets(p[40:], p[:count], y[:count], coverage, score))
        tensors = conformal_sets(*map(torch.tensor, (p[40:], p[:count], y[:count])), coverage=coverage, score=score)
        np.testing.assert_array_equal(tensors, found)
    assert (conformal_sets(p[40:], p[:40], y[:40], score="aps").sum(1) >= 1).all()


def test_errors_say_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"`score` and `reference` must be of shape \(N,\) and \(n,\)"):
        outlier_p_values([1.0], [])
    p, y = rows_of_classes(20, np.random.default_rng(0))
    with pytest.raises(ValueError, match="`score` must be 'lac' or 'aps', got 'margin'"):
        conformal_sets(p, p, y, score="margin")
    for wrong in ((p, p, y[:-1]), (p[:, :3], p, y), (p[0], p, y)):
        with pytest.raises(ValueError, match=r"must be of shape \(N, C\), \(n, C\) and \(n,\), got"):
            conformal_sets(*wrong)
    for wrong in (y + 1, y - 1, y.astype(float)):
        with pytest.raises(ValueError, match="`target` must hold indices of the 4 classes, from 0 on"):
            conformal_sets(p, p, wrong)
    with pytest.raises(ValueError, match=r"`coverage` of 0.99 needs at least 99 held-out rows, got 20"):
        conformal_sets(p, p, y, coverage=0.99)
    with pytest.raises(ValueError, match="`coverage` must be strictly between 0 and 1, got 1"):
        conformal_sets(p, p, y, coverage=1.0)


# Temperature


def mixture_nll(logits: np.ndarray, y: np.ndarray, temperature: float) -> float:
    """Negative log likelihood of averaged draws, (S, N, C), in nats per row."""
    log_p = special.log_softmax(logits / temperature, axis=2)[:, np.arange(len(y)), y]
    return -np.mean(special.logsumexp(log_p, axis=0) - np.log(len(logits)))


@pytest.mark.parametrize("draws", [1, 6])
def test_temperature_has_the_best_likelihood(draws) -> None:
    random = np.random.default_rng(0)
    p, y = rows_of_classes(300, random)
    logits = np.log(p) + random.normal(size=(draws, 300, 4))
    best = optimize.minimize_scalar(lambda t: mixture_nll(logits, y, t), bounds=(0.1, 20), options={"xatol": 1e-9})
    tensors = torch.tensor(logits), torch.tensor(y)
    assert fit_temperature(*tensors) == pytest.approx(best.x, rel=1e-4)
    assert best.x > 1.5
    if draws == 1:
        assert fit_temperature(tensors[0][0], tensors[1]) == pytest.approx(best.x, rel=1e-4)


def test_temperature_of_a_share_is_known() -> None:
    """Rows that are all alike, right in three of four: sigmoid(z / T) = 3/4."""
    y = torch.tensor([0, 0, 0, 1])
    logits = torch.tensor([[5.0, 0.0]]).expand(4, 2)
    assert fit_temperature(logits, y) == pytest.approx(5 / math.log(3), rel=1e-6)
    assert fit_temperature(logits.log_softmax(1), y) == pytest.approx(5 / math.log(3), rel=1e-6)
    for shape in ((4,), (4, 1), (1, 4), (1, 4, 1), (2, 2)):
        one = torch.full(shape, -5.0)
        target = y.reshape(shape[1:] if shape[0] == 1 else shape)
        assert fit_temperature(one, target, likelihood="bernoulli") == pytest.approx(5 / math.log(3), rel=1e-6)


def test_temperature_of_pixels_is_that_of_their_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(2, 3, 4, 5, 6, generator=generator)).requires_grad_()
    target = torch.randint(0, 4, (3, 5, 6), generator=generator)
    rows = logits.detach().movedim(2, 4).flatten(1, 3)
    with torch.no_grad():
        assert fit_temperature(logits, target) == pytest.approx(fit_temperature(rows, target.flatten()), rel=1e-6)
    assert logits.grad is None


def test_errors_of_temperature() -> None:
    y = torch.tensor([0, 1, 0])
    for logits in (torch.zeros(4, 2), torch.zeros(5, 4, 2), torch.zeros(3, 2, 2)):
        with pytest.raises(ValueError, match="`target` must have the shape of `logits` without draws and classes"):
            fit_temperature(logits, y)
    with pytest.raises(ValueError, match="C >= 2"):
        fit_temperature(torch.zeros(3, 1), y)
    with pytest.raises(ValueError, match="`logits` must be finite; for probabilities pass their logs"):
        fit_temperature(torch.tensor([[0.0, -math.inf]] * 3), y)
    with pytest.raises(ValueError, match="`likelihood` must be 'categorical' or 'bernoulli'"):
        fit_temperature(torch.zeros(3, 2), y, likelihood="gaussian")
