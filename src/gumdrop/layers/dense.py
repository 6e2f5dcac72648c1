"""Learned dropout in front of dense and convolutional layers and any that take one tensor, and of words in embeddings.

An embedding is a linear map of one-hot vectors, so its input units are the word types: dropping one zeroes its row of
the table for a whole sequence, all occurrences of a word or none.

References:
    Gal & Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks"
    (NIPS 2016, arXiv:1512.05287), section 4.2.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from gumdrop.functional.devices import sent
from gumdrop.functional.masks import dropout_scale
from gumdrop.layers.block import SITE, Block, as_matrix
from gumdrop.layers.site import ConcreteDropout

WeightMatrix = Callable[[nn.Module], Tensor]
"""Gives a layer's weight as a matrix (rows, K): column k is what dropping input unit k zeroes."""


def drop_input(module: nn.Module, args: tuple[Any, ...], kwargs: Any = None) -> tuple[Any, Any] | None:
    """Forward pre-hook: pass the layer's input, positional or by keyword, through its site."""
    site = module._modules.get(SITE)  # at every call, and `get_submodule` takes ten times as long
    if site is None or kwargs is None:
        return None
    if args:
        return (site(args[0]), *args[1:]), kwargs
    name = next((name for name, value in kwargs.items() if isinstance(value, Tensor)), None)
    return None if name is None else (args, {**kwargs, name: site(kwargs[name])})


def put_in_front(layer: nn.Module, site: ConcreteDropout) -> None:
    """Place a site that the input of a layer, its first tensor, goes through."""
    layer.add_module(SITE, site)
    layer.register_forward_pre_hook(drop_input, with_kwargs=True)


def attach_dense(layer: nn.Linear, make_site: Callable[..., ConcreteDropout], **_: bool) -> None:
    """Place a site that drops units."""
    put_in_front(layer, make_site(layer.in_features))


def attach_convolution(layer: _ConvNd, make_site: Callable[..., ConcreteDropout], **_: bool) -> None:
    """Place a site that drops whole channels."""
    put_in_front(layer, make_site(layer.in_channels, feature_dim=-1 - len(layer.kernel_size)))


def attach_custom(layer: nn.Module, make_site: Callable[..., ConcreteDropout], weight_matrix: WeightMatrix) -> None:
    """Place a site on a layer of any type, with the units last, which remembers how to read the weight."""
    matrix = weight_matrix(layer)
    if matrix.ndim != 2:
        raise ValueError(
            f"`custom` must give the weight of {type(layer).__name__} as a matrix (rows, K), got shape "
            f"{tuple(matrix.shape)}"
        )
    site = make_site(matrix.shape[1])
    site.weight_matrix = weight_matrix
    put_in_front(layer, site)


def dense_blocks(name: str, layer: Any) -> Iterator[Block]:
    """Give the block of a layer with ``in_features`` and a weight (outputs, inputs)."""
    yield Block(name, layer.concrete_dropout, layer.weight, _biases(layer), as_matrix, layer.in_features)


def convolution_blocks(name: str, layer: Any) -> Iterator[Block]:
    """Give the block of a convolution."""
    columns = functools.partial(_convolution_columns, groups=layer.groups)
    yield Block(name, layer.concrete_dropout, layer.weight, _biases(layer), columns, _fan_in(layer))


def transposed_convolution_blocks(name: str, layer: Any) -> Iterator[Block]:
    """Give the block of a transposed convolution."""
    yield Block(name, layer.concrete_dropout, layer.weight, _biases(layer), _transposed_columns, _fan_in(layer))


def custom_blocks(name: str, layer: Any) -> Iterator[Block]:
    """Give the block of a layer whose site knows how to read its weight."""
    matrix = layer.concrete_dropout.weight_matrix(layer)
    yield Block(name, layer.concrete_dropout, matrix, _biases(layer), as_matrix, matrix.shape[1])


def _biases(layer: nn.Module) -> tuple[Tensor, ...]:
    bias = getattr(layer, "bias", None)
    return (bias,) if isinstance(bias, Tensor) else ()


def _fan_in(layer: Any) -> int:
    return layer.in_channels // layer.groups * layer.weight[0, 0].numel()


def _convolution_columns(weight: Tensor, groups: int) -> Tensor:
    """Turn (out, in / groups, *kernel) into (out / groups * kernel, in)."""
    grouped = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    return grouped.permute(1, 3, 0, 2).reshape(-1, groups * weight.shape[1])


def _transposed_columns(weight: Tensor) -> Tensor:
    """Turn (in, out / groups, *kernel) into (out / groups * kernel, in), whatever the groups."""
    return weight.flatten(1).T


def attach_embedding(layer: nn.Embedding, make_site: Callable[..., ConcreteDropout], **_: bool) -> None:
    """Place a site that drops word types."""
    site = make_site(layer.num_embeddings)
    site.joins_table = False  # masks of all word types are large
    layer.add_module(SITE, site)
    layer.register_forward_hook(drop_words, with_kwargs=True)


def embedding_blocks(name: str, layer: Any) -> Iterator[Block]:
    """Give the block of an embedding: each output reads one row of the table, since the others are times zero."""
    yield Block(name, layer.concrete_dropout, layer.weight, (), Tensor.t, 1)


def drop_words(module: nn.Module, args: tuple[Any, ...], kwargs: Any, output: Tensor | None = None) -> Tensor | None:
    """Forward hook: zero the embeddings of the word types that the site of an embedding drops."""
    site: Any = module._modules.get(SITE)
    if site is None or output is None or not site.is_active:
        return None
    indices = args[0] if args else kwargs["input"]
    return (output * _word_factor(site, indices, output).unsqueeze(-1)).to(output.dtype)


def _word_factor(site: ConcreteDropout, indices: Tensor, output: Tensor) -> Tensor:
    """Draw one factor for each word type of each sequence, and pick those of the words that are there."""
    has_rows = indices.ndim > site.batch_dim
    rows = indices.movedim(site.batch_dim, 0) if has_rows else indices.unsqueeze(0)
    words, count = rows.reshape(rows.shape[0], -1), rows.shape[0]
    if site.is_hard:
        every_word = output.new_empty(()).expand(*[1] * site.batch_dim, count, site.num_units)
        factor = site.factor(every_word).flatten(0, -2).expand(count, -1).gather(1, words)
    else:  # a relaxed mask costs much for each word type, so only for those that are there
        noise = sent(site.fresh_noise(count), indices.device).gather(1, words)
        p_logit = site.p_logit if site.scaled_logit.ndim == 0 else site.p_logit[words]
        factor = dropout_scale(p_logit, noise, temperature=site.temperature)
    factor = factor.view(rows.shape)
    return factor.movedim(0, site.batch_dim) if has_rows else factor.squeeze(0)
