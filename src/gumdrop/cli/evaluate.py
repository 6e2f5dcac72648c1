"""``gumdrop evaluate``: how well a model does on a table that holds the target."""

from pathlib import Path

from gumdrop.cli.flags import Flag, Fraction, Json
from gumdrop.cli.places import check_free, table_name, with_coverage
from gumdrop.tables.folders import model_folder
from gumdrop.views.terminal import Voice, print_json


def evaluate(
    folder: Path,
    table: Path,
    /,
    *,
    coverage: Fraction | None = None,
    page: Path | None = None,
    overwrite: Flag = False,
    machine: Json = False,
) -> int:
    """Score the predictions of a table that holds the target, beside those of the test part of the fit.

    Args:
        folder: What `gumdrop fit` left.
        table: CSV or Parquet file with the columns that the model was trained on, and the target; - for standard input.
            Rows where the target is missing are left out.
        coverage: Probability of the intervals to score; by default that of the fit.
        page: Page to write beside: the scores, figures of the predictions beside what was observed, and the rows that
            surprise the model most.
        overwrite: Replace the page if it exists.
        machine: Write one JSON object to standard output, and words to standard error.

    Returns:
        Exit status.
    """
    from gumdrop.tables.reading.source import check_early

    voice = Voice(machine)
    whole = model_folder(folder, voice.say)
    if page is not None:
        check_free(page, table, overwrite, "--page")
    check_early(table)

    from gumdrop.tables.model_file import load_table_model
    from gumdrop.tables.notes import without_target
    from gumdrop.tables.plain import plain
    from gumdrop.tables.prediction import predict_frame
    from gumdrop.tables.reading.table import read_table
    from gumdrop.tables.results import RESULTS_FILE, read_results
    from gumdrop.tables.scoring import known_target  # torch and all: what can be refused was
    from gumdrop.views.info import show_evaluation

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
    fitted = None
    if (page is not None or not machine) and (whole / RESULTS_FILE).is_file():
        fitted = read_results(whole)
    if machine:
        told = {"command": "evaluate", "folder": str(folder), **plain(predicted.evaluation), "notes": notes}
        told |= {"drift": plain(predicted.drift)} | ({"page": str(page)} if page is not None else {})
        print_json(told)
    else:
        show_evaluation(voice, predicted.evaluation, fitted)
    if page is not None:
        from gumdrop.views.evaluated import write_page  # matplotlib

        write_page(model, predicted, frame, known + 1, page, name=table_name(table), fitted=fitted, notes=notes)
        voice.say(f"Look at  {page}")
    return 0
