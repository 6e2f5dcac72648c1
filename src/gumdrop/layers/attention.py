"""Learned dropout inside MultiheadAttention, whose projections are called as functions and not as modules.

PyTorch's function goes from the inputs to the output in one call and leaves no place for the site in front of the
output projection, so the forward with sites is written out here.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop.layers.block import SITE, Block, as_matrix, joined, without_weight
from gumdrop.layers.site import ConcreteDropout


def attach_attention(module: nn.MultiheadAttention, make_site: Callable[..., ConcreteDropout], **_: bool) -> None:
    """Place sites in front of the input projections, one where they share a matrix, and of the output projection."""
    if module._qkv_same_embed_dim:
        sizes = {"in_proj": module.embed_dim}
    else:
        sizes = {"q_proj": module.embed_dim, "k_proj": module.kdim, "v_proj": module.vdim}
    sizes["out_proj"] = module.embed_dim
    module.add_module(SITE, nn.ModuleDict({name: make_site(size) for name, size in sizes.items()}))
    vars(module)["forward"] = functools.partial(attention_forward, module)


def attach_heads(module: nn.MultiheadAttention, make_site: Callable[..., ConcreteDropout]) -> None:
    """Place a site ``dropout`` where the module drops attention weights: it drops whole heads of an example."""
    if SITE not in module._modules:
        module.add_module(SITE, nn.ModuleDict())
        vars(module)["forward"] = functools.partial(attention_forward, module)
    holder: Any = module.get_submodule(SITE)
    holder["dropout"] = site = make_site(-3, batch_dim=0).train(module.training)
    site.use.units = module.num_heads  # without an active site PyTorch's own forward runs, which does not reach it
    module.dropout = 0.0


def attention_blocks(name: str, module: Any) -> Iterator[Block]:
    """Give the blocks of an attention module, one for each site."""
    bias: Tensor | None
    for part, site in module.concrete_dropout.items():
        if part == "dropout":
            yield without_weight(joined(name, part), site)
            continue
        if part == "out_proj":
            weight, bias = module.out_proj.weight, module.out_proj.bias
        else:
            weight = getattr(module, f"{part}_weight")
            # Three separate projections share one bias tensor, which counts with the first of them.
            bias = module.in_proj_bias if part in ("in_proj", "q_proj") else None
        yield Block(joined(name, part), site, weight, () if bias is None else (bias,), as_matrix, weight.shape[1])


def _check_inputs(module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuse what would broadcast: examples or units that are 1 where the query or the weights have more."""
    batch_dim = 0 if module.batch_first else 1
    rows = query.shape[batch_dim]
    inputs = (("query", query, module.embed_dim), ("key", key, module.kdim), ("value", value, module.vdim))
    for name, x, units in inputs:
        if x.ndim != 3 or x.shape[batch_dim] != rows or x.shape[-1] != units:
            raise ValueError(
                f"`{name}` must have {units} units at its last dimension and as many examples as `query`, {rows}, at "
                f"dimension {batch_dim}, got shape {tuple(x.shape)}"
            )


def _drop_inputs(sites: Any, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if "q_proj" in sites:
        return sites["q_proj"](query), sites["k_proj"](key), sites["v_proj"](value)
    site = sites._modules.get("in_proj")
    if site is None or not site.is_active:
        return query, key, value
    factor = site.factor(query)
    return _map_inputs(lambda x: (x * factor).to(x.dtype), query, key, value)


def _map_inputs(
    function: Callable[[Tensor], Tensor], query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Apply a function to each input; inputs that are one tensor stay one, so that they are projected at once."""
    mapped = {id(x): function(x) for x in (query, key, value)}
    return mapped[id(query)], mapped[id(key)], mapped[id(value)]


def _project_inputs(module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor) -> Iterable[Tensor]:
    if query is key and key is value:
        return F.linear(query, module.in_proj_weight, module.in_proj_bias).chunk(3, -1)
    weights: Iterable[Tensor] = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    if module._qkv_same_embed_dim:
        weights = module.in_proj_weight.chunk(3)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    return map(F.linear, (query, key, value), weights, biases)


def _heads(module: nn.MultiheadAttention, x: Tensor) -> Tensor:
    """Split the units: (L, N, E), or (N, L, E) with the batch first, becomes (N, heads, L, E / heads)."""
    return x.unflatten(-1, (module.num_heads, -1)).movedim((0 if module.batch_first else 1, -2), (0, 1))


def _merged(module: nn.MultiheadAttention, attended: Tensor) -> Tensor:
    """Put the heads together again, and project them; the opposite of `_heads`."""
    sites: Any = module.concrete_dropout
    if "dropout" in sites:
        attended = sites["dropout"](attended)
    attended = attended.movedim((0, 1), (0 if module.batch_first else 1, -2)).flatten(-2)
    if "out_proj" in sites:
        attended = sites["out_proj"](attended)
    return F.linear(attended, module.out_proj.weight, module.out_proj.bias)


def _with_extra_keys(module: nn.MultiheadAttention, x: Tensor, bias: Tensor | None) -> Tensor:
    """Append what ``add_bias_kv`` and ``add_zero_attn`` ask for to the heads of the keys, or of the values."""
    if bias is not None:
        x = torch.cat([x, _heads(module, bias).expand(len(x), -1, -1, -1)], 2)
    return F.pad(x, (0, 0, 0, 1)) if module.add_zero_attn else x


def _term(name: str, mask: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Check a mask and turn it into numbers, which are added to the scores."""
    if mask.shape != shape or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise ValueError(
            f"`{name}` must be boolean or floating, of shape {shape}, got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, -torch.inf)
    return mask.to(dtype)


def _merged_mask(q: Tensor, k: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None) -> Tensor | None:
    """Add the masks up, so that they broadcast to the scores of the heads: (N, heads, L, S)."""
    rows, heads, length, _ = q.shape
    keys = k.shape[2]
    terms: list[Tensor] = []
    if attn_mask is not None and attn_mask.ndim == 3:
        term = _term("attn_mask", attn_mask, (rows * heads, length, keys), q.dtype)
        terms.append(term.view(rows, heads, length, keys))
    elif attn_mask is not None:
        terms.append(_term("attn_mask", attn_mask, (length, keys), q.dtype))
    if key_padding_mask is not None:
        terms.append(_term("key_padding_mask", key_padding_mask, (rows, keys), q.dtype)[:, None, None])
    return sum(terms[1:], start=terms[0]) if terms else None


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, causal: bool, dropout: float, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """Mix the values of each head; PyTorch's fused kernel keeps no weights."""
    if not need_weights:
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal), None
    scores = q / math.sqrt(q.shape[-1]) @ k.mT
    weights = F.dropout(torch.softmax(scores if mask is None else scores + mask, -1), dropout)
    return weights @ v, weights


def attention_forward(
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Run an attention module with its sites; without an active one, exactly as PyTorch does."""
    options = (need_weights, attn_mask, average_attn_weights, is_causal)
    sites: Any = module.concrete_dropout
    if not any(site.is_active for site in sites.values()):
        return type(module).forward(module, query, key, value, key_padding_mask, *options)
    if query.dim() == 2:  # no batch: one example of its own
        batch_dim = 0 if module.batch_first else 1
        query, key, value = _map_inputs(lambda x: x.unsqueeze(batch_dim), query, key, value)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        output, weights = attention_forward(module, query, key, value, key_padding_mask, *options)
        return output.squeeze(batch_dim), None if weights is None else weights.squeeze(0)
    _check_inputs(module, query, key, value)
    if is_causal and attn_mask is None:
        raise ValueError("`attn_mask` must hold the mask that `is_causal` is a hint about, got None")
    q, k, v = (_heads(module, x) for x in _project_inputs(module, *_drop_inputs(sites, query, key, value)))
    causal = is_causal and key_padding_mask is None and not need_weights  # then the kernel needs no mask
    mask = _merged_mask(q, k, None if causal else attn_mask, key_padding_mask)
    k, v = _with_extra_keys(module, k, module.bias_k), _with_extra_keys(module, v, module.bias_v)
    mask = None if mask is None else F.pad(mask, (0, (module.bias_k is not None) + module.add_zero_attn))
    dropout = module.dropout if module.training else 0.0
    attended, weights = _attend(q, k, v, mask, causal=causal, dropout=dropout, need_weights=need_weights)
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    return _merged(module, attended), weights
