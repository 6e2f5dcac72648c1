"""Numbers as people spell them: thousands marks, currencies, accounting; each reader takes them alike, or refuses."""

import numpy as np
import pandas as pd
import pytest

from gumdrop.tables import FitSettings, Reading, TableError, read_table
from gumdrop.tables.fitting.data import read_data
from gumdrop.tables.reading.spelling import Mark
from gumdrop.tables.schema.columns import MeasuredColumn
from gumdrop.tables.streams.rows import StreamedRows

COUNTS = ["9.011", "832", "38.291"]


def table_of(cells) -> pd.DataFrame:
    """The cells, over and over, and a target."""
    return pd.DataFrame({"x": [cells[i % len(cells)] for i in range(400)], "y": range(400)})


def written(cells, path, separator: str = ",") -> str:
    if path.suffix == ".parquet":
        table_of(cells).to_parquet(path, row_group_size=70)
    else:
        table_of(cells).to_csv(path, index=False, sep=separator)
    return str(path)


def of_all_readers(cells, place):
    """The table as a CSV file, a frame, a Parquet file and a stream, with the settings that read it."""
    pytest.importorskip("pyarrow")
    parquet = written(cells, place / "rows.parquet")
    tables = (written(cells, place / "rows.csv"), table_of(cells), parquet)
    return [*((table, FitSettings()) for table in tables), (parquet, FitSettings(stream=True))]


@pytest.mark.parametrize(
    ("cells", "values", "reading"),
    [
        (COUNTS, [9011, 832, 38291], {"decimal": ","}),
        (COUNTS, [9.011, 832, 38.291], {"decimal": "."}),
        (["(13.21)", "7", "2.5"], [-13.21, 7, 2.5], {}),
        (["$ (1,300.50)", "$7", "($ 2)"], [-1300.5, 7, -2], {}),
        (["USD 27", "USD 1,200.50", "7 USD"], [27, 1200.5, 7], {}),
        (["R$ 1.234,50", "R$ 7"], [1234.5, 7], {}),
    ],
)
def test_all_readers_give_the_same_numbers(tmp_path, cells, values, reading) -> None:
    for table, settings in of_all_readers(cells, tmp_path):
        column = read_data(table, "y", Reading(**reading), settings).schema.columns[0]
        assert isinstance(column, MeasuredColumn)
        assert (column.least, column.most) == pytest.approx((min(values), max(values)))


@pytest.mark.parametrize("cells", [COUNTS, ["1.000", "2.000", "100"], ["1,234", "7"]])
def test_thousands_marks_that_may_be_decimal_points_are_refused_by_all_readers(tmp_path, cells) -> None:
    for table, settings in of_all_readers(cells, tmp_path):
        with pytest.raises(TableError, match=r"'x' holds numbers such as '.*', which may be .*: give the decimal mark"):
            read_data(table, "y", Reading(), settings)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x,y\n1.125,0\n2.250,1\n", [1.125, 2.25]),  # decimals of a fixed number
        ("x,y\n9.011,0.5\n832,1\n", [9.011, 832]),  # another column has decimal points
        ("x,y\n9.011,0\n10.5,1\n", [9.011, 10.5]),
        ("x,y\n0.125,0\n832,1\n", [0.125, 832]),
        ("x,y\n9.011,5.0\n832,6.0\n", [9.011, 832]),
        ("x;y\n9.011;1,5\n832;2,5\n", [9011, 832]),  # another column has decimal commas
    ],
)
def test_points_that_other_cells_explain_are_read(tmp_path, text, values) -> None:
    (tmp_path / "rows.csv").write_text(text)
    assert read_table(tmp_path / "rows.csv").frame["x"].tolist() == values


def test_points_in_all_cells_are_doubtful_where_semicolons_part_the_columns(tmp_path) -> None:
    for separator, doubtful in ((",", False), (";", True)):
        table = written(["1.234", "2.500"], tmp_path / "rows.csv", separator)
        assert (read_table(table).frame["x"].dtype != float) == doubtful
    (tmp_path / "new.csv").write_text("x;y\n1.234;1\n")
    known = read_data(written(["1.5", "2"], tmp_path / "rows.csv", ";"), "y", Reading(), FitSettings()).schema.reading
    assert read_table(tmp_path / "new.csv", **known).frame["x"].tolist() == [1.234]  # as training had them


def test_labels_in_parentheses_alone_are_no_negative_numbers() -> None:
    frame = pd.DataFrame({"x": [f"({i % 3})" for i in range(40)], "y": range(40)})
    with pytest.raises(TableError, match=r"'x' holds numbers as text, such as '\(0\)': write -0, or"):
        read_data(frame, "y", Reading(), FitSettings())
    assert read_table({"x": ["(3)"]}, known={"x": Mark()}).frame["x"].tolist() == [-3]


def test_a_note_quotes_a_number_in_parentheses(tmp_path) -> None:
    (note,) = read_table({"x": ["$5", "$ (13.21)"]}).notes
    assert note == "numbers of 'x' are read as in '$5' = 5 and '$ (13.21)' = -13.21"


def test_words_that_count_as_missing_are_quoted_where_they_may_be_a_category(tmp_path) -> None:
    cells = ["red", "n/a", "blue", " N/A ", ""]
    said = "'n/a' and 'N/A' of 'x' count as missing; to keep them as a category, write another word, such as 'not appl"
    for table, settings in of_all_readers(cells, tmp_path)[:3]:
        data = read_data(table, "y", Reading(), settings)
        assert data.schema.columns[0].categories == ("blue", "red", "")
        assert [said in note for note in data.notes if "n/a" in note] == [True]
    for table, settings in of_all_readers(["1.5", "n/a", "2"], tmp_path)[:3]:  # as numbers they could be nothing else
        assert not any("n/a" in note for note in read_data(table, "y", Reading(), settings).notes)


def test_streams_train_on_numbers_with_marks(tmp_path) -> None:
    pytest.importorskip("pyarrow")
    table = written(["USD 1", "USD (3)"], tmp_path / "rows.parquet")
    data = read_data(table, "y", Reading(), FitSettings(stream=True))
    rows = StreamedRows(data.streamed.stream, data.schema, data.streamed.survey, batch_size=20)
    (x, _), *_ = rows
    assert np.ptp(x.numpy()) * data.schema.columns[0].std == pytest.approx(4)
