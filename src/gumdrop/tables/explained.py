"""What an explanation of a table's predictions holds: rows, shares, and what they are shares of."""

from dataclasses import dataclass, field

from gumdrop.tables.plain import SPARSE


@dataclass(frozen=True)
class ColumnShares:
    """What the columns of a row add to a number."""

    value: float
    """The number for the row."""
    usual: float
    """Its mean over the rows to compare with."""
    shares: list[float]
    """Share of each column; they add up to `value - usual`."""
    errors: list[float] | None
    """Standard error of each share; None of a single order."""


@dataclass(frozen=True)
class ExplainedRow:
    """A row, its prediction, and what drives it."""

    row: int
    """Number in the table, from 1."""
    values: list[str]
    """Its inputs, as a reader sees them."""
    prediction: float | str
    """Predicted number or class."""
    lower: float | None = field(metadata=SPARSE)
    """Lower end of the interval; None for classes."""
    upper: float | None = field(metadata=SPARSE)
    """Upper end of the interval."""
    explained: ColumnShares
    """Shares in the number, or in the probability of the class."""
    epistemic: ColumnShares
    """Shares in the epistemic part of the uncertainty."""


@dataclass(frozen=True)
class Overall:
    """Mean size of the shares: how much each column moves predictions at all."""

    rows: int
    """Over how many rows."""
    explained: list[float]
    """Of each column, in predictions."""
    epistemic: list[float]
    """In the epistemic part of the uncertainty."""


@dataclass(frozen=True)
class ExplainedTarget:
    """The column that is predicted."""

    name: str
    """Its name."""
    unit: str
    """Its unit, for the reader."""
    task: str
    """Whether it is a number or a class."""


@dataclass(frozen=True)
class Background:
    """The rows that stand for the usual one."""

    rows: int
    """How many."""
    source: str
    """`training` for those that were kept with the model, else the name of a table."""


@dataclass(frozen=True)
class TableExplanation:
    """What drives the predictions of the first rows of a table, and of the model as a whole."""

    target: ExplainedTarget
    """The target."""
    coverage: float
    """Probability of the intervals."""
    columns: list[str]
    """Columns of the table; of a wide one those that lead, and last all others as one."""
    background: Background
    """What the rows are compared with."""
    orders: int
    """Random orders of the columns for each row."""
    seed: int
    """Seed of the orders."""
    rows: list[ExplainedRow]
    """The rows; none to explain the model alone."""
    overall: Overall
    """The model as a whole."""
    notes: list[str]
    """What a reader should know about the table."""
