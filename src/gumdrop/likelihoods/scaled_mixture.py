"""Mixtures of Gaussians on the scale of a target: moments, densities and probabilities of the target itself.

Every function takes means and variances of the draws, on the scale, shape (S, N, D) each.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from gumdrop.functional.masks import broadcasts_to
from gumdrop.likelihoods import count_cells
from gumdrop.likelihoods.counts import NegativeBinomialPrediction
from gumdrop.likelihoods.target_scale import PLAIN, TargetScale

Function = Callable[[Tensor], Tensor]
FAR = 6.0
"""Standard deviations beyond which moments of a tail are those of its asymptotic series."""
HARDLY_ANY = 1e-25
"""A probability that is still exact in float32."""
WIDEST = 10.0
"""Variance of a logarithm that moments count, at most: there the mean is 150 times the median, and means nothing."""
CLOSE = 1e-5
"""Share of the spread below which a step of Newton's method is the last, since what is left is of its square."""
AT_ONCE = 2**23
"""Numbers of all draws that are worked on together: 100 draws of 65,536 rows and some, as ``gumdrop predict`` takes."""


def in_parts(
    function: Callable[..., Tensor], means: Tensor, variances: Tensor, scale: TargetScale, *values: Tensor
) -> Tensor:
    """Call a function for some rows after the other: what it makes of all draws on its way is much larger."""
    shape = means.shape[1:]
    if not all(broadcasts_to(each.shape, shape) for each in values):  # several values for each row
        return function(means, variances, scale, *values)
    rows = max(1, AT_ONCE // max(1, means[:, :1].numel()))
    split = zip(
        means.split(rows, 1),
        variances.split(rows, 1),
        *(each.expand(shape).split(rows) for each in values),
        strict=True,
    )
    parts = [function(some, their_variances, scale, *more) for some, their_variances, *more in split]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def draw_moments(
    means: Tensor, variances: Tensor, scale: TargetScale, log_ndtr: Function = torch.special.log_ndtr
) -> tuple[Tensor, Tensor]:
    r"""Return mean and variance of the target under each draw, in its units, (S, N, D) each.

    Of a logarithm :math:`\exp(\mu + \sigma^2 / 2)` and :math:`\exp(2 \mu + \sigma^2) (\exp \sigma^2 - 1)`; of what is
    cut off at b :math:`\mu + \sigma \lambda` and :math:`\sigma^2 (1 + \alpha \lambda - \lambda^2)`, with
    :math:`\alpha = (b - \mu) / \sigma` and :math:`\lambda = \phi(\alpha) / \Phi(-\alpha)`; of a root from its
    second and fourth moments, :math:`E z^k = \mu E z^{k-1} + (k-1) \sigma^2 E z^{k-2}` where it is cut off at 0. An
    export gives a ``log_ndtr`` of its own.
    """
    if scale.counts:
        return count_cells.moments(_gaussian_means(means, variances, scale, log_ndtr), scale)
    if scale.kind == "log" and math.isfinite(scale.horizon):
        return _moments_up_to(means, variances, scale)
    if scale.kind == "log":
        counted = variances.clamp(max=WIDEST)
        size = (means + counted / 2).exp()
        return size + scale.bound, size.square() * torch.expm1(counted)
    if not scale.cuts:
        return means, variances
    std = variances.sqrt()
    alpha = (scale.floor - means) / std
    hazard = torch.exp(-0.5 * (alpha.square() + math.log(2 * math.pi)) - log_ndtr(-alpha))
    far, t = alpha > FAR, alpha.clamp(min=1.0) ** -2  # there in powers of t, as all else cancels
    first = means + std * hazard
    if scale.kind == "sqrt":
        second = means * first + variances
        fourth = means * (means * second + 2 * variances * first) + 3 * variances * second
        mean = torch.where(far, variances * t * (2 - 10 * t + 74 * t**2), second) + scale.bound
        variance = torch.where(far, variances.square() * t**2 * (20 - 296 * t), fourth - second.square())
        whole = 2 * variances.square() + 4 * means.square() * variances  # that of an uncut one, without cancellation
        variance = torch.where(alpha < -FAR, whole, variance)
    else:
        mean = torch.where(far, scale.floor + std * t.sqrt() * (1 - 2 * t + 10 * t**2), first)
        variance = variances * torch.where(far, t * (1 - 6 * t + 50 * t**2), 1 + alpha * hazard - hazard.square())
    return mean, variance.clamp(min=torch.finfo(variance.dtype).tiny)


def _gaussian_means(
    means: Tensor, variances: Tensor, scale: TargetScale, log_ndtr: Function = torch.special.log_ndtr
) -> Tensor:
    """Means of the target under the Gaussian of each draw, which those of counts follow."""
    return draw_moments(means, variances, replace(scale, counts=()), log_ndtr)[0]


def counts_of(means: Tensor, variances: Tensor, scale: TargetScale) -> NegativeBinomialPrediction:
    """Counts that are negative binomial under each draw, without the steps and the units of the target."""
    return count_cells.counted(_gaussian_means(means, variances, scale), scale)


def _moments_up_to(means: Tensor, variances: Tensor, scale: TargetScale) -> tuple[Tensor, Tensor]:
    r"""Return what `draw_moments` does, of the smaller one of the target, whose logarithm is given, and a horizon h.

    .. math:: E[x^k] = e^{k \mu + k^2 \sigma^2 / 2}\, \Phi(d - k \sigma) + h^k\, \Phi(-d), \quad
        d = (\log h - \mu) / \sigma
    """
    mu, std, most = means.double(), variances.double().sqrt(), math.log(scale.horizon - scale.bound)
    distance = (most - mu) / std
    beyond = torch.special.log_ndtr(-distance)

    def moment(k: int) -> Tensor:
        below = k * (mu - most) + 0.5 * k**2 * std.square() + torch.special.log_ndtr(distance - k * std)
        return below.exp() + beyond.exp()  # in powers of the horizon

    size, first = math.exp(most), moment(1)
    spread = (moment(2) - first.square()).clamp(min=torch.finfo(means.dtype).tiny)
    return (size * first + scale.bound).to(means), (size**2 * spread).to(means)


def mixed_moments(
    means: Tensor, variances: Tensor, scale: TargetScale, log_ndtr: Function = torch.special.log_ndtr
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, epistemic and aleatoric variance of a mixture, in units of the target, (N, D) each."""
    centers, spreads = draw_moments(means, variances, scale, log_ndtr)
    weights = torch.full_like(centers, 1 / centers.shape[0])
    if scale.cuts and not scale.counts:
        weights = torch.softmax(log_ndtr((means - scale.floor) / variances.sqrt()), dim=0)
    mean = (weights * centers).sum(0)
    return mean, (weights * (centers - mean).square()).sum(0), (weights * spreads).sum(0)


def rescaled(
    means: Tensor, variances: Tensor, scale: TargetScale, factor: Tensor, shift: Tensor | float
) -> tuple[Tensor, Tensor]:
    """Means and variances of the draws of ``factor * target + shift``, whose bound moves with it, on the scale."""
    if scale.kind == "log":
        return means + factor.log(), variances
    if scale.kind == "sqrt":
        return means * factor.sqrt(), variances * factor
    return means * factor + shift, variances * factor.square()


def log_density(means: Tensor, variances: Tensor, scale: TargetScale, value: Tensor) -> Tensor:
    """Log density of targets, (N,), by their values on the scale, (N, D), or the log mass of intervals by both ends."""
    if value.shape[1] > means.shape[2]:
        return _log_of_intervals(means, variances, scale, *value.split(1, dim=1))
    if scale.counts:
        return count_cells.log_density(_gaussian_means(means, variances, scale), scale, scale.unbounded(value))
    standardised = (value - means) / variances.sqrt()  # whose square overflows later than that of a residual
    log_p = -0.5 * (math.log(2 * math.pi) + variances.log()) - 0.5 * standardised * standardised
    result = torch.logsumexp(log_p.flatten(2).sum(2), dim=0) - math.log(len(means))
    return result if scale == PLAIN else result - (scale.log_slope(value) + _log_kept(means, variances, scale))[:, 0]


def log_correlated_density(
    means: Tensor, variances: Tensor, scale: TargetScale, value: Tensor, correlation: Tensor
) -> Tensor:
    """As `log_density` on a plain scale, with noise that is correlated between the outputs, (D, D)."""
    root, std = torch.linalg.cholesky(correlation), variances.sqrt()
    alone = torch.linalg.solve_triangular(root.mT, (value - means) / std, upper=True, left=False)
    log_p = -0.5 * (math.log(2 * math.pi) + alone.square()) - std.log() - root.diagonal().log()
    return torch.logsumexp(log_p.sum(2), dim=0) - math.log(len(means))


def log_mass(means: Tensor, variances: Tensor, scale: TargetScale, lower: Tensor, upper: Tensor) -> Tensor:
    """Log of the probability that targets lie between two ends, jointly over the outputs, shape (N,), in float64."""
    if scale.counts:
        return count_cells.log_mass(_gaussian_means(means, variances, scale), scale, lower, upper)
    return _log_mass_between(means, variances, scale, *(scale.to_gaussian(end.double()) for end in (lower, upper)))


def _log_of_intervals(means: Tensor, variances: Tensor, scale: TargetScale, low: Tensor, high: Tensor) -> Tensor:
    """Log of the mass between ends on the scale, (N, 1) each, and of the density where they are equal; float64."""
    mass, seen = _log_mass_between(means, variances, scale, low.double(), high.double()), low == high
    at = torch.where(seen, low, scale.floor if scale.cuts else 0.0)
    return torch.where(seen[:, 0], log_density(means.double(), variances.double(), scale, at.double()), mass)


def _log_mass_between(means: Tensor, variances: Tensor, scale: TargetScale, low: Tensor, high: Tensor) -> Tensor:
    """As `log_mass`, of ends on the scale, in float64."""
    means, variances = means.double(), variances.double()
    low, high = ((end - means) / variances.sqrt() for end in (low, high))
    mass = torch.logsumexp(log_normal_mass(low, high).flatten(2).sum(2), dim=0) - math.log(len(means))
    mass = mass - _log_kept(means, variances, scale).sum(1)
    return mass.clamp(min=math.log(torch.finfo(torch.float64).tiny))


def below(means: Tensor, variances: Tensor, scale: TargetScale, value: Tensor) -> Tensor:
    """Probability of what is below a value on the scale, shape (N, D)."""
    if scale.counts:
        return count_cells.below(_gaussian_means(means, variances, scale), scale, scale.unbounded(value))
    return _below(means, variances.sqrt(), scale, _kept(means, variances, scale), value)


def quantile(means: Tensor, variances: Tensor, scale: TargetScale, probability: float | Tensor) -> Tensor:
    """Quantile, (N, D), on the scale, by Newton's method while it stays between known bounds, else by halving these."""
    if scale.counts:
        return scale.to_gaussian(count_cells.quantile(_gaussian_means(means, variances, scale), scale, probability))
    low, high = _bracket(means, variances, scale, probability)
    std, kept = variances.sqrt(), _kept(means, variances, scale)
    spread = (variances.mean(0) + means.var(0, correction=0)).sqrt()
    value = (means.mean(0) + _normal_quantile(probability) * spread).clamp(low, high)
    far = torch.ones_like(value, dtype=torch.bool)
    for _ in range(10):
        missing = probability - _below(means, std, scale, kept, value)
        low, high = torch.where(missing > 0, value, low), torch.where(missing > 0, high, value)
        step = value + missing / _density(means, std, kept, value)
        after = torch.where((step >= low) & (step <= high), step, (low + high) / 2)
        far, value = far & ((after - value).abs() > CLOSE * spread), torch.where(far, after, value)
        if not far.any():  # each row stops by itself, so that others make no difference to it
            return value
    left = (means[:, far], std[:, far], scale, kept[far])
    wanted = probability[far] if isinstance(probability, Tensor) else probability
    value[far] = _bisected(*left, low[far], high[far], wanted)
    return value


def _bisected(
    means: Tensor, std: Tensor, scale: TargetScale, kept: Tensor, low: Tensor, high: Tensor, probability: float | Tensor
) -> Tensor:
    """Quantile between two values, by bisection of the distribution function."""
    for _ in range(40):
        middle = (low + high) / 2
        is_below = _below(means, std, scale, kept, middle) < probability
        low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
    return (low + high) / 2


def _density(means: Tensor, std: Tensor, kept: Tensor, value: Tensor) -> Tensor:
    """Change of `_below` with the value; too small where hardly anything is kept."""
    densities = (((value - means) / std).square_().mul_(-0.5)).exp_().div_(std)
    return densities.mean(0) / (math.sqrt(2 * math.pi) * kept.clamp(min=HARDLY_ANY))


def _kept(means: Tensor, variances: Tensor, scale: TargetScale) -> Tensor:
    """Probability that is not cut off, shape (N, D)."""
    if not scale.cuts:
        return torch.ones_like(means[0])
    return _normal_below((means - scale.floor) / variances.sqrt()).mean(0)


def _below(means: Tensor, std: Tensor, scale: TargetScale, kept: Tensor, value: Tensor) -> Tensor:
    """As `below`, of what is kept."""
    if not scale.cuts:
        return _normal_below((value - means) / std).mean(0)
    result = 1 - _normal_below((means - value) / std).mean(0) / kept.clamp(min=HARDLY_ANY)
    if (hardly := kept <= HARDLY_ANY).any():  # logs are as exact everywhere, and take ten times as long
        logs = [_log_above(means, std.square(), end).logsumexp(0) for end in (value, torch.as_tensor(scale.floor))]
        result = torch.where(hardly, -torch.expm1((logs[0] - logs[1]).clamp(max=0.0)), result)
    return result.clamp(min=0.0)


def _bracket(
    means: Tensor, variances: Tensor, scale: TargetScale, probability: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Two values that a quantile lies between, on the scale."""
    reach = _normal_quantile((1 + probability) / 2 if scale.cuts else probability) * variances.sqrt()
    if scale.cuts:  # at most half of what is above the larger of mean and bound is cut off
        return torch.full_like(means[0], scale.floor), (means.clamp(min=scale.floor) + reach).amax(0)
    components = means + reach  # the mixture's quantile lies between its components'
    return components.amin(0), components.amax(0)


def _normal_below(value: Tensor) -> Tensor:
    """Probability of a standard normal number below a value; `torch.special.ndtr` is 0 from -6 on in float32."""
    return torch.erfc(value.mul(-math.sqrt(0.5))).mul_(0.5)


def _normal_quantile(probability: float | Tensor) -> float | Tensor:
    if isinstance(probability, Tensor):
        return torch.special.ndtri(probability.double()).to(probability.dtype)
    return torch.special.ndtri(torch.tensor(probability, dtype=torch.float64)).item()


def _log_above(means: Tensor, variances: Tensor, value: Tensor | float) -> Tensor:
    """Log of the probability that each draw gives to what is above a value, shape (S, N, D)."""
    return torch.special.log_ndtr((means - value) / variances.sqrt())


def _log_kept(means: Tensor, variances: Tensor, scale: TargetScale) -> Tensor:
    """Log of the probability that is not cut off, shape (N, D)."""
    if not scale.cuts:
        return torch.zeros_like(means[0])
    return torch.logsumexp(_log_above(means, variances, scale.floor), dim=0) - math.log(len(means))


def log_normal_mass(low: Tensor, high: Tensor) -> Tensor:
    """Log of the probability of standard normal numbers between two ends, also far out."""
    right = low > 0  # there the lower tail is the accurate one
    low, high = torch.where(right, -high, low), torch.where(right, -low, high)
    whole = torch.special.log_ndtr(high)
    share = torch.where(whole > -math.inf, torch.special.log_ndtr(low) - whole, 0.0)  # of what is below, in the whole
    return whole + torch.log(-torch.expm1(share))
