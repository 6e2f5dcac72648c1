"""Notice a site that does not act, or a rate that no optimiser moves: both would be silent.

The KL divergence is computed from parameters, so it counts a site whether or not the model uses it, and an optimiser
trains the weights whether or not it knows of the rates. A look costs about a microsecond for each site.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.layers.block import SITE, Block, joined
from gumdrop.layers.kinds import kind_of
from gumdrop.layers.passes import seen_by
from gumdrop.layers.site import ConcreteDropout
from gumdrop.layers.use import SiteUse
from gumdrop.machine.notes import warn

OBJECTIVES = 3
"""Objectives without an act of a site that has never acted before it is reported; two losses of one forward are no
reason."""
SKIPPED = 50
"""The same of a site that has acted before: layers may be skipped at random."""
BETWEEN_LOOKS = 100
"""Objectives from one look for layers that were replaced to the next."""
CONVERTED = "_gumdrop_layers"
"""Attribute of a converted model: its layers by their names, and the type of each."""
STEPS = 10
"""Steps of the weights without one of the rate before it is reported; some train both in turns."""
LOOKS = 10
"""Batches whose inputs are compared with those of the batch before."""
CHANGES = 2
"""Changes of these in a row that are reported; one is that to another data set."""
SAME = 1e-3
"""Standard errors by which means of the same numbers differ at most, by rounding."""


def watch_training(blocks: Sequence[Block], model: nn.Module, *, nll: Tensor, num_data: int) -> bool:
    """Warn, once for each site, if it does not act or its rate does not move; tell whether it is the first look."""
    use, inputs = blocks[0].site.use, seen_by(model)
    use.objectives += 1
    _watch_sites(blocks)
    if use.objectives % BETWEEN_LOOKS == 1:
        _watch_layers(model)
    batch_dim = blocks[0].site.batch_dim
    rows = inputs.shape[batch_dim] if inputs is not None and inputs.ndim > batch_dim else 0
    batch = nll.numel() if nll.ndim else rows
    if batch > 1 and not use.told_of_num_data:
        _watch_num_data(use, batch, num_data, inputs if rows == batch else None)
    if use.objectives <= OBJECTIVES and not nll.ndim and rows:
        _watch_mean(use, nll, rows)
    return use.objectives == 1


def remember_layers(model: nn.Module) -> None:
    """Keep the names and types of what has a site, which may be replaced."""
    named = {name: type(layer) for name, layer in model.named_modules() if name and SITE in layer._modules}
    vars(model).setdefault(CONVERTED, {}).update(named)


def _watch_layers(model: nn.Module) -> None:
    """Warn, once for each, of layers without a site in the place of converted ones."""
    replaced = []
    for path, module in model.named_modules():
        for name, kind in list(vars(module).get(CONVERTED, {}).items()):
            layer = _at(module, name)
            if layer is not None and SITE not in layer._modules and (isinstance(layer, kind) or kind_of(layer)):
                del vars(module)[CONVERTED][name]
                replaced.append(joined(path, name))
    if replaced:
        names = _listed(list(dict.fromkeys(replaced)))  # a part that was converted by itself names its layers, too
        warn(
            f"layers were replaced after learn_dropout ({names}), and those in their place have no dropout; "
            "convert last, or once more: learn_dropout(model) leaves what is converted as it is. Build the optimiser "
            "after it"
        )


def _at(module: nn.Module, name: str) -> nn.Module | None:
    """Find a module by its name, if it is still there."""
    at: nn.Module | None = module
    for part in name.split("."):
        at = None if at is None else at._modules.get(part)
    return at


def _watch_sites(blocks: Sequence[Block]) -> None:
    idle, stuck = [], []
    for block in {id(block.site): block for block in blocks}.values():
        use = block.site.use
        use.called |= "forward" in vars(block.site)  # somebody else drops for it
        use.has_acted |= use.called
        use.missed = 0 if use.called else use.missed + 1
        use.called = False
        if use.missed == (SKIPPED if use.has_acted else OBJECTIVES):
            idle.append(block.name)
        if not block.site.is_fixed and block.weight.is_leaf and block.weight.requires_grad:
            weight, rate = versions = block.weight._version, block.site.scaled_logit._version
            moved = use.versions is not None and weight != use.versions[0]
            use.waited = 0 if use.versions is None or rate != use.versions[1] else use.waited + moved
            use.versions = versions
            if moved and use.waited == STEPS:
                stuck.append(block.name)
    if idle:
        warn(
            f"learned dropout did not act in the last objectives ({_listed(idle)}), so that only the KL trains its "
            "rate, which goes to 0.5. If the model is in eval mode, call model.train(). If its code uses the weight of "
            "a layer without calling the layer, leave it out: learn_dropout(model, exclude=[...])"
        )
    if stuck:
        warn(
            f"the weights have moved {STEPS} times and the dropout rates have not ({_listed(stuck)}): the optimiser "
            "does not train them. Build it after learn_dropout, from gumdrop.parameter_groups(model); rates that are "
            "to stay take gumdrop.fix_dropout"
        )


def _watch_num_data(use: SiteUse, batch: int, num_data: int, inputs: Tensor | None) -> None:
    """Look for batches that each are all of the data, and of which the next is another, or smaller."""
    if num_data > use.whole:
        use.whole, use.was_smaller = (batch if batch == num_data else 0), False
        use.inputs, use.changes, use.looks = None, 0, 0
    elif batch < use.whole:
        use.was_smaller = True
    is_part = use.was_smaller and batch == use.whole
    if batch == num_data == use.whole and inputs is not None and use.looks < LOOKS:
        # A look waits for the device of the inputs; where the batch is less than `num_data`, there is none.
        deviation, mean = torch.std_mean(inputs.detach().double())
        seen = torch.stack([mean, deviation]).cpu()
        if use.inputs is not None:
            use.looks += 1
            use.changes = use.changes + 1 if _differ(seen, use.inputs, inputs.numel()) else 0
        use.inputs = seen
    if is_part or use.changes == CHANGES:
        use.told_of_num_data = True
        warn(
            f"`num_data` is {num_data}, the size of the batch, and other batches were seen: the KL counts as if these "
            "rows were all that there are, so that rates stay high and weights small. Give the number of rows of the "
            "whole training set, as in num_data=len(loader.dataset)"
        )


def _differ(seen: Tensor, before: Tensor, count: int) -> bool:
    """Tell whether two batches of inputs are not the same rows, in another order perhaps."""
    tolerance = SAME * max(float(before[1]), float(seen[1])) / count**0.5
    return bool((seen - before).abs().max() > tolerance)


def _watch_mean(use: SiteUse, nll: Tensor, rows: int) -> None:
    """Look for a mean over more than the examples: PyTorch's losses average over all positions."""
    function: Any = nll.grad_fn
    if not type(function).__name__.startswith("NllLoss") or use.told_of_mean:
        return
    count = function._saved_target.numel()
    if count > rows and count % rows == 0:
        use.told_of_mean = True
        warn(
            f"`nll` is a mean over {count} targets of {rows} examples: it counts one position of an example, and the "
            "KL all of it, so that rates stay high. Sum it over the positions of an example: multiply the mean by "
            f"{count // rows}, or give one sum for each example"
        )


def _listed(names: list[str], most: int = 3) -> str:
    listed = ", ".join(repr(name) for name in names[:most])
    return listed + (f" and {len(names) - most} more" if len(names) > most else "")


def watch_rates(sites: Sequence[ConcreteDropout], rates: Sequence[Sequence[float]], num_samples: int) -> None:
    """Warn, once for each model, if its learned rates are so small that no draw of a prediction will drop a unit."""
    expected = num_samples * sum(site.num_units * sum(p) / len(p) for site, p in zip(sites, rates, strict=True))
    is_rare = expected < 0.1  # dropped units, in all draws together: then a prediction has no epistemic part
    if not is_rare or any(site.use.told for site in sites) or all(site.is_fixed for site in sites):
        return
    for site in sites:
        site.use.told = True
    largest = max(map(max, rates))
    warn(
        f"all learned dropout rates are {largest:.0e} or less, so that none of the {num_samples} draws is likely to "
        "drop a unit: the epistemic part is 0 for every input, also far from the training data, and says nothing; see "
        "'Why rates fall to 0' in docs/method.md, and 'An epistemic part of 0' in docs/models.md for what to do"
    )
