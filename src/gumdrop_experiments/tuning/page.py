"""The page of `tuning`."""

from collections.abc import Mapping, Sequence
from typing import Any

from gumdrop_experiments.pages.page import Figure, Page, Table
from gumdrop_experiments.tuning.results import DEFAULT

LEAD = "Each variant changes one thing of the default. None of it has seen a test row of the UCI splits."
GAINS = (
    "Log likelihood of held-out rows less that of the default, in nats per row, mean and standard error over splits; "
    "left of the line is worse. Numbers at the edge are too far to show."
)


def page(results: Mapping[str, Any]) -> Page:
    """Put the scores of all candidates into a table for each set."""
    tables = [_table(name, each) for name, each in results["summary"].items()]
    return Page("How the default was chosen", LEAD, [Figure("tuning", GAINS), *tables])


def _table(name: str, rows: Mapping[str, Mapping[str, Any]]) -> Table:
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
