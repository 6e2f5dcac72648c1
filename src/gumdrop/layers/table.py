"""The table of a pass: the masks of all sites of a model, drawn and computed together as the pass begins.

A mask is small beside what it multiplies, and a dozen operations make one. For each site by itself they cost more than
the product that they are for, on a GPU above all, where each is a launch.
"""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.weak import WeakIdKeyDictionary

from gumdrop.functional.devices import sent
from gumdrop.functional.masks import Columns, Kept, Mask, attach_mask, dropout_scale
from gumdrop.functional.noise import is_traced
from gumdrop.layers.passes import Table, finish_pass, open_pass, start_pass
from gumdrop.layers.rate import logit_of
from gumdrop.layers.site import ConcreteDropout, sites_of
from gumdrop.layers.use import SiteUse

_PLANS: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""What was found out about a model, for as long as its sites are as they were."""


class Group(NamedTuple):
    """Sites whose masks are made by one operation."""

    sites: list[ConcreteDropout]
    uses: dict[SiteUse, int]
    """Position of each site."""
    sizes: list[int]
    """Number of columns of each site."""
    columns: Columns

    @classmethod
    def of(cls, sites: Sequence[ConcreteDropout]) -> "Group":
        """Lay out the table of some sites, on the device of their rates."""
        device, rates = sites[0].scaled_logit.device, [site.scaled_logit.numel() for site in sites]
        sizes = [site.num_units for site in sites]
        pairs = zip(rates, sizes, strict=True)
        counts = torch.tensor([n for rate, size in pairs for n in [size // rate] * rate])
        index = torch.repeat_interleave(torch.arange(len(counts)), counts)
        uses = {site.use: position for position, site in enumerate(sites)}
        return cls(list(sites), uses, sizes, Columns(sent(index, device), sent(counts, device)))

    def table(self, rows: int) -> Table:
        """Draw and compute all masks."""
        first, columns = self.sites[0], self.columns
        scaled: list[Tensor] = [site.scaled_logit for site in self.sites]
        is_single = all(each.ndim == 0 for each in scaled)
        logits = logit_of(torch.stack(scaled) if is_single else torch.cat([each.reshape(-1) for each in scaled]))
        noise = first.noise((rows, len(columns.positions)))
        if first.is_fixed or is_traced():
            factor = dropout_scale(logits[columns.positions], noise, temperature=first.temperature, hard=first.is_fixed)
            return Table(rows, self.uses, self.sizes, Mask(factor), factor.detach())
        kept = Kept.of(logits, noise, first.temperature, columns)
        return Table(rows, self.uses, self.sizes, attach_mask(logits, kept, first.temperature, columns), kept)


class Plan(NamedTuple):
    """How the masks of a model are made together."""

    sites: list[ConcreteDropout]
    state: list[tuple[Any, ...]]
    """All that the groups depend on."""
    groups: list[Group]


def _state_of(site: ConcreteDropout) -> tuple[Any, ...]:
    own = vars(site)  # a look at an attribute of a module costs as much as all of these
    scaled = own["_parameters"].get("scaled_logit")
    is_fixed = scaled is None
    scaled = site.scaled_logit if is_fixed else scaled
    acts = own["training"] and own["factor_source"] is None
    return acts, is_fixed, scaled.device, scaled.dtype, scaled.ndim, own["temperature"], own.get("rows_dim", 0)


def _plan_of(model: nn.Module) -> Plan:
    """Look at the sites of a model, or remember what was seen; a look at each costs about a microsecond."""
    known: Plan | None = _PLANS.get(model)
    sites = [site for site in sites_of(model) if site.joins_table] if known is None else known.sites
    state = [_state_of(site) for site in sites]
    if known is not None and known.state == state:
        return known
    plan = Plan(sites, state, [Group.of(group) for group in _groups_of(sites)])
    _PLANS[model] = plan
    return plan


def _groups_of(sites: list[ConcreteDropout]) -> list[list[ConcreteDropout]]:
    """Put those sites together that can share a table, in the order of the model."""
    groups: dict[tuple[Any, ...], list[ConcreteDropout]] = {}
    for site in sites:
        acts, is_fixed, device, dtype, _, temperature, rows_dim = _state_of(site)
        if acts:
            groups.setdefault((is_fixed, device, dtype, temperature, rows_dim), []).append(site)
    return [group for group in groups.values() if len(group) > 1]


def _first_of(inputs: tuple[Any, ...]) -> Tensor | PackedSequence | None:
    """Find the first tensor of a call."""
    return next((value for value in inputs if isinstance(value, (Tensor, PackedSequence))), None)


def _rows_of(value: Tensor | PackedSequence | None, dim: int) -> int | None:
    """Count the examples of the first tensor of a call; None if that is unknown."""
    if isinstance(value, PackedSequence):
        return int(value.batch_sizes[0])
    return None if value is None or value.ndim <= dim else value.shape[dim]


def tables_of(model: nn.Module, first: Tensor | PackedSequence | None) -> list[Table]:
    """Make the tables of a pass with a first input."""
    tables = []
    for group in _plan_of(model).groups:
        rows = _rows_of(first, group.sites[0].rows_dim)
        if rows is not None:
            tables.append(group.table(rows))
    return tables


def _begin_compiled(model: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Begin a pass in code that is compiled: the same noise, of which sites compute what a compiler fuses."""
    sites = [module for module in model.modules() if isinstance(module, ConcreteDropout)]
    for site in sites:
        site.use.kept = []
    for group in _groups_of([site for site in sites if site.joins_table]) if model.training else []:
        rows, first = _rows_of(_first_of(inputs), group[0].rows_dim), group[0]
        if rows is None:
            continue
        sizes = [site.num_units for site in group]
        noise = first.noise((rows, sum(sizes)))
        for site, part in zip(group, noise.split(sizes, 1), strict=True):
            site.use.kept = [(rows, part)]


def open_passes(model: nn.Module) -> None:
    """Let each call of a model be a pass, and look at its sites anew."""
    _PLANS.pop(model, None)
    if begin_pass not in model._forward_pre_hooks.values():
        model.register_forward_pre_hook(begin_pass, prepend=True, with_kwargs=True)
        model.register_forward_hook(end_pass, always_call=True)


def _is_compiled() -> bool:
    """Tell whether a compiler takes this call apart: it compiles parts of it, and leaves this one perhaps."""
    return torch.compiler.is_compiling() or bool(torch._C._dynamo.eval_frame.get_eval_frame_callback())


def begin_pass(model: nn.Module, args: Any, kwargs: Any = None) -> None:
    """Forward pre-hook: begin a pass, unless this call is a part of one."""
    inputs = (*args, *(kwargs or {}).values())
    if _is_compiled():
        _begin_compiled(model, inputs)
    elif not open_pass(model):
        first = _first_of(inputs) if model.training else None
        start_pass(model, sys._getframe(1), first, tables_of(model, first) if model.training else [])


def end_pass(model: nn.Module, args: Any, output: Any) -> None:
    """Forward hook: end the pass that this call began."""
    if _is_compiled():
        for module in model.modules():
            if isinstance(module, ConcreteDropout):
                module.use.kept = None
    else:
        finish_pass(model, sys._getframe(1), output)
