"""``gumdrop evaluate``: how well a model does on a table that holds the target."""

from functools import partial
from pathlib import Path

from gumdrop.cli.flags import Flag, Fraction, Json
from gumdrop.cli.paths import check_free, table_name, with_coverage
from gumdrop.tables.folders import model_folder
from gumdrop.tables.plain import plain
from gumdrop.tables.reading.source import check_early
from gumdrop.views.terminal import Voice


def evaluate(
    folder: Path,
    table: Path,
    /,
    *,
    coverage: Fraction | None = None,
    update: Flag = False,
    page: Path | None = None,
    overwrite: Flag = False,
    machine: Json = False,
) -> None:
    """Score the predictions of a table that holds the target, beside those of the test part of the fit.

    Args:
        folder: What `gumdrop fit` left.
        table: CSV or Parquet file with the columns that the model was trained on, and the target; - for standard input.
            Rows where the target is missing are left out.
        coverage: Probability of the intervals to score; by default that of the fit.
        update: Let the conformal levels of the model follow these rows, in the order of the table, once they are
            scored; the folder keeps what comes of it.
        page: Page to write beside: the scores, figures of the predictions beside what was observed, and the rows that
            surprise the model most.
        overwrite: Replace the page if it exists.
        machine: Write one JSON object to standard output, and words to standard error.
    """
    voice = Voice(machine)
    whole = model_folder(folder, voice.say)
    check_free(page, table, overwrite, "--page")
    check_early(table)

    from gumdrop.tables.following import follow, put_model
    from gumdrop.tables.model_file import load_table_model  # torch and all: what can be refused was
    from gumdrop.tables.prediction import predict_known
    from gumdrop.tables.results import RESULTS_FILE, read_results
    from gumdrop.views.info import show_evaluation

    def write(path: Path) -> None:
        from gumdrop.views.predicted import write_evaluation  # matplotlib

        write_evaluation(model, predicted, frame, rows, path, name=table_name(table), fitted=fitted)

    model = with_coverage(loaded := load_table_model(whole), coverage)
    predicted, frame, rows = predict_known(model, table)
    assert predicted.evaluation is not None, "the target is known"
    voice.say_all(predicted.notes)
    fitted = read_results(whole) if (page is not None or not machine) and (whole / RESULTS_FILE).is_file() else None
    told = {"command": "evaluate", "folder": str(folder), **plain(predicted.evaluation), "notes": predicted.notes}
    told |= {"drift": plain(predicted.drift)}
    if update:
        put_model(follow(loaded, frame, predicted.scored), whole, voice.say)  # which keeps its own coverage
        voice.say(f"the conformal levels in {whole} have followed {len(frame):,} rows")
    voice.answer(told, partial(show_evaluation, evaluation=predicted.evaluation, fitted=fitted), page, write)
