"""Curves and sharp regions of every method on digits."""

import functools
import time
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.attribution import FIDO, FIDOSettings, blur, deletion_curve, find_layout, hard_mask_scores, insertion_curve
from gumdrop_experiments.attribution import scores
from gumdrop_experiments.attribution.peers import Method, captum_methods, gumbel_masks
from gumdrop_experiments.attribution.scores import REGIONS
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import mean_and_error

SHARE = 0.15
"""Size of the sharp regions on digits, as a share of the image: the same for all methods."""


def digits(model: nn.Module, x: Tensor, settings: FIDOSettings, seed: int) -> Plain:
    """Curves and sharp regions of every method, under two infills."""
    with torch.no_grad():
        target = model(x).argmax(1)
    found: Plain = {}
    for infill, fill in {"zeros": torch.zeros_like(x), "blur": blur(x, find_layout(x, "image"))}.items():
        found[infill] = {}
        for name, method in _methods(settings, seed).items():
            started = time.perf_counter()
            relevance = method(model, x, target, fill)
            seconds = (time.perf_counter() - started) / len(x)
            masks = relevance.split(1, dim=1)
            names = [name] if len(masks) == 1 else [f"{name} {region}" for region in REGIONS]
            for label, mask in zip(names, masks, strict=True):
                found[infill][label] = {"seconds_per_image": seconds, **_digit_scores(model, x, mask, fill)}
    return found


def _methods(settings: FIDOSettings, seed: int) -> dict[str, Method]:
    """All methods by name; those with several masks give one after the other."""

    def fido(model: Any, x: Tensor, target: Any, infill: Tensor) -> Tensor:
        found = FIDO(model, settings).explain(x, target, infill=infill, seed=seed)
        return torch.cat([found.relevance(region) for region in REGIONS], dim=1)

    def gumbel(model: Any, x: Tensor, target: Any, infill: Tensor, temperature: float) -> Tensor:
        ssr, sdr = gumbel_masks(model, x, target, infill, settings=settings, temperature=temperature, seed=seed)
        return torch.cat([ssr, 1 - sdr, (ssr * (1 - sdr)).sqrt()], dim=1)

    plain = {f"Gumbel t={t:g}": functools.partial(gumbel, temperature=t) for t in (1.0, settings.temperature)}
    return {"FIDO": fido, **plain, **captum_methods()}


def _digit_scores(model: nn.Module, x: Tensor, mask: Tensor, fill: Tensor) -> Plain:
    insertion = insertion_curve(model, x, mask, fill)
    deletion = deletion_curve(model, x, mask, fill)
    bound = mask.flatten(1).quantile(1 - SHARE, dim=1)[:, None, None, None]
    hard = hard_mask_scores(model, x, mask - bound, fill, threshold=0.0)
    values = {
        "insertion": insertion.auc,
        "deletion": deletion.auc,
        "kept_log_odds": hard.kept,
        "dropped_log_odds": hard.dropped,
    }
    spreads = {name: mean_and_error(each.tolist()) for name, each in values.items()}
    return {
        **{name: {"mean": mean, "se": error} for name, (mean, error) in spreads.items()},
        "area": scores.area(mask).mean().item(),
        "roughness": scores.roughness(mask).mean().item(),
        "insertion_curve": insertion.probability.mean(0).tolist(),
        "deletion_curve": deletion.probability.mean(0).tolist(),
    }
