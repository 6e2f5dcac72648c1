"""The flags of `line`."""

from dataclasses import dataclass

from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `line`."""

    steps: int | None = None
    """Steps for up to a hundred points; twice as many for a thousand, four times for ten thousand. By default 1,000 for
    the published width of 1024 units and 2,000 for 64 units."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 2, "steps")
