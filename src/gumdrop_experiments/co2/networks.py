"""Networks with dropout in front of each layer but the first, trained on the record and asked what follows."""

import itertools
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gumdrop.layers import HomoscedasticNoise
from gumdrop.networks import dropout_rates, fix_dropout, learn_dropout
from gumdrop.prediction import RegressionPrediction, predict_regression
from gumdrop.training import FitResult, fit
from gumdrop_experiments.co2.record import Series
from gumdrop_experiments.co2.scores import scores
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.variants import START
from gumdrop_experiments.pages.numbers import rounded

__all__ = ["ACTIVATIONS", "Scale", "network"]

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}
FIXED_RATE = 0.2
EVERY, EVERY_TRAINING = 5, 16
"""The networks are asked about every fifth later month, which passes through all seasons, and fewer before."""
LR, BATCH_SIZE, MAX_NORM, LENGTHSCALE = 1e-3, 68, 10.0, 0.1


@dataclass(frozen=True)
class Scale:
    """How large the networks are, and how long they are trained and asked."""

    width: int = 1024
    depth: int = 5
    epochs: int = 250
    num_samples: int = 10_000


def network(run: Run, data: Series, scale: Scale, activation: str, *, learned: bool) -> dict[str, Any]:
    """Train a network, draw functions from it and score what it says of later months."""
    seed, device = run.options.seed, run.options.device
    model = _build(activation, scale, learned=learned, seed=seed).to(device)
    result = _train(run, model, data, scale, f"{activation}-{'learned' if learned else 'fixed'}")
    x, later = (_column(months) for months in (data.x, data.later_x))
    asked = torch.cat([x[::EVERY_TRAINING], x[-1:], later[::EVERY], later[-1:]]).to(device)
    started = time.process_time()
    prediction = predict_regression(model, asked, num_samples=scale.num_samples, seed=seed)
    seconds = time.process_time() - started
    with torch.no_grad():
        averaged = model(asked)[:, :1]
    last = len(x[::EVERY_TRAINING])
    std = prediction.epistemic.sqrt()[:, 0]
    return {
        "rates": list(dropout_rates(model).values()),
        "train_nll": result.history[-1].nll,
        "noise": math.sqrt(prediction.aleatoric[0, 0].item()),
        "seconds_of_draws": seconds,
        "curve": {
            "x": rounded(asked[:, 0]),
            "mean": rounded(prediction.mean[:, 0]),
            "averaged": rounded(averaged[:, 0]),
            "epistemic": rounded(std),
        },
        "band_at_last": std[last].item(),
        "band_at_end": std[-1].item(),
        "band_ratio": (std[-1] / std[last]).item(),
        "later": scores(_rows(prediction, slice(last + 1, -1)), _column(data.later_y[::EVERY])),
    }


def _build(activation: str, scale: Scale, *, learned: bool, seed: int) -> nn.Sequential:
    """Build a network with dropout in front of each layer but the first, whose one input is all there is."""
    sizes = [1, *[scale.width] * scale.depth]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), ACTIVATIONS[activation]())]
        model = nn.Sequential(*layers, nn.Linear(scale.width, 1), HomoscedasticNoise(1))
    learn_dropout(model, p=START if learned else FIXED_RATE, exclude=["0"], types=nn.Linear)
    return model if learned else fix_dropout(model)


def _train(run: Run, model: nn.Module, data: Series, scale: Scale, name: str) -> FitResult:
    return fit(
        model,
        (_column(data.x), _column(data.y)),
        likelihood="gaussian",
        epochs=scale.epochs,
        batch_size=BATCH_SIZE,
        lr=LR,
        lengthscale=LENGTHSCALE,
        max_norm=MAX_NORM,
        seed=run.options.seed,
        checkpoint=run.checkpoint(name),
        progress=name,
    )


def _column(values: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(values).float()[:, None]


def _rows(prediction: RegressionPrediction, rows: slice) -> RegressionPrediction:
    assert prediction.draw_means is not None
    assert prediction.draw_variances is not None
    return RegressionPrediction(
        *(value[rows].cpu() for value in (prediction.mean, prediction.epistemic, prediction.aleatoric)),
        *(value[:, rows].cpu() for value in (prediction.draw_means, prediction.draw_variances)),
    )
