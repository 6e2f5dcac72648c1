"""Bias and variance of estimators: the relaxations against each other, and all against the exact gradient."""

import time

import torch
from torch import Tensor, nn

from gumdrop.attribution import FIDO, FIDOSettings, blur, find_layout, log_odds
from gumdrop_experiments.gradients.estimators import ESTIMATORS, RELAXED, Objective, at_temperatures, exact_gradient
from gumdrop_experiments.harness import Plain

CELLS = 3
"""Along each side of the coarse masks."""


def identity() -> Plain:
    """Compare the three spellings of the relaxation in float32."""
    found: Plain = {}
    for temperature in (0.1, 1.0):
        rows = []
        for logit in (0.0, -2.0, -4.0, -8.0, -12.0, -16.0):
            noise = torch.sigmoid(logit + temperature * torch.linspace(-6, 6, 241))
            p_logit = torch.full_like(noise, logit)
            slopes = {
                name: f(p_logit, torch.stack([noise, noise]), lambda masks: masks, temperature)[0]
                for name, f in RELAXED.items()
            }
            gaps = {name: (slopes[name] - slopes["ours"]).abs().max() for name in ("original", "simplified")}
            largest = slopes["ours"].abs().max()
            rows.append({"logit": logit} | {name: (gap / largest).item() for name, gap in gaps.items()})
        found[f"t={temperature:g}"] = rows
    return found


def _cell_objective(model: nn.Sequential, image: Tensor, infill: Tensor, target: Tensor) -> Objective:
    """The score that SSR maximises, as a loss, of masks of nine cells, shape (R, 9)."""
    # The blend is affine in the mask, and so is the first dense layer: both are folded into one small matrix.
    first, rest = model[1], model[2:]
    masks_of_cells = torch.eye(CELLS**2).reshape(-1, CELLS, CELLS)
    cells = find_layout(image, "image").spread(masks_of_cells, (28, 28)) * (image - infill)
    with torch.no_grad():
        offset = first(infill.flatten(1))
        columns = first(cells.flatten(1)) - first.bias

    def objective(masks: Tensor) -> Tensor:
        return -log_odds(rest(offset + masks @ columns), target.expand(len(masks)))

    return objective


def enumeration(model: nn.Sequential, images: Tensor, num_draws: int, seed: int) -> Plain:
    """Hold estimators against the exact gradient for digits, at the start and later in a search.

    Gives bias and standard deviation of each, as shares of the exact gradient's norm, and how long a gradient takes.
    """
    infill = blur(images, find_layout(images, "image"))
    with torch.no_grad():
        target = model(images).argmax(1)
    midst = FIDO(model, FIDOSettings(iterations=15)).explain(images, target, mask_size=CELLS, seed=seed)
    searches = {name: pair for name, pair in at_temperatures().items() if pair[0] == "ours" or pair[1] in (0.1, 1.0)}
    logits = {"start": torch.zeros(len(images), CELLS**2), "midst": _cell_logits(midst.keep_ssr)}
    found: Plain = {}
    for stage, values in logits.items():
        rows = [slice(i, i + 1) for i in range(len(images))]
        objectives = [_cell_objective(model, images[row], infill[row], target[row]) for row in rows]
        cases = [(f, logit, exact_gradient(logit, f)) for f, logit in zip(objectives, values, strict=True)]
        found[stage] = {
            name: _errors(cases, estimator, temperature, num_draws, seed)
            for name, (estimator, temperature) in searches.items()
        }
    return found


def _cell_logits(keep: Tensor) -> Tensor:
    """Drop logits at the centres of the cells of an up-sampled keep probability."""
    centres = torch.tensor([4, 14, 23])
    return -torch.logit(keep[:, 0][:, centres][:, :, centres].flatten(1).clamp(1e-3, 1 - 1e-3))


def _errors(
    cases: list[tuple[Objective, Tensor, Tensor]], estimator: str, temperature: float, num_draws: int, seed: int
) -> dict[str, float]:
    bias, deviation = [], []
    started = time.perf_counter()
    for objective, logit, exact in cases:
        noise = torch.rand(2, num_draws, CELLS**2, generator=torch.Generator().manual_seed(seed)).clamp(1e-6, 1 - 1e-6)
        slopes = torch.cat(
            [
                ESTIMATORS[estimator](logit.expand(u.shape[1], -1), u, objective, temperature)[0]
                for u in noise.split(2000, dim=1)
            ]
        )
        variance = slopes.var(0).sum()
        # The squared error of a mean holds its variance, which is no bias.
        square = ((slopes.mean(0) - exact).square().sum() - variance / num_draws).clamp(min=0)
        bias.append((square.sqrt() / exact.norm()).item())
        deviation.append((variance.sqrt() / exact.norm()).item())
    seconds = (time.perf_counter() - started) / (len(cases) * num_draws)
    return {
        "bias": sum(bias) / len(bias),
        "deviation": sum(deviation) / len(deviation),
        "standard_error": sum(deviation) / len(deviation) / num_draws**0.5,
        "microseconds": 1e6 * seconds,
    }
