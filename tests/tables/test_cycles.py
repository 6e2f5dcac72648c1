"""Months, weekdays and times of day: recognised, encoded, kept in the schema, and refused where they are none."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop.export import serving
from gumdrop.export.table_encoding import TableEncoder
from gumdrop.tables import FitSettings, TableError, fit_table
from gumdrop.tables.drift import find_drift
from gumdrop.tables.info import table_info
from gumdrop.tables.notes import table_notes
from gumdrop.tables.reading.times import cycle_of, parse_cycle
from gumdrop.tables.results import read_results
from gumdrop.tables.schema.inference import infer_schema, with_statistics
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.views.report import write_report


def frame(num_rows: int = 60) -> pd.DataFrame:
    i = np.arange(num_rows)
    return pd.DataFrame(
        {
            "month": np.array(["Jan", "february", "MARCH", "Apr.", "May", "Sept"])[i % 6],
            "start": np.array(["9:30", "14:05", "23:59:30", "12:00 am", "12:15 p.m.", "2:05 PM"])[i % 6],
            "day": pd.Series(np.array(["Mon", "Tues", "wednesday", "Sun"])[i % 4]).where(i != 7),
            "price": i * 1.5,
        }
    )


def test_cycles_are_recognised_and_encoded() -> None:
    table = frame()
    schema = infer_schema(table, "price")
    assert [each.cycle for each in schema.columns] == ["month", "time of day", "weekday"]
    hours = [9.5, 14 + 5 / 60, 23 + 59.5 / 60, 0, 12.25, 14 + 5 / 60]
    np.testing.assert_allclose(parse_cycle(table["start"], "time of day")[:6], hours)
    assert parse_cycle(table["month"], "month")[:6].tolist() == [1, 2, 3, 4, 5, 9]
    encoded = schema.encode_inputs(table)
    month, values = schema.columns[0], np.array([1, 2, 3, 4, 5, 9])
    np.testing.assert_allclose(encoded.x[:6, 0], (values - month.mean) / month.std, rtol=1e-5)
    np.testing.assert_allclose(encoded.x[:6, 1], np.sin(np.pi * values / 6), atol=1e-6)
    np.testing.assert_allclose(encoded.x[:6, 2], np.cos(np.pi * values / 6), atol=1e-6)
    assert encoded.missing == {"day": 1}
    assert encoded.x[7, 7:].tolist() == [0, 0]
    assert "'start' is read as time of day: a number in order, and a place on the cycle" in table_notes(table, schema)
    trained = with_statistics(schema, table.head(30))
    assert trained.columns[0].mean == pytest.approx(4.0)
    assert TableSchema.from_json(json.loads(json.dumps(trained.to_json()))) == trained


@pytest.mark.parametrize(
    "texts",
    [
        ["May", "June", "May"],
        ["April", "May", "June", "Bob"],
        ["9:30", "24:10", "1:00"],
        ["13:00 pm", "1:00", "2:00"],
        ["16:9", "4:3", "21:9"],
        ["Mon", "Jan", "Feb"],
        [1.5, 2.5, 3.5],
    ],
    ids=str,
)
def test_what_may_be_something_else_is_left_as_it_is(texts) -> None:
    assert cycle_of(pd.Series(texts)) is None


def test_times_of_python_are_read() -> None:
    times = pd.Series([datetime.time(9, 30), datetime.time(14, 5, 30), datetime.time(0, 0, 0, 500000)])
    assert cycle_of(times) == "time of day"
    np.testing.assert_allclose(parse_cycle(times, "time of day"), [9.5, 14 + 5.5 / 60, 0.5 / 3600])


@pytest.mark.parametrize(
    ("column", "text", "message"),
    [
        ("month", "Brumaire", "'Brumaire' in data row 2.*not a month such as January or Jan"),
        ("start", "25:00", "'25:00' in data row 2.*not a time of day such as 14:05 or 2:05 pm"),
        ("day", "holiday", "not a weekday such as Monday or Mon"),
    ],
)
def test_other_texts_in_a_new_table_are_named(column, text, message) -> None:
    schema, new = infer_schema(frame(), "price"), frame(3)
    new.loc[1, column] = text
    with pytest.raises(TableError, match=message):
        schema.encode_inputs(new)


def test_an_exported_file_encodes_them_alike() -> None:
    table = frame()
    schema = infer_schema(table, "price")
    columns = schema.to_json()["columns"]
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    raw = torch.tensor([[serving._code(column, row, None) for column in columns] for row in rows], dtype=torch.float64)
    torch.testing.assert_close(TableEncoder(schema)(raw), torch.from_numpy(schema.encode_inputs(table).x))
    for name, text in (("month", "Brumaire"), ("start", "25:00"), ("start", "13:00 pm"), ("start", "noon")):
        column = next(each for each in columns if each["name"] == name)
        with pytest.raises(serving.ServingError, match=f"{text}.*which is not a {column['cycle']}"):
            serving._code(column, {name: text}, None)


def test_a_fit_shows_them_in_words_on_its_page_and_where_they_drift(tmp_path) -> None:
    table = frame(160).assign(price=lambda rows: parse_cycle(rows["month"], "month"))
    settings = FitSettings(hidden=(8,), num_members=2, epochs=2, num_samples=8, compare=False)
    model = fit_table(table, "price", tmp_path / "run", settings=settings)
    results = read_results(tmp_path / "run")
    groups = {(group.column, group.words) for group in results.columns.groups}
    assert groups >= {("month", "January to February"), ("start", "12:15 to 14:05"), ("day", "Monday to Tuesday")}
    assert all(each.numbers is not None for each in results.columns.cells)
    assert "Residuals against month" in write_report(tmp_path / "run").read_text(encoding="utf-8")
    what = {column.name: column.what for column in table_info(tmp_path / "run").columns}
    assert what["month"] == "month, January to September"
    assert what["start"] == "time of day, 00:00 to 23:59"
    drift = find_drift(model, table[table["month"] == "Sept"], np.zeros(26))
    assert [each.what for each in drift.columns if each.name == "month"] == ["June to September"]
