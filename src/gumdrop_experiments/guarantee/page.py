"""The page of `guarantee`."""

from functools import partial

import numpy as np
from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.guarantee.ways import BY, CONFORMAL, PLAIN
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import GREY, Cell, Page, Picture, Table, cell, legend_of, panels_of, table_of

COVERAGE = """Share of test rows inside their intervals less what was promised, in percentage points, at four levels:
mean over splits. The band is two points."""
STREAMS = (
    "Coverage of 90 % intervals over each thousand rows of three streams; each interval stood before its row was known."
)
NOTES = (
    """All models are trained on four fifths of the rows. Conformal levels come from training rows, as networks of
    other folds predict them; the CV+ of MAPIE trains five models; crepes and CatBoost hold a quarter and a tenth of
    the training rows out, to calibrate and to stop. Trees have the settings of scikit-learn, CatBoost its own.""",
    """Quarters are those of the input that goes most with the target on training rows (Spearman's correlation). The
    worst is that with the least coverage, over the test rows of all splits, if it has 100 of them.""",
    "The interval score is the width and 20 times what a target is outside (Gneiting & Raftery 2007): less is better.",
)
LOOKS: dict[str, Plain] = {
    PLAIN: {"color": GREY, "marker": "o"},
    CONFORMAL: {"color": ORANGE, "marker": "o"},
    BY: {"color": ORANGE, "marker": "s", "markerfacecolor": "none"},
}
OTHERS = "^Dv"


def page(results: Plain) -> Page:
    """Say where intervals hold what they promise."""
    pictures = [
        Picture("guarantee", COVERAGE, _coverage(results)),
        Picture("guarantee-streams", STREAMS, _streams(results["streams"])),
    ]
    tables = [_table(name, each, results["coverages"]) for name, each in results["tables"].items()]
    return Page("Guarantee", _lead(results["counts"]), [*pictures, *tables], NOTES)


def _lead(counts: Plain) -> str:
    close, off = counts["close"], {way: f"{100 * share:.1f}" for way, share in counts["farthest of a stream"].items()}
    return f"""Of {counts["tables"]} tables, intervals are within two points of 50, 80, 90 and 95 % on
    {close[CONFORMAL]} with conformal levels and on {close[PLAIN]} without; with these, 90 % intervals are
    {counts["width of conformal"] - 1:+.1%} wider. On streams that drift, a thousand rows are at most
    {off["levels that follow"]} points off where levels follow, and {off["levels that stay"]} where they stay."""


def _look(name: str, names: list[str]) -> Plain:
    others = [each for each in names if each not in LOOKS]
    return LOOKS.get(name) or {"color": BLUE, "marker": OTHERS[others.index(name) % 3], "markerfacecolor": "none"}


def _coverage(results: Plain) -> Figure:
    tables, coverages = results["tables"], results["coverages"]
    names = [*dict.fromkeys(way for each in tables.values() for way in each["ways"])]
    drawing, panels = panels_of([f"{c:.0%}" for c in coverages], 4, panel=(2.5, 3.6), margin=1.6, sharey=True)
    for index, axes in enumerate(panels.values()):
        axes.axvspan(-2, 2, color=GREY, alpha=0.15, linewidth=0)
        axes.axvline(0, color=INK, linewidth=0.8)
        for name in names:
            rows = [(i, each["ways"][name]) for i, each in enumerate(tables.values()) if name in each["ways"]]
            gaps = np.clip([100 * (way["coverage"][index] - coverages[index]) for _, way in rows], -20, 20)
            axes.plot(gaps, [i for i, _ in rows], linestyle="none", markersize=5, **_look(name, names))
        axes.set_yticks(range(len(tables)), list(tables))
        axes.set_xlabel("points", fontsize=8)
    axes.invert_yaxis()
    legend_of(drawing, {name: {"linestyle": "none", **_look(name, names)} for name in names}, 3)
    return drawing


def _streams(streams: Plain) -> Figure:
    drawing, panels = panels_of(list(streams), 3, panel=(3.2, 2.4), margin=0.9, sharey=True)
    looks: Plain = {"levels that stay": {"color": GREY}, "levels that follow": {"color": ORANGE}}
    for axes, stream in zip(panels.values(), streams.values(), strict=True):
        axes.axhspan(88, 92, color=GREY, alpha=0.15, linewidth=0)
        for way, shares in stream["ways"].items():
            ends = stream["stretch"] * np.arange(1, len(shares[2]) + 1)
            axes.plot(ends, 100 * np.array(shares[2]), marker="o", markersize=4, **looks[way])
        axes.set_xlabel("rows after the training", fontsize=8)
        axes.set_ylabel("in 90 % intervals, %", fontsize=8)
    legend_of(drawing, looks, 2)
    return drawing


def _table(name: str, table: Plain, coverages: list[float]) -> Table:
    cells: dict[str, Cell] = {
        **{f"{c:.0%}": partial(_share, place) for place, c in enumerate(coverages)},
        "worst quarter, 90%": lambda way: "" if way["worst quarter"] is None else f"{100 * way['worst quarter']:.1f}",
        "width of 90% (SE)": cell("width", error=True),
        "interval score (SE)": cell("interval score", error=True),
        "seconds": lambda way: f"{way['seconds']:.1f}" if "seconds" in way else "",
    }
    caption = f"{name}: coverage in %, widths and scores in standard deviations of the target, {table['splits']} splits"
    return table_of(caption, table["ways"], cells, ours=LOOKS.__contains__)


def _share(index: int, way: Plain) -> str:
    return f"{100 * way['coverage'][index]:.1f}"
