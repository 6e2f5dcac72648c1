"""The settings of a training run: each named, documented and checked here."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

import torch
from torch import Tensor

from gumdrop.objective.kl import Lengthscale
from gumdrop.objective.likelihoods import LIKELIHOODS

__all__ = ["Likelihood", "Options", "SingleOptions", "TrainingSettings", "find_likelihood", "name_of", "settings_of"]

Likelihood = Callable[[Tensor, Tensor], Tensor]
"""Negative log likelihood of each example, in nats, of outputs and targets."""


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How `gumdrop.training.fit` and `gumdrop.training.fit_stacked` train; a checkpoint is bound to them.

    Raises:
        ValueError: If one is out of its range.

    Example:
        >>> TrainingSettings(epochs=10, lr=1e-2).batch_size
        32
    """

    epochs: int
    """Passes over the training data, at least 1; where models differ in their number of rows, over the largest."""
    batch_size: int = 32
    """Rows of a step, over all processes, for each model; a loader has its own."""
    lr: float = 5e-3
    """Largest learning rate of the one cycle, positive."""
    rate_lr: float | None = None
    """The same for the rates, whose logits move ten times as far, see `gumdrop.parameter_groups`; ``lr`` if None."""
    weight_decay: float = 0.0
    """Decay of the weights, beside the prior's, at least 0; never applied to rates and noise."""
    lengthscale: Lengthscale | None = None
    """Prior, see `gumdrop.negative_elbo`; that of the likelihood if None."""
    held_out_noise: bool = False
    """Take the variance of the model's `gumdrop.HomoscedasticNoise` from the residuals of the held-out data as training
    goes on, and not from those of the training data, which a network knows too well. The likelihood then stays as
    blunt as the errors are, and rates settle where they should."""
    patience: int | None = None
    """Stop after this many epochs without a better held-out value, of any model; never early if None."""
    tol: float = 0.0
    """Gain in held-out value, in nats per datum, that counts as better, at least 0."""
    max_norm: float | None = None
    """Clip gradients to this norm, positive; no clipping if None. For one model alone."""
    accumulate: int = 1
    """Parts that a process goes through its shard of a batch in, to save memory, at least 1. For one model alone."""
    autocast: torch.dtype | None = None
    """Type to compute the network in where that is safe, such as ``torch.bfloat16``; parameters, their gradients and
    the loss stay in their own. For one model alone."""
    validation_samples: int = 20
    """Monte Carlo samples for each evaluation of the held-out data, at least 1."""
    seed: int = 0
    """Seed of shuffling and masks."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("epochs", "batch_size", "patience", "accumulate", "validation_samples"):
            if (value := getattr(self, name)) is not None and not value >= 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}")
        for name in ("lr", "rate_lr", "max_norm"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"`{name}` must be positive, got {value}")
        for name in ("weight_decay", "tol"):
            if not (value := getattr(self, name)) >= 0:
                raise ValueError(f"`{name}` must be at least 0, got {value}")

    @property
    def largest_rate_lr(self) -> float:
        """Largest learning rate of the rates."""
        return self.lr if self.rate_lr is None else self.rate_lr

    def identity(self) -> dict[str, object]:
        """The settings as plain data, for a checkpoint to compare."""
        autocast = None if self.autocast is None else str(self.autocast)
        return asdict(self) | {"rate_lr": self.largest_rate_lr, "autocast": autocast}


class Options(TypedDict, total=False):
    """Settings as keyword arguments of `gumdrop.training.fit_stacked`, see `TrainingSettings`."""

    batch_size: int
    lr: float
    rate_lr: float | None
    weight_decay: float
    lengthscale: Lengthscale | None
    held_out_noise: bool
    patience: int | None
    tol: float
    validation_samples: int
    seed: int


class SingleOptions(Options, total=False):
    """Settings as keyword arguments of `gumdrop.training.fit`, see `TrainingSettings`."""

    max_norm: float | None
    accumulate: int
    autocast: torch.dtype | None


def settings_of(epochs: int, options: Mapping[str, Any], known: type[Options]) -> TrainingSettings:
    """Make the settings of keyword arguments.

    Args:
        epochs: Number of epochs.
        options: Other settings by name.
        known: Those that there may be.

    Returns:
        The settings.

    Raises:
        TypeError: If there is one of another name.
    """
    if unknown := options.keys() - known.__annotations__.keys():
        raise TypeError(f"got a setting `{min(unknown)}`, and the settings here are {', '.join(known.__annotations__)}")
    return TrainingSettings(epochs=epochs, **options)


def find_likelihood(likelihood: str | Likelihood) -> Likelihood:
    """Look up a likelihood by its name.

    Args:
        likelihood: A name, or the function itself.

    Returns:
        The function; one that is given is refused by a `ValueError` where it gives no value for each example.

    Raises:
        ValueError: If there is none of that name.
    """
    if callable(likelihood):
        return likelihood if likelihood in LIKELIHOODS.values() else functools.partial(_per_example, likelihood)
    if likelihood not in LIKELIHOODS:
        raise ValueError(f"`likelihood` must be a function or one of {', '.join(LIKELIHOODS)}, got {likelihood!r}")
    return LIKELIHOODS[likelihood]


def _per_example(nll_of: Likelihood, output: Tensor, target: Tensor) -> Tensor:
    """Compute a likelihood, and check that nobody has averaged it: then the data would count too little."""
    nll = nll_of(output, target)
    if nll.shape != target.shape[:1]:
        raise ValueError(
            f"`likelihood` must give one value for each example, shape {tuple(target.shape[:1])}, got "
            f"{tuple(nll.shape)}; sum over what belongs to one example, and leave the mean over examples to training"
        )
    return nll


def name_of(likelihood: str | Likelihood) -> str:
    """Name a likelihood, for a checkpoint."""
    return str(getattr(likelihood, "__qualname__", likelihood))
