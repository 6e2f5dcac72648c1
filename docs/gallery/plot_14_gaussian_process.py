"""
A Gaussian process beside it
============================

On a few rows of one input the exact posterior of a Gaussian process is the yardstick. Dropout is an approximation: near
the data the two are alike, far from them they are not.
"""

# %%
# Twenty rows, and scikit-learn's Gaussian process with a kernel whose length and noise are fitted.

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import gumdrop as gd
from gumdrop import training
from gumdrop.networks import mlp

random = np.random.default_rng(2)
x = np.concatenate([random.uniform(-2, -0.6, 12), random.uniform(0.4, 1.6, 8)])[:, None].astype(np.float32)
y = (np.sin(2 * x) + 0.1 * random.standard_normal(x.shape)).astype(np.float32)
grid = np.linspace(-4, 4, 200, dtype=np.float32)[:, None]

process = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.01), normalize_y=True, random_state=0).fit(x, y[:, 0])
mean, std = process.predict(grid, return_std=True)
of_function = np.sqrt(np.maximum(std**2 - process.kernel_.k2.noise_level * y.std() ** 2, 0))

# %%
# The network takes 2,000 steps, so that the rates settle.

torch.manual_seed(0)
model = mlp(1, 1, hidden=[64, 64], homoscedastic_noise=True)
training.fit(
    model, (torch.tensor(x), torch.tensor(y)), likelihood="gaussian", epochs=2000, rate_lr=0.01, lengthscale="faint"
)
prediction = gd.predict_regression(model, torch.tensor(grid), num_samples=200, seed=0)
print({name: round(p, 3) for name, p in gd.dropout_rates(model).items()})

# %%
# Bands are two standard deviations of the function, without the noise; thin lines are drawn functions.

fig, axes = plt.subplots(1, 2, figsize=(8.8, 3.6), sharey=True)
posteriors = {
    "Gaussian process": (mean, of_function),
    "learned dropout": (prediction.mean[:, 0], prediction.epistemic[:, 0].sqrt()),
}
for ax, (name, (center, spread)) in zip(axes, posteriors.items(), strict=True):
    ax.fill_between(grid[:, 0], center - 2 * spread, center + 2 * spread, alpha=0.25, linewidth=0)
    ax.plot(grid, center, color="C0")
    ax.plot(grid, np.sin(2 * grid), "--", color="0.5", linewidth=1)
    ax.plot(x, y, "o", color="0.2", markersize=3.5)
    ax.set(title=name, ylim=(-4, 4), xlabel="x")
axes[1].plot(grid, prediction.draw_means[:6, :, 0].T, color="C0", alpha=0.5, linewidth=0.7)
plt.show()

# %%
# Near the data the two are alike. Far from them the Gaussian process returns to its prior. The drawn functions of a
# ReLU network go on as straight lines: the band widens where their slopes differ, and where all are flat there is none.
