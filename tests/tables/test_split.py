"""Which rows test: the last ones, whole groups, or those of a table of one's own; and what is held out of a network."""

import dataclasses
import itertools
import json

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop.ensembles.folds import folds_of
from gumdrop.tables import TableError
from gumdrop.tables.fitting.data import read_data
from gumdrop.tables.fitting.fit import fit_table
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.fitting.train import train_until_stopped
from gumdrop.tables.notes import repeated_note
from gumdrop.tables.reading.declared import Reading

from builders.tables import QUICK, write_table


@pytest.fixture
def table(tmp_path):
    frame = pd.read_csv(write_table(tmp_path / "houses.csv"))
    days = pd.date_range("2020-01-01", periods=60, freq="3D").repeat(2)
    frame["sold"] = days.strftime("%Y-%m-%d")
    frame["year"] = 1960 + np.arange(120) // 4
    frame = frame.assign(town=[f"T{i % 12}" for i in range(120)], id=range(120), half=["a", "b"] * 60, one="x")
    frame = frame.sample(frac=1, random_state=0)
    frame.assign(late=frame["sold"].where(frame["id"] != 7)).to_csv(tmp_path / "houses.csv", index=False)
    return tmp_path / "houses.csv"


def read(table, **settings):
    drop = ("grade", "id", "half", "one", "late")
    drop = tuple(name for name in drop if name in pd.read_csv(table, nrows=1))
    return read_data(str(table), "price", Reading(drop=drop), FitSettings(**settings))


def test_of_dates_the_last_rows_test_and_no_moment_is_in_both_parts(table) -> None:
    data = read(table, split_by="sold")
    sold = data.frame["sold"]
    assert sold.iloc[data.train].max() < sold.iloc[data.test].min()
    assert len(data.test) == 24
    assert sorted([*data.train, *data.test]) == list(range(120))
    assert data.words == f"the last in the order of 'sold', from {sold.iloc[data.test].min()} on"
    assert "sold" in data.schema.names
    days = pd.to_datetime(sold.iloc[data.train]).to_numpy()
    blocks = [days[data.together == block] for block in range(10)]
    assert all(one.max() <= other.min() for one, other in itertools.pairwise(blocks))


def test_of_anything_else_whole_groups_test_and_the_column_is_no_input(table) -> None:
    data = read(table, split_by="town")
    town = data.frame["town"].to_numpy()
    assert set(town[data.train]).isdisjoint(town[data.test])
    assert len(data.test) == 20
    assert data.words == "all rows of 2 of the 12 groups of 'town'"
    assert "town" not in data.schema.names
    assert len(set(zip(data.together, town[data.train], strict=True))) == 10
    other = read(table, split_by="town", seed=1)
    assert set(other.frame["town"].iloc[other.test]) != set(town[data.test])


def test_the_user_says_what_the_column_is(table) -> None:
    data = read(table, split_by="year", split_as="time")
    year = data.frame["year"]
    assert year.iloc[data.train].max() < year.iloc[data.test].min()
    assert read(table, split_by="year").words == "all rows of 6 of the 30 groups of 'year'"
    assert read(table, split_by="sold", split_as="groups").words == "all rows of 12 of the 60 groups of 'sold'"


def test_a_table_of_ones_own_tests(table, tmp_path) -> None:
    later = pd.read_csv(table).head(30).assign(extra="words of all kinds").drop(columns=["grade", "id"])
    later.loc[3, "price"] = None
    later.loc[4, "colour"] = "violet"
    later.to_csv(tmp_path / "later.csv", index=False)
    data = read(table, test=str(tmp_path / "later.csv"))
    assert (len(data.train), len(data.test), data.words) == (120, 29, "those of later.csv")
    assert data.rows[data.test].tolist() == [*range(1, 4), *range(5, 31)]
    alone = data.schema.encode_inputs(later[later["price"].notna()])
    np.testing.assert_array_equal(data.x[data.test], alone.x)
    values = data.part(data.test)[1].squeeze(1).numpy() * data.schema.target.std + data.schema.target.mean
    np.testing.assert_allclose(values, later["price"].dropna(), rtol=1e-5)
    assert "later.csv: 1 of 30 rows have no 'price' (blank, NA, None and the like) and are left out" in data.notes
    assert any(note.startswith("later.csv: categories of 'colour'") for note in data.notes)
    assert data.schema == read(table, test=str(tmp_path / "later.csv")).schema


def test_dates_that_are_split_at_random_are_advised_on(table) -> None:
    advice = "`--split-by sold` tests on the last"
    assert any(note.endswith(advice) for note in read(table).notes)
    assert not any(advice in note for note in read(table, split_by="town").notes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split_by": "nothing"}, "no column 'nothing'"),
        ({"split_by": "price"}, "`--split-by price` is the target"),
        ({"split_by": "id"}, "another value in each of 120 rows.*--split-as time"),
        ({"split_by": "one"}, "has 1 group, and at least 3"),
        ({"split_by": "half"}, "has 2 groups, and at least 3"),
        ({"split_by": "one", "split_as": "time"}, "holds 'x', which is neither a date nor a number"),
        ({"split_by": "late"}, r"missing in 1 row \(data rows \d+\), so nobody can tell whether"),
        ({"split_by": "late", "split_as": "groups"}, "a name of its own"),
        ({"test": "nowhere.csv"}, "nowhere.csv is not there"),
    ],
    ids=str,
)
def test_a_split_that_cannot_be_made_says_what_to_do(table, settings, message) -> None:
    with pytest.raises(TableError, match=message):
        read(table, **settings)


def test_a_moment_is_watched_or_trained_on_as_a_whole(table, tmp_path) -> None:
    for moments, distinct in ((6, 5), (2, None)):
        frame = pd.read_csv(table)
        frame.assign(year=2000 + np.arange(120) % moments).to_csv(tmp_path / "few.csv", index=False)
        data = read(tmp_path / "few.csv", split_by="year", split_as="time")
        year = data.frame["year"].iloc[data.train].to_numpy()
        pairs = None if data.together is None else len(set(zip(data.together, year, strict=True)))
        assert pairs == distinct


def test_a_moment_that_all_rows_share_is_no_order(table) -> None:
    pd.read_csv(table).assign(sold="2020-01-01").to_csv(table, index=False)
    with pytest.raises(TableError, match="has the same time in every row"):
        read(table, split_by="sold")


def test_a_test_table_that_does_not_fit_is_named(table, tmp_path) -> None:
    frame = pd.read_csv(table)
    for name, changed in (("short", frame.drop(columns="size")), ("empty", frame.assign(price=None))):
        changed.to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.raises(TableError, match=r"short.csv: the table has no column 'size'"):
        read(table, test=str(tmp_path / "short.csv"))
    with pytest.raises(TableError, match=r"empty.csv: no row has a 'price'"):
        read(table, test=str(tmp_path / "empty.csv"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"test": "a.csv", "split_by": "b"}, "`test`.*`split_by`"),
        ({"split_as": "time"}, "`split_as`"),
        ({"stream": True, "split_by": "b"}, "`stream`"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        FitSettings(**settings)


@pytest.mark.parametrize("sizes", [[5, 5, 5, 5], [40, 1, 1, 8, 20, 30], [100, 2]])
def test_groups_are_held_out_whole(sizes) -> None:
    together = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    folds = folds_of(torch.randperm(len(together), dtype=torch.int32), 5, 10, together)
    for rows, held_out in folds:
        assert sorted([*rows.tolist(), *held_out.tolist()]) == list(range(len(together)))
        assert set(together[rows.long()].tolist()).isdisjoint(together[held_out.long()].tolist())
        assert len(held_out)


def test_networks_are_watched_on_whole_groups(table, tmp_path) -> None:
    data = read(table, split_by="town")
    settings = dataclasses.replace(QUICK, hidden=(4,))
    fitted = train_until_stopped(data, settings, tmp_path, lambda _: False, print)[0].fitted
    town = data.frame["town"].to_numpy()[data.train]
    for held_out in fitted.held_out:
        assert set(town[held_out.numpy()]).isdisjoint(np.delete(town, held_out.numpy()))


def test_the_results_say_which_rows_tested(table, tmp_path) -> None:
    settings = dataclasses.replace(QUICK, split_by="sold", compare=False)
    drop = Reading(drop=("grade", "id", "half", "one", "late"))
    fit_table(table, "price", tmp_path / "run", reading=drop, settings=settings)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["table"]["split"].startswith("the last in the order of 'sold', from 2020-0")
    assert 'split-by = "sold"' in (tmp_path / "run" / "config.toml").read_text()
    assert [score["name"] for score in results["scores"]] == ["learned dropout", "mean of the training part"]
    assert results["settings"]["compare"] is False


def dated(target) -> pd.DataFrame:
    days = pd.date_range("2020-01-01", periods=60).strftime("%Y-%m-%d")
    return pd.DataFrame({"x": np.arange(60) % 7, "sold": days, "y": target})


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (["a"] * 50 + ["b"] * 10, "target 'y' is 'a' in all 48 rows to train on.*let other rows test"),
        ([1.5] * 50 + [2.5, 3.5] * 5, "target 'y' is 1.5 in all rows to train on: choose one that varies"),
        (["a"] * 60, "target 'y' is 'a' in every row"),
        ([1.0, 2.0] + [None] * 58, "'y' is missing in all but 2 of 60 rows, and at least 10 rows that hold it"),
    ],
    ids=["one class early", "one value early", "one class", "hardly known"],
)
def test_a_target_of_one_level_says_where_it_is(target, message) -> None:
    with pytest.raises(TableError, match=message):
        read_data(dated(target), "y", Reading(), FitSettings(split_by="sold"))


def test_a_class_that_only_tests_is_named() -> None:
    data = read_data(dated(["a", "b"] * 25 + ["c"] * 10), "y", Reading(), FitSettings(split_by="sold"))
    assert "no row to train on has the 'y' 'c', which only test" in data.notes


def test_rows_out_of_order_are_taken_in_their_order_and_that_is_said() -> None:
    frame = dated(np.arange(60) * 0.5)
    mixed = frame.sample(frac=1, random_state=0)
    data = read_data(mixed, "y", Reading(), FitSettings(split_by="sold"))
    assert data.frame["sold"].iloc[data.train].max() < data.frame["sold"].iloc[data.test].min()
    said = "the rows are not in the order of 'sold': the last by it test, wherever they stand in the table"
    assert said in data.notes
    assert said not in read_data(frame, "y", Reading(), FitSettings(split_by="sold")).notes


def test_a_table_in_memory_is_held_once(table) -> None:
    data = read(table)
    assert all(
        np.shares_memory(data.frame[name].to_numpy(), data.table.frame[name].to_numpy()) for name in ("size", "year")
    )


@pytest.mark.parametrize(
    ("column", "count"), [([0.0, -0.0, 1.0, 2.0], 1), ([np.nan, np.nan, np.nan, 1.0], 2), ([1.0, 2.0, 3.0, 4.0], 0)]
)
def test_equal_rows_are_counted_as_pandas_counts_them(column, count) -> None:
    frame = pd.DataFrame({"x": column, "word": ["a", "a", "a", "a"], "n": [1, 1, 1, 1]})
    for one in (frame, frame[["word", "x"]], frame.astype({"x": "float32", "n": "Int64"})):
        notes = repeated_note(one)
        assert int(one.duplicated().sum()) == count
        assert [int(note.split()[0]) for note in notes] == [count] * bool(count)
    assert repeated_note(frame[["word"]])[0].startswith("3 rows equal")
