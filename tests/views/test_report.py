"""The page that a fit leaves: whole, self-contained, readable by a stranger, and clear about bad input."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from gumdrop.tables import TableError
from gumdrop.tables.odd_numbers import far_off
from gumdrop.tables.results import FitResults
from gumdrop.views import html
from gumdrop.views.report import rows, write_report

from builders.browser import views
from builders.pages import render, told, undrawn, words_of
from builders.results import classification_results, regression_results


def _test_rows(results: dict[str, Any]) -> rows.TestRows:
    return rows.TestRows(FitResults.from_json(results))


def _folder(tmp_path: Path, results: dict[str, Any]) -> Path:
    (tmp_path / "results.json").write_text(json.dumps(results), encoding="utf-8")
    return tmp_path


CASES = {
    "regression": regression_results,
    "classification": classification_results,
    "five rows, one epoch, one layer": lambda: regression_results(5, epochs=1, layers=1),
    "five rows in two classes": lambda: classification_results(5, classes=2, epochs=1, layers=1),
    "one row": lambda: regression_results(1, epochs=2),
    "5000 rows, 20 layers": lambda: regression_results(5000, layers=20),
    "4000 rows, 30 classes": lambda: classification_results(4000, classes=30, layers=20),
    "200 classes": lambda: classification_results(3000, classes=200),
}


@pytest.mark.parametrize("case", CASES)
def test_every_size_of_result_gives_a_small_page_that_needs_nothing(case: str) -> None:
    page = render(CASES[case]())
    assert len(page) < 1_500_000
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)
    assert not re.search(r"https?:|@import|<script|url\((?!#)", page)
    assert not re.search(r"\b(nan|inf|None|Undefined)\b", words_of(page))
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', page)) <= set(ids)


def test_each_figure_has_a_label_and_a_caption_and_each_drawn_row_its_numbers() -> None:
    results = regression_results()
    page = render(results)
    assert page == render(regression_results()), "the same results give the same page"
    figures = re.findall(r"<figure.*?</figure>", page, flags=re.DOTALL)
    assert len(figures) == 7
    drawn = "".join(figure.partition("</svg>")[0] for figure in figures)
    assert "currentColor" in drawn
    assert "var(--c1)" in drawn
    assert not re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", drawn)
    with_picture = [figure for figure in figures if "<svg" in figure]
    assert len(with_picture) == 5
    assert all('role="img" aria-label="' in figure and "What good looks like." in figure for figure in with_picture)
    assert page.count("<title>row ") == results["table"]["test_rows"]
    assert f"<title>row {results['test']['row'][7]}: observed" in page


def test_text_from_the_table_is_escaped_everywhere() -> None:
    evil = '<b>&"x"</b> $a$ \u00e9\u6f22'
    for results in (regression_results(), classification_results()):
        results["target"]["name"] = evil
        results["table"] |= {"name": evil, "features": [evil] * 3}
        results["unsure"]["columns"] = [evil] * len(results["unsure"]["columns"])
        results["unsure"]["rows"][0]["values"][0] = evil
        results["rates"][0]["label"] = results["scores"][0]["name"] = evil
        results["notes"], results["settings"]["odd"] = [evil], evil
        results["scores"][0]["values"][evil] = 1.0
        if results["task"] == "classification":
            results["target"]["classes"][0] = evil
            for name in ("observed", "predicted"):
                results["test"][name] = [evil if v == "Adelie" else v for v in results["test"][name]]
        page = render(results, folder=evil)
        assert "<b>&" not in page
        assert "&lt;b&gt;&amp;" in page


def test_a_folder_and_its_page(tmp_path: Path) -> None:
    folder = _folder(tmp_path, regression_results())
    path = write_report(str(folder))
    assert path == folder / "report.html"
    assert write_report(folder) == path
    assert sorted(p.name for p in folder.iterdir()) == ["report.html", "results.json"]
    assert f"gumdrop predict {tmp_path.name} NEW.csv" in words_of(path.read_text(encoding="utf-8"))
    assert str(tmp_path) not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "holds no results.json: run `gumdrop fit"),
        ('{"format": 1, "task"', "cannot be read"),
        ("\x00\x01", "cannot be read"),
        ("[1, 2]", "is damaged: it must be an object with a format, got list"),
        ('{"format": 2}', "format 2, this gumdrop reads format 1: update gumdrop, or run"),
        ('{"format": 1, "task": "regression"}', "lacks table, target, settings"),
    ],
)
def test_bad_folders_are_explained(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "results.json").write_text(content, encoding="utf-8")
    with pytest.raises(TableError, match=re.escape(message)):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()
    with pytest.raises(TableError, match="There is no folder"):
        write_report(tmp_path / "absent")


@pytest.mark.parametrize("part", ["test", "scores", "rates", "calibration", "history"])
def test_a_part_of_the_wrong_shape_is_explained(part: str) -> None:
    with pytest.raises(TableError, match=f"damaged: `{part}` must be"):
        render(regression_results() | {part: 5})


def test_optional_parts_may_be_absent_and_numbers_null() -> None:
    results = regression_results()
    for part in ("environment", "score_notes", "notes", "seconds", "gumdrop", "unsure"):
        del results[part]
    for epoch in results["history"]:
        epoch["validation_nll"] = None
    results["test"]["mean"][3] = None
    text = told(results)
    assert "overfitting cannot be seen here" in text
    assert "On the 87 rows" in text


def test_the_members_and_what_they_were_watched_on_are_told() -> None:
    text = told(regression_results())
    assert "The model is 5 small networks" in text
    assert "Each network learned without 29 or 30 of the 352 training rows, different ones for each; its errors" in text
    assert "below it their range" in text
    assert "these chose the epoch from which it was kept" in told(classification_results())
    alone = regression_results()
    alone["settings"]["num_members"] = 1
    alone["table"]["watched_rows"] = [30]
    text = told(alone)
    assert "The model is asked 100 times, each time" in text
    assert "The network learned without 30 of the 352 training rows; its errors" in text
    assert "their range" not in text


GONE = "No dropout is left: every learned rate has gone to 0."
LATER = {"rows": 440, "features": ["bmi"], "train_rows": 352, "watched_rows": [30], "test_rows": 88, "name": "a.csv"}
SCORES = regression_results()["scores"]
SAYS: dict[str, tuple[dict[str, Any], str]] = {
    "stopped": ({"stopped": {"done": 7, "planned": 20}}, "stopped by hand after 7 of 20 epochs"),
    "stopped later": ({"stopped": {"done": 20, "planned": 20}}, "comparison with fixed and with no dropout was stopp"),
    "settings that nobody wrote down": ({"settings": {}}, "asked many times"),
    "no other model": ({"scores": SCORES[:1]}, "There is no other model to compare with"),
    "no comparison": (
        {"scores": [SCORES[0], SCORES[-1] | {"null_model": True}], "settings": {"compare": False}},
        "No other model was trained to compare it with (--no-compare)",
    ),
    "rates at 0": ({"rates_note": GONE}, GONE),
    "one thread": ({"environment": {"hardware": "x86_64 CPU, 1 threads"}}, "x86_64 CPU, 1 thread gumdrop"),
    "split": ({"table": LATER | {"split": "those of later.csv"}}, "test rows, those of later.csv"),
    "encoded": ({"table": LATER | {"encoded_features": 17}}, "encoded features17"),
}
"""What is changed in the results, and the words that it makes."""


@pytest.mark.parametrize("case", SAYS)
def test_what_is_in_the_results_is_told_and_else_it_is_not(case: str) -> None:
    change, words = SAYS[case]
    assert words in told(regression_results() | change)
    assert words not in told(regression_results())


def test_headline_compares_with_the_best_other_model() -> None:
    results = regression_results()
    ours = results["scores"][0]["values"]["RMSE"]
    said = {1.5: "That beats the best", 1.01: "That is level with", 0.5: "better guesses come from"}
    for factor, words in said.items():
        for row in results["scores"][1:]:
            row["values"]["RMSE"] = factor * ours
        assert words in told(results)


def test_headline_tells_the_comparison_row_by_row() -> None:
    results = regression_results()
    results["target"]["unit"] = "points"
    names = [row["name"] for row in results["scores"][1:]]
    for mean, words in ((3.0, "3.00 points nearer to the true value"), (-3.0, "3.00 points farther from")):
        gains = {"distance": {"mean": mean, "se": 0.5}, "log likelihood": {"mean": 0.1, "se": 0.2}}
        results["paired"] = [{"name": name, "gains": gains} for name in names]
        text = told(results)
        assert words in text
        assert "± 0.99 (95 % interval)" in text
        assert ("That beats the best" if mean > 0 else "p = 0.1, has the larger error") in text
    results = classification_results()
    gains = {"right": {"mean": 0.02, "se": 0.02}, "log likelihood": {"mean": 0.3, "se": 0.1}}
    results["paired"] = [{"name": row["name"], "gains": gains} for row in results["scores"][1:]]
    assert "this model is right for 2.0 more rows in a hundred, ± 4.0 (95 % interval)" in told(results)
    assert "That is level with" in told(results)
    gains["right"] |= {"mean": 0.0}
    assert "row by row, this model is right just as often." in told(results)
    gains["right"] |= {"se": 0.0}
    assert "just as often, and on the same rows." in told(results)


def test_coverage_is_told_with_its_interval() -> None:
    results = regression_results(40)
    test = results["test"]
    test["observed"] = test["mean"]
    page = told(results)
    assert "The intervals hold too many, and not by chance" in page
    assert "the true share is between 91 % and 100 %" in page
    test["observed"][:4] = [value + 1e4 for value in test["mean"][:4]]
    assert "36 of 40 true values (90.0 %)" in told(results)
    assert "may be anything from 77 % to 96 %" in told(results)


def test_points_of_every_figure_tell_their_numbers_where_they_are_drawn() -> None:
    for results in (regression_results(), classification_results()):
        figures = re.findall(r"<figure.*?</figure>", render(results), flags=re.DOTALL)
        for figure in (each for each in figures if "<svg" in each):
            assert "<title>" in figure
            _, _, width, height = map(float, re.findall(r'viewBox="([^"]*)"', figure)[0].split())
            for x, y in re.findall(r'<circle cx="([^"]*)" cy="([^"]*)"', figure):
                assert 0 <= float(x) <= width
                assert 0 <= float(y) <= height


def test_calibration_verdict_follows_the_numbers() -> None:
    results = regression_results()
    expected = np.asarray(results["calibration"]["expected"])
    for observed, words in (
        (expected, "Yes: the intervals hold"),
        (expected**2, "too narrow"),
        (np.sqrt(expected), "wider than they need"),
        (np.where(expected < 0.5, expected * 0.2, 1 - 0.2 * (1 - expected)), "Partly:"),
    ):
        results["calibration"]["observed"] = observed.tolist()
        assert words in told(results)


def test_a_large_gap_on_few_rows_is_not_called_trustworthy() -> None:
    results = classification_results(24)
    for observed, words in ((0.7, "Cannot tell: 24 rows"), (0.99, "It is too modest"), (0.1, "Not quite")):
        results["calibration"] = {"expected": [0.55, 0.56], "observed": [observed, observed], "count": [12, 12]}
        assert words in told(results)


def test_doubt_verdict_follows_the_numbers() -> None:
    results = regression_results(200)
    std, mean = np.hypot(*(results["test"][f"{n}_std"] for n in ("epistemic", "aleatoric"))), results["test"]["mean"]
    noise = np.random.default_rng(3).uniform(0, 1, 200)
    for error, words in ((std, "Yes: it errs more"), (100 - std / 2, "No: it is"), (noise, "This test cannot show it")):
        results["test"]["observed"] = (np.asarray(mean) + error).tolist()
        assert words in told(results)
    assert "With only 5 test rows" in told(regression_results(5))


def test_auroc_of_a_known_order() -> None:
    results = classification_results(20, classes=2)
    observed, predicted = ["Adelie"] * 20, ["Adelie"] * 15 + ["Chinstrap"] * 5
    entropy = np.linspace(0.1, 0.6, 20).tolist()
    results["test"] |= {"predictive_entropy": entropy, "observed": observed, "predicted": predicted}
    text = told(results)
    assert "less sure than a right one in 100 % of all such pairs" in text
    assert re.search(r"most frequent mistake is “\w+” taken for “\w+”", text)
    results["test"]["predicted"] = observed
    assert "Not one test row is predicted wrong" in told(results)


def _held(results: dict[str, Any], share: float) -> dict[str, Any]:
    """The same results where this share of the intervals hold, and all others say what they should."""
    test, rows = results["test"], len(results["test"]["row"])
    std = np.hypot(test["epistemic_std"], test["aleatoric_std"])
    off = np.where(np.arange(rows) < round(share * rows), 0.5, 2.0) * std
    test["observed"] = (np.asarray(test["mean"]) + off).tolist()
    results["calibration"]["observed"] = results["calibration"]["expected"]
    return results


def test_differences_that_change_no_decision_are_no_reproach() -> None:
    for share, verdict, why in (
        (0.9150, "Yes: the intervals hold", "more than chance explains with so many rows, and too small to matter"),
        (0.9500, "wider than they need to be", "hold too many, and not by chance"),
        (0.8000, "too narrow", "hold too few, and not by chance"),
    ):
        text = told(_held(regression_results(5000), share))
        assert verdict in text
        assert why in text


def test_few_rows_cannot_tell_and_rows_that_are_far_off_are_counted() -> None:
    results = _held(regression_results(20), 0.9)
    assert "Cannot tell: 20 rows are too few" in told(results)
    results = _held(regression_results(200), 0.9)
    assert "Yes: the intervals hold" in told(results)
    for place, deviations in ((3, 9), (4, 19)):
        std = math.hypot(*(results["test"][f"{part}_std"][place] for part in ("epistemic", "aleatoric")))
        results["test"]["observed"][place] = results["test"]["mean"][place] + deviations * std
    assert "2 of 200 true values lie more than 6 of its standard deviations away" in told(results)


def test_rows_that_tie_are_not_sorted_by_the_file() -> None:
    results = classification_results(100, classes=2)
    test = results["test"]
    test["predictive_entropy"] = [0.5 + 1e-9 * (i % 7) for i in range(100)]
    test["predicted"] = ["Adelie"] * 100
    test["observed"] = ["Chinstrap"] * 40 + ["Adelie"] * 60
    text = told(results)
    assert "40 % → 40 %wrong, surest → least sure rows" in text
    assert "as unsure, as the next" in told(_held(regression_results(40), 1.0) | {"test": _alike(40)})


def _alike(rows: int) -> dict[str, list[float]]:
    ends = {"lower": 3.0, "upper": 7.0, "epistemic_std": 1.0, "aleatoric_std": 1.0, "mean": 5.0}
    return {name: [value] * rows for name, value in ends.items()} | {
        "row": list(range(1, rows + 1)),
        "observed": [4.0 + i / rows for i in range(rows)],
    }


def test_error_of_groups_is_told_with_what_chance_makes_of_it() -> None:
    results = regression_results(400)
    errors = np.subtract(results["test"]["observed"], results["test"]["mean"])
    groups = [np.sqrt(np.mean(np.random.default_rng(i).choice(errors, 80, False) ** 2)) for i in range(200)]
    low, high = map(float, re.findall(r"a group lies between ([\d.]+) and ([\d.]+)", told(results))[0])
    assert 0.9 < np.mean((low < np.array(groups)) & (np.array(groups) < high)) < 0.99


def _gain(mean: float, se: float) -> dict[str, float]:
    return {"mean": mean, "se": se}


def _with_skill(results: dict[str, Any], guess: str, ours: tuple[float, float], paired: list[float]) -> None:
    """Add gains over the model without skill, the last one, and over each other model."""
    for row in results["scores"][:-1]:
        gains = (5.0, 5.0) if not row["ours"] else ours
        row |= {"null_model": False, "skill": {guess: _gain(gains[0], 1.0), "log likelihood": _gain(gains[1], 1.0)}}
    results["scores"][-1] |= {"null_model": True, "skill": None}
    results["paired"] = [
        {"name": row["name"], "gains": {guess: _gain(z, 1.0), "log likelihood": _gain(z, 1.0)}}
        for row, z in zip(results["scores"][1:], paired, strict=True)
    ]


def test_one_mark_tells_a_difference_beyond_chance_in_either_direction() -> None:
    results = regression_results()
    _with_skill(results, "distance", (3.0, 3.0), [3.0, -3.0, 0.5])
    marks = re.findall(r'<td class="(ahead|behind|)">([^<]*)</td>', undrawn(results))
    assert [mark for mark, _ in marks] == ["ahead"] * 2 + ["behind"] * 2 + [""] * 2
    assert marks[0][1].replace("\xa0", " ") == "+3.0 ± 2.0"
    _with_skill(results, "distance", (3.0, 3.0), [2.03, 3.0, 3.0])  # beyond 1.99, and both are written as 2.0
    assert 'class="">+2.0' in undrawn(results)


def test_a_linear_model_that_is_as_good_is_named() -> None:
    results = regression_results()
    results["scores"][2]["name"] = "linear model"
    for gain, how in ((0.5, "as good"), (-5.0, "better"), (5.0, "")):
        _with_skill(results, "distance", (5.0, 5.0), [9.0, gain, 9.0])
        assert (f"the linear model is {how}, and it is simpler and quicker" in told(results)) == bool(how)


def test_an_error_that_says_the_opposite_of_the_rows_is_said() -> None:
    results = regression_results()
    _with_skill(results, "distance", (5.0, 5.0), [9.0, 3.0, 9.0])
    assert "gradient-boosted trees, has the smaller error (" in told(results)  # a few of ours are far off
    results["scores"][2]["values"]["RMSE"] *= 2
    assert "That beats the best of the models beside it, gradient-boosted trees" in told(results)


def test_an_error_beyond_that_of_a_model_without_inputs_is_said() -> None:
    """A few extreme rows can make the error larger, though most guesses are nearer."""
    results = regression_results()
    _with_skill(results, "distance", (5.0, 5.0), [3.0, 3.0, 3.0])
    assert "is larger than that of" not in told(results)
    results["scores"][0]["values"]["RMSE"] = 2 * results["scores"][-1]["values"]["RMSE"]
    for row in results["scores"][1:-1]:
        row["skill"] = {"distance": _gain(0.5, 1.0), "log likelihood": _gain(0.5, 1.0)}
    text = told(results)
    assert "Its root mean square error is larger than that of the mean of the training part" in text
    assert "level with the best" not in text  # of which none knows anything
    assert "beats the best" not in text


@pytest.mark.parametrize(
    ("ours", "paired", "words"),
    [
        (
            (0.5, 1.0),
            [3.0, 3.0, 0.5],
            "In distance from the true values and in log likelihood it does not beat the mean",
        ),
        ((5.0, 5.0), [5.0, -2.1, 9.0], "On this table better guesses come from gradient-boosted trees"),
        ((5.0, 5.0), [5.0, -1.9, 9.0], "That is level with the best of the models beside it, gradient-boosted trees"),
        ((5.0, 5.0), [5.0, 1.9, 9.0], "That is level with"),
        ((5.0, 5.0), [2.1, 5.0, 9.0], "That beats the best of the models beside it, fixed dropout"),
        ((5.0, 5.0), [3.0, -3.0, 3.0], "trees (nearer to the true value and higher log likelihood)."),  # named once
    ],
)
def test_the_verdict_turns_where_the_interval_holds_0(
    ours: tuple[float, float], paired: list[float], words: str
) -> None:
    results = regression_results()
    _with_skill(results, "distance", ours, paired)
    assert words in told(results)


def test_a_model_that_is_ahead_in_log_likelihood_alone_is_named() -> None:
    results = regression_results()
    _with_skill(results, "distance", (5.0, 5.0), [5.0, 2.1, 9.0])
    results["paired"][1]["gains"]["log likelihood"] = _gain(-0.6, 0.1)
    text = told(results)
    assert "In log likelihood gradient-boosted trees is ahead of this model, by 0.60 ± 0.20 nats per row." in text
    assert "by more than chance: gradient-boosted trees (higher log likelihood)." in text


def test_classes_that_are_nearly_all_one_are_said() -> None:
    results = classification_results(200, classes=2)
    test = results["test"]
    test["predicted"] = ["Adelie"] * 200
    test["observed"] = ["Chinstrap"] * 12 + ["Adelie"] * 188
    _with_skill(results, "right", (0.0, 0.5), [1.0, 1.0, 0.0])
    text = told(results)
    assert "does not beat most frequent class, which do not look at the columns, by more than chance: always" in text
    assert "always saying “Adelie” would be right for 94.0 %" in text
    assert "Of the 12 rows that are “Chinstrap” it finds 0." in text
    assert "level with" not in text
    _with_skill(results, "right", (0.0, 5.0), [1.0, 1.0, 0.0])
    text = told(results)
    assert "would be right for 94.0 %: only its probabilities are better than that" in text


def test_few_rows_have_the_wide_interval_of_students_t() -> None:
    """Of 4 rows a mean must be 3.18 standard errors from 0, of 88 rows 1.99."""
    for count, z, words in ((4, 3.1, "level with"), (4, 3.3, "beats the best"), (88, 2.1, "beats the best")):
        results = regression_results(count)
        _with_skill(results, "distance", (9.0, 9.0), [z, 9.0, 9.0])
        assert words in told(results)
    results = classification_results(5, classes=2)
    _with_skill(results, "right", (9.0, 9.0), [9.0, 9.0, 9.0])
    results["paired"][0]["gains"]["right"] = _gain(1.0, 0.0)  # in all of 5 rows: p = 2 / 2^5
    assert "level with the best of the models beside it, fixed dropout" in told(results)


def test_the_interval_of_the_error_is_that_of_the_rows() -> None:
    test = _test_rows(classification_results(40))
    spread = math.sqrt(test.error.mean() * (1 - test.error.mean()) / 39)
    assert test.error_margin() == pytest.approx(2.0227 * spread, rel=1e-4)
    text = told(regression_results(1) | {"paired": []})
    assert "error (RMSE)which one row cannot tell from chance" in text


def test_ranking_better_than_chance_is_said_of_a_model_that_does_not_beat_frequencies() -> None:
    results = classification_results(200, classes=2)
    _with_skill(results, "right", (0.0, 0.0), [1.0, 1.0, 0.0])
    for auroc, words in (
        (0.75, "But it ranks rows better than chance: its probability of “Yes” is higher for a row of that class"),
        (0.55, "Nor does it rank rows better than chance, as far as 200 rows can tell"),
        (0.2, "And it ranks rows worse than chance"),
    ):
        results["ranking"] = {"class": "Yes", "auroc": auroc, "rows": 20, "other_rows": 180}
        text = told(results)
        assert "does not beat most frequent class" in text
        assert words in text
        assert f"{100 * auroc:.0f} % of all such pairs (AUROC; 95 % interval" in text


def test_the_interval_of_the_auroc_leaves_out_a_half_where_the_rank_test_does() -> None:
    m, n = 12, 30
    least = 0.5 + NormalDist().inv_cdf(0.975) * math.sqrt((m + n + 1) / (12 * m * n))
    assert rows.auroc_interval(least, m, n)[0] == pytest.approx(0.5)
    low, high = rows.auroc_interval(1.0, m, n)
    assert (0.7 < low < 1, high) == (True, 1.0)
    assert rows.auroc_interval(0.0, m, n) == pytest.approx((0.0, 1 - low), abs=1e-6)


def test_a_measured_share_has_one_rounding_on_the_page() -> None:
    results = classification_results(120)
    right = np.equal(results["test"]["observed"], results["test"]["predicted"]).mean()
    _with_skill(results, "right", (5.0, 5.0), [-1.0, 1.0, 1.0])
    results["scores"][0]["values"]["accuracy"] = float(right)
    text = told(results)
    assert text.count(f"{100 * right:.1f} %") == 3  # lede, tile, table
    assert "is larger than that of" not in text  # which is said of errors, and right answers are none
    assert f"{100 * right:.0f} %" not in text
    results = regression_results()
    results["scores"][-1]["values"]["RMSE"] = 1234.5
    off = re.findall(r"it is off by ([\d.]+)", told(results))[0]
    assert f"(this model){off}" in told(results)


@pytest.mark.parametrize(
    ("mean", "se", "text"),
    [(20.0, 7.0, "+20 ± 14"), (6.7e-5, 1.4e-3, "+0.0001 ± 0.0028"), (-1e-6, 1.4e-3, "0 ± 0.0028"), (0.0, 0.0, "0 ± 0")],
)
def test_a_difference_has_the_places_of_its_interval(mean: float, se: float, text: str) -> None:
    results = regression_results()
    _with_skill(results, "distance", (5.0, 5.0), [3.0, 3.0, 3.0])
    results["paired"][0]["gains"]["distance"] = _gain(mean, se)
    cells = re.findall(r"<td[^>]*>\s*(\S+ ± \S+)\s*</td>", undrawn(results).replace("\N{NO-BREAK SPACE}", " "))
    assert cells[0] == text


def test_the_chance_band_of_wrong_rows_is_that_of_exact_counting() -> None:
    results = classification_results(200, classes=2)
    results["test"]["predicted"] = ["Adelie"] * 200
    results["test"]["observed"] = ["Chinstrap"] * 12 + ["Adelie"] * 188
    low, high = _test_rows(results).by_chance(40)
    assert (low, high) == (0.0, 5 / 40)  # P(at most 5 of 12 in 40 of 200) = .984, at most 4: .934


def test_there_is_one_calibration_error_on_a_page() -> None:
    results = classification_results()
    given = {name: np.array(values, dtype=float) for name, values in results["calibration"].items()}
    gaps = np.nan_to_num(np.abs(given["expected"] - given["observed"])) * given["count"] / given["count"].sum()
    results["scores"][0]["values"]["calibration error"] = float(gaps.sum())
    text = told(results)
    points = 100 * gaps.sum()
    assert text.count(f"{points:.1f} points") == 1
    assert f"(on average {points:.1f} percentage points" in text
    assert f"{points:.1f} %" in text


def test_what_may_be_a_typing_error_stands_at_the_top() -> None:
    (note,) = far_off("price", np.array([*range(100), 1e9]), np.arange(1, 102))
    text = told(regression_results() | {"notes": ["a note", note]})
    assert text.index("Look at this first") < text.index("Beside other models")
    assert "'price' is 1,000,000,000 in row 101" in text.replace("&#39;", "'")
    assert "Look at this first" not in told(regression_results())


def test_prices_are_written_out() -> None:
    results = regression_results()
    for name in ("observed", "mean", "lower", "upper", "epistemic_std", "aleatoric_std"):
        results["test"][name] = (1e4 * np.asarray(results["test"][name])).tolist()
    for row in results["scores"]:
        row["values"] = {name: v if v is None or v < 1 else 1e4 * v for name, v in row["values"].items()}
    page = render(results)
    assert not re.search(r"\de\+?\d", words_of(page) + "".join(re.findall(r"<text.*?</text>", page, flags=re.DOTALL)))
    assert re.search(r">[0-9.]+ M</text>", page)
    assert re.search(r"it is off by \d{3},\d{3}", words_of(page))


def test_shares_are_rounded_once_and_half_way_up_in_either_precision() -> None:
    for share, text in {0.13477: "13", 0.0949: "9.5", 0.0996: "10", 0.9946: "99.5", 1.0: "100"}.items():
        assert html.percent(share) == f"{text}\xa0%"
    for share in (0.9125, float(np.float32(0.9125)), 0.91249998):
        assert html.tenths(share) == "91.3\xa0%"


def test_training_tale_follows_the_numbers() -> None:
    results = regression_results()
    assert "no sign of overfitting" in told(results)
    for epoch in results["history"]:
        epoch["validation_nll"] = 1 + abs(epoch["epoch"] - 100) / 100
    assert "lowest near epoch 100" in told(results)
    assert "the epochs after that overfitted. Each network was kept from the epoch" in told(results)
    results["history"][-1]["nll"] = 3.0
    assert "gave up what it had learned" in told(results)


@pytest.mark.parametrize("case", ["regression", "classification"])
def test_the_page_in_a_browser(browser, tmp_path: Path, case: str) -> None:
    results = CASES[case]()
    results["unsure"]["columns"][0] = results["rates"][0]["label"] = results["target"]["name"] = "long_name_" * 9
    for page in views(browser, write_report(_folder(tmp_path, results)).as_uri()):
        ink = page.evaluate("getComputedStyle(document.querySelector('figure text')).fill")
        assert ink == page.evaluate("getComputedStyle(document.querySelector('figure > svg')).color")
        size = """text => { const m = text.getScreenCTM();
            return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(m.a, m.b) }"""
        smallest = page.evaluate(f"Math.min(...[...document.querySelectorAll('figure svg text')].map({size}))")
        assert smallest >= 11
