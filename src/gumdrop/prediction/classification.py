"""Predict classes: probabilities averaged over drawn functions."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop.functional.floats import widened
from gumdrop.prediction.inputs import Arguments, Batches, Inputs, by_batches
from gumdrop.prediction.ways.evaluate import drawn

__all__ = ["ClassificationPrediction", "class_log_probabilities", "predict_classification"]


Likelihood = Literal["categorical", "bernoulli"]


@dataclass(frozen=True)
class ClassificationPrediction:
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

    @staticmethod
    def joined(parts: Sequence["ClassificationPrediction"]) -> "ClassificationPrediction":
        """Put predictions of different rows one below the other.

        Args:
            parts: Predictions of the same classes.

        Returns:
            One prediction with the rows of all.
        """
        log_probabilities = torch.cat([part.log_probabilities for part in parts])
        return ClassificationPrediction(log_probabilities, torch.cat([part.expected_entropy for part in parts]))

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


def class_log_probabilities(logits: Tensor, likelihood: Likelihood, temperature: float = 1.0) -> Tensor:
    """Turn what a network returned in some draws into log probabilities of the classes.

    Args:
        logits: Shape (S, N, C, ...), or (S, N, ...) for ``"bernoulli"``.
        likelihood: The one that the network was trained on.
        temperature: Logits are divided by it.

    Returns:
        Shape (S, N, C, ...), where C is 2 for ``"bernoulli"``: no, yes.

    Raises:
        ValueError: If ``likelihood`` is unknown or there are fewer than two classes.
    """
    if likelihood not in ("categorical", "bernoulli"):
        raise ValueError(f"`likelihood` must be 'categorical' or 'bernoulli', got {likelihood!r}")
    if temperature != 1:
        logits = widened(logits) / temperature
    if likelihood == "bernoulli":
        logits = widened(logits)
        return torch.stack([F.logsigmoid(-logits), F.logsigmoid(logits)], dim=2)
    if logits.ndim < 3 or logits.shape[2] < 2:
        raise ValueError(
            f"the model must return logits of shape (N, C, ...) with C >= 2, got {tuple(logits.shape[1:])}; for one "
            "logit of yes or no pass `likelihood='bernoulli'`"
        )
    return torch.log_softmax(widened(logits), dim=2)


def predict_classification(
    model: nn.Module,
    x: Inputs | Batches,
    *,
    likelihood: Likelihood = "categorical",
    temperature: float = 1.0,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    shared: Collection[int | str] = (),
    output: Callable[[Any], Tensor] | None = None,
) -> ClassificationPrediction:
    """Predict class probabilities for each row, averaged over draws; memory does not grow with their number.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``, that returns logits of shape (N, C, ...).
        x: Input with rows in dimension 0; a tuple or mapping is passed as arguments; a DataLoader or another iterable
            is predicted batch by batch, see `sample`.
        likelihood: ``"bernoulli"`` for a model that was trained on `gumdrop.bernoulli_nll`: it returns the logit of
            yes, shape (N, ...), the prediction has two classes, (N, 2, ...), and labels have the shape of the logits.
        temperature: The logits of each draw are divided by it, see `gumdrop.metrics.fit_temperature`.
        num_samples: Number of draws.
        seed: Same seed, same prediction.
        batch_size: Rows that run at once, which bounds memory; all if None. It does not change the
            result, save for dropout without masks (see `docs/gotchas.md`).
        shared: Places or names of the arguments that have no rows, see `sample`.
        output: Takes the logits out of what the model returns.

    Returns:
        Probabilities and entropies.

    Raises:
        ValueError: If a number is out of range, ``x`` or ``shared`` is wrong as `sample` says, ``likelihood`` is
            unknown, there are fewer than two classes, or nothing in the model is stochastic.
        TypeError: If ``x`` holds something else than tensors, or the model does not return a tensor and ``output``
            is None.

    Example:
        >>> from gumdrop import learn_dropout
        >>> model = learn_dropout(nn.Linear(8, 3), p=0.2)
        >>> prediction = predict_classification(model, torch.randn(5, 8), seed=0)
        >>> prediction.probabilities.shape, prediction.mutual_information.shape
        (torch.Size([5, 3]), torch.Size([5]))
    """
    if not temperature > 0:
        raise ValueError(f"`temperature` must be positive, got {temperature}; 1 leaves the probabilities as they are")

    def predict(part: Arguments, seed: int | None) -> ClassificationPrediction:
        total: Tensor | None = None
        entropy: Tensor | float = 0.0
        for logits in drawn(model, part, num_samples, seed, batch_size, output):
            log_p = class_log_probabilities(logits, likelihood, temperature)
            log_sum = torch.logsumexp(log_p, dim=0)
            total = log_sum if total is None else torch.logaddexp(total, log_sum)
            entropy = entropy + torch.special.entr(log_p.exp()).sum(2).sum(0) / num_samples
        assert total is not None
        assert isinstance(entropy, Tensor)
        return ClassificationPrediction(total - math.log(num_samples), entropy)

    return by_batches(predict, ClassificationPrediction.joined, model, x, shared, seed)
