"""Learned dropout of word types in front of an embedding: all occurrences of a word in a sequence, or none.

An embedding is a linear map of one-hot vectors, so its input units are the word types: dropping one zeroes its row
of the table, for the whole sequence.

References:
    Gal & Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks"
    (NIPS 2016, arXiv:1512.05287), section 4.2.
"""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from gumdrop.functional.masks import dropout_scale
from gumdrop.layers.block import SITE, Block
from gumdrop.layers.site import ConcreteDropout


def attach_embedding(layer: nn.Embedding, make_site: Callable[..., ConcreteDropout], **_: bool) -> None:
    """Place a site that drops word types."""
    layer.add_module(SITE, make_site(layer.num_embeddings))
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
        noise = site.fresh_noise(count, indices.device).gather(1, words)
        p_logit = site.p_logit if site.scaled_logit.ndim == 0 else site.p_logit[words]
        factor = dropout_scale(p_logit, noise, temperature=site.temperature)
    factor = factor.view(rows.shape)
    return factor.movedim(0, site.batch_dim) if has_rows else factor.squeeze(0)
