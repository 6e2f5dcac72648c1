"""Regret: what a rate loses on the best rate of a table."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["ELBO", "FIXED", "GRID", "HELD_OUT", "LABELS", "OFF", "summary"]

OFF, GRID, ELBO, HELD_OUT = "off", "grid", "elbo", "held-out"
FIXED = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Rates of all layers that are fixed."""
LABELS = {
    OFF: "no dropout",
    **{str(p): f"fixed at {p:g}" for p in FIXED},
    GRID: "grid of these, by held-out rows",
    ELBO: "learned, by the ELBO",
    HELD_OUT: "learned, strength by held-out rows",
}
"""What pages call each way to a rate."""


def summary(sets: Mapping[str, Sequence[Mapping[str, Any]]], gaps: Collection[str] = ()) -> dict[str, Any]:
    """Give log likelihood and regret of each way to a rate, for ensembles and for single networks.

    Args:
        sets: Of each table the parts of its splits.
        gaps: Tables whose test rows are not drawn at random, which count by themselves.

    Returns:
        For ``"ensemble"`` and ``"single"``: for each table the mean log likelihood of each way, its regret with a
        standard error over splits, and how often each strength was chosen; and the worst and the mean regret of each
        way, over the tables whose test rows are drawn at random, and over the others.
    """
    found: dict[str, Any] = {}
    for size in ("ensemble", "single"):
        tables = {name: _of_table([part[size] for part in parts]) for name, parts in sets.items()}
        found[size] = {"tables": tables}
        for kind, names in (
            ("random", [n for n in tables if n not in gaps]),
            ("gaps", [n for n in tables if n in gaps]),
        ):
            regrets = {way: [tables[name]["regret"][way][0] for name in names] for way in LABELS}
            if names:
                found[size][kind] = {
                    "worst": {way: max(each) for way, each in regrets.items()},
                    "mean": {way: float(np.mean(each)) for way, each in regrets.items()},
                }
    return found


def _of_table(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    columns = {way: np.array([part["log_likelihood"][way] for part in parts]) for way in LABELS}
    best = max(columns, key=lambda way: columns[way].mean())
    losses = {way: columns[best] - column for way, column in columns.items()}
    strengths = [part["strength"] for part in parts]
    return {
        "log_likelihood": {way: float(column.mean()) for way, column in columns.items()},
        "best": best,
        "regret": {way: (float(loss.mean()), _error(loss)) for way, loss in losses.items()},
        "strengths": {str(each): strengths.count(each) for each in sorted(set(strengths))},
        "rates": np.mean([part["rates"] for part in parts], axis=0).tolist(),
    }


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0
