"""Shapley values against their definition, and against another library."""

import itertools
import math

import numpy as np
import pytest
import torch

from gumdrop.tables.shapley import shapley_shares

GROUPS = [slice(0, 1), slice(1, 3), slice(3, 4)]


def function(x):
    """Two functions with interactions between the groups."""
    a, b, c, d = x.double().T
    return torch.stack([a * b + 2 * c * d - a * c * d, (a - d).abs() + b], dim=1)


def naive(x, background):
    """All orders of all groups, one background row after the other."""
    total = torch.zeros(len(GROUPS), 2, dtype=torch.float64)
    for base in background:
        for order in itertools.permutations(range(len(GROUPS))):
            row = base.clone()
            for k in order:
                before = function(row[None])[0]
                row[GROUPS[k]] = x[GROUPS[k]]
                total[k] += function(row[None])[0] - before
    return total / (len(background) * math.factorial(len(GROUPS)))


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(5, 4, generator=generator), torch.randn(6, 4, generator=generator)


def test_shares_approach_the_definition_and_tell_how_near_they_are(data) -> None:
    x, background = data
    found = shapley_shares(lambda rows, of: function(rows), x, background, GROUPS, orders=600)
    exact = torch.stack([naive(row, background) for row in x]).numpy()
    assert (abs(found.share - exact) < 5 * found.error + 1e-9).all()
    assert found.error.max() < 0.2


def test_shares_add_up(data) -> None:
    x, background = data
    found = shapley_shares(lambda rows, of: function(rows), x, background, GROUPS, orders=6)
    torch.testing.assert_close(torch.tensor(found.value), function(x))
    torch.testing.assert_close(torch.tensor(found.usual), function(background).mean(0).expand(5, -1))
    torch.testing.assert_close(torch.tensor(found.share.sum(1)), torch.tensor(found.value - found.usual))


def test_a_row_is_explained_alone_as_among_others(data) -> None:
    x, background = data
    call = lambda rows: shapley_shares(lambda r, of: function(r), rows, background, GROUPS, orders=4, seed=5).share  # noqa: E731
    np.testing.assert_allclose(call(x)[2], call(x[2:3])[0], rtol=1e-4, atol=1e-6)
    assert (call(x) == call(x)).all()


def test_an_additive_function_needs_one_order(data) -> None:
    x, background = data
    found = shapley_shares(lambda rows, of: rows.sum(1, keepdim=True), x, background[:1], GROUPS, orders=1)
    expected = torch.stack([(x - background[0])[:, group].sum(1) for group in GROUPS], dim=1)
    torch.testing.assert_close(torch.tensor(found.share[..., 0]), expected.double(), rtol=1e-5, atol=1e-5)


def test_orders_must_be_positive(data) -> None:
    with pytest.raises(ValueError, match="`orders` must be at least 1, got 0"):
        shapley_shares(lambda rows, of: function(rows), *data, GROUPS, orders=0)
