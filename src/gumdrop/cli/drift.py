"""``gumdrop drift``: how a new table differs from what a model was trained on."""

from functools import partial
from pathlib import Path

from gumdrop.cli.flags import Flag, Json
from gumdrop.cli.paths import check_free, table_name
from gumdrop.tables.errors import TableError
from gumdrop.tables.folders import model_folder
from gumdrop.tables.plain import plain
from gumdrop.tables.reading.source import check_early
from gumdrop.views.terminal import Voice


def drift(
    folder: Path, table: Path, /, *, page: Path | None = None, overwrite: Flag = False, machine: Json = False
) -> None:
    """Tell which columns of a table are not distributed as in training, and whether the model is less sure of its rows.

    Args:
        folder: What `gumdrop fit` left.
        table: CSV or Parquet file with the columns that the model was trained on; - for standard input.
        page: Page to write beside: the shares of both tables in the bins of each column that differs.
        overwrite: Replace the page if it exists.
        machine: Write one JSON object to standard output, and words to standard error.

    Raises:
        TableError: If the table is too short to tell.
    """
    voice = Voice(machine)
    whole = model_folder(folder, voice.say)
    check_free(page, table, overwrite, "--page")
    check_early(table)

    from gumdrop.tables.drift import LEAST_ROWS  # torch and all: what can be refused was
    from gumdrop.tables.model_file import load_table_model
    from gumdrop.tables.prediction import predict_frame
    from gumdrop.tables.reading.table import read_table
    from gumdrop.views.drift import show_drift, write_page

    model = load_table_model(whole)
    read = read_table(table, **model.schema.reading)
    if len(read.frame) < LEAST_ROWS:
        few = f"{table} has {len(read.frame)} rows, and fewer than {LEAST_ROWS} cannot tell"
        raise TableError(f"{few}: `gumdrop predict` names cells that training did not have")
    predicted = predict_frame(model, read.frame, most_scored=0)
    drift = predicted.drift
    assert drift is not None, "there are rows"
    notes = [*read.notes, *(note for note in predicted.notes if note not in drift.notes)]
    voice.say_all(notes)
    told = {"command": "drift", "folder": str(folder), **plain(drift), "notes": notes}
    write = partial(write_page, drift, name=table_name(table), target=model.schema.target.name, notes=notes)
    voice.answer(told, partial(show_drift, drift=drift), page, write)
