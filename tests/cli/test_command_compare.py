"""`gumdrop compare`: fits side by side, and paired claims only on the same rows."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_rel

from builders.results import classification_results, regression_results
from builders.waiting import HANG


def write(folder, results):
    """Make a folder that compares like that of a fit."""
    folder.mkdir()
    (folder / "model.json").write_text("{}")
    (folder / "results.json").write_text(json.dumps(results))
    return str(folder)


def other(results, seed=5):
    """The same rows, predicted by another model."""
    rng = np.random.default_rng(seed)
    test = dict(results["test"])
    for name in ("mean", "lower", "upper"):
        test[name] = (np.array(test[name]) + (shift := rng.normal(5, 20, len(test["row"])))).tolist()
        rng = np.random.default_rng(seed)
    scores = json.loads(json.dumps(results["scores"]))
    scores[0]["values"]["RMSE"] = float(np.sqrt(np.mean((np.array(test["mean"]) - test["observed"]) ** 2)))
    assert shift.any()
    return results | {"test": test, "scores": scores}


@pytest.fixture
def runs(tmp_path):
    one = regression_results()
    one["test"]["log_likelihood"] = np.random.default_rng(1).normal(-5, 1, 88).tolist()
    two = other(one)
    two["test"] |= {"log_likelihood": (np.array(one["test"]["log_likelihood"]) - 0.5).tolist()}
    two["settings"] = one["settings"] | {"hidden": [64], "seed": 0}
    two["table"] = one["table"] | {"features": one["table"]["features"][:-1]}
    elsewhere = regression_results(seed=3)
    return [write(tmp_path / name, each) for name, each in (("one", one), ("two", two), ("else", elsewhere))]


def test_differences_are_paired_and_agree_with_a_paired_t_test(runs, shell):
    found = shell.told("compare", *runs[:2])
    (against,) = found["against"]
    assert (against["rows"], against["same"]) == (88, True)
    differences = {each["score"]: each for each in against["differences"]}
    one, two = (json.loads(Path(run, "results.json").read_text())["test"] for run in runs[:2])
    squares = [(np.array(each["mean"]) - each["observed"]) ** 2 for each in (two, one)]
    roots = [np.sqrt(each.mean()) for each in squares]
    assert differences["RMSE"]["mean"] == pytest.approx(roots[0] - roots[1])
    low, high = ttest_rel(*squares).confidence_interval()
    assert differences["RMSE"]["low"] == pytest.approx(low / sum(roots))
    assert differences["RMSE"]["high"] == pytest.approx(high / sum(roots))
    assert differences["log likelihood"]["mean"] == pytest.approx(-0.5)
    assert differences["log likelihood"]["verdict"] == "worse"
    assert differences["coverage of 90 % interval"]["verdict"] is None


def test_what_differs_is_listed_and_nothing_else(runs, shell):
    found = shell.told("compare", *runs[:2])
    assert found["settings"] == {"hidden": [[50, 50], [64]]}
    assert found["columns"] == {"s6": [True, False]}
    words = shell.said("compare", *runs[:2])
    assert "on the same 88 test rows" in words
    assert "Settings that differ" in words
    assert "hidden 50, 50 64" in words


def test_other_rows_are_refused_a_paired_claim_in_words(runs, shell):
    found = shell.told("compare", *runs)
    assert [each["same"] for each in found["against"]] == [True, False]
    assert found["against"][1]["differences"] == []
    words = shell.said("compare", *runs)
    assert "were not tested on the same rows (88 and 88 rows, 0 in both)" in words


def test_older_results_are_compared_without_likelihoods(tmp_path, shell):
    one = regression_results()
    runs = [write(tmp_path / "a", one), write(tmp_path / "b", other(one))]
    names = [each["score"] for each in shell.told("compare", *runs)["against"][0]["differences"]]
    assert names == ["RMSE", "coverage of 90 % interval"]


def test_classes_are_compared_by_right_rows(tmp_path, shell):
    one = classification_results()
    two = json.loads(json.dumps(one))
    two["test"]["predicted"] = two["test"]["observed"]
    found = shell.told("compare", write(tmp_path / "a", one), write(tmp_path / "b", two))
    wrong = np.mean([a != b for a, b in zip(one["test"]["observed"], one["test"]["predicted"], strict=True)])
    (difference,) = found["against"][0]["differences"]
    assert difference["mean"] == pytest.approx(wrong)
    assert difference["verdict"] == "better"


def test_right_in_each_of_three_rows_where_the_other_is_wrong_may_be_chance(tmp_path, shell):
    right, wrong = classification_results(), classification_results()
    for each in (right, wrong):
        each["test"] |= {name: cells[:3] for name, cells in each["test"].items() if isinstance(cells, list)}
        each["test"].pop("log_likelihood", None)
    classes = right["target"]["classes"]
    right["test"]["predicted"] = right["test"]["observed"] = classes[:1] * 3
    wrong["test"] |= {"observed": classes[:1] * 3, "predicted": classes[1:2] * 3}
    found = shell.told("compare", write(tmp_path / "a", wrong), write(tmp_path / "b", right))
    (difference,) = found["against"][0]["differences"]
    assert (difference["mean"], difference["verdict"]) == (1, "equal")
    assert difference["low"] == pytest.approx(1 - 2 * (1 - 0.025 ** (1 / 3)))


def test_two_targets_and_one_folder_twice_are_refused(tmp_path, runs, shell):
    classes = write(tmp_path / "classes", classification_results())
    assert "compare fits of one target" in shell.refused("compare", runs[0], classes)
    assert "two different folders at least" in shell.refused("compare", runs[0], runs[0])
    shell.refused("compare", runs[0])


def test_the_page_says_the_same_and_fits_on_a_phone(browser, runs, tmp_path, shell):
    place = tmp_path / "page.html"
    shell.said("compare", *runs, "--out", place)
    assert "add --overwrite" in shell.refused("compare", *runs, "--out", place)
    text = place.read_text(encoding="utf-8")
    assert "were not tested on the same rows" in text
    assert "Settings that differ" in text
    for width in (390, 1280):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(place.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        page.close()


def test_a_real_fit_leaves_the_likelihood_of_each_row(place):
    results = json.loads((place / "run" / "results.json").read_text())
    ours = results["scores"][0]["values"]["log likelihood"]
    assert np.mean(results["test"]["log_likelihood"]) == pytest.approx(ours, rel=1e-5)
    assert {each["name"] for each in results["columns"]["importance"]} == {"size", "colour", "sold"}
    assert {each["column"] for each in results["columns"]["groups"]} == {"colour"}  # quarters have too few rows


def test_comparing_waits_for_no_torch(runs):
    code = "import sys; sys.modules.update(dict.fromkeys(('torch', 'pandas', 'sklearn', 'matplotlib'))); "
    code += "from gumdrop.cli import main; sys.exit(main())"
    call = [sys.executable, "-W", "error", "-c", code, "compare", *runs]
    done = subprocess.run(call, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
