"""
Calibration by held-out noise
=============================

A network that learns its noise from training rows learns the rows by heart, and calls what is left noise. The noise is
then too small on new rows. With ``held_out_noise=True`` the noise follows the residuals of held-out rows.
"""

# %%
# The diabetes data of scikit-learn: 442 patients, a noisy target. Both networks train on the same rows for as long.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_diabetes

import gumdrop as gd
from gumdrop import metrics, training
from gumdrop.networks import mlp

x, y = (torch.tensor(part, dtype=torch.float32) for part in load_diabetes(return_X_y=True))
x, y = x / x.std(0), ((y - y.mean()) / y.std()).unsqueeze(1)
train, held_out, test = torch.randperm(442, generator=torch.Generator().manual_seed(0)).split([220, 72, 150])


def fit(**settings):
    torch.manual_seed(0)
    model = mlp(10, 1, hidden=[64, 64], homoscedastic_noise=True)
    training.fit(
        model, (x[train], y[train]), likelihood="gaussian", epochs=150, lengthscale="faint", **settings
    )  # fmt: skip
    return gd.predict_regression(model, x[test], num_samples=200, seed=0)


predictions = {
    "noise from training rows": fit(),
    "held-out noise": fit(validation=(x[held_out], y[held_out]), held_out_noise=True, validation_samples=5),
}

# %%
# A calibrated prediction lies on the diagonal: of its 90 % intervals, 90 % hold the target. The score is the mean log
# likelihood of the test rows.

levels = torch.linspace(0.05, 0.95, 19)
fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6), width_ratios=[1, 1.3])
left.plot([0, 1], [0, 1], color="0.6", linewidth=1)
for name, prediction in predictions.items():
    left.plot(levels, metrics.central_coverage(prediction, y[test], levels), "o-", markersize=3, label=name)
    score, crps = prediction.log_prob(y[test]).mean(), metrics.crps(prediction, y[test])
    print(f"{name}: log likelihood {score:.2f}, CRPS {crps:.3f}")
left.set(xlabel="stated probability", ylabel="share of test rows inside", aspect="equal")
left.legend(loc="lower right", fontsize=8)
order = predictions["held-out noise"].mean[:, 0].argsort()
for colour, prediction in reversed([*zip(("C0", "C1"), predictions.values(), strict=True)]):
    lower, upper = prediction.interval(0.9)
    right.fill_between(range(150), lower[order, 0], upper[order, 0], color=colour, alpha=0.4, linewidth=0)
right.plot(y[test][order], ".", color="0.2", markersize=4)
right.set(xlabel="test rows, by prediction", ylabel="target, standardised", title="90 % intervals")
plt.show()
