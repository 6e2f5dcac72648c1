"""Gaussian processes on the record."""

import time
import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Kernel, WhiteKernel

from gumdrop.likelihoods import RegressionPrediction
from gumdrop_experiments.co2.series import ASKED, Series, scores
from gumdrop_experiments.harness import Plain
from gumdrop_experiments.pages import rounded


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
    return {
        "kernel": str(model.kernel_),
        "parameters": {
            name: float(value) for name, value in model.kernel_.get_params().items() if isinstance(value, float)
        },
        "log_marginal_likelihood": float(model.log_marginal_likelihood_value_),
        "seconds": time.process_time() - started,
        "curve": {"mean": rounded(mean[:count]), "std": rounded(std[:count])},
        "later": scores(prediction, torch.from_numpy(data.later_y)[:, None]),
    }
