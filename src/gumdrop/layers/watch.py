"""Notice a site that does not act, or a rate that no optimiser moves: both would be silent.

The KL divergence is computed from parameters, so it counts a site whether or not the model uses it, and an optimiser
trains the weights whether or not it knows of the rates. A look costs some microseconds for each site, and what it
remembers stands beside the sites, not in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

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
FEW = 8
"""Rows that are all of the data, perhaps, and differ since they are cropped or turned at random."""
CHANGES = 2
"""Changes of these in a row that are reported; one is that to another data set."""
SAME = 1e-3
"""Standard errors by which means of the same numbers differ at most, by rounding."""


@dataclass(eq=False)
class _Acts:
    """What objectives have seen of a site."""

    has_acted: bool = False
    """Whether it ever has, at a look."""
    missed: int = 0
    """Looks in a row without an act of the site."""
    versions: tuple[int, int] | None = None
    """Versions of weight and rate at the last look."""
    waited: int = 0
    """Steps of the weight since the last one of the rate."""


@dataclass(eq=False)
class _Course:
    """What is remembered of the objectives of a model."""

    objectives: int = 0
    """Objectives so far."""
    whole: int = 0
    """Rows of an objective whose batch was all of `num_data`."""
    was_smaller: bool = False
    """Whether a smaller batch has followed it."""
    inputs: Tensor | None = None
    """Mean and deviation of the inputs of the last such batch."""
    changes: int = 0
    """Batches of this size in a row whose inputs were others than those of the one before."""
    looks: int = 0
    """Batches of this size that were compared."""
    told_of_num_data: bool = False
    """Whether a `num_data` that is the size of the batch was reported."""
    told_of_mean: bool = False
    """Whether a mean over positions was reported."""


_ACTS: WeakKeyDictionary[SiteUse, _Acts] = WeakKeyDictionary()
"""Of each site, beside it and its pickles; by its use, which replicas of a model share."""
_COURSES: WeakKeyDictionary[SiteUse, _Course] = WeakKeyDictionary()
"""Of each model, by the use of its first site: wrappers of a model share it."""


def watch_training(blocks: Sequence[Block], model: nn.Module, *, nll: Tensor, num_data: int) -> bool:
    """Warn, once for each site, if it does not act or its rate does not move; tell whether it is the first look."""
    course, inputs = _COURSES.setdefault(blocks[0].site.use, _Course()), seen_by(model)
    course.objectives += 1
    _watch_sites(blocks)
    if course.objectives % BETWEEN_LOOKS == 1:
        _watch_layers(model)
    batch_dim = blocks[0].site.batch_dim
    rows = inputs.shape[batch_dim] if inputs is not None and inputs.ndim > batch_dim else 0
    batch = nll.numel() if nll.ndim else rows
    if batch > 1 and not course.told_of_num_data:
        _watch_num_data(course, batch, num_data, inputs if rows == batch else None)
    if course.objectives <= OBJECTIVES and not nll.ndim and rows:
        _watch_mean(course, nll, rows)
    return course.objectives == 1


def has_acted(site: ConcreteDropout) -> bool:
    """Tell whether a site has dropped units by one of the objectives so far."""
    acts = _ACTS.get(site.use)
    return acts is not None and acts.has_acted


def have_moved(blocks: Sequence[Block]) -> bool:
    """Tell whether a weight or a rate has moved since the last look, or there was none."""
    seen = [(_ACTS.get(block.site.use), block.weight._version, block.site.scaled_logit._version) for block in blocks]
    return not all(acts is not None and acts.versions == (weight, rate) for acts, weight, rate in seen)


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
        if (acts := _ACTS.get(use)) is None:
            _ACTS[use] = acts = _Acts()
        called = use.called or "forward" in vars(block.site)  # somebody else drops for it
        acts.has_acted |= called
        acts.missed = 0 if called else acts.missed + 1
        use.called = False
        if acts.missed == (SKIPPED if acts.has_acted else OBJECTIVES):
            idle.append(block.name)
        if not block.site.is_fixed and block.weight.is_leaf and block.weight.requires_grad:
            weight, rate = versions = block.weight._version, block.site.scaled_logit._version
            moved = acts.versions is not None and weight != acts.versions[0]
            acts.waited = 0 if acts.versions is None or rate != acts.versions[1] else acts.waited + moved
            acts.versions = versions
            if moved and acts.waited == STEPS:
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


def _watch_num_data(course: _Course, batch: int, num_data: int, inputs: Tensor | None) -> None:
    """Look for batches that each are all of the data, and of which the next is another, or smaller."""
    if num_data > course.whole:
        course.whole, course.was_smaller = (batch if batch == num_data else 0), False
        course.inputs, course.changes, course.looks = None, 0, 0
    elif batch < course.whole:
        course.was_smaller = True
    is_part = course.was_smaller and batch == course.whole
    if FEW < batch == num_data == course.whole and inputs is not None and course.looks < LOOKS:
        # A look waits for the device of the inputs; where the batch is less than `num_data`, there is none.
        deviation, mean = torch.std_mean(inputs.detach().double())
        seen = torch.stack([mean, deviation]).cpu()
        if course.inputs is not None:
            course.looks += 1
            course.changes = course.changes + 1 if _differ(seen, course.inputs, inputs.numel()) else 0
        course.inputs = seen
    if is_part or course.changes == CHANGES:
        course.told_of_num_data = True
        warn(
            f"`num_data` is {num_data}, the size of the batch, and other batches were seen: the KL counts as if these "
            "rows were all that there are, so that rates stay high and weights small. Give the number of rows of the "
            "whole training set, as in num_data=len(loader.dataset)"
        )


def _differ(seen: Tensor, before: Tensor, count: int) -> bool:
    """Tell whether two batches of inputs are not the same rows, in another order perhaps."""
    tolerance = SAME * max(float(before[1]), float(seen[1])) / count**0.5
    return bool((seen - before).abs().max() > tolerance)


def _watch_mean(course: _Course, nll: Tensor, rows: int) -> None:
    """Look for a mean over more than the examples: PyTorch's losses average over all positions."""
    function: Any = nll.grad_fn
    if not type(function).__name__.startswith("NllLoss") or course.told_of_mean:
        return
    count = function._saved_target.numel()
    if count > rows and count % rows == 0:
        course.told_of_mean = True
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
