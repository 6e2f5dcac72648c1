"""Every model on every split, and what the splits say together."""

import math
import time
from functools import partial

import numpy as np
import torch

from gumdrop.metrics import concordance, integrated_brier, share_below, uniform_p_value
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.survival import Settings
from gumdrop_experiments.survival.methods import METHODS
from gumdrop_experiments.survival.sources import SETS, check_packages, read, split_of

OURS, PEERS = "gumdrop", ("Cox", "survival forest")
FOLDS, BINS = 5, 10
QUICK_EPOCHS = 3


def study(settings: Settings, run: Run) -> Plain:
    """Train the models on the splits of each set, and score their test rows."""
    names = settings.sets or tuple(SETS)
    check_packages(names)
    epochs = QUICK_EPOCHS if run.options.quick else None
    seed, splits = run.options.seed, range(settings.splits)
    parts = run.parts({(name, i): partial(_scored, name, i, seed, epochs) for i in splits for name in names})
    return {name: _summary(name, [parts[name, i] for i in splits]) for name in names}


def _scored(name: str, number: int, seed: int, epochs: int | None) -> Plain:
    """Train and score every model on one split."""
    split = split_of(read(name), number, FOLDS, seed)
    times, seen = (torch.from_numpy(split.y_test[field].copy()) for field in ("time", "seen"))
    observed = torch.stack([times, torch.where(seen, times, math.inf)], dim=1)
    inner = torch.arange(1, BINS) / BINS
    found = {}
    for label, method in METHODS.items():
        started = time.process_time()
        prediction = method(split, seed + number, epochs)
        seconds = time.process_time() - started
        below = share_below(prediction, observed, inner)
        ends = torch.cat([torch.zeros(len(below), 1), below, torch.ones(len(below), 1)], dim=1)
        found[label] = {
            "brier": integrated_brier(prediction, observed).item(),
            "concordance": concordance(prediction, observed).item(),
            "bins": ends.diff(dim=1).sum(0).tolist(),
            "seconds": seconds,
        }
    return found


def _summary(name: str, splits: list[Plain]) -> Plain:
    """Means over the splits, and the difference of each model from ours with its standard error."""
    times = read(name)
    methods = {}
    for label in METHODS:
        brier = np.array([split[label]["brier"] for split in splits])
        gap = brier - np.array([split[OURS]["brier"] for split in splits])
        methods[label] = {
            "brier": _mean(brier),
            "ours_ahead": _mean(gap),
            "concordance": _mean(np.array([split[label]["concordance"] for split in splits])),
            "calibration": [_p_value(splits[i : i + FOLDS], label) for i in range(0, len(splits), FOLDS)],
            "seconds": float(np.median([split[label]["seconds"] for split in splits])),
        }
    return {
        "rows": len(times.y),
        "inputs": times.x.shape[1],
        "seen": float(times.y["seen"].mean()),
        "splits": len(splits),
        "methods": methods,
    }


def _p_value(folds: list[Plain], label: str) -> float:
    """D-calibration over all folds of one order of the rows, in which each row is tested once."""
    return uniform_p_value(torch.tensor([fold[label]["bins"] for fold in folds]).sum(0)).item()


def _mean(values: np.ndarray) -> tuple[float, float]:
    """Mean, and its standard error over the splits."""
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))
