"""`gumdrop drift`, and what `predict` and `evaluate` say of a table unlike the one of training."""

import json

import pandas as pd
import pytest

from gumdrop.cli import main


@pytest.fixture
def moved(place, tmp_path):
    frame = pd.read_csv(place / "houses.csv")
    frame.assign(size=frame["size"] + 40, colour="violet").to_csv(tmp_path / "moved.csv", index=False)
    return str(tmp_path / "moved.csv")


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_what_has_changed_is_in_words_and_for_machines(place, moved, capsys):
    assert main(["drift", str(place / "run"), moved]) == 0
    words = said(capsys)
    assert "120 rows: 2 of 3 columns are not distributed as in training" in words
    assert "colour unseen categories 0.0% 100.0%" in words
    assert main(["drift", str(place / "run"), moved, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["name"] for each in found["columns"]} == {"size", "colour"}
    assert {each["name"]: each["unknown"] for each in found["columns"]}["colour"] == 1
    assert all(each["p"] < 0.01 and each["psi"] > 0.1 for each in found["columns"])
    assert any("'violet'" in note for note in found["notes"])


def test_the_table_of_training_is_quiet(place, tmp_path, capsys):
    assert main(["drift", str(place / "run"), str(place / "houses.csv")]) == 0
    assert "no column is distributed otherwise than in training" in said(capsys)
    assert main(["evaluate", str(place / "run"), str(place / "houses.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drift"]["columns"] == []
    assert main(["predict", str(place / "run"), str(place / "houses.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    assert "distributed" not in said(capsys)


def test_predict_and_evaluate_say_so_in_a_sentence(place, moved, tmp_path, capsys):
    assert main(["predict", str(place / "run"), moved, "--out", str(tmp_path / "p.csv")]) == 0
    sentence = "2 of 3 columns are not distributed as in training: "
    assert sentence in said(capsys)
    assert main(["evaluate", str(place / "run"), moved]) == 0
    assert sentence in said(capsys)


def test_a_short_table_and_an_older_model_are_refused_in_words(place, moved, tmp_path, capsys):
    pd.read_csv(moved).head(5).to_csv(tmp_path / "few.csv", index=False)
    assert main(["drift", str(place / "run"), str(tmp_path / "few.csv")]) == 2
    assert "has 5 rows, and fewer than 20 cannot tell" in " ".join(capsys.readouterr().err.split())
    old = tmp_path / "old"
    old.mkdir()
    for name in ("model.json", "model.safetensors"):
        (old / name).write_bytes((place / "run" / name).read_bytes())
    description = json.loads((old / "model.json").read_text())
    for name in ("cut", "profile", "sha256"):
        del description[name]
    (old / "model.json").write_text(json.dumps(description | {"format": 3}))  # a format without checksums
    assert main(["drift", str(old), moved]) == 2
    assert "is of an older gumdrop" in " ".join(capsys.readouterr().err.split())
    assert main(["predict", str(old), moved, "--out", str(tmp_path / "p.csv")]) == 0
    assert "distributed" not in said(capsys)


def test_evaluate_tells_precision_and_recall_at_the_threshold_of_the_fit(place, capsys):
    assert main(["evaluate", str(place / "classes"), str(place / "houses.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["ranking"]
    fitted = json.loads((place / "classes" / "model.json").read_text())["cut"]
    assert found["thresholds"][1]["probability"] == fitted["probability"]
    assert 0 < found["average_precision"] <= 1
    assert main(["evaluate", str(place / "classes"), str(place / "houses.csv")]) == 0
    words = said(capsys)
    assert f"precision of '{found['class']}' from" in words
    assert f"recall of '{found['class']}' from" in words
