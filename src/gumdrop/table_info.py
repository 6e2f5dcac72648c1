"""What a folder of ``gumdrop fit`` holds, without asking the model anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from gumdrop.datasets.columns import CategoryColumn, Column
from gumdrop.environment import in_words
from gumdrop.numerals import cell, readable
from gumdrop.table_results import named_rates, rates_in_words
from gumdrop.tables import TableModel, load_table_model, model_version
from gumdrop.terminal import Voice, columns_table

__all__ = ["show_info", "table_info"]


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


def show_info(voice: Voice, found: dict[str, Any]) -> None:
    """Show what is known of a model in a terminal.

    Args:
        voice: Where.
        found: What `table_info` returned.
    """
    target, table, networks = found["target"], found["table"], found["networks"]
    unit = f" ({target['unit']})" if target["unit"] else ""
    voice.say(f"{target['task']} of '{target['name']}'{unit} from {len(found['columns'])} columns")
    if target["classes"]:
        voice.say(f"classes: {', '.join(target['classes'])}")
    if table is not None:
        voice.say(
            f"table: {table['name']}, {table['rows']:,} rows: {table['train_rows']:,} to train, "
            f"{table['test_rows']:,} to test"
        )
    hidden = " and ".join(map(str, networks["hidden"]))
    voice.say(f"likelihood: {found['likelihood']}")
    voice.say(
        f"networks: {networks['members']} with {hidden} hidden units, {networks['parameters']:,} parameters, "
        f"{networks['draws']} draws"
    )
    kept = found["background_rows"]
    uses = "unknown cells are drawn from and explanations compare with"
    voice.say(f"kept with the model: {kept} encoded training rows, which {uses}")
    versions = found["environment"] or {}
    voice.say(f"made with: gumdrop {found['gumdrop']}" + "".join(f", {k} {in_words(v)}" for k, v in versions.items()))
    if found["stopped"]:
        voice.say(f"stopped by hand after {found['stopped']['done']} of {found['stopped']['planned']} epochs")
    columns = columns_table("Columns", "name", "kind", "training values", numbers_from=3)
    for column in found["columns"]:
        columns.add_row(column["name"], column["kind"], column["what"])
    voice.show(columns)
    rates = columns_table("Learned dropout rates", "layer", "mean", "range over the networks")
    for rate in found["rates"]:
        rates.add_row(rate["label"], f"{rate['p']:.3f}", f"{rate['least']:.3f} to {rate['most']:.3f}")
    voice.show(rates)
    if note := rates_in_words(found["rates"], networks["members"]):
        voice.say(note)
    if found["scores"]:
        voice.show(scores_table(found["scores"], f"Held-out figures, {table['test_rows']:,} test rows"))


def scores_table(scores: list[dict[str, Any]], title: str) -> Any:
    """The scores of all models, a line for each.

    Args:
        scores: As in `results.json`.
        title: What stands above them.

    Returns:
        A table for the terminal.
    """
    names = list(scores[0]["values"])
    rows = columns_table(title, "", *map(_heading, names))
    for score in scores:
        rows.add_row(score["name"], *(readable(score["values"][name]) for name in names))
    return rows


def _heading(name: str) -> str:
    return name.removesuffix(" interval").replace("coverage of", "coverage")
