"""What the seeds of a way to ask say together."""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.numbers import rounded

GOALS = (0.9, 0.95)
"""Shares of test digits right that labels are counted to."""


def summary(parts: Sequence[Any]) -> Plain:
    """Average curves over seeds, and count the labels to each goal."""
    curves = [part["curve"] for part in parts]
    found: Plain = {"seeds": len(curves), "curves": curves}
    found["curve"] = {"labels": [point["labels"] for point in curves[0]]}
    for score in ("accuracy", "nll"):
        values = np.array([[point[score] for point in curve] for curve in curves])
        error = values.std(0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.zeros(values.shape[1])
        found["curve"] |= {score: rounded(values.mean(0)), f"{score}_error": rounded(error)}
    found["goals"] = {f"{goal:g}": _reached(curves, goal) for goal in GOALS}
    return found


def _reached(curves: Sequence[Any], goal: float) -> dict[str, float] | None:
    first = [next((point for point in curve if point["accuracy"] >= goal), None) for curve in curves]
    there = [point for point in first if point is not None]
    if 2 * len(there) < len(curves) or not there:
        return None
    return {name: statistics.median(point[name] for point in there) for name in ("labels", "nll")}
