"""What a search for masks leaves: keep rates, boxes, blended inputs and the course of the search."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from gumdrop.attribution.masks import Layout

Region = Literal["joint", "ssr", "sdr"]


def boxes_of(masks: Tensor, *, threshold: float = 0.5) -> Tensor:
    """Return the smallest box around the places of each mask, ``(N, *grid)``, above a threshold; shape (N, 2 D), int64.

    That is the first place along each dimension, then the place after the last: (top, left, bottom, right) for images,
    and all 0 where no place counts.

    Example:
        >>> mask = torch.zeros(1, 5, 6)
        >>> mask[0, 1:3, 2:6] = 0.9
        >>> boxes_of(mask)
        tensor([[1, 2, 3, 6]])
    """
    inside = masks > threshold
    starts, ends = [], []
    for dim in range(1, masks.ndim):
        others = [d for d in range(1, masks.ndim) if d != dim]
        line = inside.any(dim=others) if others else inside
        size = line.shape[1]
        some = line.any(dim=1)
        starts.append(torch.where(some, line.int().argmax(dim=1), 0))
        ends.append(torch.where(some, size - line.flip(1).int().argmax(dim=1), 0))
    return torch.stack([*starts, *ends], dim=1)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Masks that explain a batch of predictions.

    Masks have as many dimensions as the inputs, with size 1 where a place's values share one: (N, 1, H, W) for
    images, (N, 1, L) for signals, (N, T, 1) for tokens, (N, D) for tables.
    """

    inputs: Tensor
    """What was explained, shape (N, ...)."""
    infill: Tensor
    """What stands where a mask drops; of a random infill one draw. Shape (N, ...)."""
    target: Tensor | None
    """The class explained, shape (N,); None for a model with one output."""
    keep_ssr: Tensor
    """Keep probability ``1 - p`` under the smallest sufficient region: high where keeping keeps the prediction."""
    keep_sdr: Tensor
    """Keep probability ``1 - p`` under the smallest destroying region: low where dropping destroys the prediction."""
    score: Tensor
    """Log-odds of the target for the inputs, in nats, shape (N,)."""
    score_infill: Tensor
    """The same for the infill alone, shape (N,)."""
    curve_ssr: Tensor
    """Mean log-odds under the masks of each iteration, SSR, shape (T, N); NaN after the search has stopped early."""
    curve_sdr: Tensor
    """The same for SDR."""
    iterations: Tensor
    """Iterations of each search, shape (N,)."""
    layout: Layout
    """What the dimensions of an input are."""

    @property
    def joint(self) -> Tensor:
        r"""What is both kept and destroying, :math:`\sqrt{(1-p_\text{ssr})\,p_\text{sdr}}`."""
        return (self.keep_ssr * (1 - self.keep_sdr)).sqrt()

    def relevance(self, region: Region = "joint") -> Tensor:
        """Return how much each place matters, from 0 to 1: what suffices, what destroys, or their geometric mean.

        Raises:
            ValueError: If there is no such region.
        """
        if region not in ("joint", "ssr", "sdr"):
            raise ValueError(f"`region` must be 'joint', 'ssr' or 'sdr', got {region!r}")
        return {"joint": self.joint, "ssr": self.keep_ssr, "sdr": 1 - self.keep_sdr}[region]

    @property
    def blended_ssr(self) -> Tensor:
        """Inputs with all but the sufficient region filled in; the prediction should stand."""
        return torch.lerp(self.infill, self.inputs, self.keep_ssr.expand_as(self.inputs))

    @property
    def blended_sdr(self) -> Tensor:
        """Inputs with the destroying region filled in; the prediction should be gone."""
        return torch.lerp(self.infill, self.inputs, self.keep_sdr.expand_as(self.inputs))

    def enhance(self, region: Region = "joint") -> Tensor:
        """Fade what does not matter into the infill, so that a classifier, or an eye, sees what does."""
        return torch.lerp(self.infill, self.inputs, self.relevance(region).expand_as(self.inputs))

    def boxes(self, *, threshold: float = 0.5, region: Region = "joint") -> Tensor:
        """Return the smallest box around what matters more than a threshold, as `boxes_of` does.

        Raises:
            ValueError: For a table, whose columns have no order.
        """
        if not self.layout.ordered:
            raise ValueError("the columns of a table have no order, so no box holds them; use `relevance()`")
        return boxes_of(self.layout.gather(self.relevance(region)), threshold=threshold)

    def crop(self, *, margin: float = 0.0, threshold: float = 0.5, region: Region = "joint") -> Tensor:
        """Return inputs cut to the box around what matters, and brought to their size; whole where the box is empty.

        Args:
            margin: Room to leave on each side, as a share of the box's side.
            threshold: See `boxes`.
            region: See `relevance`.

        Raises:
            ValueError: For tables and tokens, which cannot be resized, or a negative margin.
        """
        if self.layout.name not in ("image", "signal"):
            raise ValueError(f"`crop` resizes, which {self.layout.name} inputs cannot be; use `boxes` or `enhance`")
        if margin < 0:
            raise ValueError(f"`margin` must not be negative, got {margin}")
        grid = self.layout.grid(self.inputs)
        mode = "bilinear" if len(grid) == 2 else "linear"
        crops = []
        for row, box in zip(self.inputs, self.boxes(threshold=threshold, region=region).tolist(), strict=True):
            window = _window(box, grid, margin)
            crops.append(F.interpolate(row[None][(..., *window)], size=grid, mode=mode, align_corners=False))
        return torch.cat(crops)


def _window(box: list[int], grid: tuple[int, ...], margin: float) -> tuple[slice, ...]:
    """The box with its margin, inside the input; the whole input for an empty box."""
    if not any(box):
        return tuple(slice(None) for _ in grid)
    window = []
    for start, end, size in zip(box[: len(grid)], box[len(grid) :], grid, strict=True):
        room = round(margin * (end - start))
        window.append(slice(max(0, start - room), min(size, end + room)))
    return tuple(window)
