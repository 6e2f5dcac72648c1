"""``gumdrop fit``: a table in, a folder with the model and its report out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from gumdrop.cli.flags import Count, CountOrNone, Flag, Fraction, Json, Several
from gumdrop.cli.places import STDIN, stem
from gumdrop.views.terminal import Voice, print_json

if TYPE_CHECKING:
    from gumdrop.tables.fitting.settings import FitSettings, Reading
    from gumdrop.tables.results import FitResults, Stopped

__all__ = ["fit"]


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
    hidden: Several[int] | None = None,
    members: Count | None = None,
    epochs: Count | None = None,
    batch_size: Count | None = None,
    lr: Annotated[float, Parameter(validator=validators.Number(gt=0))] = 1e-2,
    strength: Annotated[float, Parameter(validator=validators.Number(gt=0))] | None = None,
    draws: Count = 100,
    coverage: Fraction = 0.9,
    test_fraction: Fraction = 0.2,
    test: Path | None = None,
    split_by: str | None = None,
    split_as: Literal["time", "groups"] | None = None,
    background: CountOrNone = 500,
    compare: bool = True,
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
        hidden: Units of the hidden layers of each network; by default held-out rows choose the networks.
        members: Networks, whose answers are mixed; by default 10, and 5 from 10,000 rows on.
        epochs: Passes over the training part; by default about 2,500 steps and at least 20 passes.
        batch_size: Rows per step; by default between 32 and 1,024, more for a longer table.
        lr: Largest learning rate.
        strength: How much dropout: 1 for the rates of the evidence lower bound, more for larger rates; by default
            held-out rows choose.
        draws: Functions to average in a prediction, spread over the networks.
        coverage: Probability of the intervals.
        test_fraction: Share of the rows that is held out for the report.
        test: Table that tests; then all rows of the other train.
        split_by: Column that decides which rows test. Of dates the last rows do, of anything else the rows of whole
            groups, such as all visits of a patient, and such a column is no input.
        split_as: What that column is, where it is not as above: numbers can be times, and dates groups.
        background: Training rows that are kept in the model, to draw unknown cells from and for `gumdrop explain` to
            compare with; 0 keeps none.
        compare: Train models to stand beside it in the report: the same networks with a fixed rate and without
            dropout, trees and a line. They take up to two thirds of the time.
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
    from gumdrop.tables.fitting.folder import check_out
    from gumdrop.tables.fitting.settings import FitSettings, Reading
    from gumdrop.tables.reading.header import check_early

    place = out or Path("table" if str(table) == STDIN else stem(table))
    settings = FitSettings(
        hidden=hidden,
        num_members=members,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        strength=strength,
        seed=seed,
        num_samples=draws,
        coverage=coverage,
        test_fraction=test_fraction,
        test=None if test is None else str(test),
        split_by=split_by,
        split_as=split_as,
        num_background=background,
        compare=compare,
        stream=stream,
    )
    check_out(place, overwrite=overwrite)
    if not stream:
        check_early(table, [target, *drop, *([split_by] if split_by else [])])
    if test is not None:
        check_early(test)
    reading = Reading(task, drop, unit, dates, decimal)
    return _fit(table, target, place, reading, settings, overwrite, not quiet, machine)


def _fit(
    table: Path,
    target: str,
    place: Path,
    reading: Reading,
    settings: FitSettings,
    overwrite: bool,
    progress: bool,
    machine: bool,
) -> int:
    """Fit, write the report and tell, now that torch and all are worth loading."""
    from gumdrop.tables.fitting.fit import fit_table
    from gumdrop.views.report import write_report

    voice = Voice(machine)
    told: list[FitResults] = []

    def finish(results: FitResults, folder: Path) -> None:
        write_report(folder, results, name=place.resolve().name)
        told.append(results)

    fit_table(
        table,
        target,
        place,
        reading=reading,
        settings=settings,
        overwrite=overwrite,
        progress=progress,
        notify=voice.say,
        finish=finish,
    )
    if not told:  # another process of this fit writes and tells
        return 0
    _tell(told[0], place, voice, machine)
    return _stopped(voice, told[0].stopped, place)


def _tell(results: FitResults, place: Path, voice: Voice, machine: bool) -> None:
    """Show the scores and what to do next, or write what a machine needs of the results."""
    from gumdrop.views.info import show_scores

    if machine:
        _print_results(results, place)
    else:
        show_scores(voice, results)
        voice.say(f"Look at  {place / 'report.html'}")
        voice.say(f"Predict  gumdrop predict {shlex.quote(str(place))} NEW.csv")


def _print_results(results: FitResults, place: Path) -> None:
    """Write what a machine needs of the results as the command's JSON object."""
    keys = ("task", "target", "table", "scores", "paired", "rates", "rates_note", "stopped", "notes", "seconds")
    told = results.to_json()
    folder = {"command": "fit", "folder": str(place), "report": str(place / "report.html")}
    print_json(folder | {key: told[key] for key in keys})


def _stopped(voice: Voice, stopped: Stopped | None, place: Path) -> int:
    """Exit status of a fit, with words on what an interruption cost."""
    if stopped is None:
        return 0
    early = stopped.done < stopped.planned
    what = f"after {stopped.done} of {stopped.planned} epochs" if early else "before the comparison with other dropout"
    voice.say(f"Stopped {what}: {place} holds the model as it was then; the same command goes on from there")
    return 130
