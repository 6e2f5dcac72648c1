"""The flags of `tables`."""

from dataclasses import dataclass
from typing import Self

from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, known


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `tables`."""

    methods: tuple[str, ...] = ()
    """Methods to run: gumdrop, fixed, mc-dropout, deep-ensemble, process, linear, boosting, quantiles, ngboost,
    catboost, forest, realmlp, tabm; all but the last by default. The last five need `pip install 'gumdrop[rivals]'`."""

    def for_run(self, options: RunOptions) -> Self:
        """Check the names of methods."""
        from gumdrop_experiments.tables.methods import METHODS

        known("method", self.methods, METHODS)
        return self
