"""
What did the network look at?
=============================

`FIDO` learns a dropout rate for each pixel: the smallest region that suffices for an answer, and the smallest whose
loss destroys it. It works on any classifier, with or without learned dropout.
"""

# %%
# A small convolutional network on the digits of scikit-learn.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from gumdrop.attribution import FIDO, FIDOSettings

images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
images, labels = images[order].float().view(-1, 1, 8, 8) / 16, labels[order]
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(288, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for _ in range(8):
    for rows in torch.randperm(1200).split(50):
        optimizer.zero_grad()
        F.cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
model.eval()

# %%
# One test digit of each class, all searched for at once. What is dropped becomes background.

digits = torch.stack([images[1200:][labels[1200:] == digit][0] for digit in range(10)])
explanation = FIDO(model, FIDOSettings(iterations=80)).explain(digits, target=torch.arange(10), infill="zeros")

# %%
# From above: the digit, what suffices, what destroys, and what does both.

rows = {"digit": digits, **{name: explanation.relevance(name) for name in ("ssr", "sdr", "joint")}}
fig, axes = plt.subplots(4, 10, figsize=(9, 3.9))
for line, (name, pictures) in zip(axes, rows.items(), strict=True):
    line[0].set_ylabel(name)
    for ax, picture in zip(line, pictures, strict=True):
        ax.imshow(picture[0].numpy(), cmap="gray_r" if name == "digit" else "viridis", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
plt.show()

# %%
# Is it true? The network keeps its answer with the sufficient region alone, and loses it without the destroying one.

with torch.no_grad():
    for name, shown in (
        ("as they are", digits),
        ("SSR alone", explanation.blended_ssr),
        ("without SDR", explanation.blended_sdr),
    ):
        probability = model(shown).softmax(1).diagonal()
        print(f"{name:12} mean probability of the class {probability.mean():.3f}")
