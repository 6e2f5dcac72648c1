"""Sums of ranges."""

from functools import partial

from gumdrop_experiments.harness import WithPictures
from gumdrop_experiments.harness.run import Run

from builders.sums import Settings

CALLS: list[str] = []
"""The parts that were computed."""


def study(settings: Settings, run: Run) -> WithPictures:
    if not settings.sizes:
        raise FileNotFoundError("there are no sizes")
    parts = run.parts({f"N={size}": partial(total, settings, size) for size in settings.sizes})
    return WithPictures({"sums": {name: part["sum"] for name, part in parts.items()}}, pictures="Sums")


def total(settings: Settings, size: int) -> dict[str, tuple[int, int]]:
    CALLS.append(f"N={size}")
    if settings.stop == f"N={size}":
        raise KeyboardInterrupt
    return {"sum": (size, settings.width * sum(range(size)))}
