"""Drift: tests against scipy's, quiet where nothing is different, and words where something is."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency, fisher_exact

from gumdrop.tables import drift
from gumdrop.tables.profile import Profile, column_profiles, tally
from gumdrop.tables.schema.inference import infer_schema, with_statistics


class Model:
    """A model as far as drift asks for it."""

    def __init__(self, frame, test_rows=100):
        self.schema = with_statistics(infer_schema(frame, "price"), frame)
        encoded = self.schema.encode_inputs(frame)
        columns = column_profiles(self.schema, encoded.x, encoded.unknown)
        self.profile = Profile(columns, 0.9, test_rows, test_rows // 10)


def houses(num_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"size": rng.gamma(6, 18, num_rows), "rooms": rng.integers(1, 7, num_rows).astype(float)})
    frame["town"] = rng.choice(["Aldrup", "Bexen", "Coldmere"], num_rows, p=[0.6, 0.3, 0.1])
    frame["sold"] = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, num_rows), unit="D")
    frame["sold"] = frame["sold"].dt.strftime("%Y-%m-%d")
    frame.loc[rng.random(num_rows) < 0.05, "size"] = np.nan
    frame["price"] = np.arange(num_rows) * 1.5
    return frame


@pytest.fixture(scope="module")
def model():
    return Model(houses())


def found(model, frame, seed=9):
    return drift.find_drift(model, frame, np.random.default_rng(seed).random(len(frame)))


def test_the_tail_is_fishers():
    for table in ([[9, 3], [20, 40]], [[4, 0], [96, 700]], [[0, 5], [50, 60]]):
        (a, b), (c, d) = table
        expected = fisher_exact(table, alternative="greater").pvalue
        assert drift._tail(a, a + c, b, b + d) == pytest.approx(expected)


def test_chi_squared_is_that_of_a_table_of_two_rows():
    was, now = np.array([50, 30, 20, 0]), np.array([20, 30, 25, 0])
    assert drift._chi_squared(was, now) == pytest.approx(chi2_contingency([was[:3], now[:3]], correction=False).pvalue)


@pytest.mark.parametrize(
    ("was", "now", "together"),
    [
        ([50, 40, 6, 4, 0], [20, 24, 3, 2, 1], ([50, 40, 10], [20, 24, 6])),
        ([20, 24, 3, 2, 1], [50, 40, 6, 4, 0], ([20, 24, 6], [50, 40, 10])),
        ([50, 40, 10, 0], [25, 20, 4, 1], ([50, 40, 10], [25, 20, 5])),  # the last two have too few: the third joins
        ([60, 39, 1], [30, 19, 1], ([60, 40], [30, 20])),
    ],
)
def test_bins_that_are_too_small_are_counted_together(was, now, together):
    found = drift._together(np.array(was), np.array(now))
    assert tuple(each.tolist() for each in found) == together


def test_a_profile_counts_each_training_row_once_and_a_tally_of_parts_adds_up(model):
    frame = houses()
    encoded = model.schema.encode_inputs(frame)
    edges = [each.edges for each in model.profile.columns]
    assert all(sum(each.counts) == 400 for each in model.profile.columns)
    assert [each.counts[0] for each in model.profile.columns if each.edges] == [0, 0, 0]  # below the least value
    parts = slice(0, 150), slice(150, 400)
    halves = [tally(model.schema, edges, encoded.x[part], encoded.unknown[part]) for part in parts]
    for one, other, whole in zip(*halves, model.profile.columns, strict=True):
        assert (one + other).tolist() == whole.counts


def test_it_is_quiet_where_nothing_is_different(model):
    alarms = sum(bool(found(model, houses(rows, seed), seed).notes) for seed in range(1, 41) for rows in (30, 300))
    assert alarms <= 2  # of 80 at 1 % each


@pytest.mark.parametrize(
    ("change", "name", "what"),
    [
        (lambda frame: frame.assign(size=frame["size"] * 1.5), "size", "above|to"),
        (lambda frame: frame.assign(size=frame["size"] + 2000), "size", "outside the training range"),
        (lambda frame: frame.assign(town=np.where(np.arange(len(frame)) % 4, frame["town"], "Ely")), "town", "unseen"),
        (lambda frame: frame.assign(town="Bexen"), "town", "'Bexen'|'Aldrup'"),
        (lambda frame: frame.assign(rooms=frame["rooms"].where(np.arange(len(frame)) % 5 > 0)), "rooms", "missing"),
        (lambda frame: frame.assign(sold="2024-05-06"), "sold", "outside the training range"),
    ],
)
def test_a_column_that_differs_is_named_with_what_changed_and_no_other(model, change, name, what):
    result = found(model, change(houses(200, 77)))
    (column,) = result.columns
    assert column.name == name
    assert column.psi > 0.1
    assert pd.Series([column.what]).str.contains(what).all()
    assert abs(column.now - column.before) > 0.05
    assert f"1 of 4 columns is not distributed as in training: '{name}'" in result.notes[0]


def test_a_difference_that_is_sure_but_small_is_none(model):
    big = Model(houses(40_000))
    moved = houses(20_000, 5)
    moved["size"] *= 1.04
    assert found(big, moved).columns == []
    moved["size"] *= 1.5
    assert [each.name for each in found(big, moved).columns] == ["size"]


def test_larger_epistemic_uncertainty_is_told_from_chance(model):
    frame = houses(100, 3)
    usual = np.linspace(0, 1, 100)
    assert not drift.find_drift(model, frame, usual).more_uncertain
    result = drift.find_drift(model, frame, usual + 0.4)
    assert result.more_uncertain
    assert result.above == pytest.approx(0.5)
    assert "50% of the rows have a larger epistemic uncertainty" in result.notes[-1]


def test_few_rows_and_old_models_say_nothing(model):
    assert found(model, houses(19)) is None
    old = Model(houses())
    old.profile = None
    assert found(old, houses(100)) is None
