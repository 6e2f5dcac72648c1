"""Predict with an exported table model: numpy and onnxruntime alone, no torch, no pandas.

This file imports nothing else of gumdrop, so that it can be copied to where there is nothing else, and run::

    python serving.py houses.onnx new.csv > predictions.csv
"""

import csv
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import onnxruntime

__all__ = ["ServedModel", "ServingError"]

NEWEST_FORMAT = 1
# fmt: off
MISSING_WORDS = {
    "", "?", "-", ".", "na", "Na", "NA", "N.A.", "n.a.", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NaN", "nan",
    "-NaN", "-nan", "NONE", "None", "none", "NULL", "null", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN",
}
# fmt: on
"""How tables spell a missing cell, as training read them."""
_INTEGER = re.compile(r"[+-]?\d{1,300}(\.0*)?")
_DECIMAL = re.compile(r"[+-]?\d*\.\d+")


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
            rows: One mapping from column to value for each row; a missing number is None, NaN or an empty text.

        Returns:
            Shape (N, C), float64.

        Raises:
            ServingError: If a column is absent, or a number is none or infinite.
        """
        columns = self.metadata["schema"]["columns"]
        return np.array([[_code(column, row) for column in columns] for row in rows], dtype=np.float64)

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
        if (noise is not None) != (self.metadata["variant"] == "noise"):
            raise ServingError(f"`noise` is for files of the variant 'noise', this is {self.metadata['variant']!r}")
        if not len(feed["columns"]):
            raise ServingError("there are no rows to predict")
        if noise is not None:
            feed["noise"] = np.asarray(noise, dtype=np.float32)
        return dict(zip(self.metadata["outputs"], self.session.run(None, feed), strict=True))


def _code(column: Mapping[str, Any], row: Mapping[str, Any]) -> float:
    name = column["name"]
    if name not in row:
        raise ServingError(f"a row has no column {name!r}; it has {', '.join(map(str, row))}")
    value = row[name]
    text = "" if value is None else str(value).strip()
    if text in MISSING_WORDS:
        return float("nan")
    if column["kind"] == "CategoryColumn":
        label = _label(text)
        return float(column["categories"].index(label)) if label in column["categories"] else -1.0
    try:
        number = float(text)
    except ValueError as error:
        raise ServingError(f"column {name!r} has {text!r}, which is not a number") from error
    if not np.isfinite(number):
        raise ServingError(f"column {name!r} has {text!r}, which is not finite")
    return number


def _label(text: str) -> str:
    """Spell 1, 1.0 and 01 alike, as training did."""
    if _INTEGER.fullmatch(text):
        return str(int(text.split(".")[0]))
    return repr(float(text)) if _DECIMAL.fullmatch(text) else text


def write_predictions(model: ServedModel, rows: Sequence[Mapping[str, Any]], file: TextIO) -> None:
    """Predict rows and write a table.

    Args:
        model: The model.
        rows: Rows to predict.
        file: Where the table goes.
    """
    outputs = model.predict(rows)
    classes = model.metadata["schema"]["target"]["classes"]
    names: list[str] = []
    for name in outputs:
        names += [f"p({label})" for label in classes] if name == "probabilities" else [name]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["row", *names])
    table = np.column_stack(list(outputs.values()))
    writer.writerows([i, *(f"{value:.6g}" for value in values)] for i, values in enumerate(table, start=1))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python serving.py MODEL.onnx TABLE.csv > PREDICTIONS.csv")
    try:
        with Path(sys.argv[2]).open(encoding="utf-8-sig", newline="") as table:
            write_predictions(ServedModel(sys.argv[1]), list(csv.DictReader(table)), sys.stdout)
    except (ServingError, OSError) as error:
        sys.exit(f"error: {error}")
