"""The settings of an ensemble: each named, documented and checked here."""

import math
from dataclasses import dataclass

from gumdrop.ensembles.folds import haste, schedule
from gumdrop.likelihoods import Lengthscale, Likelihood
from gumdrop.training import TrainingSettings

TRIED = (0.25, 2.0)
"""Strengths of dropout: weaker than the ELBO's for what has little noise, and stronger. Networks of both together are
mostly better than those of one."""
MANY_ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class EnsembleSettings:
    """How an ensemble is trained. What is None is chosen by the data.

    Raises:
        ValueError: If one is out of its range.

    Example:
        >>> EnsembleSettings(num_members=3).members_for(455)
        3
    """

    num_members: int | None = None
    """Networks of each strength, M, at least 1; None for 10, and 5 from 10,000 rows on, where they differ less."""
    epochs: int | None = None
    """Passes over the rows; None for what `gumdrop.ensembles.schedule` says."""
    batch_size: int | None = None
    """Rows of a step; None for what `gumdrop.ensembles.schedule` says."""
    lr: float = 1e-2
    """Largest learning rate; that of the logits is ten times as large. In batches of twice or four times a
    16th of the rows it is larger by the root of that, and that of the logits by 2.8 or 8."""
    lengthscale: Lengthscale | None = None
    """Prior, see `gumdrop.kl_divergence`; None for ``"weak"`` for numbers, and for 1 for classes: standard normal
    weights, which on most sets leave better probabilities, because the fold guards against the rest."""
    strength: float | None = None
    """What the entropy of the masks counts, see `gumdrop.networks.set_strength`. None for what the networks come with;
    where these are chosen, for what held-out rows prefer of 1/4, 2 and networks of both; from 10,000 rows on for 1,
    since strengths there do not differ by what they cost."""
    held_out_fraction: float = 0.2
    """Share of the rows that each member does not train on, as one of its folds; above 0, at most 1/2. Of ten members,
    two share each fifth: what they say together of rows that both have not seen shows what an ensemble would."""
    patience: int | None = None
    """Stop after this many epochs in which no member got better on its held-out rows; never early if None. Members
    for classes keep their best epoch in any case, those for numbers where they may stop early."""
    tol: float = 0.0
    """Gain in nats per row that counts as better."""
    input_noise: bool = True
    """For numbers, let the noise depend on the inputs and correct it for the spread of the members; one variance for
    each member, and nothing to choose a strength by, otherwise."""
    seed: int = 0
    """Seed of initial weights, folds, shuffling and masks."""

    def __post_init__(self) -> None:
        """Check what `gumdrop.training.TrainingSettings` does not."""
        if self.num_members is not None and self.num_members < 1:
            raise ValueError(f"`num_members` must be at least 1, got {self.num_members}")
        if self.strength is not None and not 0 < self.strength < math.inf:
            raise ValueError(f"`strength` must be positive and finite, got {self.strength}")
        if not 0 < self.held_out_fraction <= 0.5:
            raise ValueError(f"`held_out_fraction` must be above 0 and at most 1/2, got {self.held_out_fraction}")

    def members_for(self, num_rows: int) -> int:
        """Choose the number of members: what was asked for, or what suits the rows to train on."""
        return self.num_members or (10 if num_rows < MANY_ROWS else 5)

    def schedule(self, num_rows: int, likelihood: Likelihood) -> tuple[int, int]:
        """Choose batch size and number of epochs, see `gumdrop.ensembles.schedule`."""
        learns_long = likelihood.is_density and not likelihood.has_open_targets
        return schedule(num_rows, batch_size=self.batch_size, epochs=self.epochs, is_density=learns_long)

    def strengths_for(self, num_rows: int) -> tuple[float, ...]:
        """Choose the strengths of dropout to try where networks are chosen, as `members_for` chooses the members."""
        if self.strength is not None:
            return (self.strength,)
        return TRIED if num_rows < MANY_ROWS and self.input_noise else (1.0,)

    def of_members(
        self, likelihood: Likelihood, *, epochs: int, batch_size: int, num_rows: int | None = None
    ) -> TrainingSettings:
        """Choose the settings of each member; large batches of so many rows go faster, those of a stream do not."""
        times = 1.0 if num_rows is None else haste(num_rows, batch_size)
        # An evaluation in every epoch would take as long as a long training: 25 do, and one in ten epochs at least, so
        # that a training that is stopped early has had some.
        between = 1 if self.patience is not None else min(max(1, epochs // 25), 10)
        return TrainingSettings(
            epochs=epochs,
            batch_size=batch_size,
            lr=self.lr * times**0.5,
            rate_lr=self.lr * times**1.5,
            betas=(0.9, 0.999 if times == 1 else 1 - 0.005 * times),  # squares of a short part of the training
            lengthscale=likelihood.watched_lengthscale if self.lengthscale is None else self.lengthscale,
            held_out_noise=likelihood.is_density,
            patience=self.patience,
            tol=self.tol,
            validation_samples=4,  # the same each time; twenty would take longer than the training
            validate_every=between,
            seed=self.seed,
        )

    def keeps_best(self, likelihood: Likelihood) -> bool:
        """Whether members keep their best epoch."""
        # Rows that are not seen tell little, so that networks know the others by heart long before the last epoch.
        return self.patience is not None or likelihood.has_open_targets or not likelihood.is_density
