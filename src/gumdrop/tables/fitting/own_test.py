"""A table of the user's own that tests, in the place of a part of the table that trains."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from gumdrop.tables.errors import TableError, check_present
from gumdrop.tables.prediction import encoding_notes, without_target
from gumdrop.tables.reading.table import read_table
from gumdrop.tables.schema.schema import Encoded, TableSchema


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
    table, name = read_table(path, decimal=schema.decimal), Path(path).name
    target = schema.target.name
    with _naming(name):
        check_present(table.frame.columns, [*schema.names, target])
        known = table.frame[target].notna().to_numpy()
        if not known.any():
            raise TableError(f"no row has a '{target}', so none can test")
        frame = table.frame[known]
        schema.encode_target(frame)
    return OwnTest(
        name,
        frame.reset_index(drop=True),
        np.flatnonzero(known) + 1,
        [*table.notes, *without_target(known, target)],
    )


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Say which table a message is about."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{name}: {error}") from error
