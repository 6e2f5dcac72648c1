"""The flags of `rates`."""

from dataclasses import dataclass
from typing import Self

from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, at_least, known


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `rates`."""

    dataset: tuple[str, ...] = ()
    """Tables to run; all by default."""
    splits: int | None = None
    """Splits of a table at most; by default 10, and fewer of long tables."""

    arms: tuple[str, ...] = ()
    """Other ways to a rate to try beside: sites, front, hidden, pool, draws, response; none by default."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "splits")

    def for_run(self, options: RunOptions) -> Self:
        """Check the names."""
        from gumdrop_experiments.rates.results import ARM_LABELS
        from gumdrop_experiments.rates.sets import SETS

        known("table", self.dataset, SETS)
        if self.dataset and all(SETS[name].gaps or SETS[name].most_steps for name in self.dataset):
            raise ValueError(
                f"`dataset` must name a table for the regret, which is neither of gaps nor long, such as boston; got "
                f"{', '.join(self.dataset)}"
            )
        known("arm", self.arms, ARM_LABELS)
        return self
