"""`gumdrop drift`, and what `predict` and `evaluate` say of a table unlike the one of training."""

import json

import pandas as pd
import pytest

from builders.browser import views


@pytest.fixture
def moved(place, tmp_path):
    frame = pd.read_csv(place / "houses.csv")
    frame.assign(size=frame["size"] + 40, colour="violet").to_csv(tmp_path / "moved.csv", index=False)
    return str(tmp_path / "moved.csv")


def test_what_has_changed_is_in_words_and_for_machines(place, moved, shell):
    words = shell.said("drift", place / "run", moved)
    assert "120 rows: 2 of 3 columns are not distributed as in training" in words
    assert "colour unseen categories 0.0% 100.0%" in words
    found = shell.told("drift", place / "run", moved)
    assert {each["name"] for each in found["columns"]} == {"size", "colour"}
    assert {each["name"]: each["unknown"] for each in found["columns"]}["colour"] == 1
    assert all(each["p"] < 0.01 and each["psi"] > 0.1 for each in found["columns"])
    assert any("'violet'" in note for note in found["notes"])


def test_the_table_of_training_is_quiet(place, tmp_path, shell):
    assert "no column differs in distribution from training" in shell.said("drift", place / "run", place / "houses.csv")
    assert shell.told("evaluate", place / "run", place / "houses.csv")["drift"]["columns"] == []
    assert "distributed" not in shell.said("predict", place / "run", place / "houses.csv", "--out", tmp_path / "p.csv")


def test_predict_and_evaluate_say_so_in_a_sentence(place, moved, tmp_path, shell):
    sentence = "2 of 3 columns are not distributed as in training: "
    assert sentence in shell.said("predict", place / "run", moved, "--out", tmp_path / "p.csv")
    assert sentence in shell.said("evaluate", place / "run", moved)


def test_a_short_table_is_refused_in_words(place, moved, tmp_path, shell):
    pd.read_csv(moved).head(5).to_csv(tmp_path / "few.csv", index=False)
    assert "has 5 rows, and fewer than 20 cannot tell" in shell.refused("drift", place / "run", tmp_path / "few.csv")


def test_evaluate_tells_precision_and_recall_at_the_threshold_of_the_fit(place, shell):
    found = shell.told("evaluate", place / "classes", place / "houses.csv")["ranking"]
    fitted = json.loads((place / "classes" / "model.json").read_text())["cut"]
    assert found["thresholds"][1]["probability"] == fitted["probability"]
    assert 0 < found["average_precision"] <= 1
    words = shell.said("evaluate", place / "classes", place / "houses.csv")
    assert f"precision of '{found['class']}' from" in words
    assert f"recall of '{found['class']}' from" in words


def test_a_page_draws_both_tables_bin_by_bin(browser, place, moved, tmp_path, shell):
    words = ["drift", place / "run", moved, "--page", tmp_path / "d.html"]
    found = shell.told(*words)
    assert found["page"] == str(tmp_path / "d.html")
    for column in found["columns"]:
        assert sum(each["before"] for each in column["bins"]) == pytest.approx(1)
        assert sum(each["now"] for each in column["bins"]) == pytest.approx(1)
    (colour,) = (column for column in found["columns"] if column["name"] == "colour")
    assert colour["bins"][-1] == {"what": "unseen categories", "before": 0, "now": 1}
    page = (tmp_path / "d.html").read_text()
    assert "Is <code>moved.csv</code> like the training table?" in page
    assert page.count("<figure") == 2
    assert page.count(">training</text>") == 2
    assert list(views(browser, (tmp_path / "d.html").as_uri()))
    assert "with --page, or add --overwrite" in shell.told(*words, status=2)["error"]


def test_a_page_of_a_table_like_training_says_so(place, tmp_path, shell):
    assert f"Look at {tmp_path / 'd.html'}" in shell.said(
        "drift", place / "run", place / "houses.csv", "--page", tmp_path / "d.html"
    )
    page = (tmp_path / "d.html").read_text()
    assert "no column differs in distribution from training" in page
    assert "<figure" not in page
