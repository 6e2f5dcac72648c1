"""Norms of the gradient over searches for masks."""

import torch
from torch import Tensor, nn

from gumdrop.attribution import FIDOSettings, blur, find_layout, log_odds, total_variation
from gumdrop_experiments.gradients.estimators import ESTIMATORS
from gumdrop_experiments.harness import Plain


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
