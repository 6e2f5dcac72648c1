"""The flags of `uci`."""

from dataclasses import dataclass, replace
from typing import Self

from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.settings import BaseSettings, at_least, check_regularisers, known


@dataclass(frozen=True, kw_only=True)
class Settings(BaseSettings):
    """The flags of `uci`."""

    dataset: tuple[str, ...] = ()
    """Sets to run, by the names of their folders in DIR/uci; all by default."""
    methods: tuple[str, ...] = ()
    """Methods to run: gumdrop, one-member, dropout-off, grid, no-dropout, paper, deep-ensemble, peer, three-pass,
    two-pass; all but the last two by default."""
    splits: int | None = None
    """Splits to run; all of them by default."""
    regularisers: tuple[float, float] | None = None
    """Factors on the squared weights and on the entropy of the masks, as published code has them: 0.01 100 in the
    report. For three-pass and two-pass, which have those of the ELBO without the flag."""
    scheme_epochs: int = 30
    """Epochs of each kind of pass of three-pass and two-pass, in ten turns with as many in each; 30 in the report."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        at_least(self, 1, "splits", "scheme_epochs")
        check_regularisers(self.regularisers)

    def for_run(self, options: RunOptions) -> Self:
        """Name the sets and methods that were left open, from the folder of the data and from all methods."""
        from gumdrop_experiments.uci.methods import METHODS

        folders = sorted(path.name for path in data_folder(options, "uci").iterdir() if path.is_dir())
        usual = tuple(key for key, method in METHODS.items() if method.default)
        return replace(
            self,
            dataset=known("set", self.dataset, folders) or tuple(folders),
            methods=known("method", self.methods, METHODS) or usual,
        )
