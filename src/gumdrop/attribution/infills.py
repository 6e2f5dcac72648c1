"""What stands where a mask drops: a picture without the evidence, or noise."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from gumdrop.attribution.masks import Layout
from gumdrop.functional.devices import sent
from gumdrop.functional.noise import uniform_noise

InfillCall = Callable[[Tensor, Generator], Tensor]
Infill = str | float | Tensor | InfillCall

BLUR_SHARE = 0.1
"""Standard deviation of the default blur, as a share of the smaller side: enough that a digit or a face is gone."""
NEIGHBOURHOOD = 0.1
"""Reach of the local shuffle, as a share of each side."""


def blur(inputs: Tensor, layout: Layout, *, sigma: float | None = None) -> Tensor:
    """Blur along the places of inputs by a Gaussian, mirrored at the borders; by default a tenth of the least side."""
    sigma = BLUR_SHARE * min(layout.grid(inputs)) if sigma is None else sigma
    for dim in layout.dims:
        size = inputs.shape[dim]
        radius = min(math.ceil(3 * sigma), size - 1)
        steps = torch.arange(-radius, radius + 1, device=inputs.device, dtype=inputs.dtype)
        weights = torch.exp(-0.5 * (steps / max(sigma, 1e-6)) ** 2)
        rows = inputs.movedim(dim, -1)
        padded = F.pad(rows.reshape(-1, 1, size), (radius, radius), mode="reflect")
        smooth = F.conv1d(padded, (weights / weights.sum())[None, None])
        inputs = smooth.reshape(rows.shape).movedim(-1, dim)
    return inputs


def _noise(inputs: Tensor, generator: Generator) -> Tensor:
    """Uniform noise that all inputs share, as they share their masks."""
    return uniform_noise((1, *inputs.shape[1:]), device=inputs.device, generator=generator).to(inputs.dtype)


def _uniform(inputs: Tensor, layout: Layout, generator: Generator) -> Tensor:
    """Uniform between the minimum and the maximum of each channel of the input."""
    low, high = inputs.amin(dim=layout.dims, keepdim=True), inputs.amax(dim=layout.dims, keepdim=True)
    return low + (high - low) * _noise(inputs, generator)


def _normal(inputs: Tensor, layout: Layout, generator: Generator) -> Tensor:
    """Normal with the mean and the standard deviation of each channel of the input."""
    std, mean = torch.std_mean(inputs, dim=layout.dims, keepdim=True, correction=0)
    # A uniform draw can be exactly 0: half a step of float32 keeps its normal quantile finite.
    normal = torch.special.ndtri(_noise(inputs, generator).float().clamp(min=2**-25))
    return mean + std * normal.to(inputs.dtype)


def _local_shuffle(inputs: Tensor, layout: Layout, generator: Generator) -> Tensor:
    """Each place takes what stands at a random place near it."""
    grid = layout.grid(inputs)
    positions = torch.meshgrid(*(torch.arange(size) for size in grid), indexing="ij")
    index: list[Tensor] = []
    for position, size in zip(positions, grid, strict=True):
        reach = max(1, round(NEIGHBOURHOOD * size))
        jump = uniform_noise(grid, generator=generator).mul(2 * reach + 1).floor().long() - reach
        index.append(sent((position + jump).clamp(0, size - 1), inputs.device))
    selection: list[slice | Tensor] = [slice(None)] * inputs.ndim
    for dim, values in zip(layout.dims, index, strict=True):
        selection[dim] = values
    return inputs[tuple(selection)]  # places are neighbouring dimensions, so they stay where they are


FIXED: dict[str, Callable[[Tensor, Layout], Tensor]] = {
    "blur": blur,
    "mean": lambda inputs, layout: inputs.mean(dim=layout.dims, keepdim=True).expand_as(inputs),
    "zeros": lambda inputs, layout: torch.zeros_like(inputs),
}
RANDOM: dict[str, Callable[[Tensor, Layout, Generator], Tensor]] = {
    "uniform": _uniform,
    "normal": _normal,
    "local_shuffle": _local_shuffle,
}


def make_infill(infill: Infill | None, inputs: Tensor, layout: Layout) -> Tensor | InfillCall:
    """Return what stands in for the inputs, or a callable of inputs and a generator that gives it."""
    if infill is None:
        infill = "blur" if layout.ordered else "zeros"
    if isinstance(infill, str):
        return _named(infill, inputs, layout)
    if callable(infill):
        return infill
    values = torch.as_tensor(infill, dtype=inputs.dtype, device=inputs.device)
    try:
        values = values.expand_as(inputs)
    except RuntimeError as error:
        raise ValueError(
            f"`infill` of shape {tuple(values.shape)} does not broadcast to `inputs` of shape {tuple(inputs.shape)}"
        ) from error
    if not values.isfinite().all():
        raise ValueError("`infill` must be finite, got NaN or infinity in it")
    return values


def draw_infill(infill: Tensor | InfillCall, inputs: Tensor, generator: Generator) -> Tensor:
    """Draw what stands in for inputs, of their shape; a callable that gives something else is refused."""
    if isinstance(infill, Tensor):
        return infill
    drawn = infill(inputs, generator)
    if not isinstance(drawn, Tensor) or drawn.shape != inputs.shape:
        raise ValueError(f"`infill` must return a tensor of the shape of its input, {tuple(inputs.shape)}")
    return drawn


def _named(name: str, inputs: Tensor, layout: Layout) -> Tensor | InfillCall:
    if name not in FIXED and name not in RANDOM:
        raise ValueError(f"`infill` must be one of {', '.join([*FIXED, *RANDOM])}, or a callable, got {name!r}")
    if not layout.ordered and name != "zeros":
        raise ValueError(
            f"`infill={name!r}` mixes the columns of a row, which mean different things; use 'zeros' for "
            "standardised columns, a tensor of column means, or a callable that draws rows of training data"
        )
    if name in FIXED:
        return FIXED[name](inputs, layout)
    return lambda rows, generator: RANDOM[name](rows, layout, generator)
