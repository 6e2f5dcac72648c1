"""Learned dropout inside MultiheadAttention, whose projections are called as functions and not as modules."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gumdrop.layers.site import ConcreteDropout


def attention_sites(module: nn.MultiheadAttention, make_site: Callable[[int], ConcreteDropout]) -> nn.ModuleDict:
    """Make the sites of an attention module: in front of its input projections and of its output projection.

    Query, key and value projections that share one matrix share one site, whose mask zeroes its columns.

    Args:
        module: The attention module.
        make_site: Makes a site for a number of units.

    Returns:
        Sites ``in_proj`` (or ``q_proj``, ``k_proj``, ``v_proj``) and ``out_proj``.
    """
    if module._qkv_same_embed_dim:
        sizes = {"in_proj": module.embed_dim}
    else:
        sizes = {"q_proj": module.embed_dim, "k_proj": module.kdim, "v_proj": module.vdim}
    sizes["out_proj"] = module.embed_dim
    return nn.ModuleDict({name: make_site(size) for name, size in sizes.items()})


def _drop_inputs(sites: Any, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if "in_proj" not in sites:
        return sites["q_proj"](query), sites["k_proj"](key), sites["v_proj"](value)
    site = sites["in_proj"]
    if not site.is_active:
        return query, key, value
    scale = site.scale(query)
    for name, x in (("key", key), ("value", value)):
        if x.ndim != query.ndim or any(x.shape[dim] != query.shape[dim] for dim in (site.batch_dim, -1)):
            raise ValueError(
                f"`{name}` must have the batch and the units of `query`, {tuple(query.shape)}, got {tuple(x.shape)}"
            )
    return _map_inputs(lambda x: (x * scale).to(x.dtype), query, key, value)


def _map_inputs(
    function: Callable[[Tensor], Tensor], query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Apply a function to each input; inputs that are one tensor stay one, so that they are projected at once."""
    mapped = {id(x): function(x) for x in (query, key, value)}
    return mapped[id(query)], mapped[id(key)], mapped[id(value)]


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
    """Run an attention module with its sites; without an active one, exactly as PyTorch does.

    Args:
        module: The module that holds its sites in ``concrete_dropout``.
        query: As for ``nn.MultiheadAttention``, like all that follow.
        key: See there.
        value: See there.
        key_padding_mask: See there.
        need_weights: See there.
        attn_mask: See there.
        average_attn_weights: See there.
        is_causal: See there.

    Returns:
        Output and attention weights, as the module's own forward gives them.

    Raises:
        ValueError: If the shapes of query, key and value do not go together.
    """
    options: dict[str, Any] = {
        "key_padding_mask": key_padding_mask,
        "need_weights": need_weights,
        "attn_mask": attn_mask,
        "average_attn_weights": average_attn_weights,
        "is_causal": is_causal,
    }
    sites: Any = module.concrete_dropout
    if not any(site.is_active for site in sites.values()):
        return type(module).forward(module, query, key, value, **options)
    if query.dim() == 2:  # no batch: one example of its own
        batch_dim = 0 if module.batch_first else 1
        query, key, value = _map_inputs(lambda x: x.unsqueeze(batch_dim), query, key, value)
        if key_padding_mask is not None:
            options["key_padding_mask"] = key_padding_mask.unsqueeze(0)
        output, weights = attention_forward(module, query, key, value, **options)
        return output.squeeze(batch_dim), None if weights is None else weights.squeeze(0)
    query, key, value = _drop_inputs(sites, query, key, value)
    if module.batch_first:
        query, key, value = _map_inputs(lambda x: x.transpose(0, 1), query, key, value)
    if not module._qkv_same_embed_dim:
        options |= {
            "use_separate_proj_weight": True,
            "q_proj_weight": module.q_proj_weight,
            "k_proj_weight": module.k_proj_weight,
            "v_proj_weight": module.v_proj_weight,
        }
    attended, weights = F.multi_head_attention_forward(
        query,
        key,
        value,
        module.embed_dim,
        module.num_heads,
        module.in_proj_weight,
        module.in_proj_bias,
        module.bias_k,
        module.bias_v,
        module.add_zero_attn,
        module.dropout,
        # The identity in place of the output projection: its own site comes first.
        torch.eye(module.embed_dim, dtype=query.dtype, device=query.device),
        None,
        training=module.training,
        **options,
    )
    attended = attended.transpose(0, 1) if module.batch_first else attended
    return F.linear(sites["out_proj"](attended), module.out_proj.weight, module.out_proj.bias), weights
