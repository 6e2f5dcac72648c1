"""Fit a table: split it, train, hold a test part against plain models, and leave a folder that tells all."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from gumdrop.ensembles import EnsembleFit, schedule
from gumdrop.ensembles.fitting import fit_ensembles
from gumdrop.machine.environment import environment
from gumdrop.machine.files import saying_that_the_disk_is_full
from gumdrop.machine.threads import limited_threads
from gumdrop.machine.version import VERSION
from gumdrop.networks.rates import fix_dropout
from gumdrop.tables.baselines import (
    boosted_classes,
    boosted_regression,
    frequencies,
    linear_classes,
    linear_regression,
    mean_of_targets,
)
from gumdrop.tables.cells import completer, mark_unknown
from gumdrop.tables.errors import STDIN, TableError
from gumdrop.tables.fitting.folder import NEW, forget_training, held_folder, put_in_place
from gumdrop.tables.fitting.settings import CONFIG_FILE, FitSettings, Reading, config_text
from gumdrop.tables.fitting.stop import shortened
from gumdrop.tables.model import TableModel, in_units, table_network
from gumdrop.tables.prediction import ROWS_FOR_THREADS, encoding_notes
from gumdrop.tables.reading.table import Table, read_table
from gumdrop.tables.results import OURS, UNSKILLED, Prediction, mean_record, named_rates, test_results
from gumdrop.tables.schema.cells import numbers_of
from gumdrop.tables.schema.checks import check_present
from gumdrop.tables.schema.inference import infer_schema, table_notes, with_statistics
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.tables.streams.table import StreamedTable, open_stream
from gumdrop.training import CheckpointError
from gumdrop.training.processes.group import process_group, with_long_timeout

__all__ = ["fit_table"]

RESULTS_FORMAT = 1
FIXED = "fixed dropout, p = 0.1"
READING, SETTINGS = Reading(), FitSettings()


def fit_table(
    table: str | os.PathLike[str],
    target: str,
    out: str | os.PathLike[str],
    *,
    reading: Reading = READING,
    settings: FitSettings = SETTINGS,
    overwrite: bool = False,
    progress: bool = False,
    notify: Callable[[str], object] = lambda note: None,
    finish: Callable[[Path], object] = lambda folder: None,
) -> TableModel:
    """Fit a table and leave a folder: model, test predictions, results, and the choices to repeat it.

    The work goes on in ``OUT.partial``, from where a whole folder is moved to ``OUT``. A run that is interrupted in its
    training leaves the model as it was then in ``OUT``, and the same call goes on from there. One fit at a time works
    on an ``OUT``. Under torchrun the processes train together, and the first of them writes.

    Args:
        table: CSV or Parquet file; ``-`` for standard input.
        target: Column to predict.
        out: Folder to make.
        reading: What the columns are, where the table does not tell.
        settings: Choices of network, training and split.
        overwrite: Replace ``out`` if it exists.
        progress: Show progress bars.
        notify: Called with a sentence for each thing that the reader should know.
        finish: Called with the folder when all else is in it, before it becomes ``out``; to write a page into it.

    Returns:
        The model. Whether its training was interrupted is in the results, as `stopped`.

    Raises:
        TableError: If the table cannot be used, ``out`` exists, or another fit is at work on it.
        KeyboardInterrupt: If the run was interrupted before there was anything to keep.
        OSError: If the disk is full; what was trained is kept, and the same call goes on from there.
    """
    place, group = Path(out), with_long_timeout(process_group())
    started = time.monotonic()
    if not group.is_first:
        progress, notify = False, _silent
    with contextlib.ExitStack() as stack:
        full = f"the disk is full: {place} is as it was, and {place}.partial keeps what was trained"
        stack.enter_context(saying_that_the_disk_is_full(f"{full}; make room and try again"))
        partial = group.from_first(lambda: stack.enter_context(held_folder(place, overwrite=overwrite, notify=notify)))
        data = _read(os.fspath(table), target, reading, settings)
        _announce(data, reading, notify)
        if overwrite:
            group.from_first(lambda: forget_training(partial))
        try:
            model, fitted, stopped = _train_until_stopped(data, settings, partial, progress, notify)
            fixed, stopped = (
                (None, stopped) if stopped or data.streamed else _train_twin(data, settings, partial, progress)
            )
        except CheckpointError as error:
            raise TableError(
                f"{error}. It is left from a stopped fit: the same table and settings go on with it, and --overwrite "
                "begins anew"
            ) from error
        if group.is_first:
            new = partial / NEW
            results = _results(data, settings, model, fitted, fixed, new)
            results |= {"reading": dataclasses.asdict(reading), "stopped": stopped}
            results |= {"seconds": time.monotonic() - started}
            _write_rest(data, os.fspath(table), reading, settings, results, new)
            finish(new)
            put_in_place(partial, place, overwrite=overwrite, keep_checkpoints=stopped is not None)
    return model


def _write_rest(
    data: _Data, table: str, reading: Reading, settings: FitSettings, results: dict[str, Any], partial: Path
) -> None:
    """Write the results, and the choices that repeat them."""
    _write_json(partial / "results.json", results)
    if results["stopped"] is None:  # what the table decided is written out, so that the file says all
        settings = dataclasses.replace(settings, **{n: results["settings"][n] for n in ("epochs", "batch_size")})
    comments = [f"gumdrop {VERSION}; to repeat this run:  gumdrop fit --config {CONFIG_FILE} --out NEW_FOLDER"]
    comments += [f"the table had {data.num_rows} rows, and its file the SHA-256 {data.table.sha256}"]
    text = config_text(table, data.schema.target.name, reading, settings, comments=comments)
    (partial / CONFIG_FILE).write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _Data:
    """A table, read, split and encoded."""

    name: str
    table: Table
    frame: pd.DataFrame
    """Rows whose target is known."""
    rows: np.ndarray
    """Their numbers in the table, from 1."""
    schema: TableSchema
    train: list[int]
    test: list[int]
    x: np.ndarray
    unknown: np.ndarray
    """Which cells have a stand-in in `x`."""
    notes: list[str]
    unit: str
    streamed: StreamedTable | None = None
    """The rows that train, where they are read in pieces; `frame` is then a sample of others."""

    @property
    def num_rows(self) -> int:
        """Rows of the whole table."""
        return self.streamed.stream.num_rows if self.streamed else len(self.table.frame)

    @property
    def num_train(self) -> int:
        """Rows that train."""
        return self.streamed.survey.num_known if self.streamed else len(self.train)

    def part(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some rows, as the network takes them."""
        return torch.from_numpy(self.x[rows]), torch.from_numpy(self.schema.encode_target(self.frame.iloc[rows]))

    def background(self, count: int) -> Tensor:
        """Some encoded training rows, spread evenly over the order of the table."""
        pick = np.linspace(0, len(self.train) - 1, min(count, len(self.train))).round().astype(int)
        return torch.from_numpy(self.x[np.asarray(self.train)[pick]])


def _read(path: str, target: str, reading: Reading, settings: FitSettings) -> _Data:
    streamed = open_stream(path, target, settings, drop=reading.drop) if settings.stream else None
    table = streamed.table if streamed else read_table(path, decimal=reading.decimal)
    check_present(table.frame, [target])
    known = table.frame[target].notna().to_numpy()
    frame = table.frame[known].reset_index(drop=True)
    notes = list(table.notes)
    if missing := int((~known).sum()):
        notes.append(f"{missing} of {len(known)} rows have no '{target}' and are left out")
    whole = infer_schema(
        frame, target, task=reading.task, drop=reading.drop, dates=reading.dates, decimal=table.decimal
    )
    train, test = _split(frame, whole, settings)
    schema = streamed.survey.exact(whole) if streamed else with_statistics(whole, frame.iloc[train])
    encoded = schema.encode_inputs(frame)
    rows = (streamed.survey.rows if streamed else np.flatnonzero(known)) + 1
    notes += [*table_notes(frame, whole, rows), *encoding_notes(schema, encoded)]
    if repeated := int(frame.duplicated().sum()):
        are = "rows equal earlier ones" if repeated > 1 else "row equals an earlier one"
        notes.append(f"{repeated} {are}: where they are copies, test rows were trained on and scores look too good")
    name = "standard input" if path == STDIN else Path(path).name
    return _Data(
        name, table, frame, rows, schema, train, test, encoded.x, encoded.unknown, notes, reading.unit, streamed
    )


def _announce(data: _Data, reading: Reading, notify: Callable[[str], object]) -> None:
    for note in data.notes:
        notify(note)
    target = data.schema.target
    if reading.task is None and target.classes:
        notify(f"'{target.name}' is taken as {len(target.classes)} classes; --task regression if it is an amount")
    notify(f"{target.task} of '{target.name}' from {len(data.schema.columns)} columns, "
           f"{data.num_train} rows to train on")  # fmt: skip


def _results(
    data: _Data, settings: FitSettings, model: TableModel, fitted: EnsembleFit, fixed: TableModel | None, place: Path
) -> dict[str, Any]:
    """Predict the test part, write model and predictions, and gather what the report is made of."""
    x_test = torch.from_numpy(data.x[data.test])
    with limited_threads(1 if len(x_test) < ROWS_FOR_THREADS else None):
        marked = mark_unknown(data.schema, data.x[data.test], data.unknown[data.test], model.background)
        predictions: dict[str, Prediction] = {OURS: model.predict(marked)}
        predictions |= {} if fixed is None else {FIXED: fixed.predict(marked)}
    predictions |= _baseline_predictions(data.schema, data.part(data.train), x_test, settings.seed)
    model.save(place)
    inputs = data.frame.iloc[data.test]
    tested = model.prediction_frame(predictions[OURS])
    tested.insert(0, "row", data.rows[data.test])
    tested.insert(1, "observed", inputs[data.schema.target.name].to_numpy())
    tested.to_csv(place / "predictions.csv", index=False)
    target = data.schema.target
    return {
        "format": RESULTS_FORMAT,
        "gumdrop": VERSION,
        "task": target.task,
        "table": {
            "name": data.name,
            "sha256": data.table.sha256,
            "rows": data.num_rows,
            "train_rows": data.num_train,
            "watched_rows": [len(rows) for rows in fitted.held_out],
            "test_rows": len(data.test),
            "features": data.schema.names,
            "encoded_features": data.schema.num_features,
        },
        "target": {"name": target.name, "unit": data.unit, "classes": list(target.classes)},
        "environment": environment(),
        "settings": dataclasses.asdict(settings)
        | {"epochs": _passes(data, settings, fitted), "batch_size": _schedule(data, settings)[0]},
        "best_epochs": [member.best_epoch for member in fitted.members],
        "history": [mean_record(records) for records in zip(*(m.history for m in fitted.members), strict=True)],
        "rates": named_rates(model),
        **test_results(model, predictions, _targets(data.schema, inputs), tested, inputs),
        "notes": data.notes,
    }


def _silent(note: str) -> None:
    """Say nothing."""


def _split(frame: pd.DataFrame, schema: TableSchema, settings: FitSettings) -> tuple[list[int], list[int]]:
    """Split row numbers into training and test parts, classes in equal shares; a class of one row is trained on."""
    rows = np.arange(len(frame))
    test_size = min(max(1, round(settings.test_fraction * len(frame))), len(frame) - 1)
    if schema.target.task == "classification":
        test = _stratified(schema.encode_target(frame), test_size, settings.seed)
    else:
        test = train_test_split(rows, test_size=test_size, random_state=settings.seed)[1]
    train = np.setdiff1d(rows, test)
    if len(train) < 10:
        raise TableError(
            f"{len(frame)} rows leave {len(train)} to train on, beside {len(test)} to test, and at least 10 are "
            "needed; add rows or lower --test-fraction"
        )
    return train.tolist(), np.sort(test).tolist()


def _stratified(classes: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Draw rows evenly from all rows sorted by class, in random order within each, but none that is alone in its."""
    order = np.random.default_rng(seed).permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    order = order[np.bincount(classes)[classes[order]] > 1]
    places = (np.arange(count) + 0.5) * len(order) / count
    return np.asarray(order[np.unique(places.astype(int))])


def _targets(schema: TableSchema, frame: pd.DataFrame) -> Tensor:
    """Targets in the user's units, in float64, or class indices."""
    target = schema.target
    if target.task == "classification":
        return torch.from_numpy(schema.encode_target(frame))
    return torch.from_numpy(numbers_of(target.name, frame[target.name])).unsqueeze(1)


def _passes(data: _Data, settings: FitSettings, fitted: EnsembleFit) -> int:
    """Passes that were made; a long one over a stream is several epochs."""
    return data.streamed.schedule(settings)[1] if data.streamed else len(fitted.members[0].history)


def _schedule(data: _Data, settings: FitSettings) -> tuple[int, int]:
    if data.streamed:
        return data.streamed.schedule(settings)
    return schedule(len(data.train), batch_size=settings.batch_size, epochs=settings.epochs)


def _train_until_stopped(
    data: _Data, settings: FitSettings, partial: Path, progress: bool, notify: Callable[[str], object]
) -> tuple[TableModel, EnsembleFit, dict[str, int] | None]:
    """Train; where that is interrupted, finish with what was learned until the last checkpoint."""
    checkpoint, short = partial / "learned.checkpoint", partial / "short.checkpoint"
    try:
        return *_train(data, settings, False, checkpoint, progress and OURS), None
    except KeyboardInterrupt:
        done, planned = shortened(checkpoint, short), _schedule(data, settings)[1]
        if not done:
            raise KeyboardInterrupt("stopped before there was a model to keep") from None
    notify(f"stopped after {done} of {planned} epochs; finishing with what was learned (Ctrl-C again leaves it)")
    model, fitted = _train(data, dataclasses.replace(settings, epochs=done), False, short, False)
    short.unlink()
    return model, fitted, {"done": done, "planned": planned}


def _train_twin(
    data: _Data, settings: FitSettings, partial: Path, progress: bool
) -> tuple[TableModel | None, dict[str, int] | None]:
    """Train the same ensemble with fixed rates; an interruption costs that comparison alone."""
    try:
        return _train(data, settings, True, partial / "fixed.checkpoint", progress and FIXED)[0], None
    except KeyboardInterrupt:
        planned = _schedule(data, settings)[1]
        return None, {"done": planned, "planned": planned}


def _train(
    data: _Data, settings: FitSettings, fixed: bool, checkpoint: Path, progress: bool | str
) -> tuple[TableModel, EnsembleFit]:
    schema = data.schema

    def make() -> nn.Module:
        network = table_network(schema, settings.hidden)
        return fix_dropout(network) if fixed else network

    if data.streamed:
        watched = data.part(data.train)
        fitted = data.streamed.fit(make, schema, watched, settings, checkpoint=checkpoint, progress=progress)
        return _table_model(data, settings, fitted), fitted
    versions, regression = None, schema.target.task == "regression"
    if regression:  # the noise is beside the spread of what predictions draw for unknown cells
        donors = data.background(settings.num_background)
        marked = mark_unknown(schema, data.x[data.train], data.unknown[data.train], donors)
        versions = [completer(marked, donors)]
    (fitted,) = fit_ensembles(
        make,
        [data.part(data.train)],
        settings.ensemble(),
        regression=regression,
        versions=versions,
        checkpoint=checkpoint,
        progress=progress,
    )
    return _table_model(data, settings, fitted), fitted


def _table_model(data: _Data, settings: FitSettings, fitted: EnsembleFit) -> TableModel:
    background = data.background(settings.num_background)
    fields = (settings.num_samples, settings.coverage, settings.seed, data.unit, background)
    return TableModel(data.schema, fitted.model, settings.hidden, *fields)


def _baseline_predictions(
    schema: TableSchema, train: tuple[Tensor, Tensor], x: Tensor, seed: int
) -> dict[str, Prediction]:
    x_train, y_train = train
    target = schema.target
    if target.task == "classification":
        num_classes = len(target.classes)
        return {
            "gradient-boosted trees": boosted_classes(x_train, y_train, num_classes, x, seed=seed),
            "linear model": linear_classes(x_train, y_train, num_classes, x),
            UNSKILLED[target.task]: frequencies(y_train, num_classes, len(x)),
        }
    return {
        "gradient-boosted trees": in_units(boosted_regression(x_train, y_train, x, seed=seed), target),
        "linear model": in_units(linear_regression(x_train, y_train, x, seed=seed), target),
        UNSKILLED[target.task]: in_units(mean_of_targets(y_train, len(x)), target),
    }


def _write_json(path: Path, contents: dict[str, Any]) -> None:
    path.write_text(json.dumps(contents, allow_nan=False) + "\n", encoding="utf-8")
