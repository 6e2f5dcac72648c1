"""Tables: what is read, what is inferred, what is encoded, and what each refusal says."""

import contextlib
import datetime
import gzip
import io
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gumdrop.export import serving
from gumdrop.tables import FitSettings, TableError, fit_table
from gumdrop.tables import read_table as read
from gumdrop.tables.errors import check_present
from gumdrop.tables.fitting.data import read_data
from gumdrop.tables.notes import extra_notes
from gumdrop.tables.reading.declared import Reading, column_name
from gumdrop.tables.schema.columns import CategoryColumn
from gumdrop.tables.schema.inference import infer_schema
from gumdrop.tables.schema.schema import TableSchema

from builders.tables import ONE

ROWS = 40


def write(folder, text, name="table.csv", encoding="utf-8"):
    path = folder / name
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def read_table(path, **options):
    return read(path, **options).frame


def houses(**extra):
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.normal(40.0, 9.0, ROWS),
        "rooms": rng.integers(2, 6, ROWS),
        "town": rng.choice(["Oslo", "Bergen", "Ås"], ROWS),
        "price": rng.normal(300.0, 50.0, ROWS),
    }
    return pd.DataFrame({**columns, **extra})


def with_cell(frame, column, row, value):
    values = frame[column].tolist()
    values[row] = value
    return frame.assign(**{column: values})


# Reading


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz"])
def test_reads_each_separator_plain_and_gzipped(tmp_path, separator, name):
    text = "age , town\n1.5, Oslo \n\n2,Ås\n".replace(",", separator)
    frame = read_table(write(tmp_path, text, name))
    assert frame.columns.tolist() == ["age", "town"]
    assert frame["age"].tolist() == [1.5, 2.0]
    assert frame["town"].tolist() == ["Oslo", "Ås"]


@pytest.mark.parametrize(
    ("text", "encoding", "columns"),
    [
        ('"size, m, net";town\n1;"a;b"\n', "utf-8", {"size, m, net": [1], "town": ["a;b"]}),  # quoted separators
        ("a,b\n1,2\n", "utf-8-sig", {"a": [1], "b": [2]}),  # a byte order mark
        ("a\n1\n2\n", "utf-8", {"a": [1, 2]}),
        (",a\n0,5\n1,6\n", "utf-8", {"Unnamed: 0": [0, 1], "a": [5, 6]}),
    ],
)
def test_headers_are_read_as_they_are_meant(tmp_path, text, encoding, columns):
    assert read_table(write(tmp_path, text, encoding=encoding)).to_dict("list") == columns


def test_usual_spellings_of_missing(tmp_path):
    spellings = ["", "NA", "N/A", "nan", "NaN", "None", "null", "NULL", "?", "-", "na", " ? ", "#N/A"]
    rows = "".join(f"{s},{s},7\n" for s in spellings)
    frame = read_table(write(tmp_path, f"number,text,row\n1.5,x,7\n{rows}"))
    assert frame["number"].isna().sum() == frame["text"].isna().sum() == len(spellings)
    assert frame["row"].tolist() == [7] * (len(spellings) + 1)


LONG = [2**53 + 1, None, -(2**62) - 1]


def test_long_integers_keep_their_digits_beside_missing_cells(tmp_path):
    """A float64 would round them, and pandas takes one where a cell is missing."""
    rows = ["id,size,huge", *(f" {'' if i is None else i},1e300,{2**70}" for i in LONG)]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    frame = read_table(tmp_path / "t.csv")
    assert [None if pd.isna(value) else value for value in frame["id"]] == LONG
    assert frame["size"].tolist() == [1e300] * 3
    assert frame["huge"].astype(float).tolist() == [2.0**70] * 3
    many = pd.concat([frame.assign(size=[1.0, 2.0, 3.5])] * 4)
    schema = infer_schema(many.assign(y=np.arange(12.0)), "y", Reading(drop=("huge",)))
    assert schema.encode_inputs(many).missing == {"id": 4}


def test_long_integers_of_parquet_keep_their_digits(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table({"id": LONG, "size": [1e300, None, 0.5]}), tmp_path / "t.parquet")
    frame = read_table(tmp_path / "t.parquet")
    assert [None if pd.isna(value) else value for value in frame["id"]] == LONG
    assert frame["size"].dtype == float
    assert frame["size"].dropna().tolist() == [1e300, 0.5]


@pytest.mark.parametrize("yes", ["True", "TRUE", "true"])
def test_booleans_stay_text_as_they_are_spelled(tmp_path, yes):
    frame = read_table(write(tmp_path, f"a,b,c\n{yes},1,{yes}\n{yes},2,\n"))
    assert frame["a"].tolist() == [yes, yes]
    assert frame["c"].tolist()[0] == yes
    assert frame["c"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty or has no rows"),
        ("\n \n", "is empty or has no rows"),
        ("a,b\n", "is empty or has no rows"),
        ("a,b\n1,2\n1,2,3\n", r"line 3 of .* has 3 cells, its header 2: correct that line"),
        ("a,b\n1,2\n\n1\n", r"line 4 of .* has 1 cells"),
        ("a, a\n1,2\n", "several columns named a: rename"),
        ('a,b\n1,"2\n1,2\n', "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, text, message):
    with pytest.raises(TableError, match=message):
        read_table(write(tmp_path, text))


def test_what_is_no_text_is_refused(tmp_path):
    with pytest.raises(TableError, match="save it as UTF-8"):
        read_table(write(tmp_path, "a,b\nÅs,2\n", encoding="latin-1"))
    with pytest.raises(TableError, match="save it as UTF-8"):
        read_table(write(tmp_path, "a,b\nx,2\n", encoding="utf-16"))
    whole = write(tmp_path, "a,b\n" + "1,2\n" * 500, "cut.csv.gz").read_bytes()
    (tmp_path / "cut.csv.gz").write_bytes(whole[:-12])
    with pytest.raises(TableError, match="cannot be read"):
        read_table(tmp_path / "cut.csv.gz")


def test_a_path_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(TableError, match="is not there: name a CSV or Parquet file"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(TableError, match="is a folder: name a CSV or Parquet file"):
        read_table(tmp_path)


# Encoding


def test_training_columns_are_standardised():
    frame = houses()
    schema = infer_schema(frame, "price")
    x, y = schema.encode_inputs(frame).x, schema.encode_target(frame)
    assert x.dtype == y.dtype == np.float32
    assert x.shape == (ROWS, schema.num_features) == (ROWS, 5)
    assert y.shape == (ROWS, 1)
    assert schema.feature_names == ["age", "rooms", "town=Bergen", "town=Oslo", "town=Ås"]
    both = np.concatenate([x[:, :2], y], axis=1, dtype=np.float64)
    np.testing.assert_allclose(both.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(both.std(axis=0), 1.0, atol=1e-6)
    np.testing.assert_array_equal(x[:, 3] == 1, frame["town"] == "Oslo")
    np.testing.assert_array_equal(x[:, 2:].sum(axis=1), 1.0)
    np.testing.assert_allclose(y[:, 0] * schema.target.std + schema.target.mean, frame["price"], rtol=1e-6)


def test_prediction_uses_the_statistics_of_training():
    frame = houses()
    schema = infer_schema(frame, "price")
    x = schema.encode_inputs(frame).x
    later = frame.iloc[[7, 3]][["town", "rooms", "age"]].assign(extra="ignored")
    np.testing.assert_array_equal(schema.encode_inputs(later).x, x[[7, 3]])
    assert schema.encode_inputs(frame.iloc[:0]).x.shape == (0, 5)


@pytest.mark.parametrize(("target", "decimal"), [("price", None), ("price", "."), ("town", ",")])
def test_json_round_trip_encodes_identically(target, decimal):
    frame = with_cell(houses(), "age", 2, None)
    schema = replace(infer_schema(frame, target), decimal=decimal)
    again = TableSchema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema
    assert again.decimal == decimal
    np.testing.assert_array_equal(again.encode_inputs(frame).x, schema.encode_inputs(frame).x)
    np.testing.assert_array_equal(again.encode_target(frame), schema.encode_target(frame))


def test_missing_numbers_become_the_training_median_and_are_counted():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0, 90.0] * 2, "y": np.arange(10) / 3})
    schema = infer_schema(with_cell(frame, "a", 9, None), "y")
    (column,) = schema.columns
    assert (column.kind, column.mean, column.median, column.least, column.most) == ("number", 110 / 9, 3.0, 1.0, 90.0)
    assert column.std == pytest.approx(np.std([1, 2, 3, 4, 90, 1, 2, 3, 4]))
    encoded = schema.encode_inputs(pd.DataFrame({"a": [None, 3.0, None]}))
    assert encoded.x[0] == encoded.x[1] == encoded.x[2] == np.float32((3.0 - column.mean) / column.std)
    assert encoded.missing == {"a": 2}
    assert encoded.unseen == {}


def test_missing_category_seen_in_training_is_a_category():
    frame = with_cell(houses(), "town", 0, None)
    schema = infer_schema(frame, "price")
    assert schema.columns[2] == CategoryColumn("town", ("Bergen", "Oslo", "Ås", ""))
    assert schema.feature_names[-1] == "town=(missing)"
    encoded = schema.encode_inputs(frame)
    np.testing.assert_array_equal(encoded.x[:, -1], np.eye(ROWS)[0])
    assert encoded.missing == {"town": 1}


def test_unseen_and_missing_categories_are_zeros_and_counted():
    schema = infer_schema(houses(), "price")
    later = houses().iloc[:5].assign(town=["Rome", "Oslo", "Rome", "Nice", None])
    encoded = schema.encode_inputs(later)
    assert encoded.unseen == {"town": {"Rome": 2, "Nice": 1}}
    assert encoded.missing == {"town": 1}
    np.testing.assert_array_equal(encoded.x[:, 2:], np.eye(3)[[1]] * np.array([[0], [1], [0], [0], [0]]))


def test_constant_inputs_become_zeros():
    schema = infer_schema(houses(flat=0.1), "price")
    assert schema.columns[-1].std == 1.0
    np.testing.assert_array_equal(schema.encode_inputs(houses(flat=0.1)).x[:, -1], 0.0)


def test_booleans_become_categories_from_a_file_and_from_memory(tmp_path):
    frame = houses(garden=np.arange(ROWS) % 2 == 0)
    frame.to_csv(tmp_path / "t.csv", index=False)
    for table in (frame, read_table(tmp_path / "t.csv")):
        assert infer_schema(table, "price").columns[-1] == CategoryColumn("garden", ("False", "True"))


def test_categories_of_a_text_column_stay_as_they_are_spelled(tmp_path):
    codes = ["01", "2", "3a"] * 4
    train = write(tmp_path, "code,y\n" + "".join(f"{c},{i / 3}\n" for i, c in enumerate(codes)))
    schema = infer_schema(read_table(train), "y")
    assert schema.columns[0].categories == ("01", "2", "3a")
    encoded = schema.encode_inputs(read_table(write(tmp_path, "code\n01\n2\n1\n2.0\n", "new.csv"), **schema.reading))
    np.testing.assert_array_equal(encoded.x[:2], np.eye(3)[:2])
    assert encoded.unseen == {"code": {"1": 1, "2.0": 1}}


# The target


@pytest.mark.parametrize("labels", [("5%", "10%", "none of these"), ("12E3", "10A2", "7"), ("1,5", "2", "n. v.")])
def test_rows_of_categories_that_look_like_numbers_are_read_as_in_training(tmp_path, labels):
    whole = houses(code=np.resize(labels, ROWS), rank=np.resize(labels, ROWS)).drop(columns="price")
    whole.to_csv(tmp_path / "whole.csv", index=False)
    schema = infer_schema(read_table(tmp_path / "whole.csv"), "rank")
    some = whole[:2]  # without the label that is no number
    some.to_csv(tmp_path / "some.csv", index=False)
    for table in (tmp_path / "some.csv", some):
        frame = read_table(table, **schema.reading)
        np.testing.assert_array_equal(schema.encode_inputs(frame).x, schema.encode_inputs(whole).x[:2])
        np.testing.assert_array_equal(schema.encode_target(frame), schema.encode_target(whole)[:2])


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        ([0, 1], "classification", ("0", "1")),
        ([-1.0, 1.0], "classification", ("-1", "1")),
        ([0.5, 1.5], "classification", ("0.5", "1.5")),
        ([0, 1, 2], "classification", ("0", "1", "2")),
        ([3.0, 1.0, 2.0], "classification", ("1", "2", "3")),
        (list(range(1, 11)), "classification", tuple(map(str, range(1, 11)))),
        (list(range(11)), "regression", ()),
        ([3, 4, 5, 6, 7, 8], "regression", ()),
        ([0, 1, 3], "regression", ()),
        ([0.0, 0.5, 1.0], "regression", ()),
        (["no", "yes"], "classification", ("no", "yes")),
        (["10", "9", "b"], "classification", ("10", "9", "b")),
        ([True, False], "classification", ("False", "True")),
    ],
)
def test_the_task_follows_from_the_target(values, task, classes):
    frame = pd.DataFrame({"a": np.arange(66.0), "y": (values * 66)[:66]})
    target = infer_schema(frame, "y").target
    assert (target.task, target.classes) == (task, classes)


def test_task_overrides_the_rule():
    frame = houses(score=np.arange(ROWS) % 2, grade=np.arange(ROWS) % 4 + 3)
    assert infer_schema(frame, "score", Reading(task="regression")).target.std == pytest.approx(0.5)
    assert infer_schema(frame, "grade", Reading(task="classification")).target.classes == ("3", "4", "5", "6")
    with pytest.raises(ValueError, match='`task` must be "regression" or "classification", got \'rank\''):
        infer_schema(frame, "score", Reading(task="rank"))


def test_class_indices_follow_the_classes():
    frame = houses()
    schema = infer_schema(frame, "town")
    indices = schema.encode_target(frame)
    assert indices.dtype == np.int64
    assert [schema.target.classes[i] for i in indices] == frame["town"].tolist()
    assert (schema.target.mean, schema.target.std) == (0.0, 1.0)


def test_numeric_labels_survive_a_change_of_type():
    schema = infer_schema(houses(y=np.arange(ROWS) % 3), "y")
    later = pd.DataFrame({"y": [2.0, 0.0]})
    np.testing.assert_array_equal(schema.encode_target(later), [2, 0])


# Refusals


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"day": ["12/31/23 10:15", "1/2/24"] * 20}, "'day' holds dates .*two digits: write the years in full"),
        ({"day": ["1/2/2024", "3/4/2024"] * 20}, "'day' holds dates .*cannot be told apart: add --dates day-first"),
        ({"day": ["31/1/2024", "1/31/2024"] * 20}, "they mix two orders"),
        ({"day": ["2024-02-30", "2024-02-03"] * 20}, "'2024-02-30' in data row 1 .*no day of the calendar"),
        ({"gap": np.nan}, "'gap' is missing in every row: fill it or `--drop gap`"),
        ({"big": [np.inf, *range(39)]}, "'big' has 'inf' in data row 1, which is infinite or too large"),
        ({"size": [*map(str, range(39)), "wide"]}, "'size' has 'wide' in data row 40, which is not a number, unlike"),
        ({"size": [f"{i},5" for i in range(ROWS)]}, "'size' holds numbers as text, such as '0,5': write 0.5, or"),
        ({"Unnamed: 0": range(ROWS)}, "'Unnamed: 0' has no name .*`--drop 'Unnamed: 0'`"),
    ],
)
def test_inputs_that_cannot_be_used_are_refused_until_dropped(column, message):
    frame = houses(**column)
    with pytest.raises(TableError, match=message):
        infer_schema(frame, "price")
    assert infer_schema(frame, "price", Reading(drop=tuple(column))).num_features == 5


def test_text_that_rarely_repeats_is_set_aside_and_text_that_repeats_is_not():
    frame = pd.DataFrame({"a": [f"t{i}" for i in range(60)] + ["t0"] * 30, "b": range(90), "y": np.arange(90) / 7})
    assert (infer_schema(frame, "y").names, infer_schema(frame, "y").texts) == (["b"], ("a",))
    frame = frame.drop(columns="b")
    assert infer_schema(frame.assign(a=[f"t{i % 40}" for i in range(90)]), "y").num_features == 40
    many = pd.DataFrame({"a": [f"t{i // 3}" for i in range(3003)], "y": np.arange(3003) / 7})
    with pytest.raises(TableError, match="no input is left, as texts of 'a' hardly repeat"):
        infer_schema(many, "y")


def test_ranges_and_short_codes_are_categories_not_dates():
    frame = houses(band=["10-19", "20-29", "30-39", "1/2"] * 10, month=["may", "jun"] * 20)
    assert infer_schema(frame, "price").num_features == 11


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([None, 1.0, 2.5, None] * 10, {}, r"'y' is missing in 20 of 40 rows \(data rows 1, 4, 5,.*fill or remove"),
        ([1.0, 2.0, np.inf, 4.0] * 10, {}, "'y' has 'inf' in data row 3"),
        ([4.0] * ROWS, {}, "'y' is 4 in every row"),
        (["a"] * ROWS, {}, "'y' is 'a' in every row"),
        ([4] * ROWS, {"task": "classification"}, "'y' is '4' in every row"),
        (["a", "b"] * 20, {"task": "regression"}, r"'y' has 'a' in data row 1 \(and 39 more rows\), which is not a"),
        (np.arange(ROWS) / 7, {"task": "classification"}, "'y' has 40 different numbers: use `--task regression`"),
        ([f"u{i}" for i in range(ROWS)], {}, "'y' has 40 different texts"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(values, options, message):
    with pytest.raises(TableError, match=message):
        infer_schema(houses(y=values), "y", Reading(**options))


def test_absent_columns_are_named_with_near_matches():
    frame = houses()
    with pytest.raises(TableError, match=r"no column 'Prize' \(did you mean price\?\); its columns are: age, rooms"):
        infer_schema(frame, "Prize")
    with pytest.raises(TableError, match="no column 'zzz'; its columns"):
        infer_schema(frame, "price", Reading(drop=("zzz",)))
    with pytest.raises(TableError, match=r"no column 'age' \(did you mean AGE\?\), 'town'"):
        infer_schema(frame, "price").encode_inputs(frame[["age", "rooms"]].rename(columns={"age": "AGE"}))
    with pytest.raises(TableError, match="no column 'price'"):
        infer_schema(frame, "price").encode_target(frame[["age"]])


def test_tables_with_nothing_to_learn_from_are_refused():
    frame = houses()
    with pytest.raises(TableError, match="9 rows: add some, at least 10"):
        infer_schema(frame.iloc[:9], "price")
    with pytest.raises(TableError, match="no input column is left"):
        infer_schema(frame, "price", Reading(drop=("age", "rooms", "town")))
    with pytest.raises(TableError, match="'price' is the target: take it out of `--drop`"):
        infer_schema(frame, "price", Reading(drop=("price",)))
    twice = pd.concat([frame, frame[["age"]]], axis=1)
    with pytest.raises(TableError, match="several columns named age"):
        infer_schema(twice, "price")
    with pytest.raises(TableError, match="several columns named age"):
        infer_schema(frame, "price").encode_inputs(twice)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("old", "'age' has 'old' in data row 3, which is not a number"),
        (-np.inf, "'age' has '-inf' in data row 3, which is infinite or too large"),
        (True, "'age' has 'True' in data row 3, which is not a number"),
    ],
)
def test_new_inputs_that_do_not_fit_are_refused(value, message):
    schema = infer_schema(houses(), "price")
    with pytest.raises(TableError, match=message):
        schema.encode_inputs(with_cell(houses(), "age", 2, value))


def test_new_numbers_that_leave_float32_are_refused():
    schema = infer_schema(houses(tiny=np.arange(ROWS) * 1e-20), "price")
    with pytest.raises(TableError, match=r"'tiny' has '1e.20' in data row 2, which is too far from all values"):
        schema.encode_inputs(with_cell(houses(tiny=0.0), "tiny", 1, 1e20))


def test_new_numbers_whose_squares_leave_float32_in_a_network_are_refused():
    schema = infer_schema(houses(), "price")
    with pytest.raises(TableError, match=r"'age' has '1e.25' in data row 2, which is too far from all values"):
        schema.encode_inputs(with_cell(houses(), "age", 1, 1e25))


def test_columns_of_tiny_numbers_vary():
    values = np.random.default_rng(0).normal(size=ROWS)
    large, tiny = (
        infer_schema(houses(age=values * unit), "price").encode_inputs(houses(age=values * unit)).x
        for unit in (1.0, 2.0**-900)
    )
    np.testing.assert_array_equal(tiny, large)


def test_new_targets_that_do_not_fit_are_refused():
    towns, prices = infer_schema(houses(), "town"), infer_schema(houses(), "price")
    with pytest.raises(TableError, match=r"'Rome' in data row 2, which is not a class .*\(Bergen, Oslo, Ås\)"):
        towns.encode_target(with_cell(houses(), "town", 1, "Rome"))
    with pytest.raises(TableError, match=r"missing in 1 of 40 rows \(data rows 5\)"):
        towns.encode_target(with_cell(houses(), "town", 4, None))
    with pytest.raises(TableError, match="'price' has 'inf' in data row 1"):
        prices.encode_target(with_cell(houses(), "price", 0, np.inf))


def broken(data, place, value):
    if not place:
        return value
    data = json.loads(json.dumps(data))
    *path, last = place
    inner = data
    for key in path:
        inner = inner[key]
    if value is KeyError:
        del inner[last]
    else:
        inner[last] = value
    return data


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["version"], 1, "version is 1, not 2"),
        (["columns"], [], "there are no columns"),
        (["columns"], KeyError, "it lacks columns"),
        (["columns", 0, "kind"], "Word", r"`columns\[0\].kind` must be one of .*, got 'Word'"),
        (["columns", 0, "kind"], "date", "date has order None"),
        (["columns", 0, "name"], 3, r"`columns\[0\].name` must be a text, got 3"),
        (["columns", 0, "mean"], "3", "mean` must be a finite number, got '3'"),
        (["columns", 0, "median"], float("nan"), "median` must be a finite number, got nan"),
        (["columns", 0, "std"], 0.0, "std is 0.0"),
        (["columns", 2, "categories"], "abc", "categories` must be a list, got 'abc'"),
        (["columns", 2, "categories"], [1], r"categories\[0\]` must be a text, got 1"),
        (["columns", 2, "categories"], ["a", "a"], "categories is"),
        (["target", "task"], "rank", "`target.task` must be one of .*, got 'rank'"),
        (["target", "classes"], ["a", "b"], "regression has 2 classes"),
        (["target", "atoms"], [2.0, 1.0], r"atoms is \(2.0, 1.0\)"),
        (["target"], None, "`target` must be an object, got None"),
        *(([], data, "") for data in (None, [], "x", {})),
    ],
)
def test_malformed_schemas_are_refused(place, value, message):
    data = broken(infer_schema(houses(), "price").to_json(), place, value)
    with pytest.raises(TableError, match=f"not the schema of a table: .*{message}.*; fit again"):
        TableSchema.from_json(data)


@pytest.mark.parametrize(
    ("scale", "shift", "words"),
    [
        (1e19, 0.0, r"deviation of 1e\+19, .*in a unit that is larger"),
        (1e-23, 0.0, r"deviation of 1e-23, .*in a unit that is smaller"),
        (1e-300, 0.0, r"deviation of 1e-300, .*in a unit that is smaller"),
        (3e3, 1e18, r"varies by 2.94e\+03 around values as large as 1e\+18, .*take a constant off it"),
        (1e9, 1.7e18, None),  # nanoseconds
        (67.0, 1.7e9, None),  # seconds
    ],
)
def test_targets_that_numbers_cannot_hold_are_named_before_training(scale, shift, words) -> None:
    wave = np.where(np.arange(30) % 2 == 0, 1.0, -1.0)
    frame = pd.DataFrame({"x": range(30), "y": scale * wave + shift})
    with pytest.raises(TableError, match=words) if words else contextlib.nullcontext():
        infer_schema(frame, "y", Reading(task="regression"))


@pytest.mark.parametrize("day", ["1492-10-12", "9999-12-31"])
@pytest.mark.parametrize("kind", ["text", "date", "timestamp"])
def test_dates_that_pandas_cannot_hold_are_named(tmp_path, day, kind) -> None:
    days = [f"2024-01-{i + 1:02}" for i in range(30)]
    good = pd.DataFrame({"day": days, "y": np.arange(30) / 7})
    frame = good.assign(day=[*days[:7], day, *days[8:]])
    if kind == "text":
        frame.to_csv(tmp_path / "t", index=False)
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        dates = pa.array(map(datetime.date.fromisoformat, frame["day"]), pa.date32())
        dates = dates if kind == "date" else dates.cast(pa.timestamp("us"))
        pq.write_table(pa.table({"day": dates, "y": frame["y"]}), tmp_path / "t")
    read = read_table(tmp_path / "t")
    for refuse in (lambda: infer_schema(read, "y"), lambda: infer_schema(good, "y").encode_inputs(read)):
        with pytest.raises(TableError, match=rf"column 'day' has '{day}.* in data row 8, .* from 1678 to 2261"):
            refuse()


@pytest.mark.parametrize(
    "text",
    [
        "x;y;\n{rows;}", ";x;y\n{;rows}", "x;y\n{rows;}", "x;y;\n{rows}", "x;y;;\n{rows;}", "x;y\n1;2\n{rows;}",
        "x;y\n1;2;\n{rows}", "x;y\n1;2; ;\n{rows}",
    ],
)  # fmt: skip
def test_separators_at_the_ends_of_lines_are_no_columns(tmp_path, text) -> None:
    for kind, row in (("rows", "{0};{1}\n"), ("rows;", "{0};{1};\n"), (";rows", ";{0};{1}\n")):
        text = text.replace(f"{{{kind}}}", "".join(row.format(i, i % 7 + 0.5) for i in range(30)))
    (tmp_path / "rows.csv").write_text(text)
    frame = read_table(tmp_path / "rows.csv")
    schema = infer_schema(frame, "y")
    assert schema.names == ["x"]
    assert schema.encode_inputs(frame).x.std() == pytest.approx(1)
    assert extra_notes(schema, list(frame.columns), []) == []
    assert read(tmp_path / "rows.csv", spelled=["x"]).spelled["x"].astype(float).tolist() == frame["x"].tolist()
    served = serving.read_rows(io.StringIO(text))
    assert [float(row["x"]) for row in served] == frame["x"].tolist()


def test_lines_above_the_header_and_cells_without_an_end_are_named(tmp_path) -> None:
    table = tmp_path / "rows.csv"
    for text, message in (
        (
            "# by x\n# of y\nx,y\n1,2\n",
            r"line 3 .* has 2 cells, its header 1: remove the lines above .*tail -n \+3 OLD",
        ),
        ("# by x, on y\nx,y,z\n1,2,3\n", r"line 2 .* has 3 cells, its header 2: remove the lines above"),
        ("report\nx,y\n1,2\n", r"line 2 .* has 2 cells, its header 1: remove the lines above"),
        (f"x,y\n1,2\n3,{'a' * 140_000}\n", r"line 3 of .* has a cell that cannot be read \(field larger .*shorten it"),
    ):
        table.write_text(text)
        with pytest.raises(TableError, match=message):
            read_table(table)
    with pytest.raises(TableError, match="no column 'y'; its columns are: # a, b; remove the lines above the header"):
        check_present(["# a", "b"], ["y"])


def test_columns_are_named_by_texts_or_integers() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 4)))
    data = read_data(frame, column_name(np.int64(2), "target"), Reading(drop=(0,)), FitSettings(split_by=None))
    assert data.schema.names == ["1", "3"]
    assert Reading(drop="patient", categories=["a", 1]) == Reading(drop=("patient",), categories=("a", "1"))
    assert FitSettings(conformal_by=(1,), split_by=2) == FitSettings(conformal_by=("1",), split_by="2")
    for name, got in ((None, "None"), ([2], "a list"), (frame[2], "a Series"), (True, "True"), (1.5, "a float")):
        with pytest.raises(TypeError, match=f"`target` must be the name of a column, or its integer, got {got}"):
            fit_table(frame, name)
    for names in (None, 0, frame[2]):
        with pytest.raises(TypeError, match="`drop` must be a tuple with names of columns, got"):
            Reading(drop=names)


def test_pipes_are_read_once(tmp_path, shell) -> None:
    """As of `<(zcat rows.csv.gz)`: the columns are known only when the table is."""
    houses().to_csv(tmp_path / "rows.csv", index=False)

    def piped(*words) -> str:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with ThreadPoolExecutor() as pool:
            pool.submit(lambda: pipe.write_bytes((tmp_path / "rows.csv").read_bytes()))
            said = shell.said(*(pipe if word == "PIPE" else word for word in words))
        pipe.unlink()
        return said

    piped("fit", "PIPE", "--target", "price", *ONE, "--out", tmp_path / "fit")
    assert json.loads((tmp_path / "fit" / "results.json").read_text())["table"]["name"] == "pipe"
    assert "TABLE.csv --config" in (tmp_path / "fit" / "config.toml").read_text()
    expected = shell.said("predict", tmp_path / "fit", tmp_path / "rows.csv", "--out", "-")
    assert piped("predict", tmp_path / "fit", "PIPE") == expected


def test_names_that_are_no_text_are_refused_before_anything_is_trained(tmp_path, monkeypatch, shell) -> None:
    monkeypatch.setattr("gumdrop.tables.fitting.fit.train_until_stopped", pytest.fail)
    strange, table = tmp_path / os.fsdecode(b"caf\xe9.csv"), tmp_path / "rows.csv"
    houses().to_csv(table, index=False)
    strange.write_bytes(table.read_bytes())
    said = r"the name .*caf\\(udc|x)e9.csv(.html)? is not UTF-8, so that no page could name it: rename it"
    for words in (["fit", strange], ["fit", table, "--out", strange], ["fit", table, "--test", strange]):
        assert re.search(said, shell.refused(*words, "--target", "price"))
    for words in (["predict", strange, table], ["info", strange], ["explore", "--out", f"{strange}.html"]):
        assert re.search(said, shell.refused(*words))
    for given in ({"table": strange}, {"table": table, "out": strange}):
        with pytest.raises(ValueError, match=said):
            fit_table(target="price", **given)
