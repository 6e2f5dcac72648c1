"""The schema of a table: columns as float32 arrays, kept as JSON so that the next file is encoded the same way."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from gumdrop.machine.recording import Steps
from gumdrop.tables.errors import TableError, check_present, listed
from gumdrop.tables.reading.cycles import CYCLES
from gumdrop.tables.reading.dates import PARTS, Order
from gumdrop.tables.reading.numbers import Decimal
from gumdrop.tables.schema.cells import index_labels, labels_of, numbers_of, refuse, standardised_numbers
from gumdrop.tables.schema.checks import check_no_missing, in_one_message
from gumdrop.tables.schema.columns import CategoryColumn, Column, CycleColumn, DateColumn, NumericColumn, Odd

Task = Literal["regression", "classification"]

SCHEMA_VERSION = 2
NEWER = {"step", "first", "last", "positive", "atoms"}
"""What the targets of earlier versions lack."""


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
        last: The highest level.
        positive: Whether the training values end at 0, so that nothing is expected below.
        atoms: Values that many training rows share, such as 0 of amounts of rain; they have probabilities of their own.
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

    @property
    def steps(self) -> Steps | None:
        """The levels that the training values are recorded at, if they are."""
        return Steps(self.step, self.first, self.last) if self.step else None

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
        odd_cells: For each row the number of cells that are `missing`, `unseen` and `outside`.
        unknown: Which cells are missing or of an unseen category, (rows, input columns); `x` has a stand-in there.
    """

    x: np.ndarray
    unseen: dict[str, dict[str, int]]
    missing: dict[str, int]
    outside: dict[str, int]
    odd_cells: dict[str, np.ndarray]
    unknown: np.ndarray


@dataclass(frozen=True)
class TableSchema:
    """How a table becomes arrays: every number in it comes from the training table.

    Attributes:
        columns: The input columns, in the order of the training table.
        target: The column to predict.
        decimal: Decimal mark that the training file proved; None if it had no numbers with marks.

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

    @property
    def names(self) -> list[str]:
        """Names of the input columns."""
        return [column.name for column in self.columns]

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
        range of training by more than a standard deviation. What cannot be encoded is refused in one message.
        """
        check_present(frame.columns, self.names)
        x = np.zeros((len(frame), self.num_features), dtype=np.float32)

        def encode(column_and_place: tuple[Column, slice]) -> Odd:
            column, place = column_and_place
            return column.encode(frame[column.name], x[:, place])

        found = in_one_message(encode, zip(self.columns, self.groups, strict=True))
        missing, unseen, outside = (
            np.stack([getattr(each, kind) for each in found], axis=1) for kind in ("missing", "unseen", "outside")
        )
        cells = {"missing": missing, "unseen": unseen, "outside": outside}
        return Encoded(
            x,
            {name: each.labels for name, each in zip(self.names, found, strict=True) if each.labels},
            self._counts(missing),
            self._counts(outside),
            {kind: each.sum(1) for kind, each in cells.items()},
            missing | unseen,
        )

    def _counts(self, cells: np.ndarray) -> dict[str, int]:
        """How many cells of each column are marked, of those columns that have any."""
        return {name: count for name, count in zip(self.names, cells.sum(0).tolist(), strict=True) if count}

    def encode_target(self, frame: pd.DataFrame) -> np.ndarray:
        """Encode the target column of a table."""
        target = self.target
        check_present(frame.columns, [target.name])
        column = frame[target.name]
        check_no_missing(target.name, column)
        if target.task == "regression":
            values = numbers_of(target.name, column)
            values = standardised_numbers(target.name, column, values, target.mean, target.std)
            return np.asarray(values[:, None], dtype=np.float64 if target.positive or target.atoms else np.float32)
        indices = index_labels(labels_of(column), target.classes)
        refuse(target.name, column, indices < 0, f"not a class seen in training ({listed(target.classes)})")
        return indices

    def to_json(self) -> dict[str, object]:
        """Write the schema as plain dicts, lists, strings and numbers, for `json.dump`."""
        columns = [{"kind": column.kind, **asdict(column)} for column in self.columns]
        plain: dict[str, object] = {"version": SCHEMA_VERSION, "decimal": self.decimal}
        plain |= {"columns": columns, "target": asdict(self.target)}
        copy: dict[str, object] = json.loads(json.dumps(plain))  # lists, where a record has tuples
        return copy

    @classmethod
    def from_json(cls, data: Any) -> TableSchema:
        """Read a schema that `to_json` wrote."""
        every: tuple[type[Column], ...] = (NumericColumn, DateColumn, CycleColumn, CategoryColumn)
        kinds = {kind.kind: kind for kind in every}
        try:
            _require(data["version"] == SCHEMA_VERSION, f"version is {data['version']!r}, not {SCHEMA_VERSION}")
            columns = tuple(_record(kinds[each["kind"]], each) for each in data["columns"])
            schema = cls(columns, _record(Target, data["target"]), data["decimal"])
            task, classes = schema.target.task, schema.target.classes
            _require(task in {"regression", "classification"}, f"task is {task!r}")
            _require((task == "classification") == (len(classes) > 1), f"{task} has {len(classes)} classes")
            _require(len(schema.columns) > 0, "there are no columns")
            _require(schema.decimal in {None, ".", ","}, f"decimal is {schema.decimal!r}")
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            what = f"{error} is absent or unknown" if isinstance(error, KeyError) else error
            raise TableError(f"this is not the schema of a table: {what}; fit again to write a new one") from error
        return schema


def _record(kind: Any, data: Any) -> Any:
    values = {each.name: data[each.name] for each in fields(kind) if each.name not in NEWER or each.name in data}
    for key, value in values.items():
        if key in {"categories", "classes", "parts"}:
            right = isinstance(value, list) and all(isinstance(item, str) for item in value)
            right = right and len(set(value)) == len(value) and (key != "parts" or set(value) <= set(PARTS))
        elif key == "atoms":
            right = isinstance(value, list) and all(isinstance(item, int | float) for item in value)
            right = right and value == sorted(set(value)) and all(map(math.isfinite, value))
        elif key in {"name", "task"}:
            right = isinstance(value, str)
        elif key == "cycle":
            right = value in CYCLES
        elif key == "positive":
            right = isinstance(value, bool)
        elif key == "order":
            right = value in get_args(Order)
        else:
            right = isinstance(value, int | float) and math.isfinite(value) and (key != "std" or value > 0)
            right = right and (key != "step" or value == 0 or 0 < value <= data["last"] - data["first"])
        _require(right, f"{key} is {value!r}")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def _require(right: bool, wrong: str) -> None:
    if not right:
        raise ValueError(wrong)
