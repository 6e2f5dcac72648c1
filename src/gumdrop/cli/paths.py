"""Where a command reads and writes: standard input, the name of a table, a file that may be written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gumdrop.machine.files import check_file
from gumdrop.tables.errors import STDIN, TableError

if TYPE_CHECKING:
    from gumdrop.tables.model import TableModel


def stem(table: Path) -> str:
    """Name of a table without the ending of its format."""
    name = table.name.removesuffix(".gz")
    for ending in (".csv", ".parquet", ".pq"):
        name = name.removesuffix(ending) or name
    return name


def table_name(table: Path) -> str:
    """What a page calls a table."""
    return "standard input" if str(table) == STDIN else table.name


def with_coverage(model: TableModel, coverage: float | None) -> TableModel:
    """The model with intervals of another probability, if one is given."""
    if coverage is None:
        return model
    if model.schema.target.task != "regression" and model.conformal is None:
        raise TableError(
            f"--coverage {coverage:g} is of intervals and conformal sets, and this model predicts classes: leave it "
            "away, or fit with --conformal"
        )
    return replace(model, coverage=coverage)


def check_free(path: Path | None, table: Path, overwrite: bool, flag: str = "--out") -> None:
    """Refuse a file that is no file, is the table itself or lies in it, or exists and is not to be replaced."""
    if path is None:
        return
    check_file(path)
    if str(table) != STDIN and path.resolve() == table.resolve():
        raise TableError(f"{path} is the table itself; name another file with {flag}")
    if table.resolve() in path.resolve().parents:
        raise TableError(f"{path} would be a file of the table itself; name another one with {flag}")
    if path.exists() and not overwrite:
        raise TableError(f"{path} exists already; name another file with {flag}, or add --overwrite")
