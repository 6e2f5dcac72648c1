"""Text stays as it was spelled: labels, categories and kept columns; a number is one only where the whole column is."""

import warnings

import numpy as np
import pandas as pd
import pytest

from gumdrop.tables import FitSettings, Reading, fit_table, load_table_model, read_table
from gumdrop.tables.fitting.data import read_data
from gumdrop.tables.notes import table_notes
from gumdrop.tables.prediction import predict_known
from gumdrop.tables.schema.inference import infer_schema
from gumdrop.tables.schema.schema import TableSchema

from builders.tables import ONE

QUICK = FitSettings(hidden=(4,), num_members=1, epochs=1, num_samples=5)
CLASSES = Reading(task="classification")


def table(labels, num_rows: int = 60, **columns) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.normal(size=num_rows), **columns, "y": np.resize(np.array(labels), num_rows)})


def in_file(frame: pd.DataFrame, folder):
    frame.to_csv(folder / "table.csv", index=False)
    return folder / "table.csv"


# Classes


@pytest.mark.parametrize("kind", ["file", "frame", "category", "parquet"])
@pytest.mark.parametrize(
    "labels",
    [("1E3", "1000", "2000"), ("01", "1", "2"), ("00", "0", "1"), ("007", "0012", "3"), ("01", "02", "X"),
     ("1.50", "3"), ("No", "no", "yes"), ("TRUE", "True", "no"), ("5 kg", "7 kg"),
     ("9007199254740993", "9007199254740992")],
)  # fmt: skip
def test_classes_are_the_cells_as_they_are_spelled(tmp_path, labels, kind) -> None:
    frame = table(labels)
    given = {"frame": frame, "category": frame.astype({"y": "category"}), "file": in_file(frame, tmp_path)}
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(tmp_path / "table.parquet")
    data = read_data(given.get(kind, tmp_path / "table.parquet"), "y", CLASSES, QUICK)
    target = TableSchema.from_json(data.schema.to_json()).target
    assert sorted(target.classes) == sorted(labels)
    assert [target.classes[i] for i in data.schema.encode_target(data.frame)] == frame["y"].tolist()
    later = read_table(in_file(frame[:4], tmp_path), **data.schema.reading).frame
    assert [target.classes[i] for i in data.schema.encode_target(later)] == frame["y"].tolist()[:4]


def test_classes_that_only_their_spelling_tells_apart_are_named() -> None:
    for labels, words in ((("01", "1", "2"), "'01' and '1'"), (("No", "no", "yes"), "'No' and 'no'")):
        (note,) = (note for note in read_data(table(labels), "y", Reading(), QUICK).notes if "different" in note)
        assert note == f"'y' has {words}, which count as different; spell them alike if they are not"


@pytest.mark.parametrize("word", ["None", "NA", "null", "none", "-", "n/a", "nan"])
def test_in_a_frame_a_class_may_have_a_name_that_files_have_for_missing(word) -> None:
    frame = table((word, "mild", "severe"))
    frame.loc[5, "y"] = None
    model = fit_table(frame, "y", settings=QUICK)
    assert {*model.schema.target.classes} == {word, "mild", "severe"}
    predicted, known, rows = predict_known(model, frame)
    assert (len(known), 6 in rows) == (59, False)
    assert predicted.evaluation.rows == 59


def test_rows_are_not_left_out_in_silence_where_their_target_is_a_word_for_missing(tmp_path) -> None:
    path, words = in_file(table(("None", "mild", "severe")), tmp_path), "20 of 60 rows have no 'y' .*, here 'None'"
    frame = table(("1.5", "2.5", "4", "-")).assign(z=1.0)
    for given, said in ((path, words), (frame, "15 of 60 rows have no 'y' .*, here '-'")):
        with pytest.warns(UserWarning, match=said):
            fit_table(given, "y", settings=QUICK)
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_table(path, "y", settings=QUICK, notify=notes.append)
        fit_table(in_file(table(("", "mild", "severe")), tmp_path), "y", settings=QUICK)
    assert "here 'None'" in " ".join(notes)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ([1, 2, 3], "int64"),
        ([1, 2, 3], "Int64"),
        ([1, 2, 3], object),
        ([1, 2, 3], "category"),
        ([7, -12], "int8"),
        ([True, False], "bool"),
        ([True, False], "boolean"),
        ([0.5, 1.0], "float64"),
        (["1", "2"], object),
    ],
)
def test_predicted_classes_have_the_type_that_they_had_in_the_frame(tmp_path, labels, dtype) -> None:
    frame = table(labels).astype({"y": dtype})
    fit_table(frame, "y", tmp_path / "model", settings=QUICK, reading=CLASSES)
    predicted = load_table_model(tmp_path / "model").predict(frame)["prediction"]
    assert {*map(type, predicted.tolist())} == {type(labels[0])}
    assert {*predicted} <= {*labels}


# Categories


def test_codes_in_a_column_of_text_are_different_categories() -> None:
    codes = np.resize(np.array(["007", "7", "A1"]), 60)
    frame = table([1.5], code=codes).assign(y=np.select([codes == "007", codes == "7"], [0.0, 5.0], 2.0))
    schema = read_data(frame, "y", Reading(), QUICK).schema
    assert schema.columns[1].categories == ("007", "7", "A1")
    np.testing.assert_array_equal(schema.encode_inputs(frame[:3]).x[:, 1:], np.eye(3))
    later = pd.DataFrame({"x": 0.0, "code": ["07", "7.0", "A1"]})
    assert schema.encode_inputs(later).unseen == {"code": {"07": 1, "7.0": 1}}


@pytest.mark.parametrize("as_file", [True, False])
def test_spellings_of_one_number_are_one_category_where_all_cells_are_numbers(tmp_path, as_file) -> None:
    frame = table([1.5, 2.25], zip=np.resize(np.array(["02134", "10001", "02134", "2134", "1E4"]), 60)).assign(
        y=range(60)
    )
    given = in_file(frame, tmp_path) if as_file else frame
    data = read_data(given, "y", Reading(categories=("zip",)), QUICK)
    assert data.schema.columns[1].categories == ("02134", "1E4", "10001")
    assert "'zip' has '02134' and '2134', which are one number and count as one" in data.notes
    np.testing.assert_array_equal(data.x[:5, 1:], np.eye(3)[[0, 2, 0, 0, 1]])
    later = pd.DataFrame({"x": 0.0, "zip": [2134, 10001, 10000, 5]})
    found = data.schema.encode_inputs(read_table(later, **data.schema.reading).frame)
    np.testing.assert_array_equal(found.x[:3, 1:], np.eye(3)[[0, 2, 1]])
    assert found.unseen == {"zip": {"5": 1}}


def test_a_training_part_without_the_letters_keeps_the_codes_apart() -> None:
    frame = table([1.5], code=["007", "7"] * 29 + ["A1", "A1"]).assign(x=range(60), y=np.arange(60) / 7)
    schema = infer_schema(frame, "y")
    data = read_data(frame, "y", Reading(), FitSettings(split_by="x", split_as="time"))
    assert (schema.columns[1].categories, data.schema.columns[1].categories) == (("007", "7", "A1"), ("007", "7"))


def test_each_column_of_the_dtype_category_is_one() -> None:
    zips = pd.Series(np.resize(np.array(["02134", "10001", "94105"]), 60))
    days = pd.Series(np.resize(np.array(["2024-01-05", "2024-03-09"]), 60))
    frame = table([0.0], zip=zips.astype("category"), day=days.astype("category")).assign(y=range(60))
    columns = read_data(fit_frame := frame, "y", Reading(), QUICK).schema.columns
    assert [column.kind for column in columns] == ["number", "number", "date"], "unless nobody looks at the frame"
    model = fit_table(fit_frame, "y", settings=QUICK)
    assert [column.kind for column in model.schema.columns] == ["number", "category", "category"]
    assert model.schema.columns[1].categories == ("02134", "10001", "94105")


def test_categories_of_polars_are_categories() -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    zips = polars.Series("zip", [*np.resize(np.array(["02134", "10001"]), 60)], dtype=polars.Categorical)
    model = fit_table(polars.DataFrame({"zip": zips, "y": range(60)}), "y", settings=QUICK)
    assert model.schema.columns[0].kind == "category"


def test_a_message_quotes_what_the_table_has(tmp_path) -> None:
    frame = table([0.0], id=[f"{i:08}" for i in range(60)]).assign(y=range(60))
    for given in (in_file(frame, tmp_path), frame):
        (note, *_) = read_data(given, "y", Reading(categories=("id",)), QUICK).notes
        assert note.startswith("'id' is no input, as it has 60 different texts in 60 rows, such as '00000000'")


def test_the_report_names_categories_as_the_table_does(tmp_path, shell) -> None:
    frame = table([0.0], paid=np.resize(np.array(["No", "no", "yes"]), 60)).assign(y=np.arange(60) / 7)
    shell.said("fit", str(in_file(frame, tmp_path)), "--target", "y", *ONE, "--out", str(tmp_path / "model"))
    model = load_table_model(tmp_path / "model")
    assert model.schema.columns[1].categories == ("No", "no", "yes")
    assert "No, no, yes" in shell.said("info", str(tmp_path / "model"))
    notes = table_notes(frame, model.schema)
    assert "'paid' has 'No' and 'no', which count as different; spell them alike if they are not" in notes


# Kept columns


def test_kept_columns_are_texts_as_the_file_has_them(tmp_path, shell) -> None:
    shell.said(
        "fit", str(in_file(table([1.5, 2.25, 7.125]), tmp_path)), "--target", "y", *ONE, "--out", str(tmp_path / "m")
    )
    cells = ["", "17", "017", "1.50", "NA", "TRUE", " a", "b ", "1E3", "2024-1-5"]
    rows = [f'{cell},"{cell}","1,50",{i}.50,{i}.50' for i, cell in enumerate(cells)]
    (tmp_path / "new.csv").write_text("\n".join(["id, quoted,comma,z,x", *rows]) + "\n")
    out = tmp_path / "out.csv"
    said = ["predict", str(tmp_path / "m"), str(tmp_path / "new.csv"), "--keep", "id", "quoted", "comma", "z"]
    shell.said(*said, "--out", str(out))
    kept = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert kept["id"].tolist() == kept["quoted"].tolist() == cells
    assert kept["comma"].tolist() == ["1,50"] * 10
    assert kept["z"].tolist() == [f"{i}.50" for i in range(10)]


def test_quotes_after_a_blank_are_no_part_of_a_kept_cell(tmp_path) -> None:
    (tmp_path / "new.csv").write_text('id, name,x\n a, "b, c",1\n"d", "e",2\n')
    kept = read_table(tmp_path / "new.csv", spelled=["id", "name", "x"]).spelled
    assert kept["name"].tolist() == ["b, c", "e"]
    assert kept["x"].tolist() == ["1", "2"]


@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_kept_columns_of_parquet_are_as_they_are_there(tmp_path, shell, stream) -> None:
    pytest.importorskip("pyarrow")
    shell.said(
        "fit", str(in_file(table([1.5, 2.25, 7.125]), tmp_path)), "--target", "y", *ONE, "--out", str(tmp_path / "m")
    )
    new = pd.DataFrame({"id": pd.array([17, None, 3], "Int64"), "name": [" NA", "-", "007"], "x": [0.5, 1.5, 2.5]})
    new.to_parquet(tmp_path / "new.parquet")
    words = ["--keep", "id", "name", "--out", str(tmp_path / "out.csv")]
    shell.said("predict", str(tmp_path / "m"), str(tmp_path / "new.parquet"), *words, *stream)
    kept = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    assert kept["id"].tolist() == ["17", "", "3"]
    assert kept["name"].tolist() == [" NA", "-", "007"]
