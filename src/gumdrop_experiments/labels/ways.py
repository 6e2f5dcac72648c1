"""Ways to ask: how the rates are set, how rows are chosen, and how many at a time."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gumdrop import learn_dropout
from gumdrop.metrics import choose, choose_classes_jointly
from gumdrop_experiments.networks.convolutional import labelling_network

FIXED, START = 0.5, 0.1
RATES = {"none": "no dropout", "fixed": f"p = {FIXED:g}".replace("0.", "."), "learned": "learned p"}

Choice = Callable[[Tensor, int, int], Tensor]
"""Chooses rows by the logits of drawn functions, shape (S, N, C), the number wanted, and a seed."""


def _bald(logits: Tensor, count: int, seed: int) -> Tensor:
    p = logits.double().softmax(2)
    told = torch.special.entr(p.mean(0)).sum(1) - torch.special.entr(p).sum(2).mean(0)
    return choose(told.clamp(min=0), count)


def _entropy(logits: Tensor, count: int, seed: int) -> Tensor:
    return choose(torch.special.entr(logits.double().softmax(2).mean(0)).sum(1), count)


def _batch_bald(logits: Tensor, count: int, seed: int) -> Tensor:
    return choose_classes_jointly(logits, count, seed=seed)


@dataclass(frozen=True)
class Way:
    """One way to ask."""

    rates: str
    """How they are set: `none`, `fixed` or `learned`."""
    choice: str
    """What figures and tables call the choice of rows."""
    choose: Choice | None
    """Chooses rows; at random if None."""
    at_a_time: int | None = None
    """Labels of a round, whatever was set; None leaves it to the flag."""

    @property
    def label(self) -> str:
        """What figures and tables call it."""
        return f"{RATES[self.rates]}, {self.choice}"


WAYS = {
    "fixed-batchbald": Way("fixed", "BatchBALD", _batch_bald),
    "learned-batchbald": Way("learned", "BatchBALD", _batch_bald),
    "fixed-random": Way("fixed", "random", None),
    "learned-random": Way("learned", "random", None),
    "none-random": Way("none", "random", None),
    "none-entropy": Way("none", "entropy", _entropy),
    "fixed-bald": Way("fixed", "BALD", _bald),
    "learned-bald": Way("learned", "BALD", _bald),
    "fixed-bald-1": Way("fixed", "BALD one at a time", _bald, at_a_time=1),
}
"""All of them by name, in the order in which they are run."""


def build(rates: str) -> nn.Sequential:
    """Build the network."""
    if rates == "learned":
        return learn_dropout(labelling_network(), p=START)
    return labelling_network(rate=FIXED if rates == "fixed" else 0.0)
