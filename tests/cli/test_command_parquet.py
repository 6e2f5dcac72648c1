"""Parquet files in the commands for tables: types, row labels, damage."""

import datetime
import decimal
import sys

import numpy as np
import pandas as pd
import pytest

from gumdrop.cli import main
from gumdrop.tables import TableError, read_table
from gumdrop.tables.schema.inference import infer_schema
from gumdrop.tables.streams.pieces import TableStream


def test_parquet_is_read_and_written(place, tmp_path, shell) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.read_csv(place / "houses.csv")
    frame.to_parquet(tmp_path / "houses.parquet")
    for name in ("houses.parquet", "houses.csv"):
        source = (tmp_path if "parquet" in name else place) / name
        assert main(["predict", str(place / "run"), str(source), "--out", str(tmp_path / f"{name}.out.parquet")]) == 0
    read = [pd.read_parquet(tmp_path / f"{name}.out.parquet") for name in ("houses.parquet", "houses.csv")]
    pd.testing.assert_frame_equal(*read)
    dated = frame.assign(sold=pd.to_datetime(frame["sold"], format="%d.%m.%Y"))
    dated.to_parquet(tmp_path / "dated.parquet")
    assert main(["predict", str(place / "run"), str(tmp_path / "dated.parquet"), "--out", str(tmp_path / "d.csv")]) == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "d.csv")["prediction"], read[0]["prediction"], rtol=1e-5)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    assert "write the Parquet file again" in shell.refused("predict", place / "run", tmp_path / "bad.parquet")


def test_types_of_parquet_are_columns_like_others(tmp_path) -> None:
    pytest.importorskip("pyarrow")
    rows = 24
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(["a", "b"] * 12),
            "yes": [True, False] * 12,
            "count": pd.array([None, *range(1, rows)], dtype="Int64"),
            "price": [decimal.Decimal("1.5") + i for i in range(rows)],
            "day": [datetime.date(2024, 1, 1 + i) for i in range(rows)],
            "time": pd.date_range("2024", periods=rows, tz="Europe/Oslo"),
            "many": [[1, i] for i in range(rows)],
            "y": np.arange(rows) / 7,
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet").frame
    schema = infer_schema(read, "y")
    assert schema.identifiers == ("many",)
    assert [column.kind for column in schema.columns] == ["category", "category", "number", "number", "date", "date"]
    assert schema.encode_inputs(read).missing == {"count": 1}


def test_row_labels_of_parquet_are_columns_if_they_have_a_name(place, tmp_path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.read_csv(place / "houses.csv")
    frame.set_index(["size", "colour"]).to_parquet(tmp_path / "named.parquet")
    frame.set_index(frame["id"].rename(None)).to_parquet(tmp_path / "unnamed.parquet")
    frame.rename_axis("number").to_parquet(tmp_path / "range.parquet")
    read = {name: read_table(tmp_path / f"{name}.parquet") for name in ("named", "unnamed", "range")}
    assert set(read["named"].frame) == set(read["unnamed"].frame) == set(read["range"].frame) == set(frame)
    assert ["left out" in note for note in read["unnamed"].notes] == [True]
    assert read["named"].notes == read["range"].notes == []
    for name, table in read.items():
        stream = TableStream(tmp_path / f"{name}.parquet")
        assert stream.names == list(table.frame)
        assert stream.notes == table.notes
        assert list(next(stream.read(stream.pieces[0]))[1]) == stream.names
    np.testing.assert_array_equal(read["named"].frame["size"], frame["size"])
    out = tmp_path / "p.csv"
    assert main(["predict", str(place / "run"), str(tmp_path / "named.parquet"), "--out", str(out)]) == 0


def varint(number: int) -> bytes:
    """A number as the footer of a Parquet file writes it."""
    number, parts = 2 * number, []
    while number > 127:
        number, parts = number >> 7, [*parts, number & 127 | 128]
    return bytes([*parts, number])


@pytest.mark.parametrize("claimed", [10**6, 10**9, 10**15])
def test_a_parquet_file_that_claims_other_rows_is_refused(place, tmp_path, claimed, shell) -> None:
    pytest.importorskip("pyarrow")
    pd.read_csv(place / "houses.csv").to_parquet(tmp_path / "t.parquet")
    data = (tmp_path / "t.parquet").read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - size], data[-8 - size : -8].replace(varint(120), varint(claimed))
    (tmp_path / "t.parquet").write_bytes(body + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    for words in ([], ["--stream"]):
        out = str(tmp_path / "p.csv")
        assert "t.parquet" in shell.refused("predict", place / "run", tmp_path / "t.parquet", "--out", out, *words)


def test_a_damaged_parquet_file_is_named(place, tmp_path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.read_csv(place / "houses.csv").assign(day=pd.Timestamp("2024-01-01"))
    frame["colour"] = frame["colour"].astype("category")
    frame.set_index("id").to_parquet(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    rng, refused = np.random.default_rng(0), 0
    for place_of_bit in rng.integers(8 * len(whole), size=60):
        damaged = bytearray(whole)
        damaged[place_of_bit // 8] ^= 1 << (place_of_bit % 8)
        (tmp_path / "t.parquet").write_bytes(damaged)
        try:
            read_table(tmp_path / "t.parquet")
            stream = TableStream(tmp_path / "t.parquet")
            for piece in stream.pieces:
                list(stream.read(piece))
        except TableError as error:
            assert str(error)  # noqa: PT017
            refused += 1
    assert refused > 20


def test_parquet_without_its_library_names_the_command(place, tmp_path, monkeypatch, shell) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'gumdrop[parquet]'" in shell.refused("predict", place / "run", tmp_path / "t.parquet")
