"""The page of `tuning`."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from gumdrop.views.plots import BLUE, INK
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import Cell, Page, Picture, Table, dots, panels_of, table_of, with_error
from gumdrop_experiments.tuning.study import DEFAULT

LEAD = "Each variant changes one thing of the default. None of it has seen a test row of the UCI splits."
GAINS = """Log likelihood of held-out rows less that of the default, in nats per row, mean and standard error over
splits; left of the line is worse. Numbers at the edge are too far to show."""
EDGES = (-0.3, 0.1)


CELLS: dict[str, Cell] = {
    "log likelihood": "{log_likelihood:.3f}",
    "gain (SE)": lambda row: "" if row["label"] == DEFAULT else with_error((row["gain"], row["gain_error"]), "+.3f"),
    "RMSE": "{rmse:.4g}",
    "CRPS": "{crps:.4g}",
    "90 %": lambda row: f"{100 * row['coverage_90']:.1f}",
    "p by layer": lambda row: ", ".join(f"{p:.3f}" for p in row["rates"]),
}


def page(results: Plain) -> Page:
    """Put the scores of all candidates into a table for each set."""
    body: list[Picture | Table] = [Picture("tuning", GAINS, _gains(results["summary"]))]
    for name, rows in results["summary"].items():
        caption = f"{name}: held-out rows, mean over splits; 90 %: share inside that interval"
        records = {label: {**row, "label": label} for label, row in rows.items()}
        body.append(table_of(caption, records, CELLS, ours=DEFAULT.__eq__))
    return Page("How the default was chosen", LEAD, body)


def _gains(summary: Mapping[str, Plain]) -> Figure:
    labels = [label for label in next(iter(summary.values())) if label != DEFAULT]
    columns = -(-len(summary) // 2)
    panel = 11 / columns, 0.23 * len(labels) + 0.8
    figure, panels = panels_of(list(summary), columns, panel=panel, sharey=True)
    for name, axes in panels.items():
        axes.axvline(0, color=INK, linewidth=1)
        rows = {label: (summary[name][label]["gain"], summary[name][label]["gain_error"]) for label in labels}
        dots(axes, rows, EDGES, look=lambda label: {"color": BLUE, "markersize": 4})
    figure.supxlabel("gain in log likelihood over the default, nats per row", fontsize=9)
    return figure
