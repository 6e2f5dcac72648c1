"""The page of `tuning`."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, INK, ORANGE
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import Page, Picture, Table, dot, name_rows, panels_of
from gumdrop_experiments.tuning.study import DEFAULT

LEAD = "Each variant changes one thing of the default. None of it has seen a test row of the UCI splits."
GAINS = (
    "Log likelihood of held-out rows less that of the default, in nats per row, mean and standard error over splits; "
    "left of the line is worse. Numbers at the edge are too far to show."
)
EDGES = (-0.3, 0.1)
"""Gains that are shown."""


def page(results: Plain) -> Page:
    """Put the scores of all candidates into a table for each set."""
    tables = [_table(name, each) for name, each in results["summary"].items()]
    return Page("How the default was chosen", LEAD, [Picture("tuning", GAINS, _gains(results["summary"])), *tables])


def _table(name: str, rows: Plain) -> Table:
    columns: Sequence[str] = ["", "log likelihood", "gain (SE)", "RMSE", "CRPS", "90 %", "p by layer"]
    cells = [
        [
            label,
            f"{row['log_likelihood']:.3f}",
            "" if label == DEFAULT else f"{row['gain']:+.3f} ({row['gain_error']:.3f})",
            f"{row['rmse']:.4g}",
            f"{row['crps']:.4g}",
            f"{100 * row['coverage_90']:.1f}",
            ", ".join(f"{p:.3f}" for p in row["rates"]),
        ]
        for label, row in rows.items()
    ]
    return Table(f"{name}: held-out rows, mean over splits; 90 %: share inside that interval", columns, cells, ours=[0])


def _gains(summary: Mapping[str, Plain]) -> Figure:
    labels = [label for label in next(iter(summary.values())) if label != DEFAULT][::-1]
    columns = -(-len(summary) // 2)
    panel = 11 / columns, 0.23 * len(labels) + 0.8
    figure, panels = panels_of(list(summary), columns, panel=panel, sharey=True)
    for name, axes in panels.items():
        axes.axvline(0, color=INK, linewidth=1)
        for i, label in enumerate(labels):
            row = summary[name][label]
            colour = BLUE if EDGES[0] <= row["gain"] <= EDGES[1] else ORANGE
            dot(axes, row["gain"], i, row["gain_error"], EDGES, color=colour, markersize=4)
        axes.set_xlim(*EDGES)
        name_rows(axes, labels)
    figure.supxlabel("gain in log likelihood over the default, nats per row", fontsize=9)
    return figure
