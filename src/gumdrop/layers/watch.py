"""Notice a site that does not act, or a rate that cannot move: both would be silent.

The KL divergence is computed from parameters, so it counts a site whether or not the model uses it, and an optimiser
trains the weights whether or not it knows of the rates. A look costs about a microsecond for each site, so that later
in a training only some of the objectives are looked at.
"""

import sys
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from gumdrop.functional.devices import fetched
from gumdrop.layers.block import Block
from gumdrop.layers.passes import SiteUse
from gumdrop.layers.site import UNIT, ConcreteDropout

__all__ = ["watch_rates", "watch_training"]

OBJECTIVES = 3
"""Objectives without an act of a site that has never acted before it is reported; two losses of one forward are no
reason."""
SKIPPED = 50
"""Looks in a row without an act of a site that has acted before: layers may be skipped at random."""
FIRST = 64
"""Objectives that are all looked at."""
EVERY = 16
"""Of the later ones, the share that is looked at is one in this number."""
STEPS = 10
"""Steps of the weights without one of the rate before it is reported; some train both in turns."""
EPOCHS, LEAST_STEPS = 10, 500
"""Epochs that an ordinary training has, and steps that one of few rows has at least."""
LOOKS = 5
"""Steps that the pace of rates is taken from, after the first epoch and `WARM_UP` objectives."""
WARM_UP = 50
SHORT = 0.5
"""Way of a logit in an ordinary training below which it is said to stay: from a rate of .1 to .15 or .06."""
BATCHES = 32
"""Batches of all of `num_data` whose targets are compared."""
OTHERS = 0.5
"""Least variance of the means of their targets, in parts of that of means of rows that are drawn, from which they are
other rows. A batch without replacement of a share f of the data has 1 - f; the same rows have 0."""
RARE = 0.1
"""Expected number of dropped units, in all draws together, below which a prediction has no epistemic part."""


def watch_training(
    blocks: Sequence[Block], *, batch: int, num_data: int, target: Tensor | None, stacklevel: int
) -> None:
    """Warn, once for each site, if it does not act, or its rate does not move or hardly; or of a wrong ``num_data``.

    Call it once for each objective.

    Args:
        blocks: Sites and the weights that they drop.
        batch: Number of examples of a step; 1 if that is not known.
        num_data: Number of examples of the training set.
        target: Targets of the step, examples first; None if they are not known.
        stacklevel: As for `warnings.warn`, from here.
    """
    use = blocks[0].site.use
    use.objectives += 1
    if use.objectives <= FIRST or use.objectives % EVERY == 0:
        _watch_sites(blocks, stacklevel + 1)
    if batch > 1:
        _watch_num_data(use, batch, num_data, stacklevel + 1)
        if batch == num_data == use.whole and target is not None:
            _watch_targets(use, target, stacklevel + 1)
        _watch_pace(blocks[0].site, num_data // batch, stacklevel + 1)


def _watch_sites(blocks: Sequence[Block], stacklevel: int) -> None:
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
        warnings.warn(
            f"learned dropout did not act in the last objectives ({_listed(idle)}), so that only the KL trains its "
            "rate, which goes to 0.5. If the model is in eval mode, call model.train(). If its code uses the weight of "
            "a layer without calling the layer, leave it out: learn_dropout(model, exclude=[...])",
            stacklevel=stacklevel + 1,
        )
    if stuck:
        warnings.warn(
            f"the weights have moved {STEPS} times and the dropout rates have not ({_listed(stuck)}): the optimiser "
            "does not train them. Build it after learn_dropout, from gumdrop.parameter_groups(model); rates that are "
            "to stay take gumdrop.fix_dropout",
            stacklevel=stacklevel + 1,
        )


def _watch_num_data(use: SiteUse, batch: int, num_data: int, stacklevel: int) -> None:
    """Look for batches that each are all of the data, between which a smaller one was seen: the last of an epoch.

    Batches that are all of one size, which divides the number of rows, look like a training without batches here.
    """
    if num_data > use.whole:
        use.whole, use.was_smaller, use.targets = (batch if batch == num_data else 0), False, []
    elif batch < use.whole:
        use.was_smaller = True
    elif use.was_smaller:
        use.whole, use.was_smaller = sys.maxsize, False
        _warn_of_num_data(num_data, "batches of other sizes were seen", stacklevel + 1)


def _watch_targets(use: SiteUse, target: Tensor, stacklevel: int) -> None:
    """Look for batches of `num_data` rows that are not the same rows, by the means of their targets."""
    if len(use.targets) == BATCHES:
        return
    rows = target.detach().to(torch.float32 if target.device.type == "mps" else torch.float64)
    rows = rows.flatten(1).mean(1) if rows.ndim > 1 else rows
    use.targets.append(torch.stack([rows.mean(), rows.var() / len(rows)]))
    if len(use.targets) == BATCHES:  # before, a device is not waited for
        means, variances = fetched(use.targets).view(-1, 2).T
        if means.var() > OTHERS * variances.mean():
            use.whole = sys.maxsize
            _warn_of_num_data(len(rows), "the targets are others in each batch", stacklevel + 1)


def _warn_of_num_data(num_data: int, seen: str, stacklevel: int) -> None:
    warnings.warn(
        f"`num_data` is {num_data}, the size of the batch, and {seen}: the KL counts as if these rows were all that "
        "there are, so that rates stay high and weights small. Give the number of rows of the whole training set, as "
        "in num_data=len(loader.dataset)",
        stacklevel=stacklevel + 1,
    )


def _watch_pace(site: ConcreteDropout, steps: int, stacklevel: int) -> None:
    """Look at a few steps after the first epoch, and at where the rate began.

    An optimiser of the Adam family moves each number by its learning rate, and a logit has a longer way to go than a
    weight.
    """
    use = site.use
    since = use.objectives - max(steps, WARM_UP)
    if site.is_fixed or (use.objectives > 1 and not 0 <= since <= LOOKS):
        return
    logit = UNIT * site.scaled_logit.detach()
    if use.objectives == 1:
        use.start = logit
    elif since > 0:
        use.pace = max(use.pace, _distance(logit, use.seen))
    use.seen = logit
    ordinary = max(EPOCHS * steps, LEAST_STEPS)
    way = ordinary * use.pace
    if since == LOOKS and 0 < way < SHORT and _distance(logit, use.start) < SHORT:  # or it has arrived
        warnings.warn(
            f"the logits of the dropout rates move by {use.pace:.1g} a step at most, which is {way:.1g} in "
            f"{ordinary:,} steps, so that the rates stay about where they began; give them a learning rate of their "
            "own: gumdrop.parameter_groups(model)",
            stacklevel=stacklevel + 1,
        )


def _distance(logit: Tensor, other: Tensor | None) -> float:
    return 0.0 if other is None else (logit - other).abs().max().item()


def _listed(names: list[str], most: int = 3) -> str:
    listed = ", ".join(repr(name) for name in names[:most])
    return listed + (f" and {len(names) - most} more" if len(names) > most else "")


def watch_rates(
    sites: Sequence[ConcreteDropout], rates: Sequence[Sequence[float]], num_samples: int, *, stacklevel: int
) -> None:
    """Warn, once for each model, if its learned rates are so small that no draw of a prediction will drop a unit.

    Args:
        sites: All that drops in the model.
        rates: Drop probability of each: one, or one for each unit.
        num_samples: Number of draws.
        stacklevel: As for `warnings.warn`, from here.
    """
    expected = num_samples * sum(site.num_units * sum(p) / len(p) for site, p in zip(sites, rates, strict=True))
    if not expected < RARE or any(site.use.told for site in sites) or all(site.is_fixed for site in sites):
        return
    for site in sites:
        site.use.told = True
    largest = max(map(max, rates))
    warnings.warn(
        f"all learned dropout rates are {largest:.0e} or less, so that none of the {num_samples} draws is likely to "
        "drop a unit: the epistemic part is 0 for every input, also far from the training data, and says nothing; see "
        "'Why rates fall to 0' in docs/method.md, and 'An epistemic part of 0' in docs/models.md for what to do",
        stacklevel=stacklevel + 1,
    )
