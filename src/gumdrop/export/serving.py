"""Predict with an exported table model: numpy and onnxruntime alone, no torch, no pandas.

This file imports nothing else of gumdrop, so that it can be copied to where there is nothing else, and run::

    python serving.py houses.onnx new.csv > predictions.csv
"""

import csv
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import onnxruntime

NEWEST_FORMAT = 1
# fmt: off
MISSING_WORDS = {
    "", "?", "-", ".", "na", "Na", "NA", "N.A.", "n.a.", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan",
    "-NaN", "-nan", "NONE", "None", "none", "NULL", "null", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN",
}
# fmt: on
"""How tables spell a missing cell, as training read them."""
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_MIDNIGHT = re.compile(r"^(\d{4}-\d\d-\d\d) 00:00:00$")
_YES_NO = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"})
_SPACES = re.compile(r"[\s'’]")
_CURRENCY = re.compile(r"[A-Z]{0,2}[^\w\s]|[A-Z]{3}")
"""Units that may stand before a number."""
_BOOKED = re.compile(r"([^\d()+-]*)\(([^()+-]+)\)([^\d()+-]*)")
"""A negative number, as accounting writes it."""
_YEAR_MONTH = re.compile(r"(\d{4})[-/](0[1-9]|1[0-2])|(0?[1-9]|1[0-2])[-/]((?:19|20)\d\d)")
_QUARTER = re.compile(r"(\d{4})[- ]?Q([1-4])|Q([1-4])[- /]?(\d{4})")
_WEEK = re.compile(r"\d{4}-?W\d\d")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:\.0)?")
_YEAR, _MONTH, _DAY = r"(?P<year>\d{4})", r"(?P<month>\d\d?)", r"(?P<day>\d\d?)"
_ORDERS = {
    "year-first": (_YEAR, _MONTH, _DAY),
    "day-first": (_DAY, _MONTH, _YEAR),
    "month-first": (_MONTH, _DAY, _YEAR),
}
_HALF = r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?"
_SECOND = r"(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
_TIME = rf"(?:[ T]+(?P<hour>\d\d?):(?P<minute>\d\d){_SECOND}{_HALF}\s*(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?"
_DATES = {order: re.compile(rf"{a}([-/.]){b}\2{c}{_TIME}") for order, (a, b, c) in _ORDERS.items()}
_PARTS = ("year", "month", "day", "hour", "minute", "second")
# fmt: off
_NAMES = {
    "month": ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
              "november", "december"],
    "weekday": ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
}
# fmt: on
_SHORT = {"sept": "september", "tues": "tuesday", "wednes": "wednesday", "thur": "thursday", "thurs": "thursday"}
_CLOCK = re.compile(rf"(\d{{1,2}}):([0-5]\d)(?::([0-5]\d(?:[.,]\d+)?))?{_HALF}")


class ServingError(ValueError):
    """A file that cannot be served, or rows that do not fit it."""


class ServedModel:
    """An exported table model, ready to predict.

    Args:
        path: File that ``gumdrop export`` wrote as ONNX.
        threads: Threads of onnxruntime; one is fastest for these networks.

    Raises:
        ServingError: If the file is damaged, was not exported from a table model, or is of a later version.
    """

    def __init__(self, path: str | Path, *, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        if not Path(path).is_file():
            raise ServingError(f"there is no file {path}")
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has an error for each way in which a file can be damaged
            raise ServingError(f"{path} is no whole ONNX file: {str(error).splitlines()[0]}") from error
        text = self.session.get_modelmeta().custom_metadata_map.get("gumdrop")
        if text is None:
            raise ServingError(f"{path} was not written by `gumdrop export`")
        self.metadata: dict[str, Any] = json.loads(text)
        """What the file says of itself: schema, likelihood, rates, versions."""
        if self.metadata["format"] > NEWEST_FORMAT:
            raise ServingError(
                f"{path} has format {self.metadata['format']} (gumdrop {self.metadata['gumdrop']}), and this reads up "
                f"to format {NEWEST_FORMAT}; take the gumdrop/serving.py of that version"
            )
        if "schema" not in self.metadata:
            raise ServingError(f"{path} holds a model that was not trained on a table; call its session directly")

    def encode(self, rows: Iterable[Mapping[str, Any]]) -> np.ndarray:
        """Turn rows into the file's input.

        Args:
            rows: One mapping from column to value for each row; a missing value is None, NaN or an empty text. Texts
                are read as in training: dates in the column's order or with their year first, numbers with the decimal
                mark of the training file and the unit that they had there or none. A date may also be a
                `datetime.date` or `datetime.datetime`.

        Returns:
            Shape (N, C), float64.

        Raises:
            ServingError: If a column is absent, or a cell is not of its kind.
        """
        schema = self.metadata["schema"]
        codes = [[_code(column, row, schema) for column in schema["columns"]] for row in rows]
        return np.array(codes, dtype=np.float64)

    def predict(self, rows: Iterable[Mapping[str, Any]], *, noise: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Predict rows.

        Args:
            rows: As for `encode`.
            noise: Uniform draws, shape (S, ``metadata["num_noise"]``), float32, for a file of the variant "noise".

        Returns:
            The outputs of the file by name, a row for each row.

        Raises:
            ServingError: If the rows do not fit, or the noise is missing or has no use.
        """
        feed = {"columns": self.encode(rows)}
        if noise is not None and self.metadata["variant"] != "noise":
            raise ServingError(f"`noise` is for files of the variant 'noise', this is {self.metadata['variant']!r}")
        if noise is None and self.metadata["variant"] == "noise":
            raise ServingError("a file of the variant 'noise' needs `noise`: uniform numbers, a row for each draw")
        if not len(feed["columns"]):
            raise ServingError("there are no rows to predict")
        if noise is not None:
            feed["noise"] = np.asarray(noise, dtype=np.float32)
        return dict(zip(self.metadata["outputs"], self.session.run(None, feed), strict=True))


def _code(column: Mapping[str, Any], row: Mapping[str, Any], schema: Mapping[str, Any]) -> float:
    name, kind = column["name"], column["kind"]
    if name not in row:
        raise ServingError(f"a row has no column {name!r}; it has {', '.join(map(str, row))}")
    value = row[name]
    text = "" if value is None else str(value).strip()
    if text in MISSING_WORDS or (text == "NaT" and kind == "date"):
        return float("nan")
    if kind == "category":
        return _place(column["categories"], text if isinstance(value, str) else text.removesuffix(".0"))
    try:
        if kind == "date":
            return _days(text, column["order"])
        if kind == "cycle":
            return _on_cycle(text, column["cycle"])
        mark = schema.get("marks", {}).get(name, {})
        unit, decimal = mark.get("unit", ""), mark.get("decimal") or schema["decimal"]
        number = _number(text, unit, decimal if isinstance(value, str) else None)
    except ValueError as error:
        what = f"date with its {column['order'].replace('-', ' ')}" if kind == "date" else column.get("cycle", "number")
        what += f" in {unit}" if kind == "number" and unit else ""
        what += f" with the decimal mark '{decimal}'" if kind == "number" and decimal else ""
        raise ServingError(f"column {name!r} has {text!r}, which is not a {what}") from error
    if not np.isfinite(number):
        raise ServingError(f"column {name!r} has {text!r}, which is not finite")
    return number


def _place(categories: Sequence[str], label: str) -> float:
    """Find a label among the categories: the one that is spelled so, else the only one that means the same."""
    if label in categories:
        return float(categories.index(label))
    meaning = _meaning({*categories} - {"", "(others)"})
    alike = [i for i, category in enumerate(categories) if meaning(category) == meaning(label)]
    if len(alike) == 1:
        return float(alike[0])
    return float(categories.index("(others)")) if "(others)" in categories else -1.0  # the category of rare labels


def _meaning(known: Collection[str]) -> Callable[[str], object]:
    """Find what makes two spellings one label: yes and no in any capitals, a number, or a day and its midnight."""
    if any({label.casefold() for label in known} <= words for words in _YES_NO):
        return str.casefold
    if all(map(_PLAIN.fullmatch, known)):
        return lambda label: Fraction(label) if _PLAIN.fullmatch(label) else label
    return lambda label: _MIDNIGHT.sub(r"\1", label)


def _days(text: str, order: str) -> float:
    """Read a date as days since 1970-01-01, in UTC where it has an offset; of months, quarters and weeks the first."""
    if first := _YEAR_MONTH.fullmatch(text):
        text = f"{first[1] or first[4]}-{first[2] or first[3]}-01"
    elif quarter := _QUARTER.fullmatch(text):
        text = f"{quarter[1] or quarter[4]}-{3 * int(quarter[2] or quarter[3]) - 2:02}-01"
    elif compact := _COMPACT.fullmatch(text):
        text = "-".join(compact.groups())
    elif _WEEK.fullmatch(text):
        text = date.fromisoformat(text).isoformat()
    match = _DATES["year-first"].fullmatch(text) or _DATES[order].fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(match[part] or 0) for part in _PARTS)
    hour = _of_day(hour, match["half"])
    iso = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
    return (datetime.fromisoformat(iso + (match["zone"] or "Z")) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)


def _on_cycle(text: str, cycle: str) -> float:
    """Read a month or a weekday as its number from 1, or a time of day as hours."""
    if cycle != "time of day":
        word = text.casefold().removesuffix(".")
        word = _SHORT.get(word, word)
        return [word in (name, name[:3]) for name in _NAMES[cycle]].index(True) + 1.0  # a ValueError if it is none
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return (
        _of_day(int(match[1]), match["half"]) + int(match[2]) / 60 + float((match[3] or "0").replace(",", ".")) / 3600
    )


def _of_day(hour: int, half: str | None) -> int:
    """Count an hour from midnight, with a or p where there is one for am and pm."""
    if hour > 23 or (half and not 1 <= hour <= 12):
        raise ValueError(hour)
    return hour % 12 + 12 * (half in "pP") if half else hour


def _number(text: str, unit: str, decimal: str | None) -> float:
    """Read a number with the unit and the decimal mark of training: with a comma 1.234 is 1234, and 1.5 is none."""
    text = _SPACES.sub("", text).replace("\u2212", "-")
    if booked := _BOOKED.fullmatch(text):
        text = "-" + "".join(booked.groups())
    after = f"(?:{re.escape(unit)})?"
    before = after if _CURRENCY.fullmatch(unit) else ""
    if number := re.fullmatch(f"([+-]?){before}([+-]?)(.*?){after}", text):
        text = "".join(number.groups())
    thousands = "." if decimal == "," else ","
    if decimal and re.fullmatch(rf"[+-]?([1-9]\d{{0,2}}([{thousands}]\d{{3}})+|\d*)([{decimal}]\d*)?", text):
        text = text.replace(thousands, "").replace(decimal, ".")
    elif decimal == "," and "." in text:
        raise ValueError(text)
    return float(text)


def read_rows(file: TextIO) -> list[dict[str, str]]:
    """Read a table with a header line and commas, semicolons or tabs; a row of another width is refused."""
    separator = max(",;\t", key=file.readline().count)
    file.seek(0)
    reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
    names = [name.strip() for name in next(reader, [])]
    rows = []
    for row in reader:
        if len(row) < 2 and not "".join(row).strip():  # a blank line
            continue
        if "".join(row[len(names) :]).strip() or any(names[len(row) :]):  # more than marks at the ends of lines
            raise ServingError(f"line {reader.line_num} has {len(row)} cells, its header {len(names)}")
        rows.append(dict(zip(names, row, strict=False)))
    return rows


def write_predictions(model: ServedModel, rows: Sequence[Mapping[str, Any]], file: TextIO) -> None:
    """Predict rows and write a table, with the columns that name the rows where these have them."""
    outputs = model.predict(rows)
    identifiers = [name for name in model.metadata["schema"].get("identifiers", ()) if all(name in row for row in rows)]
    classes = model.metadata["schema"]["target"]["classes"]
    names: list[str] = []
    for name in outputs:
        names += [f"p({label})" for label in classes] if name == "probabilities" else [name]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["row", *identifiers, *names])
    table = np.column_stack(list(outputs.values()))
    pairs = zip(rows, table, strict=True)
    writer.writerows(
        [i, *(row[name] for name in identifiers), *map(str, values)] for i, (row, values) in enumerate(pairs, start=1)
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python serving.py MODEL.onnx TABLE.csv > PREDICTIONS.csv")
    try:
        with Path(sys.argv[2]).open(encoding="utf-8-sig", newline="") as table:
            write_predictions(ServedModel(sys.argv[1]), read_rows(table), sys.stdout)
    except (ServingError, OSError, csv.Error) as error:
        sys.exit(f"error: {error}")
