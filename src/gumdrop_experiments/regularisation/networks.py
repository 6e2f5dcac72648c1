"""The networks of `regularisation`: those of the tutorial, and twins that learn their rates."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import nn

from gumdrop.networks import learn_dropout
from gumdrop_experiments.networks.convolutional import tutorial_lenet, tutorial_perceptron

START = 0.5
"""Where learned rates begin."""
LAST = 10
"""Epochs at the end whose scores are averaged; those of single epochs jump."""


@dataclass(frozen=True)
class Network:
    """One of the networks."""

    label: str
    """What figures and tables call it."""
    family: str
    """`perceptron` or `lenet`."""
    build: Callable[[], nn.Sequential]
    """Makes it."""
    learned: bool = False
    """Whether it learns its rates."""
    tuned: bool = False
    """Whether held-out images choose the strength of its dropout, as a grid would choose fixed rates."""


perceptron_with_both = partial(tutorial_perceptron, input_rate=0.2, hidden_rate=0.5)
"""Builds the perceptron that drops pixels and hidden units."""


def _learned(build: Callable[[], nn.Sequential]) -> nn.Sequential:
    """Learn the rates of all layers, save a convolution over the one channel of the image, which is all there is."""
    return learn_dropout(build(), p=START)


NETWORKS = {
    "perceptron-none": Network("2 x 800, no dropout", "perceptron", tutorial_perceptron),
    "perceptron-both": Network("2 x 800, .2 / .5", "perceptron", perceptron_with_both),
    "perceptron-learned": Network("2 x 800, learned", "perceptron", partial(_learned, tutorial_perceptron), True),
    "perceptron-strength": Network(
        "2 x 800, learned, held-out strength", "perceptron", partial(_learned, tutorial_perceptron), True, tuned=True
    ),
    "perceptron-hidden": Network("2 x 800, 0 / .5", "perceptron", partial(tutorial_perceptron, hidden_rate=0.5)),
    "lenet-none": Network("LeNet, no dropout", "lenet", tutorial_lenet),
    "lenet-half": Network("LeNet, .5", "lenet", partial(tutorial_lenet, rate=0.5)),
    "lenet-learned": Network("LeNet, learned", "lenet", partial(_learned, tutorial_lenet), True),
}
"""All of them by name, in the order in which they are trained."""


def at_the_end(scores: Sequence[float]) -> float:
    """Average a score over the last epochs."""
    return statistics.fmean(scores[-LAST:])
