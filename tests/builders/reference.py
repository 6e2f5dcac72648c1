"""Naive twins of the formulas, in plain Python and NumPy and float64, one number at a time where that is clearer.

Nothing here imports the library. The second half is a problem whose exact objective is known: a linear model with
Gaussian noise and one dropout site, for which the expectation over masks has a closed form.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def log_sigmoid(a: float) -> float:
    """Compute log(1 / (1 + e^-a))."""
    return -math.log1p(math.exp(-a)) if a >= 0 else a - math.log1p(math.exp(a))


def sigmoid(a: float) -> float:
    return math.exp(log_sigmoid(a))


def exp(a: float) -> float:
    """Exponential with ``inf`` in place of an OverflowError."""
    return math.exp(a) if a < 709 else math.inf


def logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def soft_scale(a: float, u: float, t: float) -> float:
    """z / (1 - p) of a relaxed mask; ``a`` is the logit of p."""
    log_keep = log_sigmoid((logit(u) - a) / t)
    return exp(log_keep - log_sigmoid(-a))


def soft_scale_slope(a: float, u: float, t: float) -> float:
    """Its derivative by ``a``: z' (1 + e^a) + z e^a with z' = -z (1 - z) / t."""
    drop = sigmoid(-(logit(u) - a) / t)
    scale = soft_scale(a, u, t)
    factor = sigmoid(a) - drop / t
    return scale * factor if factor else 0.0


def hard_scale(a: float, u: float) -> float:
    return 0.0 if u < sigmoid(a) else exp(-log_sigmoid(-a))


def entropy(a: float) -> float:
    """-p log p - (1 - p) log(1 - p)."""
    return -sigmoid(a) * log_sigmoid(a) - sigmoid(-a) * log_sigmoid(-a)


def kl(p: float | Sequence[float], weight_columns: Array, biases: Iterable[Array] = (), *, precision: float) -> float:
    """KL of one layer; ``weight_columns`` has shape (rows, K), so that column k meets input unit k."""
    rows, num_units = weight_columns.shape
    rates = [p] * num_units if isinstance(p, float) else list(p)
    total = 0.0
    for k in range(num_units):
        for j in range(rows):
            total += precision / 2 * weight_columns[j, k] ** 2 / (1 - rates[k])
        total -= -rates[k] * math.log(rates[k]) - (1 - rates[k]) * math.log(1 - rates[k])
    return total + sum(precision / 2 * float((bias**2).sum()) for bias in biases)


def normal_log_density(y: float, mean: float, variance: float) -> float:
    return -0.5 * math.log(2 * math.pi * variance) - (y - mean) ** 2 / (2 * variance)


def mixture_log_density(target: Array, means: Array, variances: Array) -> Array:
    """Log density of (N, D) targets under mixtures with components (S, N, D), per row."""
    result = []
    for n, row in enumerate(target):
        logs = [
            sum(normal_log_density(y, means[s, n, d], variances[s, n, d]) for d, y in enumerate(row))
            for s in range(len(means))
        ]
        largest = max(logs)
        result.append(largest + math.log(sum(math.exp(v - largest) for v in logs) / len(logs)))
    return np.array(result)


def discrete_entropy(probabilities: Array) -> float:
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def all_masks(num_units: int, p: float) -> Iterable[tuple[Array, float]]:
    """Every Bernoulli keep-mask of K units with its probability."""
    for bits in itertools.product((0.0, 1.0), repeat=num_units):
        kept = int(sum(bits))
        yield np.array(bits), (1 - p) ** kept * p ** (num_units - kept)


@dataclass(frozen=True)
class LinearProblem:
    """y = x . w + noise of known variance; the model is one linear map with one site and a prior N(0, 1/precision)."""

    x: Array
    y: Array
    noise_variance: float
    precision: float

    @property
    def num_data(self) -> int:
        return len(self.x)

    @property
    def num_units(self) -> int:
        return self.x.shape[1]

    def nll(self, weight: Array, scale_mean: float, scale_variance: float) -> float:
        """Expected negative log likelihood of the data, for independent factors with two moments on the inputs."""
        residual = self.y - scale_mean * (self.x @ weight)
        spread = scale_variance * ((self.x**2) @ (weight**2))
        constant = 0.5 * self.num_data * math.log(2 * math.pi * self.noise_variance)
        return constant + float((residual**2 + spread).sum()) / (2 * self.noise_variance)

    def nll_by_enumeration(self, weight: Array, p: float) -> float:
        """Compute the same for Bernoulli masks, by a sum over all 2^K of them."""
        total = 0.0
        for mask, probability in all_masks(self.num_units, p):
            total += probability * self.nll(weight * mask / (1 - p), 1.0, 0.0)
        return total

    def kl(self, weight: Array, p: float) -> float:
        return kl(p, weight[None, :], precision=self.precision)

    def best_weight(self, p: float, scale_mean: float, scale_variance: float) -> Array:
        """Weights that minimise the objective for one p: a ridge regression."""
        gram = self.x.T @ self.x
        penalty = self.noise_variance * self.precision / (1 - p)
        matrix = scale_mean**2 * gram + scale_variance * np.diag(np.diag(gram)) + penalty * np.eye(self.num_units)
        return np.linalg.solve(matrix, scale_mean * self.x.T @ self.y)

    def objective(self, p: float, moments: Callable[[float], tuple[float, float]]) -> float:
        """Negative ELBO at the best weights, in nats for the whole data set."""
        weight = self.best_weight(p, *moments(p))
        return self.nll(weight, *moments(p)) + self.kl(weight, p)

    def best_p(self, moments: Callable[[float], tuple[float, float]]) -> float:
        """Rate that minimises the objective, by golden-section search on the logit."""
        return sigmoid(minimise(lambda a: self.objective(sigmoid(a), moments), -6.0, 6.0))


def hard_moments(p: float) -> tuple[float, float]:
    """Mean and variance of a Bernoulli factor z / (1 - p)."""
    return 1.0, p / (1 - p)


def soft_moments(p: float, temperature: float, points: int = 20_000) -> tuple[float, float]:
    """Mean and variance of a relaxed factor, by the midpoint rule over the noise."""
    u = (np.arange(points) + 0.5) / points
    s = (np.log(u) - np.log1p(-u) - logit(p)) / temperature
    scale = 1 / (1 + np.exp(-np.clip(s, -500, 500))) / (1 - p)
    return float(scale.mean()), float(scale.var())


def minimise(function: Callable[[float], float], low: float, high: float) -> float:
    """Golden-section search for the minimum of a function with one minimum."""
    ratio = (math.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    value_a, value_b = function(a), function(b)
    while high - low > 1e-5:
        if value_a < value_b:
            high, b, value_b = b, a, value_a
            a = high - ratio * (high - low)
            value_a = function(a)
        else:
            low, a, value_a = a, b, value_b
            b = low + ratio * (high - low)
            value_b = function(b)
    return (low + high) / 2


def linear_problem(num_data: int, *, num_units: int = 6, seed: int = 0) -> LinearProblem:
    """Make a problem whose best rate falls from about 0.4 to about 0.1 as the data grow from 20 to 200."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=num_units)
    weight *= math.sqrt(0.4) / np.linalg.norm(weight)
    x = rng.normal(size=(num_data, num_units))
    noise_variance = 4.0
    y = x @ weight + math.sqrt(noise_variance) * rng.normal(size=num_data)
    return LinearProblem(x, y, noise_variance, precision=1.5)


# The two objectives of the interactive page, over p alone. Each gives its three terms: likelihood, weights, entropy.


def stylised_terms(p: float, num_data: float, num_units: float) -> list[float]:
    """p/N, 0.8 (1-p)^2 and -(K/N) H(p): the sketch, in which weights are held before the mask."""
    return [p / num_data, 0.8 * (1 - p) ** 2, -num_units / num_data * entropy(logit(p))]


def library_terms(p: float, num_data: float, num_units: float) -> list[float]:
    """Per datum, for a linear layer with |W|^2 = 1/4, noise variance 1 and prior precision K."""
    square_norm = 0.25
    variance = p / (1 - p) * square_norm  # of the output, where each input has a mean square of 1
    weights = num_units / 2 * square_norm / (1 - p)
    return [variance / 2, weights / num_data, -num_units / num_data * entropy(logit(p))]
