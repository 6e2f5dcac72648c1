"""What drawn functions say of rows: records that are cut, joined and asked, and moments of draws that are not kept."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Prediction(ABC):
    """What drawn functions say of N rows."""

    by_draw: ClassVar[frozenset[str]] = frozenset()
    """Fields whose draws are in dimension 0, and rows in dimension 1."""
    of_all_rows: ClassVar[frozenset[str]] = frozenset()
    """Fields that all rows share."""
    outlier_p_value: Tensor | None = field(default=None, kw_only=True)
    """Share of rows like the held-out ones that is as far out, (N,), in (0, 1]: small for a row that is like none of
    them; None if the model has no `gumdrop.training.fit_distance`."""

    @abstractmethod
    def log_prob(self, target: Tensor) -> Tensor:
        """Log probability, or density, of observations, in nats."""

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in self.of_all_rows}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def rows(self, indices: Tensor) -> Self:
        """Pick rows.

        Args:
            indices: Their numbers.

        Returns:
            The prediction of these rows.
        """
        parts = self._tensors().items()
        return replace(self, **{name: part.index_select(int(name in self.by_draw), indices) for name, part in parts})

    def with_rows(self, indices: Tensor, other: Self) -> Self:
        """Put the rows of another prediction in the place of some.

        Args:
            indices: Numbers of these rows.
            other: A prediction of as many rows, with the same number of draws.

        Returns:
            The prediction of all rows.
        """
        parts = self._tensors().items()
        return replace(
            self,
            **{name: part.index_copy(int(name in self.by_draw), indices, getattr(other, name)) for name, part in parts},
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Put predictions of different rows one below the other.

        Args:
            parts: Predictions of one kind, with the same number of draws each.

        Returns:
            One prediction with the rows of all, and with the draws if all parts have theirs.

        Raises:
            ValueError: If they are of different kinds of targets.
        """
        tensors = [part._tensors() for part in parts]
        if len({part._kind for part in parts}) > 1:
            raise ValueError(f"`parts` must be predictions of one kind, got {sorted({str(p._kind) for p in parts})}")
        everywhere = [name for name in tensors[0] if all(name in each for each in tensors)]
        absent = {name: None for each in tensors for name in each if name not in everywhere}
        whole = {name: torch.cat([each[name] for each in tensors], dim=int(name in cls.by_draw)) for name in everywhere}
        return replace(parts[0], **whole, **absent)

    @property
    def _kind(self) -> object:
        """What must be the same in predictions that are joined."""
        return None


def kept(draws: Tensor | None) -> Tensor:
    """Give the draws of a prediction, or say how to keep them."""
    if draws is None:
        raise ValueError("the draws were not kept; predict with `keep_draws=True`")
    return draws


@dataclass(frozen=True)
class NumberPrediction(Prediction):
    """What drawn functions say of the numbers of N rows: moments, and quantiles of a mixture."""

    mean: Tensor
    """Predictive mean, in units of the target, shape (N, D); of counts (N, ...), as of all that follows."""
    epistemic: Tensor
    """Variance of the drawn functions' means, (N, D), squared units: what more data would remove."""
    if TYPE_CHECKING:

        @property
        def aleatoric(self) -> Tensor:
            """Mean of the drawn functions' noise variances, (N, D), squared units: what more data would not remove."""

    @property
    def variance(self) -> Tensor:
        """Total predictive variance, ``epistemic + aleatoric``, shape (N, D)."""
        return self.epistemic + self.aleatoric

    @property
    def std(self) -> Tensor:
        """Predictive standard deviation, shape (N, D), in units of the target."""
        return self.variance.sqrt()

    @abstractmethod
    def cdf(self, value: Tensor) -> Tensor:
        """Probability that the target is at most a value, for each row and output.

        Args:
            value: Broadcasts to shape (N, D).

        Returns:
            Shape (N, D), in [0, 1].

        Raises:
            ValueError: If the draws were not kept.
        """

    def quantile(self, probability: float) -> Tensor:
        """Quantile of the mixture: of counts the smallest that is not exceeded with a given probability.

        Args:
            probability: In (0, 1).

        Returns:
            Shape (N, D), in units of the target.

        Raises:
            ValueError: If ``probability`` is out of range or the draws were not kept.
        """
        if not 0 < probability < 1:
            raise ValueError(f"`probability` must be strictly between 0 and 1, got {probability}")
        return self._quantile(probability)

    @abstractmethod
    def _quantile(self, probability: float) -> Tensor:
        """As `quantile`, of a probability that is in its range."""

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval that holds the target with a given probability; counts are whole, so often with more.

        Args:
            coverage: Probability, in (0, 1).

        Returns:
            Lower and upper ends, both inside, each of shape (N, D).

        Raises:
            ValueError: If ``coverage`` is out of range or the draws were not kept.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"`coverage` must be strictly between 0 and 1, got {coverage}")
        return self.quantile((1 - coverage) / 2), self.quantile((1 + coverage) / 2)

    def _check_target(self, target: Tensor) -> None:
        if target.shape != self.mean.shape:
            raise ValueError(f"`target` must have shape {tuple(self.mean.shape)}, got {tuple(target.shape)}")


class RunningMoments:
    """Mean and population variance of draws that come a few at a time (Chan, Golub & LeVeque 1983)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Any = None
        self._squares: Any = None

    def add(self, values: Tensor) -> None:
        """Take in more draws, in dimension 0."""
        before, self.count = self.count, self.count + len(values)
        origin = self.mean if before else values[0]
        mean = origin + ((values - origin) / len(values)).sum(0)  # divided first: variances may be huge
        within = (values - mean).square().sum(0)
        if not before:
            self.mean, self._squares = mean, within
            return
        difference = mean - self.mean
        self.mean = self.mean + difference * (len(values) / self.count)
        self._squares = self._squares + within + difference.square() * (before * len(values) / self.count)

    @property
    def variance(self) -> Any:
        """Population variance of the draws so far."""
        return self._squares / self.count
