"""What a folder of ``gumdrop fit`` holds, for the terminal."""

from __future__ import annotations

from typing import Any

from gumdrop.machine.environment import in_words
from gumdrop.machine.numerals import readable
from gumdrop.tables.results import rates_in_words
from gumdrop.views.terminal import Voice, columns_table

__all__ = ["show_info"]


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
