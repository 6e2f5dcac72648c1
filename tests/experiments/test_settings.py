"""Flags of experiments out of their range, and names that there are not: said in a line before anything is written."""

import shlex

import pytest

from gumdrop_experiments.catalogue import EXPERIMENTS

from builders.digits import write_digits
from builders.reproduced import reproduce
from builders.reviews import write_reviews
from builders.uci import write_set

NUMBERS = {
    "camvid": {"seeds": 1, "validate-every": 1},
    "cartpole": {"trials": 2, "seeds": 1},
    "co2": {"steps": 1, "chain-draws": 10},
    "g2p": dict.fromkeys(("words", "pooled-epochs", "epochs", "members", "num-samples", "test-words"), 1),
    "gaps": {"splits": 1},
    "gradients": {"runs": 2, "num-draws": 2, "iterations": 1, "splits": 1},
    "labels": {"labels": 21},
    "line": {"steps": 2},
    "pairs": {"images": 1, "iterations": 1, "classifier-steps": 1},
    "regularisation": {"epochs": 1, "lenet-epochs": 1},
    "sentiment": {"seeds": 1, "epochs": 1, "hidden": 1, "phrase-epochs": 0},
    "transformers": {"seeds": 1, "review-epochs": 1, "sum-epochs": 1, "lines": 1},
}
"""The least that each flag may be."""

NAMES = {
    "camvid --network 99": "there is no network '99'; there are: 56, 67, 103, small, unet",
    "camvid --crop 300": "`crop` must be at most `height` and `width`, got 300",
    "camvid --variants 'fixed 0.3'": "there is no variant 'fixed 0.3'; there are: none, fixed 0.2, learned",
    "co2 --networks wide": "there is no kind of network 'wide'; there are: scripts, fixed, narrow, held, learned",
    "g2p --networks 'learned, given factors'": "there is no network 'learned, given factors'",
    "gaps --dataset bosten": "there is no set 'bosten'; there are: diabetes",
    "gaps --methods magic": "there is no method 'magic'; there are: gumdrop, fixed",
    "gaps --kinds middle": "there is no kind of split 'middle'; there are: random, gap, tail",
    "labels --by 50 --pool 40": "`pool` must be at least 50, got 40",
    "labels --ways learned": "there is no way to ask 'learned'; there are: fixed-batchbald, ",
    "labels --pools letters": "there is no pool 'letters'; there are: mnist, repeated",
    "mnist --seeds 0": "`seeds` must be at least 1, got 0",
    "mnist --sizes 500": "`sizes` must lie between 60 and 240, got [500]",
    "rates --arms best": "there is no arm 'best'; there are: sites, front, hidden, pool, draws, response",
    "rates --dataset boston-gaps --dataset digits": "such as boston; got boston-gaps, digits",
    "regularisation --lenet-lr 0": "`lenet_lr` must be positive, got 0",
    "regularisation --networks vgg": "there is no network 'vgg'; there are: perceptron-none, perceptron-both",
    "rivals --methods magic": "there is no method 'magic'; there are: gumdrop, fixed",
    "rows --most-steps 5": "`most_steps` must be at least 1200, got 5",
    "rows --sizes 10": "`sizes` must be at least 50, got (10,)",
    "sentiment --ways learned 'fixed 0.6'": "there is no way 'fixed 0.6'; there are: none, fixed 0.1",
    "sentiment --ways none 'fixed 0.3'": "`ways` must have learned rates and others, got none, fixed 0.3",
    "tables --methods magic": "there is no method 'magic'; there are: gumdrop, fixed",
    "uci --dataset bosten": "there is no set 'bosten'; there are: diabetes",
    "uci --methods magic": "there is no method 'magic'; there are: chosen, gumdrop, one-member",
    "uci --regularisers 0 1": "`regularisers` must be two positive numbers",
    "uci --regularisers 1 -2": "`regularisers` must be two positive numbers",
    "uci --regularisers nan 1": "`regularisers` must be two positive numbers",
}


@pytest.fixture
def data(tmp_path):
    """A folder of data sets that has what is looked at before settings are."""
    write_set(tmp_path / "uci" / "diabetes")
    write_reviews(tmp_path / "sst")
    write_digits(tmp_path / "mnist")
    return tmp_path


def refused(words, data, capsys) -> str:
    assert reproduce(words[0], data / "out", *words[1:], data=data) == 2
    assert not (data / "out").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize("experiment", NUMBERS)
def test_numbers_that_are_too_small_are_an_error(experiment, data, capsys) -> None:
    for flag, least in NUMBERS[experiment].items():
        said = refused([experiment, f"--{flag}", str(least - 1)], data, capsys)
        assert f"`{flag.replace('-', '_')}` must be at least {least}, got {least - 1}" in said


@pytest.mark.parametrize("words", NAMES)
def test_names_that_there_are_not_are_answered_with_those_that_there_are(words, data, capsys) -> None:
    assert NAMES[words] in refused(shlex.split(words), data, capsys)


@pytest.mark.parametrize("experiment", [name for name, about in EXPERIMENTS.items() if about.data and name != "tables"])
def test_data_that_are_not_there_are_named(experiment, tmp_path, capsys) -> None:
    said = refused([experiment], tmp_path, capsys)
    assert any(f"has no folder '{name}'; put its files into" in said for name in EXPERIMENTS[experiment].data)


@pytest.mark.parametrize(("experiment", "extra"), [("surrogate", "surrogates"), ("survival", "survival")])
def test_packages_that_are_not_there_are_named(experiment, extra, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(f"gumdrop_experiments.{experiment}.study.find_spec", lambda name: None)
    assert f"pip install 'gumdrop[{extra}]'" in refused([experiment], tmp_path, capsys)
