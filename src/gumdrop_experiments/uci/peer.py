"""The installable package `concretedropout`, used as its documentation says, beside gumdrop."""

import itertools
import math
import time
from typing import Any

import torch
from torch import Tensor, nn

from gumdrop.likelihoods import RegressionPrediction
from gumdrop_experiments.training import seeded
from gumdrop_experiments.uci.work import LR, NUM_SAMPLES, PAPER_LENGTHSCALE, Outcome, Work, in_units


class _PeerNetwork(nn.Module):
    """The network of the comparison, of the layers of the package `concretedropout`."""

    def __init__(self, num_inputs: int, num_rows: int) -> None:
        super().__init__()
        from concretedropout.pytorch import ConcreteLinearDropout

        sizes = itertools.pairwise([num_inputs, 50, 50, 2])
        self.layers = nn.ModuleList([nn.Linear(*pair) for pair in sizes])
        # For a loss of exp(-s) (y - f)^2 + s, twice the nats, as its documentation has it.
        factors = {"weight_regularizer": PAPER_LENGTHSCALE**2 / num_rows, "dropout_regularizer": 2 / num_rows}
        self.sites = nn.ModuleList([ConcreteLinearDropout(**factors) for _ in self.layers])

    def peers(self) -> list[Any]:
        return list(self.sites)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for i, (site, layer) in enumerate(zip(self.sites, self.layers, strict=True)):
            x = site((torch.relu(x) if i else x).clone(), layer)  # it writes into its input
        mean, log_variance = x.chunk(2, dim=-1)
        return mean, log_variance


def peer(work: Work) -> Outcome:
    """Train the package's layers split by split; they cannot be stacked, because they keep state between calls."""
    batch_size, epochs = work.schedule
    predictions, rates = [], []
    started = time.process_time()
    with seeded(work.seed):
        for split in work.splits:
            model = _PeerNetwork(split.x_train.shape[1], len(split.x_train))
            steps = epochs * math.ceil(len(split.x_train) / batch_size)
            optimizer = torch.optim.Adam(model.parameters(), lr=LR)
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=steps, cycle_momentum=False)
            for _ in range(epochs):
                for rows in torch.randperm(len(split.x_train)).split(batch_size):
                    mean, s = model(split.x_train[rows])
                    loss = (torch.exp(-s) * (split.y_train[rows] - mean).square() + s).mean()
                    optimizer.zero_grad()
                    torch.stack([loss, *(site.regularization for site in model.peers())]).sum().backward()
                    optimizer.step()
                    scheduler.step()
            predictions.append(_prediction(model, split.x_test))
            rates.append([float(torch.sigmoid(site.p_logit.detach())) for site in model.peers()])
    seconds = time.process_time() - started
    passes = epochs * sum(len(split.x_train) for split in work.splits)
    return Outcome(in_units(predictions, work.splits), rates, seconds, passes, [])


@torch.no_grad()
def _prediction(model: _PeerNetwork, x: Tensor) -> RegressionPrediction:
    model.train()  # its masks are drawn in training alone
    means, log_variances = (torch.stack(part) for part in zip(*(model(x) for _ in range(NUM_SAMPLES)), strict=True))
    variances = log_variances.exp().clamp(min=1e-12)
    return RegressionPrediction(means.mean(0), means.var(0, correction=0), variances.mean(0), means, variances)
