"""A picture predicted in tiles."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.prediction import predict_in_tiles


def test_tiles_with_a_wide_halo_give_the_whole_picture():
    model = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 3, 3, padding=1))
    gd.learn_dropout(model, p=0.3, report=lambda report: None)
    x = torch.randn(2, 2, 13, 17)
    whole = gd.predict_classification(model, x, num_samples=4, seed=5)
    tiled = predict_in_tiles(model, x, tile=5, halo=2, num_samples=4, seed=5)
    torch.testing.assert_close(tiled.log_probabilities, whole.log_probabilities)
    torch.testing.assert_close(tiled.expected_entropy, whole.expected_entropy)


def test_tiles_want_pictures_and_sensible_sizes():
    model = gd.learn_dropout(nn.Conv2d(2, 2, 1), report=lambda report: None)
    with pytest.raises(ValueError, match=r"`x` must hold pictures, shape \(N, channels, H, W\), got \(2, 4\)"):
        predict_in_tiles(model, torch.zeros(2, 4), tile=2, halo=0)
    with pytest.raises(ValueError, match="`tile` must be at least 1 and `halo` at least 0, got 0 and 1"):
        predict_in_tiles(model, torch.zeros(1, 2, 4, 4), tile=0, halo=1)
