"""The record between a fit and its page, with what it tells of single columns, and its file `results.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gumdrop.tables.errors import TableError
from gumdrop.tables.folders import whole_folder
from gumdrop.tables.plain import SPARSE, FieldError, plain, record
from gumdrop.tables.results.parts import (
    LIKELIHOOD,
    Calibration,
    ClassificationRows,
    Comparison,
    Curves,
    Gain,
    Ranking,
    Rate,
    RegressionRows,
    Score,
    Stopped,
    TableFacts,
    TargetFacts,
    UncertainRows,
)
from gumdrop.training import EpochRecord


@dataclass(frozen=True)
class Importance:
    """How much worse the mean test row is predicted when its cell of a column is that of another row."""

    name: str
    """The column."""
    gains: dict[str, Gain]
    """What the right cell gains: in log likelihood, and in distance from the true value or share of right rows."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How the cells of a column lie in the training rows."""

    name: str
    """The column."""
    kind: str
    """`number`, `date`, `category`, or the cycle of places on one, such as `month`."""
    labels: list[str]
    """All categories, empty for missing cells; of numbers and dates the least and the largest, for the reader."""
    edges: list[float] = field(default_factory=list)
    """Ends of the bins of numbers or dates (days since 1970-01-01): below the least, deciles, the largest."""
    counts: list[int]
    """Training rows in each bin, or of each category; the last are cells that are missing, or of no category."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Test rows that are alike in a column, and how the promises hold for them."""

    column: str
    """The column."""
    words: str
    """What its cells are there, for the reader."""
    rows: int
    """How many rows."""
    held: int
    """Rows whose true value is in its interval, or whose predicted class is right."""
    stated: float
    """Share of the rows that should be: the coverage that was asked for, or the mean probability of the predicted
    class."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The cells of a column in some test rows."""

    name: str
    """The column."""
    numbers: list[float | None] | None = field(default=None, metadata=SPARSE)
    """Numbers, or of dates the days since 1970-01-01; None for missing cells. None for categories."""
    labels: list[str] | None = field(default=None, metadata=SPARSE)
    """Categories, empty for missing cells; None for numbers and dates."""
    dates: bool = False
    """Whether the numbers are days."""


@dataclass(frozen=True, kw_only=True)
class Effect(Cells):
    """What is predicted of the mean test row if its cell of a column is each of some others (partial dependence)."""

    mean: list[float]
    """Mean prediction: the number, or the probability of `of`."""
    epistemic: list[float]
    """Its epistemic standard deviation, over the drawn functions."""


@dataclass(frozen=True, kw_only=True)
class ByColumn:
    """The test rows, column by column."""

    spreads: list[Spread] = field(default_factory=list)
    """The training rows, column by column."""
    importance: list[Importance] = field(default_factory=list)
    """What each column is worth, from the one that is worth most."""
    rows: int = 0
    """Test rows that this was found with."""
    shuffles: int = 0
    """How often each of them had the cell of another row."""
    effects: list[Effect] = field(default_factory=list)
    """How predictions change with the columns that are worth most."""
    effects_of: str | None = field(default=None, metadata=SPARSE)
    """The class whose probability they are of; None of numbers."""
    groups: list[Group] = field(default_factory=list)
    """Rows that are alike."""
    cell_rows: list[int] = field(default_factory=list)
    """Numbers in the table of the rows that `cells` are of."""
    cells: list[Cells] = field(default_factory=list)
    """Of a regression, those of the columns that are worth most."""


FORMAT = 1
RESULTS_FILE = "results.json"
FIT_AGAIN = "run `gumdrop fit` again to write it anew, or remove it."
Better = Literal["lower", "higher", "target"]
"""Which way a score is better; `target` is nearest to the coverage that intervals were asked to have."""
DIRECTIONS: dict[str, Better] = {"accuracy": "higher", LIKELIHOOD: "higher", "calibration error": "lower"}
DIRECTIONS |= {"RMSE": "lower", "CRPS": "lower", "coverage": "target"}
"""Those of the scores in a folder that was written before they stood in it, by the first words of their names."""


@dataclass(frozen=True, kw_only=True)
class FitResults:
    """What a fit leaves to read, beside the model: its page, `gumdrop info` and the terminal are made of it."""

    gumdrop: str = ""
    """Version that fitted."""
    task: Literal["regression", "classification"]
    """Whether the target is a number or a class."""
    table: TableFacts
    """The table."""
    target: TargetFacts
    """The target."""
    environment: dict[str, str] = field(default_factory=dict)
    """Versions and hardware."""
    settings: dict[str, object]
    """The choices of `FitSettings`, with what the table decided of them."""
    best_epochs: list[int] = field(default_factory=list)
    """The epoch from which each network was kept."""
    history: list[EpochRecord]
    """Each epoch, as the mean over the networks."""
    rates: list[Rate]
    """Learned rate of each layer."""
    scores: list[Score]
    """The model and those beside it."""
    paired: list[Comparison] = field(default_factory=list)
    """The model beside each of the others, row by row."""
    score_notes: dict[str, str] = field(default_factory=dict)
    """What each score means."""
    score_directions: dict[str, Better] = field(default_factory=dict)
    """Which way each score is better; those of an older file are known by name."""
    ranking: Ranking | None = None
    """For classes: how well a probability ranks the rows; None where the test part has one class."""
    calibration: Calibration
    """Stated against actual reliability."""
    test: RegressionRows | ClassificationRows
    """The test rows, of the kind that the task has."""
    rates_note: str = ""
    """What it means that rates have gone to 0."""
    uncertain: UncertainRows = field(default_factory=UncertainRows, metadata={"key": "unsure"})
    """The test rows of the largest epistemic uncertainty."""
    columns: ByColumn = field(default_factory=ByColumn)
    """The test rows, column by column."""
    notes: list[str] = field(default_factory=list)
    """What a reader should know about the table."""
    reading: dict[str, object] = field(default_factory=dict)
    """The choices of `Reading`."""
    curves: Curves | None = field(default=None, metadata=SPARSE)
    """Survival of the test rows, where the target is known in part."""
    stopped: Stopped | None = None
    """Where the training was interrupted; None for a whole one."""
    seconds: float | None = None
    """How long it took."""
    training_seconds: dict[str, float] = field(default_factory=dict)
    """How long the training of each model took; of one that went on from a stop, since then."""

    @property
    def coverage(self) -> float:
        """The probability that the intervals were asked to have."""
        return float(self.settings.get("coverage") or 0.9)  # type: ignore[arg-type]

    @property
    def num_members(self) -> int:
        """Networks of the model."""
        return int(self.settings.get("num_members") or 1)  # type: ignore[call-overload]

    @property
    def num_samples(self) -> int | None:
        """Draws for a prediction; None if nobody said."""
        given = self.settings.get("num_samples")
        return None if given is None else int(given)  # type: ignore[call-overload]

    def better(self, score: str) -> Better | None:
        """Which way a score is better; None if nobody said."""
        return self.score_directions.get(score) or next(
            (way for words, way in DIRECTIONS.items() if score.startswith(words)), None
        )

    def to_json(self) -> dict[str, object]:
        """Take the record apart into what `from_json` reads, and `results.json` holds."""
        return {"format": FORMAT, **plain(self)}

    @classmethod
    def from_json(cls, data: object, path: str | Path = RESULTS_FILE) -> FitResults:
        """Make the record of what `json.load` returned, or refuse it with the name of the file and what is wrong."""
        try:
            _check_format(data, path)
            results = record(cls, data)
            _check_tests(results)
            _check_scores(results)
        except FieldError as error:
            raise TableError(f"{path} is damaged: {error}; {FIT_AGAIN}") from error
        return results


def _check_format(data: object, path: str | Path) -> None:
    if not isinstance(data, dict) or "format" not in data:
        raise FieldError(f"it must be an object with a format, got {type(data).__name__}")
    if (version := data["format"]) != FORMAT:
        way_out = "update gumdrop, or " if isinstance(version, int) and version > FORMAT else ""
        raise TableError(f"{path} has format {version!r}, this gumdrop reads format {FORMAT}: {way_out}{FIT_AGAIN}")


def _check_tests(results: FitResults) -> None:
    """Refuse test rows and settings that no figure can be made of."""
    if isinstance(results.test, RegressionRows) != (results.task == "regression"):
        raise FieldError(f"`test` has not the columns of a {results.task}")
    if not results.test.row:
        raise FieldError("`test` has no rows")
    for name, part in (("calibration", results.calibration), ("test", results.test)):
        sizes = {len(column) for column in vars(part).values() if column is not None}
        if len(sizes) > 1:
            raise FieldError(f"`{name}` has columns of {' and '.join(map(str, sorted(sizes)))} rows")
    for row in results.uncertain.rows:
        if len(row.values) != len(results.uncertain.columns):
            raise FieldError(f"`unsure` has {len(row.values)} values of {len(results.uncertain.columns)} columns")
    for name in ("num_members", "num_samples", "coverage"):
        value = results.settings.get(name)
        if value is not None and not (isinstance(value, int | float) and 0 < value < 2**31):
            raise FieldError(f"`settings.{name}` must be a positive number, got {value!r}")


def _check_scores(results: FitResults) -> None:
    """Refuse scores that cannot be compared."""
    if [score.ours for score in results.scores].count(True) != 1 or not results.scores[0].values:
        raise FieldError("`scores` must hold this model once, with a number at least")
    for score in results.scores:
        for name, value in score.values.items():
            if value is not None and results.better(name) == "target" and not 0 <= value <= 1:
                raise FieldError(f"`scores` must hold a share from 0 to 1 as {name}, got {value}")
    for comparison in results.paired:
        if len(comparison.gains) != 2 or LIKELIHOOD not in comparison.gains:
            raise FieldError(f"`paired` must have a gain in {LIKELIHOOD} and one other for {comparison.name!r}")
    if (given := results.ranking) and not (0 <= given.auroc <= 1 and min(given.rows, given.other_rows) >= 1):
        raise FieldError(f"`ranking` must have an auroc from 0 to 1 over rows of both kinds, got {given}")


def read_results(folder: Path) -> FitResults:
    """Read what a fit left in a folder, or refuse it with a way out."""
    folder = whole_folder(folder)
    path = folder / RESULTS_FILE
    if not folder.is_dir():
        raise TableError(f"There is no folder {folder}: give the folder that `gumdrop fit` wrote.")
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)
    except FileNotFoundError:
        raise TableError(f"{folder} holds no {RESULTS_FILE}: run `gumdrop fit TABLE.csv --target NAME`.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise TableError(f"{path} is damaged and cannot be read ({error}): {FIT_AGAIN}") from error
    return FitResults.from_json(data, path)


def write_results(results: FitResults, folder: Path) -> None:
    """Write what `read_results` reads into a folder that exists."""
    text = json.dumps(results.to_json(), allow_nan=False) + "\n"
    (folder / RESULTS_FILE).write_text(text, encoding="utf-8")
