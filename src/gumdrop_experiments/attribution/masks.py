"""Masks of every method on planted evidence, whose truth is known, and on digits; what they look like and are worth."""

import functools
import time
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.attribution import (
    FIDO,
    Explanation,
    FIDOSettings,
    Region,
    blur,
    boxes_of,
    deletion_curve,
    find_layout,
    hard_mask_scores,
    insertion_curve,
    total_variation,
)
from gumdrop_experiments.attribution.peers import Method, captum_methods, gumbel_masks
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import mean_and_error

REGIONS: tuple[Region, ...] = ("ssr", "sdr", "joint")
"""The masks of a search."""
INFILLS = ("blur", "mean", "zeros", "uniform", "normal", "local_shuffle")
SQUARES, SHOWN = 20, 3
SHARE = 0.15
"""Size of the sharp regions on digits, as a share of the image: the same for all methods."""


def area(relevance: Tensor) -> Tensor:
    """Mean relevance between 0 and 1, (N, ...), of each row: the soft share of the places that matter."""
    return relevance.flatten(1).mean(dim=1)


def roughness(relevance: Tensor) -> Tensor:
    """Anisotropic total variation per pixel of images, (N, 1, H, W): one for each, (N,)."""
    return total_variation(relevance[:, 0]) / relevance[0].numel()


def mask_iou(relevance: Tensor, truth: Tensor) -> Tensor:
    """Intersection over union, (N,), of the relevance above one half and the true region; 0 where both are empty."""
    region = relevance > 0.5
    both = (region & truth).flatten(1).sum(1)
    return both / (region | truth).flatten(1).sum(1).clamp(min=1)


def box_iou(boxes: Tensor, others: Tensor) -> Tensor:
    """Intersection over union, (N,), of boxes (N, 4), starts then ends, pair by pair; 0 where both are empty."""
    sides = torch.minimum(boxes[:, 2:], others[:, 2:]) - torch.maximum(boxes[:, :2], others[:, :2])
    both = sides.clamp(min=0).prod(dim=1)
    volumes = [(box[:, 2:] - box[:, :2]).prod(dim=1) for box in (boxes, others)]
    return both / (volumes[0] + volumes[1] - both).clamp(min=1)


def share_outside(relevance: Tensor, boxes: Tensor) -> Tensor:
    """Share of the relevance, not negative, (N, 1, H, W), that lies outside a box, (N,); 0 where nothing is."""
    inside = torch.zeros_like(relevance)
    for pixels, (top, left, bottom, right) in zip(inside, boxes.tolist(), strict=True):
        pixels[:, top:bottom, left:right] = 1
    total, outside = (values.flatten(1).sum(dim=1) for values in (relevance, relevance * (1 - inside)))
    return torch.where(total > 0, outside / total, 0)


def explained(explanation: Explanation) -> Plain:
    """What a figure of masks needs, to two decimals."""
    assert explanation.target is not None
    pictures = {
        "inputs": explanation.inputs,
        "ssr": explanation.relevance("ssr")[:, 0],
        "sdr": explanation.relevance("sdr")[:, 0],
        "joint": explanation.joint[:, 0],
        "enhanced": explanation.enhance(),
        "crops": explanation.crop(margin=0.1),
    }
    numbers = {
        "target": explanation.target.tolist(),
        "boxes": explanation.boxes().tolist(),
        "score": explanation.score.tolist(),
        "score_infill": explanation.score_infill.tolist(),
        "score_ssr": explanation.curve_ssr[-1].tolist(),
        "score_sdr": explanation.curve_sdr[-1].tolist(),
    }
    return {**numbers, "pictures": {name: rounded_pixels(value) for name, value in pictures.items()}}


def rounded_pixels(values: Tensor) -> Any:
    """Write pictures as rows of numbers with two decimals."""
    return [[round(v, 2) for v in row] for row in values.flatten(0, -2).tolist()]


def planted_squares(count: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Make noise with a square of evidence, a pattern of -1 and 1, at a random place in each image.

    Gives images and patterns, (count, 1, 28, 28) each; a pattern is 0 outside its square of 10 x 10.
    """
    side, square = 28, 10
    generator = torch.Generator().manual_seed(seed)
    images = 2 * torch.rand(count, 1, side, side, generator=generator) - 1
    patterns = torch.zeros_like(images)
    corners = torch.randint(side - square + 1, (count, 2), generator=generator).tolist()
    for pattern, (top, left) in zip(patterns, corners, strict=True):
        signs = 2.0 * torch.randint(2, (square, square), generator=generator) - 1
        pattern[0, top : top + square, left : left + square] = signs
    return torch.where(patterns != 0, patterns, images), patterns


def _matched_filter(x: Tensor, pattern: Tensor) -> Tensor:
    """Logits of 'the pattern is there' and of the opposite; places of the square count alike, nothing else does."""
    evidence = (x * pattern).flatten(1).sum(1) / pattern.abs().flatten(1).sum(1)
    return torch.stack([20 * evidence - 10, torch.zeros_like(evidence)], dim=1)


def planted(settings: FIDOSettings, seed: int) -> Plain:
    """Find the squares under every infill, and score what is found beside Captum's methods."""
    x, pattern = planted_squares(SQUARES, seed=seed)
    truth = pattern != 0
    boxes = boxes_of(truth[:, 0].float())
    results: Plain = {"pictures": {"inputs": rounded_pixels(x[:SHOWN])}, "infills": {}}
    for infill in INFILLS:
        explanation = FIDO(_matched_filter, settings).explain(
            x, 0, additional_forward_args=pattern, infill=infill, seed=seed
        )
        scores = {region: _planted_scores(explanation.relevance(region), truth, boxes) for region in REGIONS}
        results["infills"][infill] = scores
        results["pictures"][infill] = rounded_pixels(explanation.joint[:SHOWN, 0])
    # Captum's methods at a baseline of zeros, each image scaled to a largest relevance of 1.
    methods = captum_methods((3, 5), additional_forward_args=pattern)
    peers = {name: method(_matched_filter, x, 0, torch.zeros_like(x)) for name, method in methods.items()}
    scaled = {name: mask.clamp(min=0) / mask.amax((1, 2, 3), keepdim=True) for name, mask in peers.items()}
    results["peers"] = {name: _planted_scores(mask, truth, boxes) for name, mask in scaled.items()}
    return results


def _planted_scores(mask: Tensor, truth: Tensor, boxes: Tensor) -> dict[str, float]:
    iou = mask_iou(mask, truth)
    return {
        "iou_min": iou.min().item(),
        "iou_mean": iou.mean().item(),
        "box_iou_mean": box_iou(boxes_of(mask[:, 0]), boxes).mean().item(),
        "share_outside_mean": share_outside(mask, boxes).mean().item(),
    }


def digits(model: nn.Module, x: Tensor, settings: FIDOSettings, seed: int) -> Plain:
    """Curves and sharp regions of every method, under two infills."""
    with torch.no_grad():
        target = model(x).argmax(1)
    results: Plain = {}
    for infill, fill in {"zeros": torch.zeros_like(x), "blur": blur(x, find_layout(x, "image"))}.items():
        results[infill] = {}
        for name, method in _methods(settings, seed).items():
            started = time.perf_counter()
            relevance = method(model, x, target, fill)
            seconds = (time.perf_counter() - started) / len(x)
            masks = relevance.split(1, dim=1)
            names = [name] if len(masks) == 1 else [f"{name} {region}" for region in REGIONS]
            for label, mask in zip(names, masks, strict=True):
                results[infill][label] = {"seconds_per_image": seconds, **_digit_scores(model, x, mask, fill)}
    return results


def _methods(settings: FIDOSettings, seed: int) -> dict[str, Method]:
    """All methods by name; those with several masks give one after the other."""

    def fido(model: Any, x: Tensor, target: Any, infill: Tensor) -> Tensor:
        explanation = FIDO(model, settings).explain(x, target, infill=infill, seed=seed)
        return torch.cat([explanation.relevance(region) for region in REGIONS], dim=1)

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
        "area": area(mask).mean().item(),
        "roughness": roughness(mask).mean().item(),
        "insertion_curve": insertion.probability.mean(0).tolist(),
        "deletion_curve": deletion.probability.mean(0).tolist(),
    }
