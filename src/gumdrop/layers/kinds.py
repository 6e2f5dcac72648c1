"""What is known of each type of layer: a new type is one more row here."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeGuard

from torch import nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from gumdrop.layers.attention import attach_attention, attach_heads, attention_blocks
from gumdrop.layers.block import SITE, Block
from gumdrop.layers.dense import (
    attach_convolution,
    attach_dense,
    attach_embedding,
    convolution_blocks,
    dense_blocks,
    embedding_blocks,
    transposed_convolution_blocks,
)
from gumdrop.layers.recurrent import attach_cell, attach_recurrent, recurrent_blocks


class LayerKind(NamedTuple):
    """A family of layers that can have learned dropout."""

    types: tuple[type[nn.Module], ...]
    """An instance of one of them, or of a subclass, is of this kind."""
    attach: Callable[..., None]
    """Places the sites: takes the layer, what makes a site for a number of units, and as keywords `recurrent` and
    `own_input`, see `gumdrop.layers.attach`."""
    blocks: Callable[[str, Any], Iterator[Block]]
    """Gives the sites of a layer of some name with their weights."""
    num_inputs: str | None = None
    """Attribute that counts the units or channels of an input; None if it has none."""
    weight_input_dim: int | None = None
    """Dimension of the weight that holds the input units, where there is one weight."""
    is_on_request: bool = False
    """Whether such layers are converted on request only."""
    replaces_forward: bool = False
    """Whether the layer runs a forward of ours, with sites inside, which stands in for PyTorch's alone."""
    stands_for_parts: bool = False
    """Whether its submodules belong to it."""
    last_dimension_only: bool = False
    """Whether it works on the last dimension alone, whatever stands in front."""
    attach_own: Callable[..., None] | None = None
    """Places sites where the layer has dropout inside: takes the layer, and what makes a site; None if it has none."""

    def accepts(self, layer: nn.Module) -> bool:
        """Tell whether a layer of this kind can have sites: one whose forward is replaced must run PyTorch's."""
        own = (isinstance(layer, cls) and type(layer).forward is cls.forward for cls in self.types)
        return not self.replaces_forward or any(own)


DENSE = LayerKind(
    (nn.Linear,), attach_dense, dense_blocks, num_inputs="in_features", weight_input_dim=1, last_dimension_only=True
)
KINDS = (
    DENSE,
    LayerKind(
        (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, _ConvTransposeNd),
        attach_convolution,
        transposed_convolution_blocks,
        num_inputs="in_channels",
        weight_input_dim=0,
    ),
    LayerKind(
        (nn.Conv1d, nn.Conv2d, nn.Conv3d, _ConvNd),
        attach_convolution,
        convolution_blocks,
        num_inputs="in_channels",
        weight_input_dim=1,
    ),
    LayerKind((nn.Embedding,), attach_embedding, embedding_blocks, is_on_request=True),
    LayerKind(
        (nn.LSTM, nn.GRU, nn.RNN, nn.RNNBase),
        attach_recurrent,
        recurrent_blocks,
        num_inputs="input_size",
        replaces_forward=True,
    ),
    LayerKind(
        (nn.LSTMCell, nn.GRUCell, nn.RNNCell, nn.RNNCellBase),
        attach_cell,
        recurrent_blocks,
        num_inputs="input_size",
        replaces_forward=True,
    ),
    LayerKind(
        (nn.MultiheadAttention,),
        attach_attention,
        attention_blocks,
        replaces_forward=True,
        stands_for_parts=True,
        attach_own=attach_heads,
    ),
)
"""All kinds; the first that fits counts."""


def kind_of(layer: nn.Module) -> LayerKind | None:
    """Find the kind of a layer; None if it is of no known type."""
    for kind in KINDS:
        if isinstance(layer, kind.types):
            return kind
    return None


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
