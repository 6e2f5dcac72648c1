"""
The strength of dropout: a tempered posterior
=============================================

The ELBO weighs the rates of the layers against each other. How far all of them go is one number more, the strength,
and held-out rows can choose it. With a strength of 1 the posterior is that of the ELBO.
"""

# %%
# Two problems: the diabetes table, 442 rows with much noise, and Friedman's function without noise.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_diabetes, make_friedman1

import gumdrop as gd
from gumdrop import training
from gumdrop.networks import mlp, set_strength

STRENGTHS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
SETTINGS = {"likelihood": "gaussian", "rate_lr": 0.01, "lengthscale": "faint", "held_out_noise": True}


def prepared(x, y):
    x, y = (torch.tensor(part, dtype=torch.float32) for part in (x, y))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return ((x - x.mean(0)) / x.std(0))[order], ((y - y.mean()) / y.std())[order].unsqueeze(1)


problems = {
    "diabetes": (prepared(*load_diabetes(return_X_y=True)), 100),
    "Friedman, no noise": (prepared(*make_friedman1(1000, noise=0.0, random_state=0)), 40),
}


def network(strength):
    torch.manual_seed(0)
    return set_strength(mlp(10, 1, hidden=[32, 32], homoscedastic_noise=True), strength)


# %%
# Half of the rows train, a quarter sets the noise, and a quarter scores. All strengths are trained as one program.

fig, axes = plt.subplots(2, 2, figsize=(8.4, 5.4), sharex=True)
for column, (name, ((x, y), epochs)) in zip(axes.T, problems.items(), strict=True):
    train, held_out, test = torch.arange(len(x)).split([len(x) // 2, len(x) // 4, len(x) - len(x) // 2 - len(x) // 4])
    models = [network(strength) for strength in STRENGTHS]
    count = len(models)
    training.fit_stacked(
        models, [(x, y)] * count, rows=[train] * count, held_out=[held_out] * count, epochs=epochs, **SETTINGS
    )
    rates = [gd.dropout_rates(model) for model in models]
    for site, label in (("0", "input"), ("2", "hidden 1"), ("4", "hidden 2")):
        column[0].plot(STRENGTHS, [each[site] for each in rates], "o-", label=label)
    scores = [gd.predict_regression(model, x[test], seed=0).log_prob(y[test]) for model in models]
    error = torch.stack([(each - scores[2]).std() / len(test) ** 0.5 for each in scores])
    column[1].errorbar(STRENGTHS, [each.mean() for each in scores], yerr=error, fmt="o-", color="0.3", capsize=3)
    column[0].set(title=name, ylim=(0, 0.52), ylabel="learned drop probability")
    column[1].set(xscale="log", xlabel="strength", ylabel="test log likelihood, nats")
axes[0, 0].legend()
plt.show()

# %%
# The noisy table wants at least the strength of the ELBO, the clean one no more. Bars are standard errors of the
# difference to the ELBO. `tune_strength` makes the choice: it trains a copy with each strength and stays with 1 where
# the gain may be chance. `gumdrop fit` and the estimators do the same.

(x, y), epochs = problems["diabetes"]
tuned = training.tune_strength(
    network(1.0), (x[:220], y[:220]), (x[220:330], y[220:330]), strengths=(0.25, 1.0, 4.0), epochs=epochs, **SETTINGS
)
print("held-out log likelihood:", {strength: round(score, 3) for strength, score in tuned.scores.items()})
print("chosen:", tuned.strength)
