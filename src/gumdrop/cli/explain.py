"""``gumdrop explain``: which columns drive the predictions of a model."""

from functools import partial
from pathlib import Path

from gumdrop.cli.flags import Count, Flag, Json
from gumdrop.cli.paths import check_free, stem
from gumdrop.tables.errors import STDIN
from gumdrop.tables.folders import model_folder
from gumdrop.tables.plain import plain
from gumdrop.tables.reading.source import check_early, is_pipe
from gumdrop.views.terminal import Voice


def explain(
    folder: Path,
    table: Path | None = None,
    /,
    *,
    most: Count = 20,
    orders: Count | None = None,
    against: Path | None = None,
    out: Path | None = None,
    seed: int = 0,
    overwrite: Flag = False,
    machine: Json = False,
) -> None:
    """Show which columns drive the predictions, and which drive what the model is unsure of for want of data.

    Each row is compared with the training rows that were kept with the model: a column's share is what its value
    changes, averaged over the orders in which the columns may be changed (Shapley values).

    Args:
        folder: What `gumdrop fit` left.
        table: CSV or Parquet file with rows to explain; - for standard input. Without it, the model as a whole.
        most: Rows to explain, from the top of the table.
        orders: Random orders of the columns for each row; four times as many halve the chance in the shares. By
            default 100, and 25 of a table of more than 60 columns, of which the 40 that matter most are told apart.
        against: Table whose rows stand for the usual one, in place of those that were kept with the model.
        out: Page to write; by default the name of the table, or of the folder, with `.explained.html`.
        seed: Seed of the orders.
        overwrite: Replace the page if it exists.
        machine: Write one JSON object to standard output, and words to standard error; the page is written only if
            --out names it.
    """
    voice = Voice(machine)
    name = folder.resolve().name if table is None else "rows" if is_pipe(table) else stem(table)
    path = None if machine and out is None else out or Path(f"{name}.explained.html")
    check_free(path, table or Path(STDIN), overwrite)
    whole = model_folder(folder, voice.say)
    for given in filter(None, (table, against)):
        check_early(given)

    from gumdrop.tables.explanation import explain_table  # torch and all: what can be refused was
    from gumdrop.tables.model_file import load_table_model
    from gumdrop.views.explanation import show_explanation, write_page

    explanation = explain_table(
        load_table_model(whole),
        table,
        most=most,
        orders=orders,
        against=against,
        seed=seed,
        progress=True,
        notify=voice.say,
    )
    told = {"command": "explain", "folder": str(folder), **plain(explanation)}
    voice.answer(told, partial(show_explanation, explanation=explanation), path, partial(write_page, explanation))
