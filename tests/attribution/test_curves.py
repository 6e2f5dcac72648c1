import pytest
import torch

from gumdrop.attribution import curves


def linear(x: torch.Tensor) -> torch.Tensor:
    """A logit that is the sum of the first channel's places, weighted 4, 3, 2, 1."""
    return (x[:, 0].flatten(1) * torch.tensor([4.0, 3, 2, 1])).sum(1) - 5


def ones() -> torch.Tensor:
    return torch.ones(1, 2, 2, 2)


BEST = torch.tensor([[[[0.9, 0.8], [0.4, 0.1]]]])


def test_curves_by_hand() -> None:
    inserted = curves.insertion_curve(linear, ones(), BEST, 0.0, num_steps=4)
    expected = torch.sigmoid(torch.tensor([0.0, 4, 7, 9, 10]) - 5)
    torch.testing.assert_close(inserted.probability[0], expected)
    torch.testing.assert_close(inserted.share, torch.tensor([0, 0.25, 0.5, 0.75, 1]))
    torch.testing.assert_close(inserted.auc[0], (expected[1:] + expected[:-1]).mean() / 2)
    deleted = curves.deletion_curve(linear, ones(), BEST, 0.0, num_steps=4)
    torch.testing.assert_close(deleted.probability[0], torch.sigmoid(torch.tensor([10.0, 6, 3, 1, 0]) - 5))


def test_a_better_order_has_better_curves() -> None:
    for better, worse in ((BEST, -BEST), (BEST.expand(1, 2, 2, 2), -BEST)):
        insertion = [curves.insertion_curve(linear, ones(), r, 0.0, num_steps=4).auc for r in (better, worse)]
        deletion = [curves.deletion_curve(linear, ones(), r, 0.0, num_steps=4).auc for r in (better, worse)]
        assert insertion[0] > insertion[1]
        assert deletion[0] < deletion[1]


def test_places_of_equal_relevance_come_in_random_order_by_seed() -> None:
    x = torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    flat = torch.zeros(2, 1, 6, 6)
    found = [
        curves.insertion_curve(lambda v: v.flatten(1).sum(1) - 9, x, flat, 0.0, seed=seed).probability
        for seed in (1, 1, 2)
    ]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_the_chunks_do_not_change_a_curve() -> None:
    x = torch.rand(3, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    whole, parts = (
        curves.deletion_curve(lambda v: v.flatten(1)[:, :4], x, x, x.mean(), chunk_size=size, target=[1, 2, 3])
        for size in (1000, 7)
    )
    torch.testing.assert_close(whole.probability, parts.probability)


def test_hard_masks_by_hand() -> None:
    result = curves.hard_mask_scores(linear, ones(), BEST, 0.0)
    assert result.kept.item() == pytest.approx(4 + 3 - 5)
    assert result.dropped.item() == pytest.approx(2 + 1 - 5)
    result = curves.hard_mask_scores(linear, ones(), BEST, -1.0, threshold=0.85, score=lambda out, target: 2 * out)
    assert result.kept.item() == pytest.approx(2 * (4 - 6 - 5))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"\(1, 1, 2, 2\) or \(1, 2, 2, 2\), got \(1, 1, 4\)"):
        curves.insertion_curve(linear, ones(), BEST.reshape(1, 1, 4), 0.0)
    with pytest.raises(ValueError, match="`relevance` must be finite"):
        curves.deletion_curve(linear, ones(), BEST / 0, 0.0)
    with pytest.raises(ValueError, match="`num_steps` must be at least 1, got 0"):
        curves.deletion_curve(linear, ones(), BEST, 0.0, num_steps=0)
