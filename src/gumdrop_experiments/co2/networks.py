"""The networks that are asked: those of the tutorial, of its scripts, and such as learn their rates."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from gumdrop import HomoscedasticNoise, fix_dropout, learn_dropout
from gumdrop_experiments.harness import START
from gumdrop_experiments.training import seeded

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


@dataclass(frozen=True)
class Network:
    """One of the networks."""

    activation: str
    """`relu` or `tanh`."""
    depth: int
    """Hidden layers."""
    width: int
    """Units of each."""
    rate: float | None
    """Drop probability; it is learned if None."""
    held: bool = False
    """Whether a rate that is learned stays where it starts for the first half of the steps."""

    @property
    def label(self) -> str:
        """What figures and tables call it."""
        units = f"{'ReLU' if self.activation == 'relu' else self.activation} {self.depth} × {self.width}"
        if self.rate is None:
            return f"{units}, learned p" + ", held at first" * self.held
        return f"{units}, p = {self.rate:.1g}".replace("0.", ".")


_MADE: dict[str, Callable[[str], Network]] = {
    "scripts": partial(Network, depth=4, width=1024, rate=0.1),
    "fixed": partial(Network, depth=5, width=1024, rate=0.2),
    "narrow": partial(Network, depth=4, width=128, rate=None),
    "held": partial(Network, depth=4, width=128, rate=None, held=True),
    "learned": partial(Network, depth=5, width=1024, rate=None),
}
NETWORKS = {f"{activation}-{kind}": make(activation) for kind, make in _MADE.items() for activation in ACTIVATIONS}
"""All of them by name, in the order in which they are trained. The tutorial describes `fixed`, its scripts train
`scripts`; `narrow` has an eighth of the units, and with them of the entropy of masks that outweighs 272 months."""


def build(network: Network, *, width: int, seed: int) -> nn.Sequential:
    """Build a network with dropout in front of each layer but the first, whose one input is all there is."""
    units = min(network.width, width)
    activation = ACTIVATIONS[network.activation]
    with seeded(seed):
        sizes = itertools.pairwise([1, *[units] * network.depth])
        layers = [part for a, b in sizes for part in (nn.Linear(a, b), activation())]
        model = nn.Sequential(*layers, nn.Linear(units, 1), HomoscedasticNoise(1))
    learn_dropout(model, p=START if network.rate is None else network.rate, exclude=["0"], types=nn.Linear)
    return model if network.rate is None else fix_dropout(model)
