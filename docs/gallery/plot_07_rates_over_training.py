"""
Rates of each layer over training
=================================

The history of a fit holds the rates of every epoch. They show which layers the data pin down, and when.
"""

# %%
# Two sizes of the same data: 100 and 1,500 digits, with 1,200 steps each.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from gumdrop import training
from gumdrop.networks import mlp
from gumdrop.views.plots import rates_over_training

images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float() / 16
LAYERS = {"0": "input", "2": "hidden 1", "4": "hidden 2"}

fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), sharey=True)
for ax, count, epochs, batch_size in zip(axes, (100, 1500), (240, 40), (20, 50), strict=True):
    torch.manual_seed(0)
    model = mlp(64, 10, hidden=[64, 64])
    result = training.fit(
        model, (images[:count], labels[:count]), likelihood="categorical", epochs=epochs, batch_size=batch_size
    )
    history = {label: [record.rates[name] for record in result.history] for name, label in LAYERS.items()}
    rates_over_training([record.epoch for record in result.history], history, ax=ax)
    ax.set_title(f"{count:,} digits")
plt.show()

# %%
# With 100 digits much stays open, and with 1,500 the hidden layers are pinned down. ``result.history`` also has the
# losses, for a plot of the two terms of the objective.

record = result.history[-1]
print(f"epoch {record.epoch}: NLL {record.nll:.3f}, KL / N {record.kl:.3f} nats")
