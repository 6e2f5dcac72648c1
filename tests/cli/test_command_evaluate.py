"""`gumdrop evaluate`, and `gumdrop predict` on a table that holds the target: scores, intervals, quantiles."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop.cli import main
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


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_scores_of_the_test_part_are_those_of_the_fit(place, tested, capsys) -> None:
    assert main(["evaluate", str(place / "run"), str(tested), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    fitted = json.loads((place / "run" / "results.json").read_text())["scores"][0]["values"]
    assert found["scores"] == pytest.approx(fitted, rel=1e-5)
    assert found["rows"] == 24
    assert "1 of 25 rows have no 'price' and are left out" in found["notes"]
    assert main(["evaluate", str(place / "run"), str(tested)]) == 0
    words = said(capsys)
    assert "this table test part of the fit (24 rows)" in words
    assert all(name in words for name in fitted)


def test_classes_have_an_auroc(place, capsys) -> None:
    assert main(["evaluate", str(place / "classes"), str(place / "houses.csv")]) == 0
    assert "AUROC of 'bad'" in said(capsys)
    assert main(["evaluate", str(place / "classes"), str(place / "houses.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["scores"]) == {"accuracy", "log likelihood", "calibration error"}
    assert found["ranking"]["rows"] + found["ranking"]["other_rows"] == 120


def test_predict_scores_a_table_that_holds_the_target_and_does_not_use_it(place, tested, tmp_path, capsys) -> None:
    for name, table in (("with", tested), ("without", tmp_path / "blind.csv")):
        pd.read_csv(tested).drop(columns="price").to_csv(tmp_path / "blind.csv", index=False)
        assert main(["predict", str(place / "run"), str(table), "--out", str(tmp_path / f"{name}.csv")]) == 0
    told = capsys.readouterr().out
    assert told.count("scores on 24 rows that hold the target: RMSE ") == 1
    assert (tmp_path / "with.csv").read_bytes() == (tmp_path / "without.csv").read_bytes()
    assert main(["predict", str(place / "run"), str(tested), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scored_rows"] == 24
    assert "told" not in found


def test_a_target_that_cannot_be_scored_does_not_stop_predictions(place, tmp_path, capsys) -> None:
    frame = pd.read_csv(place / "houses.csv").head(3).assign(grade=["fine", "good", None])
    frame.to_csv(tmp_path / "new.csv", index=False)
    words = [str(place / "classes"), str(tmp_path / "new.csv")]
    assert main(["predict", *words, "--out", str(tmp_path / "p.csv")]) == 0
    assert "'grade' is not used, and cannot be scored: column 'grade' has 'fine'" in said(capsys)
    assert main(["evaluate", *words]) == 2
    frame.assign(grade=None).to_csv(tmp_path / "new.csv", index=False)
    assert main(["evaluate", *words]) == 2
    assert "no row has a 'grade'" in capsys.readouterr().err


def test_many_rows_are_scored_in_part_and_in_pieces(place, monkeypatch) -> None:
    model, frame = load_table_model(place / "run"), pd.read_csv(place / "houses.csv")
    whole = predict_frame(model, frame, most_scored=120).evaluation
    monkeypatch.setattr("gumdrop.tables.prediction.ROWS_OF_A_PART", 50)
    assert predict_frame(model, frame, most_scored=120).evaluation.scores == pytest.approx(whole.scores, rel=1e-5)
    assert predict_frame(model, frame, most_scored=7).evaluation.rows == 7
    assert predict_frame(model, frame.assign(price=None)).evaluation is None


def test_rows_of_a_prediction_are_picked_from_all_of_its_parts(place) -> None:
    model, frame = load_table_model(place / "run"), pd.read_csv(place / "houses.csv").head(5)
    prediction = model.predict_encoded(torch.from_numpy(model.schema.encode_inputs(frame).x))
    some = prediction.rows(torch.tensor([3, 1]))
    assert some.draw_means.shape == (len(prediction.draw_means), 2, 1)
    assert some.mean.tolist() == prediction.mean[[3, 1]].tolist()
    torch.testing.assert_close(some.quantile(0.3), prediction.quantile(0.3)[[3, 1]])


def test_intervals_of_another_coverage_and_quantiles(place, tmp_path, capsys) -> None:
    words = ["predict", str(place / "run"), str(place / "houses.csv"), "--overwrite", "--out", str(tmp_path / "p.csv")]
    assert main([*words, "--coverage", ".5", "--quantiles", ".25", ".5", ".975"]) == 0
    found = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(found["q25"], found["lower"], rtol=1e-5)
    assert ((found["q25"] < found["q50"]) & (found["q50"] < found["upper"]) & (found["upper"] < found["q97.5"])).all()
    assert "coverage of 50% interval" in said(capsys)
    assert main([*words, "--quantiles", "1.5"]) == 2
    assert main(["evaluate", str(place / "run"), str(place / "houses.csv"), "--coverage", ".5"]) == 0
    assert "coverage of 50% interval" in said(capsys)


@pytest.mark.parametrize("flag", ["--coverage", "--quantiles"])
def test_classes_have_neither_intervals_nor_quantiles(place, tmp_path, capsys, flag) -> None:
    words = ["predict", str(place / "classes"), str(place / "houses.csv"), "--out", str(tmp_path / "p.csv")]
    assert main([*words, flag, ".5"]) == 2
    assert "this model predicts classes: leave" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("folder", ["run", "classes"])
def test_a_page_shows_scores_and_the_rows_that_surprise_most(browser, place, tested, tmp_path, capsys, folder) -> None:
    words = ["evaluate", str(place / folder), str(tested), "--page", str(tmp_path / "e.html")]
    assert main(words) == 0
    assert f"Look at {tmp_path / 'e.html'}" in said(capsys)
    page = (tmp_path / "e.html").read_text()
    assert page.count("<figure") == 2
    assert not re.search(r"https?:|<script|\bnan\b", page)
    assert main([*words[:-2], "--json"]) == 0
    for score in json.loads(capsys.readouterr().out)["scores"]:
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
