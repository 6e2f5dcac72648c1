"""Train the model of a table, and its twins whose rates are not learned; an interruption keeps what was learned."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch import nn

from gumdrop.ensembles import Architecture, Build, EnsembleFit
from gumdrop.layers import PiecewiseLinear, dropout_blocks
from gumdrop.networks.rates import fix_dropout
from gumdrop.tables.fitting.data import TableData
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.fitting.stop import shortened
from gumdrop.tables.model import TableModel
from gumdrop.tables.results import Stopped
from gumdrop.tables.scoring import OURS
from gumdrop.tables.task import task_of


class Twin(NamedTuple):
    """An ensemble like that of the model, at a rate that is not learned."""

    name: str
    """What a reader calls it."""
    p: float
    """Its rate."""
    checkpoint: str
    """File that keeps its training."""


TWINS = (
    Twin("fixed dropout, p = 0.1", 0.1, "fixed.checkpoint"),
    Twin("no dropout", 1e-50, "plain.checkpoint"),  # 0 in float32, and the objective its limit: weight decay
)


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
    """Train; where that is interrupted, finish with what was learned until the last checkpoint."""
    checkpoint, short = folder / "learned.checkpoint", folder / "short.checkpoint"
    build = _builder(data)
    try:
        architecture = _architecture(data, build, settings, progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped before there was a model to keep") from None
    try:
        fitted = data.fit(build, architecture, settings, checkpoint, progress and OURS)
        return _model(data, settings, fitted, architecture), None
    except KeyboardInterrupt:
        done, planned = shortened(checkpoint, short), data.schedule(settings)[1]
        if not done:
            raise KeyboardInterrupt("stopped before there was a model to keep") from None
    notify(f"stopped after {done} of {planned} epochs; finishing with what was learned (Ctrl-C again leaves it)")
    fitted = data.fit(build, architecture, dataclasses.replace(settings, epochs=done), short, False)
    short.unlink()
    return _model(data, settings, fitted, architecture), Stopped(done, planned)


def train_twins(
    data: TableData, settings: FitSettings, architecture: Architecture, folder: Path, progress: bool
) -> tuple[dict[str, TableModel], Stopped | None]:
    """Train the same ensemble at a fixed rate and without dropout; an interruption costs these comparisons alone."""
    models: dict[str, TableModel] = {}
    settings = dataclasses.replace(settings, strength=1.0)  # of no effect on rates that are fixed
    try:
        for twin in TWINS:
            build, checkpoint = _builder(data, twin.p), folder / twin.checkpoint
            fitted = data.fit(build, architecture, settings, checkpoint, progress and twin.name)
            models[twin.name] = _model(data, settings, fitted, architecture).model
    except KeyboardInterrupt:
        planned = data.schedule(settings)[1]
        return models, Stopped(planned, planned)
    return models, None


def _builder(data: TableData, fixed: float | None = None) -> Build:
    """Build networks whose rates are learned, or fixed at one."""
    task = task_of(data.schema.target)

    def build(architecture: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
        network = task.network(data.schema.num_features, architecture, encoding)
        if fixed is None:
            return network
        for block in dropout_blocks(network):
            block.site.start_at(fixed)
        return fix_dropout(network)

    return build


def _architecture(data: TableData, build: Build, settings: FitSettings, progress: bool | str) -> Architecture:
    """Choose the kind of networks, unless their sizes are given."""
    if settings.hidden is not None:
        return Architecture(settings.hidden)
    return data.choose(build, settings, progress)


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
