"""What training leaves to read: in a file that needs no torch, which what reads the results of a fit does not load."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch did; losses in nats per datum."""

    epoch: int
    """Number of the epoch, from 1."""
    nll: float
    """Mean negative log likelihood of the training batches, under relaxed masks."""
    kl: float
    """Mean KL divergence over the number of training data."""
    validation_nll: float | None
    """Negative log likelihood of the held-out data, averaged over draws; None without such data."""
    learning_rate: float
    """Learning rate of the weights at the end of the epoch."""
    rates: dict[str, float]
    """Drop probability of each site (the mean, where each unit has its own)."""
    measured: dict[str, float] | None = field(default=None, metadata={"sparse": True})
    """What `gumdrop.training.fit` was given to measure; None where that is nothing."""


@dataclass(frozen=True)
class FitResult:
    """What training left behind, beside the trained model."""

    history: list[EpochRecord]
    """One record for each epoch."""
    best_epoch: int
    """The epoch whose parameters the model has now: the best on held-out data, or the last without."""

    @property
    def gone(self) -> list[str]:
        """Sites whose rate went to 0: nothing is dropped there, which adds nothing to the epistemic part.

        It is no failure of training: the ELBO weighs the entropy that holds a rate up by 1/N. `docs/method.md`, 'Why
        rates fall to 0', says more; `gumdrop.training.tune_strength` asks held-out rows whether they want more dropout.
        """
        from gumdrop.layers.site import GONE

        return [name for name, p in self.history[self.best_epoch - 1].rates.items() if p < GONE]
