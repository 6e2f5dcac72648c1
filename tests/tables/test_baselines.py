"""Plain models beside ours: none of them is handicapped."""

import numpy as np
import torch

from gumdrop.tables.baselines import boosted_classes, boosted_regression, frequencies, linear_classes, linear_regression


def _ordered_by_target(rows: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """A table that is sorted by what it predicts: folds of neighbours would ask each model to extrapolate."""
    x = torch.linspace(-2, 2, rows)[:, None]
    return x, 3 * x + 0.1 * torch.randn(rows, 1, generator=torch.Generator().manual_seed(0))


def test_the_noise_of_rivals_does_not_depend_on_the_order_of_the_table() -> None:
    x, y = _ordered_by_target()
    mixed = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    for rival in (boosted_regression, linear_regression):
        in_order, shuffled = (rival(a, b, x[:1], seed=0).aleatoric.item() for a, b in ((x, y), (x[mixed], y[mixed])))
        assert 0.6 < in_order / shuffled < 1.7
        assert in_order < 0.1  # folds of neighbours make more than 0.2 of it


def test_trees_split_a_table_of_26_rows() -> None:
    x, y = _ordered_by_target(26)
    assert boosted_regression(x, y, x, seed=0).mean.std() > 1
    labels = (y[:, 0] > 0).long()
    assert (boosted_classes(x, labels, 2, x, seed=0).label == labels).double().mean() > 0.9


def test_a_linear_model_finds_a_line_and_a_plane_between_classes() -> None:
    x, y = _ordered_by_target()
    found = linear_regression(x, y, torch.tensor([[10.0]]), seed=0)
    np.testing.assert_allclose(found.mean.item(), 30, rtol=0.02)
    np.testing.assert_allclose(found.aleatoric.item(), 0.01, rtol=0.3)
    labels = (x[:, 0] > 0.5).long() * 2  # of three classes the second is in no row
    found = linear_classes(x, labels, 3, x)
    assert (found.label == labels).double().mean() > 0.97
    assert found.probabilities[:, 1].max() < 1e-5


def test_one_class_alone_is_answered_by_its_frequency() -> None:
    x, labels = torch.randn(20, 2, generator=torch.Generator().manual_seed(0)), torch.ones(20, dtype=torch.long)
    for found in (boosted_classes(x, labels, 2, x, seed=0), linear_classes(x, labels, 2, x)):
        torch.testing.assert_close(found.probabilities, frequencies(labels, 2, 20).probabilities)
