"""Fit every split, count what intervals hold, and let levels follow streams."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gumdrop.likelihoods import ConformalLevels
from gumdrop.tables.fitting.settings import PredictionSettings
from gumdrop_experiments.guarantee import Settings
from gumdrop_experiments.guarantee.ways import (
    BY,
    CONFORMAL,
    COVERAGES,
    FILES,
    PLAIN,
    SETS,
    Ends,
    Stream,
    column_of,
    fitted,
    frame_of,
    ours,
    read_set,
    rivals,
    streams,
)
from gumdrop_experiments.harness import Plain, Run, data_folder
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.tables.tasks import Task

TEST = 0.2
NINETY = COVERAGES.index(0.9)
ROWS_OF_A_GROUP = 100
"""Test rows of all splits from which a group counts."""
STRETCH = 1000
"""Rows of a stream whose coverage is told."""
CLOSE, LEAST = 0.02, 0.85
"""Distance to the coverage that is none; coverage of a group at which it has failed."""


def study(settings: Settings, run: Run) -> Plain:
    """Fit all splits of the tables, and the streams."""
    quick, data = run.options.quick, data_folder(run.options, "uci").parent
    data_folder(run.options, "tables", files=FILES)
    names, ways, seed = settings.sets or tuple(SETS), rivals(), run.options.seed
    tables = {name: read_set(name, data, settings.rows) for name in names}
    drifting, stretch = streams(data, quick), STRETCH // (10 if quick else 1)
    calls: dict[tuple[str, int], Callable[[], Plain]] = {
        (name, split): partial(_part, *rows, seed + split, settings.epochs, ways)
        for name, rows in tables.items()
        for split in range(settings.splits)
    }
    for i, stream in enumerate(drifting.values()):
        calls["stream", i] = partial(_stream, stream, seed, settings.epochs, stretch)
    parts = run.parts(calls)
    results = {name: _summary([parts[name, split] for split in range(settings.splits)]) for name in names}
    followed = {name: parts["stream", i] for i, name in enumerate(drifting)}
    return {"coverages": list(COVERAGES), "tables": results, "streams": followed, "counts": _counts(results, followed)}


def _part(x: NDArray[np.float64], y: NDArray[np.float64], seed: int, epochs: int | None, ways: dict[str, Any]) -> Plain:
    order = np.random.default_rng(seed).permutation(len(x))
    test, train = order[: round(TEST * len(x))], order[round(TEST * len(x)) :]
    task = Task(x[train], y[train], x[test], y[test], seed=seed, epochs=epochs)
    ends: dict[str, Ends] = {}
    seconds = {}
    for name, way in ({PLAIN: ours} | ways).items():
        started = time.process_time()
        made = way(task)
        seconds[name] = time.process_time() - started
        ends |= made if isinstance(made, dict) else {name: made}
    column = column_of(task)
    quarters = np.searchsorted(np.quantile(task.x_train[:, column], (0.25, 0.5, 0.75)), task.x_test[:, column])
    return {
        "ways": {name: _scores(each, y[test], quarters, y[train].std()) for name, each in ends.items()},
        "quarters": np.bincount(quarters, minlength=4).tolist(),
        "seconds": seconds,
    }


def _scores(ends: Ends, y: NDArray[np.float64], quarters: NDArray[np.int64], unit: float) -> Plain:
    """Share of rows inside, width and interval score (Gneiting & Raftery 2007) at 90 %, in deviations of the target."""
    lower, upper = ends[..., 0], ends[..., 1]
    inside = (lower <= y) & (y <= upper)
    width = upper[NINETY] - lower[NINETY]
    missed = np.maximum(lower[NINETY] - y, 0) + np.maximum(y - upper[NINETY], 0)
    return {
        "coverage": inside.mean(1).tolist(),
        "width": float(width.mean() / unit),
        "interval score": float((width + 2 / (1 - COVERAGES[NINETY]) * missed).mean() / unit),
        "held in quarters": np.bincount(quarters, inside[NINETY], minlength=4).tolist(),
    }


def _summary(parts: Sequence[Plain]) -> Plain:
    """Means over splits; groups are of the rows of all of them."""
    sizes = np.sum([part["quarters"] for part in parts], axis=0)
    results = {}
    for name in parts[0]["ways"]:
        scores = [part["ways"][name] for part in parts]
        held = np.sum([each["held in quarters"] for each in scores], axis=0)
        enough = sizes >= ROWS_OF_A_GROUP
        seconds = [part["seconds"][name] for part in parts if name in part["seconds"]]
        results[name] = {
            "coverage": np.mean([each["coverage"] for each in scores], axis=0).tolist(),
            "width": mean_and_error(each["width"] for each in scores),
            "interval score": mean_and_error(each["interval score"] for each in scores),
            "worst quarter": float((held[enough] / sizes[enough]).min()) if enough.any() else None,
            **({"seconds": float(np.median(seconds))} if seconds else {}),
        }
    return {"splits": len(parts), "ways": results}


def _stream(stream: Stream, seed: int, epochs: int | None, stretch: int) -> Plain:
    """Share of rows in the intervals that stood before each of them, stretch by stretch, at all coverages."""
    x, y, first = stream.x, stream.y, stream.train
    model = fitted(Task(x[:first], y[:first], x[first:], y[first:], seed=seed, epochs=epochs), None)
    assert model.conformal is not None, "the model has conformal levels"
    (levels,) = model.conformal.levels
    prediction = replace(model, conformal=None).predict_part(frame_of(x[first:]), PredictionSettings())[2]
    conformity = prediction.conformity(torch.tensor(y[first:, None]))
    distances = conformity[:, 0].abs().amin(-1).double()
    stay = torch.stack([levels.reach(coverage)[0] for coverage in COVERAGES]).expand(len(distances), -1)
    whole = len(distances) // stretch * stretch
    shares = {}
    for name, reaches in (("levels that stay", stay), ("levels that follow", _reached(levels, conformity))):
        inside = (distances[:whole, None] <= reaches[:whole]).double().split(stretch)
        shares[name] = torch.stack([rows.mean(0) for rows in inside]).T.tolist()
    return {"stretch": stretch, "ways": shares}


def _reached(levels: ConformalLevels, conformity: torch.Tensor) -> torch.Tensor:
    """How far each interval reaches before its row is known, shape (T, 4)."""
    results = []
    for row in range(len(conformity)):
        results.append(torch.cat([levels.reach(coverage) for coverage in COVERAGES]))
        levels = levels.updated(conformity[row : row + 1])
    return torch.stack(results)


def _counts(tables: Plain, followed: Plain) -> Plain:
    """On how many tables each way is close at every coverage, and no quarter fails; and how far streams are off."""
    ways: dict[str, list[Plain]] = {}
    for table in tables.values():
        for name, result in table["ways"].items():
            ways.setdefault(name, []).append(result)
    close = {
        name: sum(
            all(abs(held - c) <= CLOSE for held, c in zip(of["coverage"], COVERAGES, strict=True)) for of in ways[name]
        )
        for name in sorted(ways)
    }
    whole = {name: sum((of["worst quarter"] or 0) >= LEAST for of in ways[name]) for name in sorted(ways)}
    wider, by = (
        [way["width"][0] / plain["width"][0] for way, plain in zip(ways[name], ways[PLAIN], strict=True)]
        for name in (CONFORMAL, BY)
    )
    off = {
        way: max(abs(share - COVERAGES[NINETY]) for table in followed.values() for share in table["ways"][way][NINETY])
        for way in ("levels that stay", "levels that follow")
    }
    return {
        "tables": len(tables),
        "close": close,
        "whole": whole,
        "width of conformal": float(np.mean(wider)),
        "width by quarters": float(np.mean(by)),
        "farthest of a stream": off,
    }
