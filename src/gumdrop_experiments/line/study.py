"""What a network says of a noisy line, from ten points to ten thousand, and what it would say at its optimum."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from gumdrop import dropout_rates, learn_dropout, predict_regression
from gumdrop.machine.threads import limited_threads
from gumdrop.networks import mlp, set_strength
from gumdrop.training import EpochRecord, choose_strength, fit
from gumdrop_experiments.harness import Plain, Run
from gumdrop_experiments.line import PUBLISHED, Settings
from gumdrop_experiments.pages import rounded
from gumdrop_experiments.shared import seeded

SIZES = (10, 25, 50, 100, 1000, 10_000)
SLOPE, OFFSET, NOISE = 2.0, 8.0, 1.0
USUAL = torch.special.ndtri((torch.arange(50) + 0.5) / 50)
"""Inputs, as often as they occur."""
GRID = torch.linspace(-4, 4, 41)
SUMMARY = ("aleatoric", "epistemic", "error", "rates")

BATCH_SIZE, LR, RATE_LR, MAX_NORM = 100, 1e-3, 1e-2, 10.0
LENGTHSCALE = 1.0
"""A weight has a prior variance of 1. Under `"fan_in"` ten points cannot pay for the weights of a wide network."""
STRENGTHS = (0.25, 1.0)
"""Strengths of dropout that held-out points choose from: less than that of the ELBO, and the ELBO."""
TUNED_SIZES = SIZES[3:]
"""Numbers of data of which one in `HELD_OUT` can be spared."""
HELD_OUT = 5


@dataclass(frozen=True)
class _Scale:
    """A network and how long it is trained; a wide one costs more a step."""

    width: int
    steps: int
    num_samples: int = 400

    def steps_for(self, num_data: int) -> int:
        """Twice as many for each power of ten above a hundred data."""
        return round(self.steps * 2 ** max(0.0, math.log10(num_data) - 2))


FULL = (_Scale(width=1024, steps=1000), _Scale(width=64, steps=2000))
QUICK = (_Scale(width=64, steps=300, num_samples=100), _Scale(width=16, steps=300, num_samples=100))


def study(settings: Settings, run: Run) -> Plain:
    """Learn the line from more and more points with two networks, the quick one first."""
    scales = QUICK if run.options.quick else FULL
    wide, narrow = (replace(scale, steps=settings.steps or scale.steps) for scale in scales)
    networks = [_series(run, scale) for scale in (narrow, wide)]
    return {"sizes": SIZES, "published": PUBLISHED, "networks": networks[::-1]}


def _series(run: Run, scale: _Scale) -> Plain:
    """All sizes with one network, again with half the steps, and with a strength that held-out points choose."""
    shorter = replace(scale, steps=scale.steps // 2)
    half = run.parts({f"width={scale.width}-N={n}-half": partial(_trained, run, n, shorter) for n in SIZES})
    full = run.parts({f"width={scale.width}-N={n}": partial(_trained, run, n, scale) for n in SIZES})
    brief = ("num_data", "steps", *SUMMARY)
    return {
        "width": scale.width,
        "runs": list(full.values()),
        "half_the_steps": [{name: result[name] for name in brief} for result in half.values()],
        "held_out": _held_out(run, shorter),
        "even_network": [even_network(n, scale.width) for n in SIZES],
    }


def points(num_data: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw points of the noisy line: two columns of shape (N, 1)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_data, 1, generator=generator)
    return x, SLOPE * x + OFFSET + NOISE * torch.randn(num_data, 1, generator=generator)


def _trained(run: Run, num_data: int, scale: _Scale) -> Plain:
    x, y = points(num_data, run.options.seed)
    network = _network(run, scale)
    steps, history = _fit(run, network, scale, x, (y - y.mean()) / y.std(), f"N={num_data}")
    return {
        "num_data": num_data,
        "steps": steps,
        **_says(network, run, scale, y),
        "rates_over_training": [rounded(list(record.rates.values())) for record in history[:: len(history) // 20 or 1]],
        "data": {"x": rounded(x[:100, 0]), "y": rounded(y[:100, 0])},
    }


def _with_strength(run: Run, num_data: int, scale: _Scale, strength: float) -> Plain:
    """Train with a strength of dropout on four fifths of the points, and score each of the others."""
    x, y = points(num_data, run.options.seed)
    held_out, standard = torch.arange(num_data) % HELD_OUT == 0, (y - y.mean()) / y.std()
    network = set_strength(_network(run, scale), strength)
    name = f"N={num_data}-strength={strength:g}"
    steps, _ = _fit(run, network, scale, x[~held_out], standard[~held_out], name)
    says = _says(network, run, scale, y)
    unseen = predict_regression(network, x[held_out].to(run.options.device), num_samples=100, seed=run.options.seed)
    scores = unseen.log_prob(standard[held_out].to(run.options.device)) - y.std().log()
    return {"steps": steps, **{name: says[name] for name in SUMMARY}, "scores": rounded(scores)}


def _held_out(run: Run, scale: _Scale) -> list[Plain]:
    """Two strengths at each size from a hundred points on, and the one that held-out points prefer."""
    results = []
    for n in TUNED_SIZES[::-1]:
        names = {strength: f"width={scale.width}-N={n}-strength={strength:g}" for strength in STRENGTHS}
        parts = run.parts({names[s]: partial(_with_strength, run, n, scale, s) for s in STRENGTHS})
        scores = {strength: torch.tensor(parts[name].pop("scores")) for strength, name in names.items()}
        strengths = [
            {"strength": strength, "score": scores[strength].double().mean().item(), **parts[name]}
            for strength, name in names.items()
        ]
        results.append({"num_data": n, "chosen": choose_strength(scores), "strengths": strengths})
    return results[::-1]


def _fit(run: Run, network: nn.Module, scale: _Scale, x: Tensor, y: Tensor, name: str) -> tuple[int, list[EpochRecord]]:
    """Train a network; return the number of steps, and the record of each epoch."""
    batches = math.ceil(len(x) / BATCH_SIZE)
    epochs = math.ceil(scale.steps_for(len(x)) / batches)
    with limited_threads(None if scale.width > 256 else 1):
        result = fit(
            network,
            (x, y),
            likelihood="gaussian",
            epochs=epochs,
            batch_size=BATCH_SIZE,
            lr=LR,
            rate_lr=RATE_LR,
            max_norm=MAX_NORM,
            lengthscale=LENGTHSCALE,
            seed=run.options.seed,
            checkpoint=run.checkpoint(f"width={scale.width}-{name}-{epochs}"),
            progress=f"{scale.width} units, {name}",
        )
    return epochs * batches, result.history


def _network(run: Run, scale: _Scale) -> nn.Module:
    """Make the network; the paper drops the one input, too."""
    with seeded(run.options.seed):
        return learn_dropout(mlp(1, 2, hidden=(scale.width,) * 3), include=["0"]).to(run.options.device)


def _says(network: nn.Module, run: Run, scale: _Scale, y: Tensor) -> Plain:
    """Sum up a prediction for the usual inputs and the grid: both standard deviations, error, curve and rates."""
    inputs = torch.cat([USUAL, GRID]).unsqueeze(1).to(run.options.device)
    standard = predict_regression(
        network, inputs, num_samples=scale.num_samples, seed=run.options.seed, keep_draws=False
    )
    prediction = standard.rescale(y.std().item(), y.mean().item())
    usual, grid = slice(len(USUAL)), slice(len(USUAL), None)
    return {
        "aleatoric": prediction.aleatoric[usual].mean().sqrt().item(),
        "epistemic": prediction.epistemic[usual].mean().sqrt().item(),
        "error": (prediction.mean[usual, 0].cpu() - SLOPE * USUAL - OFFSET).square().mean().sqrt().item(),
        "curve": {
            "x": rounded(GRID),
            "mean": rounded(prediction.mean[grid, 0]),
            "epistemic": rounded(prediction.epistemic[grid, 0].sqrt()),
            "aleatoric": rounded(prediction.aleatoric[grid, 0].sqrt()),
        },
        "rates": list(dropout_rates(network).values()),
    }


def even_network(num_data: int, width: int) -> dict[str, float]:
    """The best rate of the hidden layers, were the weights spread evenly over all units, and both SDs there.

    A unit of a ReLU network is active for half of the inputs. Where the K units of each of the three hidden layers
    carry equal parts of the line, masks with rate p add the variance v = 3 p/(1-p) · (2/K) · E[(2x)²] to it, which
    costs log(1 + v)/2 nats per datum, and the entropy gives 3 K H(p)/N back. No prior on the weights enters.

    Example:
        >>> even_network(10_000, 1024)["p"] > even_network(1_000_000, 1024)["p"]
        True
    """
    p = np.linspace(1e-4, 0.5, 50_000)
    variance = 3 * p / (1 - p) * 2 / width * SLOPE**2
    entropy = -p * np.log(p) - (1 - p) * np.log1p(-p)
    best = int((0.5 * np.log(NOISE**2 + variance) - 3 * width / num_data * entropy).argmin())
    epistemic = float(variance[best]) ** 0.5
    return {"p": float(p[best]), "epistemic": epistemic, "aleatoric": math.hypot(NOISE, epistemic)}
