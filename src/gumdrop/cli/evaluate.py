"""``gumdrop evaluate``: how well a model does on a table that holds the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gumdrop.cli.flags import Fraction, Json
from gumdrop.cli.places import model_folder, with_coverage
from gumdrop.views.terminal import Voice, print_json

if TYPE_CHECKING:
    from gumdrop.tables.evaluation import Evaluation

__all__ = ["evaluate"]


def evaluate(folder: Path, table: Path, /, *, coverage: Fraction | None = None, machine: Json = False) -> int:
    """Score the predictions of a table that holds the target, beside those of the test part of the fit.

    Args:
        folder: What `gumdrop fit` left.
        table: CSV or Parquet file with the columns that the model was trained on, and the target; - for standard input.
            Rows where the target is missing are left out.
        coverage: Probability of the intervals to score; by default that of the fit.
        machine: Write one JSON object to standard output, and words to standard error.

    Returns:
        Exit status.
    """
    from gumdrop.tables.reading.header import check_early

    voice = Voice(machine)
    whole = model_folder(folder, voice)
    check_early(table)

    from gumdrop.tables.evaluation import known_target  # torch and all: what can be refused was
    from gumdrop.tables.loading import load_table_model
    from gumdrop.tables.plain import plain
    from gumdrop.tables.prediction import predict_frame, without_target
    from gumdrop.tables.reading.table import read_table

    model = with_coverage(load_table_model(whole), coverage)
    read = read_table(table, decimal=model.schema.decimal)
    known = known_target(model, read.frame)
    frame = read.frame.iloc[known]
    predicted = predict_frame(model, frame, most_scored=len(frame))
    left_out = without_target(read.frame[model.schema.target.name].notna().to_numpy(), model.schema.target.name)
    notes = [*read.notes, *left_out, *predicted.notes]
    assert predicted.evaluation is not None, "the target is known"
    for note in notes:
        voice.say(note)
    if machine:
        told = {"command": "evaluate", "folder": str(folder), **plain(predicted.evaluation), "notes": notes}
        print_json(told | {"drift": plain(predicted.drift)})
    else:
        _show(voice, predicted.evaluation, whole)
    return 0


def _show(voice: Voice, evaluation: Evaluation, folder: Path) -> None:
    """Show the scores beside those of the fit, where its results are there to read."""
    from gumdrop.tables.results import RESULTS_FILE, read_results
    from gumdrop.views.info import show_evaluation

    fitted = read_results(folder) if (folder / RESULTS_FILE).is_file() else None
    show_evaluation(voice, evaluation, fitted)
