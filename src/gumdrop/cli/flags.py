"""The types of flags, and the file that may stand in for them."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import App, Parameter, validators
from cyclopts.config import Toml

from gumdrop.tables.fitting.settings import FLAGS

T = TypeVar("T")
Several = Annotated[tuple[T, ...], Parameter(consume_multiple=True, negative="")]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]
Fraction = Annotated[float, Parameter(validator=validators.Number(gt=0, lt=1))]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Flag = Annotated[bool, Parameter(negative="")]


FIELDS = Parameter(
    name="*",
    name_transform=lambda name: FLAGS.get(name, name).replace("_", "-"),
    negative_iterable=(),
    consume_multiple=True,
)
"""A field of these records is a flag, written nowhere else."""


def config_from_flag(app: App, commands: tuple[str, ...], arguments: Any) -> None:
    """Fill up what the command line does not say from the file that ``--config`` names, in place."""
    tokens = [token for argument in arguments if "--config" in argument.names for token in argument.tokens]
    if not tokens:
        return
    path = Path(tokens[-1].value)
    if not path.is_file():
        raise ValueError(f"--config {path} is not there: name the config.toml of a folder that `gumdrop fit` left")
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"--config {path} is not TOML: {error}") from error
    Toml(path, must_exist=True)(app, (), arguments)  # as of no command, or flags that are called like one are left out
