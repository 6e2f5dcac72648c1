"""Place sites in front of layers, and find them again together with the weights that they drop.

A layer stays what it was: its class, its attributes, its weights and their names in the state dict. It gains a
child module ``concrete_dropout``, and a forward pre-hook (or, for recurrent and attention modules, a forward of
the instance) that looks the child up on the module it is called with, so that copies, pickles and functional
calls use their own.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from gumdrop.functional.fused_kl import LARGEST_LEARNED, senseless
from gumdrop.functional.fused_masks import is_traced
from gumdrop.layers.attention import attention_forward, attention_sites
from gumdrop.layers.block import Block
from gumdrop.layers.embedding import drop_words
from gumdrop.layers.passes import begin_pass, end_pass
from gumdrop.layers.recurrent import directions, recurrent_forward, recurrent_sites
from gumdrop.layers.site import UNIT, ConcreteDropout

SITE = "concrete_dropout"

WeightMatrix = Callable[[nn.Module], Tensor]
"""Gives a layer's weight as a matrix (rows, K): column k is what dropping input unit k zeroes."""


def drop_input(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """Forward pre-hook: pass the layer's input, positional or by keyword, through its site.

    Args:
        module: The layer.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Returns:
        The arguments to call it with, or None to leave them.
    """
    site = module.get_submodule(SITE)
    if args:
        return (site(args[0]), *args[1:]), kwargs
    name = next((name for name, value in kwargs.items() if isinstance(value, Tensor)), None)
    return None if name is None else (args, {**kwargs, name: site(kwargs[name])})


def is_own_hook(hook: Any) -> bool:
    """Tell whether a forward hook or pre-hook is one of those that conversion puts on a model.

    Args:
        hook: Any hook.

    Returns:
        False for hooks of others, who watch the forward or change it.
    """
    return hook in (drop_input, drop_words, begin_pass, end_pass)


def attach(
    layer: nn.Module,
    make_site: Callable[..., ConcreteDropout],
    *,
    recurrent: bool = False,
    own_input: bool = True,
    weight_matrix: WeightMatrix | None = None,
) -> None:
    """Place sites on a layer.

    Args:
        layer: A layer of a known type, or of any type together with ``weight_matrix``.
        make_site: Makes a site for ``num_units``; takes ``feature_dim`` as a keyword.
        recurrent: Also drop the hidden state of a recurrent module.
        own_input: Drop the input of a recurrent module, and not only what its further layers read.
        weight_matrix: For a layer of a type that is not known here.

    Raises:
        ValueError: If ``weight_matrix`` does not give a matrix.
    """
    if weight_matrix is not None:
        matrix = weight_matrix(layer)
        if matrix.ndim != 2:
            raise ValueError(
                f"`custom` must give the weight of {type(layer).__name__} as a matrix (rows, K), got shape "
                f"{tuple(matrix.shape)}"
            )
        site = make_site(matrix.shape[1])
        site.weight_matrix = weight_matrix
        _attach_hook(layer, site)
    elif isinstance(layer, nn.RNNBase):
        layer.add_module(SITE, recurrent_sites(layer, make_site, recurrent=recurrent, own_input=own_input))
        _set_forward(layer, recurrent_forward)
    elif isinstance(layer, nn.MultiheadAttention):
        layer.add_module(SITE, attention_sites(layer, make_site))
        _set_forward(layer, attention_forward)
    elif isinstance(layer, nn.Embedding):
        layer.add_module(SITE, make_site(layer.num_embeddings))
        layer.register_forward_hook(drop_words, with_kwargs=True)
    elif isinstance(layer, _ConvNd):
        _attach_hook(layer, make_site(layer.in_channels, feature_dim=-1 - len(layer.kernel_size)))
    else:
        assert isinstance(layer, nn.Linear)
        _attach_hook(layer, make_site(layer.in_features))
    layer.get_submodule(SITE).train(layer.training)


def _set_forward(layer: nn.Module, forward: Callable[..., Any]) -> None:
    vars(layer)["forward"] = functools.partial(forward, layer)


def _attach_hook(layer: nn.Module, site: ConcreteDropout) -> None:
    layer.add_module(SITE, site)
    layer.register_forward_pre_hook(drop_input, with_kwargs=True)


def dropout_blocks(model: nn.Module) -> Iterator[Block]:
    """Walk over all sites of a model with the weights that they drop; a shared module comes once.

    Args:
        model: Any model.

    Yields:
        One block for each site and module.
    """
    for name, layer in model.named_modules():
        holder = layer._modules.get(SITE)
        if holder is None:
            continue
        if isinstance(layer, nn.RNNBase):
            yield from _recurrent_blocks(name, layer, holder)
        elif isinstance(layer, nn.MultiheadAttention):
            yield from _attention_blocks(name, layer, holder)
        else:
            yield _layer_block(name, layer, holder)


def share_sites(model: nn.Module) -> None:
    """Let the blocks of one weight have one site: one weight has one posterior, so one rate.

    Args:
        model: A model with sites.
    """
    first: dict[tuple[int, ...], ConcreteDropout] = {}
    shared: dict[int, ConcreteDropout] = {}
    blocks = list(dropout_blocks(model))  # keeps computed weights alive, so that no two have one id
    for _, site, weight, *_ in blocks:
        is_view = weight._base is not None
        part = (id(weight._base), weight.storage_offset(), weight.numel()) if is_view else (id(weight),)
        shared[id(site)] = first.setdefault((*part, site.num_units, site.feature_dim), site)
    for module in list(model.modules()):
        for name, child in module._modules.items():
            module._modules[name] = shared.get(id(child), child)


def check_rates(sites: Iterable[ConcreteDropout], model: nn.Module) -> None:
    """Refuse rates that cannot have been learned; what is traced or has no memory passes.

    Args:
        sites: Sites of a model.
        model: The model, which knows their names.

    Raises:
        ValueError: If a logit is not a number, or senselessly large.
    """
    if is_traced():
        return
    for site in sites:
        scaled = site.scaled_logit
        if not scaled.is_meta:
            # A norm is one operation, whatever the shape, and NaN if one of them is.
            largest = scaled.item() if scaled.ndim == 0 else torch.linalg.vector_norm(scaled.detach(), math.inf).item()
            number = UNIT * largest
            if not abs(number) <= LARGEST_LEARNED:
                name = next(name for name, module in model.named_modules() if module is site)
                raise ValueError(senseless(number, name.replace(f".{SITE}", "").removeprefix(SITE).removeprefix(".")))


def _layer_block(name: str, layer: Any, site: Any) -> Block:
    biases = (layer.bias,) if isinstance(getattr(layer, "bias", None), Tensor) else ()
    if site.weight_matrix is not None:
        matrix = site.weight_matrix(layer)
        return Block(name, site, matrix, biases, _as_matrix, matrix.shape[1])
    weight = layer.weight
    if isinstance(layer, nn.Embedding):
        return Block(name, site, weight, (), _transposed, 1)  # each output reads one row: the others are times zero
    if not isinstance(layer, _ConvNd):
        return Block(name, site, weight, biases, _as_matrix, layer.in_features)
    fan_in = layer.in_channels // layer.groups * weight[0, 0].numel()
    columns = _transposed_columns if isinstance(layer, _ConvTransposeNd) else _conv_columns
    return Block(name, site, weight, biases, functools.partial(columns, groups=layer.groups), fan_in)


def _recurrent_blocks(name: str, layer: nn.RNNBase, sites: Any) -> Iterator[Block]:
    for suffix in directions(layer):
        for part in ("ih", "hh"):
            if f"{part}_{suffix}" in sites:
                weight = getattr(layer, f"weight_{part}_{suffix}")
                biases = (getattr(layer, f"bias_{part}_{suffix}"),) if layer.bias else ()
                site = sites[f"{part}_{suffix}"]
                yield Block(_join(name, f"{part}_{suffix}"), site, weight, biases, _as_matrix, weight.shape[1])


def _attention_blocks(name: str, layer: nn.MultiheadAttention, sites: Any) -> Iterator[Block]:
    bias: Tensor | None
    for part, site in sites.items():
        if part == "out_proj":
            weight, bias = layer.out_proj.weight, layer.out_proj.bias
        else:
            weight = getattr(layer, f"{part}_weight")
            # Three separate projections share one bias tensor, which counts with the first of them.
            bias = layer.in_proj_bias if part in ("in_proj", "q_proj") else None
        yield Block(_join(name, part), site, weight, () if bias is None else (bias,), _as_matrix, weight.shape[1])


def _join(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part


def _as_matrix(weight: Tensor) -> Tensor:
    return weight


def _transposed(weight: Tensor) -> Tensor:
    return weight.T


def _conv_columns(weight: Tensor, groups: int) -> Tensor:
    """Turn (out, in / groups, *kernel) into (out / groups * kernel, in)."""
    grouped = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    return grouped.permute(1, 3, 0, 2).reshape(-1, groups * weight.shape[1])


def _transposed_columns(weight: Tensor, groups: int) -> Tensor:
    """Turn (in, out / groups, *kernel) into (out / groups * kernel, in), whatever the groups."""
    return weight.flatten(1).T


def ordinary_rnn_or_attention(module: nn.Module) -> bool:
    """Tell whether a recurrent or attention module runs PyTorch's own forward, which ours can stand in for.

    Args:
        module: Any module.

    Returns:
        True for exactly the classes of PyTorch and subclasses that do not override ``forward``.
    """
    known: tuple[Any, ...] = (nn.LSTM, nn.GRU, nn.RNN, nn.MultiheadAttention)
    return any(isinstance(module, cls) and type(module).forward is cls.forward for cls in known)


__all__ = [
    "SITE",
    "Block",
    "WeightMatrix",
    "attach",
    "check_rates",
    "dropout_blocks",
    "is_own_hook",
    "ordinary_rnn_or_attention",
    "share_sites",
]
