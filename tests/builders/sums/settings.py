"""The flags of the small experiment."""

from dataclasses import dataclass, field, replace
from typing import Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of the small experiment."""

    width: int = 3
    """Factor of the sums."""
    sizes: tuple[int, ...] = (2, 5)
    """Lengths of the ranges."""
    stop: str = field(default="", metadata={"recorded": False})
    """Part in which to press Ctrl-C."""

    def __post_init__(self) -> None:
        at_least(self, 1, "width")

    def quick(self) -> Self:
        return replace(self, width=min(self.width, 2))
