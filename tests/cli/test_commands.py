import os

import pandas as pd
import pytest

from gumdrop.cli import main

from builders.tables import write_table


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("cli")
    table = write_table(place / "houses.csv")
    words = ["fit", str(table), "--target", "price", "--drop", "grade", "--out", str(place / "run"), "--quiet"]
    assert main([*words, "--epochs", "3", "--hidden", "8", "--members", "2", "--draws", "10"]) == 0
    return place


def test_fit_leaves_a_report(place) -> None:
    page = (place / "run" / "report.html").read_text()
    assert "<svg" in page
    assert "houses.csv" in page


def test_predict_writes_a_table(place, capsys) -> None:
    out = place / "new.csv"
    assert main(["predict", str(place / "run"), str(place / "houses.csv"), "--out", str(out), "--overwrite"]) == 0
    columns = ["row", "prediction", "std", "lower", "upper", "epistemic_std", "aleatoric_std"]
    assert list(pd.read_csv(out)) == [*columns, "missing_cells", "unseen_cells", "outside_cells"]
    assert "120 rows" in capsys.readouterr().out


@pytest.mark.parametrize(("asked", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_do_not_spin_while_they_wait_unless_asked_to(asked, expected, monkeypatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", asked or "")
    if asked is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    assert main(["--version"]) == 0
    assert os.environ["OMP_WAIT_POLICY"] == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "houses.csv", "--target", "price", "--coverage", "1.5"], "`coverage` must be strictly between"),
        (["fit", "houses.csv", "--target", "price", "--epochs", "0"], "`epochs` must be at least 1"),
        (["fit", "houses.csv", "--target", "price", "--members", "0"], "--members"),
        (["fit", "houses.csv", "--target", "price", "--task", "ranking"], "--task"),
        (["fit", "empty.csv", "--target", "price"], "empty"),
        (["fit", "header.csv", "--target", "price"], "row"),
        (["fit", "infinite.csv", "--target", "price", "--out", "new"], "size"),
        (["fit", "oneclass.csv", "--target", "grade", "--out", "new"], "grade"),
        (["predict", "run", "short.csv"], "colour"),
        (["predict", "run", "houses.csv", "--out", "short.csv"], "exists already"),
        (["predict", "run", "houses.csv", "--out", "houses.csv", "--overwrite"], "is the table itself"),
        (["fit", "houses.csv", "--target", "price", "--out", "nowhere/new"], "there is no folder nowhere"),
        (["fit", "houses.csv", "--target", "price", "--out", "."], "--out must name a new folder"),
        (["fit", "houses.csv", "--target", "price", "--out", "papers", "--overwrite"], "thesis.tex"),
        (["predikt", "run"], "predikt"),
    ],
)
def test_bad_input_is_one_clear_message(place, monkeypatch, capsys, words, message) -> None:
    monkeypatch.chdir(place)
    frame = pd.read_csv("houses.csv")
    (place / "empty.csv").write_text("")
    (place / "header.csv").write_text("size,colour,price\n")
    frame.assign(size=frame["size"].where(frame.index != 3, float("inf"))).to_csv("infinite.csv", index=False)
    frame.assign(grade="good").to_csv("oneclass.csv", index=False)
    frame[["size"]].to_csv("short.csv", index=False)
    (place / "papers").mkdir(exist_ok=True)
    (place / "papers" / "thesis.tex").write_text("years of work")
    before = {path.name for path in place.iterdir()}
    assert main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err + captured.out
    assert {path.name for path in place.iterdir()} == before


def test_several_hidden_layers_and_a_name_with_dots(place, monkeypatch) -> None:
    monkeypatch.chdir(place)
    (place / "houses.2024.csv").write_text((place / "houses.csv").read_text())
    words = ["fit", "houses.2024.csv", "--target", "price", "--drop", "grade", "colour", "--hidden", "6", "5"]
    words += ["--members", "2", "--draws", "6", "--quiet"]
    assert main([*words, "--epochs", "2"]) == 0
    assert main([*words, "--epochs", "3", "--overwrite"]) == 0
    assert (place / "houses.2024" / "report.html").is_file()


def test_an_interruption_is_told(place, monkeypatch, capsys) -> None:
    monkeypatch.setattr(
        "gumdrop.tables.fitting.train.choose", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    words = ["fit", str(place / "houses.csv"), "--target", "price", "--out", str(place / "stopped"), "--quiet"]
    assert main(words) == 130
    assert "before there was a model to keep" in capsys.readouterr().err


def test_demo_runs_on_real_data(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("gumdrop.ensembles.folds.STEPS", 10)
    monkeypatch.setattr("gumdrop.ensembles.folds.LEAST_EPOCHS", 5)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    assert (tmp_path / "demo" / "diabetes" / "report.html").is_file()
    assert len(pd.read_csv(tmp_path / "demo" / "new.predictions.csv")) == 20
    said = capsys.readouterr().out
    assert "211 test rows" in said
    models = ("learned dropout", "fixed dropout, p = 0.1", "no dropout", "gradient-boosted trees", "linear model")
    assert all(f" {name} " in said for name in models)
    assert "report.html" in said
