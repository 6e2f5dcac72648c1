r"""Distance of a row from those that a network knows, by what its layers read.

One Gaussian stands for the features of the rows that are known: what every layer reads, averaged over positions, as it
is and as a direction, each scaled to a total variance of 1. The direction tells rows whose columns do not belong
together, the rest tells those that are far out. Its covariance S is shrunken to a multiple of the identity,

.. math:: C = (1 - a) S + a \tfrac{\operatorname{tr} S}{D} I

with the a of Ledoit & Wolf. Each known row is compared with the Gaussian of the others, in closed form.

References:
    Lee et al. 2018, "A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks"
    (NeurIPS, arXiv:1807.03888), for a Gaussian of the features of several layers.
    Ledoit & Wolf 2004, "A well-conditioned estimator for large-dimensional covariance matrices" (Journal of
    Multivariate Analysis 88).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gumdrop.functional.devices import sent
from gumdrop.layers import SITE
from gumdrop.layers.kinds import kind_of
from gumdrop.prediction.inputs import Arguments, Inputs, arguments
from gumdrop.prediction.twins import twin_of

CONSTANT = 1e-5
"""Spread of features, in units of their mean, that is rounding."""


@dataclass(frozen=True, eq=False)
class FeatureDistance:
    """What a network's layers read of rows that it knows, as one Gaussian, and how far each of these is from the rest.

    It belongs to the weights that it was fitted to. `gumdrop.predict` looks for it in the attribute
    ``feature_distance`` of a model.
    """

    layers: tuple[str, ...]
    """Names of the layers whose inputs are the features."""
    centre: Tensor
    """Mean of the features, shape (D,)."""
    scale: Tensor
    """What they are divided by, shape (D,)."""
    axes: Tensor
    """Principal axes of the scaled features, shape (D, R)."""
    precision: Tensor
    """Inverse of the variance along each, shape (R,)."""
    rest: float
    """The same across all of them."""
    reference: Tensor
    """Distance of each known row from the others, ascending, shape (n,)."""

    @classmethod
    def of(cls, features: Mapping[str, Tensor]) -> "FeatureDistance":
        """Fit it to the features of at least 2 rows that are known, (n, K) of each layer."""
        parts = [block for each in features.values() for block in _blocks(each.double().cpu())]
        centre = torch.cat([part.mean(0) for part in parts])
        spread = [_spread(part) for part in parts]
        scale = torch.cat([each.expand(part.shape[1]) for each, part in zip(spread, parts, strict=True)])
        z = (torch.cat(parts, dim=1) - centre) / scale
        count, (values, vectors) = len(z), torch.linalg.eigh(z @ z.T)
        chosen = values > 1e-10 * values[-1]
        squares, known = values[chosen], vectors[:, chosen]
        shrinkage = _shrinkage(z, squares)
        weight = (1 - shrinkage) / count
        ridge = shrinkage * squares.sum().clamp(min=1e-12) / count / z.shape[1]
        precision = 1 / (weight * squares + ridge)
        # The scatter without a row is that of all, less a matrix of rank 1, so Sherman-Morrison has its inverse.
        own, more = (known.square() * squares * precision).sum(1), count / (count - 1)
        without = more**2 * own / (1 - more * weight * own)
        axes = z.T @ known / squares.sqrt()
        centre, scale, axes, precision = (part.float() for part in (centre, scale, axes, precision))
        return cls(tuple(features), centre, scale, axes, precision, 1 / float(ridge), without.float().sort().values)

    def distances(self, features: Mapping[str, Tensor]) -> Tensor:
        """Squared Mahalanobis distance of rows, (N,); that of rows with features that are not finite is infinite."""
        blocks = torch.cat([block for name in self.layers for block in _blocks(features[name].float())], dim=1)
        centre, scale, axes, precision = (
            sent(part, blocks.device) for part in (self.centre, self.scale, self.axes, self.precision)
        )
        z = (blocks - centre) / scale
        along = (z @ axes).square()
        across = (z.square().sum(1) - along.sum(1)).clamp(min=0)
        return (along @ precision + self.rest * across).nan_to_num(nan=torch.inf, posinf=torch.inf)

    def scores(self, model: nn.Module, x: Inputs | Arguments, batch_size: int | None = None) -> Tensor:
        """Give the distance of rows.

        Args:
            model: The model that it was fitted to.
            x: Its input, as for `gumdrop.sample`.
            batch_size: Rows that run at once; all if None.

        Returns:
            Squared Mahalanobis distance, shape (N,): large for rows that are unlike the known ones.
        """
        rows = x if isinstance(x, Arguments) else arguments(x)
        return self.distances(features_of(model, rows, batch_size, self.layers))

    def p_values(self, model: nn.Module, x: Inputs | Arguments, batch_size: int | None = None) -> Tensor:
        """Say how likely a distance as large is among rows like the known ones, see `outlier_p_values`.

        Args:
            model: As for `scores`, like the rest.
            x: Its input.
            batch_size: Rows that run at once.

        Returns:
            Shape (N,), in (0, 1].
        """
        distance = self.scores(model, x, batch_size)
        reference = sent(self.reference, distance.device)
        count = len(reference)
        return (1 + count - torch.searchsorted(reference, distance)).to(distance) / (count + 1)


@torch.no_grad()
def features_of(
    model: nn.Module, x: Arguments, batch_size: int | None = None, names: Collection[str] | None = None
) -> dict[str, Tensor]:
    """Give what layers read, without dropout, averaged over positions, (N, K); only of layers that read each row once.

    Args:
        model: A model.
        x: Its arguments.
        batch_size: Rows that run at once.
        names: Layers that are wanted; all dense, convolutional and recurrent ones if None.

    Returns:
        The features by the names of the layers.
    """
    twin, seen = twin_of(model), dict[str, list[Tensor]]()
    size, rows = batch_size or len(x), 0

    def keep(name: str, layer: nn.Module, args: tuple[object, ...]) -> None:
        if args and isinstance(args[0], Tensor) and args[0].is_floating_point():
            features = _averaged(layer, args[0], rows)
            if features is not None:
                seen.setdefault(name, []).append(features)

    for name, layer in twin.named_modules():
        kind = kind_of(layer)
        if kind is not None and kind.num_inputs is not None and (names is None or name in names):
            layer.register_forward_pre_hook(lambda layer, args, name=name: keep(name, layer, args))
    starts = range(0, len(x), size)
    for start in starts:
        part = x[start : start + size]
        rows = len(part)
        part.call(twin)
    return {name: torch.cat(parts) for name, parts in seen.items() if len(parts) == len(starts)}


def _averaged(layer: nn.Module, x: Tensor, rows: int) -> Tensor | None:
    """Average what a layer reads over positions, (N, K); None if it has not as many rows as the model."""
    site = layer._modules.get(SITE)
    rows_dim = getattr(site, "batch_dim", 0) if getattr(layer, "batch_first", True) else 1
    if x.ndim < 2 or x.ndim <= rows_dim or x.shape[rows_dim] != rows:
        return None
    x = x.movedim(rows_dim, 0)
    if isinstance(layer, nn.modules.conv._ConvNd):
        x = x.movedim(1, -1)
    return x if x.ndim == 2 else x.flatten(1, -2).mean(1)


def _blocks(features: Tensor) -> tuple[Tensor, Tensor]:
    """Features as they are, and their direction."""
    return features, features / torch.linalg.vector_norm(features, dim=1, keepdim=True).clamp(min=1e-12)


def _spread(block: Tensor) -> Tensor:
    """Root of the total variance; 1 where all rows are alike."""
    centre = block.mean(0)
    spread = (block - centre).square().sum(1).mean().sqrt()
    return spread if spread > CONSTANT * torch.linalg.vector_norm(centre) else torch.ones_like(spread)


def _shrinkage(z: Tensor, squares: Tensor) -> Tensor:
    """Weight of the identity, in (0, 1), by Ledoit & Wolf, from centred rows and the eigenvalues of their products."""
    count, size = z.shape
    norm = squares.square().sum() / count**2
    variance = norm - (squares.sum() / count).square() / size
    error = (z.square().sum(1).square().sum() / count - norm) / count
    return (error / variance.clamp(min=1e-12)).clamp(1e-6, 1 - 1e-6)
