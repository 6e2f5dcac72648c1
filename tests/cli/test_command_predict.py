"""`gumdrop predict`: standard input and output, odd cells, tables that do not fit."""

import io
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from gumdrop.cli import main
from gumdrop.tables import load_table_model

from builders.browser import views


class Piped(io.StringIO):
    def __init__(self, data):
        super().__init__()
        self.buffer = io.BytesIO(data)


def test_tables_come_from_standard_input_and_go_to_standard_output(place, quick, tmp_path, monkeypatch, shell) -> None:
    data = (place / "houses.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", Piped(data))
    words = ["fit", "-", "--target", "price", "--drop", "grade", "id", "--unit", "thousand euro"]
    shell.said(*words, "--out", tmp_path / "run", *quick)
    for name in ("model.safetensors", "model.json"):
        assert (tmp_path / "run" / name).read_bytes() == (place / "run" / name).read_bytes()
    shell.said("predict", place / "run", place / "houses.csv", "--out", tmp_path / "a.csv")
    monkeypatch.setattr(sys, "stdin", Piped(data))
    piped = pd.read_csv(io.StringIO(shell.run(["predict", place / "run", "-", "--keep", "id"], 0).out))
    assert piped.pop("id").tolist() == [f"H{i:03}" for i in range(120)]
    pd.testing.assert_frame_equal(piped, pd.read_csv(tmp_path / "a.csv"))
    in_python = load_table_model(place / "run").predict(pd.read_csv(place / "houses.csv"))
    pd.testing.assert_frame_equal(piped.drop(columns="row"), in_python, check_dtype=False)


def test_odd_cells_are_told(place, odd_rows, shell, tmp_path) -> None:
    said = shell.said("predict", place / "run", odd_rows, "--out", tmp_path / "odd.csv.gz")
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
        (lambda f: f.assign(colour=range(4)), "column 'colour' holds numbers, such as 0, where training had"),
        (lambda f: f.assign(size="big", sold="soon"), "2 columns cannot be used as they are"),
        (lambda f: f.assign(id=1, std=2), "column 'std' cannot be kept"),
    ],
)
def test_a_table_that_does_not_fit_is_explained(place, tmp_path, shell, change, message) -> None:
    change(pd.read_csv(place / "houses.csv").head(4)).to_csv(tmp_path / "new.csv", index=False)
    words = ["--keep", "std"] if "kept" in message else []
    assert message in shell.refused("predict", place / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv", *words)


def test_a_full_disk_is_a_failure_on_the_way(place, tmp_path, monkeypatch, shell) -> None:
    monkeypatch.setattr("gumdrop.tables.prediction.replacing", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    words = ["predict", place / "run", place / "houses.csv", "--out", tmp_path / "p.csv"]
    assert "disk full" in shell.said(*words, status=1)


def test_predictions_go_to_no_device(place, shell) -> None:
    words = ["predict", place / "run", place / "houses.csv", "--overwrite", "--out", "/dev/null"]
    assert "is a device or a pipe" in shell.refused(*words)
    assert not Path("/dev/null").is_file()


# The page


def test_a_page_shows_what_is_predicted_and_how_sure_of_it_the_model_is(place, tmp_path, shell) -> None:
    words = ["predict", place / "run", place / "houses.csv", "--page", tmp_path / "p.html"]
    told = shell.told(*words)
    assert told["page"] == str(tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert "120 rows of <code>houses.csv</code>" in page
    assert page.count("<figure") == 3
    assert 'id="h-scores"' in page
    least = max(told["predictions"], key=lambda row: row["epistemic_std"])["row"]
    assert int(re.findall(r"<tr><td>(\d+)</td>", page)[0]) == least
    assert not re.search(r"https?:|<script|\bnan\b", page)
    assert "with --page" in shell.told(*words, status=2)["error"]


def test_a_page_of_rows_that_are_unlike_training_says_so(place, tmp_path) -> None:
    frame = pd.read_csv(place / "houses.csv")
    frame.drop(columns="price").assign(colour="violet").to_csv(tmp_path / "moved.csv", index=False)
    words = ["predict", str(place / "run"), str(tmp_path / "moved.csv"), "--out", str(tmp_path / "p.csv")]
    assert main([*words, "--page", str(tmp_path / "p.html")]) == 0
    page = (tmp_path / "p.html").read_text()
    assert "Not distributed as in training" in page
    assert "<td>unseen categories</td>" in page
    assert 'id="h-scores"' not in page


def test_a_page_is_refused_of_a_stream_and_in_the_place_of_the_predictions(place, tmp_path, shell) -> None:
    words = ["predict", str(place / "run"), str(place / "houses.csv"), "--out", str(tmp_path / "p"), "--page"]
    assert "must be two files" in shell.refused(*words, tmp_path / "p")
    assert "is not written of a stream" in shell.refused(*words, tmp_path / "q", "--stream")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("folder", ["run", "classes"])
def test_the_page_of_predictions_in_a_browser(browser, place, tmp_path, folder) -> None:
    words = ["predict", str(place / folder), str(place / "houses.csv"), "--out", str(tmp_path / "p.csv")]
    assert main([*words, "--page", str(tmp_path / "p.html")]) == 0
    assert list(views(browser, (tmp_path / "p.html").as_uri()))
