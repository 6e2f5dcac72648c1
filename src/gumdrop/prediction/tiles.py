"""Predict pictures that do not fit into memory: tile by tile, with the same drawn functions in every tile."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.likelihoods import ClassificationPrediction
from gumdrop.prediction.predict import predict_classification


def predict_in_tiles(
    model: nn.Module,
    x: Tensor,
    *,
    tile: int,
    halo: int,
    num_samples: int = 100,
    seed: int = 0,
    output: Callable[[Any], Tensor] | None = None,
) -> ClassificationPrediction:
    """Predict the class of each pixel, one tile at a time; memory grows neither with the draws nor with the picture.

    Masks are drawn for channels and not for pixels, so one seed gives the same functions in all tiles and there are
    no seams between functions. Where the halo covers what the network sees around a pixel, the result is that of the
    whole picture.

    Args:
        model: A converted model that gives logits of shape (N, C, H, W) for pictures of that height and width.
        x: Pictures, shape (N, channels, H, W).
        tile: Height and width of the tiles, in pixels; a multiple of what the network scales down by.
        halo: Pixels around each tile that the network sees as well; a multiple of the same.
        num_samples: Number of draws.
        seed: Same seed, same prediction.
        output: Takes the logits out of what the model returns.

    Returns:
        Probabilities and entropies of all pixels.

    Raises:
        ValueError: If a number is out of range or ``x`` is not of four dimensions.
    """
    if x.ndim != 4:
        raise ValueError(f"`x` must hold pictures, shape (N, channels, H, W), got {tuple(x.shape)}")
    if tile < 1 or halo < 0:
        raise ValueError(f"`tile` must be at least 1 and `halo` at least 0, got {tile} and {halo}")
    height, width = x.shape[-2:]
    rows = []
    for top in range(0, height, tile):
        row = []
        for left in range(0, width, tile):
            first = max(0, top - halo), max(0, left - halo)
            last = min(height, top + tile + halo), min(width, left + tile + halo)
            part = x[..., first[0] : last[0], first[1] : last[1]]
            whole = predict_classification(model, part, num_samples=num_samples, seed=seed, output=output)
            inner = slice(top - first[0], top - first[0] + tile), slice(left - first[1], left - first[1] + tile)
            row.append((whole.log_probabilities[(..., *inner)], whole.expected_entropy[(..., *inner)]))
        rows.append(tuple(torch.cat(parts, dim=-1) for parts in zip(*row, strict=True)))
    log_probabilities, entropy = (torch.cat(parts, dim=-2) for parts in zip(*rows, strict=True))
    return ClassificationPrediction(log_probabilities, entropy)
