"""
Convert a model that exists
===========================

`learn_dropout` works on the model that you have: it keeps its class, its weights and its state-dict keys. Here a small
convolutional network was trained without uncertainty. It is converted and fine-tuned for a few epochs.
"""

# %%
# The model, as somebody else wrote and trained it.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import gumdrop as gd

images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float().view(-1, 1, 8, 8) / 16
train, test = torch.randperm(1797, generator=torch.Generator().manual_seed(0)).split([1200, 597])


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten()
        )
        self.dropout = nn.Dropout(0.5)
        self.classify = nn.Linear(32 * 3 * 3, 10)

    def forward(self, x):
        return self.classify(self.dropout(self.features(x)))


def train_for(model, epochs, optimizer, loss_of):
    model.train()
    for _ in range(epochs):
        for rows in train[torch.randperm(len(train))].split(50):
            optimizer.zero_grad()
            loss_of(model, rows).backward()
            optimizer.step()
    model.eval()


model = Digits()
plain = torch.optim.AdamW(model.parameters(), lr=2e-3)
train_for(model, 8, plain, lambda model, rows: F.cross_entropy(model(images[rows]), labels[rows]))

# %%
# One call converts it. The report says what became of each layer: the `nn.Dropout` is replaced, the layer behind it
# starts from its rate, and a convolution over a single channel is left alone.

keys = set(model.state_dict())
gd.learn_dropout(model, report=print)
print("new keys:", sorted(set(model.state_dict()) - keys))

# %%
# The optimiser is made after the conversion, with the rates in a group of their own, and the loss is the negative ELBO.

before = gd.dropout_rates(model)
optimizer = torch.optim.AdamW(gd.parameter_groups(model, rate_lr=0.02), lr=2e-3)


def negative_elbo(model, rows):
    nll = gd.categorical_nll(model(images[rows]), labels[rows])
    return gd.negative_elbo(nll, model, num_data=len(train), likelihood="categorical")


train_for(model, 8, optimizer, negative_elbo)
after = gd.dropout_rates(model)
prediction = gd.predict_classification(model, images[test], seed=0)
print(f"accuracy {(prediction.label == labels[test]).float().mean():.3f}")

# %%
# Left: where the rates started and where they ended. Right: the six test digits with the highest entropy.

fig = plt.figure(figsize=(8.4, 3.0))
bars, right = fig.subfigures(1, 2, width_ratios=[1, 1.3])
ax = bars.subplots()
for place, name in enumerate(after):
    ax.annotate(
        "", (after[name], place), (before[name], place), arrowprops={"arrowstyle": "->", "color": "C0", "lw": 2}
    )
    ax.plot(before[name], place, "o", color="0.6")
    ax.text(after[name], place + 0.15, f"{after[name]:.3f}", ha="center", color="C0")
ax.set(xlim=(-0.08, 0.6), ylim=(-0.6, len(after) - 0.3), xlabel="drop probability")
ax.set_yticks(range(len(after)), list(after))
unsure = prediction.predictive_entropy.argsort(descending=True)[:6]
for ax, row in zip(right.subplots(2, 3).flat, unsure, strict=True):
    ax.imshow(images[test[row], 0].numpy(), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
    first, second = prediction.probabilities[row].topk(2).indices.tolist()
    ax.set_title(f"{first} or {second}? it is {labels[test[row]]}", fontsize=8)
plt.show()

# %%
# `fix_dropout` freezes the rates: ordinary dropout at the rates that were learned, with nothing left to learn.

gd.fix_dropout(model)
print({name: round(p, 3) for name, p in gd.dropout_rates(model).items()})
