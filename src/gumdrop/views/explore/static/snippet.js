// The code of what is on the page, to run where there is PyTorch.
(function () {
  "use strict";

  const HEAD = `import math

import torch
from torch import nn

import gumdrop as gd
`;
  const DATA = (points) => `
points = torch.tensor([${points.map(([x, y]) => `[${x}, ${y}]`).join(", ")}]).reshape(-1, 2)
x, y = points[:, :1], points[:, 1:]
grid = torch.linspace(-3, 3, 121).unsqueeze(1)`;

  const dropout = (points, { rates, p, repeat, lengthscale, temperature, seed }) => `${HEAD}${DATA(points)}

torch.manual_seed(${seed})
noise = gd.HomoscedasticNoise(1, log_variance=math.log(0.04), gamma_prior=(100, 4))  # around an SD of 0.2
model = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), noise)
nn.init.uniform_(model[0].bias, -2, 2)
gd.learn_dropout(model, p=${rates === "fixed" ? p : 0.2}, exclude=["0"])  # an only input is never dropped
for module in model.modules():
    if hasattr(module, "scaled_logit"):
        module.temperature = ${temperature}${rates === "fixed" ? "\n        module.scaled_logit.requires_grad_(False)" : ""}

optimizer = torch.optim.AdamW(gd.parameter_groups(model, rate_lr=2e-3), lr=4e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step / 800))
repeats = max(1, 128 // len(points))  # a mask for each row makes the gradient quieter
rows, targets = x.repeat(repeats, 1), y.repeat(repeats, 1)
for step in range(1500):
    nll = gd.gaussian_nll(*model(rows).chunk(2, dim=-1), targets).mean()
    loss = gd.negative_elbo(nll, model, num_data=${Math.max(1, Math.round(repeat * points.length))}, lengthscale=${lengthscale})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()

prediction = gd.predict_regression(model, grid, num_samples=40, seed=0)
mean, epistemic = prediction.mean, prediction.epistemic.sqrt()
print(gd.dropout_rates(model))
`;

  const members = (points, { repeat, lengthscale, seed }, count) => `${HEAD}${DATA(points)}

torch.manual_seed(${seed})
members = []
for _ in range(${count}):
    noise = gd.HomoscedasticNoise(1, log_variance=math.log(0.04), gamma_prior=(100, 4))  # around an SD of 0.2
    model = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), noise)
    nn.init.uniform_(model[0].bias, -2, 2)
    behind = [tensor for layer in (model[2], model[4]) for tensor in layer.parameters()]
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step / 800))
    for step in range(1500):
        nll = gd.gaussian_nll(*model(x).chunk(2, dim=-1), y).mean()
        prior = ${lengthscale} ** 2 / 2 * sum(tensor.square().sum() for tensor in behind) + noise.negative_log_prior()
        optimizer.zero_grad()
        (nll + prior / ${Math.max(1, Math.round(repeat * points.length))}).backward()
        optimizer.step()
        schedule.step()
    members.append(model(grid)[:, :1].detach())

functions = torch.stack(members)
mean, epistemic = functions.mean(0), functions.std(0, correction=0)
`;

  const process = (points, { repeat }) => `import torch
${DATA(points)}


def kernel(a, b):
    return torch.exp(-0.5 * ((a - b.T) / 0.5) ** 2)


noise = 0.04 / ${repeat} * torch.eye(len(x))
weights = torch.linalg.solve(kernel(x, x) + noise, kernel(x, grid))
mean = weights.T @ y
epistemic = (1 - (weights * kernel(x, grid)).sum(0)).clamp(min=0).sqrt().unsqueeze(1)
`;

  /** Python code for points and settings. */
  function snippet(points, settings) {
    if (settings.model === "process") return process(points, settings);
    if (settings.model === "ensemble") return members(points, settings, 8);
    return settings.rates === "off" ? members(points, settings, 1) : dropout(points, settings);
  }

  Gumdrop.snippet = snippet;
})();
