"""Networks that drop units, fixed or learned, on the record."""

import itertools
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from gumdrop import HomoscedasticNoise, dropout_rates, fix_dropout, learn_dropout, predict_regression
from gumdrop.objective import Lengthscale
from gumdrop.prediction import RegressionPrediction
from gumdrop.training import fit
from gumdrop_experiments.co2.series import Series, scores
from gumdrop_experiments.harness.plain import Plain
from gumdrop_experiments.pages.numbers import rounded

__all__ = ["ACTIVATIONS", "Scale", "network"]

FIXED_RATE = 0.2
EVERY, EVERY_TRAINING = 5, 16
"""The networks are asked about every fifth later month, which passes through all seasons, and fewer before."""
LR, BATCH_SIZE, MAX_NORM = 1e-3, 68, 10.0
LENGTHSCALE: Lengthscale = 0.1
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


@dataclass(frozen=True)
class Scale:
    """How large the networks are, and how long they are trained and asked."""

    width: int = 1024
    depth: int = 5
    epochs: int = 250
    num_samples: int = 10_000


def network(
    data: Series, scale: Scale, activation: str, *, learned: bool, seed: int, device: str, checkpoint: Path
) -> Plain:
    """Train a network, draw functions from it and score what it says of later months."""
    model = _build(activation, scale, learned=learned, seed=seed).to(device)
    x, y = (torch.from_numpy(values).float()[:, None] for values in (data.x, data.y))
    history = fit(
        model,
        (x, y),
        likelihood="gaussian",
        epochs=scale.epochs,
        batch_size=BATCH_SIZE,
        lr=LR,
        lengthscale=LENGTHSCALE,
        max_norm=MAX_NORM,
        seed=seed,
        checkpoint=checkpoint,
        progress=checkpoint.stem,
    ).history
    later = torch.from_numpy(data.later_x).float()[:, None]
    inputs = torch.cat([x[::EVERY_TRAINING], x[-1:], later[::EVERY], later[-1:]]).to(device)
    started = time.process_time()
    prediction = predict_regression(model, inputs, num_samples=scale.num_samples, seed=seed)
    seconds = time.process_time() - started
    last = len(x[::EVERY_TRAINING])
    target = torch.from_numpy(data.later_y[::EVERY]).float()[:, None]
    return {
        "rates": list(dropout_rates(model).values()),
        "train_nll": history[-1].nll,
        "noise": math.sqrt(prediction.aleatoric[0, 0].item()),
        "seconds_of_draws": seconds,
        **_curve(model, inputs, prediction, last),
        "later": scores(_rows(prediction, slice(last + 1, -1)), target),
    }


def _build(activation: str, scale: Scale, *, learned: bool, seed: int) -> nn.Sequential:
    """Build a network with dropout in front of each layer but the first, whose one input is all there is."""
    sizes = [1, *[scale.width] * scale.depth]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), ACTIVATIONS[activation]())]
        model = nn.Sequential(*layers, nn.Linear(scale.width, 1), HomoscedasticNoise(1))
    learn_dropout(model, p=0.1 if learned else FIXED_RATE, exclude=["0"], types=nn.Linear)
    return model if learned else fix_dropout(model)


@torch.no_grad()
def _curve(model: nn.Module, inputs: Tensor, prediction: RegressionPrediction, last: int) -> Plain:
    """Take down mean and band over the months, and how the band grows from the last month of training to the end."""
    std = prediction.epistemic.sqrt()[:, 0]
    return {
        "curve": {
            "x": rounded(inputs[:, 0]),
            "mean": rounded(prediction.mean[:, 0]),
            "averaged": rounded(model(inputs)[:, 0]),
            "epistemic": rounded(std),
        },
        "band_at_last": std[last].item(),
        "band_at_end": std[-1].item(),
        "band_ratio": (std[-1] / std[last]).item(),
    }


def _rows(prediction: RegressionPrediction, rows: slice) -> RegressionPrediction:
    assert prediction.draw_means is not None
    assert prediction.draw_variances is not None
    mean, epistemic, aleatoric = (
        value[rows].cpu() for value in (prediction.mean, prediction.epistemic, prediction.aleatoric)
    )
    means, variances = (value[:, rows].cpu() for value in (prediction.draw_means, prediction.draw_variances))
    return RegressionPrediction(mean, epistemic, aleatoric, means, variances)
