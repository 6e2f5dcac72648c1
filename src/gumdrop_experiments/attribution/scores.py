"""What is kept of an explanation, what masks look like, and how well they meet the truth: area, roughness, boxes."""

from typing import Any

import torch
from torch import Tensor

from gumdrop.attribution import Explanation, Region, total_variation
from gumdrop_experiments.harness import Plain

REGIONS: tuple[Region, ...] = ("ssr", "sdr", "joint")
"""The masks of a search."""


def area(relevance: Tensor) -> Tensor:
    """Mean relevance between 0 and 1, (N, ...), of each row: the soft share of the places that matter."""
    return relevance.flatten(1).mean(dim=1)


def roughness(relevance: Tensor) -> Tensor:
    """Anisotropic total variation per pixel of images, (N, 1, H, W): one for each, (N,)."""
    return total_variation(relevance[:, 0]) / relevance[0].numel()


def mask_iou(relevance: Tensor, truth: Tensor) -> Tensor:
    """Intersection over union, (N,), of the relevance above one half and the true region; 0 where both are empty."""
    found = relevance > 0.5
    both = (found & truth).flatten(1).sum(1)
    return both / (found | truth).flatten(1).sum(1).clamp(min=1)


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


def explained(found: Explanation) -> Plain:
    """What a figure of masks needs, to two decimals."""
    assert found.target is not None
    pictures = {
        "inputs": found.inputs,
        "ssr": found.relevance("ssr")[:, 0],
        "sdr": found.relevance("sdr")[:, 0],
        "joint": found.joint[:, 0],
        "enhanced": found.enhance(),
        "crops": found.crop(margin=0.1),
    }
    numbers = {
        "target": found.target.tolist(),
        "boxes": found.boxes().tolist(),
        "score": found.score.tolist(),
        "score_infill": found.score_infill.tolist(),
        "score_ssr": found.curve_ssr[-1].tolist(),
        "score_sdr": found.curve_sdr[-1].tolist(),
    }
    return {**numbers, "pictures": {name: rounded_pixels(value) for name, value in pictures.items()}}


def rounded_pixels(values: Tensor) -> Any:
    """Write pictures as rows of numbers with two decimals."""
    return [[round(v, 2) for v in row] for row in values.flatten(0, -2).tolist()]
