"""A data frame is fitted and predicted as the CSV file that holds the same."""

import datetime

import numpy as np
import pandas as pd
import pytest

from gumdrop.tables import FitSettings, Reading, TableError, fit_table, load_table_model, read_table
from gumdrop.tables.fitting.data import read_data
from gumdrop.tables.reading.spelling import Mark
from gumdrop.tables.schema.schema import TableSchema

from builders.tables import ALONE, write_table


def mixed(num_rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    half = num_rows // 2
    return pd.DataFrame(
        {
            "number": rng.normal(size=num_rows),
            "object": np.array([1, None] * half, dtype=object),
            "nullable": pd.array([1, None] * half, dtype="Int64"),
            "flag": [True, False] * half,
            "maybe": pd.array([True, None] * half, dtype="boolean"),
            "word": pd.Categorical([" red", "NA"] * half),
            "code": pd.Categorical([3, 7] * half),
            "price": ["1.234,50 €", "7 €"] * half,
            "stamp": pd.date_range("2020-01-01", periods=num_rows, freq="7h"),
            "day": [datetime.date(2020, 1, 2), None] * half,
            "seen": np.array([datetime.date(2020, 1, 2), pd.NaT] * half, dtype=object),
            "sparse": pd.arrays.SparseArray([0.0, 2.5] * half),
            "mixed": ["a", 3] * half,
            "wave": np.array([1 + 2j, 3] * half),
        },
        index=range(100, 100 + num_rows),
    )


def test_a_frame_is_read_as_its_csv_file(tmp_path) -> None:
    frame = mixed()
    frame.to_csv(tmp_path / "mixed.csv", index=False)
    before = frame.copy(deep=True)
    read, of_file = read_table(frame), read_table(tmp_path / "mixed.csv")
    pd.testing.assert_frame_equal(frame, before)
    assert (read.decimal, read.notes) == (of_file.decimal, of_file.notes)
    for name in frame:
        cells, want = read.frame[name], of_file.frame[name]
        assert cells.isna().tolist() == want.isna().tolist(), name
        spelled = cells.dropna()
        if name == "stamp":
            want = pd.to_datetime(want)
        same = spelled.tolist() == want.dropna().tolist()
        assert same, (name, spelled.tolist()[:2], want.dropna().tolist()[:2])
    assert read.sha256 == read_table(frame.reset_index(drop=True)).sha256
    assert read.sha256 != read_table(frame.assign(flag=True)).sha256


@pytest.mark.parametrize(("unit", "known"), [("kg", "in kg"), ("%", "in %"), ("", "without a unit")])
def test_numbers_in_another_unit_than_those_of_training_are_refused(tmp_path, unit, known) -> None:
    train = pd.DataFrame({"weight": [f"{i} {unit}" for i in range(20)], "size": "5 m", "y": range(20)})
    table = read_table(train)
    assert {name: mark.unit for name, mark in table.marks.items() if mark.unit} == {
        **({"weight": unit} if unit else {}),
        "size": "m",
    }
    schema = read_data(train, "y", Reading(drop=("size",)), FitSettings()).schema
    schema = TableSchema.from_json(schema.to_json())
    for same in (f"7 {unit}", "7", "7.0"):
        frame = read_table({"weight": [same], "size": ["4 ft"]}, **schema.reading).frame
        assert frame["weight"].tolist() == [7]
    pd.DataFrame({"weight": ["7 lb", "8 lb"]}).to_csv(tmp_path / "new.csv")
    for new in (tmp_path / "new.csv", {"weight": ["7 lb"]}):
        with pytest.raises(TableError, match=f"'weight' are in lb, such as '7 lb', and those of training {known}"):
            read_table(new, **schema.reading)


def test_a_cell_is_read_alike_whatever_the_other_rows_are(tmp_path) -> None:
    sizes, prices = [f"{i / 7:.3f}" for i in range(1, 21)], [f"{i},5 €" for i in range(20)]
    counts = [1000 * i for i in range(20)]
    frame = pd.DataFrame({"size": sizes, "price": prices, "count": counts, "y": range(20)})
    frame.to_csv(tmp_path / "train.csv", index=False, sep=";")
    schema = read_data(tmp_path / "train.csv", "y", Reading(), FitSettings()).schema
    reading = TableSchema.from_json(schema.to_json()).reading
    for rows in ("1.234;1,5;1.234", "1.234;1,5;1.234\n0.567;2;20"):
        (tmp_path / "new.csv").write_text(f"size;price;count\n{rows}\n")
        assert read_table(tmp_path / "new.csv", **reading).frame.iloc[0].tolist() == [1.234, 1.5, 1234]
    for name, cell in (("price", "1.5 €"), ("count", "0.5")):
        (tmp_path / "new.csv").write_text(f"{name}\n{cell}\n")
        with pytest.raises(
            TableError, match=f"'{name}', such as '{cell}', have the decimal mark '.', and those of tra"
        ):
            read_table(tmp_path / "new.csv", **reading)


def test_names_with_leading_zeros_stay_so_where_training_had_no_such_column(tmp_path) -> None:
    (tmp_path / "new.csv").write_text("id,count\n007,007\n010,010\n")
    assert read_table(tmp_path / "new.csv", known={"count": Mark()}).frame.values.tolist() == [["007", 7], ["010", 10]]


def test_thousands_of_a_decimal_comma_are_read_alike_from_texts_of_all_kinds(tmp_path) -> None:
    frame = pd.DataFrame({"sure": ["1.234,5", "2"], "alike": ["1.234", "2.500"], "point": ["1.5", "2.25"]})
    frame.to_csv(tmp_path / "rows.csv", sep=";", index=False)
    of_frame, of_file = read_table(frame), read_table(tmp_path / "rows.csv")
    pd.testing.assert_frame_equal(of_frame.frame, of_file.frame)
    assert of_frame.frame["alike"].tolist() == [1234.0, 2500.0]
    assert (of_frame.marks, of_frame.notes) == (of_file.marks, of_file.notes)
    pytest.importorskip("pyarrow")
    frame[["alike"]].to_parquet(tmp_path / "rows.parquet")
    for source in (frame[["alike"]], tmp_path / "rows.parquet"):
        assert read_table(source, known={"alike": Mark(",")}).frame["alike"].tolist() == [1234.0, 2500.0]


def test_frames_of_other_libraries_are_read() -> None:
    columns = {
        "size": [1.5, None, 3.0],
        "word": ["a", None, "b"],
        "day": [datetime.date(2024, 3, i) for i in (1, 2, 3)],
    }
    want = read_table(columns).frame
    for library in ("polars", "pyarrow"):
        module = pytest.importorskip(library)
        found = read_table((module.DataFrame if library == "polars" else module.table)(columns)).frame
        assert found["size"].equals(want["size"])
        assert found["word"].fillna("-").tolist() == ["a", "-", "b"]
        assert found["day"].astype(str).tolist() == want["day"].tolist()


@pytest.mark.parametrize("table", [np.zeros((3, 2)), [{"a": 1}], 7, None], ids=str)
def test_what_is_no_table_is_told(table) -> None:
    with pytest.raises(TypeError, match=r"`table` must be a file, a data frame.*got (ndarray|list|int|NoneType)"):
        read_table(table)


def test_frames_that_cannot_be_used_say_why() -> None:
    with pytest.raises(TableError, match="no rows or no columns"):
        read_table(pd.DataFrame({"a": []}))
    for columns in ({"a": 1, "b": 2}, {"a": [1, 2], "b": [3]}):
        with pytest.raises(TableError, match=r"dict of columns cannot be read.*a list, of one cell for one row"):
            read_table(columns)
    with pytest.raises(TableError, match="several columns named a"):
        read_table(pd.DataFrame([[1, 2]], columns=["a", "a "]))
    waits = pd.to_timedelta(np.arange(40) % 4, unit="h")
    with pytest.raises(TableError, match=r"'w' holds durations, such as '0 days 00:00:00': give them as numbers"):
        fit_table(pd.DataFrame({"w": waits, "y": np.arange(40.0)}), "y", settings=ALONE)
    days = [f"{i % 28 + 1}-Mar-2024" for i in range(40)]
    with pytest.raises(
        TableError, match="'d' holds dates such as '1-Mar-2024', but the month is a name: write them like 2024"
    ):
        fit_table(pd.DataFrame({"d": days, "y": np.arange(40.0)}), "y", settings=ALONE)
    with pytest.raises(TableError, match="leave `stream` away"):
        fit_table(mixed(), "number", settings=FitSettings(stream=True))


def test_a_frame_gives_the_model_and_the_predictions_of_its_file(tmp_path, monkeypatch) -> None:
    path = write_table(tmp_path / "houses.csv")
    frame = pd.read_csv(path)
    frame["sold"] = pd.date_range("2021-01-01", periods=len(frame), freq="3D").strftime("%Y-%m-%d")
    frame.to_csv(path, index=False)
    reading = Reading(drop=("grade",))
    fit_table(path, "price", tmp_path / "file", reading=reading, settings=ALONE)
    labelled = frame.assign(sold=pd.to_datetime(frame["sold"]), colour=frame["colour"].astype("category"))
    labelled.index = [f"house {i}" for i in range(len(frame))]
    model = fit_table(labelled, target="price", out=tmp_path / "frame", reading=reading, settings=ALONE)
    for name in ("model.safetensors", "predictions.csv"):
        assert (tmp_path / "file" / name).read_bytes() == (tmp_path / "frame" / name).read_bytes()
    text = (tmp_path / "frame" / "config.toml").read_text()
    assert text.startswith("# gumdrop")
    assert "gumdrop fit TABLE.csv --config config.toml" in text
    assert "table =" not in text

    new = labelled.head(9).drop(columns="price")
    new.iloc[0, 0] = None
    new.to_csv(tmp_path / "new.csv", index=False)
    predicted = load_table_model(tmp_path / "file").predict(new, coverage=0.5, quantiles=[0.1])
    of_file = model.predict(tmp_path / "new.csv", coverage=0.5, quantiles=[0.1])
    pd.testing.assert_frame_equal(predicted.reset_index(drop=True), of_file)
    assert predicted.index.tolist() == new.index.tolist()
    assert predicted["missing_cells"].tolist() == [1, 0, 0, 0, 0, 1, 0, 0, 0]
    assert not predicted["q10"].equals(predicted["lower"])
    monkeypatch.setattr("gumdrop.tables.model.ROWS_OF_A_PART", 4)
    in_parts = model.predict(tmp_path / "new.csv", coverage=0.5, quantiles=[0.1])
    pd.testing.assert_frame_equal(in_parts, of_file, rtol=1e-3)


def test_without_a_folder_nothing_stays_but_the_model(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    frame = pd.read_csv(write_table(tmp_path / "houses.csv"))
    model = fit_table(frame, "price", reading=Reading(drop=("grade",)), settings=ALONE)
    assert [path.name for path in tmp_path.iterdir()] == ["houses.csv"]
    assert len(model.predict(frame)) == len(frame)
