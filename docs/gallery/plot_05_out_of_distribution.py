"""
Classes and out-of-distribution inputs
======================================

A digit 1 that turns leaves the training data step by step. The predictive entropy says that the network is uncertain;
the mutual information says how much of that is for lack of data.
"""

# %%
# The digits 0 to 9 of scikit-learn, and a dense network with learned rates.

import matplotlib.pyplot as plt
import torch
from scipy.ndimage import rotate
from sklearn.datasets import load_digits

import gumdrop as gd
from gumdrop import metrics, training
from gumdrop.networks import mlp

images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
images, labels = images[order].float() / 16, labels[order]
torch.manual_seed(0)
model = mlp(64, 10, hidden=[128, 128])
training.fit(model, (images[:1000], labels[:1000]), likelihood="categorical", epochs=30, rate_lr=0.02)

# %%
# Ten ones of the test part, each turned by 0 to 180 degrees.

angles = torch.arange(0, 181, 15)
ones = images[1400:][labels[1400:] == 1][:10].view(-1, 8, 8)
turned = torch.stack(
    [torch.tensor(rotate(ones, float(angle), axes=(1, 2), reshape=False, order=1)) for angle in angles]
).view(len(angles), 10, 64)
prediction = gd.predict_classification(model, turned.flatten(0, 1), num_samples=200, seed=0)


def mean_by_angle(value):
    return value.view(len(angles), 10, *value.shape[1:]).mean(1)


probabilities = mean_by_angle(prediction.probabilities)

# %%
# Above: one of the digits. Middle: mean probability of three classes. Below: the two parts of the uncertainty.

fig = plt.figure(figsize=(8, 5.6))
top, rest = fig.subfigures(2, 1, height_ratios=[1, 4])
for ax, image in zip(top.subplots(1, len(angles)), turned[:, 0], strict=True):
    ax.imshow(image.view(8, 8).numpy(), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
middle, below = rest.subplots(2, 1, sharex=True)
for digit in probabilities.amax(0).topk(4).indices.sort().values:
    middle.plot(angles, probabilities[:, digit], "o-", markersize=3, label=f"{digit}")
middle.set(ylabel="probability", ylim=(0, 1))
middle.legend(title="class", loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
below.stackplot(
    angles,
    mean_by_angle(prediction.expected_entropy),
    mean_by_angle(prediction.mutual_information),
    labels=["expected\nentropy", "mutual\ninformation"],
    colors=["C1", "C0"],
    alpha=0.7,
)
below.set(xlabel="angle, degrees", ylabel="nats", xticks=angles[::2])
below.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
plt.show()

# %%
# At some angles the network is sure of another class: a turned 1 can look like a digit that it knows. No score of a
# classifier sees that.
#
# A score becomes an alarm by rows that were held out: `outlier_p_values` keeps the rate of false alarms at the level
# that you choose. The reference are digits that the network was not trained on.

held_out = gd.predict_classification(model, images[1000:1400], seed=0).mutual_information
p = metrics.outlier_p_values(prediction.mutual_information, held_out).reshape(len(angles), 10)
upright = metrics.outlier_p_values(gd.predict_classification(model, images[1400:], seed=0).mutual_information, held_out)
print(
    f"alarms at 5 %: upright test digits {(upright <= 0.05).mean():.0%}, ones at 90 degrees {(p[6] <= 0.05).mean():.0%}"
)
