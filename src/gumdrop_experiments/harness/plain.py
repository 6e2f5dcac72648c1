"""Plain data in files: what JSON can hold, written whole."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from gumdrop.machine.files import replacing

Plain = dict[str, Any]
"""Plain data by name, as they go into JSON and come back: settings, parts and results of experiments."""


class WithPictures(NamedTuple):
    """What a study returns, and its page takes, where figures show more than `results.json` holds."""

    results: Plain
    """What `results.json` holds."""
    pictures: Any
    """What the figures show beside."""


def plain(value: Any, what: str) -> Any:
    """Give what JSON makes of a value, so that a part is the same whether computed or read."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must hold finite numbers, texts, lists and dicts alone ({error})") from error


def write_json(path: Path, contents: Any) -> None:
    """Write a file that appears whole or not at all."""
    with replacing(path) as file:
        file.write(json.dumps(contents, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """Read a file; one that is damaged is a ValueError with its name."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); delete it to compute it again") from error
