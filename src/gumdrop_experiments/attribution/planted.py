"""Planted evidence: a matched filter whose only evidence is one square, so that the truth is known."""

import torch
from torch import Tensor

from gumdrop.attribution import FIDO, FIDOSettings, boxes_of
from gumdrop_experiments.attribution import scores
from gumdrop_experiments.attribution.peers import captum_methods
from gumdrop_experiments.attribution.scores import REGIONS, rounded_pixels
from gumdrop_experiments.harness import Plain

INFILLS = ("blur", "mean", "zeros", "uniform", "normal", "local_shuffle")
SQUARES, SHOWN = 20, 3


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
    found: Plain = {"pictures": {"inputs": rounded_pixels(x[:SHOWN])}, "infills": {}}
    for infill in INFILLS:
        explanation = FIDO(_matched_filter, settings).explain(
            x, 0, additional_forward_args=pattern, infill=infill, seed=seed
        )
        found["infills"][infill] = {
            region: _planted_scores(explanation.relevance(region), truth, boxes) for region in REGIONS
        }
        found["pictures"][infill] = rounded_pixels(explanation.joint[:SHOWN, 0])
    # Captum's methods at a baseline of zeros, each image scaled to a largest relevance of 1.
    methods = captum_methods((3, 5), additional_forward_args=pattern)
    peers = {name: method(_matched_filter, x, 0, torch.zeros_like(x)) for name, method in methods.items()}
    scaled = {name: mask.clamp(min=0) / mask.amax((1, 2, 3), keepdim=True) for name, mask in peers.items()}
    found["peers"] = {name: _planted_scores(mask, truth, boxes) for name, mask in scaled.items()}
    return found


def _planted_scores(mask: Tensor, truth: Tensor, boxes: Tensor) -> dict[str, float]:
    iou = scores.mask_iou(mask, truth)
    return {
        "iou_min": iou.min().item(),
        "iou_mean": iou.mean().item(),
        "box_iou_mean": scores.box_iou(boxes_of(mask[:, 0]), boxes).mean().item(),
        "share_outside_mean": scores.share_outside(mask, boxes).mean().item(),
    }
