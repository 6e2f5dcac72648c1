"""A fit that does not come to its end leaves what the last one learned, whole, and predictions are of one fit."""

import copy
import pickle
import random
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import gumdrop.estimators
from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor

QUICK = {"hidden_layer_sizes": (4,), "n_members": 2, "max_iter": 2, "n_mc_samples": 4, "random_state": 0, "strength": 1}
X = np.random.default_rng(0).normal(size=(40, 2))
NUMBERS = X[:, 0], 50 * X[:, 1] ** 2 - 7000
LABELS = np.where(X[:, 0] > 0, "a", "b"), np.where(X[:, 1] > 0, "c", "d")
BOTH = pytest.mark.parametrize(
    ("estimator", "targets"),
    [(ConcreteDropoutRegressor, NUMBERS), (ConcreteDropoutClassifier, LABELS)],
    ids=["numbers", "labels"],
)
ROOM = str(Path(gumdrop.estimators.__file__).parent)


def public(model) -> dict[str, object]:
    """What a user sees of a fit."""
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_")]
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def assert_same(model, before: dict[str, object], predicted: np.ndarray) -> None:
    np.testing.assert_array_equal(model.predict(X), predicted)
    after = public(model)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in ("ensemble_", "levels_", "history_"))
    assert after["n_features_in_"] == before["n_features_in_"]


def stream(folder: Path, x: np.ndarray, y: np.ndarray) -> tuple[Path, str]:
    """Write rows, each four times, as `fit_stream` takes them."""
    frame = pd.DataFrame(x, columns=["u", "v"]).assign(y=y)
    pd.concat([frame] * 4).to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet", "y"


@BOTH
@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": -3},
        {"learning_rate_init": -1.0},
        {"learning_rate_init": 1e30, "max_iter": 20},
        {"n_members": 0},
        {"hidden_layer_sizes": (0,)},
        {"validation_fraction": 0.9},
        {"strength": -1.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_refit_that_is_refused_or_diverges_changes_nothing(estimator, targets, change, method) -> None:
    model = getattr(estimator(**QUICK), method)(X, targets[0])
    before, predicted = public(model), model.predict(X)
    frame = pd.DataFrame(1000 * X + 5000, columns=["new", "names"]) if method == "fit" else 1000 * X + 5000
    with pytest.raises(ValueError, match=r"must|not finite|diverged"):
        getattr(model.set_params(**change), method)(frame, targets[1])
    assert_same(model, before, predicted)
    assert not hasattr(model, "feature_names_in_")


@BOTH
@pytest.mark.parametrize("method", ["fit", "partial_fit", "fit_stream"])
def test_nothing_is_fitted_before_a_fit_has_ended(estimator, targets, method, tmp_path) -> None:
    given = stream(tmp_path, X, targets[0]) if method == "fit_stream" else (X, targets[0])
    model = estimator(**QUICK | {"learning_rate_init": 1e30, "max_iter": 40})
    with pytest.raises(ValueError, match=r"not finite|diverged"):
        getattr(model, method)(*given)
    for ask in (check_is_fitted, lambda model: model.predict(X), lambda model: model.update(X, targets[0])):
        with pytest.raises((NotFittedError, ValueError), match=r"not fitted|conformal"):
            ask(model)
    assert not any(hasattr(model, name) for name in ("ensemble_", "classes_", "n_features_in_", "feature_names_in_"))


@BOTH
@pytest.mark.parametrize("method", ["fit", "partial_fit", "fit_stream"])
def test_an_interrupted_refit_leaves_the_old_fit_or_the_new_one(estimator, targets, method, tmp_path) -> None:
    rows, others = (pd.DataFrame(x, columns=["u", "v"]) for x in (X, X / 3 - 8))
    given = stream(tmp_path, others, targets[1]) if method == "fit_stream" else (others, targets[1])
    start = getattr(estimator(**QUICK), method.removesuffix("_stream"))(rows, targets[0])
    old, count = start.predict(rows), 0

    def refit(stop: int) -> object:
        """Refit a copy, and interrupt it at a line of the room of estimators."""
        nonlocal count
        model, count, before = copy.copy(start), 0, sys.gettrace()

        def trace(frame, event, argument):
            nonlocal count
            if not frame.f_code.co_filename.startswith(ROOM):
                return None
            count += event == "line"
            if event == "line" and count == stop:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            getattr(model, method)(*given)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        return model

    finished = refit(-1)
    new, lines = finished.predict(rows), count
    assert not np.array_equal(old, new)
    stops = random.Random(0).sample(range(1, lines), 12) + list(range(lines - 4, lines + 1))
    for stop in stops:
        model = refit(stop)
        predicted = model.predict(rows)
        assert np.array_equal(predicted, old) or np.array_equal(predicted, new), f"mixed at line {stop} of {lines}"
        assert model.dropout_rates_.shape == start.dropout_rates_.shape


@BOTH
def test_a_prediction_during_a_refit_is_of_one_fit(estimator, targets, monkeypatch) -> None:
    monkeypatch.setattr("gumdrop.estimators.rows.ROWS_AT_ONCE", 9)
    for method in ("predict", "sample_y", "predict_quantiles" if targets is NUMBERS else "predict_proba"):
        model = estimator(**QUICK).fit(X, targets[0])
        expected, draw, fits = getattr(model, method)(X), estimator._draw, [model.fit]

        def interposed(self, *given, draw=draw, fits=fits):
            if fits:
                fits.pop()(X / 3 - 8, targets[1])
            return draw(self, *given)

        with monkeypatch.context() as patch:
            patch.setattr(estimator, "_draw", interposed)
            np.testing.assert_array_equal(getattr(model, method)(X), expected)
        assert not np.array_equal(getattr(model, method)(X), expected)


def through_skops(model):
    io = pytest.importorskip("skops.io")
    contents = io.dumps(model)
    types = io.get_untrusted_types(data=contents)
    assert all(name.startswith("gumdrop.") for name in types)
    return io.loads(contents, trusted=types)


@BOTH
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), through_skops])
def test_copies_of_a_fit_are_that_fit_in_memory_of_their_own(estimator, targets, copied) -> None:
    frame = pd.DataFrame(X, columns=["u", "v"])
    chosen = QUICK | {"hidden_layer_sizes": None, "strength": None, "max_iter": 3, "conformal": True}
    model = estimator(**chosen).fit(frame, targets[0])
    other = copied(model)
    np.testing.assert_array_equal(other.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(other.log_prob(frame, targets[0]), model.log_prob(frame, targets[0]))
    assert (other.history_, other.strengths_) == (model.history_, model.strengths_)
    assert other.feature_names_in_.tolist() == ["u", "v"]
    assert all(
        torch.equal(one.central, another.central) for one, another in zip(other.levels_, model.levels_, strict=True)
    )
    assert str(other.ensemble_) == str(model.ensemble_)  # strengths and bins, too
    states = (each.ensemble_.state_dict().values() for each in (model, other))
    for one, another in zip(*states, strict=True):
        assert one.dtype == another.dtype
        assert torch.equal(one, another)
        assert one.data_ptr() != another.data_ptr()
    with pytest.raises(NotFittedError):
        clone(model).predict(frame)


@pytest.mark.parametrize("copied", [copy.deepcopy, through_skops])
@pytest.mark.parametrize(
    "targets",
    [
        np.stack(NUMBERS, 1),
        np.where(X[:, 1] > 0.3, 0.0, np.exp(X[:, 0])),
        np.floor(np.exp(2 * X[:, 0])),
        np.rec.fromarrays([X[:, 1] > 0, np.exp(X[:, 0])], names="event,time"),
    ],
    ids=["several", "atoms", "counts", "known in part"],
)
def test_copies_of_targets_of_all_kinds_predict_and_grow_alike(copied, targets) -> None:
    model = ConcreteDropoutRegressor(**QUICK).partial_fit(X[:30], targets[:30])
    other = copied(model)
    for grown in (False, True):
        if grown:
            model, other = (each.partial_fit(X[30:], targets[30:]) for each in (model, other))
        np.testing.assert_array_equal(other.predict_quantiles(X), model.predict_quantiles(X))
        np.testing.assert_array_equal(other.sample_y(X, 3), model.sample_y(X, 3))
