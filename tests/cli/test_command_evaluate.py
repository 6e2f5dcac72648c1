"""`gumdrop evaluate`, and `gumdrop predict` on a table that holds the target: scores, intervals, quantiles."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from gumdrop.tables import load_table_model
from gumdrop.tables.prediction import predict_frame

from builders.browser import views


@pytest.fixture
def tested(place, tmp_path):
    """The test part of the fit, as a table of its own, with one row more that has no target."""
    rows = pd.read_csv(place / "run" / "predictions.csv")["row"]
    frame = pd.read_csv(place / "houses.csv").iloc[[*(rows - 1), 0]]
    frame.iloc[-1, frame.columns.get_loc("price")] = None
    frame.to_csv(tmp_path / "tested.csv", index=False)
    return tmp_path / "tested.csv"


def test_scores_of_the_test_part_are_those_of_the_fit(place, tested, shell) -> None:
    found = shell.told("evaluate", place / "run", tested)
    fitted = json.loads((place / "run" / "results.json").read_text())["scores"][0]["values"]
    assert found["scores"] == pytest.approx(fitted, rel=1e-5)
    assert found["rows"] == 24
    assert "1 of 25 rows have no 'price' (blank, NA, None and the like) and are left out" in found["notes"]
    words = shell.said("evaluate", place / "run", tested)
    assert "this table test part of the fit (24 rows)" in words
    assert all(name in words for name in fitted)


def test_classes_have_an_auroc(place, shell) -> None:
    assert "AUROC of 'bad'" in shell.said("evaluate", place / "classes", place / "houses.csv")
    found = shell.told("evaluate", place / "classes", place / "houses.csv")
    assert set(found["scores"]) == {"accuracy", "log likelihood", "calibration error"}
    assert found["ranking"]["rows"] + found["ranking"]["other_rows"] == 120


def test_predict_scores_a_table_that_holds_the_target_and_does_not_use_it(place, tested, tmp_path, shell) -> None:
    pd.read_csv(tested).drop(columns="price").to_csv(tmp_path / "blind.csv", index=False)
    for table, count in ((tested, 1), (tmp_path / "blind.csv", 0)):
        said = shell.said("predict", place / "run", table, "--out", tmp_path / f"{count}.csv")
        assert said.count("scores on 24 rows that hold the target: RMSE ") == count
    assert (tmp_path / "0.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()
    found = shell.told("predict", place / "run", tested)
    assert found["scored_rows"] == 24
    assert "told" not in found


def test_a_target_that_cannot_be_scored_does_not_stop_predictions(place, tmp_path, shell) -> None:
    frame = pd.read_csv(place / "houses.csv").head(3).assign(grade=["fine", "good", None])
    frame.to_csv(tmp_path / "new.csv", index=False)
    words = [place / "classes", tmp_path / "new.csv"]
    said = shell.said("predict", *words, "--out", tmp_path / "p.csv")
    assert "'grade' is not used, and cannot be scored: column 'grade' has 'fine'" in said
    shell.refused("evaluate", *words)
    frame.assign(grade=None).to_csv(tmp_path / "new.csv", index=False)
    assert "no row has a 'grade'" in shell.refused("evaluate", *words)


def test_many_rows_are_scored_in_part_and_in_pieces(place, monkeypatch) -> None:
    model, frame = load_table_model(place / "run"), pd.read_csv(place / "houses.csv")
    whole = predict_frame(model, frame, most_scored=120).evaluation
    monkeypatch.setattr("gumdrop.tables.prediction.ROWS_OF_A_PART", 50)
    assert predict_frame(model, frame, most_scored=120).evaluation.scores == pytest.approx(whole.scores, rel=1e-5)
    assert predict_frame(model, frame, most_scored=7).evaluation.rows == 7
    assert predict_frame(model, frame.assign(price=None)).evaluation is None


def test_intervals_of_another_coverage_and_quantiles(place, tmp_path, shell) -> None:
    words = ["predict", place / "run", place / "houses.csv", "--overwrite", "--out", tmp_path / "p.csv"]
    said = shell.said(*words, "--coverage", ".5", "--quantiles", ".25", ".5", ".975")
    assert "coverage of 50% interval" in said
    found = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(found["q25"], found["lower"], rtol=1e-5)
    assert ((found["q25"] < found["q50"]) & (found["q50"] < found["upper"]) & (found["upper"] < found["q97.5"])).all()
    shell.refused(*words, "--quantiles", "1.5")
    assert "coverage of 50% interval" in shell.said("evaluate", place / "run", place / "houses.csv", "--coverage", ".5")


@pytest.mark.parametrize("flag", ["--coverage", "--quantiles"])
def test_classes_have_neither_intervals_nor_quantiles(place, tmp_path, shell, flag) -> None:
    words = ["predict", place / "classes", place / "houses.csv", "--out", tmp_path / "p.csv"]
    assert "this model predicts classes: leave" in shell.refused(*words, flag, ".5")
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("folder", ["run", "classes"])
def test_a_page_shows_scores_and_the_rows_that_surprise_most(browser, place, tested, tmp_path, shell, folder) -> None:
    words = ["evaluate", place / folder, tested]
    assert f"Look at {tmp_path / 'e.html'}" in shell.said(*words, "--page", tmp_path / "e.html")
    page = (tmp_path / "e.html").read_text()
    assert page.count("<figure") == 2
    assert not re.search(r"https?:|<script|\bnan\b", page)
    for score in shell.told(*words)["scores"]:
        assert f'<th scope="row">{score}<' in page
    frame = pd.read_csv(tested)
    model = load_table_model(place / folder)
    predicted = model.predict(frame)
    if folder == "run":
        surprise = (frame["price"] - predicted["prediction"]).abs() / predicted["std"]
    else:
        surprise = -np.where(frame["grade"] == "good", predicted["p(good)"], predicted["p(bad)"])
    first = int(re.findall(r"<tr><td>(\d+)</td>", page)[0])
    assert first == np.argmax(surprise) + 1
    assert list(views(browser, (tmp_path / "e.html").as_uri()))
