"""The flags of `rivals`."""

from dataclasses import dataclass
from typing import Self

from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, known


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `rivals`."""

    methods: tuple[str, ...] = ()
    """Methods to run, by the names that `gumdrop reproduce tables` has; gumdrop, deep-ensemble, boosting, quantiles,
    ngboost, catboost, forest and realmlp by default."""

    def for_run(self, options: RunOptions) -> Self:
        """Check the names of methods."""
        from gumdrop_experiments.tables.methods import METHODS

        known("method", self.methods, METHODS)
        return self
