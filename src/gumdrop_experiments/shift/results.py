"""What the parts of `shift` say together."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from gumdrop.training import STRENGTHS, choose_strength
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import mean_and_error
from gumdrop_experiments.rates.results import ELBO, GRID, HELD_OUT, OFF

MEMBERS = 5
PLAIN, ALL = "plain", "all"
FIXED: dict[str, tuple[float, float]] = {
    OFF: (0.0, 0.0),
    "0.1": (0.1, 0.1),
    "0.2 / 0.5": (0.2, 0.5),
    PLAIN: (0.0, 0.0),
}
"""Rates of inputs and of hidden units that are fixed."""
LABELS = {
    OFF: "no dropout",
    "0.1": "fixed at .1",
    "0.2 / 0.5": "fixed at .2 (inputs), .5 (hidden)",
    GRID: "grid of these, by held-out images",
    ELBO: "learned, by the ELBO",
    HELD_OUT: "learned, strength by held-out images",
    PLAIN: f"no dropout, {MEMBERS * len(STRENGTHS)} networks",
}
"""What pages call each way to a rate."""
SIZES = {"single": "single networks", "ensemble": f"ensembles of {MEMBERS}"}
"""What is scored of each way."""


def summary(parts: Mapping[str | float, Plain]) -> Plain:
    """Choose among fixed rates and among strengths by held-out images, and average over the steps of each shift."""
    fixed = {way: parts[way] for way in FIXED if way != PLAIN}
    strengths = {strength: parts[strength] for strength in STRENGTHS}
    same: dict[str, str | float] = {**{way: way for way in fixed}, ELBO: 1.0}
    ensembles = {**same, GRID: _best(fixed), HELD_OUT: _strength(strengths)}
    members = {way: [name] * MEMBERS for way, name in same.items()} | {
        GRID: [_best(fixed, [i]) for i in range(MEMBERS)],
        HELD_OUT: [_strength(strengths, [i]) for i in range(MEMBERS)],
    }
    chosen = {
        "single": {way: members[way] for way in (GRID, HELD_OUT)},
        "ensemble": {way: ensembles[way] for way in (GRID, HELD_OUT)},
    }
    ensembles[PLAIN] = PLAIN
    networks = {way: [parts[members[way][i]]["members"][i] for i in range(MEMBERS)] for way in LABELS if way in members}
    nats = {way: _nats(each) for way, each in networks.items()}
    images = {way: parts[ensembles[way]]["of_images"] for way in LABELS}
    alone = {way: _mean_of(each) for way, each in networks.items()}
    together = {way: parts[ensembles[way]]["ensemble"] for way in LABELS}
    return {
        "single": {
            "by_step": alone,
            "mean": {way: _over_steps(each) for way, each in alone.items()},
            "gain_on": {other: _beside(nats, other) for other in (OFF, "0.1")},
        },
        "ensemble": {
            "by_step": together,
            "mean": {way: _over_steps(each) for way, each in together.items()},
            "gain_on": {other: _beside(images, other) for other in (OFF, "0.1", PLAIN)},
        },
        "chosen": chosen,
        "rates": {str(s): np.mean(each["rates"], axis=0).tolist() for s, each in strengths.items()},
    }


def _held_out(part: Plain, members: Iterable[int]) -> Tensor:
    """Log likelihood of the images that some networks held out."""
    return torch.tensor([score for i in members for score in part["held_out"][i]])


def _best(fixed: Mapping[str, Plain], members: Iterable[int] = range(MEMBERS)) -> str:
    return max(fixed, key=lambda way: float(_held_out(fixed[way], members).mean()))


def _strength(strengths: Mapping[float, Plain], members: Iterable[int] = range(MEMBERS)) -> float:
    return choose_strength({strength: _held_out(part, members) for strength, part in strengths.items()})


def _mean_of(networks: Sequence[Plain]) -> Plain:
    """Average each score over networks, at each step of each shift."""
    return {
        shift: [
            {name: fmean(each[shift][step][name] for each in networks) for name in of_step}
            for step, of_step in enumerate(steps)
        ]
        for shift, steps in networks[0].items()
    }


def _over_steps(way: Plain) -> Plain:
    """Average each score over the steps of each shift, but for the images as they are."""
    return {shift: {name: fmean(each[name] for each in of[1:]) for name in of[0]} for shift, of in way.items()}


def _nats(networks: Sequence[Plain]) -> dict[str, list[float]]:
    """Log likelihood of each network, the mean over the steps of a shift."""
    return {shift: [-fmean(step["nll"] for step in each[shift][1:]) for each in networks] for shift in networks[0]}


def _beside(nats: Mapping[str, Mapping[str, Sequence[float]]], other: str) -> Plain:
    """Gain of each way on one of them under each shift, and under all of them, with standard errors."""
    found = {}
    for way, of in nats.items():
        gain = {shift: np.array(each) - np.array(nats[other][shift]) for shift, each in of.items()}
        gain[ALL] = np.mean(list(gain.values()), axis=0)
        found[way] = {shift: mean_and_error(each) for shift, each in gain.items()}
    return found
