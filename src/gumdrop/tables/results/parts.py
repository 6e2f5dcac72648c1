"""The parts of what a fit leaves to read: table, target, rates, scores, test rows."""

import math
from dataclasses import dataclass, field

from gumdrop.tables.plain import SPARSE

LIKELIHOOD = "log likelihood"
STEP_LIKELIHOOD = "log probability of step"
LINEAR = "linear model"


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """The table that was fitted."""

    name: str
    """Name of its file."""
    sha256: str = ""
    """Checksum of the file."""
    rows: int
    """Rows of the file."""
    train_rows: int
    """Rows that trained."""
    watched_rows: list[int] = field(default_factory=list)
    """For each network the training rows that it was watched on instead."""
    test_rows: int
    """Rows that tested."""
    split: str | None = field(default=None, metadata=SPARSE)
    """Which these are, in words; None where they were drawn at random."""
    features: list[str]
    """Columns that are inputs."""
    encoded_features: int | None = None
    """Columns that the networks see."""


@dataclass(frozen=True, kw_only=True)
class TargetFacts:
    """The column that is predicted."""

    name: str
    """Its name."""
    unit: str = ""
    """Its unit, for the reader."""
    classes: list[str]
    """Its classes; none if it is a number."""
    step: float | None = field(default=None, metadata=SPARSE)
    """Distance of the levels that a number is recorded at; None if it is not recorded in steps."""


@dataclass(frozen=True)
class Rate:
    """The learned dropout rate of a layer, over the networks of a model."""

    site: str
    """Its place in the network."""
    label: str
    """What a reader calls it."""
    p: float
    """Mean."""
    least: float | None = None
    """Minimum."""
    most: float | None = None
    """Maximum."""


@dataclass(frozen=True)
class Gain:
    """How much better the mean row is."""

    mean: float
    """Mean over the test rows; above 0 is better."""
    se: float
    """Its standard error."""

    def margin(self, rows: int) -> float:
        """Half of its 95 % interval, by Student's t, or Clopper & Pearson's of a share; infinite for a single row."""
        from scipy.special import stdtrit

        if abs(self.mean) == 1 and not self.se:  # right in each row where the other is wrong
            return 2 * (1 - 0.025 ** (1 / rows))
        return self.se * float(stdtrit(rows - 1, 0.975)) if rows > 1 else math.inf


@dataclass(frozen=True, kw_only=True)
class Score:
    """How well a model did on the test part."""

    name: str
    """The model."""
    ours: bool
    """Whether it is the one of the folder."""
    values: dict[str, float | None]
    """Its scores; None for one that it does not have."""
    null_model: bool = False
    """Whether it does not look at the inputs."""
    skill: dict[str, Gain] | None = None
    """What it gains over the model that does not look at the inputs."""


@dataclass(frozen=True)
class Comparison:
    """The model of the folder beside another one, row by row."""

    name: str
    """The other model."""
    gains: dict[str, Gain]
    """In log likelihood, and in distance from the true value or share of right rows."""

    @property
    def likelihood(self) -> Gain:
        """Gain in log likelihood."""
        return self.gains[LIKELIHOOD]

    @property
    def guess(self) -> Gain:
        """The other gain."""
        (gain,) = (gain for name, gain in self.gains.items() if name != LIKELIHOOD)
        return gain


@dataclass(frozen=True)
class Threshold:
    """What it comes to if all rows are taken for a class whose probability of it is high enough."""

    probability: float
    """From here on."""
    flagged: int
    """Rows that are taken for the class."""
    found: int
    """Those of them that are of the class: of the flagged ones the precision, of all rows of the class the recall."""
    suggested: bool = False
    """Whether it is the one with the best F1 on training rows that the networks had not seen."""


@dataclass(frozen=True)
class Ranking:
    """How well the probability of a class ranks the rows."""

    name: str = field(metadata={"key": "class"})
    """The class: of two the one that is looked for, of more the commonest one."""
    auroc: float
    """Area under the ROC curve."""
    rows: int
    """Rows of the class."""
    other_rows: int
    """Other rows."""
    average_precision: float | None = None
    """Area under the curve of precision against recall; by chance the share of the class."""
    thresholds: list[Threshold] = field(default_factory=list)
    """Of two classes: where to cut."""


@dataclass(frozen=True)
class Calibration:
    """Stated against actual reliability."""

    expected: list[float | None]
    """Probability of intervals, or mean confidence of bins."""
    observed: list[float | None]
    """Share of the rows that are in their interval, or are right."""
    count: list[int] | None = field(default=None, metadata=SPARSE)
    """Rows of each bin; None for intervals, each of which is of all rows."""


@dataclass(frozen=True, kw_only=True)
class RegressionRows:
    """The test rows of a regression, a list for each column of numbers; None where there is none."""

    row: list[int]
    """Number in the table, from 1."""
    observed: list[float | None]
    """Value in the table."""
    mean: list[float | None]
    """Predicted value."""
    lower: list[float | None]
    """Lower end of the interval."""
    upper: list[float | None]
    """Upper end of the interval."""
    epistemic_std: list[float | None]
    """Standard deviation between the draws."""
    aleatoric_std: list[float | None]
    """Standard deviation of the noise."""
    observed_upper: list[float | None] | None = field(default=None, metadata=SPARSE)
    """Upper end of what is known of the value, whose lower end is `observed`; None where all is known."""
    log_likelihood: list[float | None] | None = field(default=None, metadata=SPARSE)
    """Log of what the model gave to the observed value, in nats; None in an older file."""


@dataclass(frozen=True, kw_only=True)
class ClassificationRows:
    """The test rows of a classification, a list for each column."""

    row: list[int]
    """Number in the table, from 1."""
    observed: list[str]
    """Class in the table."""
    predicted: list[str]
    """Most probable class."""
    probability: list[float]
    """Its probability."""
    predictive_entropy: list[float]
    """Total uncertainty in nats."""
    mutual_information: list[float]
    """The epistemic part of it."""
    log_likelihood: list[float | None] | None = field(default=None, metadata=SPARSE)
    """Log of what the model gave to the observed value, in nats; None in an older file."""


@dataclass(frozen=True, kw_only=True)
class UncertainRow:
    """A test row as a reader sees it."""

    row: int
    """Number in the table, from 1."""
    values: list[str]
    """Its inputs."""
    observed: str
    """What was observed."""
    predicted: str
    """What is predicted."""
    epistemic: float
    """Epistemic standard deviation, or mutual information in nats."""
    interval: str | None = None
    """The interval, or the probability of the predicted class."""


@dataclass(frozen=True)
class UncertainRows:
    """The test rows of the largest epistemic uncertainty."""

    columns: list[str] = field(default_factory=list)
    """Names of the inputs."""
    rows: list[UncertainRow] = field(default_factory=list)
    """The rows, from the most uncertain one on."""


@dataclass(frozen=True)
class Stopped:
    """A training that was interrupted."""

    done: int
    """Epochs that were made; all if only the comparison with other dropout is missing."""
    planned: int
    """Epochs that were to be made."""


@dataclass(frozen=True, kw_only=True)
class CurveOfRow:
    """How probable it is that the target of a test row is above each value."""

    row: int
    """Number in the table, from 1."""
    known: str
    """What is known of it, in words."""
    above: list[float]
    """The probabilities."""


@dataclass(frozen=True, kw_only=True)
class CalibrationAt:
    """Stated against actual survival at one time, by groups of test rows from the least to the largest."""

    time: float
    """The time."""
    expected: list[float]
    """Mean predicted survival of each group."""
    observed: list[float]
    """Kaplan-Meier estimate of each group."""


@dataclass(frozen=True, kw_only=True)
class Curves:
    """What a test part says of a target that is known in part."""

    values: list[float]
    """Where the curves are known."""
    rows: list[CurveOfRow]
    """Some test rows, from the smallest median to the largest."""
    mean: list[float]
    """Mean of all test rows."""
    whole: list[float] | None = None
    """Kaplan-Meier estimate of all test rows, where the target is a time."""
    at: list[CalibrationAt] = field(default_factory=list)
    """Calibration at three times."""
