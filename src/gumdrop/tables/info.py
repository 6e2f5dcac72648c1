"""What a folder of ``gumdrop fit`` holds, without asking the model anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from gumdrop.machine.numerals import cell, readable
from gumdrop.tables.model import TableModel, load_table_model, model_version
from gumdrop.tables.results import named_rates
from gumdrop.tables.schema.columns import CategoryColumn, Column

__all__ = ["table_info"]


def table_info(folder: Path) -> dict[str, Any]:
    """Gather what is known of a model.

    Args:
        folder: The folder.

    Returns:
        Plain data. What only `results.json` knows is None where that file is absent.

    Raises:
        TableError: If the folder holds no model, or a damaged one.
    """
    model = load_table_model(folder)
    target = model.schema.target
    results: dict[str, Any] = {}
    if (folder / "results.json").is_file():
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return {
        "gumdrop": model_version(folder),
        "environment": results.get("environment"),
        "table": results.get("table"),
        "target": {"name": target.name, "unit": model.unit, "task": target.task, "classes": list(target.classes)}
        | ({"mean": target.mean, "std": target.std} if model.is_regression else {}),
        "likelihood": _likelihood(model),
        "networks": {
            "members": len(model.ensemble.members),
            "hidden": list(model.hidden),
            "draws": model.num_samples,
            "parameters": sum(p.numel() for p in model.ensemble.parameters()),
        },
        "coverage": model.coverage,
        "columns": [{"name": c.name, "kind": c.kind, "what": _what(c)} for c in model.schema.columns],
        "rates": named_rates(model),
        "background_rows": len(model.background),
        "scores": results.get("scores"),
        "stopped": results.get("stopped"),
        "seconds": results.get("seconds"),
    }


def _likelihood(model: TableModel) -> str:
    if model.is_regression:
        return "Gaussian for each draw, with noise that depends on the inputs; a mixture of them in all"
    return "categorical, averaged over the draws"


def _what(column: Column) -> str:
    if isinstance(column, CategoryColumn):
        names = [category or "(missing)" for category in column.categories]
        return f"{len(names)}: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    if column.kind == "date":
        least, most = (f"{pd.Timestamp(days, unit='D'):%Y-%m-%d}" for days in (column.least, column.most))
        cycles = ", ".join(getattr(column, "parts", ())) or "no cycles"
        return f"{least} to {most}, {column.order.replace('-', ' ')}; {cycles}"  # type: ignore[union-attr]
    return f"{cell(column.least)} to {cell(column.most)}, mean {readable(column.mean)}, std {readable(column.std, 3)}"
