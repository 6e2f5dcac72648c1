"""What the methods of `gumdrop reproduce uci` are given and give back; ensembles, and the package concretedropout."""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop import fix_dropout
from gumdrop.ensembles import Architecture, Build, EnsembleFit, EnsembleSettings, Rows, fit, fit_ensembles, schedule
from gumdrop.layers import PiecewiseLinear, dropout_blocks
from gumdrop.likelihoods import Gaussian, RegressionPrediction
from gumdrop.networks import mlp
from gumdrop.training import FitResult
from gumdrop_experiments.data.uci import Split
from gumdrop_experiments.harness import NO_DROPOUT, START, Plain
from gumdrop_experiments.shared import seeded, take_step
from gumdrop_experiments.tables.tasks import crps_of, rows_of
from gumdrop_experiments.tables.tasks import scores as scores_of

LR = 1e-2
NUM_SAMPLES = 500
PAPER_LENGTHSCALE = 1e-2


@dataclass(frozen=True)
class Work:
    """What a method has to do."""

    name: str
    splits: list[Split]
    seed: int
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
    pairs = zip(predictions, splits, strict=True)
    return [prediction.rescale(split.y_std, split.y_mean) for prediction, split in pairs]


def scores(outcome: Outcome, splits: Sequence[Split]) -> list[Plain]:
    """Score the predictions of each split, in units of the target and nats per row."""
    targets = [(split.y_test * split.y_std + split.y_mean).squeeze(1).numpy() for split in splits]
    pairs = zip(outcome.predictions, targets, strict=True)
    return [{**scores_of(rows_of(prediction, y)), "crps": crps_of(prediction, y)} for prediction, y in pairs]


def chosen(
    work: Work, *, kind: Callable[[int], Architecture] | None = None, dropout: bool = True, **options: Any
) -> Outcome:
    """Train the default of gumdrop on each split: networks that held-out rows choose."""
    fits, settings = [], EnsembleSettings(seed=work.seed, epochs=work.epochs, **options)
    started = time.process_time()
    for i, split in enumerate(work.splits, 1):
        num_inputs = split.x_train.shape[1]
        build: Build = partial(_build, num_inputs, dropout)
        said = f"{work.name}, split {i} of {len(work.splits)}"
        rows, architecture = Rows(split.x_train, split.y_train), kind(num_inputs) if kind else None
        fits.append(fit(build, rows, settings, Gaussian(), architecture=architecture, progress=said))
    seconds = time.process_time() - started
    epochs = (sum(len(member.history) for member in fitted.members) for fitted in fits)
    passes = sum(count * len(split.x_train) for count, split in zip(epochs, work.splits, strict=True))
    return _outcome(work, fits, dropout, seconds, passes)


def _build(num_inputs: int, dropout: bool, kind: Architecture, encoding: PiecewiseLinear | None) -> nn.Module:
    built = kind.network(num_inputs, 1, encoding, homoscedastic_noise=True)
    if dropout:
        return built
    for block in dropout_blocks(built):
        block.site.start_at(NO_DROPOUT)
    return fix_dropout(built)


def ensemble(work: Work, *, dropout: bool = True, num_members: int = 5, **options: Any) -> Outcome:
    """Train an ensemble of the network that all methods here have."""
    make = partial(network, work.splits[0], p=START if dropout else NO_DROPOUT, fixed=not dropout)
    batch_size, epochs = work.schedule
    started = time.process_time()
    parts = [Rows(*part) for part in training_parts(work.splits)]
    fits = fit_ensembles(
        [make] * len(parts),
        parts,
        EnsembleSettings(batch_size=batch_size, epochs=epochs, seed=work.seed, num_members=num_members, **options),
        Gaussian(),
        checkpoint=work.checkpoint("training"),
        progress=work.name,
    )
    seconds = time.process_time() - started
    members = len(fits[0].members)
    # Members leave out a fold, but take as many steps as the largest.
    passes = sum(epochs * members * (len(split.x_train) - len(split.x_train) // 10) for split in work.splits)
    return _outcome(work, fits, dropout, seconds, passes)


def _outcome(work: Work, fits: Sequence[EnsembleFit], dropout: bool, seconds: float, passes: int) -> Outcome:
    predictions = [
        fitted.model.predict(split.x_test, num_samples=NUM_SAMPLES, seed=work.seed)
        for fitted, split in zip(fits, work.splits, strict=True)
    ]
    rates = [mean_rates(fitted.members) for fitted in fits] if dropout else []
    return Outcome(in_units(predictions, work.splits), rates, seconds, passes, [])


class _PeerNetwork(nn.Module):
    """The network of the comparison, of the layers of the package `concretedropout`."""

    def __init__(self, num_inputs: int, num_rows: int) -> None:
        super().__init__()
        from concretedropout.pytorch import ConcreteLinearDropout

        sizes = itertools.pairwise([num_inputs, 50, 50, 2])
        self.layers = nn.ModuleList([nn.Linear(*pair) for pair in sizes])
        # For a loss of exp(-s) (y - f)^2 + s, twice the nats, as its documentation has it.
        factors = {"weight_regularizer": PAPER_LENGTHSCALE**2 / num_rows, "dropout_regularizer": 2 / num_rows}
        self.sites = nn.ModuleList([ConcreteLinearDropout(**factors) for _ in self.layers])

    def peers(self) -> list[Any]:
        return list(self.sites)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for i, (site, layer) in enumerate(zip(self.sites, self.layers, strict=True)):
            x = site((torch.relu(x) if i else x).clone(), layer)  # it writes into its input
        mean, log_variance = x.chunk(2, dim=-1)
        return mean, log_variance


def peer(work: Work) -> Outcome:
    """Train the package's layers split by split; they cannot be stacked, because they keep state between calls."""
    batch_size, epochs = work.schedule
    predictions, rates = [], []
    started = time.process_time()
    with seeded(work.seed):
        for split in work.splits:
            model = _PeerNetwork(split.x_train.shape[1], len(split.x_train))
            steps = epochs * math.ceil(len(split.x_train) / batch_size)
            optimizer = torch.optim.Adam(model.parameters(), lr=LR)
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=steps, cycle_momentum=False)
            for _ in range(epochs):
                for rows in torch.randperm(len(split.x_train)).split(batch_size):
                    mean, s = model(split.x_train[rows])
                    loss = (torch.exp(-s) * (split.y_train[rows] - mean).square() + s).mean()
                    cost = torch.stack([loss, *(site.regularization for site in model.peers())]).sum()
                    take_step(optimizer, cost, scheduler)
            predictions.append(_prediction(model, split.x_test))
            rates.append([float(torch.sigmoid(site.p_logit.detach())) for site in model.peers()])
    seconds = time.process_time() - started
    passes = epochs * sum(len(split.x_train) for split in work.splits)
    return Outcome(in_units(predictions, work.splits), rates, seconds, passes, [])


@torch.no_grad()
def _prediction(model: _PeerNetwork, x: Tensor) -> RegressionPrediction:
    model.train()  # its masks are drawn in training alone
    means, log_variances = (torch.stack(part) for part in zip(*(model(x) for _ in range(NUM_SAMPLES)), strict=True))
    variances = log_variances.exp().clamp(min=1e-12)
    return RegressionPrediction(means.mean(0), means.var(0, correction=0), variances.mean(0), means, variances)
