"""Notice a site that does not act, or a rate that no optimiser moves: both would be silent.

The KL divergence is computed from parameters, so it counts a site whether or not the model uses it, and an optimiser
trains the weights whether or not it knows of the rates. A look costs about a microsecond for each site.
"""

from collections.abc import Sequence

from gumdrop.layers.block import Block
from gumdrop.layers.passes import SiteUse
from gumdrop.layers.site import ConcreteDropout
from gumdrop.machine.notes import warn

OBJECTIVES = 3
"""Objectives without an act of a site that has never acted before it is reported; two losses of one forward are no
reason."""
SKIPPED = 50
"""The same of a site that has acted before: layers may be skipped at random."""
STEPS = 10
"""Steps of the weights without one of the rate before it is reported; some train both in turns."""


def watch_training(blocks: Sequence[Block], *, batch: int, num_data: int) -> bool:
    """Warn, once for each site, if it does not act or its rate does not move; tell whether it is the first look."""
    use = blocks[0].site.use
    use.objectives += 1
    _watch_sites(blocks)
    if batch > 1:
        _watch_num_data(use, batch, num_data)
    return use.objectives == 1


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


def _watch_num_data(use: SiteUse, batch: int, num_data: int) -> None:
    """Look for batches that each are all of the data, between which a smaller one was seen: the last of an epoch."""
    if num_data > use.whole:
        use.whole, use.was_smaller = (batch if batch == num_data else 0), False
    elif batch < use.whole:
        use.was_smaller = True
    elif use.was_smaller and not use.told_of_num_data:
        use.told_of_num_data = True
        warn(
            f"`num_data` is {num_data}, the size of the batch, and batches of other sizes were seen: the KL counts as "
            "if these rows were all that there are, so that rates stay high and weights small. Give the number of rows "
            "of the whole training set, as in num_data=len(loader.dataset)"
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
