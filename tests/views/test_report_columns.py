"""What a page says of single columns: worth, residuals, groups, and where to cut."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gumdrop.views import plots

from builders.pages import render, told, undrawn, words_of
from builders.results import classification_results, regression_results, with_columns


def test_a_page_without_columns_does_not_speak_of_them():
    assert "Column by column" not in undrawn(regression_results())


def test_columns_stand_with_what_they_are_worth_and_a_figure_of_residuals():
    page = render(with_columns(regression_results()))
    words = words_of(page)
    assert "age is worth most: with the cell of another row in its place the mean test row is predicted 0.100" in words
    assert "permutation importance; 88 rows, 5 times each" in words
    assert "+0.400 ± 0.099" in words
    assert page.count('aria-label="Residuals against') == 3
    assert page.count('aria-label="Predictions against') == 2
    assert "<title>40.00: 130.0 on average, ±\xa08.000</title>" in page  # two standard deviations
    assert re.findall(r"<title>(\S*): 0\.\S* on average", page) == ["one", "(missing)"]
    test = regression_results()["test"]
    observed, mean, *parts = (test[name][1] for name in ("observed", "mean", "epistemic_std", "aleatoric_std"))
    shown = re.search(r"<title>row 10: 40\.00, (\S+) SD", page)[1].replace("−", "-")
    assert float(shown) == pytest.approx((observed - mean) / np.hypot(*parts), rel=0.05)  # above 0: more than predicted
    assert "(missing)" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_each_point_of_a_residual_tells_its_own_row_whatever_the_order_of_the_cells():
    results = with_columns(regression_results())
    test, columns = results["test"], results["columns"]
    shuffled = np.random.default_rng(0).permutation(len(columns["cell_rows"]))[1:]
    columns["cell_rows"] = [columns["cell_rows"][i] for i in shuffled]
    columns["cells"] = [{**columns["cells"][0], "numbers": [columns["cells"][0]["numbers"][i] for i in shuffled]}]
    (figure,) = re.findall(r'aria-label="Residuals against.*?</svg>', render(results), flags=re.DOTALL)
    tips = re.findall(r"<title>row (\d+): (\S+), (\S+) SD", figure.replace("−", "-"))
    assert len(tips) >= len(shuffled) - 1  # one cell is missing
    for number, cell, residual in tips:
        i = test["row"].index(int(number))
        spread = np.hypot(test["epistemic_std"][i], test["aleatoric_std"][i])
        assert float(cell) == 30 + int(number) % 50
        assert float(residual) == pytest.approx((test["observed"][i] - test["mean"][i]) / spread, rel=0.05)


def test_cells_of_the_training_rows_stand_beside_the_worth_of_a_column_and_the_thirteenth_is_folded():
    results = with_columns(regression_results())
    many = results["columns"]["importance"]
    many += [many[-1] | {"name": f"more {k}"} for k in range(5)]
    results["columns"]["spreads"] = [
        {"name": "age", "kind": "number", "labels": ["-3", "9"], "edges": [-3, 0, 1, 9], "counts": [0, 4, 5, 1, 0, 0]},
        {"name": "sex", "kind": "category", "labels": ["m", "w", ""], "counts": [30, 60, 10, 0]},
        {"name": "bmi", "kind": "number", "labels": ["0", "1"], "edges": [0, 0, 1], "counts": [0, 5, 10, 0, 5]},
        {"name": "bp", "kind": "number", "labels": ["2", "2"], "counts": [0, 0, 20]},
    ]
    page = undrawn(results)
    words = words_of(page).replace("\N{NO-BREAK SPACE}", " ")
    assert "age +0.400 ± 0.099 +0.100 ± 0.040 number, −3 to 9" in " ".join(re.sub("<[^>]*>", " ", page).split())
    assert "2 categories: m, w; 10 % missing" in words
    assert "number, 0 to 1; 25 % missing" in words
    assert "number, 2; 100 % missing" in words
    assert 'd="M0.0 20v-10.0h47.5V20zM50.0 20v-20.0h47.5V20z"' in page  # 30 of m and 60 of w
    assert words.index("3 columns that are worth less") < words.index("more 2") < words.index("more 4")


def test_what_rounding_leaves_of_a_column_is_nothing():
    results = with_columns(regression_results())
    nothing = {"mean": -4.9e-10, "se": 1.2e-9}
    results["columns"]["importance"][-1]["gains"] = {"log likelihood": nothing, "distance": nothing}
    page = undrawn(results)
    assert "e-" not in words_of(page[page.index('id="columns"') : page.index('id="calibration"')])
    assert "s6 0 ± 0 0 ± 0" in " ".join(re.sub("<[^>]*>", " ", page).split())


def test_a_group_where_intervals_fail_is_named_and_one_by_chance_is_not():
    words = told(with_columns(regression_results()))
    assert "in none of 2 groups is the share of true values in their 90 % interval other than 90 %" in words
    failing = told(with_columns(regression_results(), fails=True))
    assert "Not in 1 of 2 groups of test rows" in failing
    assert re.search(r"sex two \(55.%.of 40 rows\)", failing)
    assert "sex one" not in failing


def test_many_groups_with_a_few_by_chance_are_no_failure():
    results = with_columns(regression_results())
    group = results["columns"]["groups"][0]
    results["columns"]["groups"] = [group | {"words": f"{i}", "held": 40 if i < 2 else 46} for i in range(60)]
    assert "in none of 60 groups" in told(results)
    results["columns"]["groups"] = [group | {"words": f"{i}", "held": 20} for i in range(14)]
    assert "Not in 14 of 14 groups" in told(results)
    assert "(40 % of 50 rows) and 2 more, which results.json has" in told(results)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_class_that_is_looked_for_is_named_with_its_thresholds(classes):
    results = with_columns(classification_results(classes=classes))
    thresholds = [{"probability": 0.5, "flagged": 0, "found": 0}]
    thresholds += [{"probability": 0.31, "flagged": 20, "found": 12, "suggested": True}]
    results["ranking"] = {"class": "Adelie", "auroc": 0.8, "rows": 30, "other_rows": 90, "average_precision": 0.6}
    results["ranking"] |= {"thresholds": thresholds if classes == 2 else []}
    words = told(results)
    assert ("“Adelie” is what is looked for here (--positive), 25 % of the test rows" in words) == (classes == 2)
    assert "The average precision is 60 % (chance 25 %)" in words
    assert ("0.3100 or more (suggested)2060 %39 %" in words) == (classes == 2)
    assert "right in 10.0 fewer rows of a hundred" in words


def test_the_section_fits_on_a_phone(browser, tmp_path):
    (tmp_path / "page.html").write_text(render(with_columns(regression_results())), encoding="utf-8")
    for width in (390, 1280):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto((tmp_path / "page.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        sizes = page.evaluate("[...document.querySelectorAll('.multiples svg')].map(s => s.clientWidth)")
        assert min(sizes) > 240
        assert max(sizes) < 400
        page.close()


def test_rows_of_the_same_value_stand_beside_each_other_where_there_are_few_values():
    values = np.repeat([3.0, 4.0, 5.5], 20)
    shifts = plots.set_apart(values)
    assert len(np.unique(values + shifts)) == 60
    assert 0.25 < np.abs(shifts).max() <= 0.3  # of a smallest step of 1
    assert not plots.set_apart(np.arange(60.0)).any()
    assert not plots.set_apart(np.ones(60)).any()
    results = regression_results(100)
    results["test"]["observed"] = [float(round(value / 50) * 50) for value in results["test"]["observed"]]
    assert "Rows of the same true value stand beside each other." in undrawn(results)
    assert "stand beside each other." not in undrawn(regression_results())
