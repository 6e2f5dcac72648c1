"""
Rates fall as data grow
=======================

A dropout rate is a statement of how much the data leave open. Few rows: the entropy of the masks wins, and rates stay
high. Many rows: the likelihood wins, and rates fall. Nothing is tuned here; the same code runs on every size.
"""

# %%
# The data are a straight line in noise of standard deviation 1, as in the first figure of the Concrete Dropout paper.

import matplotlib.pyplot as plt
import torch

import gumdrop as gd
from gumdrop import training
from gumdrop.networks import mlp

SIZES = [10, 30, 100, 300, 1000, 3000]
STEPS, BATCH = 500, 50


def line(count):
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(count, 1, generator=generator)
    return x, 2 * x + torch.randn(count, 1, generator=generator)


# %%
# `mlp` builds a network with learned dropout in front of each layer. Its first layer reads a single unit, and to drop
# that would drop everything, so the rates are those of the two hidden layers. Each size takes the same number of steps.

models, rates = {}, {}
for count in SIZES:
    torch.manual_seed(0)
    model = mlp(1, 1, hidden=[32, 32], homoscedastic_noise=True)
    epochs = STEPS * BATCH // max(count, BATCH)
    training.fit(model, line(count), likelihood="gaussian", epochs=epochs, batch_size=BATCH, rate_lr=0.02)
    models[count], rates[count] = model, gd.dropout_rates(model)

# %%
# Left: the rates. Middle and right: what ten and three thousand rows leave open. The inner band is epistemic, one
# standard deviation of the drawn functions; the outer one adds the noise.

fig, (left, *others) = plt.subplots(1, 3, figsize=(9.6, 3.2))
for name, label in (("2", "hidden layer 1"), ("4", "hidden layer 2")):
    left.plot(SIZES, [rates[count][name] for count in SIZES], "o-", label=label)
left.set(xscale="log", ylim=(0, 0.55), xlabel="training rows", ylabel="learned drop probability")
left.legend()

grid = torch.linspace(-4, 4, 100).unsqueeze(1)
for ax, count in zip(others, (SIZES[0], SIZES[-1]), strict=True):
    x, y = line(count)
    prediction = gd.predict_regression(models[count], grid, num_samples=200, seed=0)
    mean, at = prediction.mean[:, 0], grid[:, 0]
    for variance, opacity in ((prediction.variance, 0.15), (prediction.epistemic, 0.4)):
        spread = variance[:, 0].sqrt()
        ax.fill_between(at, mean - spread, mean + spread, color="C0", alpha=opacity, linewidth=0)
    ax.plot(at, mean, color="C0")
    ax.plot(x[:200], y[:200], ".", color="0.2", markersize=3)
    ax.set(title=f"{count:,} rows", ylim=(-12, 12), xlabel="x")
plt.show()

# %%
# With 3,000 rows the epistemic band has closed, inside the data and outside of them. That is what the objective asks
# for, and it is also a limit: a single network whose rates are 0 no longer says where it has seen no data. See
# :doc:`/epistemic` and :ref:`the example on ensembles <sphx_glr_generated_gallery_plot_12_deep_ensemble.py>`.
