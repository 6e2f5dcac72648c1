"""Figures: the numbers that are drawn, the axes that come back, and nothing left behind."""

from __future__ import annotations

import io
import itertools
import math
import sys
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from gumdrop.machine.picking import evenly
from gumdrop.views import plots
from gumdrop.views.plots.style import POINTS

ROWS = np.arange(12.0)
EPOCHS = [1, 2, 3]

FIGURES: dict[str, Callable[..., Axes]] = {
    "predicted": lambda **k: plots.predicted_against_observed(ROWS, ROWS + 1, ROWS - 1, ROWS + 3, name="y", **k),
    "calibration": lambda **k: plots.calibration([0.1, 0.5, 0.9], [0.2, 0.4, 0.9], rows=40, **k),
    "reliability": lambda **k: plots.reliability([0.6, np.nan, 0.9], [0.5, np.nan, 1.0], [3, 0, 9], **k),
    "by group": lambda **k: plots.error_by_uncertainty(ROWS, ROWS, expected=ROWS + 1, **k),
    "effect": lambda **k: plots.effect_of_number(ROWS, ROWS, ROWS / 9, name="x", label="y", **k),
    "of classes": lambda **k: plots.effect_of_category(["", "$b$"], [0.1, 0.2], [0.1, 0], name="x", label="y", **k),
    "finding": lambda **k: plots.precision_recall([1, 0.5, 0], [0.5, 1, 1], chance=0.5, cut=(0.5, 1.0), **k),
    "rates": lambda **k: plots.rates_over_training(EPOCHS, {"_in": [0.1, 0.2, 0.3], "$b$": [0.1] * 3}, **k),
    "training": lambda **k: plots.training_curve(EPOCHS, [3, 2, 1], kl=[0, 0, 1], validation_nll=[np.nan, 2, 1], **k),
    "distribution": lambda **k: plots.distribution(ROWS, name="y", **k),
    "frequencies": lambda **k: plots.frequencies(["a", "$b$"], [3, 9], **k),
    "shares": lambda **k: plots.shares_by_bin(["up to 3", "$b$"], [0.3, 0.7], [0.0, 1.0], column="$c$", **k),
    "intervals": lambda **k: plots.sorted_intervals(ROWS, ROWS - 1, ROWS + 1, name="y", **k),
    "parts": lambda **k: plots.uncertainty_parts(ROWS, ROWS + 1, label="SD", **k),
    "residuals": lambda **k: plots.residuals_by_number(ROWS, ROWS, name="x", **k),
    "of categories": lambda **k: plots.residuals_by_category(["a", "$b$"], [0.1, 0.2], name="x", **k),
    "lasting": lambda **k: plots.survival_curves(ROWS, {"$a$": ROWS / 12}, ROWS / 12, ROWS / 13, name="y", **k),
    "times": lambda **k: plots.survival_calibration([("$3", [0.1, 0.5], [0.2, 0.4])], **k),
    "confusion": lambda **k: plots.confusion(["a", "b", "c"], ["a", "a", "c"], ["a", "b"], **k),
}


@pytest.mark.parametrize("name", FIGURES)
def test_draws_on_the_axes_it_is_given_or_on_a_fresh_figure(name: str) -> None:
    given = Figure().add_subplot()
    assert FIGURES[name](ax=given) is given
    fresh = FIGURES[name]()
    assert fresh.get_figure() is not given.get_figure()
    fresh.get_figure().savefig(io.BytesIO(), format="svg")
    assert fresh.get_xlabel()
    assert fresh.get_ylabel()


@pytest.mark.parametrize("name", FIGURES)
def test_legends_are_as_large_as_other_words_and_show_names_as_they_are(name: str) -> None:
    legend = FIGURES[name]().get_legend()
    for text in legend.get_texts() if legend else ():
        assert (text.get_size(), text.get_parse_math()) == (plots.SIZE, False)
        assert to_rgba(text.get_color()) == to_rgba(plots.INK)


def test_no_figure_is_left_in_pyplot() -> None:
    for draw in FIGURES.values():
        draw()
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


@pytest.mark.parametrize(("count", "limit"), [(0, 5), (1, 5), (5, 5), (7, 3), (5000, 300)])
def test_evenly_keeps_the_ends_and_the_limit(count: int, limit: int) -> None:
    kept = evenly(count, limit)
    assert kept.size == min(count, limit)
    assert count == 0 or (kept[0] == 0 and (limit == 1 or kept[-1] == count - 1))
    assert np.all(np.diff(kept) > 0)


def test_rows_outside_their_interval_are_told_apart() -> None:
    ax = plots.predicted_against_observed([1.0, 5.0, 9.0], [1.5, 5.0, 4.0], [0.0, 4.0, 3.0], [2.0, 6.0, 5.0])
    points = {c.get_gid(): c.get_offsets().tolist() for c in ax.collections if c.get_gid()}
    assert points == {"inside": [[1.0, 1.5], [5.0, 5.0]], "outside": [[9.0, 4.0]]}


def test_many_rows_are_thinned() -> None:
    many = np.arange(10_000.0)
    ax = plots.predicted_against_observed(many, many, many - 1, many + 1)
    assert sum(len(c.get_offsets()) for c in ax.collections if c.get_gid()) == POINTS


def test_grouped_error_of_a_worked_example() -> None:
    uncertainty = np.arange(20.0)[::-1]
    error = np.repeat([5.0, 4.0, 3.0, 2.0, -1.0], 4)
    np.testing.assert_allclose(plots.grouped_error(uncertainty, error), [1, 2, 3, 4, 5])
    np.testing.assert_allclose(plots.grouped_error(uncertainty, error, summary="mean"), [-1, 2, 3, 4, 5])
    np.testing.assert_allclose(plots.grouped_error([1, 2], [3, 4]), [3, 4])
    np.testing.assert_allclose(plots.grouped_error([7], [3]), [3])


def test_error_after_rejection_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    doubt, error = rng.permutation(30).astype(float), rng.normal(size=30)
    share, left = plots.error_after_rejection(doubt, error, "rms")
    order = np.argsort(doubt)
    for s, e in zip(share, left, strict=True):
        kept = order[: round(30 * (1 - s))]
        assert e == pytest.approx(np.sqrt(np.mean(error[kept] ** 2)))
    assert share[0] == 0
    assert share[-1] == pytest.approx(0.9)


def test_bars_and_marks_show_the_grouped_errors() -> None:
    ax = plots.error_by_uncertainty(ROWS, ROWS, expected=2 * ROWS)
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, plots.grouped_error(ROWS, ROWS))
    marks = [segment[0, 1] for segment in ax.collections[0].get_segments()]
    np.testing.assert_allclose(marks, 2 * np.asarray(heights))


def test_empty_bins_are_not_drawn() -> None:
    ax = FIGURES["reliability"]()
    assert len(ax.collections[-1].get_offsets()) == 2


def test_confusion_counts_and_adds_unlisted_classes() -> None:
    ax = plots.confusion(["a", "b", "c", "b"], ["a", "a", "c", "a"], ["a", "b"])
    found = {text.get_position(): text.get_text() for text in ax.texts}
    assert found == {(0.5, 0.5): "1", (0.5, 1.5): "2", (2.5, 2.5): "1"}
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]


def test_many_classes_have_no_text_in_the_cells_and_few_labels() -> None:
    names = [f"class number {i}" for i in range(40)]
    ax = plots.confusion(names, names, names)
    assert not ax.texts
    assert len(ax.get_xticklabels()) == 15
    assert max(len(label.get_text()) for label in ax.get_xticklabels()) <= 14


@pytest.mark.parametrize("count", [0, 1, 6, 7, 20])
def test_each_site_has_its_own_colour(count: int) -> None:
    assert len(set(plots.site_colours(count))) == count


def test_names_from_a_table_are_drawn_as_they_are() -> None:
    ax = plots.predicted_against_observed([1, 2], [1, 2], [0, 1], [2, 3], name="cost in $ and $\x00")
    assert ax.get_xlabel() == "observed cost in $ and $"
    ax.get_figure().savefig(io.BytesIO(), format="svg")
    legend = FIGURES["rates"]().get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["in", "$b$"]


def test_rates_are_drawn_from_0_on() -> None:
    assert plots.rates_over_training(EPOCHS, {"in": [0.31, 0.32, 0.33]}).get_ylim()[0] == 0


def test_one_epoch_is_a_point_and_a_steep_start_leaves_the_frame() -> None:
    assert plots.training_curve([1], [2.0]).lines[0].get_marker() == "o"
    falling = np.r_[1e6, np.linspace(3, 1, 99)]
    assert plots.training_curve(np.arange(100), falling).get_ylim()[1] < 10


@pytest.mark.parametrize(("size", "middle"), [(1, 0), (4e5, 6e5), (1e9, 5e8), (50, 1.6e9), (1e-6, 0)])
def test_labels_of_axes_are_plain_and_do_not_overlap(size: float, middle: float) -> None:
    values = middle + size * np.linspace(-1, 1, 40)
    ax = plots.predicted_against_observed(values, values, values - size / 5, values + size / 5)
    _check_labels(ax, plain=size > 1e-3)


def test_names_of_classes_do_not_overlap() -> None:
    for names in (["Adelie penguin", "Gentoo penguin"], ["low", "medium", "high", "very high"], ["word" * 3] * 1):
        _check_labels(plots.confusion(names, names, names))


def _check_labels(ax: Axes, *, plain: bool = True) -> None:
    ax.figure.canvas.draw()
    labels = [label for label in ax.get_xticklabels() if label.get_text()]
    low, high = ax.get_xlim()
    boxes = [t.get_window_extent() for t in labels if low <= (t.get_position()[0]) <= high]
    assert all(left.x1 + 2 < right.x0 for left, right in itertools.pairwise(boxes))
    texts = [t.get_text() for axis in (ax.xaxis, ax.yaxis) for t in axis.get_ticklabels()]
    assert not plain or not any("e+" in text or "e-" in text for text in texts)
    assert not any(axis.get_offset_text().get_text() for axis in (ax.xaxis, ax.yaxis))


def test_rows_that_tie_count_as_their_mean() -> None:
    error = np.array([1.0] * 40 + [0.0] * 60)
    np.testing.assert_allclose(plots.grouped_error(np.ones(100), error, summary="mean"), [0.4] * 5)
    np.testing.assert_allclose(plots.error_after_rejection(np.ones(100), error, "rms")[1], math.sqrt(0.4))


def test_of_many_classes_the_rest_share_a_bar() -> None:
    ax = plots.frequencies([f"class {i}" for i in range(20)], list(range(20)), most=5)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["class 19", "class 18", "class 17", "class 16", "16 others"]
    assert [bar.get_width() for bar in ax.patches] == [19, 18, 17, 16, sum(range(16))]


def test_parts_of_the_uncertainty_are_stacked_from_the_surest_row_on() -> None:
    ax = plots.uncertainty_parts([1.0, 0.1], [2.0, 0.2], label="SD")
    noise, lacking = (collection.get_paths()[0].vertices[:, 1] for collection in ax.collections)
    assert (noise.max(), lacking.max()) == (2.0, 3.0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["aleatoric", "epistemic"]
