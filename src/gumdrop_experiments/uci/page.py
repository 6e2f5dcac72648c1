"""The page of `uci`."""

import re
from collections import Counter
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gumdrop.views.plots import BLUE, INK, ORANGE, PALETTE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import (
    GREY,
    Page,
    Picture,
    Table,
    cell,
    dots,
    edges_of,
    legend_below,
    legend_of,
    name_rows,
    panels_of,
)
from gumdrop_experiments.tables.page import COVERED, Cells, in_units, methods_table
from gumdrop_experiments.tables.tasks import COVERAGES
from gumdrop_experiments.uci import PUBLISHED
from gumdrop_experiments.uci.methods import METHODS
from gumdrop_experiments.uci.study import OURS, REFERENCE

CAPTIONS = {
    "uci-log-likelihood": """Test log likelihood, nats per row, higher is better: mean and standard error over
    splits. Lines: published.""",
    "uci-rmse": """Test RMSE in units of the target, lower is better: mean and standard error over splits. Lines:
    published.""",
    "uci-coverage": """Share of test rows inside their central intervals, less what it should be: 0 is calibrated;
    the band is the 88 to 92 % that was wanted of the 90 % interval. Gaps beyond 15 points stand as numbers.""",
    "uci-rates": """Learned drop probability of each layer over the splits: a dot for each split, a bar at the
    median. Layer 1 drops inputs.""",
    "uci-cost": """What a method gains over the grid search, against what it costs: rows through a network in
    training, as a ratio to the grid search. Up and left is better; what lies far below stands on the lower edge, see
    the tables.""",
}
NOTES = (
    """All networks are 2 x 50 ReLU with the same batches and passes (about 2,500 steps), except the deep ensemble,
    which stops after 40 passes as published, and the schemes of two and three passes, which have three layers.
    Inputs and targets are standardised by the training part. The default holds out a tenth of the training rows for
    each member and sees no test row; its settings were chosen on training parts (docs/method.md).""",
    """The grid search has the published rates .005, .01, .05, .1 and three noise precisions for each set, judged on
    a fifth of the training part, then trained on all of it. Its published figures come from 1 x 50 units and 4,000
    passes.""",
    "The p-value is that of a paired t-test over splits, corrected for the overlap of their training parts.",
)

LABELS = {key: method.label for key, method in METHODS.items()}
LINES: dict[str, Literal["--", ":"]] = {"published: clean grid search": "--", "published: Concrete Dropout": ":"}
MARKERS = "osD^vPX<>"
FARTHEST_GAP = 15.0


def page(results: Plain) -> Page:
    """Say on how many sets nothing to tune beats a search."""
    sets = results.values()
    drawings = {
        "uci-log-likelihood": _scores(results, "log_likelihood", 1),
        "uci-rmse": _scores(results, "rmse", 0),
        "uci-coverage": _coverage(results),
    }
    if any(part["rates"] for each in sets for part in each["parts"].values()):
        drawings["uci-rates"] = _rates(results)
    if any("cost_ratio" in summary for each in sets for summary in each["methods"].values()):
        drawings["uci-cost"] = _cost(results)
    figures = [Picture(name, CAPTIONS[name], drawing) for name, drawing in drawings.items()]
    tables = [_table(name, each) for name, each in results.items()]
    costs = [_cost_table(results)] if any(each["cost"] for each in sets) else []
    return Page("UCI regression", _lead(results), [*figures[:2], *tables, *figures[2:], *costs], NOTES)


def _lead(sets: Plain) -> str:
    if not all({OURS, REFERENCE} <= set(each["methods"]) for each in sets.values()):
        return f"{len(sets)} sets, each with its published splits."
    ours = [each["methods"][OURS] for each in sets.values()]
    better = sum(each["gain"] > 0 for each in ours)
    surely = sum(each["gain"] > 0 and (each["p_value"] or 1) < 0.05 for each in ours)
    return f"""Learned dropout with nothing to tune has a higher test log likelihood than a grid search over rate and
    noise on {better} of {len(sets)} sets, beyond what splits do by chance on {surely}."""


CELLS: Cells = {
    "RMSE": in_units("rmse", error=True),
    "log likelihood": cell("log_likelihood", error=True),
    "gain over grid (p)": lambda summary: _gain(**summary) if "gain" in summary else "",
    "CRPS": in_units("crps"),
    **COVERED,
    "row passes": lambda summary: f"{summary['cost_ratio']:.3f}" if "cost_ratio" in summary else "1",
}


def _gain(gain: float, p_value: float | None, **_: Any) -> str:
    return f"{gain:+.3f}" if p_value is None else f"{gain:+.3f} ({p_value:.2g})"


def _table(name: str, table: Plain) -> Table:
    published = []
    if name in PUBLISHED:
        grid, paper = PUBLISHED[name]
        heads = "clean grid", "Concrete Dropout", "best network seen"
        scores = grid[:2], paper[:2], ("", grid[2])
        published = [[f"published: {head}", *pair, *[""] * 6] for head, pair in zip(heads, scores, strict=True)]
    caption = f"""{name}: mean over {table["splits"]} splits, standard error in brackets; RMSE and CRPS in units of
    the target, log likelihood in nats per row, share of test rows inside the central 50, 90 and 95 % intervals, and
    rows through a network in training as a ratio to the grid search. * chosen with a view of test rows."""
    best = ("log likelihood", "log_likelihood", 1)
    return methods_table(caption, table["methods"], CELLS, labels=LABELS, best=best, published=published)


def _cost_table(sets: Plain) -> Table:
    columns = ["", *sets]
    ratios = {
        "ensemble of 5, one program / grid of 12 and refit, in turn": ("ensemble", "grid_in_turn"),
        "one member / grid of 12 and refit, in turn": ("one_member", "grid_in_turn"),
        "ensemble of 5 / grid, each as one program": ("ensemble", "grid_as_one_program"),
        "all splits in turn / as one program": ("splits_in_turn", "splits_as_one_program"),
    }
    rows = [
        [label, *(f"{each['cost'][a] / each['cost'][b]:.2f}" if each["cost"] else "" for each in sets.values())]
        for label, (a, b) in ratios.items()
    ]
    return Table("Ratios of processor time in training, one split unless it says all, one thread", columns, rows)


def _scores(sets: Plain, score: str, column: int) -> Figure:
    count = max(len(each["methods"]) for each in sets.values())
    figure, panels = panels_of(list(sets), 2, panel=(5.2, 0.32 * count + 0.9))
    for name, axes in panels.items():
        pairs = {LABELS[key]: summary[score] for key, summary in sets[name]["methods"].items()}
        edges = edges_of(list(pairs.values()), lower_is_better=score == "rmse")
        dots(axes, pairs, edges, ".3g", look=lambda label: {"color": ORANGE if label == LABELS[OURS] else BLUE})
        for style, row in zip(LINES.values(), PUBLISHED.get(name, ()), strict=False):
            number = re.match(r"-?[\d.]+", row[column])  # of a published figure such as '-2.40 (.04)'
            if number and edges[0] <= float(number[0]) <= edges[1]:
                axes.axvline(float(number[0]), color=INK, linestyle=style, linewidth=1, zorder=0)
    lines = {name: {"color": INK, "linestyle": style, "linewidth": 1} for name, style in LINES.items()}
    legend_of(figure, lines, 2)
    return figure


def _coverage(sets: Plain) -> Figure:
    count = max(len(each["methods"]) for each in sets.values())
    figure, panels = panels_of(list(sets), 2, panel=(5.2, 0.32 * count + 0.9))
    for name, axes in panels.items():
        keys = list(sets[name]["methods"])[::-1]
        shares = [[sets[name]["methods"][key][f"coverage_{level}"][0] for level in COVERAGES] for key in keys]
        gaps = 100 * np.array(shares) - COVERAGES
        axes.axvline(0, color=INK, linewidth=1, zorder=0)
        axes.axvspan(-2, 2, color=GREY, alpha=0.15, linewidth=0, zorder=0)
        for level, column, marker, colour in zip(COVERAGES, gaps.T, "sod", PALETTE[:3], strict=True):
            (inside,) = np.nonzero(np.abs(column) < FARTHEST_GAP)
            axes.scatter(column[inside], inside, marker=marker, s=26, color=colour, label=f"{level} % interval")
        for i, row in enumerate(gaps):
            if far := [gap for gap in row if abs(gap) >= FARTHEST_GAP]:
                text = ("← {}" if max(far) < 0 else "{} →").format(", ".join(f"{gap:+.0f}" for gap in far))
                look: Plain = {"xycoords": ("axes fraction", "data"), "va": "center", "ha": "right", "fontsize": 8}
                axes.annotate(text, (0.99, i), **look)
        axes.set_xlim(-1.05 * FARTHEST_GAP, 1.05 * FARTHEST_GAP)
        name_rows(axes, [LABELS[key] for key in keys])
        axes.set_xlabel("points above (+) or below (−) what it should be", fontsize=8)
    legend_below(figure, axes, 3, 8)
    return figure


def _rates(sets: Plain) -> Figure:
    figure, panels = panels_of(list(sets), 2, panel=(5.2, 2.6))
    shown = [key for key in METHODS if any(each["parts"].get(key, {}).get("rates") for each in sets.values())]
    spread = np.random.default_rng(0)
    for name, axes in panels.items():
        for j, key in enumerate(shown):
            rates = np.array(sets[name]["parts"].get(key, {}).get("rates") or np.empty((0, 0)))
            for layer in range(rates.shape[1]):
                x = layer + 1 + (j - (len(shown) - 1) / 2) * 0.8 / len(shown)
                jitter = spread.uniform(-0.25, 0.25, len(rates)) * 0.8 / len(shown)
                colour = PALETTE[(j + 1) % len(PALETTE)]
                label = LABELS[key] if layer == 0 else None
                axes.scatter(x + jitter, rates[:, layer], s=8, color=colour, alpha=0.6, linewidths=0, label=label)
                axes.hlines(np.median(rates[:, layer]), x - 0.3 / len(shown), x + 0.3 / len(shown), color=INK)
        axes.set(xlabel="layer", ylabel="drop probability p", ylim=(-0.02, 0.52))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.tick_params(labelsize=8)
    fullest = max(panels.values(), key=lambda axes: len(axes.get_legend_handles_labels()[0]))
    legend_below(figure, fullest, 2, 8, markerscale=2)
    return figure


def _cost(sets: Plain) -> Figure:
    figure, panels = panels_of(list(sets), 2, panel=(5.2, 2.6))
    keys = [key for key in METHODS if any("gain" in each["methods"].get(key, {}) for each in sets.values())]
    looks: Plain = {key: {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i]} for i, key in enumerate(keys)}
    looks |= {"gumdrop": {"color": ORANGE, "marker": "*", "markersize": 12}}
    for name, axes in panels.items():
        axes.axhline(0, color=INK, linewidth=1, zorder=0)
        axes.axvline(1, color=INK, linewidth=1, zorder=0)
        shown = {key: summary for key, summary in sets[name]["methods"].items() if "gain" in summary}
        bottom = -3 * max([0.05, *(summary["gain"] for summary in shown.values())])
        for key, summary in shown.items():
            axes.plot(summary["cost_ratio"], max(summary["gain"], bottom), linestyle="none", **looks[key])
        heights: Counter[float] = Counter()  # marks of about one cost have their numbers above each other
        for key in (key for key in shown if shown[key]["gain"] < bottom):
            cost, text = shown[key]["cost_ratio"], f"↓ {shown[key]['gain']:.1f}"
            look = {"color": looks[key]["color"], "fontsize": 8, "ha": "right", "va": "center"}
            offset = (-9, 10 * heights[round(cost, 1)])
            axes.annotate(text, (cost, bottom), offset, textcoords="offset points", **look)
            heights[round(cost, 1)] += 1
        axes.set(xscale="log", xlim=(0.02, 2))
        axes.set_xlabel("row passes in training, ratio to the grid search", fontsize=8)
        axes.set_ylabel("gain in log likelihood", fontsize=8)
        axes.tick_params(labelsize=8)
    legend_of(figure, {LABELS[key]: {"linestyle": "none", **looks[key]} for key in keys}, 3)
    return figure
