"""Columns of texts that hardly repeat: they are no inputs, and those that name the rows go along with predictions."""

import json

import numpy as np
import pandas as pd
import pytest

from gumdrop.tables import FitSettings, Reading, TableError, fit_table, load_table_model
from gumdrop.tables.fitting.data import read_data
from gumdrop.tables.schema.inference import infer_schema
from gumdrop.tables.schema.schema import TableSchema

from builders.tables import ALONE, ONE


def orders(num_rows: int = 120, **columns) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    size = rng.normal(size=num_rows)
    numbers = [f"{i:04}" for i in rng.permutation(num_rows)]
    frame = pd.DataFrame({"order": [f"A{n}" for n in numbers], "size": size, "price": size + rng.normal(size=num_rows)})
    return frame.assign(**columns)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    place = tmp_path_factory.mktemp("orders")
    frame = orders(
        mail=[f"{i} at shop" for i in range(120)], remark=[f"please call {i} before noon " * 3 for i in range(120)]
    )
    frame.to_csv(place / "orders.csv", index=False)
    notes: list[str] = []
    fit_table(place / "orders.csv", "price", place / "fit", settings=ALONE, notify=notes.append)
    return place, frame, notes


def test_what_names_the_rows_is_set_aside_with_a_note_and_named_in_results(fitted) -> None:
    place, frame, notes = fitted
    schema = load_table_model(place / "fit").schema
    assert (schema.names, schema.identifiers, schema.texts) == (["size"], ("order", "mail"), ("remark",))
    first = frame["order"][0]
    assert notes[:3] == [
        f"'order' is no input, as it has 120 different texts in 120 rows, such as '{first}': it names the rows in "
        "predictions and in the report",
        "'mail' is no input, as it has 120 different texts in 120 rows, such as '0 at shop': it names the rows in "
        "predictions and in the report; if these are amounts, leave 'at shop' out",
        "'remark' is no input, as it has 120 different texts in 120 rows, such as 'please call 0 before noon please "
        "call...': group them into fewer categories to learn from them",
    ]
    tested = pd.read_csv(place / "fit" / "predictions.csv")
    assert list(tested)[:4] == ["row", "order", "mail", "observed"]
    assert tested["order"].tolist() == frame["order"].iloc[tested["row"] - 1].tolist()
    unsure = json.loads((place / "fit" / "results.json").read_text())["unsure"]
    assert unsure["columns"] == ["order", "mail", "size"]
    assert unsure["rows"][0]["values"][0] == frame["order"][unsure["rows"][0]["row"] - 1]


@pytest.mark.parametrize("columns", [["order", "mail"], ["mail"], []])
def test_predictions_carry_the_identifiers_that_the_table_has(fitted, tmp_path, shell, columns) -> None:
    place, frame, _ = fitted
    new = (
        frame.head(5)[["size", *columns]].assign(order="0012")
        if "order" in columns
        else frame.head(5)[["size", *columns]]
    )
    new.to_csv(tmp_path / "new.csv", index=False)
    said = shell.said(
        "predict", place / "fit", tmp_path / "new.csv", "--out", tmp_path / "out.csv", "--page", tmp_path / "p.html"
    )
    assert "not used" not in said
    written = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert list(written)[: len(columns) + 2] == ["row", *columns, "prediction"]
    assert written[columns].equals(new[columns].astype(str).reset_index(drop=True))
    if "order" in columns:
        assert "0012" in (tmp_path / "p.html").read_text()
    model = load_table_model(place / "fit")
    assert next(iter(model.predict(new))) == "prediction"  # whose rows have their labels


def test_an_identifier_gives_way_to_a_column_of_predictions(tmp_path, shell) -> None:
    frame = orders().rename(columns={"order": "std"})
    frame.to_csv(tmp_path / "orders.csv", index=False)
    shell.said("fit", tmp_path / "orders.csv", "--target", "price", *ONE, "--out", tmp_path / "fit")
    shell.said("predict", tmp_path / "fit", tmp_path / "orders.csv", "--out", tmp_path / "out.csv", "--keep", "size")
    assert pd.read_csv(tmp_path / "out.csv")["std"].dtype == float


def test_streams_carry_identifiers(tmp_path, shell) -> None:
    pytest.importorskip("pyarrow")
    orders(4000).to_parquet(tmp_path / "orders.parquet", row_group_size=900)
    data = read_data(str(tmp_path / "orders.parquet"), "price", Reading(), FitSettings(stream=True))
    assert (data.schema.names, data.schema.identifiers) == (["size"], ("order",))
    shell.said("fit", tmp_path / "orders.parquet", "--target", "price", *ONE, "--out", tmp_path / "fit")
    shell.said("predict", tmp_path / "fit", tmp_path / "orders.parquet", "--stream", "--out", tmp_path / "out.csv")
    assert pd.read_csv(tmp_path / "out.csv")["order"].tolist() == orders(4000)["order"].tolist()


def test_which_texts_name_rows() -> None:
    names = orders()["order"]
    for cells, aside in (
        (names.where(names.index > 5), ("order",)),  # some are missing
        (names.where(names.index > 3, "A0000"), ("order",)),  # some repeat
        (names.where(names.index > 40, "A0000"), ()),
        (names * 10, ()),  # long texts
    ):
        schema = infer_schema(orders(order=cells), "price")
        assert (schema.names, schema.identifiers) == (["size"], aside)
        assert schema.texts == (() if aside else ("order",))
        assert TableSchema.from_json(schema.to_json()) == schema
    with pytest.raises(TableError, match="no input is left, as texts of 'order' hardly repeat: group them"):
        infer_schema(orders()[["order", "price"]], "price")
    frame = orders(order=orders()["order"].astype("category"))
    assert read_data(frame, "price", Reading(categories=("order",)), FitSettings()).schema.identifiers == ("order",)
    with pytest.raises(TableError, match=r"'order' has 120 different texts in 120 rows.*choose another target"):
        infer_schema(orders(), "order")


def test_amounts_with_words_around_them_are_told() -> None:
    rng = np.random.default_rng(0)
    frame = orders(order=[f"approx {n} pieces" for n in rng.integers(1, 80, 120)])
    note = read_data(frame, "price", Reading(), FitSettings()).notes[0]
    assert note.endswith("to learn from them; if these are amounts, leave 'approx' and 'pieces' out")
    for most, noted in ((20, True), (9, False)):
        frame = orders(order=[f"approx {n} pieces" for n in rng.integers(0, most, 120)])
        said = "'order' reads as words, without an order: if these are amounts, leave 'approx' and 'pieces' out"
        assert (said in read_data(frame, "price", Reading(), FitSettings()).notes) == noted


@pytest.mark.parametrize(
    ("unit", "second", "noted"),
    [("s", 1, True), ("ms", 1e3, True), ("ns", 1e9, True), ("s", 0.1, False), ("s", 3, False)],
)
def test_time_stamps_are_noted(unit, second, noted) -> None:
    stamps = (np.linspace(1.0e9, 1.7e9, 120) * second).astype(np.int64)
    notes = [note for note in read_data(orders(at=stamps), "price", Reading(), FitSettings()).notes if "'at'" in note]
    assert bool(notes) == noted
    if noted:
        assert "since 1970, from 2001-09-09 to 2023-11-14" in notes[0]
        assert notes[0].endswith(f"pd.to_datetime(table['at'], unit='{unit}')")
