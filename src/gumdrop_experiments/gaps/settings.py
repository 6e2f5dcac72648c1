"""The flags of `gaps`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, at_least, known


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `gaps`."""

    dataset: tuple[str, ...] = ()
    """Sets to run, by the names of their folders in DIR/uci; all by default."""
    methods: tuple[str, ...] = ()
    """Methods to run, by the names that `gumdrop reproduce tables` has; gumdrop, fixed, mc-dropout, deep-ensemble,
    ngboost, catboost and forest by default."""
    kinds: tuple[str, ...] = ()
    """Splits to run: random, gap, tail; all by default."""
    splits: int | None = None
    """Splits of each kind at most; all of them by default."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "splits")

    def for_run(self, options: RunOptions) -> Self:
        """Check the names, and name the sets that were left open from the folder of the data."""
        from gumdrop_experiments.gaps.splits import KINDS
        from gumdrop_experiments.tables.methods import METHODS

        known("method", self.methods, METHODS)
        folders = sorted(path.name for path in data_folder(options, "uci").iterdir() if path.is_dir())
        return replace(
            self,
            dataset=known("set", self.dataset, folders) or tuple(folders),
            kinds=known("kind of split", self.kinds, KINDS) or KINDS,
        )
