"""The flags of `labels`."""

import dataclasses
from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, at_least, known

POOLS = ("mnist", "repeated")
"""Each digit once; and three times, with noise."""


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `labels`."""

    labels: int = 250
    """Labels to go up to, from 20."""
    by: int = 5
    """Labels to ask for at a time."""
    seeds: int = 1
    """Runs of each way; the source has six."""
    pool: int = 2000
    """Digits that are looked at in each round, drawn from all that are left; the source looks at all."""
    num_samples: int = 100
    """Functions that are drawn to choose by; a fifth of them to test."""
    test_images: int = 10_000
    """Digits to test on, spread over all test images."""
    epoch_images: int = 5056
    """Digits of an epoch of training, the labelled ones again and again."""
    pools: tuple[str, ...] = dataclasses.field(default=(), metadata={"recorded": False})
    """Pools to ask from now, of mnist and repeated; both by default. More can be added with --resume."""
    ways: tuple[str, ...] = dataclasses.field(default=(), metadata={"recorded": False})
    """Ways to ask now, such as fixed-batchbald; all by default. More can be added with --resume."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "by", "seeds", "num_samples", "test_images", "epoch_images")
        at_least(self, 21, "labels")
        at_least(self, self.by, "pool")

    def for_run(self, options: RunOptions) -> Self:
        """Check the names of pools and of ways."""
        from gumdrop_experiments.labels.ways import WAYS

        known("pool", self.pools, POOLS)
        known("way to ask", self.ways, WAYS)
        return super().for_run(options)

    def quick(self) -> Self:
        """Return settings for one run to 30 labels, with few draws."""
        most = {"labels": 30, "seeds": 1, "pool": 400, "num_samples": 10, "test_images": 500, "epoch_images": 640}
        return replace(self, **{name: min(getattr(self, name), value) for name, value in most.items()})
