"""Train the model of a table, and its twin with fixed rates; an interruption keeps what was learned."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch import nn

from gumdrop.ensembles import Architecture, Build, EnsembleFit, Pilot
from gumdrop.layers import PiecewiseLinear
from gumdrop.networks.rates import fix_dropout
from gumdrop.tables.fitting.data import TableData
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.fitting.stop import shortened
from gumdrop.tables.model import TableModel
from gumdrop.tables.results import Stopped
from gumdrop.tables.scoring import OURS
from gumdrop.tables.task import task_of

__all__ = ["FIXED", "TrainedModel", "train_twin", "train_until_stopped"]

FIXED = "fixed dropout, p = 0.1"


class TrainedModel(NamedTuple):
    """A model, and where it comes from."""

    model: TableModel
    """The model."""
    fitted: EnsembleFit
    """How its networks were trained."""
    architecture: Architecture
    """What kind of networks they are."""


def train_until_stopped(
    data: TableData, settings: FitSettings, folder: Path, progress: bool, notify: Callable[[str], object]
) -> tuple[TrainedModel, Stopped | None]:
    """Train; where that is interrupted, finish with what was learned until the last checkpoint.

    Args:
        data: The data.
        settings: Choices of network and training.
        folder: Where checkpoints lie.
        progress: Show progress bars.
        notify: Called with a sentence where training is interrupted.

    Returns:
        The model and how it was trained, and where that was interrupted.

    Raises:
        KeyboardInterrupt: If it was interrupted before there was anything to keep.
        CheckpointError: If a checkpoint in the folder cannot be continued from.
    """
    checkpoint, short = folder / "learned.checkpoint", folder / "short.checkpoint"
    build = _builder(data, fixed=False)
    try:
        pilot = _pilot(data, build, settings, progress)
        architecture = pilot.architecture
        fitted = data.fit(build, architecture, settings, checkpoint, progress and OURS)
        if pilot.is_better_than(fitted):
            settings = dataclasses.replace(settings, epochs=pilot.epochs)
            fitted = data.fit(build, architecture, settings, folder / "brief.checkpoint", progress and OURS)
        return _model(data, settings, fitted, architecture), None
    except KeyboardInterrupt:
        done, planned = shortened(checkpoint, short), data.schedule(settings)[1]
        if not done:
            raise KeyboardInterrupt("stopped before there was a model to keep") from None
    notify(f"stopped after {done} of {planned} epochs; finishing with what was learned (Ctrl-C again leaves it)")
    fitted = data.fit(build, architecture, dataclasses.replace(settings, epochs=done), short, False)
    short.unlink()
    return _model(data, settings, fitted, architecture), Stopped(done, planned)


def train_twin(
    data: TableData, settings: FitSettings, architecture: Architecture, folder: Path, progress: bool
) -> tuple[TableModel | None, Stopped | None]:
    """Train the same ensemble with fixed rates; an interruption costs that comparison alone.

    Args:
        data: The data.
        settings: Choices of network and training.
        architecture: The kind of networks.
        folder: Where checkpoints lie.
        progress: Show progress bars.

    Returns:
        The twin, or where its training was interrupted.
    """
    checkpoint = folder / "fixed.checkpoint"
    try:
        fitted = data.fit(_builder(data, fixed=True), architecture, settings, checkpoint, progress and FIXED)
    except KeyboardInterrupt:
        planned = data.schedule(settings)[1]
        return None, Stopped(planned, planned)
    return _model(data, settings, fitted, architecture).model, None


def _builder(data: TableData, *, fixed: bool) -> Build:
    task = task_of(data.schema.target)

    def build(architecture: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
        network = task.network(data.schema.num_features, architecture.hidden, architecture.activation, encoding)
        return fix_dropout(network) if fixed else network

    return build


def _pilot(data: TableData, build: Build, settings: FitSettings, progress: bool | str) -> Pilot:
    """Choose the kind of networks, unless their sizes are given."""
    if settings.hidden is not None:
        return Pilot(Architecture(settings.hidden), None)
    return data.pilot(build, settings, progress)


def _model(data: TableData, settings: FitSettings, fitted: EnsembleFit, architecture: Architecture) -> TrainedModel:
    model = TableModel(
        data.schema,
        fitted.model,
        architecture.hidden,
        settings.num_samples,
        settings.coverage,
        settings.seed,
        data.unit,
        data.background(settings.num_background),
    )
    return TrainedModel(model, fitted, architecture)
