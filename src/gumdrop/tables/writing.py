"""Write a table, as a whole or piece by piece, to a file that appears whole or not at all."""

import contextlib
import gzip
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pandas as pd

from gumdrop.machine.files import replacing
from gumdrop.tables.errors import STDIN, TableError

Write = Callable[[pd.DataFrame], None]


@contextlib.contextmanager
def written_table(place: Path) -> Iterator[Write]:
    """Open a table to write, in the format that its name ends with."""
    if str(place) == STDIN:
        yield _csv(sys.stdout.write)
        return
    with contextlib.ExitStack() as stack:
        file: Any = stack.enter_context(replacing(place, "wb"))
        if place.suffix.lower() in {".parquet", ".pq"}:
            yield stack.enter_context(_parquet(file, place))
            return
        if place.suffix == ".gz":  # the same rows, the same bytes
            file = stack.enter_context(gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0))
        yield _csv(lambda text: file.write(text.encode()))


def _csv(write: Callable[[str], object]) -> Write:
    header = True

    def write_rows(frame: pd.DataFrame) -> None:
        nonlocal header
        write(frame.to_csv(index=False, header=header, lineterminator="\n"))
        header = False

    return write_rows


@contextlib.contextmanager
def _parquet(file: IO[bytes], place: Path) -> Iterator[Write]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise TableError(f"{place} needs pyarrow: pip install 'gumdrop[parquet]', or write CSV") from error
    with contextlib.ExitStack() as stack:
        writer: Any = None

        def write_rows(frame: pd.DataFrame) -> None:
            nonlocal writer
            rows = pa.Table.from_pandas(frame, schema=writer and writer.schema, preserve_index=False)
            writer = writer or stack.enter_context(pq.ParquetWriter(file, rows.schema))
            writer.write_table(rows)

        yield write_rows
