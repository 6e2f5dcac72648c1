"""
Epistemic and aleatoric uncertainty
===================================

More rows remove epistemic uncertainty and do not remove aleatoric uncertainty. A regression with a gap in its inputs
and with noise that grows shows both parts at once.
"""

# %%
# There are no rows between -.5 and .7, and the noise grows from left to right.

import matplotlib.pyplot as plt
import torch

import gumdrop as gd
from gumdrop import training
from gumdrop.networks import mlp

generator = torch.Generator().manual_seed(1)
x = torch.cat(
    [torch.empty(60).uniform_(-2, -0.5, generator=generator), torch.empty(60).uniform_(0.7, 2, generator=generator)]
)
noise = 0.05 + 0.1 * (x + 2)
y = torch.sin(2 * x) + noise * torch.randn(120, generator=generator)
x, y = x.unsqueeze(1), y.unsqueeze(1)

# %%
# Two outputs: a mean and a log variance. The variance is learned with the mean, for each input.

torch.manual_seed(0)
model = mlp(1, 2, hidden=[64, 64])
training.fit(model, (x, y), likelihood="gaussian", epochs=300, rate_lr=0.02, lengthscale="faint")

grid = torch.linspace(-3, 3, 200).unsqueeze(1)
prediction = gd.predict_regression(model, grid, num_samples=200, seed=0)

# %%
# Above: the total interval, with ten drawn functions. Below: the two parts, and the true noise.

fig, (above, below) = plt.subplots(2, 1, figsize=(7.2, 5.4), sharex=True)
at = grid[:, 0]
lower, upper = (end[:, 0] for end in prediction.interval(0.9))
above.fill_between(at, lower, upper, color="C0", alpha=0.2, linewidth=0, label="90 % interval")
above.plot(at, prediction.draw_means[:10, :, 0].T, color="C0", alpha=0.4, linewidth=0.8)
above.plot(x, y, ".", color="0.2", markersize=4)
above.set(ylim=(-3, 3), ylabel="y")
above.legend(loc="upper left")
below.plot(at, prediction.epistemic[:, 0].sqrt(), color="C0", label="epistemic")
below.plot(at, prediction.aleatoric[:, 0].sqrt(), color="C1", label="aleatoric")
below.plot(at, 0.05 + 0.1 * (at.clamp(-2, 2) + 2), "--", color="C1", alpha=0.6, label="true noise")
for ax in (above, below):
    ax.axvspan(-0.5, 0.7, color="0.5", alpha=0.12, linewidth=0)
below.set(xlabel="x", ylabel="standard deviation", ylim=(0, 0.7))
below.legend(loc="upper left", ncols=3)
plt.show()
