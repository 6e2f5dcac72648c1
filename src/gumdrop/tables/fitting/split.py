"""Which rows test: drawn at random, by a column the last ones or whole groups, or those of a table of one's own."""

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from gumdrop.ensembles.folds import time_blocks
from gumdrop.tables.errors import TableError, check_present, listed
from gumdrop.tables.fitting.settings import FitSettings, SplitAs
from gumdrop.tables.notes import encoding_notes, without_target
from gumdrop.tables.reading.spelling import plain_numbers
from gumdrop.tables.reading.table import read_table
from gumdrop.tables.reading.times import YEARS, Order, order_of, parse_dates
from gumdrop.tables.schema.cells import labels_of, numbers_of, refuse
from gumdrop.tables.schema.schema import Encoded, TableSchema
from gumdrop.tables.task import task_of

LEAST_TRAIN_ROWS = 10


@dataclass(frozen=True, eq=False)
class Parts:
    """The rows of a table in two parts."""

    train: np.ndarray
    """Which of them train, ascending."""
    test: np.ndarray
    """Which of them test, ascending."""
    words: str | None = None
    """How they were told apart, for the reader; None if at random."""
    together: np.ndarray | None = None
    """For each row that trains the number of the group that is held out with it; None if any rows are."""


@dataclass(frozen=True, eq=False)
class SplitColumn:
    """The column of `--split-by`, read as times or as groups."""

    name: str
    """Its name."""
    kind: SplitAs
    """What it is."""
    values: np.ndarray
    """Times as numbers, or the number of each row's group."""
    cells: pd.Series
    """As the table has them."""

    def parts(self, settings: FitSettings) -> Parts:
        """Take the last rows, or whole groups in random order, for about the share that is to test."""
        test = self._last(settings) if self.kind == "time" else self._groups(settings)
        train = np.flatnonzero(~test)
        together = self.values[train] if self.kind == "groups" else time_blocks(self.values[train])
        return Parts(train, np.flatnonzero(test), self._words(test), together)

    def _last(self, settings: FitSettings) -> np.ndarray:
        """Which rows are at or after the moment that leaves the share nearest to the one asked for."""
        moments, counts = np.unique(self.values, return_counts=True)
        if len(moments) < 2:
            raise TableError(f"`--split-by {self.name}` has the same time in every row: name another column")
        later = counts[::-1].cumsum()[::-1][1:]
        first = np.abs(later - settings.test_fraction * len(self.values)).argmin()
        return np.asarray(self.values >= moments[1:][first])

    def _groups(self, settings: FitSettings) -> np.ndarray:
        """Which rows are of the groups, in random order, whose number is nearest to the share asked for."""
        count = int(self.values.max()) + 1
        self._check_groups(count)
        order = np.random.default_rng(settings.seed).permutation(count)
        sizes = np.bincount(self.values)[order].cumsum()[: count - 2]  # of two one trains and one is watched
        most = np.abs(sizes - settings.test_fraction * len(self.values)).argmin() + 1
        return np.isin(self.values, order[:most])

    def _check_groups(self, count: int) -> None:
        way_out = "name a column whose values several rows share, or leave --split-by away"
        if count == len(self.values):
            raise TableError(
                f"`--split-by {self.name}` is another value in each of {count} rows, so there is no group to keep "
                f"together: {way_out}; if it tells the order of the rows, add --split-as time"
            )
        if count < 3:
            raise TableError(
                f"`--split-by {self.name}` has {count} group{'s' if count > 1 else ''}, and at least 3 are needed, one "
                f"to test, one to train and one to watch the training: {way_out}"
            )

    def _words(self, test: np.ndarray) -> str:
        if self.kind == "time":
            first = self.cells.iloc[np.flatnonzero(test)[self.values[test].argmin()]]
            return f"the last in the order of '{self.name}', from {first} on"
        groups = np.unique(self.values[test])
        return f"all rows of {len(groups)} of the {self.values.max() + 1} groups of '{self.name}'"


def split_column(
    frame: pd.DataFrame, rows: np.ndarray, target: str, settings: FitSettings, dates: Order | None
) -> SplitColumn:
    """Read the column of `--split-by`: dates are times, and all else are groups, unless the user says otherwise."""
    name = str(settings.split_by)
    check_present(frame.columns, [name])
    if name == target:
        raise TableError(f"`--split-by {name}` is the target: rows that are split by it say nothing of new ones")
    cells = frame[name]
    as_dates = order_of(cells)
    kind: SplitAs = settings.split_as or ("groups" if as_dates is None else "time")
    if cells.isna().any():
        missing = rows[cells.isna()]
        why = "so nobody can tell whether they are early or late: fill or remove them"
        if kind == "groups":
            why = "so nobody can tell what they belong to: fill them, each with a name of its own if it belongs to none"
        rows_are = f"{len(missing)} row{'s' if len(missing) > 1 else ''} (data rows {listed(list(map(str, missing)))})"
        raise TableError(f"`--split-by {name}` is missing in {rows_are}, {why}")
    if kind == "groups":
        values = np.unique(np.array(labels_of(cells), dtype=object), return_inverse=True)[1]
    elif as_dates is None:
        if (text := plain_numbers(cells)[1]).any():
            raise TableError(
                f"`--split-by {name}` holds {str(cells[text].iloc[0])!r}, which is neither a date nor a number: leave "
                "--split-as time away, and its groups are kept together"
            )
        values = numbers_of(name, cells)
    else:
        order = as_dates.with_order(dates)
        if order is None:
            raise TableError(f"`--split-by {name}` has dates, but {as_dates.why}: {as_dates.way_out}")
        values = parse_dates(cells, order)
        refuse(name, cells, np.isnan(values), "no day of the calendar from {} to {}".format(*YEARS))
    return SplitColumn(name, kind, values, cells)


def check_known(known: np.ndarray, target: str) -> None:
    """Refuse a table whose target is missing nearly everywhere."""
    if known.sum() < LEAST_TRAIN_ROWS <= len(known):
        raise TableError(
            f"'{target}' is missing in all but {known.sum()} of {len(known)} rows, and at least {LEAST_TRAIN_ROWS} "
            "rows that hold it are needed: fill it, or choose another target"
        )


def check_parts(parts: Parts, schema: TableSchema, frame: pd.DataFrame) -> list[str]:
    """Refuse a split that leaves too few rows to train on, or rows of one class, and name classes that only test."""
    num_train, num_test = len(parts.train), len(parts.test)
    if num_train < LEAST_TRAIN_ROWS:
        raise TableError(
            f"{num_train + num_test} rows leave {num_train} to train on, beside {num_test} to test, and at least "
            f"{LEAST_TRAIN_ROWS} are needed; add rows or lower --test-fraction"
        )
    name, classes = schema.target.name, schema.target.classes
    targets = frame[[name]].iloc[parts.train]
    present = set(np.unique(schema.encode_target(targets)).tolist()) if classes else set()
    if len(present) == 1:
        raise TableError(
            f"target {name!r} is {classes[present.pop()]!r} in all {num_train} rows to train on, the others test: let "
            "other rows test (--split-by, --test-fraction, --seed)"
        )
    absent = [repr(label) for i, label in enumerate(classes) if i not in present]
    return [f"no row to train on has the '{name}' {listed(absent)}, which only test"] if absent else []


def advice(schema: TableSchema, settings: FitSettings, column: SplitColumn | None) -> list[str]:
    """Say that rows with dates are split at random, where nobody asked for it, and that rows are not in their order."""
    if column is not None and column.kind == "time" and (np.diff(column.values) < 0).any():
        return [
            f"the rows are not in the order of '{column.name}': the last by it test, wherever they stand in the table"
        ]
    dates = [column.name for column in schema.columns if column.kind == "date"]
    if not dates or settings.split_by is not None or settings.test is not None or settings.stream:
        return []
    return [
        f"test rows are drawn at random, though '{dates[0]}' tells their order: if later rows are to be predicted, "
        f"`--split-by {shlex.quote(dates[0])}` tests on the last"
    ]


def at_random(frame: pd.DataFrame, schema: TableSchema, settings: FitSettings) -> Parts:
    """Draw rows to test with, classes in equal shares; a class of one row is trained on."""
    test_size = min(max(1, round(settings.test_fraction * len(frame))), len(frame) - 1)
    test = task_of(schema.target).test_rows(schema.encode_target(frame), test_size, settings.seed)
    train = np.setdiff1d(np.arange(len(frame)), test)
    return Parts(train, np.sort(test))


@dataclass(frozen=True, eq=False)
class OwnTest:
    """The rows of a table that tests."""

    name: str
    """The table, for the reader."""
    frame: pd.DataFrame
    """Rows whose target is known."""
    rows: np.ndarray
    """Their numbers in that table, from 1."""
    notes: list[str]
    """What a reader should know."""

    @property
    def words(self) -> str:
        """Which rows test."""
        return f"those of {self.name}"

    def encoded(self, schema: TableSchema) -> Encoded:
        """Encode the inputs with the statistics of the rows that train; a message names this table."""
        with _naming(self.name):
            return schema.encode_inputs(self.frame)

    def notes_on(self, schema: TableSchema, encoded: Encoded) -> list[str]:
        """What a reader should know about this table."""
        return [f"{self.name}: {note}" for note in [*self.notes, *encoding_notes(schema, encoded)]]

    def below(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Put these rows below those of another table; as objects, as one may hold text where the other has numbers."""
        own = self.frame.reindex(columns=frame.columns)
        return pd.concat([frame.astype(object), own.astype(object)], ignore_index=True)


def read_own_test(path: str, schema: TableSchema) -> OwnTest:
    """Read a table to test with."""
    table, name = read_table(path, **schema.reading), Path(path).name
    target = schema.target.name
    with _naming(name):
        whole = schema.with_ends(table.frame)
        check_present(whole.columns, [*schema.names, target])
        known = whole[target].notna().to_numpy()
        if not known.any():
            raise TableError(f"no row has a '{target}', so none can test")
        frame = whole[known]
        schema.encode_target(frame)
    return OwnTest(
        name,
        frame.reset_index(drop=True),
        np.flatnonzero(known) + 1,
        [*table.notes, *without_target(int(known.sum()), len(known), target)],
    )


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Say which table a message is about."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{name}: {error}") from error
