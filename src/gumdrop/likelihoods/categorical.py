"""Classes, and outcomes of yes or no."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop.functional.floats import widened
from gumdrop.likelihoods.conformal import PredictionOnLevels, normal_quantile
from gumdrop.likelihoods.likelihood import (
    Likelihood,
    changes,
    check_same_shape,
    check_temperature,
    per_example,
)
from gumdrop.likelihoods.logits import warn_of_probabilities

_NO_LABEL = torch.iinfo(torch.int64).min  # PyTorch's own default would ignore -100 unasked


def categorical_nll(logits: Tensor, target: Tensor, *, ignore_index: int | None = None) -> Tensor:
    """Negative log likelihood of classes, in nats per example.

    Args:
        logits: Unnormalised log probabilities, shape (N, C, ...).
        target: Class indices in [0, C), shape (N, ...).
        ignore_index: Label of positions that count nothing, such as void pixels.

    Returns:
        Shape (N,): summed over all positions of an example.

    Raises:
        ValueError: If the shapes disagree.
        TypeError: If ``target`` does not hold integers.

    Example:
        >>> categorical_nll(torch.zeros(2, 4), torch.tensor([0, 3]))
        tensor([1.3863, 1.3863])
    """
    _check_classes(logits, target)
    warn_of_probabilities(logits)
    ignored = _NO_LABEL if ignore_index is None else ignore_index
    return per_example(F.cross_entropy(widened(logits), target.long(), reduction="none", ignore_index=ignored))


def _check_classes(logits: Tensor, target: Tensor) -> None:
    if logits.ndim < 2 or target.shape != logits.shape[:1] + logits.shape[2:]:
        raise ValueError(
            f"`target` must have the shape of `logits` without its class dimension 1, got logits "
            f"{tuple(logits.shape)} and target {tuple(target.shape)}"
        )
    if target.is_floating_point():
        raise TypeError(f"`target` must hold class indices, got {target.dtype}; convert it with target.long()")


def bernoulli_nll(logits: Tensor, target: Tensor) -> Tensor:
    """Negative log likelihood of yes/no outcomes, in nats per example.

    Args:
        logits: Logit of the probability of 1, shape (N, ...).
        target: 0 or 1 (or a probability between), of the shape of ``logits``.

    Returns:
        Shape (N,): summed over all dimensions but the first.

    Raises:
        ValueError: If the shapes disagree.

    Example:
        >>> bernoulli_nll(torch.zeros(2, 1), torch.tensor([[0.0], [1.0]]))
        tensor([0.6931, 0.6931])
    """
    check_same_shape("logits", logits, target)
    warn_of_probabilities(logits)
    logits = widened(logits)
    return per_example(F.binary_cross_entropy_with_logits(logits, target.to(logits.dtype), reduction="none"))


def masses(probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """Mass of all classes more probable than each, and with it, (N, C, ...); of equal ones the first is first."""
    ordered, order = probabilities.sort(dim=1, descending=True, stable=True)
    up_to, rank = ordered.cumsum(1), order.argsort(1)
    return (up_to - ordered).gather(1, rank), up_to.gather(1, rank)


def _reach(mass: Tensor) -> Tensor:
    return normal_quantile((1 + mass.double()) / 2)


@dataclass(frozen=True)
class ClassificationPrediction(PredictionOnLevels):
    """Class probabilities averaged over drawn functions, and how much those disagree; N rows, C classes.

    Entropies are in nats and have the shape of the rows and positions, (N, ...).
    """

    log_probabilities: Tensor
    """Log of the averaged probabilities, shape (N, C, ...)."""
    expected_entropy: Tensor
    """Mean entropy of the draws: ambiguity that more data would not remove."""

    @staticmethod
    def from_log_probabilities(log_probabilities: Tensor) -> "ClassificationPrediction":
        """Say the probabilities of one function, as a model without drawn functions does; it disagrees with no other.

        Args:
            log_probabilities: Log of the probability of each class, shape (N, C, ...).

        Returns:
            A prediction whose mutual information is 0.
        """
        return ClassificationPrediction(log_probabilities, torch.special.entr(log_probabilities.exp()).sum(1))

    @staticmethod
    def mixture(parts: Sequence["ClassificationPrediction"]) -> "ClassificationPrediction":
        """Mix predictions of the same rows, each with the same weight, as those of the members of an ensemble.

        Args:
            parts: Predictions of the same rows and classes.

        Returns:
            The prediction whose probabilities are the average.

        Raises:
            ValueError: If there are no parts.
        """
        if not parts:
            raise ValueError("`parts` must hold at least one prediction")
        total = torch.logsumexp(torch.stack([part.log_probabilities for part in parts]), dim=0)
        entropy = torch.stack([part.expected_entropy for part in parts]).mean(0)
        return ClassificationPrediction(total - math.log(len(parts)), entropy)

    @property
    def probabilities(self) -> Tensor:
        """Averaged probabilities, shape (N, C, ...)."""
        return self.log_probabilities.exp()

    @property
    def predictive_entropy(self) -> Tensor:
        """Entropy of the averaged probabilities: total uncertainty."""
        return torch.special.entr(self.probabilities).sum(1)

    @property
    def mutual_information(self) -> Tensor:
        """Information that the label would give about the function: what more data would remove."""
        return (self.predictive_entropy - self.expected_entropy).clamp(min=0)

    @property
    def label(self) -> Tensor:
        """Most probable class, shape (N, ...)."""
        return self.log_probabilities.argmax(1)

    def sets(self, coverage: float = 0.9) -> Tensor:
        """Sets of classes that hold the label with a given probability, the most probable classes first.

        Args:
            coverage: Probability, in (0, 1).

        Returns:
            Whether each class is in the set of each row, shape (N, C, ...); the most probable one always is.

        Raises:
            ValueError: If ``coverage`` is out of range, or too near to 1 for the held-out rows of the `levels`.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"`coverage` must be strictly between 0 and 1, got {coverage}")
        before, _ = masses(self.probabilities)
        if not self.levels:
            return before < coverage
        return _reach(before) <= self._answers(lambda levels: levels.reach(coverage)).to(before.device)

    def conformity(self, target: Tensor) -> Tensor:
        """Conformity scores, see `RegressionPrediction.conformity`: above the middle, by (1 + m) / 2.

        Args:
            target: Observed classes, shape (N, ...).

        Returns:
            Shape (N, 1, ..., 2), of the probability m of all classes that are more probable than the observed one, and
            of these and itself.
        """
        parts = [mass.gather(1, target.long().unsqueeze(1)) for mass in masses(self.probabilities)]
        return torch.stack([_reach(each) for each in parts], dim=-1)

    def log_prob(self, target: Tensor) -> Tensor:
        """Log probability of observed classes, in nats.

        Args:
            target: Class indices, shape (N, ...).

        Returns:
            The shape of ``target``.

        Raises:
            ValueError: If the shape differs.
            TypeError: If ``target`` does not hold integers.
        """
        expected = self.expected_entropy.shape
        if target.shape != expected:
            raise ValueError(f"`target` must have shape {tuple(expected)}, got {tuple(target.shape)}")
        if target.is_floating_point():
            raise TypeError(f"`target` must hold class indices, got {target.dtype}; convert it with target.long()")
        return self.log_probabilities.gather(1, target.long().unsqueeze(1)).squeeze(1)


@dataclass(frozen=True)
class Categorical(Likelihood):
    """One of C classes; the output holds their logits, shape (N, C, ...)."""

    temperature: Tensor | float = 1.0
    """Logits are divided by it, see `gumdrop.metrics.fit_temperature` and `gumdrop.training.fit_rates`."""
    name = "categorical"
    takes_logits = True

    def __post_init__(self) -> None:
        """Check the temperature."""
        check_temperature(self.temperature)

    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        """Negative log likelihood, see `categorical_nll`."""
        return categorical_nll(self._tempered(output), target)

    def tempered(self, temperature: Tensor | float) -> Self:
        """Divide the logits by another number."""
        return replace(self, temperature=temperature)

    def slope(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Negative log likelihood and its derivative, by hand, in a fifth of the time of autograd."""
        if output.ndim != 2 or changes(self.temperature):
            return super().slope(output, target)
        _check_classes(output, target)
        log_p, index = torch.log_softmax(output, dim=1), target.long().unsqueeze(1)
        nll = -log_p.gather(1, index).squeeze(1)
        return nll, log_p.exp().scatter_add_(1, index, -torch.ones_like(nll).unsqueeze(1))

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Turn what a network returned in some draws into log probabilities of the classes.

        Args:
            logits: Shape (S, N, C, ...).

        Returns:
            The same shape.

        Raises:
            ValueError: If there are fewer than two classes.
        """
        if logits.ndim < 3 or logits.shape[2] < 2:
            raise ValueError(
                f"the model must return logits of shape (N, C, ...) with C >= 2, got {tuple(logits.shape[1:])}; for "
                "one logit of yes or no pass `likelihood='bernoulli'`"
            )
        return torch.log_softmax(self._tempered(logits), dim=2)

    def _tempered(self, logits: Tensor) -> Tensor:
        return widened(logits) / self.temperature if changes(self.temperature) else widened(logits)

    def predict(
        self, draws: Iterable[Tensor], num_samples: int, *, keep_draws: bool = True
    ) -> ClassificationPrediction:
        """Average the probabilities; draws are not kept, whatever is said."""
        total: Tensor | None = None
        entropy: Tensor | float = 0.0
        for logits in draws:
            log_p = self.log_probabilities(logits)
            log_sum = torch.logsumexp(log_p, dim=0)
            total = log_sum if total is None else torch.logaddexp(total, log_sum)
            entropy = entropy + torch.special.entr(log_p.exp()).sum(2).sum(0) / num_samples
        assert total is not None
        assert isinstance(entropy, Tensor)
        return ClassificationPrediction(total - math.log(num_samples), entropy)


@dataclass(frozen=True)
class Bernoulli(Categorical):
    """Yes or no; the output holds the logit of yes, shape (N, ...), and predictions have two classes, (N, 2, ...)."""

    name = "bernoulli"
    support = (0.0, 1.0)

    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        """Negative log likelihood, see `bernoulli_nll`."""
        return bernoulli_nll(self._tempered(output), target)

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Turn logits of some draws, (S, N, ...), into log probabilities of no and yes, (S, N, 2, ...)."""
        logits = self._tempered(logits)
        return torch.stack([F.logsigmoid(-logits), F.logsigmoid(logits)], dim=2)
