"""Predict classes: probabilities averaged over drawn functions."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.functional import widened
from gumdrop.prediction.draws import Inputs, drawn

__all__ = ["ClassificationPrediction", "predict_classification"]


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


def predict_classification(
    model: nn.Module,
    x: Inputs,
    *,
    num_samples: int = 100,
    seed: int | None = None,
    batch_size: int | None = None,
    output: Callable[[Any], Tensor] | None = None,
) -> ClassificationPrediction:
    """Predict class probabilities for each row, averaged over draws; memory does not grow with their number.

    Args:
        model: A converted model, or one with plain ``nn.Dropout*``, that returns logits of shape (N, C, ...).
        x: Input with rows in dimension 0; a tuple or mapping of tensors is passed as arguments.
        num_samples: Number of draws.
        seed: Same seed, same prediction.
        batch_size: Rows that run at once, which bounds memory; all if None. It does not change the
            result, save for dropout without masks (see `docs/gotchas.md`).
        output: Takes the logits out of what the model returns.

    Returns:
        Probabilities and entropies.

    Raises:
        ValueError: If a number is out of range, ``x`` has no rows, there are fewer than two classes, or nothing
            in the model is stochastic.
        TypeError: If ``x`` holds something else than tensors, or the model does not return a tensor and ``output``
            is None.
    """
    total: Tensor | None = None
    entropy: Tensor | float = 0.0
    for logits in drawn(model, x, num_samples, seed, batch_size, output):
        if logits.ndim < 3 or logits.shape[2] < 2:
            raise ValueError(
                f"the model must return logits of shape (N, C, ...) with C >= 2, got {tuple(logits.shape[1:])}"
            )
        log_p = torch.log_softmax(widened(logits), dim=2)
        log_sum = torch.logsumexp(log_p, dim=0)
        total = log_sum if total is None else torch.logaddexp(total, log_sum)
        entropy = entropy + torch.special.entr(log_p.exp()).sum(2).sum(0) / num_samples
    assert total is not None
    assert isinstance(entropy, Tensor)
    return ClassificationPrediction(total - math.log(num_samples), entropy)
