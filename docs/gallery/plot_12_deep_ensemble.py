"""
A deep ensemble with learned dropout
====================================

With many rows the rates of one network fall to 0, and with them its epistemic part. The members of an ensemble still
differ where there are no data. `fit_stacked` trains them as one program; `mixture` joins their predictions.
"""

# %%
# 600 rows with a gap.

import matplotlib.pyplot as plt
import torch

import gumdrop as gd
from gumdrop import training
from gumdrop.likelihoods import RegressionPrediction
from gumdrop.networks import mlp

generator = torch.Generator().manual_seed(0)
x = torch.cat(
    [
        torch.empty(300, 1).uniform_(-2, -0.4, generator=generator),
        torch.empty(300, 1).uniform_(0.8, 2, generator=generator),
    ]
)
y = torch.sin(3 * x) + 0.1 * torch.randn(600, 1, generator=generator)

torch.manual_seed(0)
members = [mlp(1, 1, hidden=[64, 64], homoscedastic_noise=True, activation="silu") for _ in range(5)]
training.fit_stacked(
    members, [(x, y)] * 5, likelihood="gaussian", epochs=100, rate_lr=0.02, lengthscale="faint", seed=0
)  # fmt: skip

# %%
# The first member alone, and all five.

grid = torch.linspace(-3, 3, 200).unsqueeze(1)
each = [gd.predict_regression(member, grid, num_samples=40, seed=0) for member in members]
predictions = {"one network": each[0], "five networks": RegressionPrediction.mixture(each)}
print("rates of the first member:", {name: round(p, 3) for name, p in gd.dropout_rates(members[0]).items()})

fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), sharey=True)
for ax, (name, prediction) in zip(axes, predictions.items(), strict=True):
    lower, upper = (end[:, 0] for end in prediction.interval(0.9))
    ax.fill_between(grid[:, 0], lower, upper, alpha=0.25, linewidth=0)
    for one in each if name == "five networks" else each[:1]:
        ax.plot(grid, one.mean, color="C0", linewidth=0.9)
    ax.plot(x[::4], y[::4], ".", color="0.2", markersize=3)
    ax.axvspan(-0.4, 0.8, color="0.5", alpha=0.12, linewidth=0)
    ax.set(title=name, xlabel="x", ylim=(-2.5, 2.5))
plt.show()

# %%
# `gumdrop fit` and the estimators train such an ensemble, with a fold of the rows held out from each member.
