"""Piecewise-linear encoding: a number as how far it has come through each of its bins."""

import torch
from torch import Tensor, nn


class PiecewiseLinear(nn.Module):
    r"""Encode each input by its place in bins between quantiles, so that a network sees fine structure in it.

    A network of few units learns a function that changes quickly with one input only after many steps. Between the
    edges :math:`e_0 < \dots < e_T` of an input, bin t gives

    .. math:: \operatorname{clip}\!\Big(\frac{x - e_{t-1}}{e_t - e_{t-1}},\; 0,\; 1\Big)

    The input itself stands beside its bins, and goes on where these end. All are multiplied by
    :math:`\sqrt{(F + T) / 2 F}`: initial weights and priors that go by the number of inputs of a layer are then
    those of a layer that reads twice the inputs, and not the many bins.

    Args:
        num_inputs: ``F``.
        num_bins: Number of bins of all inputs together, ``T``; an input of two values needs none.

    Shape:
        Input: (..., F). Output: (..., F + T).

    References:
        Gorishniy, Rubachev & Babenko 2022, "On Embeddings for Numerical Features in Tabular Deep Learning" (NeurIPS
        2022, arXiv:2203.05556).
    """

    def __init__(self, num_inputs: int, num_bins: int) -> None:
        super().__init__()
        self.num_inputs, self.num_bins = num_inputs, num_bins
        self.register_buffer("column", torch.zeros(num_bins, dtype=torch.long))
        for name in ("left", "inverse_width"):
            self.register_buffer(name, torch.zeros(num_bins))

    column: Tensor
    left: Tensor
    inverse_width: Tensor

    @property
    def num_outputs(self) -> int:
        """Number of inputs and bins, F + T."""
        return self.num_inputs + self.num_bins

    @classmethod
    def fitted(cls, x: Tensor, bins_per_input: int) -> "PiecewiseLinear":
        """Put the edges at quantiles.

        Args:
            x: Rows to learn from, shape (N, F); a sample of at most 16 million.
            bins_per_input: Most bins of an input; one that has fewer values has an edge at each of them.

        Returns:
            The encoding.

        Raises:
            ValueError: If ``x`` has another shape or values that are not finite, or ``bins_per_input`` is not positive.

        Example:
            >>> encoding = PiecewiseLinear.fitted(torch.linspace(0, 1, 101).unsqueeze(1), 4)
            >>> encoding(torch.tensor([[0.4]])) / encoding.scale
            tensor([[0.4000, 1.0000, 0.6000, 0.0000, 0.0000]])
        """
        if x.ndim != 2 or bins_per_input < 1:
            raise ValueError(
                f"`x` must have shape (N, F) and `bins_per_input` be at least 1, got {tuple(x.shape)} and "
                f"{bins_per_input}"
            )
        if not x.isfinite().all():
            raise ValueError("`x` must hold finite numbers, whose quantiles are the edges; fill what is missing first")
        edges = [_edges(column, bins_per_input) for column in x.cpu().double().T]
        counts = torch.tensor([max(0, len(each) - 1) for each in edges])
        encoding = cls(x.shape[1], int(counts.sum()))
        encoding.column.copy_(torch.arange(x.shape[1]).repeat_interleave(counts))
        if encoding.num_bins:
            left = torch.cat([each[:-1] for each in edges])
            right = torch.cat([each[1:] for each in edges])
            encoding.left.copy_(left)
            encoding.inverse_width.copy_(1 / (right - left))
        return encoding

    def forward(self, x: Tensor) -> Tensor:
        """Encode."""
        bins = (x.index_select(-1, self.column) - self.left) * self.inverse_width
        return torch.cat([x, bins.clamp(0, 1)], dim=-1) * self.scale

    @property
    def scale(self) -> float:
        """What inputs and bins are multiplied by."""
        return (self.num_outputs / (2 * self.num_inputs)) ** 0.5

    def extra_repr(self) -> str:
        """Show the sizes."""
        return f"num_inputs={self.num_inputs}, num_bins={self.num_bins}"


def _edges(column: Tensor, most: int) -> Tensor:
    """Edges of the bins of one input; none where it has at most two values, and is linear as it is."""
    values = column.unique()
    if len(values) <= 2:
        return values[:0]
    if len(values) <= most + 1:
        return values
    levels = torch.linspace(0, 1, most + 1, dtype=column.dtype)
    return torch.quantile(column, levels).unique()
