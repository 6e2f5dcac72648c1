"""The scores of masks against hand-made figures."""

import pytest
import torch

from gumdrop.attribution.explanation import boxes_of
from gumdrop_experiments.attribution import masks

BEST = torch.tensor([[[[0.9, 0.8], [0.4, 0.1]]]])


def test_area_roughness_and_iou_by_hand() -> None:
    assert masks.area(BEST).item() == pytest.approx(0.55)
    assert masks.roughness(BEST).item() == pytest.approx((0.1 + 0.3 + 0.5 + 0.7) / 4)
    truth = torch.tensor([[[[True, False], [True, False]]]])
    assert masks.mask_iou(BEST, truth).item() == pytest.approx(1 / 3)
    assert masks.mask_iou(0 * BEST, ~truth & truth).item() == 0


def test_boxes_by_hand() -> None:
    a, b = torch.tensor([[0, 0, 4, 4], [0, 0, 0, 0]]), torch.tensor([[2, 1, 6, 4], [0, 0, 0, 0]])
    assert masks.box_iou(a, b).tolist() == pytest.approx([6 / (16 + 12 - 6), 0])
    assert masks.box_iou(a[:1], torch.tensor([[5, 5, 6, 6]])).item() == 0
    assert boxes_of(torch.zeros(1, 3, 3)).tolist() == [[0, 0, 0, 0]]
    assert boxes_of(torch.tensor([[0.0, 0.6, 0.2, 0.7, 0.0]])).tolist() == [[1, 4]]


def test_share_outside_by_hand() -> None:
    box = torch.tensor([[0, 0, 1, 2]])
    assert masks.share_outside(BEST, box).item() == pytest.approx(0.5 / 2.2)
    assert masks.share_outside(0 * BEST, box).item() == 0
