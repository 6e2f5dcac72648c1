"""Moments of a target that ends at 0, of its root or its logarithm, in operators that every format has."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from gumdrop.ensembles import RegressionEnsemble
from gumdrop.likelihoods import HurdlePrediction, RegressionPrediction
from gumdrop.likelihoods.hurdle import atom_draws, beside_atoms
from gumdrop.likelihoods.scaled_mixture import draw_moments, mixed_moments

QUANTILES = 16
"""Draws that stand for a Gaussian of means that was propagated."""


def _scaled_erfc(u: np.ndarray) -> np.ndarray:
    """Log of erfcx(z) / t at u = 2 t - 1, where t = 1 / (1 + z / 2) is in (0, 1]: smooth, also where z is infinite."""
    z = torch.from_numpy(2 / np.clip((u + 1) / 2, 1e-6, 1) - 2)
    return (torch.special.erfcx(z).log() + torch.log1p(z / 2)).numpy()


POWERS = np.polynomial.Chebyshev.interpolate(_scaled_erfc, 12).convert(kind=np.polynomial.Polynomial).coef.tolist()


def log_ndtr(value: Tensor) -> Tensor:
    """Log of the normal distribution function, also where it is 0 in float32."""
    z = value.abs() * math.sqrt(0.5)
    t = 1 / (1 + z / 2)
    u = 2 * t - 1
    power = torch.full_like(u, POWERS[-1])
    for coefficient in reversed(POWERS[:-1]):
        power = power * u + coefficient
    tail = power + t.log() - z.square() - math.log(2)  # log of the probability beyond
    return torch.where(value < 0, tail, torch.log1p(-tail.exp()))


class ScaledMoments(nn.Module):
    """What `RegressionEnsemble.predict` makes of the draws of its members, for a fixed number of draws of them all."""

    tails: Tensor
    quantiles: Tensor

    def __init__(self, ensemble: RegressionEnsemble, num_draws: int) -> None:
        super().__init__()
        self.scaling = ensemble.scaling
        self.register_buffer("tails", ensemble.noise.tail_factors(num_draws))
        places = (torch.arange(QUANTILES, dtype=torch.float64) + 0.5) / QUANTILES
        normal = torch.special.ndtri(places)
        self.register_buffer("quantiles", (normal / normal.std(correction=0)).float().view(-1, 1, 1))

    def forward(self, means: Tensor, variances: Tensor, logits: Tensor) -> RegressionPrediction:
        """Mix draws, (S, N, 1), as the networks see the target, and logits of K atoms, into standardised moments."""
        tailed = variances * self.tails
        latent = self._latent(means, tailed * (variances.mean(0) / tailed.mean(0)))
        moments, scale = mixed_moments(*latent, self.scaling.scale, log_ndtr), self.scaling.scale
        if not scale.atoms:
            return RegressionPrediction(*moments, None, None)
        mean, shares, of_draws = moments[0], atom_draws(logits), draw_moments(*latent, scale, log_ndtr)[0]
        if scale.kind == "censored":
            shares = log_ndtr((scale.floor - latent[0]) / latent[1].sqrt()).exp()
        parts = beside_atoms(mean, moments[1] + moments[2], of_draws, shares, scale.atoms)
        return HurdlePrediction(*parts, None, None, draw_atoms=shares)

    def spread(self, parts: list[RegressionPrediction]) -> tuple[Tensor, Tensor]:
        """Draws, shape (S, N, 1), with the moments that were propagated through each member."""
        means = [part.mean + self.quantiles * part.epistemic.sqrt() for part in parts]
        return torch.cat(means), torch.cat([part.aleatoric.expand(QUANTILES, -1, -1) for part in parts])

    def of_one(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Moments of standardised targets under one draw, shape (1, N, 1) each."""
        return draw_moments(*self._latent(mean, variance), self.scaling.scale, log_ndtr)

    def _latent(self, means: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
        return means * self.scaling.spread + self.scaling.center, variances * self.scaling.spread**2
