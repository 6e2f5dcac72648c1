"""``gumdrop info``: what a folder of `gumdrop fit` holds."""

from __future__ import annotations

from pathlib import Path

from gumdrop.cli.flags import Json
from gumdrop.views.terminal import Voice, print_json

__all__ = ["info"]


def info(folder: Path, /, *, machine: Json = False) -> int:
    """Tell what a folder of `gumdrop fit` holds: columns, target, rates, versions, and how well it did.

    Args:
        folder: What `gumdrop fit` left.
        machine: Write one JSON object to standard output.

    Returns:
        Exit status.
    """
    from gumdrop.tables.fitting.folder import whole_folder
    from gumdrop.tables.info import table_info
    from gumdrop.tables.plain import plain
    from gumdrop.views.info import show_info

    voice = Voice(machine)
    found = table_info(whole_folder(folder, voice.say))
    if machine:
        print_json({"command": "info", "folder": str(folder), **plain(found)})
    else:
        show_info(voice, found)
    return 0
