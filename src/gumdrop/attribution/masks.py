"""Keep-masks over inputs: which dimensions share a value, coarse grids, total variation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

LayoutName = Literal["image", "signal", "tokens", "tabular"]


@dataclass(frozen=True)
class Layout:
    """What the dimensions of an input mean.

    A mask has one value for each cell of a grid over the input's places; what is at one place (channels, the
    components of an embedding) shares it.
    """

    name: LayoutName
    shape: str
    """The dimensions of an input, for messages."""
    dims: tuple[int, ...]
    """The dimensions that a mask has values for; the others, save rows, share them."""
    ordered: bool = True
    """Whether places have neighbours, so that masks can be coarse, smooth and boxed."""

    @property
    def ndim(self) -> int:
        """Number of dimensions of an input, rows included."""
        return self.shape.count(",") + 1

    @property
    def shared(self) -> list[int]:
        """The dimensions of what is at one place."""
        return [dim for dim in range(1, self.ndim) if dim not in self.dims]

    def grid(self, inputs: Tensor) -> tuple[int, ...]:
        """Number of places along each dimension of a mask."""
        return tuple(inputs.shape[dim] for dim in self.dims)

    def spread(self, masks: Tensor, grid: Sequence[int]) -> Tensor:
        """Up-sample masks, ``(R, *cells)``, to the places of a grid, in a shape that broadcasts with the input."""
        if tuple(masks.shape[1:]) != tuple(grid):
            mode = "bilinear" if len(grid) == 2 else "linear"
            masks = F.interpolate(masks[:, None], size=tuple(grid), mode=mode, align_corners=False)[:, 0]
        for dim in self.shared:
            masks = masks.unsqueeze(dim)
        return masks

    def gather(self, masks: Tensor) -> Tensor:
        """Take away the dimensions that share a mask, by their mean: the inverse of `spread` without up-sampling."""
        return masks.mean(dim=self.shared) if self.shared else masks


_ALL = (
    Layout("image", "(N, C, H, W)", (2, 3)),
    Layout("signal", "(N, C, L)", (2,)),
    Layout("tokens", "(N, T, E)", (1,)),
    Layout("tabular", "(N, D)", (1,), ordered=False),
)
LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in _ALL}


def find_layout(inputs: Tensor, name: LayoutName | None) -> Layout:
    """Return the layout of inputs, by name or else by the number of dimensions: 4 are images, 3 a signal, 2 a table.

    Raises:
        ValueError: If there is no such layout, or ``inputs`` does not have its dimensions.

    Example:
        >>> import torch
        >>> find_layout(torch.zeros(2, 1, 8, 8), None).name, find_layout(torch.zeros(2, 8), None).name
        ('image', 'tabular')
    """
    if name is None:
        name = {4: "image", 3: "signal", 2: "tabular"}.get(inputs.ndim)  # type: ignore[assignment]
    if name not in (None, *LAYOUTS):
        raise ValueError(f"`layout` must be one of {', '.join(LAYOUTS)}, got {name!r}")
    if name is None or inputs.ndim != LAYOUTS[name].ndim:
        wanted = LAYOUTS.values() if name is None else [LAYOUTS[name]]
        shapes = ", ".join(f"{layout.shape} for `layout='{layout.name}'`" for layout in wanted)
        raise ValueError(
            f"`inputs` must have the shape {shapes}, got {tuple(inputs.shape)}; one example alone needs `inputs[None]`"
        )
    return LAYOUTS[name]


def total_variation(masks: Tensor) -> Tensor:
    r"""Return the anisotropic total variation of masks, :math:`\sum_i |m_{i+1} - m_i|` along each dimension, (R,).

    Example:
        >>> import torch
        >>> total_variation(torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.5, 0.5]]))
        tensor([2., 0.])
    """
    steps = [masks.diff(dim=dim).abs().flatten(1).sum(1) for dim in range(1, masks.ndim)]
    return sum(steps[1:], start=steps[0])
