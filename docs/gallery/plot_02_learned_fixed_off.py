"""
Learned, fixed or no dropout
============================

A fixed rate that suits one data set is wrong for the next. Here the same network meets two: few noisy rows, and many
rows without noise. Fixed rates are tried from none to .3; the learned rates are found in one run.
"""

# %%
# Friedman's function of ten inputs, of which five matter. Each problem has rows to train on, rows that are held out for
# the noise, and 1,000 new rows that score.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_friedman1

import gumdrop as gd
from gumdrop import training
from gumdrop.networks import mlp

FIXED = [0.0, 0.02, 0.05, 0.1, 0.2, 0.3]
SETTINGS = {"likelihood": "gaussian", "lengthscale": "faint", "rate_lr": 0.02, "held_out_noise": True}


def friedman(count, noise):
    x, y = make_friedman1(count + 1000, n_features=10, noise=noise, random_state=0)
    return torch.tensor(2 * x - 1, dtype=torch.float32), torch.tensor((y[:, None] - 14.4) / 4.9, dtype=torch.float32)


def networks():
    """One network for each fixed rate, where a rate of 0 is no dropout, and one whose rates are learned."""
    made = []
    for rate in [*FIXED, None]:
        torch.manual_seed(0)
        made.append(mlp(10, 1, hidden=[32, 32], homoscedastic_noise=True, p=0.1 if rate is None else max(rate, 1e-6)))
    return [gd.fix_dropout(model) for model in made[:-1]], made[-1:]


# %%
# `fit_stacked` trains the networks with fixed rates as one program. The score is the mean log likelihood of the new
# rows, in nats.


def scores_of(models, x, y, count, epochs):
    train, held_out, test = torch.arange(len(x)).split([count * 4 // 5, count // 5, len(x) - count])
    each = len(models)
    training.fit_stacked(
        models, [(x, y)] * each, rows=[train] * each, held_out=[held_out] * each, epochs=epochs, **SETTINGS
    )
    return [gd.predict_regression(model, x[test], seed=0).log_prob(y[test]).mean().item() for model in models]


found = {}
for name, count, noise, epochs in (("200 rows, much noise", 200, 4.0, 120), ("1,500 rows, no noise", 1500, 0.0, 20)):
    data, (fixed, learned) = friedman(count, noise), networks()
    scores = scores_of(fixed, *data, count, epochs), scores_of(learned, *data, count, epochs)
    found[name] = *scores, gd.dropout_rates(learned[0])

# %%
# The line is the network with learned rates, with its rates from input to output in the legend.

fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.4))
for ax, (name, (fixed, learned, rates)) in zip(axes, found.items(), strict=True):
    ax.plot(range(len(FIXED)), fixed, "o", color="0.35", label="fixed")
    ax.axhline(learned[0], color="C1", label="learned: " + ", ".join(f"{p:.3f}" for p in rates.values()))
    ax.set(title=name, xlabel="fixed rate", ylabel="test log likelihood, nats")
    ax.set_xticks(range(len(FIXED)), ["none", *map(str, FIXED[1:])])
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
plt.show()

# %%
# The learned rates are near the best of both. With noise they beat no dropout; without noise they go to 0, and stay a
# little behind no dropout because they were not 0 from the start.
