"""How good an attribution is by what the model answers: curves of deletion and insertion, and hard masks.

All functions take the relevance of any method, one value for each place, larger matters more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gumdrop.attribution.masks import Layout, LayoutName, find_layout
from gumdrop.attribution.targets import Score, Target, call, find_target, log_odds


@dataclass(frozen=True, eq=False)
class Curve:
    """Probability of the target while an input is taken apart, or put together."""

    share: Tensor
    """Share of the places that are deleted or inserted, from 0 to 1, shape (K + 1,)."""
    probability: Tensor
    """Probability of the target, shape (N, K + 1)."""

    @property
    def auc(self) -> Tensor:
        """Area under each curve, shape (N,): good attributions have little under deletion, much under insertion."""
        return torch.trapezoid(self.probability, self.share, dim=1)


def deletion_curve(
    forward_func: Callable[..., Any],
    inputs: Tensor,
    relevance: Tensor,
    infill: Tensor | float,
    *,
    target: Target = None,
    **options: Any,
) -> Curve:
    """Return the curve from the input to the infill, as places are replaced, the most relevant first.

    Arguments are those of `insertion_curve`; by default the class is the one predicted for the input.

    Example:
        >>> def left_half(images):
        ...     return images[..., :4].flatten(1).mean(1) * 6 - 3
        >>> relevance = torch.zeros(1, 1, 8, 8)
        >>> relevance[..., :4] = 1
        >>> curve = deletion_curve(left_half, torch.ones(1, 1, 8, 8), relevance, 0.0, num_steps=4)
        >>> curve.probability
        tensor([[0.9526, 0.5000, 0.0474, 0.0474, 0.0474]])
    """
    fill = torch.as_tensor(infill, dtype=inputs.dtype, device=inputs.device).expand_as(inputs)
    with torch.no_grad():
        classes = find_target(call(forward_func, inputs), target)
    return insertion_curve(forward_func, fill, relevance, inputs, target=classes, **options)


@torch.no_grad()
def insertion_curve(
    forward_func: Callable[..., Any],
    inputs: Tensor,
    relevance: Tensor,
    infill: Tensor | float,
    *,
    target: Target = None,
    layout: LayoutName | None = None,
    num_steps: int = 100,
    chunk_size: int = 256,
    seed: int = 0,
) -> Curve:
    """Put places of the input into the infill, the most relevant first.

    Args:
        forward_func: The model, giving logits.
        inputs: Shape (N, ...).
        relevance: In the shape of the inputs, or 1 in dimensions that share a place.
        infill: What is replaced; broadcasts to the inputs.
        target: The class, one for all inputs or one for each; the predicted one if None.
        layout: As for `FIDO.explain`.
        num_steps: Points of the curve but one.
        chunk_size: Rows of the model at once.
        seed: Orders places of equal relevance.

    Returns:
        The curve; it begins at the infill and ends at the input.

    Raises:
        ValueError: If ``num_steps`` or a shape is out of range.

    References:
        Petsiuk, Das & Saenko 2018, "RISE" (arXiv:1806.07421).
    """
    if num_steps < 1:
        raise ValueError(f"`num_steps` must be at least 1, got {num_steps}")
    known = find_layout(inputs, layout)
    fill = torch.as_tensor(infill, dtype=inputs.dtype, device=inputs.device).expand_as(inputs)
    classes = find_target(call(forward_func, inputs), target)
    ranks = _ranks(_places(inputs, relevance, known), seed)
    num_places = ranks[0].numel()
    bounds = torch.linspace(0, num_places, num_steps + 1, device=inputs.device).round()
    rows = torch.arange(len(inputs), device=inputs.device).repeat_interleave(num_steps + 1)
    bound = bounds.repeat(len(inputs))
    parts = []
    for part in torch.arange(len(rows), device=inputs.device).split(chunk_size):
        row = rows[part]
        reached = ranks[row] < bound[part].reshape(-1, *[1] * (ranks.ndim - 1))
        shown = known.spread(reached, known.grid(inputs))
        output = call(forward_func, torch.where(shown, inputs[row], fill[row]))
        parts.append(torch.sigmoid(log_odds(output, None if classes is None else classes[row])))
    return Curve(bounds / num_places, torch.cat(parts).reshape(len(inputs), num_steps + 1))


def _places(inputs: Tensor, relevance: Tensor, layout: Layout) -> Tensor:
    """Relevance of each place, shape (N, *grid), or an error."""
    wanted = {tuple(inputs.shape), tuple(1 if dim in layout.shared else n for dim, n in enumerate(inputs.shape))}
    if tuple(relevance.shape) not in wanted:
        raise ValueError(
            f"`relevance` must have the shape {' or '.join(map(str, sorted(wanted)))}, got {tuple(relevance.shape)}"
        )
    if not relevance.isfinite().all():
        raise ValueError("`relevance` must be finite, got NaN or infinity in it")
    return layout.gather(relevance)


def _ranks(relevance: Tensor, seed: int) -> Tensor:
    """Rank of each place, 0 for the most relevant; equal ones in random order, not in that of reading."""
    flat = relevance.flatten(1)
    shuffle = torch.randperm(flat.shape[1], generator=torch.Generator().manual_seed(seed)).to(flat.device)
    order = shuffle[flat[:, shuffle].argsort(dim=1, descending=True, stable=True)]
    ranks = torch.empty_like(order)
    ranks.scatter_(1, order, torch.arange(flat.shape[1], device=flat.device).expand_as(order).contiguous())
    return ranks.reshape(relevance.shape)


@dataclass(frozen=True, eq=False)
class HardMaskScores:
    """Log-odds of the target when a region is cut out sharply, in nats, each of shape (N,)."""

    kept: Tensor
    """Of the region alone, with the infill around it; good regions keep it high."""
    dropped: Tensor
    """Of the input with the region filled in; good regions bring it down."""


@torch.no_grad()
def hard_mask_scores(
    forward_func: Callable[..., Any],
    inputs: Tensor,
    relevance: Tensor,
    infill: Tensor | float,
    *,
    target: Target = None,
    layout: LayoutName | None = None,
    threshold: float = 0.5,
    score: Score = log_odds,
) -> HardMaskScores:
    """Return scores of regions as yes or no: the relaxation of a search, and any grey of its masks, is gone.

    Places of larger relevance than the threshold are in the region; arguments are those of `insertion_curve`.

    Example:
        >>> def left_half(images):
        ...     return images[..., :4].flatten(1).mean(1) * 6 - 3
        >>> relevance = torch.zeros(1, 1, 8, 8)
        >>> relevance[..., :4] = 1
        >>> scores = hard_mask_scores(left_half, torch.ones(1, 1, 8, 8), relevance, 0.0)
        >>> scores
        HardMaskScores(kept=tensor([3.]), dropped=tensor([-3.]))
    """
    known = find_layout(inputs, layout)
    fill = torch.as_tensor(infill, dtype=inputs.dtype, device=inputs.device).expand_as(inputs)
    inside = known.spread(_places(inputs, relevance, known) > threshold, known.grid(inputs))
    classes = find_target(call(forward_func, inputs), target)
    kept, dropped = (
        score(call(forward_func, torch.where(shown, inputs, fill)), classes) for shown in (inside, ~inside)
    )
    return HardMaskScores(kept, dropped)
