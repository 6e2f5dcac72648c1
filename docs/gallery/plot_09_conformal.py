"""
Conformal intervals
===================

`conformalize` turns held-out rows into a guarantee: an interval holds a new target with the probability that was asked
for, whatever the model, as long as held-out and new rows come from the same source.
"""

# %%
# Friedman's function of five of ten inputs, in noise of standard deviation 1. Two ensembles are fitted to the same
# rows: one of small networks, and one that hardly trains.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from gumdrop.estimators import ConcreteDropoutRegressor

X, y = make_friedman1(1500, noise=1.0, random_state=0)
X, X_new, y, y_new = train_test_split(X, y, test_size=500, random_state=0)
X, X_held, y, y_held = train_test_split(X, y, test_size=300, random_state=0)

options = {"hidden_layer_sizes": (32, 32), "n_members": 3, "conformal": True, "random_state": 0}
models = {"40 epochs": ConcreteDropoutRegressor(max_iter=40, **options)}
models["2 epochs"] = ConcreteDropoutRegressor(max_iter=2, **options)

# %%
# The same held-out rows serve every coverage.

LEVELS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
coverage, width = {}, {}
for name, model in models.items():
    model.fit(X, y).conformalize(X_held, y_held)
    ends = [model.predict_interval(X_new, coverage=level) for level in LEVELS]
    coverage[name] = [np.mean((lower <= y_new) & (y_new <= upper)) for lower, upper in ends]
    width[name] = [np.mean(upper - lower) for lower, upper in ends]

# %%
# Both hold what they promise, up to the chance of 500 rows (grey). What the better model buys is width.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6))
chance = 2 * np.sqrt(LEVELS * (1 - LEVELS) / len(y_new))
left.fill_between(LEVELS, LEVELS - chance, LEVELS + chance, color="0.5", alpha=0.2, linewidth=0)
for name in models:
    left.plot(LEVELS, coverage[name], "o-", label=name)
    right.plot(LEVELS, width[name], "o-", label=name)
left.set(xlabel="coverage asked for", ylabel="share of new rows inside")
right.set(xlabel="coverage asked for", ylabel="mean width", ylim=(0, None))
left.legend()
plt.show()
