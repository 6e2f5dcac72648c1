import pytest
import torch

from gumdrop.attribution import boxes_of, scores


def linear(x: torch.Tensor) -> torch.Tensor:
    """A logit that is the sum of the first channel's places, weighted 4, 3, 2, 1."""
    return (x[:, 0].flatten(1) * torch.tensor([4.0, 3, 2, 1])).sum(1) - 5


def ones() -> torch.Tensor:
    return torch.ones(1, 2, 2, 2)


BEST = torch.tensor([[[[0.9, 0.8], [0.4, 0.1]]]])


def test_curves_by_hand() -> None:
    inserted = scores.insertion_curve(linear, ones(), BEST, 0.0, num_steps=4)
    expected = torch.sigmoid(torch.tensor([0.0, 4, 7, 9, 10]) - 5)
    torch.testing.assert_close(inserted.probability[0], expected)
    torch.testing.assert_close(inserted.share, torch.tensor([0, 0.25, 0.5, 0.75, 1]))
    torch.testing.assert_close(inserted.auc[0], (expected[1:] + expected[:-1]).mean() / 2)
    deleted = scores.deletion_curve(linear, ones(), BEST, 0.0, num_steps=4)
    torch.testing.assert_close(deleted.probability[0], torch.sigmoid(torch.tensor([10.0, 6, 3, 1, 0]) - 5))


def test_a_better_order_has_better_curves() -> None:
    for better, worse in ((BEST, -BEST), (BEST.expand(1, 2, 2, 2), -BEST)):
        insertion = [scores.insertion_curve(linear, ones(), r, 0.0, num_steps=4).auc for r in (better, worse)]
        deletion = [scores.deletion_curve(linear, ones(), r, 0.0, num_steps=4).auc for r in (better, worse)]
        assert insertion[0] > insertion[1]
        assert deletion[0] < deletion[1]


def test_places_of_equal_relevance_come_in_random_order_by_seed() -> None:
    x = torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    flat = torch.zeros(2, 1, 6, 6)
    curves = [
        scores.insertion_curve(lambda v: v.flatten(1).sum(1) - 9, x, flat, 0.0, seed=seed).probability
        for seed in (1, 1, 2)
    ]
    assert torch.equal(curves[0], curves[1])
    assert not torch.equal(curves[0], curves[2])


def test_the_chunks_do_not_change_a_curve() -> None:
    x = torch.rand(3, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    whole, parts = (
        scores.deletion_curve(lambda v: v.flatten(1)[:, :4], x, x, x.mean(), chunk_size=size, target=[1, 2, 3])
        for size in (1000, 7)
    )
    torch.testing.assert_close(whole.probability, parts.probability)


def test_hard_masks_by_hand() -> None:
    result = scores.hard_mask_scores(linear, ones(), BEST, 0.0)
    assert result.kept.item() == pytest.approx(4 + 3 - 5)
    assert result.dropped.item() == pytest.approx(2 + 1 - 5)
    result = scores.hard_mask_scores(linear, ones(), BEST, -1.0, threshold=0.85, score=lambda out, target: 2 * out)
    assert result.kept.item() == pytest.approx(2 * (4 - 6 - 5))


def test_area_roughness_and_iou_by_hand() -> None:
    assert scores.area(BEST).item() == pytest.approx(0.55)
    assert scores.roughness(BEST).item() == pytest.approx((0.1 + 0.3 + 0.5 + 0.7) / 4)
    tokens = BEST.reshape(1, 4, 1)
    assert scores.roughness(tokens, layout="tokens").item() == pytest.approx((0.1 + 0.4 + 0.3) / 4)
    truth = torch.tensor([[[[True, False], [True, False]]]])
    assert scores.mask_iou(BEST, truth).item() == pytest.approx(1 / 3)
    assert scores.mask_iou(BEST, truth, threshold=0.3).item() == pytest.approx(2 / 3)
    assert scores.mask_iou(0 * BEST, ~truth & truth).item() == 0
    with pytest.raises(ValueError, match="columns of a table have no order"):
        scores.roughness(torch.ones(2, 4))


def test_boxes_by_hand() -> None:
    a, b = torch.tensor([[0, 0, 4, 4], [0, 0, 0, 0]]), torch.tensor([[2, 1, 6, 4], [0, 0, 0, 0]])
    assert scores.box_iou(a, b).tolist() == pytest.approx([6 / (16 + 12 - 6), 0])
    assert scores.box_iou(a[:1], torch.tensor([[5, 5, 6, 6]])).item() == 0
    assert scores.box_iou(torch.tensor([[2, 8]]), torch.tensor([[4, 12]])).item() == pytest.approx(0.4)
    with pytest.raises(ValueError, match=r"one shape \(N, 2 D\), got \(2, 4\) and \(1, 4\)"):
        scores.box_iou(a, b[:1])
    assert boxes_of(torch.zeros(1, 3, 3)).tolist() == [[0, 0, 0, 0]]
    assert boxes_of(torch.tensor([[0.0, 0.6, 0.2, 0.7, 0.0]])).tolist() == [[1, 4]]


def test_share_outside_by_hand() -> None:
    box = torch.tensor([[0, 0, 1, 2]])
    assert scores.share_outside(BEST, box).item() == pytest.approx(0.5 / 2.2)
    assert scores.share_outside(0 * BEST, box).item() == 0
    assert scores.share_outside(BEST.reshape(1, 1, 4), torch.tensor([[1, 3]])).item() == pytest.approx(1 / 2.2)
    with pytest.raises(ValueError, match=r"must not be negative, got -0\.9"):
        scores.share_outside(-BEST, box)
    with pytest.raises(ValueError, match=r"`boxes` must have the shape \(1, 4\), got \(1, 2\)"):
        scores.share_outside(BEST, torch.tensor([[1, 2]]))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"\(1, 1, 2, 2\) or \(1, 2, 2, 2\), got \(1, 1, 4\)"):
        scores.insertion_curve(linear, ones(), BEST.reshape(1, 1, 4), 0.0)
    with pytest.raises(ValueError, match="`relevance` must be finite"):
        scores.deletion_curve(linear, ones(), BEST / 0, 0.0)
    with pytest.raises(ValueError, match="`num_steps` must be at least 1, got 0"):
        scores.deletion_curve(linear, ones(), BEST, 0.0, num_steps=0)
