"""Train the model of a table, and its twins whose rates are not learned; an interruption keeps what was learned."""

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch import nn

from gumdrop.ensembles import Architecture, EnsembleFit, Rows, choose, fit
from gumdrop.ensembles.architecture import Build
from gumdrop.ensembles.fitting import STREAMED, fit_streamed_ensemble
from gumdrop.layers import PiecewiseLinear, dropout_blocks
from gumdrop.networks.rates import fix_dropout
from gumdrop.tables.fitting.data import TableData
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.model import TableModel
from gumdrop.tables.results import Stopped
from gumdrop.tables.scoring import OURS
from gumdrop.tables.streams.rows import StreamedRows
from gumdrop.tables.task import task_of
from gumdrop.training.checkpoints import read_checkpoint, write_checkpoint
from gumdrop.training.progress import Show

CHOOSING, TESTING = "choosing networks", "testing"
"""What goes on before the training and after it."""


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
    seconds: float
    """How long it took to choose and to train them; of a training that goes on, since then."""


def train_until_stopped(
    data: TableData, settings: FitSettings, folder: Path, part: Callable[[str], Show], notify: Callable[[str], object]
) -> tuple[TrainedModel, Stopped | None]:
    """Train; where that is interrupted, finish with what was learned until the last checkpoint."""
    checkpoint, short = folder / "learned.checkpoint", folder / "short.checkpoint"
    build, started = _builder(data), time.monotonic()
    try:
        architecture = _architecture(data, build, settings, part(CHOOSING))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped before there was a model to keep") from None
    try:
        fitted = _train(data, build, architecture, settings, checkpoint, part(OURS))
        return _model(data, settings, fitted, architecture, started), None
    except KeyboardInterrupt:
        done, planned = shortened(checkpoint, short)
        if not done:
            raise KeyboardInterrupt("stopped before there was a model to keep") from None
    notify(f"stopped after {done} of {planned} epochs; finishing with what was learned (Ctrl-C again leaves it)")
    fitted = _train(data, build, architecture, dataclasses.replace(settings, epochs=done), short, False)
    short.unlink()
    return _model(data, settings, fitted, architecture, started), Stopped(done, planned)


def train_twins(
    data: TableData, settings: FitSettings, architecture: Architecture, folder: Path, part: Callable[[str], Show]
) -> tuple[dict[str, TrainedModel], Stopped | None]:
    """Train as many networks at a fixed rate and without dropout; an interruption costs these comparisons alone."""
    models: dict[str, TrainedModel] = {}
    settings = dataclasses.replace(settings, strength=1.0)  # of no effect on rates that are fixed
    try:
        for twin in TWINS:
            build, checkpoint, started = _builder(data, twin.p), folder / twin.checkpoint, time.monotonic()
            fitted = _train(data, build, architecture, settings, checkpoint, part(twin.name))
            models[twin.name] = _model(data, settings, fitted, architecture, started)
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


def _architecture(data: TableData, build: Build, settings: FitSettings, progress: Show) -> Architecture:
    """Choose the kind of networks by held-out rows, unless their sizes are given, or the rows are streamed."""
    if settings.hidden is not None or data.streamed is not None:
        return Architecture(settings.hidden or STREAMED)
    task, rows = task_of(data.schema.target), data.training_rows(settings.num_background)
    return choose(build, rows, settings.ensemble(), task.likelihood, scale=task.scale, progress=progress)


def _train(
    data: TableData,
    build: Build,
    architecture: Architecture,
    settings: FitSettings,
    checkpoint: Path,
    progress: Show,
) -> EnsembleFit:
    """Train an ensemble with that strength of dropout which held-out rows prefer, or of a stream that of the ELBO."""
    task, of_members = task_of(data.schema.target), settings.ensemble()
    if data.streamed is not None:  # whose every strength would cost passes of its own
        numbers = {"batch_size": data.schedule(settings)[0], "seed": settings.seed}
        rows = StreamedRows(data.streamed.stream, data.schema, data.streamed.survey, **numbers)
        x, y = data.part(data.train[:4096])
        return fit_streamed_ensemble(
            functools.partial(build, architecture, None),
            rows,
            Rows(x, y.float() if y.is_floating_point() else y),
            of_members,
            task.likelihood,
            scale=task.scale,
            checkpoint=checkpoint,
            progress=progress,
        )
    return fit(
        build,
        data.training_rows(settings.num_background),
        of_members,
        task.likelihood,
        architecture=architecture,
        scale=task.scale,
        checkpoint=checkpoint,
        progress=progress,
    )


def _model(
    data: TableData, settings: FitSettings, fitted: EnsembleFit, architecture: Architecture, started: float
) -> TrainedModel:
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
    return TrainedModel(model, fitted, architecture, time.monotonic() - started)


def shortened(checkpoint: Path, path: Path) -> tuple[int, int]:
    """Return how many epochs a stopped run has done, and of how many; write its checkpoint as one of a run so long.

    Training with it and with this many epochs takes no further step, and does all that comes after the last: it picks
    the best epoch, and fits the noise. With 0 epochs no file is written.
    """
    if not checkpoint.exists():
        return 0, 0
    state = read_checkpoint(checkpoint, checkpoint.read_bytes())
    done, planned = len(state["epochs"]), state["settings"]["epochs"]
    if done:
        state["settings"]["epochs"] = done
        write_checkpoint(path, state)
    return done, planned
