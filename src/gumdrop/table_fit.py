"""Fit a table: split it, train, hold a test part against plain models, and leave a folder that tells all."""

import contextlib
import dataclasses
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from gumdrop.baselines import boosted_classes, boosted_regression, frequencies, mean_of_targets
from gumdrop.conversion import dropout_rates, fix_dropout
from gumdrop.datasets.schema import TableSchema, Task, infer_schema
from gumdrop.datasets.tabular import TableError, read_table
from gumdrop.ensembles import EnsembleFit, fit_classification_ensembles, fit_regression_ensembles, schedule
from gumdrop.environment import environment
from gumdrop.metrics import accuracy, calibration_error, central_coverage, crps, interval_coverage, reliability, rmse
from gumdrop.prediction import ClassificationPrediction, RegressionPrediction
from gumdrop.tables import TableModel, encoding_notes, replace_target, table_network
from gumdrop.training import CheckpointError, EpochRecord
from gumdrop.version import VERSION

__all__ = ["FitSettings", "fit_table"]

RESULTS_FORMAT = 1
OURS, FIXED = "learned dropout", "fixed dropout, p = 0.1"
OWN_FILES = {"model.json", "model.safetensors", "predictions.csv", "results.json", "report.html"}
"""What a fit leaves; a folder with anything else in it is never removed."""
Prediction = RegressionPrediction | ClassificationPrediction


@dataclass(frozen=True)
class FitSettings:
    """Everything about a fit that is a choice; written into the results."""

    hidden: tuple[int, ...] = (50, 50)
    """Units of the hidden layers of each network."""
    num_members: int = 5
    """Networks in the ensemble."""
    epochs: int | None = None
    """Passes over the training part; None for about 2,500 steps, and at least 20 passes."""
    batch_size: int | None = None
    """Rows per step; None for the power of two above a 64th of the training part, between 32 and 1,024."""
    lr: float = 1e-2
    """Largest learning rate of the cycle."""
    seed: int = 0
    """Seed of the split, the initial weights, the training and the draws."""
    num_samples: int = 100
    """Draws for a prediction, spread over the networks."""
    coverage: float = 0.9
    """Probability of the intervals."""
    test_fraction: float = 0.2
    """Share of the rows that is held out for the report."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("coverage", "test_fraction"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise ValueError(f"`{name}` must be strictly between 0 and 1, got {value}")
        for name in ("num_members", "epochs", "batch_size", "num_samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}")
        if not self.lr > 0:
            raise ValueError(f"`lr` must be positive, got {self.lr}")
        if self.seed < 0:
            raise ValueError(f"`seed` must be at least 0, got {self.seed}")
        if any(size < 1 for size in self.hidden):
            raise ValueError(f"`hidden` must hold positive sizes, got {list(self.hidden)}")


def fit_table(
    table: str | os.PathLike[str],
    target: str,
    out: str | os.PathLike[str],
    *,
    task: Task | None = None,
    ignore: tuple[str, ...] = (),
    settings: FitSettings = FitSettings(),
    overwrite: bool = False,
    progress: bool = False,
    notify: Callable[[str], object] = lambda note: None,
) -> TableModel:
    """Fit a table and leave a folder: model, test predictions and results.

    The work goes on in ``OUT.partial``, which becomes ``OUT`` when it is whole; a run that was stopped and is
    started again with the same settings goes on from there.

    Args:
        table: CSV file.
        target: Column to predict.
        out: Folder to make.
        task: What the target is; found from its values if None.
        ignore: Columns to leave out.
        settings: Choices of network, training and split.
        overwrite: Replace ``out`` if it exists.
        progress: Show progress bars.
        notify: Called with a sentence for each thing that the reader should know.

    Returns:
        The model.

    Raises:
        TableError: If the table cannot be used, or ``out`` exists.
    """
    place = Path(out)
    _check_free(place, overwrite)
    started = time.monotonic()
    data = _read(Path(table), target, task, ignore, settings)
    schema = data.schema
    for note in data.notes:
        notify(note)
    if task is None and schema.target.classes:
        notify(f"'{target}' is taken as {len(schema.target.classes)} classes; --task regression if it is an amount")
    notify(f"{schema.target.task} of '{target}' from {len(schema.columns)} columns, {len(data.train)} rows to train on")

    partial = place.with_name(place.name + ".partial")
    if overwrite and partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True, exist_ok=True)
    try:
        model, fitted = _train(data, settings, False, partial / "learned.checkpoint", progress and OURS)
        fixed, _ = _train(data, settings, True, partial / "fixed.checkpoint", progress and FIXED)
    except CheckpointError as error:
        raise TableError(
            f"{partial} is left from a stopped fit of another table or with other settings; repeat these to go on "
            f"with it, or add --overwrite to begin anew ({error})"
        ) from error
    x_test = torch.from_numpy(data.x[data.test])
    predictions = {OURS: model.predict(x_test), FIXED: fixed.predict(x_test)}
    predictions |= _baseline_predictions(schema, data.part(data.train), x_test, settings.seed)
    model.save(partial)
    tested = model.prediction_frame(predictions[OURS])
    tested.insert(0, "row", np.asarray(data.test) + 1)
    tested.insert(1, "observed", data.frame.iloc[data.test][target].to_numpy())
    tested.to_csv(partial / "predictions.csv", index=False)
    choices: dict[str, Any] = {"epochs": len(fitted.members[0].history), "batch_size": _batch_size(data, settings)}
    choices |= {"ignore": list(ignore), "task": task}
    contents = _results(data, settings.coverage, model, fitted, predictions, tested)
    contents |= {"settings": dataclasses.asdict(settings) | choices, "seconds": time.monotonic() - started}
    _write_json(partial / "results.json", contents)
    for checkpoint in partial.glob("*.checkpoint"):
        checkpoint.unlink()
    if place.exists():
        shutil.rmtree(place)
    partial.replace(place)
    return model


@dataclass(frozen=True)
class _Data:
    """A table, read, split and encoded."""

    name: str
    frame: pd.DataFrame
    schema: TableSchema
    train: list[int]
    test: list[int]
    x: np.ndarray
    notes: list[str]

    def part(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Inputs and targets of some rows, as the network takes them."""
        return torch.from_numpy(self.x[rows]), torch.from_numpy(self.schema.encode_target(self.frame.iloc[rows]))


def _read(table: Path, target: str, task: Task | None, ignore: tuple[str, ...], settings: FitSettings) -> _Data:
    frame = read_table(table)
    whole = infer_schema(frame, target, task=task, ignore=ignore)
    train, test = _split(frame, whole, settings)
    schema = infer_schema(frame.iloc[train], target, task=whole.target.task, ignore=ignore)
    if whole.target.classes:
        schema = replace_target(schema, whole.target.classes)
    encoded = schema.encode_inputs(frame)
    notes = encoding_notes(schema, encoded.unseen, encoded.missing)
    if repeated := int(frame.duplicated().sum()):
        notes.append(f"{repeated} rows repeat an earlier row, so test rows may have been trained on: scores flatter")
    return _Data(table.name, frame, schema, train, test, encoded.x, notes)


def _results(
    data: _Data,
    coverage: float,
    model: TableModel,
    fitted: EnsembleFit,
    predictions: dict[str, Prediction],
    tested: pd.DataFrame,
) -> dict[str, Any]:
    """What the report is made of."""
    schema, ours = data.schema, predictions[OURS]
    y_test = _targets(schema, data.frame.iloc[data.test])
    return {
        "format": RESULTS_FORMAT,
        "gumdrop": VERSION,
        "task": schema.target.task,
        "table": {
            "name": data.name,
            "rows": len(data.frame),
            "train_rows": len(data.train),
            "watched_rows": [len(rows) for rows in fitted.held_out],
            "test_rows": len(data.test),
            "features": [column.name for column in schema.columns],
        },
        "target": {"name": schema.target.name, "classes": list(schema.target.classes)},
        "environment": environment(),
        "best_epochs": [member.best_epoch for member in fitted.members],
        "history": [_mean_record(records) for records in zip(*(m.history for m in fitted.members), strict=True)],
        "rates": _named_rates(model),
        "scores": [
            {"name": name, "ours": name == OURS, "values": _scores(each, y_test, coverage)}
            for name, each in predictions.items()
        ],
        "score_notes": _score_notes(schema, coverage),
        "calibration": _calibration(ours, y_test),
        "test": _test_rows(model, ours, tested),
        "unsure": _unsure_rows(data.frame, schema, tested, coverage),
        "notes": data.notes,
    }


def _check_free(place: Path, overwrite: bool) -> None:
    """Refuse a folder that would be lost, and one that cannot be made."""
    if not place.name:
        raise TableError(f"--out must name a new folder, got {str(place)!r}")
    if not place.parent.is_dir():
        raise TableError(f"there is no folder {place.parent} to make {place.name} in; make it, or correct --out")
    if not place.exists():
        return
    if not overwrite:
        raise TableError(f"{place} exists already; name another folder with --out, or add --overwrite")
    strange = [path.name for path in place.iterdir() if path.name not in OWN_FILES] if place.is_dir() else [place.name]
    if strange:
        raise TableError(f"{place} holds {strange[0]!r}, which gumdrop did not make, so it is not replaced; see --out")


def _split(frame: pd.DataFrame, schema: TableSchema, settings: FitSettings) -> tuple[list[int], list[int]]:
    """Split row numbers into training and test parts, classes in equal shares where they allow it."""
    classes = schema.encode_target(frame) if schema.target.task == "classification" else None
    counts = np.unique(classes, return_counts=True)[1] if classes is not None else np.array([0])
    test_size = min(max(1, round(settings.test_fraction * len(frame))), len(frame) - 1)
    stratify = classes if counts.min() >= 2 and test_size >= len(counts) else None
    rows = np.arange(len(frame))
    train, test = train_test_split(rows, test_size=test_size, random_state=settings.seed, stratify=stratify)
    if len(train) < 10:
        raise TableError(
            f"{len(frame)} rows leave {len(train)} to train on, beside {len(test)} to test, and at least 10 are "
            "needed; add rows or lower --test-fraction"
        )
    return np.sort(train).tolist(), np.sort(test).tolist()


def _targets(schema: TableSchema, frame: pd.DataFrame) -> Tensor:
    """Targets in the user's units, or class indices."""
    y = torch.from_numpy(schema.encode_target(frame))
    return y if schema.target.task == "classification" else y * schema.target.std + schema.target.mean


def _batch_size(data: _Data, settings: FitSettings) -> int:
    return schedule(len(data.train), batch_size=settings.batch_size)[0]


def _train(
    data: _Data, settings: FitSettings, fixed: bool, checkpoint: Path, progress: bool | str
) -> tuple[TableModel, EnsembleFit]:
    schema = data.schema

    def make() -> nn.Module:
        network = table_network(schema, settings.hidden)
        return fix_dropout(network) if fixed else network

    fit = fit_regression_ensembles if schema.target.task == "regression" else fit_classification_ensembles
    with _threads_for(settings.num_members * max(settings.hidden, default=1) * _batch_size(data, settings)):
        (fitted,) = fit(
            make,
            [data.part(data.train)],
            num_members=settings.num_members,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            lr=settings.lr,
            seed=settings.seed,
            checkpoint=checkpoint,
            progress=progress,
        )
    model = TableModel(schema, fitted.model, settings.hidden, settings.num_samples, settings.coverage, settings.seed)
    return model, fitted


@contextlib.contextmanager
def _threads_for(size: int) -> Iterator[None]:
    """Use one thread for small layers, where several only wait for each other, for seconds an epoch on a busy machine.

    Args:
        size: Numbers that the largest layer computes in one step.

    Yields:
        Nothing.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if size < 2**16 else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _mean_record(records: tuple[EpochRecord, ...]) -> dict[str, Any]:
    """What one epoch did, as the mean over the members."""
    mean = dataclasses.asdict(records[0])
    for name in ("nll", "kl", "validation_nll"):
        values = [getattr(record, name) for record in records]
        mean[name] = None if None in values else float(np.mean(values))
    mean["rates"] = {site: float(np.mean([record.rates[site] for record in records])) for site in records[0].rates}
    return mean


def _baseline_predictions(
    schema: TableSchema, train: tuple[Tensor, Tensor], x: Tensor, seed: int
) -> dict[str, Prediction]:
    x_train, y_train = train
    if schema.target.task == "classification":
        num_classes = len(schema.target.classes)
        return {
            "gradient-boosted trees": boosted_classes(x_train, y_train, num_classes, x, seed=seed),
            "class frequencies": frequencies(y_train, num_classes, len(x)),
        }
    scale, shift = schema.target.std, schema.target.mean
    return {
        "gradient-boosted trees": boosted_regression(x_train, y_train, x, seed=seed).rescale(scale, shift),
        "mean of the training part": mean_of_targets(y_train, len(x)).rescale(scale, shift),
    }


def _scores(prediction: Prediction, target: Tensor, coverage: float) -> dict[str, float]:
    if isinstance(prediction, RegressionPrediction):
        scores = {
            "RMSE": rmse(prediction.mean, target),
            "CRPS": crps(prediction, target),
            "log likelihood": prediction.log_prob(target).mean(),
            f"coverage of {coverage:.0%} interval": interval_coverage(*prediction.interval(coverage), target),
        }
    else:
        scores = {
            "accuracy": accuracy(prediction.label, target),
            "log likelihood": prediction.log_prob(target).mean(),
            "calibration error": calibration_error(prediction, target),
        }
    return {name: value.item() for name, value in scores.items()}


def _score_notes(schema: TableSchema, coverage: float) -> dict[str, str]:
    if schema.target.task == "classification":
        return {
            "accuracy": "share of test rows whose most probable class is right; higher is better",
            "log likelihood": "log of the probability given to the true class, in nats per row; higher is better",
            "calibration error": "mean gap between stated probability and share of right answers; lower is better",
        }
    unit = f"in units of {schema.target.name}"
    return {
        "RMSE": f"typical error of the prediction, {unit}; lower is better",
        "CRPS": f"error of the whole predicted distribution, {unit}; lower is better",
        "log likelihood": "log density given to the observed value, in nats per row; higher is better",
        f"coverage of {coverage:.0%} interval": f"share of test rows inside their interval; should be {coverage:.0%}",
    }


def _calibration(prediction: Prediction, target: Tensor) -> dict[str, list[float]]:
    if isinstance(prediction, RegressionPrediction):
        levels = torch.arange(5, 100, 5) / 100
        return {"expected": levels.tolist(), "observed": central_coverage(prediction, target, levels).tolist()}
    bins = reliability(prediction, target, num_bins=10)
    return {
        "expected": bins.confidence.tolist(),
        "observed": bins.accuracy.tolist(),
        "count": bins.num_rows.tolist(),
    }


def _test_rows(model: TableModel, prediction: Prediction, table: pd.DataFrame) -> dict[str, Any]:
    columns = {"row": "row", "observed": "observed"}
    if model.is_regression:
        columns |= {"mean": "prediction", "lower": "lower", "upper": "upper"}
        columns |= {"epistemic_std": "epistemic_std", "aleatoric_std": "aleatoric_std"}
        return {key: table[name].tolist() for key, name in columns.items()}
    columns |= {"predicted": "prediction", "probability": "probability"}
    columns |= {"predictive_entropy": "predictive_entropy", "mutual_information": "mutual_information"}
    rows = {key: table[name].tolist() for key, name in columns.items()}
    return rows | {"observed": [str(value) for value in rows["observed"]]}


def _unsure_rows(frame: pd.DataFrame, schema: TableSchema, table: pd.DataFrame, coverage: float) -> dict[str, Any]:
    """The ten test rows that the model knows least about, with their inputs."""
    regression = schema.target.task == "regression"
    measure = "epistemic_std" if regression else "mutual_information"
    names = [column.name for column in schema.columns]
    rows = []
    for _, found in table.sort_values(measure, ascending=False).head(10).iterrows():
        row = {
            "row": int(found["row"]),
            "values": [
                "" if pd.isna(v) else f"{v:g}" if isinstance(v, float) else str(v)
                for v in frame.iloc[int(found["row"]) - 1][names]
            ],
            "observed": f"{found['observed']:.5g}" if regression else str(found["observed"]),
            "predicted": f"{found['prediction']:.4g}" if regression else str(found["prediction"]),
            "epistemic": float(found[measure]),
        }
        row["interval"] = (
            f"{found['lower']:.4g} to {found['upper']:.4g}" if regression else f"{found['probability']:.0%}"
        )
        rows.append(row)
    return {"columns": names, "rows": rows}


def _named_rates(model: TableModel) -> list[dict[str, Any]]:
    """Learned rate of each layer: mean over the members, least and most."""
    members = [dropout_rates(member) for member in model.ensemble.members]
    rates = []
    for i, site in enumerate(members[0]):
        label = (
            f"hidden layer {i} ({model.hidden[i - 1]} units)" if i else f"input ({model.schema.num_features} columns)"
        )
        p = [float(member[site]) for member in members]
        rates.append({"site": site, "label": label, "p": float(np.mean(p)), "least": min(p), "most": max(p)})
    return rates


def _write_json(path: Path, contents: dict[str, Any]) -> None:
    path.write_text(json.dumps(contents, allow_nan=False) + "\n", encoding="utf-8")
