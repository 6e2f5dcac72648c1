"""
Active learning with rare classes
=================================

Which rows are to be labelled next? Where interesting rows are rare, a network can ask for them. Three ways to choose:
by the highest entropy, in proportion to the mutual information, which also spreads the rows, and at random.
"""

# %%
# A pool of digits in which 7, 8 and 9 are rare, and a test part in which all classes are as frequent.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import gumdrop as gd
from gumdrop import training
from gumdrop.metrics import accuracy, choose
from gumdrop.networks import mlp

images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float() / 16
rare = torch.cat([(labels[:1200] == digit).nonzero()[8:, 0] for digit in (7, 8, 9)])
pool = torch.tensor(sorted(set(range(1200)) - set(rare.tolist())))
SEEDS, START, BATCH, ROUNDS = 3, 40, 20, 6

# %%
# The whole loop. Three runs, from other first rows, are trained as one program.


def learn(rows_of):
    order = [pool[torch.randperm(len(pool), generator=torch.Generator().manual_seed(seed))] for seed in range(SEEDS)]
    known, found = [rows[:START] for rows in order], []
    for _ in range(ROUNDS):
        torch.manual_seed(0)
        models = [mlp(64, 10, hidden=[64]) for _ in range(SEEDS)]
        training.fit_stacked(
            models, [(images, labels)] * SEEDS, rows=known, likelihood="categorical", epochs=40, rate_lr=0.01
        )
        found.append(
            [accuracy(gd.predict_classification(m, images[1200:], seed=0).label, labels[1200:]) for m in models]
        )
        for run, model in enumerate(models):
            left = order[run][~torch.isin(order[run], known[run])]
            prediction = gd.predict_classification(model, images[left], num_samples=50, seed=0)
            known[run] = torch.cat([known[run], left[rows_of(prediction)]])
    return torch.tensor(found), known


ways = {
    "in proportion to mutual information": lambda prediction: choose(prediction.mutual_information, BATCH, seed=0),
    "highest entropy": lambda prediction: choose(prediction.predictive_entropy, BATCH),
    "at random": lambda prediction: torch.arange(BATCH),
}
found = {name: learn(rows_of) for name, rows_of in ways.items()}

# %%
# Left: accuracy on the test part, mean and range of three runs. Right: how many of the rare digits each way found.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), width_ratios=[1.4, 1])
counts = [START + BATCH * step for step in range(ROUNDS)]
for place, (name, (scores, known)) in enumerate(found.items()):
    left.plot(counts, scores.mean(1), "o-", label=name)
    left.fill_between(counts, scores.amin(1), scores.amax(1), alpha=0.15, linewidth=0)
    right.barh(place, sum((labels[rows] >= 7).sum().item() for rows in known) / SEEDS, color=f"C{place}")
left.set(xlabel="labels", ylabel="accuracy")
left.legend(loc="lower right", fontsize=8)
right.set(xlabel="digits 7 to 9 among the labels, of 24", yticks=[])
right.invert_yaxis()
plt.show()

# %%
# The highest entropy finds nearly all of the rare digits. No way is best for every pool: with ten classes that are all
# as frequent, the highest scores lose to random rows, see :doc:`/decisions`.
