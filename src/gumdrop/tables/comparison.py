"""Fits side by side: their scores, what they differ in, and row by row where they were tested on the same rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gumdrop.tables.errors import TableError
from gumdrop.tables.results import LIKELIHOOD, FitResults, Gain, RegressionRows, read_results

IGNORED = {"best_epochs"}
"""Settings that say nothing of a choice."""


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """A fit, and how well it did."""

    name: str
    """Its folder, as it was named."""
    table: str
    """The table that was fitted."""
    train_rows: int
    """Rows that trained."""
    test_rows: int
    """Rows that tested."""
    split: str | None
    """Which these are, in words; None where they were drawn at random."""
    scores: dict[str, float | None]
    """Its scores."""
    seconds: float | None
    """How long it took."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How much a score is above that of the first run, by the rows that both were tested on."""

    score: str
    """The score."""
    mean: float
    """That of this run less that of the first."""
    low: float
    """Lower end of its 95 % interval, by `Gain.margin`."""
    high: float
    """Upper end."""
    verdict: Literal["better", "worse", "equal"] | None
    """What it says of this run; `equal` where the interval reaches across 0, None where no way is better."""


@dataclass(frozen=True, kw_only=True)
class Against:
    """A run beside the first."""

    name: str
    """Its folder."""
    rows: int
    """Rows that both were tested on, by their numbers and what was observed."""
    same: bool
    """Whether these are all rows of both: only then are there differences."""
    differences: list[Difference]
    """Row by row, in each score that is a mean over rows that the results hold."""


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """Fits of one target, side by side."""

    target: str
    """The target."""
    unit: str
    """Its unit, for the reader."""
    runs: list[ComparedRun]
    """The fits."""
    notes: dict[str, str]
    """What each score means."""
    against: list[Against]
    """Each but the first beside the first."""
    settings: dict[str, list[Any]]
    """Choices in which they differ: that of each, None for one that it does not know."""
    columns: dict[str, list[bool]]
    """Columns that not all of them use: whether each does."""


def compare_runs(folders: Sequence[Path], names: Sequence[str] | None = None) -> RunComparison:
    """Compare fits of one target."""
    runs = dict(zip(map(str, folders) if names is None else names, map(read_results, folders), strict=True))
    if len(runs) < 2:
        raise TableError(f"comparing takes two different folders at least, got {', '.join(runs)}")
    first = next(iter(runs.values()))
    for name, run in runs.items():
        if (run.target.name, run.task) != (first.target.name, first.task):
            was, now = (f"{each.task} of '{each.target.name}'" for each in (first, run))
            raise TableError(f"{next(iter(runs))} is a {was} and {name} a {now}: compare fits of one target")
    columns = dict.fromkeys(column for run in runs.values() for column in run.table.features)
    uses = {column: [column in run.table.features for run in runs.values()] for column in columns}
    return RunComparison(
        target=first.target.name,
        unit=first.target.unit,
        runs=[_compared(name, run) for name, run in runs.items()],
        notes=first.score_notes,
        against=[_against(name, run, first) for name, run in list(runs.items())[1:]],
        settings=_settings(list(runs.values())),
        columns={column: used for column, used in uses.items() if not all(used)},
    )


def _compared(name: str, run: FitResults) -> ComparedRun:
    return ComparedRun(
        name=name,
        table=run.table.name,
        train_rows=run.table.train_rows,
        test_rows=run.table.test_rows,
        split=run.table.split,
        scores=next(score.values for score in run.scores if score.ours),
        seconds=run.seconds,
    )


def _settings(runs: Sequence[FitResults]) -> dict[str, list[Any]]:
    """Choices that are not the same in all."""
    said = [
        {
            "gumdrop": run.gumdrop,
            "table": run.table.name,
            **run.reading,
            **run.settings,
            "checksum": run.table.sha256[:12],
        }
        for run in runs
    ]
    names = dict.fromkeys(name for each in said for name in each if name not in IGNORED)
    values = {name: [each.get(name) for each in said] for name in names}
    return {name: each for name, each in values.items() if any(value != each[0] for value in each)}


def _against(name: str, run: FitResults, first: FitResults) -> Against:
    index = {row: i for i, row in enumerate(first.test.row)}
    pairs = [
        (index[row], i)
        for i, row in enumerate(run.test.row)
        if row in index and first.test.observed[index[row]] == run.test.observed[i]
    ]
    same = len(pairs) == len(index) == len(run.test.row)
    return Against(name=name, rows=len(pairs), same=same, differences=_differences(run, first, pairs) if same else [])


def _differences(run: FitResults, first: FitResults, pairs: Sequence[tuple[int, int]]) -> list[Difference]:
    """The differences of scores that are means over rows, so that the luck of the rows cancels."""
    theirs, ours = _row_scores(run), _row_scores(first)
    differences = []
    for score in (name for name in ours if name in theirs):
        rows = [(theirs[score][i], ours[score][k]) for k, i in pairs]
        if any(not math.isfinite(value) for pair in rows for value in pair):
            continue
        gain = _gain([new - old for new, old in rows])
        mean, half = gain.mean, gain.margin(len(rows))
        if score == "RMSE":  # a^2 - b^2 = (a - b)(a + b) for the roots of the means, too
            both = sum(math.sqrt(math.fsum(each) / len(rows)) for each in zip(*rows, strict=True)) or 1.0
            mean, half = mean / both, half / both
        way = first.better(score)
        verdict: Any = None
        if way in ("lower", "higher"):
            verdict = "equal" if abs(mean) <= half else "better" if (mean > 0) == (way == "higher") else "worse"
        differences.append(Difference(score=score, mean=mean, low=mean - half, high=mean + half, verdict=verdict))
    return differences


def _row_scores(run: FitResults) -> dict[str, list[float]]:
    """What each score is the mean of, row by row; of the RMSE its square."""
    test = run.test
    missing = math.nan
    likelihood = None if test.log_likelihood is None else [missing if v is None else v for v in test.log_likelihood]
    if isinstance(test, RegressionRows) and test.observed_upper is not None:
        scores = {}
    elif isinstance(test, RegressionRows):
        observed, mean, lower, upper = (
            [missing if v is None else v for v in values]
            for values in (test.observed, test.mean, test.lower, test.upper)
        )
        coverage = next(name for name in run.scores[0].values if name.startswith("coverage"))
        scores = {
            "RMSE": [(a - b) ** 2 for a, b in zip(observed, mean, strict=True)],
            coverage: [float(a <= y <= b) for y, a, b in zip(observed, lower, upper, strict=True)],
        }
    else:
        scores = {"accuracy": [float(a == b) for a, b in zip(test.observed, test.predicted, strict=True)]}
    return scores if likelihood is None else scores | {LIKELIHOOD: likelihood}


def _gain(values: Sequence[float]) -> Gain:
    """The mean over rows, and its standard error."""
    count = len(values)
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / max(count - 1, 1)
    return Gain(mean, math.sqrt(variance / count))
