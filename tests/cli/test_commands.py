import os

import pandas as pd
import pytest

from gumdrop.cli import main


def test_predict_writes_a_table(place, tmp_path, shell) -> None:
    assert "120 rows" in shell.said("predict", place / "run", place / "houses.csv", "--out", tmp_path / "new.csv")
    columns = ["row", "prediction", "std", "lower", "upper", "epistemic_std", "aleatoric_std"]
    assert list(pd.read_csv(tmp_path / "new.csv")) == [*columns, "missing_cells", "unseen_cells", "outside_cells"]


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
def test_bad_input_is_one_clear_message(place, tmp_path, monkeypatch, shell, words, message) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").symlink_to(place / "run")
    frame = pd.read_csv(place / "houses.csv").drop(columns="id")
    frame.to_csv("houses.csv", index=False)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("size,colour,price\n")
    frame.assign(size=frame["size"].where(frame.index != 3, float("inf"))).to_csv("infinite.csv", index=False)
    frame.assign(grade="good").to_csv("oneclass.csv", index=False)
    frame[["size"]].to_csv("short.csv", index=False)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.tex").write_text("years of work")
    before = {path.name for path in tmp_path.iterdir()}
    said = shell.refused(*words)
    assert message in said
    assert "Traceback" not in said
    assert {path.name for path in tmp_path.iterdir()} == before


def test_several_hidden_layers_and_a_name_with_dots(place, tmp_path, monkeypatch, shell) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "houses.2024.csv").write_text((place / "houses.csv").read_text())
    words = ["fit", "houses.2024.csv", "--target", "price", "--drop", "grade", "colour", "id", "--hidden", "6", "5"]
    words += ["--members", "2", "--draws", "6", "--quiet"]
    shell.said(*words, "--epochs", "2")
    shell.said(*words, "--epochs", "3", "--overwrite")
    assert (tmp_path / "houses.2024" / "report.html").is_file()


def test_an_interruption_is_told(place, tmp_path, monkeypatch, shell) -> None:
    stop = (None for _ in ()).throw
    monkeypatch.setattr("gumdrop.tables.fitting.train.choose", lambda *_, **__: stop(KeyboardInterrupt))
    words = ["fit", place / "houses.csv", "--target", "price", "--drop", "id", "--out", tmp_path / "stopped", "--quiet"]
    assert "before there was a model to keep" in shell.said(*words, status=130)


def test_demo_runs_on_real_data(tmp_path, monkeypatch, shell) -> None:
    monkeypatch.setattr("gumdrop.ensembles.folds.STEPS", 10)
    monkeypatch.setattr("gumdrop.ensembles.folds.LEAST_EPOCHS", 5)
    said = shell.said("demo", "--out", tmp_path / "demo")
    assert (tmp_path / "demo" / "diabetes" / "report.html").is_file()
    assert len(pd.read_csv(tmp_path / "demo" / "new.predictions.csv")) == 20
    assert "211 test rows" in said
    models = ("learned dropout", "fixed dropout, p = 0.1", "no dropout", "gradient-boosted trees", "linear model")
    assert all(f" {name} " in said for name in models)
    assert "report.html" in said
