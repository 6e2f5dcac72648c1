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

    Raises:
        TableError: If the folder holds no model, or a file of it is damaged.
    """
    from gumdrop.tables.errors import TableError
    from gumdrop.tables.fitting.folder import whole_folder
    from gumdrop.tables.info import table_info
    from gumdrop.views.info import show_info

    voice = Voice(machine)
    try:
        found = table_info(whole_folder(folder, voice.say))
        if machine:
            print_json({"command": "info", "folder": str(folder), **found})
        else:
            show_info(voice, found)
    except TableError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:  # the model is whole
        raise TableError(f"{folder / 'results.json'} is damaged ({error!r}): fit again, or remove it") from error
    return 0
