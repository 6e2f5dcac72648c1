"""Dropout that modules of PyTorch apply inside themselves, in code that cannot be given masks."""

from typing import TypeGuard

from torch import nn

from gumdrop.layers.block import SITE


def inner_dropout(module: nn.Module) -> str | None:
    """Say what a module drops by a rate of its own, in code that cannot be given masks."""
    if isinstance(module, (nn.AlphaDropout, nn.FeatureAlphaDropout)):
        return "of its input" if module.p > 0 else None
    if isinstance(module, nn.MultiheadAttention):
        return "of attention weights" if module.dropout > 0 else None
    return "between layers" if drops_between_layers(module) and module.dropout > 0 else None


def drops_between_layers(module: nn.Module) -> TypeGuard[nn.RNNBase]:
    """Tell whether a module is a recurrent one with a place for plain dropout: it has layers, and no sites there."""
    return isinstance(module, nn.RNNBase) and module.num_layers > 1 and SITE not in module._modules
