"""The commands for tables as a person and as a machine use them."""

import datetime
import decimal
import io
import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gumdrop.cli import main
from gumdrop.tables import TableError, read_table
from gumdrop.tables.schema.inference import infer_schema
from gumdrop.tables.streams.pieces import TableStream

from builders.browser import views
from builders.tables import write_table
from builders.waiting import HANG, until

QUICK = ["--epochs", "2", "--members", "2", "--hidden", "6", "--draws", "6", "--quiet"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("commands")
    frame = pd.read_csv(write_table(place / "houses.csv"))
    frame.insert(0, "id", [f"H{i:03}" for i in range(len(frame))])
    frame.insert(1, "sold", pd.date_range("2019-01-05", periods=len(frame), freq="9D").strftime("%d.%m.%Y"))
    frame.to_csv(place / "houses.csv", index=False)
    words = ["fit", "--target", "price", "--drop", "grade", "id", "--unit", "thousand euro", *QUICK]
    assert main([*words, "--table", str(place / "houses.csv"), "--out", str(place / "run")]) == 0
    assert main(["fit", str(place / "houses.csv"), "--target", "grade", "--drop", "price", "id", "--out",
                 str(place / "classes"), *QUICK]) == 0  # fmt: skip
    return place


def odd_rows(place):
    frame = pd.read_csv(place / "houses.csv").head(4).assign(colour=["red", "violet", "Red", None])
    frame.loc[2, "size"] = 1e4
    frame.loc[1, "size"] = np.nan
    frame.drop(columns="price").to_csv(place / "odd.csv", index=False)
    return place / "odd.csv"


def only_json(text):
    """The one object on standard output."""
    return json.loads(text)


# Config


def test_the_config_of_a_run_repeats_it_exactly(place, tmp_path) -> None:
    config = place / "run" / "config.toml"
    assert tomllib.loads(config.read_text())["drop"] == ["grade", "id"]
    assert main(["fit", "--config", str(config), "--out", str(tmp_path / "again"), "--quiet"]) == 0
    for name in ("model.safetensors", "predictions.csv", "model.json", "config.toml"):
        assert (tmp_path / "again" / name).read_bytes() == (place / "run" / name).read_bytes(), name


def test_flags_count_more_than_the_config(place, tmp_path) -> None:
    words = ["--config", str(place / "run" / "config.toml"), "--seed", "7", "--members", "3"]
    assert main(["fit", *words, "--out", str(tmp_path / "new"), "--quiet"]) == 0
    written = tomllib.loads((tmp_path / "new" / "config.toml").read_text())
    assert (written["seed"], written["members"], written["hidden"]) == (7, 3, [6])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('table = "houses.csv"\ntarget = "price"\ncolour = 3\n', "colour"),
        ('table = "houses.csv"\ntarget = "price"\nepochs = "many"\n', "epochs"),
        ('table = "houses.csv"\ntarget = "price"\ncoverage = 2\n', "coverage"),
        ("table =", "config.toml"),
        ("a = " + "[" * 5000, "config.toml"),
        ('table = "houses.csv"\ntarget = "price"\nepochs = 1000000000000\n', "at most 1,000,000"),
        ('table = "houses.csv"\ntarget = "price"\nhidden = [9000000000]\n', "`hidden` must hold"),
        (None, "--config config.toml is not there"),
    ],
)
def test_a_config_that_cannot_be_used_is_explained(place, tmp_path, monkeypatch, capsys, text, message) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("config.toml").write_text(text)
    assert main(["fit", "--config", "config.toml"]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


# Standard input and output, JSON, exit codes


class Piped(io.StringIO):
    def __init__(self, data):
        super().__init__()
        self.buffer = io.BytesIO(data)


def test_tables_come_from_standard_input_and_go_to_standard_output(place, tmp_path, monkeypatch, capsys) -> None:
    data = (place / "houses.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", Piped(data))
    words = ["fit", "-", "--target", "price", "--drop", "grade", "id", "--unit", "thousand euro"]
    assert main([*words, "--out", str(tmp_path / "run"), *QUICK]) == 0
    for name in ("model.safetensors", "model.json"):
        assert (tmp_path / "run" / name).read_bytes() == (place / "run" / name).read_bytes()
    assert main(["predict", str(place / "run"), str(place / "houses.csv"), "--out", str(tmp_path / "a.csv")]) == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", Piped(data))
    assert main(["predict", str(place / "run"), "-", "--keep", "id"]) == 0
    piped = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert piped.pop("id").tolist() == [f"H{i:03}" for i in range(120)]
    pd.testing.assert_frame_equal(piped, pd.read_csv(tmp_path / "a.csv"))


def test_every_command_writes_one_json_object(place, tmp_path, capsys) -> None:
    table, run = str(place / "houses.csv"), str(place / "run")
    assert main(["fit", table, "--target", "price", "--drop", "grade", "id", "--out", str(tmp_path / "new"), *QUICK,
                 "--json"]) == 0  # fmt: skip
    fitted = only_json(capsys.readouterr().out)
    assert fitted["task"] == "regression"
    assert fitted["stopped"] is None
    assert fitted["scores"][0]["values"]["RMSE"] > 0
    assert main(["predict", run, str(odd_rows(place)), "--keep", "id", "--json"]) == 0
    predicted = only_json(capsys.readouterr().out)
    assert predicted["unseen"] == {"colour": {"violet": 1, "Red": 1}}
    assert predicted["missing"] == {"size": 1, "colour": 1}
    assert predicted["outside"] == {"size": 1}
    assert [row["unseen_cells"] for row in predicted["predictions"]] == [0, 1, 1, 0]
    assert [row["missing_cells"] for row in predicted["predictions"]] == [0, 1, 0, 1]
    assert [row["outside_cells"] for row in predicted["predictions"]] == [0, 0, 1, 0]
    assert [row["id"] for row in predicted["predictions"]] == ["H000", "H001", "H002", "H003"]
    assert main(["info", run, "--json"]) == 0
    info = only_json(capsys.readouterr().out)
    assert [column["kind"] for column in info["columns"]] == ["date", "number", "category"]
    assert info["target"] | {"mean": 0, "std": 0} == {
        "name": "price", "unit": "thousand euro", "task": "regression", "classes": [], "mean": 0, "std": 0,
    }  # fmt: skip
    assert info["background_rows"] == 96
    assert main(["info", str(tmp_path), "--json"]) == 2
    assert "holds no model.json" in only_json(capsys.readouterr().out)["error"]


def test_odd_cells_are_told(place, capsys, tmp_path) -> None:
    assert main(["predict", str(place / "run"), str(odd_rows(place)), "--out", str(tmp_path / "odd.csv.gz")]) == 0
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


@pytest.mark.parametrize("text", ["[]", "{", '{"table": {}, "scores": [{"values": 3}]}', "[" * 100_000])
def test_damaged_results_are_named(place, tmp_path, capsys, text) -> None:
    for name in ("model.json", "model.safetensors"):
        (tmp_path / name).write_bytes((place / "run" / name).read_bytes())
    assert main(["info", str(tmp_path)]) == 0
    (tmp_path / "results.json").write_text(text)
    assert main(["info", str(tmp_path)]) == 2
    assert "results.json is damaged" in " ".join(capsys.readouterr().err.split())


def test_predictions_go_to_no_device(place, capsys) -> None:
    words = ["predict", str(place / "run"), str(place / "houses.csv"), "--overwrite", "--out"]
    assert main([*words, "/dev/null"]) == 2
    assert "is a device or a pipe" in " ".join(capsys.readouterr().err.split())
    assert not Path("/dev/null").is_file()


# Parquet


def test_parquet_is_read_and_written(place, tmp_path, capsys) -> None:
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
    assert main(["predict", str(place / "run"), str(tmp_path / "bad.parquet")]) == 2
    assert "write the Parquet file again" in " ".join(capsys.readouterr().err.split())


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
    with pytest.raises(TableError, match="'many' has 24 different texts"):
        infer_schema(read, "y")
    schema = infer_schema(read, "y", drop=["many"])
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
def test_a_parquet_file_that_claims_other_rows_is_refused(place, tmp_path, claimed, capsys) -> None:
    pytest.importorskip("pyarrow")
    pd.read_csv(place / "houses.csv").to_parquet(tmp_path / "t.parquet")
    data = (tmp_path / "t.parquet").read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - size], data[-8 - size : -8].replace(varint(120), varint(claimed))
    (tmp_path / "t.parquet").write_bytes(body + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    for words in ([], ["--stream"]):
        out = str(tmp_path / "p.csv")
        assert main(["predict", str(place / "run"), str(tmp_path / "t.parquet"), "--out", out, *words]) == 2
        assert "t.parquet" in capsys.readouterr().err


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


def test_parquet_without_its_library_names_the_command(place, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["predict", str(place / "run"), str(tmp_path / "t.parquet")]) == 2
    assert "pip install 'gumdrop[parquet]'" in " ".join(capsys.readouterr().err.split())


# Interruption


def test_a_termination_is_an_interruption(place, monkeypatch, capsys) -> None:
    monkeypatch.setattr("gumdrop.tables.info.table_info", lambda folder: os.kill(os.getpid(), signal.SIGTERM))
    handler = signal.getsignal(signal.SIGTERM)
    assert main(["info", str(place / "run")]) == 130
    assert signal.getsignal(signal.SIGTERM) is handler
    assert "stopped" in capsys.readouterr().err


def test_an_interrupted_fit_leaves_a_model_and_goes_on(place, tmp_path) -> None:
    hurry = "import gumdrop.training.state as s; s.SECONDS_BETWEEN_CHECKPOINTS = 0.1; "
    # A shell starts what it runs in the background, such as these tests, with interruptions ignored.
    hurry += "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    words = [sys.executable, "-c", hurry + "from gumdrop.cli.commands import main; raise SystemExit(main())", "fit"]
    words += [str(place / "houses.csv"), "--target", "grade", "--drop", "price", "id", "--out", str(tmp_path / "run")]
    words += ["--epochs", "100000", "--members", "2", "--hidden", "6", "--draws", "6", "--json"]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    checkpoint = tmp_path / "run.partial" / "learned.checkpoint"
    until(lambda: checkpoint.exists() or run.poll() is not None, "no checkpoint")
    assert run.poll() is None, run.communicate()
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=HANG)
    assert run.returncode == 130, err
    stopped = json.loads(out)["stopped"]
    assert 0 < stopped["done"] < stopped["planned"] == 100000
    assert "holds the model as it was then" in err
    assert (tmp_path / "run" / "report.html").is_file()
    assert main(["predict", str(tmp_path / "run"), str(place / "houses.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    assert (tmp_path / "run.partial" / "learned.checkpoint").is_file()


# Explain and info


def test_explanations_are_told_shown_and_the_same_again(place, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["explain", str(place / "run"), str(odd_rows(place)), "--orders", "6", "--most", "3"]
    assert main([*words, "--json"]) == 0
    found = only_json(capsys.readouterr().out)
    assert not list(tmp_path.iterdir())
    assert found["columns"] == ["sold", "size", "colour"]
    assert len(found["rows"]) == 3
    for row in found["rows"]:
        for part in ("explained", "epistemic"):
            shares = row[part]
            assert sum(shares["shares"]) == pytest.approx(shares["value"] - shares["usual"], abs=1e-4)
    assert main([*words, "--json"]) == 0
    assert only_json(capsys.readouterr().out) == found
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "Row 1: price" in said
    assert max(map(len, said[said.index("Row 1") :].splitlines())) <= 80
    assert "violet" in (tmp_path / "odd.explained.html").read_text()
    assert main(words) == 2


def test_classes_are_explained_too(place, tmp_path, capsys) -> None:
    words = ["explain", str(place / "classes"), "--against", str(place / "houses.csv")]
    assert main([*words, "--json", "--out", str(tmp_path / "page.html")]) == 0
    found = only_json(capsys.readouterr().out)
    assert found["rows"] == []
    assert found["background"] == {"rows": 120, "source": "houses.csv"}
    assert len(found["overall"]["epistemic"]) == 3
    assert "Overall" in (tmp_path / "page.html").read_text()


def test_a_model_without_kept_rows_says_so(place, tmp_path, capsys) -> None:
    words = ["fit", "--config", str(place / "run" / "config.toml"), "--background", "0"]
    assert main([*words, "--out", str(tmp_path / "bare"), "--quiet"]) == 0
    assert main(["explain", str(tmp_path / "bare"), str(odd_rows(place)), "--json"]) == 2
    assert "--against TABLE.csv" in only_json(capsys.readouterr().out.splitlines()[-1])["error"]


@pytest.mark.parametrize("folder", ["run", "classes"])
def test_info_fits_a_terminal(place, capsys, folder) -> None:
    assert main(["info", str(place / folder)]) == 0
    said = capsys.readouterr().out
    assert {"sold", "size", "colour"} <= set(said.split())
    assert "Held-out figures" in said
    tables = said[said.index("Columns") :]
    assert max(map(len, tables.splitlines())) <= 80


@pytest.mark.parametrize("folder", ["run", "classes"])
def test_the_page_of_an_explanation_in_a_browser(browser, place, tmp_path, folder) -> None:
    page = tmp_path / "page.html"
    words = ["explain", str(place / folder), str(odd_rows(place)), "--orders", "3", "--out", str(page)]
    assert main(words) == 0
    assert list(views(browser, page.as_uri()))
