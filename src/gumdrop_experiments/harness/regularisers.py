"""The two regularisers of published code, as the prior and the strength of dropout that they amount to."""

import math
from typing import NamedTuple


class Prior(NamedTuple):
    """What the objective of the library has in the place of two regularisers."""

    lengthscale: float
    """``l`` of the prior N(0, 1/l^2) on each weight."""
    strength: float
    """What the entropy of the masks counts, see `gumdrop.networks.set_strength`; 1 is the ELBO's."""


def prior_of(regularisers: tuple[float, float], *, num_data: int, scale: float = 1.0) -> Prior:
    """Say what two regularisers amount to, by the table of docs/method.md.

    A published loss is ``scale NLL + weight sum(W^2)/(1-p) - dropout K H(p)``, with the NLL in nats per datum; the
    objective here is ``NLL + l^2/(2N) sum(W^2)/(1-p) - strength/N K H(p)``. The scale is 1 where the NLL is exact, 2
    for ``exp(-s) (y-f)^2 + s``.

    Example:
        >>> prior_of((1e-6, 2e-5), num_data=5000)
        Prior(lengthscale=0.1, strength=0.1)
        >>> prior_of((1e-2, 1e2), num_data=450, scale=2).strength
        22500.0
    """
    weight, dropout = regularisers
    return Prior(math.sqrt(2 * num_data * weight / scale), num_data * dropout / scale)
