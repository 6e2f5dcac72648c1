"""The flags of `cartpole`."""

from dataclasses import dataclass, replace
from typing import Literal, Self

from gumdrop_experiments.harness.settings import BaseSettings, at_least


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `cartpole`."""

    environment: Literal["swing-up", "pendulum"] = "swing-up"
    """What to control: the pole on a cart, or Gymnasium's Pendulum-v1."""
    trials: int = 20
    """Episodes of each search; the first is random."""
    seeds: int = 5
    """Searches with each kind of dropout."""
    moment_matching: bool = False
    """Draw the particles of a roll-out anew at each step, from a Gaussian with their moments, as DeepPILCO does."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 2, "trials")
        at_least(self, 1, "seeds")

    def quick(self) -> Self:
        """Return settings for two short searches of each kind."""
        return replace(self, trials=min(self.trials, 4), seeds=min(self.seeds, 2))
