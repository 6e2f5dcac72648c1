"""A table that does not fit into memory, as estimators see it: columns of numbers, and held-out rows."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.ensembles.rows import MIN_ROWS
from gumdrop.estimators.checks import check_scale
from gumdrop.tables.schema.cells import labels_of
from gumdrop.tables.schema.columns import MeasuredColumn
from gumdrop.tables.schema.schema import TableSchema, Target
from gumdrop.tables.streams.pieces import TableStream
from gumdrop.tables.streams.rows import StreamedRows
from gumdrop.tables.streams.survey import Moments, Survey, survey, with_moments


@dataclass(frozen=True, eq=False)
class StreamedColumns:
    """Columns of a table that is read in pieces, and what one pass over it found."""

    stream: TableStream
    """The pieces."""
    found: Survey
    """Statistics, and the held-out rows."""
    names: list[str]
    """Columns of numbers to predict from."""
    target: str
    """Column to predict."""

    @property
    def observed(self) -> np.ndarray:
        """Targets of the held-out rows, among them the first of each label."""
        return self.found.sample[self.target].to_numpy()

    @property
    def center(self) -> np.ndarray:
        """Mean of each column over the rows that train."""
        return np.array([self.found.moments[name].statistics["mean"] for name in self.names])

    @property
    def scale(self) -> np.ndarray:
        """Standard deviation of each column over the rows that train; infinite where it never varies."""
        found = [self.found.moments[name] for name in self.names]
        return np.array([math.inf if m.is_constant else m.statistics["std"] for m in found])

    def regression_target(self) -> Target:
        """Take the target for a number."""
        _check_numbers(self.found, self.target)
        statistics = self.found.moments[self.target].statistics
        check_scale(statistics["std"])
        return Target(self.target, "regression", statistics["mean"], statistics["std"])

    def classes_target(self, classes: np.ndarray) -> Target:
        """Take the target for one of some labels."""
        if len(classes) < 2:
            raise ValueError(f"a classifier needs rows of at least 2 classes, got the class {classes.tolist()}")
        return Target(self.target, "classification", classes=tuple(labels_of(pd.Series(classes))))

    def rows(self, target: Target, batch_size: int, seed: int) -> tuple[StreamedRows, tuple[Tensor, Tensor]]:
        """Encode the rows."""
        moments = {name: self.found.moments[name] for name in self.names}
        columns = [with_moments(MeasuredColumn(name=n, kind="number", median=m.mean), m) for n, m in moments.items()]
        schema = TableSchema(tuple(columns), target)
        held_out = torch.from_numpy(schema.encode_inputs(self.found.sample).x)
        rows = StreamedRows(self.stream, schema, self.found, batch_size=batch_size, seed=seed)
        return rows, (held_out, torch.from_numpy(schema.encode_target(self.found.sample)))


def open_columns(
    path: str | os.PathLike[str], target: str, columns: Sequence[str] | None, *, seed: int
) -> StreamedColumns:
    """Read a table once, in pieces, and check that estimators can use it."""
    stream = TableStream(os.fspath(path), [target])
    names = [name for name in stream.names if name != target] if columns is None else list(columns)
    if not names or target in names:
        raise ValueError(f"`columns` must name columns other than the target {target!r}, got {names}")
    # So many rows do not train: they set the noise of numbers, and pick the epoch.
    summary = survey(stream, target, columns=names, sample_rows=4096, seed=seed)
    if summary.num_known < MIN_ROWS:
        raise ValueError(
            f"an ensemble needs at least {MIN_ROWS} rows beside the held-out ones, got {summary.num_known}"
        )
    for name in names:
        _check_numbers(summary, name)
    return StreamedColumns(stream, summary, names, target)


def _check_numbers(summary: Survey, name: str) -> None:
    """Refuse what estimators refuse in arrays: texts and missing cells; the survey refuses infinities."""
    sampled, moments = summary.sample[name], summary.moments.get(name, Moments())
    if not pd.api.types.is_numeric_dtype(sampled):
        raise ValueError(
            f"column {name!r} must hold numbers, got {str(sampled.iloc[0])!r}: leave it out with `columns`, encode it, "
            "or use `gumdrop fit --stream`, which does so"
        )
    if missing := summary.num_known - moments.count + int(sampled.isna().sum()):
        raise ValueError(
            f"column {name!r} must have no missing cells, got {missing}: fill them, leave it out with `columns`, or "
            "use `gumdrop fit --stream`, which fills them"
        )
