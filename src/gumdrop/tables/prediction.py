"""Predict the rows of a table with a model from a folder, tell what was odd in them, and write them."""

import contextlib
import csv
import dataclasses
import functools
import gzip
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import torch

from gumdrop.machine.files import replacing
from gumdrop.machine.picking import evenly
from gumdrop.tables.drift import Drift, find_drift
from gumdrop.tables.errors import STDIN, TableError, check_present
from gumdrop.tables.fitting.settings import PredictionSettings
from gumdrop.tables.model import ROWS_OF_A_PART, TableModel
from gumdrop.tables.notes import encoding_notes, extra_notes, without_target
from gumdrop.tables.reading.frame import read_texts
from gumdrop.tables.reading.table import read_table
from gumdrop.tables.schema.schema import Encoded
from gumdrop.tables.scoring import Evaluation, evaluate, known_target
from gumdrop.tables.streams.pieces import TableStream
from gumdrop.tables.task import Prediction

SETTINGS = PredictionSettings()


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predictions of a table, and what was odd in it."""

    frame: pd.DataFrame
    """One row for each row of the table, see `TableModel.prediction_frame`; beside it the number of cells of the row
    that are missing, of a category that training did not have, and far outside the numbers of training. Without rows
    where these were given away part by part."""
    unseen: dict[str, dict[str, int]]
    """Count of each category that training did not have, by column."""
    missing: dict[str, int]
    """Count of missing cells, by column."""
    outside: dict[str, int]
    """Count of numbers beyond the training range by more than a standard deviation, by column."""
    notes: list[str]
    """The same in sentences."""
    evaluation: Evaluation | None = None
    """Scores of some of the rows whose target is known, spread evenly; None if the table does not hold it."""
    drift: Drift | None = None
    """How the table differs from what the model was trained on; None if that cannot be told, and for streams."""
    scored: Prediction | None = None
    """Of the rows that were scored; None if none were."""


def predict_frame(
    model: TableModel,
    frame: pd.DataFrame,
    settings: PredictionSettings = SETTINGS,
    *,
    spelled: pd.DataFrame | None = None,
    most_scored: int = 2000,
) -> Predicted:
    """Predict a table, and score some rows whose target is known: the CRPS takes the square of the draws for each."""
    check_present(frame.columns, settings.keep)
    beside = frame if spelled is None else spelled
    starts = range(0, len(frame), ROWS_OF_A_PART)  # bounds the memory that the draws take
    scored, unscored = _rows_to_score(model, frame, most_scored)
    parts = []
    kept: list[Any] = []
    for start in starts:
        part = frame.iloc[start : start + ROWS_OF_A_PART]
        predicted, encoded, prediction = _predict_part(model, part, beside.iloc[start : start + len(part)], settings)
        parts.append((predicted, encoded))
        here = scored[(scored >= start) & (scored < start + len(part))] - start
        kept += [prediction.rows(torch.from_numpy(here))] if len(here) else []
    whole = functools.reduce(_joined, (encoded for _, encoded in parts))
    predictions = pd.concat([part for part, _ in parts], ignore_index=True)
    notes = [
        *extra_notes(model.schema, list(frame.columns), [*model.grouped_by, *settings.keep]),
        *encoding_notes(model.schema, whole, model.background),
    ]
    known = type(kept[0]).joined(kept) if kept else None
    evaluation = None if known is None else evaluate(model, frame.iloc[scored], known)
    drift = find_drift(model, frame, predictions[model.task.epistemic].to_numpy())
    notes += [*unscored, *(drift.notes if drift else [])]
    return Predicted(predictions, whole.unseen, whole.missing, whole.outside, notes, evaluation, drift, known)


def predict_known(model: TableModel, table: object) -> tuple[Predicted, pd.DataFrame, np.ndarray]:
    """Predict and score the rows of a table whose target is known; these rows, and their numbers from 1, beside."""
    read, target = read_table(table, **model.reading), model.schema.target.name
    whole = model.schema.with_ends(read.frame)
    known = known_target(model, whole)
    frame = whole.iloc[known]
    predicted = predict_frame(model, frame, most_scored=len(frame))
    left_out = without_target(int(whole[target].count()), len(whole), target)
    return dataclasses.replace(predicted, notes=[*read.notes, *left_out, *predicted.notes]), frame, known + 1


def _rows_to_score(model: TableModel, frame: pd.DataFrame, most: int) -> tuple[np.ndarray, list[str]]:
    """Places of rows whose target is known, spread evenly; and why there are none though the table has the column."""
    none, target = np.empty(0, dtype=np.int64), model.schema.target.name
    columns = model.schema.target.columns
    if not {*columns} <= {*frame.columns} or frame[columns].isna().all(axis=None):
        return none, []
    try:
        known = known_target(model, frame)
    except TableError as error:
        return none, [f"'{target}' is not used, and cannot be scored: {error}"]
    return known[evenly(len(known), most)], []


def predict_stream(
    model: TableModel,
    stream: TableStream,
    write: Callable[[pd.DataFrame], object],
    settings: PredictionSettings = SETTINGS,
    *,
    progress: bool = False,
) -> Predicted:
    """Predict a table that does not fit into memory."""
    from tqdm.auto import tqdm

    kept = [*model.schema.carried(stream.names), *settings.keep]
    names = list(dict.fromkeys([*model.schema.names, *model.grouped_by, *kept]))
    check_present(stream.names, names)
    whole, columns = None, None
    with tqdm(total=stream.num_rows, unit="row", unit_scale=True, disable=None if progress else True) as bar:
        for piece in stream.pieces:
            as_written = stream.read(piece, kept or names[:1], as_written=True)
            for (_, frame), (_, beside) in zip(stream.read(piece, names), as_written, strict=True):
                frame, _ = read_texts(frame, **model.reading)
                beside = beside.astype({name: stream.dtype(name) for name in kept})
                part, encoded, _ = _predict_part(model, frame, beside, settings)
                part.insert(0, "row", frame.index + 1)
                write(part)
                whole, columns = encoded if whole is None else _joined(whole, encoded), part[:0]
                bar.update(len(part))
    assert whole is not None, "a stream has rows"
    assert columns is not None
    notes = [
        *extra_notes(model.schema, stream.names, [*model.grouped_by, *settings.keep]),
        *encoding_notes(model.schema, whole, model.background),
    ]
    return Predicted(columns, whole.unseen, whole.missing, whole.outside, notes)


def _predict_part(
    model: TableModel, frame: pd.DataFrame, beside: pd.DataFrame, settings: PredictionSettings
) -> tuple[pd.DataFrame, Encoded, Prediction]:
    """Predict a few rows, behind identifiers and columns to keep of the frame beside; what is odd comes without."""
    predictions, rows, prediction = model.predict_part(frame, settings)
    own = ["row", *predictions.columns]
    if both := [name for name in own if name in settings.keep]:
        raise TableError(f"column {both[0]!r} cannot be kept, because a column of the predictions has this name")
    identifiers = [name for name in model.schema.carried(beside.columns) if name not in own]
    for position, name in enumerate(dict.fromkeys([*identifiers, *settings.keep])):
        predictions.insert(position, name, beside[name].array)
    counts = dataclasses.replace(rows, x=rows.x[:0], odd_cells={}, unknown=rows.unknown[:0])
    return predictions, counts, prediction


def _joined(one: Encoded, other: Encoded) -> Encoded:
    """The counts of two parts of a table together."""
    missing, outside, changed = (
        Counter(getattr(one, kind)) + Counter(getattr(other, kind)) for kind in ("missing", "outside", "changed")
    )
    unseen: dict[str, dict[str, int]] = {
        name: Counter(one.unseen.get(name, {})) + Counter(other.unseen.get(name, {}))
        for name in one.unseen | other.unseen
    }
    return Encoded(one.x, unseen, missing, outside, changed, one.odd_cells, one.unknown)


Write = Callable[[pd.DataFrame], None]


@contextlib.contextmanager
def written_table(path: Path) -> Iterator[Write]:
    """Open a table to write, in the format that its name ends with."""
    if str(path) == STDIN:
        yield _csv(sys.stdout.write)
        return
    with contextlib.ExitStack() as stack:
        file: Any = stack.enter_context(replacing(path, "wb"))
        if path.suffix.lower() in {".parquet", ".pq"}:
            yield stack.enter_context(_parquet(file, path))
            return
        if path.suffix == ".gz":  # the same rows, the same bytes
            file = stack.enter_context(gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0))
        yield _csv(lambda text: file.write(text.encode()))


def _csv(write: Callable[[str], object]) -> Write:
    header = True

    def write_rows(frame: pd.DataFrame) -> None:
        nonlocal header
        texts = frame.select_dtypes(["object", "string"])
        has_returns = any(texts[name].astype(str).str.contains("\r", regex=False).any() for name in texts)
        how: dict[str, Any] = {"quoting": csv.QUOTE_NONNUMERIC} if has_returns else {}  # else these have no quotes
        write(frame.to_csv(index=False, header=header, lineterminator="\n", **how))
        header = False

    return write_rows


@contextlib.contextmanager
def _parquet(file: IO[bytes], path: Path) -> Iterator[Write]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise TableError(f"{path} needs pyarrow: pip install 'gumdrop[parquet]', or write CSV") from error
    with contextlib.ExitStack() as stack:
        writer: Any = None

        def write_rows(frame: pd.DataFrame) -> None:
            nonlocal writer
            rows = pa.Table.from_pandas(frame, schema=writer and writer.schema, preserve_index=False)
            writer = writer or stack.enter_context(pq.ParquetWriter(file, rows.schema))
            writer.write_table(rows)

        yield write_rows
