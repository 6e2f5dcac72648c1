"""The regularised incomplete beta function, of which Student's t and overdispersed counts are made; torch has none."""

import torch
from torch import Tensor

CLOSE, MOST_TERMS = 1e-13, 20_000
"""Last change of the continued fraction, and its terms at most, some square roots of the larger parameter."""


def incomplete_beta(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    r"""Return the probability that a beta distributed number is at most x, in float64; the three broadcast.

    .. math:: I_x(a, b) = \frac{\Gamma(a + b)}{\Gamma(a) \Gamma(b)} \int_0^x t^{a - 1} (1 - t)^{b - 1} dt

    References:
        Press et al. 2007, "Numerical Recipes", section 6.4.
    """
    a, b, x = torch.broadcast_tensors(a.double(), b.double(), x.double())
    turned = x > (a + 1) / (a + b + 2)  # there the other end converges sooner
    a, b, x = torch.where(turned, b, a), torch.where(turned, a, b), torch.where(turned, 1 - x, x)
    log_front = torch.lgamma(a + b) - torch.lgamma(a) - torch.lgamma(b) + torch.xlogy(a, x) + b * torch.log1p(-x)
    tail = (log_front.exp() * _continued_fraction(a, b, x) / a).clamp(0.0, 1.0)
    return torch.where(turned, 1 - tail, tail)


def _continued_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Evaluate it from the front (Lentz 1976), as far as it takes."""
    c, d = torch.ones_like(x), 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, MOST_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            c, d = 1 + term / c, 1 / (1 + term * d)
            change = c * d
            value = value * change
        if not ((change - 1).abs() >= CLOSE).any():  # what is no number never comes close
            break
    return value
