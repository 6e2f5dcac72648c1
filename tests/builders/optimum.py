"""A problem whose best rate is known, trained as a user would."""

import math

import torch
from torch import nn

import gumdrop as gd

from builders import reference as ref


def train(problem: ref.LinearProblem, *, temperature: float, steps: int = 500, rows: int = 4000) -> float:
    """Fit weights and rate as a user would, on a batch of many copies of the data; return the rate found."""
    model = gd.learn_dropout(nn.Linear(problem.num_units, 1, bias=False), p=0.25)
    model.concrete_dropout.temperature = temperature  # not as an argument, since high ones are warned of
    copies = rows // problem.num_data
    x = torch.tensor(problem.x, dtype=torch.float32).repeat(copies, 1)
    y = torch.tensor(problem.y, dtype=torch.float32).repeat(copies).unsqueeze(1)
    log_variance = torch.tensor(math.log(problem.noise_variance))
    optimizer = torch.optim.Adam(gd.parameter_groups(model), lr=0.03)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=1e-4)
    for _ in range(steps):
        nll = gd.gaussian_nll(model(x), log_variance, y).mean()  # a scalar: the batch is larger than the data
        loss = gd.negative_elbo(nll, model, num_data=problem.num_data, lengthscale=math.sqrt(problem.precision))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    (p,) = gd.dropout_rates(model).values()
    assert isinstance(p, float)
    return p
