"""``gumdrop info``: what a folder of `gumdrop fit` holds."""

from functools import partial
from pathlib import Path

from gumdrop.cli.flags import Json
from gumdrop.tables.folders import model_folder
from gumdrop.tables.plain import plain
from gumdrop.views.terminal import Voice


def info(folder: Path, /, *, machine: Json = False) -> None:
    """Tell what a folder of `gumdrop fit` holds: columns, target, rates, versions, and how well it did.

    Args:
        folder: What `gumdrop fit` left.
        machine: Write one JSON object to standard output.
    """
    voice = Voice(machine)
    whole = model_folder(folder, voice.say)

    from gumdrop.tables.info import table_info  # torch and all: what can be refused was
    from gumdrop.views.info import show_info

    known = table_info(whole)
    voice.answer({"command": "info", "folder": str(folder), **plain(known)}, partial(show_info, known=known))
