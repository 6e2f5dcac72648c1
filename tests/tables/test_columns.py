"""Dates and numbers as people write them, and what is odd in a new table."""

import math

import numpy as np
import pandas as pd
import pytest

from gumdrop.tables import FitSettings, Reading, TableError, fit_table, load_table_model, read_table
from gumdrop.tables.notes import table_notes
from gumdrop.tables.reading.times import order_of, parse_dates, parts_of
from gumdrop.tables.schema.columns import CategoryColumn
from gumdrop.tables.schema.inference import infer_schema, with_statistics
from gumdrop.tables.schema.schema import TableSchema

ROWS = 24


def written(folder, header, *columns, separator=","):
    path = folder / "table.csv"
    rows = [separator.join(f'"{cell}"' for cell in row) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([separator.join(header), *rows]) + "\n", encoding="utf-8")
    return path


# Numbers


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1.234,50", "7"], [1234.5, 7]),
        (["0,5", "-2,25"], [0.5, -2.25]),
        (["$1,234.50", "$ 7", "-$3.1"], [1234.5, 7, -3.1]),
        (["1 234", "12\u202f345.5"], [1234, 12345.5]),
        (["12 %", "3.5%"], [12, 3.5]),
        (["1'234.5", ""], [1234.5, math.nan]),
        (["1.234", "1,5"], [1234, 1.5]),
        (["€5", "€6,5"], [5, 6.5]),
        (["€-5", "-€6,5", "€ +2"], [-5, -6.5, 2]),
        (["\u22125", "7"], [-5, 7]),
        (["8GB", "16 GB"], [8, 16]),
        (["-5 °C", "1.234,5 °C"], [-5, 1234.5]),
    ],
)
def test_numbers_with_marks_are_read(tmp_path, cells, values) -> None:
    table = read_table(written(tmp_path, ["a", "b"], cells, range(len(cells))))
    np.testing.assert_allclose(table.frame["a"], values)
    assert table.notes[0].startswith("numbers of 'a' are read as in ")


@pytest.mark.parametrize("cells", [["$5", "€5"], ["12%", "3"], ["1,23,4", "5"], ["10-19", "20-29"], ["01 234", "1"],
                                   ["5 kg", "7"], ["5 kg", "7 lb"], ["A1", "A2"]])  # fmt: skip
def test_what_is_no_number_stays_text(tmp_path, cells) -> None:
    table = read_table(written(tmp_path, ["a", "b"], cells, range(2)))
    assert table.frame["a"].tolist() == cells
    assert table.notes == []


def test_one_column_proves_the_decimal_mark_of_another(tmp_path) -> None:
    table = read_table(written(tmp_path, ["a", "b", "c"], ["1,234", "2,500"], ["0,5", "1,25"], ["1.234", "2.500"]))
    assert table.decimal == ","
    assert table.frame["a"].tolist() == [1.234, 2.5]
    assert table.frame["c"].tolist() == [1234, 2500]


def test_a_decimal_mark_that_cannot_be_told_is_asked_for(tmp_path) -> None:
    path = written(tmp_path, ["a", "y"], [f"{i % 7 + 1},{100 + i}" for i in range(ROWS)], range(ROWS))
    with pytest.raises(TableError, match=r"'1,100', which may be 1100 or 1\.1: give the decimal mark with --decimal"):
        infer_schema(read_table(path).frame, "y")
    assert read_table(path, decimal=",").frame["a"][0] == 1.1
    assert read_table(path, decimal=".").frame["a"][0] == 1100


# Numbers that are names


def test_numbers_are_categories_where_the_user_says_so(tmp_path, shell) -> None:
    codes = [f"{i % 6:03}" for i in range(40)]
    path = written(tmp_path, ["code", "size", "y"], codes, range(40), [f"{i % 7 + i / 90}" for i in range(40)])
    words = ["fit", str(path), "--target", "y", "--hidden", "4", "--epochs", "1", "--members", "1", "--no-compare"]
    assert "'code' has numbers with leading zeros" in shell.said(*words, "--out", str(tmp_path / "number"))
    said = shell.said(*words, "--categories", "code", "--out", str(tmp_path / "named"))
    assert "leading zeros" not in said
    named = load_table_model(tmp_path / "named")
    assert named.schema.columns[0] == CategoryColumn("code", tuple(f"00{i}" for i in range(6)))
    assert 'categories = ["code"]' in (tmp_path / "named" / "config.toml").read_text()
    told = named.predict({"code": [3, 3.0, "003", "8"], "size": [1, 1, 1, 1]})
    assert told["unseen_cells"].tolist() == [0, 0, 0, 1]
    assert told["prediction"][:3].nunique() == 1
    assert "`--categories y` is no input" in shell.refused(*words, "--categories", "y", "--out", str(tmp_path / "x"))


def test_numbers_of_the_dtype_category_are_categories_and_such_a_target_is_classes() -> None:
    codes = pd.Categorical([i % 12 for i in range(48)])
    frame = pd.DataFrame({"code": codes, "y": np.arange(48) / 7, "goal": codes})
    settings = FitSettings(hidden=(4,), epochs=1, num_members=1)
    schema = fit_table(frame, "y", settings=settings).schema
    assert [column.kind for column in schema.columns] == ["category", "category"]
    assert fit_table(frame, "goal", settings=settings).schema.target.task == "classification"
    assert fit_table(frame, "goal", settings=settings, reading=Reading(task="regression")).schema.target.classes == ()


# Dates


@pytest.mark.parametrize(
    ("cells", "order", "day"),
    [
        (["1970-01-11", "1970-02-01"], "year-first", 10),
        (["1970/1/11 12:00"], "year-first", 10.5),
        (["1970-01-11T06:00:00.5Z"], "year-first", 10.25),
        (["1970-01-11T02:00+02:00"], "year-first", 10),
        (["1970-01-11 06:00:00+00"], "year-first", 10.25),  # as databases write it
        (["1970-02", "1970-11"], "year-first", 31),
        (["1970-Q2", "1970Q1", "1970 Q4", "Q1 1971"], "year-first", 90),
        (["2/1970", "11-1970", "1970/01"], "year-first", 31),
        (["1970-01-11 12:00 AM", "1970-02-01 12:30 pm"], "year-first", 10),
        (["1/11/1970 6:00:00 P.M.", "1/25/1970 9:15 am"], "month-first", 10.75),
        (["1970-W02", "1970W53"], "year-first", 4),  # the Monday
        ([19700111, 20240229, 19991231], "year-first", 10),
        (["11.1.1970"], "day-first", 10),
        (["11/1/1970", "25/1/1970"], "day-first", 10),
        (["1/11/1970", "1/25/1970"], "month-first", 10),
        (pd.to_datetime(["1970-01-11"]), "year-first", 10),
        (pd.to_datetime(["1970-01-11"]).tz_localize("UTC"), "year-first", 10),
    ],
)
def test_dates_are_read(cells, order, day) -> None:
    column = pd.Series([*cells, None]) if isinstance(cells, list) else pd.Series(cells)
    assert order_of(column).order == order
    days = parse_dates(column, order)
    assert days[0] == pytest.approx(day)
    assert np.isnan(days[len(cells) :]).all()


@pytest.mark.parametrize(
    "cells",
    [
        ["2024", "2025"],
        ["2011-12", "2012-13"],
        ["1.5.6"],
        ["may be 2024"],
        ["2024-01-01", "soon"],
        ["1-4000", "2-5000"],
        [None],
        ["1971-W53"],
        [19700111, 20240229],
        [19700111, 20240230, 19991231],
        [19700111, 20240229, 20000101.5],
        [1970, 1971, 1972],
    ],
)
def test_what_is_no_date_is_not_taken_for_one(cells) -> None:
    assert order_of(pd.Series(cells, dtype=object if isinstance(cells[0], str | None) else float)) is None


@pytest.mark.parametrize(
    "cells", [["Jan 2024", "may 2024"], ["Sep-23"], ["Feb. '24"], ["31 Jan 2024"], ["March 3, 2024"]]
)
def test_dates_with_named_months_are_refused(cells) -> None:
    assert order_of(pd.Series(cells)).why == "the month is a name"


def test_a_cell_that_is_no_date_among_many_is_named() -> None:
    frame = dated(np.arange(24))
    frame.loc[[0, 7], "sold"] = "unknown"
    words = "'sold' holds dates such as '2020-01-02 00:00', but 'unknown' is none: correct it or leave the cell blank"
    with pytest.raises(TableError, match=words):
        infer_schema(frame, "y")


def test_hours_beyond_12_have_no_half() -> None:
    assert np.isnan(parse_dates(pd.Series(["2024-01-02 13:00 PM", "2024-01-02 0:30 AM"]), "year-first")).all()


def dated(days, **columns):
    dates = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.asarray(days), unit="D")
    return pd.DataFrame({"sold": dates.strftime("%Y-%m-%d %H:%M"), "y": np.arange(len(days)) / 7, **columns})


def test_cycles_follow_from_what_the_dates_cover_and_weekdays_need_three() -> None:
    weeks = 7.0 * np.arange(10)
    assert parts_of(np.arange(0.0, 400)) == ("season", "weekday")
    assert parts_of(np.array([0.0, 0.25, 7.5])) == ("hour",)
    assert parts_of(weeks) == parts_of(np.concatenate([weeks, weeks + 1])) == ()
    months = np.arange("2001-01", "2003-01", dtype="datetime64[M]").astype("datetime64[D]").astype(float)
    assert parts_of(months) == ("season",)
    assert parts_of(months + 14) == ("season", "weekday")
    assert parts_of(np.concatenate([weeks, weeks + 1, weeks + 4])) == ("weekday",)


def test_dates_become_days_and_cycles_and_survive_json() -> None:
    frame = dated(np.arange(ROWS) * 20.25)
    schema = infer_schema(frame, "y")
    (column,) = schema.columns
    assert column.kind == "date"
    assert column.parts == ("season", "weekday", "hour")
    assert schema.feature_names[:3] == ["sold (days)", "sold (season, sine)", "sold (season, cosine)"]
    x = schema.encode_inputs(frame).x
    np.testing.assert_allclose(x[:, 0].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(x[:, 0].std(), 1, rtol=1e-5)
    for sine in (1, 3, 5):
        np.testing.assert_allclose(x[:, sine] ** 2 + x[:, sine + 1] ** 2, 1, rtol=1e-5)
    hour = 2 * np.pi * (np.arange(ROWS) * 0.25 % 1)
    np.testing.assert_allclose(x[:, 5], np.sin(hour), atol=1e-6)
    again = TableSchema.from_json(schema.to_json())
    np.testing.assert_array_equal(again.encode_inputs(frame).x, x)


def test_a_missing_date_is_the_median_and_a_late_one_is_told() -> None:
    schema = infer_schema(dated(np.arange(ROWS) * 20.0), "y")
    new = pd.DataFrame({"sold": [None, "2035-01-01", "2020-03-01"]})
    encoded = schema.encode_inputs(new)
    column = schema.columns[0]
    assert encoded.x[0, 0] == np.float32((column.median - column.mean) / column.std)
    assert (encoded.x[0, 1:] == 0).all()
    assert encoded.missing == {"sold": 1}
    assert encoded.outside == {"sold": 1}
    with pytest.raises(TableError, match="'sold' has 'soon' in data row 1, which is not a date with its year first"):
        schema.encode_inputs(pd.DataFrame({"sold": ["soon"]}))


def test_an_order_that_is_given_is_used() -> None:
    frame = pd.DataFrame({"sold": ["1/2/2024", "3/4/2024"] * 12, "y": np.arange(24) / 7})
    column = infer_schema(frame, "y", Reading(dates="month-first")).columns[0]
    assert column.order == "month-first"
    assert column.least == parse_dates(pd.Series(["2024-01-02"]), "year-first")[0]


# Categories, oddities and notes


def test_a_spelling_of_yes_that_training_had_not_counts_as_the_only_one_that_it_had() -> None:
    frame = pd.DataFrame({"paid": ["Yes", "YES", "Yes", "no"] * 6, "y": np.arange(24) / 7})
    schema = infer_schema(frame, "y")
    assert schema.columns == (CategoryColumn("paid", ("YES", "Yes", "no")),)
    assert "'paid' has 'YES' and 'Yes', which count as different" in " ".join(table_notes(frame, schema))
    encoded = schema.encode_inputs(pd.DataFrame({"paid": ["Yes", "YES", "NO", "yes", "maybe"]}))
    assert encoded.unseen == {"paid": {"yes": 1, "maybe": 1}}
    np.testing.assert_array_equal(encoded.x[:3], np.eye(3)[[1, 0, 2]])


def test_numbers_are_outside_a_deviation_beyond_those_of_training() -> None:
    schema = infer_schema(pd.DataFrame({"a": np.arange(24.0), "y": np.arange(24) / 7}), "y")
    std = schema.columns[0].std
    cells = [0.0, -0.9 * std, -1.1 * std, 23 + 0.9 * std, 23 + 1.1 * std, None]
    encoded = schema.encode_inputs(pd.DataFrame({"a": cells}))
    assert encoded.odd_cells["outside"].tolist() == [0, 0, 1, 0, 1, 0]
    assert encoded.outside == {"a": 2}


def test_columns_that_cannot_be_used_are_named_in_one_message() -> None:
    numbers = np.arange(ROWS)
    frame = pd.DataFrame({"day": "1/2/24", "gap": np.nan, "ok": numbers, "y": numbers / 7})
    message = r"(?s)2 columns cannot.*`--drop day`.*`--drop gap`.*leave columns out"
    with pytest.raises(TableError, match=message) as found:
        infer_schema(frame, "y")
    assert "'ok'" not in str(found.value)


def test_notes_on_a_table() -> None:
    frame = pd.DataFrame(
        {"nr": range(1, ROWS + 1), "flat": 3, "c": ["Red", "red"] * 12, "y": np.arange(ROWS) / 7, "d": "2024-01-01"}
    )
    frame.loc[3, "d"] = "2024-02-01"
    frame["id"], frame["flag"] = 2**60 + np.arange(ROWS), np.where(np.arange(ROWS) % 3 == 0, 1.0, np.nan)
    notes = " ".join(table_notes(frame, infer_schema(frame, "y")))
    assert "'nr' counts the rows" in notes
    assert "the same in every row, so of no use: 'flat', 'id'" in notes, "float64 does not tell the numbers apart"
    assert "'flag' is 1 or missing, which counts as 1, so it is of no use" in notes
    assert "'c' has 'Red' and 'red', which count as different" in notes
    assert "'d' is read as dates, year first: days" in notes


def test_typing_errors_and_codes_for_missing_are_named_with_their_row() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"bell": rng.normal(size=300), "skewed": np.exp(2 * rng.normal(size=300)), "count": rng.poisson(2, 300)}
    ).assign(age=rng.integers(18, 90, 300), price=np.exp(rng.normal(12, 0.5, 300)).round())
    assert table_notes(frame, infer_schema(frame, "price")) == []
    frame.loc[16, "price"] = 1e9
    frame.loc[[3, 8, 20], "age"] = -999
    frame.loc[7, "bell"] = 212.5
    notes = table_notes(frame, infer_schema(frame, "price"), np.arange(1, 301) + 1000)
    assert [note[: note.index(", and from")] for note in notes] == [
        "'price' is 1,000,000,000 in row 1017",
        "'bell' is 212.5 in row 1008",
        "'age' is -999 in row 1004 (and 2 more rows like it)",
    ]
    assert all("a typing error? Correct it" in note for note in notes[:2])
    assert "from 18 to 88 in all others: a code for missing?" in notes[2]


def test_a_class_that_is_nearly_all_is_said() -> None:
    frame = pd.DataFrame({"x": np.arange(100.0) ** 2, "ill": ["Yes"] * 6 + ["No"] * 94})
    (note,) = table_notes(frame, infer_schema(frame, "ill"))
    assert note.startswith("94.0% of 'ill' are 'No': always answering that is right as often")
    frame["ill"] = ["Yes"] * 40 + ["No"] * 60
    assert table_notes(frame, infer_schema(frame, "ill")) == []


def test_statistics_of_some_rows_keep_the_kinds() -> None:
    frame = pd.DataFrame({"c": ["a", "b", "c"] * 8, "x": np.arange(24.0), "y": ["u", "v", "w"] * 8})
    whole = infer_schema(frame, "y")
    some = with_statistics(whole, frame[frame["c"] != "c"])
    assert some.columns[0].categories == ("a", "b")
    assert some.columns[1].most == 22
    assert some.target.classes == ("u", "v", "w")
    with pytest.raises(TableError, match="'x' is missing in all rows to train on"):
        with_statistics(whole, frame.assign(x=np.nan))


def test_statistics_of_some_rows_are_those_of_their_target_too() -> None:
    frame = pd.DataFrame({"x": np.arange(24.0), "y": np.arange(24) ** 2 / 7})
    some = with_statistics(infer_schema(frame, "y"), frame[:12])
    assert (some.target.mean, some.target.std) == pytest.approx((frame["y"][:12].mean(), frame["y"][:12].std(ddof=0)))
    encoded = some.encode_target(frame[:12])
    assert (encoded.mean(), encoded.std()) == pytest.approx((0.0, 1.0), abs=1e-6)
