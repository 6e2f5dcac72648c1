"""Estimators of a gradient: held against each other and the exact one, over searches, and in what is learned."""

import time
from functools import partial

import torch
from torch import Tensor, nn

from gumdrop.attribution import FIDO, FIDOSettings, blur, find_layout, log_odds, total_variation
from gumdrop_experiments.data.mnist import MNIST, UNSEEN, read_mnist
from gumdrop_experiments.gradients import Settings
from gumdrop_experiments.gradients.estimators import ESTIMATORS, RELAXED, Objective, at_temperatures, exact_gradient
from gumdrop_experiments.gradients.uci import SETS, compare
from gumdrop_experiments.harness import Plain, Run, data_folder
from gumdrop_experiments.networks.convolutional import digit_classifier, digit_perceptron

EPOCHS, QUICK_EPOCHS = 60, 10
CELLS = 3
"""Along each side of the coarse masks."""


def study(settings: Settings, run: Run) -> Plain:
    """Search for masks with each estimator, count up its bias and variance, and learn rates with it."""
    quick, seed = run.options.quick, run.options.seed
    folder = data_folder(run.options, "mnist", sources=MNIST, files=["t10k-images-idx3-ubyte.gz"])
    uci = data_folder(run.options, "uci", files=[f"{name}/data.txt" for name in SETS])
    model = digit_classifier(digit_perceptron, run, folder)
    images = read_mnist(folder, train=False).images[UNSEEN]
    searched = partial(search, model, images[:1], settings.runs, settings.iterations, seed)
    norms = run.parts({name.replace(" ", "_"): partial(searched, *which) for name, which in at_temperatures().items()})
    epochs = QUICK_EPOCHS if quick else EPOCHS
    return {
        "identity": run.part("identity", identity),
        "enumeration": run.part("enumeration", partial(enumeration, model, images[:5], settings.num_draws, seed)),
        "norms": dict(zip(at_temperatures(), norms.values(), strict=True)),
        "uci": run.parts({name: partial(compare, uci / name, settings.splits, epochs, seed) for name in SETS}),
    }


def search(
    model: nn.Module, image: Tensor, runs: int, iterations: int, seed: int, estimator: str, temperature: float
) -> Plain:
    """Search for SSR and SDR as FIDO does, in many runs at once, and follow the norm of the gradient.

    Gives its mean and standard deviation over runs at each step, and what sharp masks keep and destroy at the end.
    """
    settings, infill = FIDOSettings(iterations=iterations), blur(image, find_layout(image, "image"))
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
    return {
        "mean": norms.mean(1).tolist(),
        "sd": norms.std(1).tolist(),
        **_sharp(model, image, infill, target, logit),
        "bad_gradients": int((~norms.isfinite()).sum()),
    }


@torch.no_grad()
def _sharp(model: nn.Module, image: Tensor, infill: Tensor, target: Tensor, logit: Tensor) -> dict[str, float]:
    """Round the masks of all runs to 0 and 1: the score under them, and the share of the image that they take."""
    runs = logit.shape[1]
    keep = (logit < 0).float().flatten(0, 1)
    scores = log_odds(model(torch.lerp(infill, image, keep[:, None])), target.expand(2 * runs)).reshape(2, runs)
    return {
        "kept_log_odds": scores[0].mean().item(),
        "destroyed_log_odds": scores[1].mean().item(),
        "kept_area": keep[:runs].mean().item(),
        "dropped_area": 1 - keep[runs:].mean().item(),
    }


def _cost_slope(logit: Tensor, settings: FIDOSettings, step: int) -> Tensor:
    """Give the gradient of what FIDO charges for large and rough masks."""
    with torch.enable_grad():
        leaf = logit.detach().requires_grad_()
        ssr, sdr = torch.sigmoid(leaf)
        rough = (total_variation(ssr) + total_variation(sdr)).sum() * settings.tv / 28
        cost = settings.l1 / 2 * (1 - ssr + sdr).flatten(1).mean(1).sum() + rough
        (slope,) = torch.autograd.grad(cost * min(1.0, (step + 1) / settings.ramp), leaf)
    return slope


def identity() -> Plain:
    """Compare the three spellings of the relaxation in float32."""
    results: Plain = {}
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
        results[f"t={temperature:g}"] = rows
    return results


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
    results: Plain = {}
    for stage, values in logits.items():
        rows = [slice(i, i + 1) for i in range(len(images))]
        objectives = [_cell_objective(model, images[row], infill[row], target[row]) for row in rows]
        cases = [(f, logit, exact_gradient(logit, f)) for f, logit in zip(objectives, values, strict=True)]
        results[stage] = {name: _errors(cases, *which, num_draws, seed) for name, which in searches.items()}
    return results


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
        rows = ((logit.expand(u.shape[1], -1), u) for u in noise.split(2000, dim=1))
        slopes = torch.cat([ESTIMATORS[estimator](*row, objective, temperature)[0] for row in rows])
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
