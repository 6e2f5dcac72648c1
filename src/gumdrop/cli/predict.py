"""``gumdrop predict``: a model and a new table in, predictions with their uncertainty out."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gumdrop.cli.flags import FIELDS, Flag, Json
from gumdrop.cli.paths import check_free, stem, table_name, with_coverage
from gumdrop.tables.errors import STDIN
from gumdrop.tables.fitting.settings import PredictionSettings
from gumdrop.tables.folders import model_folder
from gumdrop.tables.plain import plain
from gumdrop.tables.reading.source import check_early, is_pipe
from gumdrop.views.terminal import Voice

if TYPE_CHECKING:
    from gumdrop.tables.model import TableModel
    from gumdrop.tables.prediction import Predicted


def predict(
    folder: Path,
    table: Path,
    /,
    *,
    out: Path | None = None,
    settings: Annotated[PredictionSettings, FIELDS] = PredictionSettings(),
    stream: Flag = False,
    page: Path | None = None,
    overwrite: Flag = False,
    machine: Json = False,
) -> None:
    """Predict the rows of a new table, with their uncertainty.

    Args:
        folder: What `gumdrop fit` left.
        table: CSV or Parquet file with the columns that the model was trained on; - for standard input.
        out: CSV or Parquet file to write, or - for standard output; by default the table's name with
            `.predictions.csv` for its ending, and standard output for standard input.
        settings: What is wanted of the predictions.
        stream: Read a Parquet or Arrow file, or a folder of them, in pieces, and write predictions as they come, so
            that neither need fit into memory.
        page: Page to write beside: figures of the predictions and of both parts of their uncertainty, the rows that are
            least like training, and scores where the table holds the target.
        overwrite: Replace the files if they exist.
        machine: Write one JSON object to standard output, and words to standard error; it holds the predictions
            unless --out names a file, or the table is a stream.
    """
    to_pipe = is_pipe(table) or (machine and not stream)
    path = out or Path(STDIN if to_pipe else stem(table) + ".predictions.csv")
    to_stdout = str(path) == STDIN
    _check_outputs(page, path, stream, in_json=machine and to_stdout)
    voice = Voice(machine, is_piped=to_stdout)
    whole = model_folder(folder, voice.say)
    if not stream:
        check_early(table, settings.keep)
    check_free(None if to_stdout else path, table, overwrite)
    check_free(page, table, overwrite, "--page")

    from gumdrop.tables.model_file import load_table_model  # torch and all: what can be refused was

    model = with_coverage(load_table_model(whole), settings.coverage)
    if stream:
        predicted, num_rows = _predict_pieces(model, table, path, settings)
    else:
        file = None if machine and to_stdout else path
        predicted, num_rows = _predict_whole(model, table, file, page, settings)
    voice.say_all(predicted.notes)
    if (scored := predicted.evaluation) is not None:
        voice.say(f"scores on {scored.rows:,} rows that hold the target: {scored.words}")
    if not to_stdout:
        voice.say(f"{num_rows} row{'s' if num_rows != 1 else ''} -> {path}")
    told = _told(predicted, num_rows, None if to_stdout else path) if machine else {}
    voice.answer(told, lambda voice: None, page)


def _told(predicted: Predicted, num_rows: int, path: Path | None) -> dict[str, object]:
    """What a machine is told; the predictions themselves if no file has them."""
    told: dict[str, object] = {"command": "predict", "rows": num_rows, "columns": list(predicted.frame)}
    told |= {name: getattr(predicted, name) for name in ("notes", "unseen", "missing", "outside")}
    if (scored := predicted.evaluation) is not None:
        told |= {"scores": scored.scores, "scored_rows": scored.rows}
    told["drift"] = plain(predicted.drift)
    if path is not None:
        return told | {"out": str(path)}
    return told | {"predictions": json.loads(predicted.frame.to_json(orient="records", double_precision=15))}


def _check_outputs(page: Path | None, path: Path, stream: bool, in_json: bool) -> None:
    """Refuse two outputs in one file, and predictions of a stream in the JSON object or on a page."""
    if stream and in_json:
        raise ValueError("the JSON object cannot hold the predictions of a stream: name a file with --out")
    if page is not None and stream:
        raise ValueError("--page is not written of a stream: leave it away, or predict a sample of the rows")
    if page is not None and page.resolve() == path.resolve():
        raise ValueError(f"--page and --out must be two files, got {page} twice: name another one with --page")


def _predict_whole(
    model: TableModel, table: Path, path: Path | None, page: Path | None, settings: PredictionSettings
) -> tuple[Predicted, int]:
    """Predict a table in memory, write the predictions and the page where there is a place, and count the rows."""
    from gumdrop.tables.prediction import predict_frame, written_table
    from gumdrop.tables.reading.table import read_table

    read = read_table(table, **model.reading, spelled=[*model.schema.identifiers, *settings.keep])
    predicted = predict_frame(model, read.frame, settings, spelled=read.spelled)
    predicted.frame.insert(0, "row", range(1, len(predicted.frame) + 1))
    if path is not None:
        with written_table(path) as write:
            write(predicted.frame)
    predicted = dataclasses.replace(predicted, notes=read.notes + predicted.notes)
    if page is not None:
        from gumdrop.views.predicted import write_predictions  # matplotlib

        write_predictions(model, predicted, read.frame, page, name=table_name(table))
    return predicted, len(predicted.frame)


def _predict_pieces(model: TableModel, table: Path, path: Path, settings: PredictionSettings) -> tuple[Predicted, int]:
    """Predict a table that is read in pieces, write predictions as they come, and count the rows."""
    from gumdrop.tables.prediction import predict_stream, written_table
    from gumdrop.tables.streams.pieces import TableStream

    stream = TableStream(table)
    with written_table(path) as write:
        predicted = predict_stream(model, stream, write, settings, progress=True)
    return predicted, stream.num_rows
