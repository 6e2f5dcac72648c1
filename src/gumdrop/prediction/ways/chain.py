"""A model that is a chain of known layers, and how it runs on many draws at once.

Every layer of a chain treats the rows of its input alike and apart from each other. So the rows of S draws may stand
in one batch, ordered by draw, and each layer is PyTorch's own, at its full speed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from gumdrop.layers import KINDS, SITE, ConcreteDropout, HomoscedasticNoise, PiecewiseLinear, is_own_hook
from gumdrop.layers.dense import drop_input
from gumdrop.prediction.twins import Restart, twin_of

__all__ = ["Chunk", "chain_of", "first_drop", "is_watched", "run_chain"]

ROWWISE: frozenset[type[nn.Module]] = frozenset(
    {
        *(cls for kind in KINDS if kind.keeps_rows_apart for cls in kind.types),
        *(nn.Identity, nn.Flatten, HomoscedasticNoise, PiecewiseLinear),
        *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm),
        *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d),
        *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
        *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish),
        *(nn.Tanh, nn.Sigmoid, nn.Softplus, nn.LogSigmoid, nn.Hardtanh, nn.Hardsigmoid, nn.Softsign),
        *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
    }
)
"""Layers that, in eval, give each row what they would give it alone."""


@dataclass
class Chunk:
    """A few draws that run as one program."""

    count: int
    """Number of draws, S."""
    scales: dict[int, Tensor | None]
    """What each site multiplies its units by, (S, K), by the site's identity; None where no draw changes anything."""
    all_kept: dict[int, float]
    """Probability that a draw keeps all units of a site, by the same."""
    budget: int
    """Bytes that an activation may have."""
    widest: int = 0
    """Bytes of the largest activation of one draw, as far as it was seen."""
    was_used: bool = False
    """Whether the model has called a site."""

    def see(self, activation: Tensor, draws: int = 1) -> None:
        """Take note of the size of an activation that holds this many draws."""
        self.widest = max(self.widest, activation.numel() * activation.element_size() // draws)


def is_watched(modules: Sequence[nn.Module]) -> bool:
    """Tell whether someone watches the forward, and would see several draws at once, or inputs without drops.

    Args:
        modules: All modules of a model.

    Returns:
        True if there is a hook on one of them, or on all modules, that is not the library's.
    """
    return bool(_global_forward_pre_hooks or _global_forward_hooks) or any(
        not (is_own_hook(hook) or isinstance(hook, Restart))
        for module in modules
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    )


def chain_of(model: nn.Module) -> list[nn.Module] | None:
    """List the layers of a model that is a chain.

    Args:
        model: Any model.

    Returns:
        The layers in order, each as it is in eval; None if the model is something else, or has hooks that would see
        several draws at once.
    """
    if "forward" in vars(model) or not all(map(is_own_hook, model._forward_hooks.values())):
        return None
    if type(model) is nn.Sequential and all(map(is_own_hook, model._forward_pre_hooks.values())):
        parts = [chain_of(child) for child in model]
        return None if None in parts else [layer for part in parts if part is not None for layer in part]
    if not (type(model) in ROWWISE and _keeps_rows_apart(model) and _has_known_hooks(model)):
        return None
    return [twin_of(model) if isinstance(model, _BatchNorm) else model]  # the others are the same in training


def _keeps_rows_apart(layer: nn.Module) -> bool:
    if isinstance(layer, _BatchNorm):
        return layer.running_mean is not None
    if isinstance(layer, nn.Flatten):
        return layer.start_dim > 0
    return not getattr(layer, "return_indices", False)


def _has_known_hooks(layer: nn.Module) -> bool:
    if not all(map(is_own_hook, layer._forward_pre_hooks.values())):
        return False
    site = layer._modules.get(SITE)
    if site is None:
        return True
    own = type(site) is ConcreteDropout and site.batch_dim == 0 and not (site._forward_hooks or site._forward_pre_hooks)
    return drop_input in layer._forward_pre_hooks.values() and own


def first_drop(chain: Sequence[nn.Module], chunk: Chunk) -> int:
    """Find where the draws part.

    Args:
        chain: Layers in order.
        chunk: The draws.

    Returns:
        Index of the first layer whose input some draw changes; the length of the chain if there is none.
    """
    sites = [layer._modules.get(SITE) for layer in chain]
    return next((i for i, s in enumerate(sites) if s is not None and chunk.scales[id(s)] is not None), len(chain))


def run_chain(chain: Sequence[nn.Module], x: Tensor, chunk: Chunk) -> Tensor:
    """Run a chain, or a part of it, on the draws of a chunk.

    Args:
        chain: Layers in order.
        x: Input, shape (N, ...), the same for all draws.
        chunk: The draws.

    Returns:
        Shape (S, N, ...), or (1, N, ...) where all draws are the same.
    """
    rows, given = len(x), x.untyped_storage().data_ptr()
    for layer in chain:
        # What is not a view of the input was made here, and may change in place.
        ours = x.untyped_storage().data_ptr() != given
        site = layer._modules.get(SITE)
        scale = None if site is None else chunk.scales[id(site)]
        chunk.was_used |= site is not None
        if scale is not None:
            assert isinstance(site, ConcreteDropout)
            x = _dropped(site, x.unflatten(0, (-1, rows)), scale, in_place=ours).flatten(0, 1)
        x = torch.relu_(x) if ours and type(layer) is nn.ReLU else type(layer).forward(layer, x)
        chunk.see(x, len(x) // rows)
    return x.unflatten(0, (-1, rows))


def _dropped(site: ConcreteDropout, x: Tensor, scale: Tensor, *, in_place: bool) -> Tensor:
    """Multiply the units of x, (S or 1, N, ...), by the factors of each draw, (S, K)."""
    scale = scale.view(len(scale), *site.factor_shape(x.shape, leading=2)[1:])
    if in_place and len(x) == len(scale) and torch.result_type(x, scale) == x.dtype:
        return x.mul_(scale)
    return (x * scale).to(x.dtype)
