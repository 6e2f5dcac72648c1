"""Networks with learned dropout, built in one call."""

import itertools
from collections.abc import Sequence
from typing import Literal

from torch import nn

from gumdrop.layers import PiecewiseLinear
from gumdrop.layers.output_noise import HomoscedasticNoise
from gumdrop.networks.learn import learn_dropout
from gumdrop.networks.rates import set_strength

Activation = Literal["relu", "silu"]
ACTIVATIONS: dict[Activation, type[nn.Module]] = {"relu": nn.ReLU, "silu": nn.SiLU}


def mlp(
    num_inputs: int,
    num_outputs: int,
    *,
    hidden: Sequence[int] = (50, 50),
    homoscedastic_noise: bool = False,
    activation: Activation = "relu",
    encoding: PiecewiseLinear | None = None,
    p: float = 0.1,
    temperature: float = 0.1,
    strength: float = 1.0,
) -> nn.Sequential:
    """Build a dense network with learned dropout in front of every layer that reads more than one unit.

    Hidden weights start as He et al. 2015 propose (arXiv:1502.01852), those of the output a tenth as large as that
    would be, and biases at 0: the first predictions are close to the mean of a standardised target, so that neither
    the noise nor the rates have to recover from a wild start. Initial weights come from torch's global random state.

    Args:
        num_inputs: Number of inputs.
        num_outputs: Number of outputs: 2 D for a heteroscedastic regression of D targets, C for C classes; D
            with ``homoscedastic_noise``, which appends the other half.
        hidden: Units of each hidden layer; none gives a linear model.
        homoscedastic_noise: End with one learned noise variance per output, ``gumdrop.HomoscedasticNoise``.
        activation: Between the layers: ``"relu"``, or ``"silu"``, which learns smooth functions sooner.
        encoding: What stands in front and turns ``num_inputs`` into more; the first layer's dropout is behind it.
        p: Initial drop probability.
        temperature: Temperature of the relaxed masks.
        strength: What the entropy of the masks counts, see `gumdrop.networks.set_strength`.

    Returns:
        The network.

    Raises:
        ValueError: If a size is not positive, or ``encoding`` is of another number of inputs.

    Example:
        >>> [type(layer).__name__ for layer in mlp(8, 2, hidden=[50])]
        ['Linear', 'ReLU', 'Linear']
    """
    sizes = [num_inputs, *hidden, num_outputs]
    if min(sizes) < 1:
        raise ValueError(f"all layer sizes must be at least 1, got {sizes}")
    layers: list[nn.Module] = []
    if encoding is not None:
        if encoding.num_inputs != num_inputs:
            raise ValueError(f"`encoding` must be of {num_inputs} inputs, got one of {encoding.num_inputs}")
        sizes[0] = encoding.num_outputs
        layers.append(encoding)
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
    layers.pop()
    if homoscedastic_noise:
        layers.append(HomoscedasticNoise(num_outputs))
    network = nn.Sequential(*layers)
    _initialise([layer for layer in layers if isinstance(layer, nn.Linear)])
    # A line through one input has nothing else to drop.
    include = ["*"] if max(sizes[:-1]) > 1 else ["0"]
    learn_dropout(network, p=p, temperature=temperature, types=nn.Linear, include=include)
    return set_strength(network, strength)


def _initialise(layers: Sequence[nn.Linear]) -> None:
    for layer in layers:
        if layer.weight.is_meta:  # to be filled from a file; torch would load its compiler to draw nothing
            continue
        last = layer is layers[-1]
        std = (0.1 if last else 2**0.5) / layer.in_features**0.5
        nn.init.normal_(layer.weight, std=std)
        nn.init.zeros_(layer.bias)
