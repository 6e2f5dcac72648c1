"""Any table that is written is read back as it was written, or refused with its row and column.

``GUMDROP_TABLES=2000 pytest tests/tables/test_written_tables.py --hypothesis-seed=1`` tries that many tables.
"""

import contextlib
import csv
import io
import os
import re

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings

from gumdrop.tables import FitSettings, Reading, TableError, fit_table, read_table
from gumdrop.tables.fitting.data import read_data
from gumdrop.tables.fitting.settings import PredictionSettings
from gumdrop.tables.prediction import predict_frame, written_table
from gumdrop.tables.reading.spelling import tidy
from gumdrop.tables.schema.cells import labels_of

COUNT = int(os.environ.get("GUMDROP_TABLES", "30"))
# fmt: off
ODD = [
    "007", "7", "7.0", "07", "1E3", "1000", "+7", "-0", "0", "00", ".5", "0.50", "1e400", "9007199254740993", "inf",
    "nan", "NA", "None", "null", "-", "?", "n/a", "TRUE", "True", "true", "yes", "No", "no", "2024-01-05", "1/2/2024",
    "2024-01-05 00:00:00", "31.12.2024", "12:30", "Mar", "March", "12 %", "5 kg", "1.234,50", "1,234", "€ 5", "(3)",
    "1_000", "0x10", "=1+1", "#5", "'5", "\N{ARABIC-INDIC DIGIT THREE}", "\N{FULLWIDTH DIGIT ONE}", "a,b", "a;b",
    'say "hi"', '"', "a\nb", "a\rb", "a\r\nb", "a\tb", " a", "a ", "",
]
# fmt: on
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
WHOLE, REAL = st.integers().map(str), st.floats(allow_nan=False, allow_infinity=False).map(str)
DAY = st.dates().map(str) | st.datetimes().map(str)
CELL = st.sampled_from(ODD) | TEXT | WHOLE | REAL | DAY
KINDS = [CELL, st.sampled_from(ODD), TEXT, *(kind | st.just("") for kind in (WHOLE, REAL, DAY))]
COLUMN = st.sampled_from(KINDS)


@st.composite
def tables(draw) -> pd.DataFrame:
    """Tables with a column of a few labels, which repeat, and a column of any cells."""
    num_rows = draw(st.integers(24, 36))
    few = draw(st.lists(draw(COLUMN), min_size=2, max_size=5, unique=True))
    labels = draw(st.permutations(np.resize(np.array(few, dtype=object), num_rows).tolist()))
    kept = draw(st.lists(draw(COLUMN), min_size=num_rows, max_size=num_rows))
    return pd.DataFrame({"x": np.arange(num_rows) / 7, "label": labels, "kept": kept}, dtype=object)


def written(frame: pd.DataFrame, separator: str, quoting: int) -> str:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator, quoting=quoting)
    writer.writerows([frame.columns, *frame.itertuples(index=False)])
    return file.getvalue()


@pytest.fixture(scope="module")
def model():
    frame = pd.DataFrame({"x": np.arange(40) / 7, "y": np.arange(40) ** 0.5})
    return fit_table(frame, "y", settings=FitSettings(hidden=(2,), num_members=1, epochs=1, num_samples=2))


@settings(
    max_examples=COUNT,
    derandomize="GUMDROP_TABLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tables(), st.sampled_from(",;\t"), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_labels_and_kept_columns_are_what_was_written(model, tmp_path, frame, separator, quoting) -> None:
    path, out = tmp_path / "table.csv", tmp_path / "out.csv"
    path.write_bytes(written(frame, separator, quoting).encode())
    check_kept(model, frame, path, out)
    # Blanks around a text are no part of it; in a file, words for missing are missing.
    texts = frame["label"].str.strip()
    tidied = tidy(frame[["label"]].copy())["label"]
    check_labels(path, tidied)
    for table in (path, frame):
        check_categories(table, tidied)
    check_labels(frame.drop(columns="kept"), texts.mask(texts == ""))
    check_labels(frame.drop(columns="kept").astype({"label": "category"}), texts.mask(texts == ""))


@contextlib.contextmanager
def saying(words: str):
    """Check that a refusal says what it is about."""
    try:
        yield
    except TableError as error:
        if not re.search(words, str(error)):
            raise ValueError(f"this does not name its column: {error}") from error
        raise


def check_kept(model, frame: pd.DataFrame, path, out) -> None:
    read = read_table(path, **model.reading, spelled=["label", "kept"])
    found = predict_frame(model, read.frame, PredictionSettings(keep=("label", "kept")), spelled=read.spelled).frame
    with written_table(out) as write:
        write(found)
    with out.open(newline="", encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    for name in ("label", "kept"):
        assert [row[name] for row in rows] == frame[name].tolist()


def check_categories(table: object, labels: pd.Series) -> None:
    """Read the same cells as an input; where they are categories, these are the cells."""
    with contextlib.suppress(TableError), saying("'label'"):
        data = read_data(table, "x", Reading(drop=("kept",), task="regression"), FitSettings())
        (column,) = data.schema.columns
        assert column.kind != "category" or column.labels(data.frame["label"]) == labels.fillna("").tolist()


def check_labels(table: object, labels: pd.Series) -> None:
    """Read labels, and classes from their codes; a refusal names the column."""
    reading = Reading(task="classification", drop=("kept",) if isinstance(table, os.PathLike) else ())
    data = None
    with contextlib.suppress(TableError), saying("'label'|at least 10|--test-fraction"):
        data = read_data(table, "label", reading, FitSettings())
    if data is None:
        return
    want = labels.dropna().tolist()
    assert labels_of(data.frame["label"]) == want
    target = data.schema.target
    assert [target.classes[i] for i in data.schema.encode_target(data.frame)] == want
    assert (data.rows - 1).tolist() == np.flatnonzero(labels.notna()).tolist()
