"""The schema of a table: columns as float32 arrays, kept as JSON so that the next file is encoded the same way."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from gumdrop.machine.recording import Steps
from gumdrop.tables.errors import TableError, check_present, listed
from gumdrop.tables.plain import SPARSE, FieldError, plain, record
from gumdrop.tables.reading.spelling import Decimal, Mark
from gumdrop.tables.schema.cells import (
    check_no_missing,
    ends_of,
    in_one_message,
    index_labels,
    labels_of,
    numbers_of,
    refuse,
    standardised_numbers,
    with_ends,
)
from gumdrop.tables.schema.columns import CategoryColumn, Column, Odd

Task = Literal["regression", "classification"]

Labels = Literal["integer", "floating", "boolean"]

LABELS: dict[str, Callable[[str], object]] = {"integer": int, "floating": float, "boolean": "True".__eq__}
"""Values of labels that are no texts in a data frame, by the names that pandas has for their types."""
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Target:
    """The column to predict.

    Attributes:
        name: Name in the table.
        task: `"regression"` or `"classification"`.
        mean: Mean of the training values; 0 in classification.
        std: Standard deviation of the training values (divisor n); 1 in classification.
        classes: Labels in the order of their indices, as the table spells them; empty in regression.
        step: Distance of the levels that the training values are recorded at; 0 if they are not recorded in steps.
        first: The lowest level.
        last: The highest level; of what is known in part the largest end that training knows.
        positive: Whether the training values end at 0, so that nothing is expected below.
        atoms: Values that many training rows share, such as 0 of amounts of rain; they have probabilities of their own.
        known: Columns that tell what is known of it, where that is not all: the event that a time was seen, or the
            lower and the upper end of an interval.
        sought: Of two classes the one that is looked for; empty for all else, and in older files.
        labels: What the classes are in the data frame that was fitted; None for texts.
    """

    name: str
    task: Task
    mean: float = 0.0
    std: float = 1.0
    classes: tuple[str, ...] = ()
    step: float = 0.0
    first: float = 0.0
    last: float = 0.0
    positive: bool = False
    atoms: tuple[float, ...] = ()
    known: tuple[str, ...] = ()
    sought: str = ""
    labels: Labels | None = field(default=None, metadata=SPARSE)

    def __post_init__(self) -> None:
        """Check that there is such a target."""
        right = {"std": self.std > 0, "classes": len(set(self.classes)) == len(self.classes)}
        right["step"] = not self.step or 0 < self.step <= self.last - self.first
        right["atoms"] = list(self.atoms) == sorted(set(self.atoms))
        if wrong := [name for name, is_right in right.items() if not is_right]:
            raise ValueError(f"{wrong[0]} is {getattr(self, wrong[0])!r}")
        if (self.task == "classification") != (len(self.classes) > 1):
            raise ValueError(f"{self.task} has {len(self.classes)} classes")

    @property
    def columns(self) -> list[str]:
        """Columns of a table that tell what it is."""
        return [*self.known] if len(self.known) == 2 else [self.name, *self.known]

    @property
    def steps(self) -> Steps | None:
        """The levels that the training values are recorded at, if they are."""
        return Steps(self.step, self.first, self.last) if self.step else None

    def typed(self, labels: Sequence[str]) -> np.ndarray:
        """Give classes the type that they had in the data frame that was fitted; texts as objects."""
        if self.labels is None:
            return np.array(labels, dtype=object)
        values = {label: LABELS[self.labels](label) for label in self.classes}
        return np.array([values[label] for label in labels])

    @property
    def needs_float64(self) -> bool:
        """Whether float32 is too coarse for the values, as for Unix times, or too narrow for their squares."""
        return abs(self.mean) > 1e3 * self.std or not 1e-12 < self.std < 1e12


@dataclass(frozen=True, eq=False)
class Encoded:
    """The inputs of a table as an array, and what was odd in it.

    Attributes:
        x: Inputs, float32, (rows, `num_features`).
        unseen: For each column with categories that training never saw: how often each of them occurs.
        missing: For each column with missing cells: how many.
        outside: For each column with numbers far outside those of training: how many.
        changed: For each column with one value in training that has another one here: in how many cells.
        odd_cells: For each row the number of cells that are `missing`, `unseen` and `outside`.
        unknown: Which cells are missing or of an unseen category, (rows, input columns), where that matters; `x` has a
            stand-in there.
    """

    x: np.ndarray
    unseen: dict[str, dict[str, int]]
    missing: dict[str, int]
    outside: dict[str, int]
    changed: dict[str, int]
    odd_cells: dict[str, np.ndarray]
    unknown: np.ndarray


@dataclass(frozen=True)
class TableSchema:
    """How a table becomes arrays: every number in it comes from the training table.

    Attributes:
        columns: The input columns, in the order of the training table.
        target: The column to predict.
        decimal: Decimal mark that the training file proved; None if it had no numbers with marks.
        marks: How numbers of the training table were written that had a decimal mark or a unit.
        identifiers: Columns that name the rows, such as order numbers; predictions carry them along.
        texts: Columns of other texts that hardly repeat, which are no inputs either.

    Example:
        >>> from gumdrop.tables.schema.inference import infer_schema
        >>> frame = pd.DataFrame({"age": range(10), "sex": ["f", "m"] * 5, "price": range(20, 30)})
        >>> schema = infer_schema(frame, "price")
        >>> schema.feature_names
        ['age', 'sex=f', 'sex=m']
        >>> schema.encode_inputs(pd.DataFrame({"sex": ["m", "x"], "age": [4.5, None]})).unseen
        {'sex': {'x': 1}}
    """

    columns: tuple[Column, ...]
    target: Target
    decimal: Decimal | None = None
    marks: dict[str, Mark] = field(default_factory=dict)
    identifiers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that there is something to predict from."""
        if not self.columns:
            raise ValueError("there are no columns")

    @property
    def names(self) -> list[str]:
        """Names of the input columns."""
        return [column.name for column in self.columns]

    @functools.cached_property
    def reading(self) -> dict[str, Any]:
        """How `gumdrop.tables.read_table` reads a table as training did: 5% is a word if some other cell was one."""
        words = [column.name for column in self.columns if isinstance(column, CategoryColumn)]
        labels = [self.target.name] if self.target.classes else []
        numbers = [*{*self.names, *self.target.columns} - {*words, *labels}]
        known = {name: self.mark(name) for name in numbers}
        words += [*self.identifiers, *self.texts]
        return {"decimal": self.decimal, "words": words, "labels": labels, "known": known}

    def carried(self, columns: Iterable[Any]) -> list[str]:
        """Identifiers among the columns of a table."""
        there = set(columns)
        return [name for name in self.identifiers if name in there]

    def mark(self, name: str) -> Mark:
        """How numbers of a column are written: where its own cells do not tell, with the decimal mark of the others."""
        mark = self.marks.get(name, Mark())
        return Mark(mark.decimal or self.decimal, mark.unit)

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns, such as `age` and `sex=female`."""
        return [name for column in self.columns for name in column.feature_names]

    @property
    def num_features(self) -> int:
        """Number of encoded columns."""
        return len(self.feature_names)

    @property
    def groups(self) -> list[slice]:
        """For each input column the encoded columns that it became."""
        ends = np.cumsum([0, *(len(column.feature_names) for column in self.columns)]).tolist()
        return [slice(start, stop) for start, stop in itertools.pairwise(ends)]

    def encode_inputs(self, frame: pd.DataFrame) -> Encoded:
        """Return the input columns of a table as an array, with counts of what is odd; other columns are ignored.

        A missing number becomes the training median. A category that training never saw, or a missing one
        where training saw none, becomes all zeros. All are counted in the result, and so are numbers beyond the
        range of training by more than a standard deviation. A column that had one value in training is encoded as this
        value, whatever it holds. What cannot be encoded is refused in one message.
        """
        check_present(frame.columns, self.names)
        x = np.zeros((len(frame), self.num_features), dtype=np.float32)

        def encode(column_and_group: tuple[Column, slice]) -> Odd:
            column, group = column_and_group
            return column.encode(frame[column.name], x[:, group])

        codes = in_one_message(encode, zip(self.columns, self.groups, strict=True))
        missing, unseen, outside, changed = (
            np.stack([getattr(each, kind) for each in codes], axis=1)
            for kind in ("missing", "unseen", "outside", "changed")
        )
        varies = np.array([column.constant is None for column in self.columns])
        cells = {"missing": missing, "unseen": unseen, "outside": outside}
        return Encoded(
            x,
            {name: each.labels for name, each in zip(self.names, codes, strict=True) if each.labels},
            self._counts(missing),
            self._counts(outside),
            self._counts(changed),
            {kind: each.sum(1) for kind, each in cells.items()},
            (missing | unseen) & varies,
        )

    def _counts(self, cells: np.ndarray) -> dict[str, int]:
        """How many cells of each column are marked, of those columns that have any."""
        return {name: count for name, count in zip(self.names, cells.sum(0).tolist(), strict=True) if count}

    def with_ends(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Gather what a table knows of the target in one column, see `gumdrop.tables.schema.cells`."""
        return with_ends(frame, self.target.name, self.target.known)

    def encode_target(self, frame: pd.DataFrame) -> np.ndarray:
        """Encode the target column of a table."""
        target, frame = self.target, self.with_ends(frame)
        check_present(frame.columns, [target.name])
        column = frame[target.name]
        check_no_missing(target.name, column)
        if target.known:
            return (ends_of(column) - target.mean) / target.std
        if target.task == "regression":
            values = numbers_of(target.name, column)
            values = standardised_numbers(target.name, column, values, target.mean, target.std)
            return np.asarray(values[:, None], dtype=np.float64 if target.positive or target.atoms else np.float32)
        indices = index_labels(labels_of(column), target.classes)
        refuse(target.name, column, indices < 0, f"not a class seen in training ({listed(target.classes)})")
        return indices

    def to_json(self) -> dict[str, object]:
        """Write the schema as plain dicts, lists, strings and numbers, for `json.dump`."""
        return {"version": SCHEMA_VERSION, **plain(self)}

    @classmethod
    def from_json(cls, data: Any) -> TableSchema:
        """Read a schema that `to_json` wrote."""
        try:
            if isinstance(data, dict) and data.get("version") != SCHEMA_VERSION:
                raise FieldError(f"version is {data.get('version')!r}, not {SCHEMA_VERSION}")
            return record(cls, data)
        except ValueError as error:
            raise TableError(f"this is not the schema of a table: {error}; fit again to write a new one") from error
