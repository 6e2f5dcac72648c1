"""The learned rates of a table model, by layer and in words."""

from collections.abc import Sequence

import numpy as np

from gumdrop.layers.site import GONE
from gumdrop.networks.rates import dropout_rates
from gumdrop.tables.model import TableModel
from gumdrop.tables.results import Rate


def named_rates(model: TableModel) -> list[Rate]:
    """Learned rate of each layer, from the inputs on."""
    members = [dropout_rates(member) for member in model.ensemble.members]
    rates = []
    for i, site in enumerate(members[0]):
        features = model.schema.num_features
        bins = f" and {model.num_bins} bins of them" if model.num_bins else ""
        inputs = f"input ({features} encoded feature{'s' if features != 1 else ''}{bins})"
        label = f"hidden layer {i} ({model.hidden[i - 1]} units)" if i else inputs
        p = [float(member[site]) for member in members]
        rates.append(Rate(site, label, float(np.mean(p)), min(p), max(p)))
    return rates


def rates_in_words(rates: Sequence[Rate], num_members: int) -> str:
    """What it means that rates have gone to 0."""
    gone = [rate.label for rate in rates if (rate.p if rate.most is None else rate.most) < GONE]
    if not gone:
        return ""
    if len(gone) < len(rates):
        none = "nothing is dropped there, which adds nothing to the epistemic part"
        rates_have = f"rate of {gone[0]} has" if len(gone) == 1 else f"rates of {' and '.join(gone)} have"
        return f"The {rates_have} gone to 0: {none}."
    left = (
        f"The epistemic part of the uncertainty is only how the {num_members} networks differ"
        if num_members > 1
        else "The epistemic part of the uncertainty is 0 for every row, and says nothing of out-of-distribution rows"
    )
    return f"No dropout is left: every learned rate has gone to 0, so each network always gives one answer. {left}."
