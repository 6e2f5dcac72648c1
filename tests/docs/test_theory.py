"""The derivations of ``docs/theory.md``, with numbers in place of limits."""

import itertools
import math

import pytest
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from gumdrop.functional.kl import bernoulli_entropy

P, L = 0.3, 1.7
"""Drop probability, and the inverse standard deviation of the prior."""
ENTROPY = bernoulli_entropy(torch.tensor(P, dtype=torch.float64).logit()).item()


def test_the_kl_of_the_mixture_is_that_of_the_loss_and_a_constant() -> None:
    column, width = torch.tensor([0.8, -1.1, 0.5], dtype=torch.float64), 0.02
    centres = torch.stack([column, torch.zeros(3, dtype=torch.float64)])
    which = Categorical(torch.tensor([1 - P, P], dtype=torch.float64))
    q = MixtureSameFamily(which, Independent(Normal(centres, width), 1))
    draws = q.sample((200_000,))
    prior = Independent(Normal(torch.zeros(3, dtype=torch.float64), 1 / L), 1)
    each = q.log_prob(draws) - prior.log_prob(draws)
    constant = 3 / 2 * (L**2 * width**2 - 1 - math.log(L**2 * width**2))
    expected = L**2 / 2 * (1 - P) * column.square().sum().item() - ENTROPY + constant
    assert abs(each.mean().item() - expected) < 5 * each.std().item() / math.sqrt(len(each))


def test_the_kl_on_a_grid_is_exact() -> None:
    step, reach = 0.01, 2000
    grid = step * torch.arange(-reach, reach + 1, dtype=torch.float64)
    log_prior = torch.log_softmax(-(L**2) * grid.square() / 2, 0)
    place = reach + 130  # m = 1.3
    kl = (1 - P) * (math.log(1 - P) - log_prior[place]) + P * (math.log(P) - log_prior[reach])
    constant = torch.logsumexp(-(L**2) * grid.square() / 2, 0).item()
    assert kl.item() == pytest.approx(L**2 / 2 * (1 - P) * 1.3**2 - ENTROPY + constant, rel=1e-12)
    assert constant == pytest.approx(math.log(2 * math.pi / (L**2 * step**2)) / 2, rel=1e-9)


def test_the_mean_network_is_the_geometric_mean_of_thinned_ones() -> None:
    weight, x = torch.randn(4, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    log_mean = torch.zeros(4, dtype=torch.float64)
    for mask in itertools.product([0.0, 1.0], repeat=5):
        z = torch.tensor(mask, dtype=torch.float64)
        probability = math.prod(1 - P if kept else P for kept in mask)
        log_mean += probability * torch.log_softmax(weight / (1 - P) * z @ x, 0)
    torch.testing.assert_close(torch.softmax(log_mean, 0), torch.softmax(weight @ x, 0))


def test_the_decay_of_fixed_dropout_is_the_prior_over_the_precision() -> None:
    rows, precision, stored = 500, 3.0, torch.randn(4, 5, dtype=torch.float64)
    scaled = stored / (1 - P)
    decay = (1 - P) * L**2 / (2 * rows * precision)
    ours = L**2 / 2 * stored.square().sum() / (1 - P) / rows
    torch.testing.assert_close(precision * decay * scaled.square().sum(), ours)
