"""Learned dropout rates on UCI sets under a relaxed and under an unbiased gradient, all splits as one program."""

import itertools
import math
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop.functional import bernoulli_entropy, soft_keep
from gumdrop.machine.threads import limited_threads
from gumdrop_experiments.data.uci import Split, read_splits
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.shared import take_step

SETS = ("boston-housing", "concrete-strength")
HIDDEN, NUM_SAMPLES = 50, 200
PARTS = ("x_train", "y_train", "x_test", "y_test")
WAYS = {"relaxed t=0.1": 0.1, "relaxed t=1": 1.0, "DisARM": 0.0}
"""Ways to learn the rates; their temperature."""


class _Networks:
    """Two hidden layers with learned dropout in front of all three, one network for each split."""

    def __init__(self, num_splits: int, num_inputs: int, generator: torch.Generator) -> None:
        sizes = [num_inputs, HIDDEN, HIDDEN, 2]
        self.units = sizes[:-1]
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        for fan_in, fan_out in itertools.pairwise(sizes):
            bound = fan_in**-0.5
            for list_, shape in ((self.weights, (fan_in, fan_out)), (self.biases, (1, fan_out))):
                values = (2 * torch.rand(num_splits, *shape, generator=generator) - 1) * bound
                list_.append(values.requires_grad_())
        self.p_logits = [torch.full((num_splits, 1, 1), math.log(0.1 / 0.9)).requires_grad_() for _ in self.units]

    def __call__(self, x: Tensor, masks: list[Tensor]) -> Tensor:
        for i, mask in enumerate(masks):
            x = torch.baddbmm(self.biases[i], x * mask * F.softplus(self.p_logits[i]).exp(), self.weights[i])
            x = torch.relu(x) if i < len(masks) - 1 else x
        return x

    def kl(self) -> Tensor:
        """KL divergence from a prior with the precision of the fan-in, summed over splits."""
        total = torch.zeros(())
        for weight, bias, logit, units in zip(self.weights, self.biases, self.p_logits, self.units, strict=True):
            square = weight.square().sum((1, 2)) * F.softplus(logit).exp()[:, 0, 0] + bias.square().sum((1, 2))
            total = total + (units / 2 * square - units * bernoulli_entropy(logit)[:, 0, 0]).sum()
        return total

    def parameters(self) -> list[Tensor]:
        """All that is learned."""
        return [*self.weights, *self.biases, *self.p_logits]


def _nll(output: Tensor, y: Tensor) -> Tensor:
    mean, log_variance = output[..., 0], output[..., 1]
    return 0.5 * (log_variance + (y - mean).square() * torch.exp(-log_variance) + math.log(2 * math.pi))


def _relaxed_loss(nets: _Networks, x: Tensor, y: Tensor, noise: list[Tensor], temperature: float) -> Tensor:
    """Mean of two relaxed masks, whose gradient is the usual one."""
    pairs = list(zip(nets.p_logits, noise, strict=True))
    draws = [[soft_keep(p, u[i], temperature=temperature) for p, u in pairs] for i in range(2)]
    return torch.stack([_nll(nets(x, masks), y) for masks in draws]).mean(0)


def _disarm_loss(nets: _Networks, x: Tensor, y: Tensor, noise: list[Tensor]) -> Tensor:
    """Mean of an antithetic pair of hard masks; a term of value 0 gives the rates their unbiased gradient."""
    keep = [-p.detach() for p in nets.p_logits]
    means = (torch.sigmoid(k) for k in keep)
    pairs = [((1 - u[0] < mean).float(), (u[0] < mean).float()) for mean, u in zip(means, noise, strict=True)]
    first, second = (_nll(nets(x, [pair[i] for pair in pairs]), y) for i in range(2))
    half = (first - second).detach()[..., None] / 2
    extra = torch.zeros_like(first)
    for logit, k, (a, b) in zip(nets.p_logits, keep, pairs, strict=True):
        slope = -half * torch.where(b > 0, -1.0, 1.0) * (a != b) * torch.sigmoid(k.abs())
        extra = extra + (slope.sum(-1)) * (logit - logit.detach())[..., 0]
    return (first + second) / 2 + extra


def _train(data: Split, way: str, epochs: int, seed: int) -> _Networks:
    generator = torch.Generator().manual_seed(seed)
    num_splits, num_rows, num_inputs = data.x_train.shape
    nets = _Networks(num_splits, num_inputs, generator)
    groups = [{"params": [*nets.weights, *nets.biases], "lr": 5e-3}, {"params": nets.p_logits, "lr": 5e-2}]
    optimizer = torch.optim.Adam(groups)
    steps = epochs * math.ceil(num_rows / 32)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [5e-3, 5e-2], total_steps=steps, cycle_momentum=False)
    for _ in range(epochs):
        for rows in torch.randperm(num_rows, generator=generator).split(32):
            x, y = data.x_train[:, rows], data.y_train[:, rows, 0]
            noise = [torch.rand(2, num_splits, len(rows), units, generator=generator) for units in nets.units]
            nll = _disarm_loss(nets, x, y, noise) if way == "DisARM" else _relaxed_loss(nets, x, y, noise, WAYS[way])
            take_step(optimizer, nll.mean(dim=1).sum() + nets.kl() / num_rows, schedule)
    return nets


@torch.no_grad()
def _score(nets: _Networks, data: Split, scale: Tensor, seed: int) -> dict[str, list[float]]:
    """RMSE and log likelihood in target units, with hard masks shared by all rows, one value for each split."""
    generator = torch.Generator().manual_seed(seed)
    num_splits = len(data.x_train)
    means, logs = [], []
    for _ in range(NUM_SAMPLES):
        masks = [
            (torch.rand(num_splits, 1, units, generator=generator) >= torch.sigmoid(p)).float()
            for units, p in zip(nets.units, nets.p_logits, strict=True)
        ]
        output = nets(data.x_test, masks)
        means.append(output[..., 0])
        logs.append(-_nll(output, data.y_test[..., 0]))
    log_likelihood = torch.logsumexp(torch.stack(logs), 0) - math.log(NUM_SAMPLES) - scale.log()[:, None]
    error = F.mse_loss(torch.stack(means).mean(0), data.y_test[..., 0], reduction="none").mean(1).sqrt() * scale
    rates = torch.cat([torch.sigmoid(p[:, :, 0]) for p in nets.p_logits], dim=1).mean(0)
    return {"rmse": error.tolist(), "log_likelihood": log_likelihood.mean(1).tolist(), "rates": rates.tolist()}


@limited_threads(1)
def compare(folder: Path, num_splits: int, epochs: int, seed: int) -> Plain:
    """Train under each gradient, from the same start and with the same noise."""
    splits = read_splits(folder, most=num_splits)
    scale = torch.tensor([split.y_std for split in splits])
    # All splits as one, with a dimension more in front: their sizes are the same.
    tensors = {name: torch.stack([getattr(split, name) for split in splits]) for name in PARTS}
    data = Split(**tensors, y_mean=0.0, y_std=1.0)
    return {way: _score(_train(data, way, epochs, seed), data, scale, seed + 1) for way in WAYS}
