r"""Conformal levels: which level of its own distribution a model must be asked at, so that it holds what it promises.

A row that the model has not seen stands somewhere in the distribution that was predicted for it: at the quantile z of a
standard normal, :math:`\Phi(z)` being the probability of what lies below its target. The smallest central interval that
holds the target reaches to :math:`|z|`. The :math:`\lceil (n + 1) c \rceil`-th smallest of n of these is where central
intervals must reach to hold a share c of rows like them; one-sided levels are those of z itself. Beyond 4 standard
deviations z goes on in standard deviations of the prediction, so that a target may lie as far out as it likes. For
classes the probability is that of all that are more probable than the one observed, on both sides of the middle.

All levels are one sorted list, so that no interval crosses another.

References:
    Vovk, Gammerman & Shafer 2005, "Algorithmic Learning in a Random World" (Springer).
    Chernozhukov, Wuthrich & Zhu 2021, "Distributional conformal prediction" (PNAS 118, arXiv:1909.07889).
    Romano, Sesia & Candes 2020, "Classification with Valid and Adaptive Coverage" (NeurIPS, arXiv:2006.02544).
    Gibbs & Candes 2021, "Adaptive Conformal Inference Under Distribution Shift" (NeurIPS, arXiv:2106.00170).
    Angelopoulos, Candes & Tibshirani 2023, "Conformal PID Control for Time Series Prediction" (NeurIPS,
    arXiv:2307.16895).
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gumdrop.likelihoods.prediction import NumberPrediction, Prediction

FAR = 4.0
"""Standard normal quantile up to which a conformity score is that of the distribution, which float32 still tells."""
STEP = 0.2
"""How far levels move with a row, in standard deviations: more follows faster, and costs width where nothing drifts."""


@dataclass(frozen=True, eq=False)
class ConformalLevels:
    """Where n targets of held-out rows stand, for each of D outputs, ascending."""

    central: Tensor
    """How far out: the upper end of the smallest central interval that holds it, shape (D, n), at least 0."""
    signed: Tensor
    """On which side, too, shape (D, n)."""

    @classmethod
    def of(cls, conformity: Tensor) -> "ConformalLevels":
        """Sort held-out rows.

        Args:
            conformity: Of their targets, as `RegressionPrediction.conformity` gives it, shape (n, D, 2).

        Returns:
            The levels.

        Raises:
            ValueError: If there are no rows.
        """
        if not len(conformity):
            raise ValueError("`conformity` must hold at least one row that the model has not seen")
        return cls(*(each.T.sort(1).values for each in _positions(conformity)))

    def reach(self, coverage: float) -> Tensor:
        """How far out a central interval must reach.

        Args:
            coverage: Probability that it holds the target, strictly between 0 and 1.

        Returns:
            Standard normal quantile of its upper end, shape (D,).

        Raises:
            ValueError: If so few rows cannot tell.
        """
        rank = rank_of(self.central.shape[1], coverage)
        return self.central[:, rank - 1]

    def quantile(self, probability: float) -> Tensor:
        """Level that a share of targets is below, rounded away from the median.

        Args:
            probability: The share, strictly between 0 and 1.

        Returns:
            Standard normal quantile, shape (D,).

        Raises:
            ValueError: If so few rows cannot tell.
        """
        count = self.signed.shape[1]
        rank = rank_of(count, max(probability, 1 - probability), "probability")
        return self.signed[:, rank - 1 if probability >= 0.5 else count - rank]

    def updated(self, conformity: Tensor) -> "ConformalLevels":
        """Follow rows whose targets have become known, one after the other; the coverage of each level is kept.

        A level moves outward with each row beyond it and inward with each that it holds, in the proportion that keeps
        its share. However rows drift, as long as what is reached stays bounded, the share that a level holds of T rows
        is right up to a term of 1/T (Angelopoulos, Candes & Tibshirani 2023, Proposition 1).

        Args:
            conformity: Of the targets, as predicted before they were known, in the order of time, shape (T, D, 2).

        Returns:
            The levels after them.
        """
        central, signed = self.central, self.signed
        ranks = torch.arange(1, central.shape[1] + 1, dtype=central.dtype) / (central.shape[1] + 1)
        for reach, position in zip(*_positions(conformity), strict=True):
            central = _moved(central, reach, ranks).clamp(min=0)
            signed = _moved(signed, position, ranks)
        return ConformalLevels(central, signed)


def rank_of(count: int, coverage: float, name: str = "coverage") -> int:
    """Return which of n sorted held-out scores, from 1, holds a share c: the smallest whole number from (n + 1) c on.

    Raises:
        ValueError: If the share is out of range, or so few rows cannot tell.

    Example:
        >>> rank_of(9, 0.9), rank_of(24, 0.28)
        (9, 7)
    """
    if not 0 < coverage < 1:
        raise ValueError(f"`{name}` must be strictly between 0 and 1, got {coverage:g}")
    rank = math.ceil((count + 1) * coverage - 1e-9)  # (9 + 1) * 0.9 is 9, and rounding must not make it 10
    if rank > count:
        need = math.ceil(coverage / (1 - coverage) - 1e-9)
        raise ValueError(f"`{name}` of {coverage:g} needs at least {need:,} held-out rows, got {count:,}: ask for less")
    return rank


def _positions(conformity: Tensor) -> tuple[Tensor, Tensor]:
    """How far out, and where, targets stand, (n, D) each; an atom is where its middle is."""
    before, up_to = conformity.double().unbind(-1)
    apart = torch.where((before < 0) & (up_to > 0), 0.0, torch.minimum(before.abs(), up_to.abs()))
    return apart, (before + up_to) / 2


def normal_quantile(probability: Tensor) -> Tensor:
    """Quantile of a standard normal, up to `FAR` on either side."""
    return torch.special.ndtri(probability.double().clamp(0, 1)).clamp(-FAR, FAR)


def _moved(levels: Tensor, position: Tensor, ranks: Tensor) -> Tensor:
    return (levels + STEP * ((position[:, None] > levels).to(levels) - (1 - ranks))).sort(1).values


@dataclass(frozen=True, kw_only=True)
class PredictionOnLevels(Prediction):
    """A prediction whose promises may be those of conformal levels."""

    levels: tuple[ConformalLevels, ...] = ()
    """By which quantiles, intervals and sets hold what they promise, those of each group of rows; none if they are
    those of the prediction itself."""
    groups: Tensor | None = None
    """Groups of each row, as numbers of `levels`, shape (N, K); None if all are in the first."""

    def _answers(self, ask: Callable[[ConformalLevels], Tensor], *, outermost: bool = True) -> Tensor:
        """Return what levels say, with answers of (D,), of rows, (N, D), or (1, D) where all have the same.

        Of several groups that a row is in it is the outermost, which holds for each: the largest or the smallest.
        """
        answers = torch.stack([ask(each) for each in self.levels])
        of_groups = answers[torch.zeros(1, 1, dtype=torch.long) if self.groups is None else self.groups]
        return of_groups.amax(1) if outermost else of_groups.amin(1)


@dataclass(frozen=True, kw_only=True)
class ConformalPrediction(PredictionOnLevels, NumberPrediction):
    """A prediction of numbers whose quantiles and intervals may be asked for at conformal levels."""

    def quantile(self, probability: float) -> Tensor:
        """See `NumberPrediction.quantile`; with levels a share of rows that is right whatever the model."""
        if not self.levels:
            return super().quantile(probability)
        return self._at(self._level(lambda levels: levels.quantile(probability), outermost=probability >= 0.5))

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """See `NumberPrediction.interval`; with levels it holds a share of rows that is right whatever the model."""
        if not self.levels:
            return super().interval(coverage)
        upper = self._level(lambda levels: levels.reach(coverage))
        return self._at(-upper), self._at(upper)

    def conformity(self, target: Tensor) -> Tensor:
        """Return conformity scores: where observations, (N, D), stand, as standard normal quantiles, (N, D, 2).

        Before the observation, and up to it; these differ where it is an atom. Beyond 4 the steps are those of the
        predictive standard deviation. The draws must have been kept.
        """
        up_to = self.cdf(target)
        scores = normal_quantile(torch.stack([up_to - self._mass_at(target), up_to], dim=-1))
        far = (scores.abs() == FAR).flatten(1).any(1).nonzero()[:, 0]
        if len(far):
            scores[far] += self.rows(far)._beyond(target[far]).unsqueeze(-1) * (scores[far].abs() == FAR)
        return scores

    def _beyond(self, target: Tensor) -> Tensor:
        """How many standard deviations observations lie beyond `FAR`, shape (N, D)."""
        ends = torch.special.ndtr(torch.tensor([-FAR, FAR], dtype=torch.float64, device=target.device))
        least, most = (self._quantile(end.expand(target.shape)) for end in ends)
        return torch.where(target > most, target - most, (target - least).clamp(max=0)) / self.std

    @abstractmethod
    def _quantile(self, probability: float | Tensor) -> Tensor:
        """As `quantile`, of a probability that is in its range, or of one for each row, shape (N, D)."""

    def _mass_at(self, value: Tensor) -> Tensor:
        """Probability of a value itself, shape (N, D)."""
        return torch.zeros_like(value)

    def _level(self, ask: Callable[[ConformalLevels], Tensor], *, outermost: bool = True) -> Tensor:
        """What levels say for each row and output."""
        level = self._answers(ask, outermost=outermost)
        return level.to(self.mean.device).expand(self.mean.shape)

    def _at(self, conformity: Tensor) -> Tensor:
        """Values of the target that stand somewhere, shape (N, D)."""
        near = conformity.clamp(-FAR, FAR)
        beyond = (conformity - near).to(self.mean) * self.std
        return self._inside(self._quantile(torch.special.ndtr(near)) + beyond)

    @abstractmethod
    def _inside(self, value: Tensor) -> Tensor:
        """Values that are possible."""
