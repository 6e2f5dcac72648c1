"""``gumdrop info``: what a folder of `gumdrop fit` holds."""

from pathlib import Path

from gumdrop.cli.flags import Json
from gumdrop.tables.folders import model_folder
from gumdrop.views.terminal import Voice, print_json


def info(folder: Path, /, *, machine: Json = False) -> int:
    """Tell what a folder of `gumdrop fit` holds: columns, target, rates, versions, and how well it did.

    Args:
        folder: What `gumdrop fit` left.
        machine: Write one JSON object to standard output.

    Returns:
        Exit status.
    """
    voice = Voice(machine)
    whole = model_folder(folder, voice.say)

    from gumdrop.tables.info import table_info  # torch and all: what can be refused was
    from gumdrop.tables.plain import plain
    from gumdrop.views.info import show_info

    found = table_info(whole)
    if machine:
        print_json({"command": "info", "folder": str(folder), **plain(found)})
    else:
        show_info(voice, found)
    return 0
