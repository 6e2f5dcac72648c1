"""Networks of the tutorial and such as learn their rates, and Gaussian processes, each judged by what came to pass."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from gumdrop import (
    HomoscedasticNoise,
    dropout_rates,
    fix_dropout,
    gaussian_nll,
    learn_dropout,
    negative_elbo,
    parameter_groups,
    predict_regression,
)
from gumdrop.likelihoods import Lengthscale
from gumdrop.training import epoch_seed
from gumdrop_experiments.co2 import KINDS, Settings, processes
from gumdrop_experiments.co2.processes import kernels, process
from gumdrop_experiments.co2.series import ASKED, Series, explained, scores, series
from gumdrop_experiments.data.download import sha256_of
from gumdrop_experiments.data.mauna_loa import MAUNA_LOA, read_mauna_loa
from gumdrop_experiments.harness import START, Plain, Run, data_folder
from gumdrop_experiments.networks.convolutional import perceptron
from gumdrop_experiments.pages import rounded
from gumdrop_experiments.shared import restore, save, seeded, take_step

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}
LR, NOISE_LR, RATE_LR = 1e-4, 1e-2, 1e-3
LENGTHSCALE: Lengthscale = 0.1
LOOKS_PER_DECADE, SAVED_EVERY = 10, 1000
RESTARTS, QUICK_RESTARTS = 2, 0
"""Further starts of the search for the parameters of a kernel."""
HYPER_PARAMETERS_ASKED = 1000


@dataclass(frozen=True)
class Network:
    """One of the networks."""

    activation: str
    depth: int
    width: int
    """Units of each."""
    rate: float | None
    """Drop probability; it is learned if None."""
    held: bool = False
    """Whether a rate that is learned stays where it starts for the first half of the steps."""

    @property
    def label(self) -> str:
        """What figures and tables call it."""
        units = f"{'ReLU' if self.activation == 'relu' else self.activation} {self.depth} × {self.width}"
        if self.rate is None:
            return f"{units}, learned p" + ", held at first" * self.held
        return f"{units}, p = {self.rate:.1g}".replace("0.", ".")


_MADE: dict[str, Callable[[str], Network]] = {
    "scripts": partial(Network, depth=4, width=1024, rate=0.1),
    "fixed": partial(Network, depth=5, width=1024, rate=0.2),
    "narrow": partial(Network, depth=4, width=128, rate=None),
    "held": partial(Network, depth=4, width=128, rate=None, held=True),
    "learned": partial(Network, depth=5, width=1024, rate=None),
}
NETWORKS = {f"{activation}-{kind}": make(activation) for kind, make in _MADE.items() for activation in ACTIVATIONS}
"""All of them by name, in the order in which they are trained. The tutorial describes `fixed`, its scripts train
`scripts`; `narrow` has an eighth of the units, and with them of the entropy of masks that outweighs 272 months."""


def build(network: Network, *, width: int, seed: int) -> nn.Sequential:
    """Build a network with dropout in front of each layer but the first, whose one input is all there is."""
    units, kind = min(network.width, width), ACTIVATIONS[network.activation]
    with seeded(seed):
        dense = perceptron(1, *[units] * network.depth, activation=kind)
        model = nn.Sequential(*dense, HomoscedasticNoise(1))
    learn_dropout(model, p=START if network.rate is None else network.rate, exclude=["0"], types=nn.Linear)
    return model if network.rate is None else fix_dropout(model)


def looks_at(steps: int) -> list[int]:
    """Say after which steps the fit is looked at: ten times a decade, every thousand steps, and at the end.

    Example:
        >>> looks_at(25)
        [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25]
    """
    decades = {round(10 ** (k / LOOKS_PER_DECADE)) for k in range(LOOKS_PER_DECADE * len(str(steps)))}
    return sorted({each for each in decades | set(range(SAVED_EVERY, steps, SAVED_EVERY)) if each < steps} | {steps})


def steps_done(checkpoint: Path) -> int:
    """Read after how many steps a training was stopped; 0 where there is no checkpoint."""
    return int(torch.load(checkpoint, weights_only=True)["done"][-1]["step"]) if checkpoint.exists() else 0


def train(
    model: nn.Module, data: Series, checkpoint: Path, *, steps: int, bfloat16: bool = False, seed: int, hold: int = 0
) -> list[Plain]:
    """Train a network in place by Adam at a constant rate, from its checkpoint; rates are held for the first steps."""
    device = next(model.parameters()).device
    x, y = (torch.from_numpy(values).float()[:, None].to(device) for values in (data.x, data.y))
    groups = parameter_groups(model, rate_lr=RATE_LR)
    groups[-1]["lr"] = NOISE_LR
    optimizer = torch.optim.Adam(groups, lr=LR, fused=True)
    looks: list[Plain] = restore(checkpoint, model, optimizer)
    done = looks[-1]["step"] if looks else 0
    for until in (step for step in looks_at(steps) if step > done):
        losses = torch.zeros((), device=device)
        with torch.random.fork_rng():
            torch.manual_seed(epoch_seed(seed, until))
            for step in range(done, until):
                optimizer.param_groups[1]["lr"] = RATE_LR if step >= hold else 0.0
                losses += _step(model.train(), optimizer, x, y, bfloat16=bfloat16)
        looks.append(_look(model.eval(), data, x, until, losses.item() / (until - done)))
        done = until
        if until % SAVED_EVERY == 0:
            save(checkpoint, model, optimizer, looks)
            print(f"{checkpoint.stem}: step {until:,}, {looks[-1]['seasons']:.0%} of the seasons", flush=True)
    return looks


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, *, bfloat16: bool) -> Tensor:
    """Take a step on all months; return the mean squared error under its masks."""
    with torch.autocast(x.device.type, torch.bfloat16, enabled=bfloat16):
        output = model(x)
    mean, log_variance = output.float().chunk(2, dim=-1)
    loss = negative_elbo(gaussian_nll(mean, log_variance, y), model, num_data=len(x), lengthscale=LENGTHSCALE).total
    take_step(optimizer, loss)
    return (mean.detach() - y).square().mean()


@torch.no_grad()
def _look(model: nn.Module, data: Series, x: Tensor, step: int, loss: float) -> Plain:
    """Say what averaged weights have learned; the loss is the squared error under masks since the last look."""
    fitted = model(x)[:, 0].cpu().double().numpy()
    return {
        "step": step,
        "loss": loss,
        "rmse": float(((fitted - data.y) ** 2).mean() ** 0.5),
        "seasons": explained(data.y, fitted),
        "rates": [round(float(p), 5) for p in dropout_rates(model).values()],
    }


def extrapolate(model: nn.Module, data: Series, *, num_samples: int, seed: int) -> Plain:
    """Draw functions from a network and score what they say of later months."""
    device = next(model.parameters()).device
    inputs = np.r_[ASKED, data.x[-1]], data.later_x
    asked, later = (torch.from_numpy(each).float()[:, None].to(device) for each in inputs)
    started = time.process_time()
    # The same seed draws the same functions.
    drawn, judged = (predict_regression(model, x, num_samples=num_samples, seed=seed) for x in (asked, later))
    seconds = time.process_time() - started
    with torch.no_grad():
        averaged = model(asked)[:-1, 0]
    std, at_end = drawn.epistemic.sqrt()[:, 0], judged.epistemic[-1].sqrt()
    return {
        "noise": math.sqrt(drawn.aleatoric[0, 0].item()),
        "seconds_of_draws": seconds,
        "curve": {"mean": rounded(drawn.mean[:-1, 0]), "averaged": rounded(averaged), "epistemic": rounded(std[:-1])},
        "band_at_last": std[-1].item(),
        "band_at_end": at_end.item(),
        "band_ratio": (at_end / std[-1]).item(),
        "later": scores(judged, torch.from_numpy(data.later_y).float()[:, None].to(device)),
    }


def study(settings: Settings, run: Run) -> Plain:
    """Extrapolate the record in each way."""
    path = data_folder(run.options, "co2", sources=MAUNA_LOA, files=[MAUNA_LOA[0].name]) / MAUNA_LOA[0].name
    data = series(read_mauna_loa(path))
    restarts = QUICK_RESTARTS if run.options.quick else RESTARTS
    calls = {f"gp-{name}": partial(process, data, name, restarts) for name in kernels(data)}
    if processes.installed():
        warmup = settings.chain_draws * 2 // 5
        chains = processes.Chains(settings.chains, warmup, settings.chain_draws, HYPER_PARAMETERS_ASKED)
        calls["gp-sampled"] = partial(processes.sampled_process, data, chains, run.options.seed)
    else:
        print("co2: numpyro is not installed, so gp-sampled is left out (pip install 'gumdrop[mcmc]')")
    kinds = settings.networks or KINDS
    there = [name for name in NETWORKS if name.rpartition("-")[2] in kinds or run.has(name)]
    networks = run.parts(calls | {name: partial(_network, run, settings, data, name) for name in there})
    steps = {name: steps_done(run.checkpoint(name, keep=True)) for name in NETWORKS if name not in there}
    # What a training that was stopped has to say is another part after more steps.
    stopped = [(name, f"{name}-{count}") for name, count in steps.items() if count]
    asked = run.parts({part: partial(_network, run, settings, data, name, train_on=False) for name, part in stopped})
    networks |= {name: asked[part] for name, part in stopped}
    return {
        "record": {"sha256": sha256_of(path), "scale_ppm": data.scale},
        "settings": {"draws": settings.num_samples, "bfloat16": settings.bfloat16},
        "data": {name: rounded(getattr(data, name)) for name in ("x", "y", "later_x", "later_y")},
        "asked": rounded(ASKED),
        "processes": {name.removeprefix("gp-"): networks[name] for name in calls},
        "networks": {name: networks[name] for name in NETWORKS if name in networks},
        "stopped": [name for name, _ in stopped],
        "missing": [network.label for name, network in NETWORKS.items() if name not in networks],
    }


def _network(run: Run, settings: Settings, data: Series, name: str, *, train_on: bool = True) -> Plain:
    """Train a network and ask it, or ask it as its checkpoint has it."""
    network, seed = NETWORKS[name], run.options.seed
    steps = settings.learned_steps if network.rate is None else settings.steps
    model = build(network, width=settings.width, seed=seed).to(run.options.device)
    how: Plain = {"bfloat16": settings.bfloat16, "seed": seed, "hold": steps // 2 if network.held else 0}
    looks = train(model, data, run.checkpoint(name, keep=not train_on), steps=steps if train_on else 0, **how)
    return {
        "label": network.label,
        "rates": looks[-1]["rates"],
        "looks": [look | {key: rounded(look[key]) for key in ("loss", "rmse", "seasons")} for look in looks],
        **extrapolate(model.eval(), data, num_samples=settings.num_samples, seed=seed),
    }
