"""Transformers on small made-up data, and the pieces that they are made of."""

from __future__ import annotations

import itertools

import pytest
import torch

import gumdrop as gd
from gumdrop_experiments.networks.transformers import CharacterModel, encoded, sums
from gumdrop_experiments.transformers import study

from builders.reproduced import reproduced
from builders.reviews import write_reviews


@pytest.mark.slow
def test_transformers_run_in_every_setting(tmp_path, constants):
    pytest.importorskip("transformers", reason="needs the package transformers")
    constants(study, NUM_SAMPLES=2, HELD_OUT_SUMS=10)
    write_reviews(tmp_path / "data" / "sst")
    words = ["--seeds", 1, "--review-epochs", 1, "--sum-epochs", 1, "--lines", 32]
    found = reproduced("transformers", tmp_path / "out", *words, data=tmp_path / "data")
    assert list(found) == ["reviews", "sums"]
    assert list(found["reviews"]) == list(found["sums"]) == ["none", "fixed 0.1", "fixed 0.3", "learned"]
    assert len(found["reviews"]["learned"][0]["rates"]) == 15  # words, 6 in each of two layers, two before the classes
    assert len(found["sums"]["learned"][0]["rates"]) == 13


def test_a_character_is_told_from_those_before_it_alone():
    model = CharacterModel(size=8, heads=2, layers=2, longest=12).eval()
    lines = encoded(["one plus t", "one plus s"])
    logits = model(lines)
    torch.testing.assert_close(logits[0, :10], logits[1, :10])
    assert not torch.allclose(model(lines.roll(1, 1))[0], logits[0])


def test_draws_differ_under_the_fused_attention_kernel():
    model = gd.learn_dropout(
        CharacterModel(size=8, heads=2, layers=1, longest=12), p=0.4, exclude=["characters", "places"]
    )
    lines = encoded(["one plus t"])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        draws = gd.sample(model, lines, num_samples=4, seed=0)
    assert all(not torch.allclose(a, b) for a, b in itertools.combinations(draws, 2))


def test_sums_are_right_and_all_different():
    lines = sums(300, seed=1)
    assert len(set(lines)) == 300
    assert "two hundred and seventeen plus" in "".join(sums(20_000, seed=0))
    values = {line.split(" is ")[1] for line in lines}
    assert all(value.endswith(".\n") for value in values)
    assert encoded(lines).shape[0] == 300
    with pytest.raises(ValueError, match="`count` must be between 1 and 250000, got 0"):
        sums(0, seed=0)
