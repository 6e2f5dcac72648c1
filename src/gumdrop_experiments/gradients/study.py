"""How stable are the gradients of dropout rates (Korsch, Shadaydeh & Denzler 2023, supplement).

The same noise and the same temperature for the original relaxation, the simplified one and ours, which are one number
in three spellings. Then estimators without a relaxation. Bias and variance are held against the exact gradient, by
enumeration of all masks of nine cells; norms are followed over searches for masks at full size; and learned rates on
UCI sets say whether an unbiased gradient would earn a place in the core.
"""

import functools
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.attribution import FIDO, FIDOSettings, log_odds
from gumdrop.attribution.infills import blur
from gumdrop.attribution.masks import LAYOUTS, total_variation
from gumdrop.machine.threads import limited_threads
from gumdrop_experiments.data.mnist import MNIST, read_mnist
from gumdrop_experiments.gradients import figures
from gumdrop_experiments.gradients.estimators import ESTIMATORS, RELAXED, Objective, exact_gradient
from gumdrop_experiments.gradients.uci import SETS, compare
from gumdrop_experiments.harness.folders import data_folder
from gumdrop_experiments.harness.options import RunOptions
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.networks.convolutional import digit_batches, digit_perceptron, train_or_load

__all__ = ["gradients"]

TEMPERATURES = (0.05, 0.1, 0.2, 0.5, 1.0)
CELLS = 3
IMAGE = LAYOUTS["image"]
FIRST_IMAGE = 1000
CLASSIFIER_STEPS, EPOCHS = 900, 60


def gradients(
    options: RunOptions = RunOptions(),
    *,
    runs: int = 30,
    iterations: int = 100,
    num_draws: int = 3000,
    splits: int = 10,
) -> None:
    """Compare estimators of the gradient of dropout rates: bias, variance, norms, and what is learned with them.

    Args:
        options: The flags that all experiments share.
        runs: Searches for masks with each estimator.
        iterations: Steps of each search.
        num_draws: Gradients drawn for bias and variance.
        splits: Splits of the UCI sets, from 1 to 20.
    """
    if options.quick:
        runs, iterations, num_draws, splits = min(runs, 4), min(iterations, 10), min(num_draws, 2000), min(splits, 5)
    folder = data_folder(options, "mnist", sources=MNIST, files=["t10k-images-idx3-ubyte.gz"])
    uci = data_folder(options, "uci", files=[f"{name}/data.txt" for name in SETS])
    own = {"runs": runs, "iterations": iterations, "num_draws": num_draws, "splits": splits}
    with Run("gradients", options, own) as run:
        model = _classifier(run, folder)
        images = read_mnist(folder, train=False).images[FIRST_IMAGE:]
        search = functools.partial(_search, model, images[:1], runs, iterations, options.seed)
        epochs = 10 if options.quick else EPOCHS
        searches = _searches()
        found = run.parts(
            {name.replace(" ", "_"): functools.partial(search, *which) for name, which in searches.items()}
        ).values()
        results = {
            "identity": run.part("identity", _identity),
            "enumeration": run.part("enumeration", lambda: _enumeration(model, images[:5], num_draws, options.seed)),
            "norms": dict(zip(searches, found, strict=True)),
            "uci": run.parts({name: functools.partial(_uci, uci / name, splits, epochs, options) for name in SETS}),
        }
        run.figure("gradients-bias-variance", figures.bias_variance(results["enumeration"]))
        run.figure("gradients-norms", figures.norms(results["norms"]))
        run.finish(results, figures.page(results))


def _classifier(run: Run, folder: Path) -> nn.Sequential:
    place = run.folder / "digit_perceptron.pt"
    steps = 200 if run.options.quick else CLASSIFIER_STEPS
    return train_or_load(digit_perceptron, lambda: digit_batches(folder), place, steps=steps, seed=run.options.seed)


def _searches() -> dict[str, tuple[str, float]]:
    """Each estimator at each temperature that it has."""
    relaxed = {f"{name} t={t:g}": (name, t) for name in RELAXED for t in TEMPERATURES}
    return relaxed | {name: (name, 1.0) for name in ESTIMATORS if name not in RELAXED}


# One number in three spellings


def _identity() -> dict[str, Any]:
    """Largest relative difference of the derivative of a mask from ours, over noise where the mask is undecided."""
    found: dict[str, Any] = {}
    for temperature in (0.1, 1.0):
        rows = []
        for logit in (0.0, -2.0, -4.0, -8.0, -12.0, -16.0):
            noise = torch.sigmoid(logit + temperature * torch.linspace(-6, 6, 241))
            p_logit = torch.full_like(noise, logit)
            slopes = {
                name: f(p_logit, torch.stack([noise, noise]), _itself, temperature)[0] for name, f in RELAXED.items()
            }
            gaps = {name: (slopes[name] - slopes["ours"]).abs().max() for name in ("original", "simplified")}
            largest = slopes["ours"].abs().max()
            rows.append({"logit": logit} | {name: (gap / largest).item() for name, gap in gaps.items()})
        found[f"t={temperature:g}"] = rows
    return found


def _itself(masks: Tensor) -> Tensor:
    return masks


# Bias and variance


def _cell_objective(model: nn.Sequential, image: Tensor, infill: Tensor, target: Tensor) -> Objective:
    """The score that SSR maximises, as a loss, of masks of nine cells, shape (R, 9)."""
    # The blend is affine in the mask, and so is the first dense layer: both are folded into one small matrix.
    first, rest = model[1], model[2:]
    cells = IMAGE.spread(torch.eye(CELLS**2).reshape(-1, CELLS, CELLS), (28, 28)) * (image - infill)
    with torch.no_grad():
        offset = first(infill.flatten(1))
        columns = first(cells.flatten(1)) - first.bias

    def objective(masks: Tensor) -> Tensor:
        return -log_odds(rest(offset + masks @ columns), target.expand(len(masks)))

    return objective


def _enumeration(model: nn.Sequential, images: Tensor, num_draws: int, seed: int) -> dict[str, Any]:
    """Bias and standard deviation, as shares of the exact gradient's norm, at the start and later in a search."""
    infill = blur(images, IMAGE)
    with torch.no_grad():
        target = model(images).argmax(1)
    midst = FIDO(model, FIDOSettings(iterations=15)).explain(images, target, mask_size=CELLS, seed=seed)
    searches = {name: pair for name, pair in _searches().items() if pair[0] == "ours" or pair[1] in (0.1, 1.0)}
    logits = {"start": torch.zeros(len(images), CELLS**2), "midst": _cell_logits(midst.keep_ssr)}
    found: dict[str, Any] = {}
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


# Norms over a search


def _search(
    model: nn.Module, image: Tensor, runs: int, iterations: int, seed: int, estimator: str, temperature: float
) -> dict[str, Any]:
    """Search for SSR and SDR as FIDO does, in many runs at once; the norm of the gradient at each step."""
    settings, infill = FIDOSettings(iterations=iterations), blur(image, IMAGE)
    with torch.no_grad():
        target = model(image).argmax(1)
        evidence = (log_odds(model(image), target) - log_odds(model(infill), target)).abs().clamp(min=1)
    pairs = settings.num_samples // 2
    logit = torch.zeros(2, runs, 28, 28)
    optimizer = torch.optim.Adam([logit], lr=settings.lr)
    generator = torch.Generator().manual_seed(seed)
    sign = torch.tensor([-1.0, 1.0]).repeat_interleave(runs * pairs)

    def objective(masks: Tensor) -> Tensor:
        output = model(torch.lerp(infill, image, masks[:, None]))
        return sign * log_odds(output, target.expand(len(masks)))

    course = []
    for step in range(iterations):
        rows = logit[:, :, None].expand(2, runs, pairs, 28, 28).flatten(0, 2)
        noise = torch.rand(2, len(rows), 28, 28, generator=generator).clamp(1e-6, 1 - 1e-6)
        slope = ESTIMATORS[estimator](rows, noise, objective, temperature)[0].reshape(2, runs, pairs, 28, 28)
        course.append(slope.mean(2).flatten(2).norm(dim=2).mean(0))  # of each run, mean of the two maps
        logit.grad = slope.mean(2) + _cost_slope(logit, settings, step) * evidence
        optimizer.step()
    norms = torch.stack(course)
    with torch.no_grad():
        keep = (logit < 0).float().flatten(0, 1)
        scores = log_odds(model(torch.lerp(infill, image, keep[:, None])), target.expand(2 * runs)).reshape(2, runs)
    return {
        "mean": norms.mean(1).tolist(),
        "sd": norms.std(1).tolist(),
        "kept_log_odds": scores[0].mean().item(),
        "destroyed_log_odds": scores[1].mean().item(),
        "kept_area": keep[:runs].mean().item(),
        "dropped_area": 1 - keep[runs:].mean().item(),
        "bad_gradients": int((~norms.isfinite()).sum()),
    }


def _cost_slope(logit: Tensor, settings: FIDOSettings, step: int) -> Tensor:
    with torch.enable_grad():
        leaf = logit.detach().requires_grad_()
        ssr, sdr = torch.sigmoid(leaf)
        rough = (total_variation(ssr) + total_variation(sdr)).sum() * settings.tv / 28
        cost = settings.l1 / 2 * (1 - ssr + sdr).flatten(1).mean(1).sum() + rough
        (slope,) = torch.autograd.grad(cost * min(1.0, (step + 1) / settings.ramp), leaf)
    return slope


def _uci(folder: Path, splits: int, epochs: int, options: RunOptions) -> dict[str, Any]:
    with limited_threads(1):
        return compare(folder, num_splits=splits, epochs=epochs, seed=options.seed)
