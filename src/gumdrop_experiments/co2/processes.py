"""Gaussian processes on the record: with estimated hyper-parameters, and with draws from their posterior.

For the draws, as in the tutorial: a squared exponential with half-Cauchy priors on its length scale, its amplitude and
its noise, drawn by NUTS (Hoffman & Gelman 2014, arXiv:1111.4246) from NumPyro.
"""

import importlib.util
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Kernel, WhiteKernel

from gumdrop.likelihoods import RegressionPrediction
from gumdrop_experiments.co2.series import ASKED, Series, scores
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import rounded

PRIORS = {"lengthscale": 0.05, "amplitude": 1.0, "noise": 0.1}
"""Scale of the half-Cauchy prior of each hyper-parameter, in the order in which they are given."""
JITTER = 1e-10
LEVEL = 0.94
"""Of the intervals of highest density."""
Numbers = NDArray[np.float64]


class Chains(NamedTuple):
    """How many draws are taken."""

    chains: int
    warmup: int
    """Draws of each chain that tune the sampler and are thrown away."""
    draws: int
    """Draws of each chain that are kept."""
    asked: int
    """Draws of them all, evenly taken, that predict."""


def installed() -> bool:
    """Whether NumPyro is there."""
    return importlib.util.find_spec("numpyro") is not None


def sampled_process(data: Series, chains: Chains, seed: int) -> Plain:
    """Draw the hyper-parameters of a Gaussian process, and ask it about all months."""
    started = time.process_time()
    draws, steps, divergent = _draw(data, chains, seed)
    seconds = time.process_time() - started
    every = max(1, chains.chains * chains.draws // chains.asked)
    taken = np.stack([draws[name].reshape(-1)[::every] for name in PRIORS], axis=1)
    means, variances = np.stack([conditional(data, np.r_[ASKED, data.later_x], *each) for each in taken], axis=1)
    count = len(ASKED)
    mean, total = means.mean(0), means.var(0) + variances.mean(0)
    later = [torch.from_numpy(each[:, count:, None]) for each in (means, variances)]
    moments = (later[0].mean(0), later[0].var(0, correction=0), later[1].mean(0))
    prediction = RegressionPrediction(*moments, draw_means=later[0], draw_variances=later[1])
    return {
        "chains": chains._asdict(),
        "seconds": seconds,
        "steps_per_draw": float(np.mean(steps)),
        "divergent": int(np.sum(divergent)),
        "parameters": {name: _summary(draws[name]) for name in PRIORS},
        "curve": {"mean": rounded(mean[:count]), "std": rounded(np.sqrt(total[:count]))},
        "later": scores(prediction, torch.from_numpy(data.later_y)[:, None]),
    }


def conditional(
    data: Series, x: Numbers, lengthscale: float, amplitude: float, noise: float
) -> tuple[Numbers, Numbers]:
    """Predict months (M,) by a squared exponential: mean and variance of what would be measured, (M,) each."""

    def kernel(a: Numbers, b: Numbers) -> Numbers:
        return amplitude**2 * np.exp(-((a[:, None] - b) ** 2) / (2 * lengthscale**2))

    factor = cholesky(kernel(data.x, data.x) + (noise**2 + JITTER) * np.eye(len(data.x)), lower=True)
    cross = kernel(data.x, x)
    told = cho_solve((factor, True), np.column_stack([data.y, cross]))
    variance = amplitude**2 - (cross * told[:, 1:]).sum(0)
    return cross.T @ told[:, 0], variance.clip(0) + noise**2


def halves(data: Series) -> tuple[Numbers, Numbers]:
    """Split the record into two parts of half its length that are independent under a stationary process.

    Months are evenly spaced, so their covariance is the same read backwards: sums and differences of months that mirror
    each other know nothing of each other, and two matrices of half the size take a quarter of the time of one. With
    ``k`` the kernel, their covariances are ``k(squares[0]) + k(squares[1])`` and the difference of the two. Gives sums
    and differences over the root of 2, (2, N / 2), and squared distances within a half and across, (2, N / 2, N / 2).
    """
    half = len(data.x) // 2
    near, mirrored = data.x[:half], data.x[: half - 1 : -1]
    first, last = data.y[:half], data.y[: half - 1 : -1]
    squares = [(near[:, None] - each) ** 2 for each in (near, mirrored)]
    return np.stack([first + last, first - last]) / 2**0.5, np.stack(squares)


def _draw(data: Series, chains: Chains, seed: int) -> tuple[dict[str, Numbers], Any, Any]:
    """Run NUTS; return the draws of each hyper-parameter, shape (chains, draws), its steps, and which diverged."""
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions
    from numpyro.infer import MCMC, NUTS, init_to_median

    numpyro.enable_x64()
    targets, squares = halves(data)

    def model() -> None:
        length, size, noise = (numpyro.sample(name, distributions.HalfCauchy(scale)) for name, scale in PRIORS.items())
        within, across = (size**2 * jnp.exp(-each / (2 * length**2)) for each in squares)
        covariance = jnp.stack([within + across, within - across]) + (noise**2 + JITTER) * jnp.eye(targets.shape[1])
        months = distributions.MultivariateNormal(jnp.zeros(len(covariance[0])), covariance)
        numpyro.sample("months", months, obs=targets)

    kernel = NUTS(model, target_accept_prob=0.95, init_strategy=init_to_median)
    counts = {"num_warmup": chains.warmup, "num_samples": chains.draws, "num_chains": chains.chains}
    sampler = MCMC(kernel, **counts, chain_method="sequential", progress_bar=False)
    sampler.run(jax.random.PRNGKey(seed), extra_fields=("num_steps", "diverging"))
    fields = sampler.get_extra_fields()
    draws = {name: np.asarray(each) for name, each in sampler.get_samples(group_by_chain=True).items()}
    return draws, fields["num_steps"], fields["diverging"]


def _summary(draws: Numbers) -> Plain:
    """Say what the chains of a hyper-parameter found, and how well they agree."""
    from numpyro import diagnostics

    return {
        "mean": float(draws.mean()),
        "std": float(draws.std()),
        "intervals": [diagnostics.hpdi(each, LEVEL).tolist() for each in draws],
        "r_hat": float(diagnostics.split_gelman_rubin(draws)),
        "effective": float(diagnostics.effective_sample_size(draws)),
        "trace": rounded(draws[:, :: max(1, draws.shape[1] // 500)]),
        "autocorrelation": rounded(diagnostics.autocorrelation(draws, axis=1)[:, :60]),
    }


def kernels(data: Series) -> dict[str, Kernel]:
    """A squared exponential, as in the tutorial, and one that knows of years beside it."""
    noise = WhiteKernel(0.1, (1e-4, 1.0))
    years = ExpSineSquared(1.0, data.period, periodicity_bounds="fixed")
    # Seasons keep their shape for 20 years (3 units); free, they fade within a few, which the later record refutes.
    seasonal = ConstantKernel(1.0) * RBF(10.0, (3.0, 100.0)) * years
    trend = ConstantKernel(1.0) * RBF(2.0, (1.0, 20.0))
    irregular = ConstantKernel(0.1) * RBF(0.1, (0.03, 0.5))
    return {
        "squared-exponential": ConstantKernel(1.0) * RBF(1.0) + noise,
        "seasonal": seasonal + trend + irregular + noise,
    }


def process(data: Series, name: str, restarts: int) -> Plain:
    """Fit a Gaussian process, from several starts, and ask it about all months."""
    started = time.process_time()
    model = GaussianProcessRegressor(kernels(data)[name], n_restarts_optimizer=restarts, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a part of the kernel that the data do not need
        model.fit(data.x[:, None], data.y)
    mean, std = model.predict(np.concatenate([ASKED, data.later_x])[:, None], return_std=True)
    count = len(ASKED)
    later_mean, later_std = torch.from_numpy(np.stack([mean, std])[:, count:, None])
    prediction = RegressionPrediction.gaussian(later_mean, later_std.square())
    parameters = {name: value for name, value in model.kernel_.get_params().items() if isinstance(value, float)}
    return {
        "kernel": str(model.kernel_),
        "parameters": {name: float(value) for name, value in parameters.items()},
        "log_marginal_likelihood": float(model.log_marginal_likelihood_value_),
        "seconds": time.process_time() - started,
        "curve": {"mean": rounded(mean[:count]), "std": rounded(std[:count])},
        "later": scores(prediction, torch.from_numpy(data.later_y)[:, None]),
    }
