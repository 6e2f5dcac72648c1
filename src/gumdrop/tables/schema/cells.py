"""Cells of a column: numbers, labels and intervals, and what cannot be read, gathered into one message."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from gumdrop.machine.numerals import cell
from gumdrop.machine.recording import ends_of_ranges, ends_of_times, is_constant
from gumdrop.machine.scaling import unit_of
from gumdrop.tables.errors import MISSING, TableError, check_present, listed
from gumdrop.tables.reading.spelling import exact_number, plain_numbers

OTHERS = "(others)"
"""The category of all labels that have none of their own, in a column with very many."""
SEEN = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False}
"""What an event may be called; 1 and 0 first of all."""
LARGEST, FARTHEST = 1e30, 1e15
"""Beyond the first, numbers leave float32, and beyond the second, standard deviations whose squares do so in a network.
"""
_MIDNIGHT = re.compile(r"^(\d{4}-\d\d-\d\d) 00:00:00$")
_YES_NO = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"})


def labels_of(column: pd.Series) -> list[str]:
    """Cells as labels: texts as they are spelled, without blanks around them; a number or a day in one spelling."""
    codes, values = pd.factorize(column)
    labels = [*map(_label, values), MISSING]  # the code of a missing cell is -1
    return [labels[code] for code in codes]


def _label(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    # A column of whole numbers, or of days, is of another type where cells are missing.
    text = _MIDNIGHT.sub(r"\1", str(value)).removesuffix(".0")
    return "0" if text == "-0" else text


def index_labels(labels: Sequence[str], known: Sequence[str]) -> np.ndarray:
    """Return the index of each label among the known ones, or -1.

    A label that none of them spells is the only one that means the same, if there is one: the same number where all
    known ones are numbers, yes or no in other capitals, or a day for its midnight, as files of several kinds have them.

    Example:
        >>> index_labels(["7", "07", "8"], ["007", "9"]).tolist(), index_labels(["07"], ["007", "7"]).tolist()
        ([0, 0, -1], [-1])
        >>> index_labels(["7", "007"], ["007", "A1"]).tolist(), index_labels(["YES", "yes"], ["Yes", "no"]).tolist()
        ([-1, 0], [0, 0])
    """
    index = {label: i for i, label in enumerate(known)}
    if strange := {*labels} - index.keys():
        meaning = _meaning(known)
        meanings = [*map(meaning, known)]
        counts = Counter(meanings)
        alike = {each: i for i, each in enumerate(meanings) if counts[each] == 1}
        index |= {label: alike.get(meaning(label), -1) for label in strange}
    return np.array([index[label] for label in labels], dtype=np.int64)


def _meaning(known: Iterable[str]) -> Callable[[str], object]:
    """What makes two spellings one label, by the known ones."""
    present = {*known} - {MISSING, OTHERS}
    if any({label.casefold() for label in present} <= words for words in _YES_NO):
        return str.casefold
    if all(exact_number(label) is not None for label in present):
        return lambda label: label if (number := exact_number(label)) is None else number
    return lambda label: _MIDNIGHT.sub(r"\1", label)


def spelled_alike(labels: Iterable[str]) -> list[list[str]]:
    """Sets of distinct labels that are spellings of one number, or differ in capitals alone."""
    alike: dict[object, list[str]] = {}
    for label in dict.fromkeys(labels):
        number = exact_number(label)
        alike.setdefault(label.casefold() if number is None else number, []).append(label)
    return [each for each in alike.values() if len(each) > 1]


def numbers_of(name: str, column: pd.Series) -> np.ndarray:
    """The numbers of a column, NaN for missing cells; anything else is refused."""
    values, bad = plain_numbers(column)
    refuse(name, column, bad, "not a number")
    refuse(name, column, np.abs(values) > LARGEST, "infinite or too large")
    return values


def standardised_numbers(name: str, column: pd.Series, values: np.ndarray, mean: float, std: float) -> np.ndarray:
    """Centre and scale numbers; what would leave float32 is refused."""
    values = (values - mean) / std
    refuse(name, column, np.abs(values) > FARTHEST, "too far from all values seen in training")
    return values


def deviation(values: np.ndarray) -> float:
    """Standard deviation; 0 if all are the same, such as 0.1, where rounding would leave one above zero."""
    if is_constant(values.min(), values.max()):
        return 0.0
    unit = unit_of(np.abs(values).max())
    return float((values / unit).std() * unit)


def refuse(
    name: str, column: pd.Series, bad: np.ndarray, why: str, way_out: str = "correct it or remove the row"
) -> None:
    """Refuse a column with bad cells, naming the first."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        number = column.index[row] if pd.api.types.is_integer_dtype(column.index) else row  # of a part: in the table
        others = f" (and {bad.sum() - 1} more rows)" if bad.sum() > 1 else ""
        raise TableError(
            f"column {name!r} has {str(column.iloc[row])!r} in data row {number + 1}{others}, which is {why}: {way_out}"
        )


T = TypeVar("T")


def in_one_message(call: Callable[[Any], T], things: Iterable[Any], *, ending: str = "") -> list[T]:
    """Call something with each of several things and collect what it refuses, so that a table is mended in one go."""
    results, refusals = [], []
    for thing in things:
        try:
            results.append(call(thing))
        except TableError as error:
            refusals.append(error)
    if len(refusals) == 1:
        raise refusals[0]
    if refusals:
        lines = [f"{len(refusals)} columns cannot be used as they are:", *(f"- {refusal}" for refusal in refusals)]
        raise TableError("\n".join([*lines, ending] if ending else lines))
    return results


def drop_it(name: str) -> str:
    """The flag that leaves a column out, as a shell reads it."""
    return f"`--drop {shlex.quote(name)}`"


def check_no_missing(name: str, column: pd.Series) -> None:
    """Refuse a target with missing cells."""
    rows = [str(row + 1) for row in np.flatnonzero(column.isna())]
    if rows:
        raise TableError(
            f"target {name!r} is missing in {len(rows)} of {len(column)} rows (data rows {listed(rows)}): "
            "fill or remove them (empty cells, NA, None, ? and the like count as missing)"
        )


def quarter_ends(values: np.ndarray) -> np.ndarray:
    """Upper ends of the first three quarters of the numbers that are known, without those that are equal."""
    known = values[~np.isnan(values)]
    return np.unique(np.quantile(known, (0.25, 0.5, 0.75), method="inverted_cdf")) if len(known) else known


def with_ends(frame: pd.DataFrame, target: str, known: Sequence[str]) -> pd.DataFrame:
    """Return a table whose target is a column of intervals, missing where nothing is known; as it is if all is.

    What is known is told by the column of the event, the target being the times, or by those of the lower and the upper
    end, the target being a new name. The column takes the place of the target, so that rows are picked, split and left
    out as those of any other target.

    Example:
        >>> frame = pd.DataFrame({"weeks": [3.0, 5.0], "left": [1, 0]})
        >>> with_ends(frame, "weeks", ["left"])["weeks"].tolist()
        [Interval(3.0, 3.0, closed='both'), Interval(5.0, inf, closed='both')]
    """
    if not known or (target in frame.columns and _are_intervals(frame[target])):
        return frame
    ends = _of_event(frame, target, *known) if len(known) == 1 else _of_range(frame, target, *known)
    return frame.assign(**{target: pd.arrays.IntervalArray.from_arrays(ends[:, 0], ends[:, 1], closed="both")})


def _are_intervals(column: pd.Series) -> bool:
    """Whether they were gathered before; a column below another one has lost the dtype that tells."""
    return isinstance(column.dtype, pd.IntervalDtype) or isinstance(next(iter(column.dropna()), None), pd.Interval)


def ends_of(column: pd.Series) -> np.ndarray:
    """Both ends of each interval, shape (N, 2); infinite where there is none."""
    intervals = pd.arrays.IntervalArray(column.to_numpy() if column.dtype == object else column)
    return np.stack([intervals.left, intervals.right], axis=1).astype(np.float64)


def known_words(lower: float, upper: float) -> str:
    """What is known of a row, for the reader."""
    if lower == upper:
        return cell(lower)
    if np.isinf(upper):
        return f"over {cell(lower)}"
    return f"up to {cell(upper)}" if np.isinf(lower) else f"{cell(lower)} to {cell(upper)}"


def check_learnable(ends: np.ndarray, name: str, known: Sequence[str]) -> None:
    """Refuse a target of which all rows leave the same side open: it may be anywhere there."""
    if len(known) == 1 and not (ends[:, 0] == ends[:, 1]).any():
        raise TableError(
            f"no row has the event '{known[0]}', so nothing tells how long '{name}' takes: 1 says that the time was "
            "seen, 0 that it was still to come; are they the wrong way round?"
        )
    for side, end in enumerate(known if len(known) == 2 else ()):
        if np.isinf(ends[:, side]).all():
            raise TableError(f"'{end}' is missing in all rows, so '{name}' may lie anywhere there: fill some cells")


def _of_event(frame: pd.DataFrame, target: str, event: str) -> np.ndarray:
    check_present(frame.columns, [target, event])
    times, labels = numbers_of(target, frame[target]), labels_of(frame[event])
    refuse(target, frame[target], times < 0, "a time before the start", "count from where the observation began")
    seen = [SEEN.get(label.casefold()) for label in labels]
    bad = np.array([each is None for each in seen]) & ~np.isnan(times)
    what = "write 1 where the time was seen, and 0 where it is only known to be longer"
    refuse(event, frame[event], bad, "neither 1 nor 0", what)
    return ends_of_times(times, np.array(seen, dtype=bool))


def _of_range(frame: pd.DataFrame, target: str, low: str, high: str) -> np.ndarray:
    check_present(frame.columns, [low, high])
    if target in frame.columns and target not in (low, high):
        raise TableError(
            f"`--target {target}` is a column, and --lower and --upper tell what is known: name the target otherwise"
        )
    lower, upper = numbers_of(low, frame[low]), numbers_of(high, frame[high])
    bad = lower > upper
    above = f"above its '{high}' of {cell(upper[bad.argmax()])}"
    refuse(low, frame[low], bad, above, "exchange them or remove the row; equal ends say that it was seen")
    return ends_of_ranges(lower, upper)
