"""What the test rows tell of single columns: what each is worth, and how the promises hold in parts of it."""

from dataclasses import dataclass, field

from gumdrop.tables.plain import SPARSE
from gumdrop.tables.results.parts import Gain


@dataclass(frozen=True)
class Importance:
    """How much worse the mean test row is predicted when its cell of a column is that of another row."""

    name: str
    """The column."""
    gains: dict[str, Gain]
    """What the right cell gains: in log likelihood, and in distance from the true value or share of right rows."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How the cells of a column lie in the training rows."""

    name: str
    """The column."""
    kind: str
    """`number`, `date`, `category`, or the cycle of places on one, such as `month`."""
    labels: list[str]
    """All categories, empty for missing cells; of numbers and dates the least and the largest, for the reader."""
    edges: list[float] = field(default_factory=list)
    """Ends of the bins of numbers or dates (days since 1970-01-01): below the least, deciles, the largest."""
    counts: list[int]
    """Training rows in each bin, or of each category; the last are cells that are missing, or of no category."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Test rows that are alike in a column, and how the promises hold for them."""

    column: str
    """The column."""
    words: str
    """What its cells are there, for the reader."""
    rows: int
    """How many rows."""
    held: int
    """Rows whose true value is in its interval, or whose predicted class is right."""
    stated: float
    """Share of the rows that should be: the coverage that was asked for, or the mean probability of the predicted
    class."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The cells of a column in some test rows."""

    name: str
    """The column."""
    numbers: list[float | None] | None = field(default=None, metadata=SPARSE)
    """Numbers, or of dates the days since 1970-01-01; None for missing cells. None for categories."""
    labels: list[str] | None = field(default=None, metadata=SPARSE)
    """Categories, empty for missing cells; None for numbers and dates."""
    dates: bool = False
    """Whether the numbers are days."""


@dataclass(frozen=True, kw_only=True)
class Effect(Cells):
    """What is predicted of the mean test row if its cell of a column is each of some others (partial dependence)."""

    mean: list[float]
    """Mean prediction: the number, or the probability of `of`."""
    epistemic: list[float]
    """Its epistemic standard deviation, over the drawn functions."""


@dataclass(frozen=True, kw_only=True)
class ByColumn:
    """The test rows, column by column."""

    spreads: list[Spread] = field(default_factory=list)
    """The training rows, column by column."""
    importance: list[Importance] = field(default_factory=list)
    """What each column is worth, from the one that is worth most."""
    rows: int = 0
    """Test rows that this was found with."""
    shuffles: int = 0
    """How often each of them had the cell of another row."""
    effects: list[Effect] = field(default_factory=list)
    """How predictions change with the columns that are worth most."""
    effects_of: str | None = field(default=None, metadata=SPARSE)
    """The class whose probability they are of; None of numbers."""
    groups: list[Group] = field(default_factory=list)
    """Rows that are alike."""
    cell_rows: list[int] = field(default_factory=list)
    """Numbers in the table of the rows that `cells` are of."""
    cells: list[Cells] = field(default_factory=list)
    """Of a regression, those of the columns that are worth most."""
