"""What the methods of `gumdrop reproduce uci` are given, what they give back, and what they have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from gumdrop.ensembles import schedule
from gumdrop.likelihoods import RegressionPrediction
from gumdrop.networks import fix_dropout, mlp
from gumdrop.training import FitResult
from gumdrop_experiments.data.uci import Split
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.tables.predictions import crps_of, rows_of
from gumdrop_experiments.tables.predictions import scores as scores_of

LR = 1e-2
NUM_SAMPLES = 500
PAPER_LENGTHSCALE = 1e-2


@dataclass(frozen=True)
class Work:
    """What a method has to do."""

    name: str
    """Name of the set."""
    splits: list[Split]
    """Its splits."""
    seed: int
    """Seed of everything random."""
    epochs: int | None
    """Passes over the data, for a quick run; the schedule of the default if None."""
    checkpoint: Callable[[str], Path | None] = lambda stage: None
    """Gives a file for the state of a training run by the name of its stage."""
    regularisers: tuple[float, float] | None = None
    """Factors of published code for the schemes of passes; those of the ELBO if None."""
    scheme_epochs: int = 30
    """Epochs of each kind of pass of these schemes, over all turns."""

    @property
    def schedule(self) -> tuple[int, int]:
        """Batch size and passes of the default."""
        return schedule(max(len(split.x_train) for split in self.splits), epochs=self.epochs)


@dataclass(frozen=True)
class Outcome:
    """What a method did."""

    predictions: list[RegressionPrediction]
    """For the test part of each split, in units of the target."""
    rates: list[list[float]]
    """Drop probability of each layer, for each split (the mean over members); empty without learned rates."""
    seconds: float
    """Processor time of the training of all splits; with one thread, what a core that does nothing else would take."""
    row_passes: int
    """Training rows that went through a network, forward and backward, over all networks."""
    chosen: list[dict[str, float]]
    """What a search chose for each split; empty without one."""


def network(split: Split, *, heteroscedastic: bool = False, p: float = 0.1, fixed: bool = False) -> nn.Sequential:
    """Build the network of the comparison for a split."""
    outputs = 2 if heteroscedastic else 1
    model = mlp(split.x_train.shape[1], outputs, p=p, homoscedastic_noise=not heteroscedastic)
    return fix_dropout(model) if fixed else model


def mean_rates(results: Sequence[FitResult]) -> list[float]:
    """Average the rates that networks ended with."""
    rates = torch.tensor([list(result.history[-1].rates.values()) for result in results], dtype=torch.float64)
    return [float(p) for p in rates.mean(0)]


def training_parts(splits: Sequence[Split]) -> list[tuple[Tensor, Tensor]]:
    """Take what there is to train on."""
    return [(split.x_train, split.y_train) for split in splits]


def in_units(predictions: Sequence[RegressionPrediction], splits: Sequence[Split]) -> list[RegressionPrediction]:
    """Carry predictions of standardised targets over to the units of the target, split by split."""
    return [
        prediction.rescale(split.y_std, split.y_mean) for prediction, split in zip(predictions, splits, strict=True)
    ]


def scores(outcome: Outcome, splits: Sequence[Split]) -> list[Plain]:
    """Score the predictions of each split, in units of the target and nats per row."""
    found = []
    for prediction, split in zip(outcome.predictions, splits, strict=True):
        target = (split.y_test * split.y_std + split.y_mean).squeeze(1).numpy()
        found.append({**scores_of(rows_of(prediction, target)), "crps": crps_of(prediction, target)})
    return found
