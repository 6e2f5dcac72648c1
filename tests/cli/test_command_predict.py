"""`gumdrop predict`: standard input and output, odd cells, tables that do not fit."""

import io
import sys
from pathlib import Path

import pandas as pd
import pytest

from gumdrop.cli import main


class Piped(io.StringIO):
    def __init__(self, data):
        super().__init__()
        self.buffer = io.BytesIO(data)


def test_tables_come_from_standard_input_and_go_to_standard_output(place, quick, tmp_path, monkeypatch, capsys) -> None:
    data = (place / "houses.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", Piped(data))
    words = ["fit", "-", "--target", "price", "--drop", "grade", "id", "--unit", "thousand euro"]
    assert main([*words, "--out", str(tmp_path / "run"), *quick]) == 0
    for name in ("model.safetensors", "model.json"):
        assert (tmp_path / "run" / name).read_bytes() == (place / "run" / name).read_bytes()
    assert main(["predict", str(place / "run"), str(place / "houses.csv"), "--out", str(tmp_path / "a.csv")]) == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", Piped(data))
    assert main(["predict", str(place / "run"), "-", "--keep", "id"]) == 0
    piped = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert piped.pop("id").tolist() == [f"H{i:03}" for i in range(120)]
    pd.testing.assert_frame_equal(piped, pd.read_csv(tmp_path / "a.csv"))


def test_odd_cells_are_told(place, odd_rows, capsys, tmp_path) -> None:
    assert main(["predict", str(place / "run"), str(odd_rows), "--out", str(tmp_path / "odd.csv.gz")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "not used, because training did not have them: 'id', 'grade'" in said
    assert "'violet' (1 row), 'Red' (1 row; did you mean 'red'?)" in said
    assert "1 value of 'size' is far outside the training range" in said
    assert "1 missing value in 'colour' was drawn from similar training rows" in said
    assert len(pd.read_csv(tmp_path / "odd.csv.gz")) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.rename(columns={"colour": "color"}), r"no column 'colour' (did you mean color?)"),
        (lambda f: f.drop(columns="sold"), "no column 'sold'"),
        (
            lambda f: f.assign(colour=range(4)),
            "column 'colour' holds numbers, such as 0, where training had",
        ),
        (lambda f: f.assign(size="big", sold="soon"), "2 columns cannot be used as they are"),
        (lambda f: f.assign(id=1, std=2), "column 'std' cannot be kept"),
    ],
)
def test_a_table_that_does_not_fit_is_explained(place, tmp_path, capsys, change, message) -> None:
    change(pd.read_csv(place / "houses.csv").head(4)).to_csv(tmp_path / "new.csv", index=False)
    words = ["--keep", "std"] if "kept" in message else []
    assert (
        main(["predict", str(place / "run"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "p.csv"), *words]) == 2
    )
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_full_disk_is_a_failure_on_the_way(place, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("gumdrop.tables.writing.replacing", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    assert main(["predict", str(place / "run"), str(place / "houses.csv"), "--out", str(tmp_path / "p.csv")]) == 1
    assert "disk full" in capsys.readouterr().err


def test_predictions_go_to_no_device(place, capsys) -> None:
    words = ["predict", str(place / "run"), str(place / "houses.csv"), "--overwrite", "--out"]
    assert main([*words, "/dev/null"]) == 2
    assert "is a device or a pipe" in " ".join(capsys.readouterr().err.split())
    assert not Path("/dev/null").is_file()
