"""What is kept of an explanation, what masks look like, and how well they meet the truth: area, roughness, boxes."""

from typing import Any, Literal

import torch
from torch import Tensor

from gumdrop.attribution import Explanation, LayoutName, Region, find_layout, total_variation
from gumdrop_experiments.harness import Plain

REGIONS: tuple[Region, ...] = ("ssr", "sdr", "joint")
"""The masks of a search."""


def area(relevance: Tensor) -> Tensor:
    """Mean relevance between 0 and 1, (N, ...), of each row: the soft share of the places that matter."""
    return relevance.flatten(1).mean(dim=1)


def roughness(relevance: Tensor, *, layout: Literal["image", "signal", "tokens"] | None = None) -> Tensor:
    """Anisotropic total variation per place of each row, (N,); `layout` says what the dimensions are, as for FIDO."""
    known = find_layout(relevance, layout)
    if not known.ordered:
        raise ValueError("the columns of a table have no order, so nothing is rough or smooth about them")
    places = known.gather(relevance)
    return total_variation(places) / places[0].numel()


def mask_iou(relevance: Tensor, truth: Tensor, *, threshold: float = 0.5) -> Tensor:
    """Intersection over union, (N,), of a thresholded relevance and the true region; 0 where both are empty."""
    found = relevance > threshold
    truth = truth.expand_as(found)
    both = (found & truth).flatten(1).sum(1)
    return both / (found | truth).flatten(1).sum(1).clamp(min=1)


def box_iou(boxes: Tensor, others: Tensor) -> Tensor:
    """Intersection over union, (N,), of boxes (N, 2 D), starts then ends, pair by pair; 0 where both are empty."""
    if boxes.shape != others.shape or boxes.ndim != 2 or boxes.shape[1] % 2:
        raise ValueError(
            f"`boxes` and `others` must have one shape (N, 2 D), got {tuple(boxes.shape)} and {tuple(others.shape)}"
        )
    half = boxes.shape[1] // 2
    starts = torch.maximum(boxes[:, :half], others[:, :half])
    ends = torch.minimum(boxes[:, half:], others[:, half:])
    both = (ends - starts).clamp(min=0).prod(dim=1)
    volumes = [(b[:, half:] - b[:, :half]).clamp(min=0).prod(dim=1) for b in (boxes, others)]
    return both / (volumes[0] + volumes[1] - both).clamp(min=1)


def share_outside(relevance: Tensor, boxes: Tensor, *, layout: LayoutName | None = None) -> Tensor:
    """Share of the relevance that lies outside a box, (N,): what an attribution spends on the background.

    Relevance (N, ...) is not negative, boxes are (N, 2 D), starts then ends; 0 where nothing is relevant.
    """
    known = find_layout(relevance, layout)
    places = known.gather(relevance)
    if (places < 0).any():
        raise ValueError(f"`relevance` must not be negative, got {places.min():g}; take its absolute value first")
    dims = places.ndim - 1
    if boxes.shape != (len(places), 2 * dims):
        raise ValueError(f"`boxes` must have the shape ({len(places)}, {2 * dims}), got {tuple(boxes.shape)}")
    inside = torch.ones_like(places, dtype=torch.bool)
    for dim in range(dims):
        line = torch.arange(places.shape[dim + 1], device=places.device)
        within = (line >= boxes[:, dim, None]) & (line < boxes[:, dims + dim, None])
        inside &= within.reshape(len(places), *(-1 if d == dim else 1 for d in range(dims)))
    total = places.flatten(1).sum(dim=1)
    outside = (places * ~inside).flatten(1).sum(dim=1)
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
