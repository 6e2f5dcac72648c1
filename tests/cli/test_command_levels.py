"""A target that is recorded in steps: found, said, scored at its own resolution, and predicted level by level."""

import json

import numpy as np
import pandas as pd
import pytest

from gumdrop.cli import main
from gumdrop.tables import load_table_model, read_table
from gumdrop.tables.fitting.settings import PredictionSettings
from gumdrop.tables.model_file import checksum_of
from gumdrop.tables.prediction import predict_frame


@pytest.fixture(scope="module")
def graded(tmp_path_factory, quick):
    place = tmp_path_factory.mktemp("levels")
    rng = np.random.default_rng(0)
    size = rng.normal(50, 9, 160)
    grade = np.clip(np.round(size / 8 + rng.normal(0, 0.5, 160)), 3, 9)
    frame = pd.DataFrame({"size": size, "colour": rng.choice(["red", "blue"], 160), "grade": grade})
    frame.to_csv(place / "wines.csv", index=False)
    assert main(["fit", str(place / "wines.csv"), "--target", "grade", "--out", str(place / "run"), *quick]) == 0
    return place


def test_the_steps_are_said_and_scored(graded, shell) -> None:
    results = json.loads((graded / "run" / "results.json").read_text())
    assert results["target"]["step"] == 1
    assert all("log probability of step" in score["values"] for score in results["scores"])
    assert results["score_directions"]["log probability of step"] == "higher"
    assert "in steps of 1" in results["score_notes"]["log probability of step"]
    assert any("'grade' is recorded in steps of 1, from 3 to 9" in note for note in results["notes"])
    assert "log probability of step" in (graded / "run" / "report.html").read_text()
    assert "recorded in steps of 1, from 3 to 9" in shell.said("info", graded / "run")
    assert shell.told("info", graded / "run")["target"]["steps"] == {"size": 1, "first": 3, "last": 9}
    assert "log probability of step" in shell.said("evaluate", graded / "run", graded / "wines.csv")


@pytest.mark.parametrize("stream", [False, True])
def test_levels_are_columns_that_the_score_can_be_computed_from(graded, tmp_path, stream, shell) -> None:
    frame = pd.read_csv(graded / "wines.csv")
    table = tmp_path / ("wines.parquet" if stream else "wines.csv")
    (frame.to_parquet if stream else frame.to_csv)(table, index=False)
    flags = ["--levels", "--stream"] if stream else ["--levels"]
    shell.said("predict", graded / "run", table, *flags, "--out", tmp_path / "p.csv")
    found = pd.read_csv(tmp_path / "p.csv")
    names = [f"p({level})" for level in range(3, 10)]
    assert [name for name in found if name.startswith("p(")] == names
    assert ((found[names] >= 0) & (found[names] <= 1)).all().all()
    assert (found[names].sum(axis=1) <= 1 + 1e-5).all()
    mine = np.log([row[f"p({grade:.0f})"] for grade, (_, row) in zip(frame["grade"], found.iterrows(), strict=True)])
    scores = shell.told("evaluate", graded / "run", graded / "wines.csv")["scores"]
    assert scores["log probability of step"] == pytest.approx(mine.mean(), rel=1e-3)


def test_to_exceed_a_value_is_to_reach_a_level_above_it(graded) -> None:
    model, frame = load_table_model(graded / "run"), read_table(graded / "wines.csv").frame
    found = predict_frame(model, frame, PredictionSettings(levels=True, at=(4, 6, 6.9, 9))).frame
    for value in (4, 6):
        above = found[[f"p({level})" for level in range(value + 1, 10)]].sum(axis=1) + found["p(>9)"]
        np.testing.assert_allclose(found[f"p(>{value})"], above, atol=1e-5)
    np.testing.assert_array_equal(found["p(>6)"], found["p(>6.9)"])


def test_other_targets_have_no_levels(place, tmp_path, shell) -> None:
    for folder, words in (("run", "'price' is not: leave it away"), ("classes", "of classes are always written")):
        table = str(place / "houses.csv")
        assert words in shell.refused("predict", place / folder, table, "--levels", "--out", tmp_path / "p.csv")
        assert not (tmp_path / "p.csv").exists()


def test_many_levels_are_refused(graded, tmp_path) -> None:
    description = json.loads((graded / "run" / "model.json").read_text())
    description["schema"]["target"]["last"] = 500.0
    (tmp_path / "model.json").write_text(json.dumps(description | {"sha256": checksum_of(description)}))
    (tmp_path / "model.safetensors").write_bytes((graded / "run" / "model.safetensors").read_bytes())
    model, frame = load_table_model(tmp_path), read_table(graded / "wines.csv").frame
    with pytest.raises(ValueError, match="writes at most 100 columns, and 'grade' has 498 levels: leave it away"):
        predict_frame(model, frame, PredictionSettings(levels=True))
