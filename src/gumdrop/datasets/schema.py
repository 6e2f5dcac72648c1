"""The schema of a table: columns as float32 arrays, kept as JSON so that the next file is encoded the same way."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
import pandas as pd

from gumdrop.datasets.tabular import MISSING, TableError, check_unique, listed

__all__ = ["CategoryColumn", "Encoded", "NumericColumn", "TableSchema", "Target", "Task", "infer_schema"]

Task = Literal["regression", "classification"]

_MIN_ROWS = 10
_FEW_DISTINCT = 10  # up to here whole numbers may be class codes, and text that is mostly digits categories
_MANY_DISTINCT = 50  # beyond here text that rarely repeats is taken for free text or an identifier
_MAX_CATEGORIES = 1000
_LARGEST = 1e30  # beyond here squares and sums leave float32
_INTEGER = re.compile(r"[+-]?\d{1,300}(\.0*)?")
_DECIMAL = re.compile(r"[+-]?\d*\.\d+")
_DATE = re.compile(r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3\d{4}|\d\d?/\d\d?/\d\d)([ T]\d.*)?")


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers, standardised with the mean and deviation of the training rows.

    Attributes:
        name: Name in the table.
        mean: Mean of the training values.
        std: Standard deviation of the training values (divisor n); 1 for a constant column.
        median: Median of the training values, which stands in for a missing one.
    """

    name: str
    mean: float
    std: float
    median: float

    @property
    def feature_names(self) -> list[str]:
        """The name of the one encoded column."""
        return [self.name]

    def _encode(self, column: pd.Series, out: np.ndarray) -> tuple[dict[str, int], int]:
        values = _numbers(self.name, column)
        missing = np.isnan(values)
        values[missing] = self.median
        out[:, 0] = _standardise(self, column, values)
        return {}, int(missing.sum())


@dataclass(frozen=True)
class CategoryColumn:
    """A column of labels, encoded one-hot.

    Attributes:
        name: Name in the table.
        categories: Labels seen in training, in order; the last is empty if some rows had none (missing).
    """

    name: str
    categories: tuple[str, ...]

    @property
    def feature_names(self) -> list[str]:
        """The encoded columns, one per category, such as `sex=female`."""
        return [f"{self.name}={category or '(missing)'}" for category in self.categories]

    def _encode(self, column: pd.Series, out: np.ndarray) -> tuple[dict[str, int], int]:
        labels = _labels(column)
        hot = _indices(labels, self.categories)
        known = np.flatnonzero(hot >= 0)
        out[known, hot[known]] = 1.0
        count = Counter(labels)
        missing = count.pop(MISSING, 0)
        return {label: n for label, n in count.items() if label not in self.categories}, missing


@dataclass(frozen=True)
class Target:
    """The column to predict.

    Attributes:
        name: Name in the table.
        task: `"regression"` or `"classification"`.
        mean: Mean of the training values; 0 in classification.
        std: Standard deviation of the training values (divisor n); 1 in classification.
        classes: Labels in the order of their indices, as the table spells them; empty in regression.
    """

    name: str
    task: Task
    mean: float = 0.0
    std: float = 1.0
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Encoded:
    """The inputs of a table as an array, and what had to be made up on the way.

    Attributes:
        x: Inputs, float32, (rows, `num_features`).
        unseen: For each column with categories that training never saw: how often each of them occurs.
        missing: For each column with missing cells: how many.
    """

    x: np.ndarray
    unseen: dict[str, dict[str, int]]
    missing: dict[str, int]


@dataclass(frozen=True)
class TableSchema:
    """How a table becomes arrays: every number in it comes from the training table.

    Attributes:
        columns: The input columns, in the order of the training table.
        target: The column to predict.

    Example:
        >>> frame = pd.DataFrame({"age": range(10), "sex": ["f", "m"] * 5, "price": range(20, 30)})
        >>> schema = infer_schema(frame, "price")
        >>> schema.feature_names
        ['age', 'sex=f', 'sex=m']
        >>> schema.encode_inputs(pd.DataFrame({"sex": ["m", "x"], "age": [4.5, None]})).unseen
        {'sex': {'x': 1}}
    """

    columns: tuple[NumericColumn | CategoryColumn, ...]
    target: Target

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns, such as `age` and `sex=female`."""
        return [name for column in self.columns for name in column.feature_names]

    @property
    def num_features(self) -> int:
        """Number of encoded columns."""
        return len(self.feature_names)

    def encode_inputs(self, frame: pd.DataFrame) -> Encoded:
        """Encode the input columns of a table; other columns are ignored, and so is the order of columns.

        A missing number becomes the training median. A category that training never saw, or a missing one
        where training saw none, becomes all zeros. Both are counted in the result.

        Args:
            frame: Table with (at least) the input columns.

        Returns:
            The array, one row per row of the table, and the counts.

        Raises:
            TableError: A column is absent or repeated, or a numeric one holds text or an infinity.
        """
        _check_present(frame, [column.name for column in self.columns])
        x = np.zeros((len(frame), self.num_features), dtype=np.float32)
        unseen, missing, start = {}, {}, 0
        for column in self.columns:
            stop = start + len(column.feature_names)
            strange, blanks = column._encode(frame[column.name], x[:, start:stop])
            unseen.update({column.name: strange} if strange else {})
            missing.update({column.name: blanks} if blanks else {})
            start = stop
        return Encoded(x, unseen, missing)

    def encode_target(self, frame: pd.DataFrame) -> np.ndarray:
        """Encode the target column of a table.

        Args:
            frame: Table with the target column.

        Returns:
            Standardised values, float32, (rows, 1), or class indices, int64, (rows,).

        Raises:
            TableError: The column is absent, has missing values or an infinity, or holds text (regression) or
                a class that training never saw (classification).
        """
        target = self.target
        _check_present(frame, [target.name])
        column = frame[target.name]
        _check_no_missing(target.name, column)
        if target.task == "regression":
            values = _standardise(target, column, _numbers(target.name, column))
            return np.asarray(values[:, None], dtype=np.float32)
        indices = _indices(_labels(column), target.classes)
        _refuse(target.name, column, indices < 0, f"not a class seen in training ({listed(target.classes)})")
        return indices

    def to_json(self) -> dict[str, Any]:
        """Write the schema as plain dicts, lists, strings and numbers, for `json.dump`.

        Returns:
            What `from_json` reads.
        """
        columns = [{"kind": type(column).__name__, **asdict(column)} for column in self.columns]
        plain: dict[str, Any] = {"version": 1, "columns": columns, "target": asdict(self.target)}
        copy: dict[str, Any] = json.loads(json.dumps(plain))  # lists, where a record has tuples
        return copy

    @classmethod
    def from_json(cls, data: Any) -> TableSchema:
        """Read a schema that `to_json` wrote.

        Args:
            data: What `json.load` returned.

        Returns:
            The schema; it encodes exactly as the one that was written.

        Raises:
            TableError: `data` is not such a schema.
        """
        kinds = {kind.__name__: kind for kind in (NumericColumn, CategoryColumn)}
        try:
            _require(data["version"] == 1, f"version is {data['version']!r}, not 1")
            schema = cls(tuple(_record(kinds[c["kind"]], c) for c in data["columns"]), _record(Target, data["target"]))
            task, classes = schema.target.task, schema.target.classes
            _require(task in {"regression", "classification"}, f"task is {task!r}")
            _require((task == "classification") == (len(classes) > 1), f"{task} has {len(classes)} classes")
            _require(len(schema.columns) > 0, "there are no columns")
        except (KeyError, TypeError, ValueError) as error:
            what = f"{error} is absent or unknown" if isinstance(error, KeyError) else error
            raise TableError(f"this is not the schema of a table: {what}; fit again to write a new one") from error
        return schema


def infer_schema(
    frame: pd.DataFrame, target: str, *, task: Task | None = None, ignore: Sequence[str] = ()
) -> TableSchema:
    """Decide how each column of a training table is encoded, and take the statistics to do it.

    A column of numbers stays numeric however few values it has; any other becomes categories. Without `task`,
    a target of text or booleans means classification, and so does a target of numbers with two distinct
    values, or whose distinct values are class codes: exactly 0, 1, ..., k-1 or 1, 2, ..., k, with k at most
    10. Every other target of numbers means regression; scores such as 3, 4, ..., 8 are among these.

    Args:
        frame: Training table, as `read_table` gives it; at least 10 rows.
        target: Name of the column to predict.
        task: `"regression"` or `"classification"`, where the rule above is not what is wanted.
        ignore: Names of columns to leave out of the inputs.

    Returns:
        The schema: all columns but the target and the ignored ones, in the order of the table.

    Raises:
        TableError: A named column is absent, the table has too few rows or no inputs, the target is missing
            in places, constant or does not fit the task, or an input is empty, infinite, or text that cannot
            be categories (dates, identifiers, free text, numbers with a few words among them).
        ValueError: `task` is neither of the two.
    """
    if task not in {None, "regression", "classification"}:
        raise ValueError(f'`task` must be "regression" or "classification", got {task!r}')
    check_unique(list(frame.columns))
    _check_present(frame, [target, *ignore])
    names = [name for name in frame.columns if name not in {target, *ignore}]
    if target in ignore:
        raise TableError(f"column {target!r} is the target: take it out of `--ignore` or name another target")
    if not names:
        raise TableError(f"no input column is left beside the target {target!r}: ignore fewer, or add some")
    if len(frame) < _MIN_ROWS:
        raise TableError(f"the table has {len(frame)} rows: add some, at least {_MIN_ROWS} are needed")
    goal = _infer_target(target, frame[target], task)
    return TableSchema(tuple(_infer_column(name, frame[name]) for name in names), goal)


def _infer_column(name: str, column: pd.Series) -> NumericColumn | CategoryColumn:
    if name.startswith("Unnamed: "):
        raise TableError(f"column {name!r} has no name (a saved row index?): name it or `--ignore {name!r}`")
    if column.isna().all():
        raise TableError(f"column {name!r} is missing in every row: fill it or `--ignore {name!r}`")
    if _is_text(column):
        return CategoryColumn(name, _categories(name, column))
    values = _numbers(name, column)
    values = values[~np.isnan(values)]
    return NumericColumn(name, float(values.mean()), _deviation(values) or 1.0, float(np.median(values)))


def _infer_target(name: str, column: pd.Series, task: Task | None) -> Target:
    _check_no_missing(name, column)
    if _is_text(column) and task != "regression":
        classes = _categories(name, column)
    else:
        values = _numbers(name, column)
        if (task or _task_of(values)) == "regression":
            std = _deviation(values)
            if std == 0:
                raise TableError(f"target {name!r} is {values[0]:g} in every row: choose one that varies")
            return Target(name, "regression", float(values.mean()), std)
        classes = _ordered(_labels(column))
        if len(classes) > max(_FEW_DISTINCT, len(column) // 2):
            raise TableError(f"target {name!r} has {len(classes)} different numbers: use `--task regression`")
    if len(classes) == 1:
        raise TableError(f"target {name!r} is {classes[0]!r} in every row: choose one with two classes or more")
    return Target(name, "classification", classes=classes)


def _task_of(values: np.ndarray) -> Task:
    distinct = np.unique(values)
    first, k = distinct[0], len(distinct)
    codes = 1 < k <= _FEW_DISTINCT and first in {0, 1} and bool(np.all(distinct == first + np.arange(k)))
    return "classification" if codes or k == 2 else "regression"


def _categories(name: str, column: pd.Series) -> tuple[str, ...]:
    # Distinct labels in order; raises if they are no good as categories.
    labels = _labels(column)
    filled = len(labels) - labels.count(MISSING)
    distinct = [label for label in dict.fromkeys(labels) if label != MISSING]
    k, example = len(distinct), f"such as {distinct[0]!r}"
    if all(_DATE.fullmatch(label) for label in distinct):
        raise TableError(f"column {name!r} holds dates, {example}: turn it into a number or `--ignore {name!r}`")
    number_like = pd.to_numeric(pd.Series(distinct).str.replace(",", ""), errors="coerce").notna()
    if k > _FEW_DISTINCT and number_like.mean() > 0.5:
        why = f"not a number, unlike most of the column; leave unknown cells blank, or `--ignore {name!r}`"
        _refuse(name, column, _parse_numbers(column)[1], why)
    if k > _MAX_CATEGORIES or (k > _MANY_DISTINCT and k > filled / 2) or k == filled >= _MIN_ROWS:
        raise TableError(
            f"column {name!r} has {k} different texts in {filled} rows, {example} (an identifier or free "
            f"text?): group them into fewer categories or `--ignore {name!r}`"
        )
    return _ordered(labels)


def _labels(column: pd.Series) -> list[str]:
    codes, values = pd.factorize(column)
    labels = [*map(_label, values), MISSING]  # the code of a missing cell is -1
    return [labels[code] for code in codes]


def _label(value: Any) -> str:
    # 1, 1.0 and "01" agree: pandas may read a column as numbers in one file and as text in the next.
    text = str(value).strip()
    if _INTEGER.fullmatch(text):
        return str(int(text.split(".")[0]))
    return repr(float(text)) if _DECIMAL.fullmatch(text) else text


def _ordered(labels: Iterable[str]) -> tuple[str, ...]:
    distinct = set(labels)
    present = sorted(distinct - {MISSING})
    if not _parse_numbers(pd.Series(present))[1].any():
        present.sort(key=float)
    return (*present, *(distinct & {MISSING}))


def _indices(labels: list[str], known: tuple[str, ...]) -> np.ndarray:
    place = {label: i for i, label in enumerate(known)}
    return np.array([place.get(label, -1) for label in labels], dtype=np.int64)


def _parse_numbers(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    # Values in float64, NaN where there is no number; and which cells hold something that is no number.
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        spelled = column.astype(object).map(str, na_action="ignore")
        values = pd.to_numeric(spelled, errors="coerce").to_numpy(dtype=np.float64, copy=True)
        return values, np.isnan(values) & column.notna().to_numpy()
    values = column.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    return values, np.zeros(len(values), dtype=bool)


def _is_text(column: pd.Series) -> bool:
    return bool(_parse_numbers(column)[1].any())


def _numbers(name: str, column: pd.Series) -> np.ndarray:
    values, bad = _parse_numbers(column)
    _refuse(name, column, bad, "not a number")
    _refuse(name, column, np.abs(values) > _LARGEST, "infinite or too large")
    return values


def _standardise(scale: NumericColumn | Target, column: pd.Series, values: np.ndarray) -> np.ndarray:
    values = (values - scale.mean) / scale.std
    _refuse(scale.name, column, np.abs(values) > _LARGEST, "too far from all values seen in training")
    return values


def _deviation(values: np.ndarray) -> float:
    # Rounding would leave a column that is 0.1 in every row a deviation above zero.
    return 0.0 if values.min() == values.max() else float(values.std())


def _refuse(name: str, column: pd.Series, bad: np.ndarray, why: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        others = f" (and {bad.sum() - 1} more rows)" if bad.sum() > 1 else ""
        raise TableError(
            f"column {name!r} has {str(column.iloc[row])!r} in data row {row + 1}{others}, which is {why}: "
            "correct it or remove the row"
        )


def _check_no_missing(name: str, column: pd.Series) -> None:
    rows = [str(row + 1) for row in np.flatnonzero(column.isna())]
    if rows:
        raise TableError(
            f"target {name!r} is missing in {len(rows)} of {len(column)} rows (data rows {listed(rows)}): "
            "fill or remove them (empty cells, NA, None, ? and the like count as missing)"
        )


def _check_present(frame: pd.DataFrame, names: Sequence[str]) -> None:
    have = list(map(str, frame.columns))
    check_unique([name for name in have if name in names])
    absent = [name for name in names if name not in have]
    if absent:
        folded = {name.casefold(): name for name in have}
        close = {n: [folded[m] for m in difflib.get_close_matches(n.casefold(), folded)] for n in absent}
        said = [repr(n) + (f" (did you mean {' or '.join(close[n])}?)" if close[n] else "") for n in absent]
        raise TableError(f"the table has no column {listed(said)}; its columns are: {listed(have)}")


def _record(kind: Any, data: Any) -> Any:
    values = {field.name: data[field.name] for field in fields(kind)}
    for key, value in values.items():
        if key in {"categories", "classes"}:
            right = isinstance(value, list) and all(isinstance(item, str) for item in value)
        elif key in {"name", "task"}:
            right = isinstance(value, str)
        else:
            right = isinstance(value, int | float) and math.isfinite(value) and (key != "std" or value > 0)
        _require(right, f"{key} is {value!r}")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def _require(right: bool, wrong: str) -> None:
    if not right:
        raise ValueError(wrong)
