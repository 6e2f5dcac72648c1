"""What estimators refuse and warn of: cells, units and weights with which a model would learn something else."""

import datetime

import numpy as np
import pandas as pd
import pytest

from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor
from gumdrop.estimators.checks import checked_weights

QUICK = {"hidden_layer_sizes": (8,), "n_members": 2, "max_iter": 20, "n_mc_samples": 8, "random_state": 0}
SIMPLE = QUICK | {"strength": 1.0, "learning_rate_init": 0.05}
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(100, 2))
Y = X[:, 0] + 0.1 * RANDOM.normal(size=100)


# Units and cells far from the others


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**664, 2.0**900])
def test_inputs_of_any_unit_give_the_same_model(unit) -> None:
    model, of_unit = (ConcreteDropoutRegressor(**SIMPLE).fit(x, Y) for x in (X, X * unit))
    np.testing.assert_array_equal(of_unit.predict(X * unit), model.predict(X))


@pytest.mark.parametrize("sign", [np.abs, np.asarray], ids=["positive", "any"])
@pytest.mark.parametrize(("unit", "size"), [(1e200, "larger"), (1e160, "larger"), (1e-300, "smaller")])
def test_targets_whose_variance_leaves_float64_are_refused(unit, size, sign) -> None:
    row = np.abs(Y).argmax()
    for targets in (sign(Y) * unit, np.stack([Y, sign(Y) * unit], 1)):
        with pytest.raises(ValueError, match=rf"standard deviation of .* in row {row}\).* in a {size} unit"):
            ConcreteDropoutRegressor(**SIMPLE).fit(X, targets)
    events = np.rec.fromarrays([Y > 0, np.abs(Y) * unit], names="event,time")
    with pytest.raises(ValueError, match=f"in a {size} unit"):
        ConcreteDropoutRegressor(**SIMPLE).fit(X, events)


def test_targets_of_units_that_float64_holds_are_those_of_any_other() -> None:
    mean, std = ConcreteDropoutRegressor(**SIMPLE).fit(X, Y).predict(X, return_std=True)
    for unit in (2.0**-460, 2.0**460):
        of_unit = ConcreteDropoutRegressor(**SIMPLE).fit(X, Y * unit)
        np.testing.assert_allclose(of_unit.predict(X, return_std=True), np.stack([mean, std]) * unit, rtol=1e-9)


def spoiled(values: np.ndarray, rows: object, cell: float) -> np.ndarray:
    values = values.copy()
    values[rows] = cell
    return values


@pytest.mark.parametrize("cell", [1e300, -1e300, 1e40, 9.97e36])
@pytest.mark.parametrize("rows", [7, slice(7, None, 20)], ids=["one", "some"])
def test_a_cell_that_hides_all_others_and_is_no_measurement_is_refused(cell, rows) -> None:
    x = X.copy()
    x[rows, 1] = cell
    for estimator, y in ((ConcreteDropoutRegressor, Y), (ConcreteDropoutClassifier, Y > 0)):
        with pytest.raises(ValueError, match=r"column 1 of `X` has .* in row 7, so far from most others"):
            estimator(**SIMPLE).fit(x, y)
        with pytest.raises(ValueError, match=r"column 'age' of `X` has .* in row 7, so far"):
            estimator(**SIMPLE).fit(pd.DataFrame(x, columns=["size", "age"]), y)
    with pytest.raises(ValueError, match=r"(target 0 of `y` has|is) .* in row 7"):
        ConcreteDropoutRegressor(**SIMPLE).fit(X, spoiled(Y, rows, cell))


def test_a_cell_that_hides_all_others_and_may_be_right_is_told_of() -> None:
    x = X.copy()
    x[5, 0] = 1e12
    with pytest.warns(UserWarning, match=r"column 0 of `X` has 1e\+12 in row 5, so far from most") as told:
        ConcreteDropoutRegressor(**SIMPLE).fit(x, Y)
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match=r"target 1 of `y` has -1e\+12 in row 5"):
        ConcreteDropoutRegressor(**SIMPLE).fit(X, np.stack([Y, spoiled(Y, 5, -1e12)], 1))


@pytest.mark.parametrize(
    "column",
    [
        np.where(np.arange(100) == 3, 1e300, 0.0),
        np.exp(-((9 * X[:, 0]) ** 2)),
        np.where(np.arange(100) < 40, X[:, 0], 1e-17 * X[:, 0]),
        1e300 * X[:, 0],
        1e15 + np.arange(100) % 2,
        np.exp(15 + 3 * X[:, 0]),
    ],
    ids=["rare", "kernel", "rounding", "large", "shifted", "lognormal"],
)
def test_columns_in_which_networks_see_what_there_is_are_taken(column) -> None:
    model = ConcreteDropoutRegressor(**SIMPLE).fit(np.stack([X[:, 0], column], 1), Y)
    assert model.score(np.stack([X[:, 0], column], 1), Y) > 0.5


@pytest.mark.parametrize("cell", [1e300, -1.7e308])
def test_new_inputs_beyond_all_squares_are_refused(cell) -> None:
    frame = pd.DataFrame(X, columns=["size", "age"])
    far = frame.assign(age=spoiled(X[:, 1], 3, cell))
    for model in (
        ConcreteDropoutRegressor(**SIMPLE).fit(frame, Y),
        ConcreteDropoutClassifier(**SIMPLE).fit(frame, Y > 0),
    ):
        with pytest.raises(
            ValueError, match=rf"column 'age' of `X` has {cell:g}, too far from all".replace("+", r"\+")
        ):
            model.predict_distribution(far)
        assert np.isfinite(model.predict(frame.assign(age=spoiled(X[:, 1], 3, 1e100)))).all()


# Weights


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("weights", "how_much"),
    [
        (RANDOM.uniform(0.005, 0.015, 100), "less"),
        (RANDOM.uniform(0.05, 0.15, 100), "less"),
        (RANDOM.uniform(50, 150, 100), "more"),
        (RANDOM.integers(10**8, 10**9, 100), "more"),
    ],
)
def test_weights_that_count_no_rows_are_told_of(method, weights, how_much) -> None:
    weights[:10] = 0
    model = ConcreteDropoutRegressor(**SIMPLE | {"max_iter": 1})
    expected = rf"`sample_weight` sums to .* over 90 rows .* {how_much} than they tell; .*`w / w\[w > 0\]\.mean\(\)`"
    with pytest.warns(UserWarning, match=expected) as told:
        getattr(model, method)(X, Y, sample_weight=weights)
    assert told[0].filename == __file__


def test_the_remedy_for_weights_is_one() -> None:
    weights = np.where(np.arange(100) % 2, RANDOM.uniform(size=100), 0)
    weights /= weights.sum()
    settings = SIMPLE | {"learning_rate_init": 0.1}
    with pytest.warns(UserWarning, match="sums to 1 over 50 rows"):
        poor = ConcreteDropoutRegressor(**settings).fit(X, Y, sample_weight=weights)
    model = ConcreteDropoutRegressor(**settings).fit(X, Y, sample_weight=weights / weights[weights > 0].mean())
    assert model.score(X, Y) > poor.score(X, Y) + 0.3


@pytest.mark.parametrize(
    "weights", [RANDOM.integers(0, 200, 100), RANDOM.uniform(0, 2, 100), np.exp(-np.arange(100) / 60)]
)
def test_weights_that_count_rows_or_let_them_fade_are_taken(weights) -> None:
    ConcreteDropoutClassifier(**SIMPLE | {"max_iter": 1}).fit(X, Y > 0, sample_weight=weights)


# Events


EVENTS = pd.DataFrame({"event": RANDOM.integers(0, 2, 100), "time": np.exp(X[:, 0])})


@pytest.mark.parametrize(
    ("targets", "mended"),
    [
        (EVENTS, EVENTS.astype({"event": bool})),
        (EVENTS[["time", "event"]].astype(float), EVENTS.astype({"event": "boolean"})),
        (EVENTS.to_numpy(), np.rec.fromarrays([EVENTS["event"] == 1, EVENTS["time"]], names="event,time")),
    ],
    ids=["frame", "exchanged", "array"],
)
def test_an_event_of_numbers_is_told_of(targets, mended) -> None:
    model = ConcreteDropoutRegressor(**SIMPLE | {"max_iter": 2})
    with pytest.warns(UserWarning, match=r"of `y` holds only 0 and 1, .* make it bool: `") as told:
        assert model.fit(X, targets).predict(X).shape == (100, 2)
    assert told[0].filename == __file__
    assert model.fit(X, mended).predict(X).shape == (100,)


def test_an_event_of_polars_is_one_of_pandas() -> None:
    polars = pytest.importorskip("polars")
    model = ConcreteDropoutRegressor(**SIMPLE | {"max_iter": 2})
    frame = polars.DataFrame({"event": EVENTS["event"].to_numpy() == 1, "time": EVENTS["time"].to_numpy()})
    expected = model.fit(X, EVENTS.astype({"event": bool})).predict(X)
    np.testing.assert_array_equal(model.fit(X, frame).predict(X), expected)


def test_a_record_with_an_event_of_numbers_is_no_pair_of_ends() -> None:
    records = np.rec.fromarrays([EVENTS["event"], EVENTS["time"] + 1], names="event,time")
    with pytest.raises(ValueError, match=r"`event` of `y` holds only 0 and 1.*make it bool"):
        ConcreteDropoutRegressor(**SIMPLE).fit(X, records)
    ends = np.rec.fromarrays([EVENTS["event"] * 1.0, EVENTS["time"] + 1], names="lower,upper")
    assert ConcreteDropoutRegressor(**SIMPLE | {"max_iter": 2}).fit(X, ends).predict(X).shape == (100,)


@pytest.mark.parametrize(
    "targets", [np.stack([Y > 0, Y < 0.5], 1) * 1, np.stack([Y > 0, Y], 1), np.exp(X), np.stack([Y > 0, Y**2, Y], 1)]
)
def test_two_targets_that_are_no_event_and_time_are_taken(targets) -> None:
    ConcreteDropoutRegressor(**SIMPLE | {"max_iter": 2}).fit(X, targets)


# Times


DAYS = pd.date_range("2024-01-01", periods=100)


@pytest.mark.parametrize(
    "column",
    [DAYS, DAYS.tz_localize("UTC"), DAYS - DAYS[0], DAYS.to_period("M"), DAYS.date, DAYS.to_pydatetime()],
    ids=["dates", "with a zone", "durations", "periods", "objects of dates", "objects of times"],
)
@pytest.mark.parametrize("beside", [[], ["size"]], ids=["alone", "beside numbers"])
def test_times_are_refused_with_their_column(column, beside) -> None:
    frame = pd.DataFrame({"size": X[:, 0], "day": column})[[*beside, "day"]]
    fitted = ConcreteDropoutRegressor(**SIMPLE | {"max_iter": 1}).fit(frame.assign(day=X[:, 1]), Y)
    for ask in (lambda: ConcreteDropoutClassifier(**SIMPLE).fit(frame, Y > 0), lambda: fitted.predict(frame)):
        with pytest.raises(
            ValueError, match=r"Column 'day' of `X` is of dtype .*, and estimators take numbers: .*table"
        ):
            ask()


def test_times_of_numpy_and_polars_are_refused() -> None:
    for values in (DAYS.to_numpy(), (DAYS - DAYS[0]).to_numpy()):
        with pytest.raises(ValueError, match=r"^`X` is of dtype .*64.*, and estimators take numbers: count from a day"):
            ConcreteDropoutRegressor(**SIMPLE).fit(values[:, None], Y)
    polars = pytest.importorskip("polars")
    start = datetime.datetime(2024, 1, 1)
    for column in (DAYS.to_numpy(), [start.date()] * 100, [datetime.timedelta(hours=1)] * 100, [start.time()] * 100):
        with pytest.raises(ValueError, match=r"^Column 'day' of `X` is of dtype .*: count from a day"):
            ConcreteDropoutRegressor(**SIMPLE).fit(polars.DataFrame({"size": X[:, 0], "day": column}), Y)
    with pytest.raises(ValueError, match=r"Column 'word' of `X` is of dtype String"):
        ConcreteDropoutRegressor(**SIMPLE).fit(polars.DataFrame({"size": X[:, 0], "word": ["a", "b"] * 50}), Y)


@pytest.mark.parametrize("weights", [None, [1] * 4, np.ones(4, np.float32), np.ones(4, np.float16)])
def test_weights_are_summed_in_float64_whatever_they_come_in(weights) -> None:
    found = checked_weights(weights, np.zeros((4, 2), np.float32))
    assert found.dtype == np.float64
    assert found.tolist() == [1.0] * 4
