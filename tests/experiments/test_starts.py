"""`gumdrop reproduce starts` on made-up rows and digits, and the networks that it trains."""

import math

import pytest
import torch

from gumdrop import draw, dropout_rates
from gumdrop.functional.masks import soft_keep
from gumdrop_experiments.starts import study
from gumdrop_experiments.starts.study import LEARNED, STARTS, UNIFORM, LearnedTemperature, network

from builders.digits import write_digits
from builders.reproduced import reproduced
from builders.uci import write_set


def test_every_start_and_temperature_is_scored_and_drawn(tmp_path, constants) -> None:
    constants(study, NUM_SAMPLES=3, TRAIN_SAMPLES=2, TEMPERATURES=(0.1, 1.0))
    for name in study.SETS.values():
        write_set(tmp_path / "data" / "uci" / name, rows=40, splits=2)
    write_digits(tmp_path / "data" / "mnist", count=120)
    words = ["--quick", "--steps", 10, "--splits", 1, "--images", 100]
    sets = reproduced("starts", tmp_path / "out", *words, data=tmp_path / "data")
    assert list(sets) == ["boston", "concrete", "mnist"]
    for found in sets.values():
        for length in ("long", "short"):
            assert list(found[length]) == list(STARTS)
        assert list(found["temperatures"]) == ["0.1", "1", LEARNED]
        assert found["temperatures"]["0.1"]["gain"] == [0, 0]
        for each in found["temperatures"].values():
            assert all(math.isfinite(each[name]) for name in ("log_likelihood", "relaxed_nll", "hard_nll"))
    learned = [found["temperatures"][LEARNED]["temperature"] for found in sets.values()]
    assert learned != pytest.approx([0.1] * 3, rel=1e-3)  # twenty steps may leave one of them where it began


def test_starts_share_their_weights_and_differ_in_their_rates() -> None:
    one, other, drawn = (
        network(3, 0, (4,), seed=5, start=start, temperature=0.1) for start in ("0.01", "0.5", UNIFORM)
    )
    for model in (other, drawn):
        assert torch.equal(one[0].weight, model[0].weight)
    assert list(dropout_rates(one).values()) == pytest.approx([0.01, 0.01])
    assert all(0.119 < p <= 0.5 for p in dropout_rates(drawn).values())


def test_a_learned_temperature_is_that_of_the_masks_in_training_alone() -> None:
    model = LearnedTemperature(network(3, 2, (), seed=0, temperature=0.1), 0.7)
    layer = model.network[0]
    site, dropped = layer.concrete_dropout, []
    layer.register_forward_pre_hook(lambda module, inputs: dropped.append(inputs[0]))
    x, noise = torch.ones(50, 3), torch.rand(50, 3, generator=torch.Generator().manual_seed(1))
    site.fresh_noise = lambda rows: noise
    model(x).sum().backward()
    torch.testing.assert_close(dropped[-1], soft_keep(site.p_logit, noise, temperature=0.7) / (1 - site.p))
    assert model.scaled_log.grad != 0
    draw(model, seed=0)(x)
    assert dropped[-1].unique().tolist() == pytest.approx([0, 1 / 0.9])
    model.eval()(x)
    assert torch.equal(dropped[-1], x)
