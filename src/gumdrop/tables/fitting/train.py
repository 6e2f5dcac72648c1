"""Train the model of a table, and its twin with fixed rates; an interruption keeps what was learned."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from torch import nn

from gumdrop.ensembles import EnsembleFit
from gumdrop.networks.rates import fix_dropout
from gumdrop.tables.fitting.data import TableData
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.fitting.stop import shortened
from gumdrop.tables.model import TableModel
from gumdrop.tables.results import Stopped
from gumdrop.tables.scoring import OURS
from gumdrop.tables.task import task_of

__all__ = ["FIXED", "train_twin", "train_until_stopped"]

FIXED = "fixed dropout, p = 0.1"


def train_until_stopped(
    data: TableData, settings: FitSettings, folder: Path, progress: bool, notify: Callable[[str], object]
) -> tuple[TableModel, EnsembleFit, Stopped | None]:
    """Train; where that is interrupted, finish with what was learned until the last checkpoint.

    Args:
        data: The data.
        settings: Choices of network and training.
        folder: Where checkpoints lie.
        progress: Show progress bars.
        notify: Called with a sentence where training is interrupted.

    Returns:
        The model, how it was trained, and where that was interrupted.

    Raises:
        KeyboardInterrupt: If it was interrupted before there was anything to keep.
        CheckpointError: If a checkpoint in the folder cannot be continued from.
    """
    checkpoint, short = folder / "learned.checkpoint", folder / "short.checkpoint"
    try:
        return *_train(data, settings, False, checkpoint, progress and OURS), None
    except KeyboardInterrupt:
        done, planned = shortened(checkpoint, short), data.schedule(settings)[1]
        if not done:
            raise KeyboardInterrupt("stopped before there was a model to keep") from None
    notify(f"stopped after {done} of {planned} epochs; finishing with what was learned (Ctrl-C again leaves it)")
    model, fitted = _train(data, dataclasses.replace(settings, epochs=done), False, short, False)
    short.unlink()
    return model, fitted, Stopped(done, planned)


def train_twin(
    data: TableData, settings: FitSettings, folder: Path, progress: bool
) -> tuple[TableModel | None, Stopped | None]:
    """Train the same ensemble with fixed rates; an interruption costs that comparison alone.

    Args:
        data: The data.
        settings: Choices of network and training.
        folder: Where checkpoints lie.
        progress: Show progress bars.

    Returns:
        The twin, or where its training was interrupted.
    """
    try:
        return _train(data, settings, True, folder / "fixed.checkpoint", progress and FIXED)[0], None
    except KeyboardInterrupt:
        planned = data.schedule(settings)[1]
        return None, Stopped(planned, planned)


def _train(
    data: TableData, settings: FitSettings, fixed: bool, checkpoint: Path, progress: bool | str
) -> tuple[TableModel, EnsembleFit]:
    task = task_of(data.schema.target)

    def make() -> nn.Module:
        network = task.network(data.schema.num_features, settings.hidden)
        return fix_dropout(network) if fixed else network

    fitted = data.fit(make, settings, checkpoint, progress)
    model = TableModel(
        data.schema,
        fitted.model,
        settings.hidden,
        settings.num_samples,
        settings.coverage,
        settings.seed,
        data.unit,
        data.background(settings.num_background),
    )
    return model, fitted
