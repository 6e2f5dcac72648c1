"""``gumdrop fit``: a table in, a folder with the model and its report out."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gumdrop.cli.flags import FIELDS, Flag, Json
from gumdrop.cli.paths import stem
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.reading.declared import Reading
from gumdrop.tables.reading.source import check_early, check_named, is_pipe
from gumdrop.views.terminal import Voice

if TYPE_CHECKING:
    from gumdrop.tables.results import FitResults, Stopped


def fit(
    table: Path,
    *,
    target: str = "",
    out: Path | None = None,
    reading: Annotated[Reading, FIELDS] = Reading(),
    settings: Annotated[FitSettings, FIELDS] = FitSettings(),
    config: Path | None = None,
    overwrite: Flag = False,
    quiet: Flag = False,
    machine: Json = False,
) -> int:
    """Train networks on a table, and leave a folder with the model, test predictions and a report to look at.

    Ctrl-C keeps the model as it is by then, and the same command goes on from there.

    Args:
        table: CSV file (also gzipped) with a header line, or Parquet file; - for standard input.
        target: Column to predict; rows where it is missing are left out. With --lower and --upper what to call it.
        out: Folder to make; by default the table's name without its ending.
        reading: What the columns are.
        settings: The choices of the fit.
        config: TOML file with any of these flags, such as the config.toml that every fit writes; flags on the
            command line count more.
        overwrite: Replace the folder if it exists.
        quiet: Show no progress.
        machine: Write one JSON object to standard output, and words to standard error.

    Returns:
        Exit status.
    """
    from gumdrop.tables.fitting.folder import check_out

    path = out or Path("table" if is_pipe(table) else stem(table))
    check_named(table, target)
    if not settings.stream:
        whole = [target] if reading.lower is None else []
        grouped = [*settings.conformal_by, *([settings.split_by] if settings.split_by else [])]
        check_early(table, [*whole, *reading.known, *reading.drop, *reading.categories, *grouped])
    if settings.test is not None:
        check_early(settings.test)
    check_out(path, overwrite=overwrite)

    from gumdrop.tables.fitting.fit import fit_table  # torch and all: what can be refused was
    from gumdrop.views.report import write_report

    voice = Voice(machine)
    made: list[FitResults] = []

    def finish(results: FitResults, folder: Path) -> None:
        write_report(folder, results, name=path.resolve().name)
        made.append(results)

    told: dict[str, Any] = {"overwrite": overwrite, "progress": not quiet, "notify": voice.say, "finish": finish}
    fit_table(table, target, path, reading=reading, settings=settings, **told)
    if not made:  # another process of this fit writes and tells
        return 0
    voice.answer(_told(made[0], path) if machine else {}, partial(_show, results=made[0], path=path))
    return _stopped(voice, made[0].stopped, path)


def _show(voice: Voice, results: FitResults, path: Path) -> None:
    """Show the scores and what to do next."""
    from gumdrop.views.info import show_scores
    from gumdrop.views.report import verdict_words

    show_scores(voice, results)
    if results.curves is None:
        voice.say(verdict_words(results))
    voice.say(f"Look at  {path / 'report.html'}")
    voice.say(f"Predict  gumdrop predict {shlex.quote(str(path))} NEW.csv")


def _told(results: FitResults, path: Path) -> dict[str, object]:
    """What a machine needs of the results."""
    keys = ("task", "target", "table", "scores", "paired", "rates", "rates_note", "stopped", "notes", "seconds")
    known = results.to_json()
    folder = {"command": "fit", "folder": str(path), "report": str(path / "report.html")}
    return folder | {key: known[key] for key in keys}


def _stopped(voice: Voice, stopped: Stopped | None, path: Path) -> int:
    """Exit status of a fit, with words on what an interruption cost."""
    if stopped is None:
        return 0
    early = stopped.done < stopped.planned
    what = f"after {stopped.done} of {stopped.planned} epochs" if early else "before the comparison with other dropout"
    voice.say(f"Stopped {what}: {path} holds the model as it was then; the same command goes on from there")
    return 130
