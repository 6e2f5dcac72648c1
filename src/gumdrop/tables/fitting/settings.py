"""The choices of a fit of a table, and the file `config.toml` that repeats it."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gumdrop.tables.reading.declared import Reading, with_names

if TYPE_CHECKING:
    from gumdrop.ensembles import EnsembleSettings

SplitAs = Literal["time", "groups"]
CONFIG_FILE = "config.toml"


@dataclass(frozen=True)
class FitSettings:
    """Everything about a fit that is a choice; written into the results, and each field is a flag of `gumdrop fit`."""

    hidden: tuple[int, ...] | None = None
    """Units of the hidden layers of each network, which are then ReLU networks of the plain inputs; by default held-out
    rows choose the networks."""
    num_members: int | None = None
    """Networks of each strength of dropout, whose answers are mixed; by default 10, and 5 from 10,000 rows on."""
    epochs: int | None = None
    """Passes over the training part; by default at least 20; some 200 of tables with hundreds of rows, and fewer
    where noise dominates."""
    batch_size: int | None = None
    """Rows per step; by default between 128 and 1,024, more for a longer table."""
    lr: float = 1e-2
    """Largest learning rate, for batches of a 16th of the rows; larger batches have up to twice that."""
    strength: float | None = None
    """How much dropout: 1 for the rates of the evidence lower bound, more for larger rates; by default held-out rows
    choose, and from 10,000 rows on and for a stream it is 1."""
    num_samples: int = 100
    """Functions to average in a prediction, spread over the networks."""
    coverage: float = 0.9
    """Probability of the intervals."""
    test_fraction: float = 0.2
    """Share of the rows that is held out for the report."""
    test: str | None = None
    """Table that tests; then all rows of the other train."""
    split_by: str | None = None
    """Column that decides which rows test. Of dates the last rows do, of anything else the rows of whole groups, such
    as all visits of a patient, and such a column is no input."""
    split_as: SplitAs | None = None
    """What that column is, where it is not as above: numbers can be times, and dates groups."""
    conformal: bool = False
    """Make intervals, quantiles and sets of classes conformal: training rows, as networks predict them that have not
    seen them, say at which level of the predicted distribution these hold what they promise."""
    conformal_by: tuple[str, ...] = ()
    """Columns whose groups have conformal levels of their own, so that what is promised holds for each: categories, and
    quarters of numbers and dates."""
    num_background: int = 500
    """Training rows that are kept in the model, to draw unknown cells from and for `gumdrop explain` to compare with; 0
    keeps none."""
    compare: bool = True
    """Train models to stand beside it in the report: the same networks with a fixed rate and without dropout, trees and
    a line. They take up to two thirds of the time."""
    stream: bool = False
    """Read a Parquet or Arrow file, or a folder of them, in pieces, so that it need not fit into memory; a sample of
    20,000 rows tests, and by default the others are passed over once, or for about 2,500 steps."""
    seed: int = 0
    """Seed of everything random."""

    def ensemble(self) -> EnsembleSettings:
        """The settings of the networks' training."""
        from gumdrop.ensembles import EnsembleSettings  # torch, which a refused command does not wait for

        return EnsembleSettings(
            num_members=self.num_members,
            epochs=self.epochs,
            batch_size=self.batch_size,
            lr=self.lr,
            strength=self.strength,
            seed=self.seed,
        )

    def __post_init__(self) -> None:
        """Check the ranges."""
        with_names(self, ("conformal_by",), ("split_by",))
        for name in ("coverage", "test_fraction"):
            check_probability(name, getattr(self, name))
        for name, (least, most) in RANGES.items():
            value, flag = getattr(self, name), f" (--{FLAGS[name]})" if name in FLAGS else ""
            if value is not None and value < least:
                raise ValueError(f"`{name}` must be at least {least}, got {value}{flag}")
            if value is not None and value > most:
                raise ValueError(f"`{name}` must be at most {most:,}, got {value:,}{flag}")
        self._check_split()
        if not 0 < self.lr < math.inf:
            raise ValueError(f"`lr` must be positive and finite, got {self.lr}")
        if self.strength is not None and not 0 < self.strength < math.inf:
            raise ValueError(f"`strength` must be positive and finite, got {self.strength}")
        if self.hidden is not None:
            self._check_size(self.hidden)

    def _check_size(self, hidden: tuple[int, ...]) -> None:
        if not all(1 <= size <= MOST_UNITS for size in hidden) or len(hidden) > MOST_LAYERS:
            raise ValueError(
                f"`hidden` must hold positive sizes up to {MOST_UNITS:,}, at most {MOST_LAYERS} of them, got "
                f"{list(hidden)[:10]}"
            )
        num_members = self.num_members or 10
        weights = num_members * sum(one * other for one, other in itertools.pairwise(hidden))
        if weights > MOST_WEIGHTS:
            raise ValueError(
                f"`hidden` makes {weights:,} weights of {num_members} networks, and at most {MOST_WEIGHTS:,} are "
                "possible: use fewer units"
            )

    def _check_split(self) -> None:
        if self.test is not None and self.split_by is not None:
            raise ValueError(f"`test` ({self.test}) and `split_by` ({self.split_by}) both tell what tests: give one")
        if self.split_as is not None and self.split_by is None:
            raise ValueError(f"`split_as` ({self.split_as}) says what a column is: name it with `split_by`")
        if self.stream and (self.test is not None or self.split_by is not None):
            raise ValueError("`stream` tests on a random sample: leave it away with `test` and `split_by`")


@dataclass(frozen=True)
class PredictionSettings:
    """What is wanted of predictions; each field is a flag of `gumdrop predict`."""

    keep: tuple[str, ...] = ()
    """Columns of the table to carry along, such as one that names the rows."""
    coverage: float | None = None
    """Probability of the intervals; by default that of the fit."""
    quantiles: tuple[float, ...] = ()
    """Probabilities of quantiles to write as columns, such as .1 .5 .9."""
    at: tuple[float, ...] = ()
    """Values to write the probability above as columns, such as 1 5 10: of times the survival."""
    levels: bool = False
    """Write the probability of each level as a column, for a target that is recorded in steps, such as grades."""

    def __post_init__(self) -> None:
        """Check the probabilities."""
        with_names(self, ("keep",))
        if self.coverage is not None:
            check_probability("coverage", self.coverage)
        for quantile in self.quantiles:
            check_probability("quantiles", quantile)


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability of something that may be or not."""
    if not 0 < value < 1:
        raise ValueError(f"`{name}` must be strictly between 0 and 1, got {value}")


RANGES = {
    "num_members": (1, 1000),
    "epochs": (1, 1_000_000),
    "batch_size": (1, 2**31),
    "num_samples": (1, 100_000),
    "seed": (0, 2**32 - 1),
    "num_background": (0, 1_000_000),
}
"""Least and largest of the settings that are whole numbers: what lies beyond is a slip, and would run without end."""
MOST_LAYERS, MOST_UNITS, MOST_WEIGHTS = 100, 65_536, 10**9
FLAGS = {"num_members": "members", "num_samples": "draws", "num_background": "background"}
"""Settings whose flag has a shorter name."""


def config_text(table: str | None, target: str, reading: Reading, settings: FitSettings, *, comments: list[str]) -> str:
    """Return the choices of a fit as TOML, under the names of the flags of `gumdrop fit`, below comments.

    Example:
        >>> text = config_text("houses.csv", "price", Reading(drop=("id",)), FitSettings(), comments=["gumdrop 1.0"])
        >>> text.splitlines()[1:4]
        ['table = "houses.csv"', 'target = "price"', 'drop = ["id"]']
    """
    values: dict[str, object] = {"target": target} if table is None else {"table": table, "target": target}
    values |= {name: value for name, value in vars(reading).items() if value not in {None, "", ()}}
    values |= {FLAGS.get(name, name): value for name, value in vars(settings).items() if value is not None}
    lines = [*(f"# {line}" for line in comments)]
    lines += [f"{name.replace('_', '-')} = {_toml(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    # Strings, numbers and truth values of JSON are those of TOML, but for one character that TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
