"""The flags of `rotation`."""

from dataclasses import dataclass
from pathlib import Path

from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `rotation`."""

    others: tuple[Path, ...] = ()
    """Folders of idx files that hold no digits, such as letters or clothes, of 28 x 28 pixels."""
    num_samples: int | None = None
    """Draws for each angle; 1,000 by default, 100 with --quick."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "num_samples")

    def recorded(self) -> Plain:
        """Return what identifies a run; paths as texts."""
        return super().recorded() | {"others": [str(path) for path in self.others]}
