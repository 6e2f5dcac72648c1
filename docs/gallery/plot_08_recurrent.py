"""
Forecasts by a recurrent network
================================

An LSTM with learned dropout draws one mask for a whole sequence, so a draw is one function. Each drawn function
continues the series on its own: the fan of their paths is the uncertainty of a forecast many steps ahead.
"""

# %%
# A noisy wave whose amplitude swings. The LSTM reads sixteen values and predicts the next one.

import matplotlib.pyplot as plt
import torch
from torch import nn

import gumdrop as gd
from gumdrop import training

WINDOW, AHEAD, NOW = 16, 80, 400
generator = torch.Generator().manual_seed(0)
time = torch.arange(float(NOW + AHEAD))
truth = torch.sin(0.4 * time) * (1 + 0.5 * torch.sin(0.05 * time))
series = truth + 0.1 * torch.randn(len(time), generator=generator)
windows = series[:NOW].unfold(0, WINDOW, 1)[:-1].unsqueeze(2)
following = series[WINDOW:NOW].unsqueeze(1)

# %%
# `recurrent=True` also drops the hidden state on its way to the next step. The input is a single unit, so it has no
# rate: the hidden state has one, and the head.


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 32, batch_first=True)
        self.head = nn.Linear(32, 1)
        self.noise = gd.HomoscedasticNoise(1)

    def forward(self, x):
        return self.noise(self.head(self.lstm(x)[0][:, -1]))


torch.manual_seed(0)
model = gd.learn_dropout(Forecast(), recurrent=True, report=print)
training.fit(model, (windows, following), likelihood="gaussian", epochs=60, lr=1e-2, rate_lr=0.01, lengthscale="faint")
print({name: round(p, 3) for name, p in gd.dropout_rates(model).items()})

# %%
# `gd.draw` fixes the masks: inside it the model is one function, which is fed with its own answers.


@torch.no_grad()
def path(seed):
    noise = torch.Generator().manual_seed(seed)
    values = series[NOW - WINDOW : NOW].tolist()
    drawn = gd.draw(model, seed=seed)
    for _ in range(AHEAD):
        mean, log_variance = drawn(torch.tensor(values[-WINDOW:]).view(1, WINDOW, 1))[0]
        values.append(mean.item() + (log_variance / 2).exp().item() * torch.randn((), generator=noise).item())
    return values[WINDOW:]


paths = torch.tensor([path(seed) for seed in range(40)])

# %%
# Each path also draws the noise of each step. The band holds the middle 90 % of the paths.

fig, ax = plt.subplots(figsize=(8.6, 3.6))
ahead = time[NOW:]
lower, upper = paths.quantile(torch.tensor([0.05, 0.95]), dim=0)
ax.plot(time[NOW - 80 : NOW], series[NOW - 80 : NOW], ".", color="0.2", markersize=4, label="seen")
ax.plot(ahead, series[NOW:], ".", color="C1", markersize=4, label="what came")
ax.fill_between(ahead, lower, upper, color="C0", alpha=0.25, linewidth=0, label="90 % of the paths")
ax.plot(ahead, paths[:3].T, color="C0", alpha=0.5, linewidth=0.8)
ax.set(xlabel="time", ylim=(-3, 3))
ax.legend(loc="upper left", ncols=3)
plt.show()

inside = ((lower <= series[NOW:]) & (series[NOW:] <= upper)).float()
print(f"inside: {inside[:20].mean():.0%} of the first 20 steps, {inside.mean():.0%} of all {AHEAD}")
