"""The flags that an experiment has beside those that all share."""

import dataclasses
import math
from collections.abc import Collection
from typing import Self

from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.plain import Plain


@dataclasses.dataclass(frozen=True, kw_only=True)
class BaseSettings:
    """The flags of an experiment: each field of a subclass is one, and its docstring the help.

    A subclass checks the ranges in ``__post_init__``, with `at_least` where that is all.
    """

    def quick(self) -> Self:
        """Return settings for a smaller problem, which take minutes."""
        return self

    def for_run(self, options: RunOptions) -> Self:
        """Return the settings of one run, which are those that it records and that ``--resume`` must repeat."""
        return self.quick() if options.quick else self

    def recorded(self) -> Plain:
        """Return what identifies a run, by name: all but fields whose metadata say ``{"recorded": False}``."""
        fields = [field.name for field in dataclasses.fields(self) if field.metadata.get("recorded", True)]
        return {name: getattr(self, name) for name in fields}


def at_least(settings: BaseSettings, least: float, *names: str) -> None:
    """Check that settings are large enough; None, which leaves the choice to the experiment, always is."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < least:
            raise ValueError(f"`{name}` must be at least {least:g}, got {value}")


def check_regularisers(pair: tuple[float, float] | None) -> None:
    """Check what ``--regularisers`` was given."""
    if pair is not None and not all(0 < factor < math.inf for factor in pair):
        raise ValueError(f"`regularisers` must be two positive numbers, got {pair[0]:g} and {pair[1]:g}")


def known(what: str, names: Collection[str], choices: Collection[str]) -> tuple[str, ...]:
    """Check names that were given."""
    for name in names:
        if name not in choices:
            raise ValueError(f"there is no {what} {name!r}; there are: {', '.join(choices)}")
    return tuple(dict.fromkeys(names))
