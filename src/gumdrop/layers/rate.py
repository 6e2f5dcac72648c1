"""The parameter of a rate, and the logit that it stands for."""

import torch
from torch import Tensor

from gumdrop.functional.floats import widened

UNIT = 10.0
"""Logits that the parameter of a rate counts in ones.

A weight moves by about a tenth in a training, a logit by several: from a rate of .1 to .01 or .5 it is 2.3. So at the
learning rate of weights, Adam takes a logit that is a parameter itself nowhere in ten epochs (400 steps of 1e-3); in
this unit it takes it as far as 4.
"""


def logit_of(scaled: Tensor) -> Tensor:
    """Return the logit that an optimiser learns in units of `UNIT`, with a gradient that suits them.

    Optimisers of the Adam family move each number by their learning rate, whatever the size of its gradient, so that
    the logit moves `UNIT` times as far. Plain gradient descent goes by the size: under the chain rule it would take
    the logit the square of that as far. So the gradient is divided by the unit, not multiplied: then gradient descent
    moves the logit as if it were learned by itself. The derivative, of any order and in either mode, is ``1 / UNIT``.

    Example:
        >>> scaled = torch.tensor(-0.2, requires_grad=True)
        >>> logit_of(scaled).backward()
        >>> scaled.grad
        tensor(0.1000)
    """
    scaled = widened(scaled)
    if not torch.is_grad_enabled():
        return scaled * UNIT
    return torch.add(scaled.detach() * (UNIT - 1 / UNIT), scaled, alpha=1 / UNIT)  # the second part has the gradient
