"""Fit a table: split it, train, hold a test part against plain models, and leave a folder that tells all."""

import contextlib
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from gumdrop.machine.environment import environment
from gumdrop.machine.files import saying_that_the_disk_is_full
from gumdrop.machine.threads import ROWS_FOR_THREADS, limited_threads
from gumdrop.machine.version import VERSION
from gumdrop.tables.by_column import by_column
from gumdrop.tables.conformal import conformal_of
from gumdrop.tables.errors import TableError, check_present
from gumdrop.tables.fitting.data import TableData, read_data
from gumdrop.tables.fitting.folder import forget_training, held_folder, put_in_place
from gumdrop.tables.fitting.settings import CONFIG_FILE, FitSettings, config_text
from gumdrop.tables.fitting.train import CHOOSING, TESTING, TWINS, TrainedModel, train_twins, train_until_stopped
from gumdrop.tables.folders import NEW
from gumdrop.tables.info import named_rates, rates_in_words
from gumdrop.tables.model import TableModel
from gumdrop.tables.model_file import save_model
from gumdrop.tables.plain import plain
from gumdrop.tables.prediction import written_table
from gumdrop.tables.profile import Profile, column_profiles
from gumdrop.tables.reading.declared import Reading, as_declared, column_name
from gumdrop.tables.reading.frame import declared_categories
from gumdrop.tables.reading.spelling import plain_numbers
from gumdrop.tables.results import FitResults, Stopped, TargetFacts, write_results
from gumdrop.tables.scoring import OURS, mean_record, test_part
from gumdrop.tables.task import Cut, Prediction
from gumdrop.training import CheckpointError
from gumdrop.training.processes.group import process_group, with_long_timeout
from gumdrop.training.progress import Show, shared_bar

READING, SETTINGS = Reading(), FitSettings()


def fit_table(
    table: object,
    target: str | int,
    out: str | os.PathLike[str] | None = None,
    *,
    reading: Reading = READING,
    settings: FitSettings = SETTINGS,
    overwrite: bool = False,
    progress: bool = False,
    notify: Callable[[str], object] | None = None,
    finish: Callable[[FitResults, Path], object] = lambda results, folder: None,
) -> TableModel:
    """Fit a table and leave a folder: model, test predictions, results, and the choices to repeat it.

    A data frame gives the model that ``gumdrop fit`` gives of the same table in a file, with its columns of the dtype
    `category` in ``--categories``.

    The work goes on in ``OUT.partial``, from where a whole folder is moved to ``OUT``. A run that is interrupted in its
    training leaves the model as it was then in ``OUT``, and the same call goes on from there. One fit at a time works
    on an ``OUT``. Under torchrun the processes train together, and the first of them writes.

    Args:
        table: CSV or Parquet file, ``-`` for standard input, or a data frame, see `gumdrop.tables.read_table`.
        target: Column to predict; of a frame whose columns are integers, an integer.
        out: Folder to make; None keeps nothing but the model that is returned, and trains none to compare with.
        reading: What the columns are, where the table does not tell.
        settings: Choices of network, training and split.
        overwrite: Replace ``out`` if it exists.
        progress: Show a progress bar.
        notify: Called with a sentence for each thing that the reader should know; None for a warning alone where rows
            are left out whose target is a word for missing.
        finish: Called with the results and the folder when all else is in it, before it becomes ``out``; to write a
            page into it.

    Returns:
        The model. Whether its training was interrupted is in the results, as `stopped`.

    Raises:
        TableError: If the table cannot be used, ``out`` exists, or another fit is at work on it.
        TypeError: If ``table`` is neither a file nor a table, or ``target`` no name.
        KeyboardInterrupt: If the run was interrupted before there was anything to keep.
        OSError: If the disk is full; what was trained is kept, and the same call goes on from there.
    """
    group, started, target = with_long_timeout(process_group()), time.monotonic(), column_name(target, "target")
    tell = notify if notify is not None and group.is_first else _in_silence
    with contextlib.ExitStack() as stack:
        path = Path(f"{stack.enter_context(tempfile.TemporaryDirectory())}/model" if out is None else out)
        settings = replace(settings, compare=settings.compare and out is not None)
        full = f"the disk is full: {path} is as it was, and {path}.partial keeps what was trained"
        stack.enter_context(saying_that_the_disk_is_full(f"{full}; make room and try again"))
        partial = group.from_first(lambda: stack.enter_context(held_folder(path, overwrite=overwrite, notify=tell)))
        reading = as_declared(reading, declared_categories(table), target)
        data = read_data(table, target, reading, settings)
        _check_conformal(data, settings)
        _announce(data, reading, tell, is_heard=notify is not None)
        if overwrite:
            group.from_first(lambda: forget_training(partial))
        with shared_bar(progress and group.is_first, _weights(data, settings)) as part:
            trained, twins, stopped = _trained(data, settings, partial, part, tell)
            trained, notes = _on_levels(data, settings, trained)
            part(TESTING)
            if group.is_first:
                model, results = _results(data, reading, settings, trained, twins, partial / NEW)
                seconds = time.monotonic() - started
                results = replace(results, notes=[*data.notes, *notes], stopped=stopped, seconds=seconds)
                _write_rest(data, table, reading, settings, results, partial / NEW)
                finish(results, partial / NEW)
                put_in_place(partial, path, overwrite=overwrite, keep_checkpoints=stopped is not None)
        for note in notes:
            tell(note)
    return model if group.is_first else trained.model


def _in_silence(note: str) -> None:
    """Say nothing."""


def _weights(data: TableData, settings: FitSettings) -> dict[str, float]:
    """What a fit does, with about the share of its time that each part takes."""
    is_chosen = settings.hidden is None and data.streamed is None
    compared = settings.compare and data.streamed is None
    weights = {CHOOSING: 3.0 if is_chosen else 0.0, OURS: 8.0}
    return weights | ({twin.name: 2.5 for twin in TWINS} if compared else {}) | {TESTING: 2.0}


def _trained(
    data: TableData, settings: FitSettings, partial: Path, part: Callable[[str], Show], notify: Callable[[str], object]
) -> tuple[TrainedModel, dict[str, TrainedModel], Stopped | None]:
    """Train the model and, where it was not stopped, those to compare with; and say where it was."""
    try:
        trained, stopped = train_until_stopped(data, settings, partial, part, notify)
        if data.streamed is not None or not settings.compare or stopped is not None:
            return trained, {}, stopped
        fitted = trained.fitted
        alike = replace(settings, epochs=data.passes(settings, fitted), num_members=len(fitted.members))
        return trained, *train_twins(data, alike, trained.architecture, partial, part)
    except CheckpointError as error:
        raise TableError(
            f"{error}. It is left from a stopped fit: the same table and settings go on with it, and --overwrite "
            "begins anew"
        ) from error


def _write_rest(
    data: TableData, table: object, reading: Reading, settings: FitSettings, results: FitResults, partial: Path
) -> None:
    """Write the results, and the choices that repeat them."""
    write_results(results, partial)
    if results.stopped is None:  # what the table decided is written out, but no epochs where pilots decide by them
        names = ("batch_size",) if settings.hidden is None and data.streamed is None else ("epochs", "batch_size")
        decided: dict[str, Any] = {name: results.settings[name] for name in names}
        settings = replace(settings, **decided)
    path = os.fspath(table) if isinstance(table, str | os.PathLike) and not Path(table).is_fifo() else None
    again = f"{'TABLE.csv ' if path is None else ''}--config {CONFIG_FILE}"
    comments = [f"gumdrop {VERSION}; to repeat this run:  gumdrop fit {again} --out NEW_FOLDER"]
    comments += [f"the table, {data.name}, had {data.num_rows} rows and the SHA-256 {data.table.sha256}"]
    text = config_text(path, data.schema.target.name, reading, settings, comments=comments)
    (partial / CONFIG_FILE).write_text(text, encoding="utf-8")


def _announce(data: TableData, reading: Reading, notify: Callable[[str], object], is_heard: bool) -> None:
    if data.left_out and not is_heard:
        warnings.warn(data.left_out[0], stacklevel=3)
    for note in data.notes:
        notify(note)
    target = data.schema.target
    if reading.task is None and target.classes and not plain_numbers(pd.Series(target.classes, dtype=object))[1].any():
        notify(f"'{target.name}' is taken as {len(target.classes)} classes; --task regression if it is an amount")
    notify(f"{target.task} of '{target.name}' from {len(data.schema.columns)} columns, "
           f"{data.num_train} rows to train on")  # fmt: skip


def _results(
    data: TableData,
    reading: Reading,
    settings: FitSettings,
    trained: TrainedModel,
    twins: dict[str, TrainedModel],
    path: Path,
) -> tuple[TableModel, FitResults]:
    """Predict the test part, write model and predictions, and gather what the report is made of."""
    model, fitted, architecture, _ = trained
    predictions, seconds = _predictions(data, settings, trained, twins)
    model = replace(model, cut=_cut(data, trained), profile=_profile(data, model, predictions[OURS]))
    save_model(model, path)
    tested = _write_predictions(data, model, predictions[OURS], path)
    target, inputs = data.schema.target, data.frame.iloc[data.test]
    observed = model.task.observed(data.part(data.test)[1].numpy(), inputs[target.name])
    rates = named_rates(model)
    decided = {"epochs": data.passes(settings, fitted), "batch_size": data.schedule(settings)[0]}
    decided["num_members"] = len(fitted.members)
    decided |= {name: value for name, value in plain(architecture).items() if value is not None}
    results = FitResults(
        gumdrop=VERSION,
        task=target.task,
        table=data.facts([len(rows) for rows in fitted.held_out]),
        target=TargetFacts(name=target.name, unit=data.unit, classes=list(target.classes), step=target.step or None),
        environment=environment(),
        settings=plain(settings) | decided,
        best_epochs=[member.best_epoch for member in fitted.members],
        history=[mean_record(records) for records in zip(*(m.history for m in fitted.members), strict=True)],
        training_seconds=seconds,
        rates=rates,
        rates_note=rates_in_words(rates, len(fitted.members)),
        reading=plain(reading),
        columns=by_column(model, data.marked(data.test, model.background), observed, tested, inputs, settings.split_by),
        **vars(test_part(model, predictions, observed, tested, inputs)),
    )
    return model, results


def _check_conformal(data: TableData, settings: FitSettings) -> None:
    check_present(data.frame.columns, settings.conformal_by)
    if data.schema.target.known and (settings.conformal or settings.conformal_by):
        raise TableError(
            f"`--conformal` needs a target that is seen in each row, and '{data.schema.target.name}' is known in part: "
            "leave it away"
        )


def _on_levels(data: TableData, settings: FitSettings, trained: TrainedModel) -> tuple[TrainedModel, list[str]]:
    """Give a model its conformal levels, if they are wanted, and say what a reader should know of its predictions."""
    model, conformity = trained.model, trained.fitted.conformity
    if not (settings.conformal or settings.conformal_by):
        return trained, model.scale_notes
    watched = data.frame.iloc[data.train[: len(conformity)]]
    conformal, notes = conformal_of(conformity, watched, data.schema, settings.conformal_by)
    return trained._replace(model=replace(model, conformal=conformal)), [*model.scale_notes, *notes]


def _cut(data: TableData, trained: TrainedModel) -> Cut | None:
    """Where to cut the probability of one of two classes, as each network says of rows that it has not seen."""
    model, fitted = trained.model, trained.fitted
    if len(data.schema.target.classes) != 2:
        return None
    predictions: list[Any] = []
    marked, (_, observed) = data.marked(data.train, model.background), data.part(data.train)
    for i, rows in enumerate(fitted.held_out):
        with limited_threads(1):
            predictions.append(model.alone(i, min(model.num_samples, 20), model.seed).predict_encoded(marked[rows]))
    return model.task.best_cut(type(predictions[0]).joined(predictions), observed[torch.cat(fitted.held_out)])


def _profile(data: TableData, model: TableModel, prediction: Prediction) -> Profile:
    """What training rows look like, and how uncertain the model is of rows like them."""
    epistemic = model.prediction_frame(prediction)[model.task.epistemic].to_numpy()
    most = float(np.quantile(epistemic, 0.9))
    columns = column_profiles(data.schema, data.x[data.train], data.unknown[data.train])
    return Profile(columns, most, len(epistemic), int((epistemic > most).sum()))


def _predictions(
    data: TableData, settings: FitSettings, trained: TrainedModel, twins: dict[str, TrainedModel]
) -> tuple[dict[str, Prediction], dict[str, float]]:
    """The test part as all models predict it, also the one that looks at no inputs; and seconds of training."""
    model, networks = trained.model, {OURS: trained, **twins}
    marked = data.marked(data.test, model.background)
    with limited_threads(1 if len(marked) < ROWS_FOR_THREADS else None):
        predictions: dict[str, Prediction] = {name: n.model.predict_encoded(marked) for name, n in networks.items()}
    seconds = {name: each.seconds for name, each in networks.items()}
    predictions[OURS] = model.on_levels(predictions[OURS], data.frame.iloc[data.test])
    x_train, y_train = data.part(data.train)
    if settings.compare:
        others = model.task.baselines(x_train, y_train, torch.from_numpy(data.x[data.test]), settings.seed)
        for name, predict in others.items():
            started = time.monotonic()
            predictions[name] = predict()
            seconds[name] = time.monotonic() - started
    return predictions | {model.task.null_model: model.task.predict_null(y_train, len(data.test))}, seconds


def _write_predictions(data: TableData, model: TableModel, prediction: Prediction, path: Path) -> pd.DataFrame:
    """Write the test part: number of each row, what was observed, and what is predicted."""
    tested = model.prediction_frame(prediction)
    tested.insert(0, "row", data.rows[data.test])
    observed = model.task.written(data.frame.iloc[data.test][data.schema.target.name])
    names = [name for name in data.schema.identifiers if name not in {*observed, *tested}]
    beside = {**data.frame.iloc[data.test][names], **observed}
    for position, (name, values) in enumerate(beside.items(), 1):
        tested.insert(position, name, np.asarray(values))
    with written_table(path / "predictions.csv") as write:
        write(tested)
    return tested
