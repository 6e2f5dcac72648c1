"""The settings of a training run: each named, documented and checked here."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch

from gumdrop.likelihoods import Lengthscale, Likelihood


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
    betas: tuple[float, float] = (0.9, 0.999)
    """Memory of Adam for gradients and for their squares, each at least 0 and below 1."""
    weight_decay: float = 0.0
    """Decay of the weights, beside the prior's, at least 0; never applied to rates and noise."""
    lengthscale: Lengthscale | None = None
    """Prior, see `gumdrop.kl_divergence`; that of the likelihood if None, which a function has not."""
    held_out_noise: bool = False
    """Take the variance of the model's `gumdrop.HomoscedasticNoise` from the residuals of the held-out data as training
    goes on, and not from those of the training data, which a network knows too well. The likelihood then stays as
    blunt as the errors are, and rates settle where they should."""
    patience: int | None = None
    """Stop after this many epochs without a better held-out value, of any model; never early if None."""
    tol: float = 0.0
    """Gain in held-out value, in nats per datum, that counts as better, at least 0."""
    max_norm: float | None = None
    """Clip the gradients of a model to this norm, positive; no clipping if None."""
    accumulate: int = 1
    """Parts that a process goes through its shard of a batch in, to save memory, at least 1. For one model alone."""
    autocast: torch.dtype | None = None
    """Type to compute the network in where that is safe, such as ``torch.bfloat16``; parameters, their gradients and
    the loss stay in their own. For one model alone."""
    validation_samples: int = 20
    """Monte Carlo samples for each evaluation of the held-out data, at least 1."""
    validate_every: int = 1
    """Epochs from one evaluation of the held-out data to the next, at least 1; the last one is always evaluated."""
    seed: int = 0
    """Seed of shuffling and masks."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("epochs", "batch_size", "patience", "accumulate", "validation_samples", "validate_every"):
            if (value := getattr(self, name)) is not None and not value >= 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}")
        for name in ("lr", "rate_lr", "max_norm"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"`{name}` must be positive, got {value}")
        for name in ("weight_decay", "tol"):
            if not (value := getattr(self, name)) >= 0:
                raise ValueError(f"`{name}` must be at least 0, got {value}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"`betas` must be two numbers of at least 0 and below 1, got {self.betas}")

    @property
    def largest_rate_lr(self) -> float:
        """Largest learning rate of the rates."""
        return self.lr if self.rate_lr is None else self.rate_lr

    def identity(self, likelihood: Likelihood) -> dict[str, object]:
        """The settings as plain data, for a checkpoint to compare: all on which a step depends."""
        autocast = None if self.autocast is None else str(self.autocast)
        return {name: value for name, value in asdict(self).items() if name != "validate_every"} | {
            "rate_lr": self.largest_rate_lr,
            "autocast": autocast,
            "likelihood": likelihood.identity,
            "lengthscale": likelihood.prior(self.lengthscale),
        }


def chosen(settings: TrainingSettings | None, changes: Mapping[str, Any]) -> TrainingSettings:
    """Take settings, and some of them by name."""
    known = [field.name for field in fields(TrainingSettings)]
    if unknown := changes.keys() - set(known):
        raise TypeError(f"got a setting `{min(unknown)}`, and the settings here are {', '.join(known)}")
    if settings is None and "epochs" not in changes:
        raise TypeError("`epochs` must be given: the passes over the training data")
    return TrainingSettings(**changes) if settings is None else replace(settings, **changes)
