"""The commands for tables: ``gumdrop fit``, ``predict``, ``explain``, ``info`` and ``demo``."""

from __future__ import annotations

import functools
import json
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import App, Parameter, validators
from cyclopts.config import Toml

from gumdrop.views.terminal import Voice, print_json

if TYPE_CHECKING:
    import pandas as pd

    from gumdrop.tables.model import TableModel
    from gumdrop.tables.prediction import Predicted

__all__ = ["config_from_flag", "demo", "explain", "fit", "info", "predict"]

T = TypeVar("T")
Several = Annotated[tuple[T, ...], Parameter(consume_multiple=True, negative="")]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]
CountOrNone = Annotated[int, Parameter(validator=validators.Number(gte=0))]
Fraction = Annotated[float, Parameter(validator=validators.Number(gt=0, lt=1))]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Flag = Annotated[bool, Parameter(negative="")]
STDIN = "-"


def config_from_flag(app: App, commands: tuple[str, ...], arguments: Any) -> None:
    """Take what the flags of a command do not say from the file that its ``--config`` names.

    Args:
        app: The command.
        commands: Its name.
        arguments: What was found on the command line; filled up in place.

    Raises:
        ValueError: If there is no such file, or it is not TOML.
    """
    tokens = [token for argument in arguments if "--config" in argument.names for token in argument.tokens]
    if not tokens:
        return
    path = Path(tokens[-1].value)
    if not path.is_file():
        raise ValueError(f"--config {path} is not there: name the config.toml of a folder that `gumdrop fit` left")
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"--config {path} is not TOML: {error}") from error
    Toml(path, must_exist=True, use_commands_as_keys=False)(app, commands, arguments)


def fit(
    table: Path,
    *,
    target: str,
    out: Path | None = None,
    task: Literal["regression", "classification"] | None = None,
    drop: Several[str] = (),
    unit: str = "",
    dates: Literal["day-first", "month-first"] | None = None,
    decimal: Literal[".", ","] | None = None,
    hidden: Several[int] = (50, 50),
    members: Count = 5,
    epochs: Count | None = None,
    batch_size: Count | None = None,
    lr: Annotated[float, Parameter(validator=validators.Number(gt=0))] = 1e-2,
    draws: Count = 100,
    coverage: Fraction = 0.9,
    test_fraction: Fraction = 0.2,
    background: CountOrNone = 500,
    stream: Flag = False,
    seed: int = 0,
    config: Path | None = None,
    overwrite: Flag = False,
    quiet: Flag = False,
    machine: Json = False,
) -> int:
    """Train networks on a table, and leave a folder with the model, test predictions and a report to look at.

    Ctrl-C keeps the model as it is by then, and the same command goes on from there.

    Args:
        table: CSV file (also gzipped) with a header line, or Parquet file; - for standard input.
        target: Column to predict; rows where it is missing are left out.
        out: Folder to make; by default the table's name without its ending.
        task: What the target is; found from its values by default: text is classes, numbers are numbers,
            unless there are two of them or they count from 0 or 1 to at most 10.
        drop: Columns to leave out.
        unit: Unit of the target, for the report.
        dates: Order of dates such as 1/2/2024, where the column itself does not tell it.
        decimal: Decimal mark of numbers such as 1,234, where the file itself does not tell it.
        hidden: Units of the hidden layers of each network.
        members: Networks, whose answers are mixed.
        epochs: Passes over the training part; by default about 2,500 steps and at least 20 passes.
        batch_size: Rows per step; by default between 32 and 1,024, more for a longer table.
        lr: Largest learning rate.
        draws: Functions to average in a prediction, spread over the networks.
        coverage: Probability of the intervals.
        test_fraction: Share of the rows that is held out for the report.
        background: Training rows that are kept in the model, to draw unknown cells from and for `gumdrop explain` to
            compare with; 0 keeps none.
        stream: Read a Parquet or Arrow file, or a folder of them, in pieces, so that it need not fit into memory; a
            sample of 20,000 rows tests, and by default the others are passed over once, or for about 2,500 steps.
        seed: Seed of everything random.
        config: TOML file with any of these flags, such as the config.toml that every fit writes; flags on the
            command line count more.
        overwrite: Replace the folder if it exists.
        quiet: Show no progress.
        machine: Write one JSON object to standard output, and words to standard error.

    Returns:
        Exit status.
    """
    from gumdrop.tables.fitting.fit import fit_table
    from gumdrop.tables.fitting.settings import FitSettings, Reading
    from gumdrop.training.processes.group import process_group
    from gumdrop.views.report import write_report

    voice = Voice(machine)
    place = out or Path("table" if str(table) == STDIN else stem(table))
    settings = FitSettings(
        hidden=hidden,
        num_members=members,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        seed=seed,
        num_samples=draws,
        coverage=coverage,
        test_fraction=test_fraction,
        num_background=background,
        stream=stream,
    )
    reading = Reading(task, drop, unit, dates, decimal)
    progress = not quiet
    fit_table(
        table, target, place, reading=reading, settings=settings, overwrite=overwrite, progress=progress,
        notify=voice.say, finish=functools.partial(write_report, name=place.resolve().name),
    )  # fmt: skip
    if not process_group().is_first:
        return 0
    report = place / "report.html"
    results = _results_of(place)
    if machine:
        keys = ("task", "target", "table", "scores", "paired", "rates", "rates_note", "stopped", "notes", "seconds")
        print_json({"command": "fit", "folder": str(place), "report": str(report)} | {k: results[k] for k in keys})
    else:
        _show_scores(voice, results)
        voice.say(f"Look at  {report}")
        voice.say(f"Predict  gumdrop predict {shlex.quote(str(place))} NEW.csv")
    return _stopped(voice, results["stopped"], place)


def _stopped(voice: Voice, stopped: dict[str, int] | None, place: Path) -> int:
    """Exit status of a fit, with words on what an interruption cost."""
    if stopped is None:
        return 0
    done, planned = stopped["done"], stopped["planned"]
    what = f"after {done} of {planned} epochs" if done < planned else "before the comparison with fixed dropout"
    voice.say(f"Stopped {what}: {place} holds the model as it was then; the same command goes on from there")
    return 130


def stem(table: Path) -> str:
    """Name of a table without the ending of its format."""
    name = table.name.removesuffix(".gz")
    for ending in (".csv", ".parquet", ".pq"):
        name = name.removesuffix(ending) or name
    return name


def _results_of(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return results


def _show_scores(voice: Voice, results: dict[str, Any]) -> None:
    from gumdrop.views.info import scores_table

    voice.show(scores_table(results["scores"], f"{results['table']['test_rows']:,} test rows"))
    rates = ", ".join(f"{rate['label']} {rate['p']:.3f}" for rate in results["rates"])
    voice.say(f"Learned dropout rates: {rates}")
    if results["rates_note"]:
        voice.say(results["rates_note"])


def predict(
    folder: Path,
    table: Path,
    /,
    *,
    out: Path | None = None,
    keep: Several[str] = (),
    stream: Flag = False,
    overwrite: Flag = False,
    machine: Json = False,
) -> int:
    """Predict the rows of a new table, with their uncertainty.

    Args:
        folder: What `gumdrop fit` left.
        table: CSV or Parquet file with the columns that the model was trained on; - for standard input.
        out: CSV or Parquet file to write, or - for standard output; by default the table's name with
            `.predictions.csv` for its ending, and standard output for standard input.
        keep: Columns of the table to carry along, such as one that names the rows.
        stream: Read a Parquet or Arrow file, or a folder of them, in pieces, and write predictions as they come, so
            that neither need fit into memory.
        overwrite: Replace the file if it exists.
        machine: Write one JSON object to standard output, and words to standard error; it holds the predictions
            unless --out names a file, or the table is a stream.

    Returns:
        Exit status.

    Raises:
        ValueError: If predictions of a stream are to be in the JSON object.
    """
    from gumdrop.tables.fitting.folder import whole_folder
    from gumdrop.tables.model import load_table_model

    to_pipe = str(table) == STDIN or (machine and not stream)
    place = out or Path(STDIN if to_pipe else stem(table) + ".predictions.csv")
    to_stdout = str(place) == STDIN
    if stream and machine and to_stdout:
        raise ValueError("the JSON object cannot hold the predictions of a stream: name a file with --out")
    voice = Voice(machine or to_stdout)
    model = load_table_model(whole_folder(folder, voice.say))
    if not to_stdout:
        _check_free(place, table, overwrite)
    if stream:
        summary, predictions = _predict_pieces(model, table, place, keep)
    else:
        summary, predictions = _predict_whole(model, table, None if machine and to_stdout else place, keep)
    for note in summary["notes"]:
        voice.say(note)
    if not to_stdout:
        voice.say(f"{summary['rows']} rows -> {place}")
        summary["out"] = str(place)
    elif machine:
        summary["predictions"] = json.loads(predictions.to_json(orient="records", double_precision=15))
    if machine:
        print_json({"command": "predict", **summary})
    return 0


def _predict_whole(
    model: TableModel, table: Path, place: Path | None, keep: tuple[str, ...]
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Predict a table in memory, and write the predictions unless there is no place for them."""
    from gumdrop.tables.prediction import predict_frame
    from gumdrop.tables.reading.table import read_table
    from gumdrop.tables.writing import written_table

    read = read_table(table, decimal=model.schema.decimal)
    predicted = predict_frame(model, read.frame, keep=keep)
    predicted.frame.insert(0, "row", range(1, len(predicted.frame) + 1))
    if place is not None:
        with written_table(place) as write:
            write(predicted.frame)
    summary = _summary(predicted, len(predicted.frame))
    return summary | {"notes": read.notes + predicted.notes}, predicted.frame


def _predict_pieces(
    model: TableModel, table: Path, place: Path, keep: tuple[str, ...]
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Predict a table that is read in pieces, and write predictions as they come."""
    from gumdrop.tables.prediction import predict_stream
    from gumdrop.tables.streams.pieces import TableStream
    from gumdrop.tables.writing import written_table

    stream = TableStream(table)
    with written_table(place) as write:
        predicted = predict_stream(model, stream, write, keep=keep, progress=True)
    return _summary(predicted, stream.num_rows), predicted.frame


def _summary(predicted: Predicted, num_rows: int) -> dict[str, Any]:
    odd = {"unseen": predicted.unseen, "missing": predicted.missing, "outside": predicted.outside}
    return {"rows": num_rows, "columns": list(predicted.frame), "notes": predicted.notes, **odd}


def _check_free(place: Path, table: Path, overwrite: bool) -> None:
    from gumdrop.machine.files import check_file
    from gumdrop.tables.errors import TableError

    check_file(place)
    if str(table) != STDIN and place.resolve() == table.resolve():
        raise TableError(f"{place} is the table itself; name another file with --out")
    if table.resolve() in place.resolve().parents:
        raise TableError(f"{place} would be a file of the table itself; name another one with --out")
    if place.exists() and not overwrite:
        raise TableError(f"{place} exists already; name another file with --out, or add --overwrite")


def explain(
    folder: Path,
    table: Path | None = None,
    /,
    *,
    most: Count = 20,
    orders: Count = 100,
    against: Path | None = None,
    out: Path | None = None,
    seed: int = 0,
    overwrite: Flag = False,
    machine: Json = False,
) -> int:
    """Show which columns drive the predictions, and which drive what the model is unsure of for want of data.

    Each row is compared with the training rows that were kept with the model: a column's share is what its value
    changes, averaged over the orders in which the columns may be changed (Shapley values).

    Args:
        folder: What `gumdrop fit` left.
        table: CSV or Parquet file with rows to explain; - for standard input. Without it, the model as a whole.
        most: Rows to explain, from the top of the table.
        orders: Random orders of the columns for each row; four times as many halve the chance in the shares.
        against: Table whose rows stand for the usual one, in place of those that were kept with the model.
        out: Page to write; by default the name of the table, or of the folder, with `.explained.html`.
        seed: Seed of the orders.
        overwrite: Replace the page if it exists.
        machine: Write one JSON object to standard output, and words to standard error; the page is written only if
            --out names it.

    Returns:
        Exit status.
    """
    from gumdrop.tables.explanation import explain_table
    from gumdrop.tables.fitting.folder import whole_folder
    from gumdrop.tables.model import load_table_model
    from gumdrop.views.explanation import show_explanation, write_page

    voice = Voice(machine)
    name = folder.resolve().name if table is None else "rows" if str(table) == STDIN else stem(table)
    place = None if machine and out is None else out or Path(f"{name}.explained.html")
    if place is not None:
        _check_free(place, table or Path(STDIN), overwrite)
    model = load_table_model(whole_folder(folder, voice.say))
    found = explain_table(
        model, table, most=most, orders=orders, against=against, seed=seed, progress=True, notify=voice.say
    )
    if machine:
        print_json({"command": "explain", "folder": str(folder), **found})
    else:
        show_explanation(voice, found)
    if place is not None:
        write_page(found, place)
        voice.say(f"Look at  {place}")
    return 0


def info(folder: Path, /, *, machine: Json = False) -> int:
    """Tell what a folder of `gumdrop fit` holds: columns, target, rates, versions, and how well it did.

    Args:
        folder: What `gumdrop fit` left.
        machine: Write one JSON object to standard output.

    Returns:
        Exit status.

    Raises:
        TableError: If the folder holds no model, or a file of it is damaged.
    """
    from gumdrop.tables.errors import TableError
    from gumdrop.tables.fitting.folder import whole_folder
    from gumdrop.tables.info import table_info
    from gumdrop.views.info import show_info

    voice = Voice(machine)
    try:
        found = table_info(whole_folder(folder, voice.say))
        if machine:
            print_json({"command": "info", "folder": str(folder), **found})
        else:
            show_info(voice, found)
    except TableError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:  # the model is whole
        raise TableError(f"{folder / 'results.json'} is damaged ({error!r}): fit again, or remove it") from error
    return 0


def demo(*, out: Path = Path("demo")) -> int:
    """Fit, predict and report on real patients: how far diabetes progressed in a year (Efron et al. 2004).

    Args:
        out: Folder for the tables, the model, the predictions and the report; what is there from an
            earlier demo is replaced.

    Returns:
        Exit status.
    """
    from sklearn.datasets import load_diabetes

    from gumdrop.machine.files import replacing

    frame = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
    frame["sex"] = frame["sex"].map({1.0: "one", 2.0: "two"})  # the source does not say which is which
    out.mkdir(parents=True, exist_ok=True)
    known, new = frame.iloc[:-20], frame.iloc[-20:].drop(columns="progression")
    with replacing(out / "diabetes.csv") as file:
        known.to_csv(file, index=False)
    with replacing(out / "new-patients.csv") as file:
        new.to_csv(file, index=False)
    Voice().say(f"{len(known)} patients, 10 measurements each -> {out / 'diabetes.csv'}")
    status = fit(out / "diabetes.csv", target="progression", out=out / "diabetes", overwrite=True)
    place = out / "new-patients.predictions.csv"
    return status or predict(out / "diabetes", out / "new-patients.csv", out=place, overwrite=True)
