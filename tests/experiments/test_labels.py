"""`gumdrop reproduce labels`, on a few made-up digits."""

import pytest
import torch

from gumdrop_experiments.data.mnist import DigitImages
from gumdrop_experiments.labels import study
from gumdrop_experiments.labels.study import WAYS, build, first_labels, pool_of, summary

from builders.reproduced import reproduce, reproduced

SMALL = ("--labels", 26, "--by", 3, "--pool", 40, "--num-samples", 6, "--test-images", 60, "--epoch-images", 32)


def test_each_way_asks_and_a_stopped_run_goes_on_where_it_stopped(digits, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(study, "MOST_EPOCHS", 4)
    ways = ("fixed-batchbald", "learned-batchbald", "none-entropy", "fixed-random", "fixed-bald-1")
    words = (*SMALL, "--pools", "mnist", "--ways", *ways)
    whole = reproduced("labels", tmp_path / "whole", *words, data=digits)
    assert whole["test_images"] == 60
    found = whole["pools"]["mnist"]
    assert set(found) == set(ways)
    for way, each in found.items():
        step = 1 if way == "fixed-bald-1" else 3
        assert each["curve"]["labels"] == list(range(20, 27, step))
        assert all(0 <= share <= 1 for share in each["curve"]["accuracy"])
        rates = [len(point["rates"]) for point in each["curves"][0]]
        assert set(rates) == ({3} if way.startswith("learned") else {0})
    page = (tmp_path / "whole" / "report.html").read_text()
    assert "199" in page

    stopped, count, more_of = tmp_path / "stopped", [], study._more
    words = (*SMALL, "--pools", "mnist", "--ways", *ways[1:3])

    def stop(*words):
        count.append(1)
        if len(count) == 2:  # in the second round of learned-batchbald
            raise KeyboardInterrupt
        return more_of(*words)

    monkeypatch.setattr(study, "_more", stop)
    assert reproduce("labels", stopped, *words, data=digits) == 130
    monkeypatch.setattr(study, "_more", more_of)
    resumed = reproduced("labels", stopped, *words, "--resume", data=digits)["pools"]["mnist"]
    assert resumed == {way: found[way] for way in ways[1:3]}


def test_the_repeated_pool_has_each_digit_three_times_with_noise() -> None:
    generator = torch.Generator().manual_seed(0)
    digits = DigitImages(torch.rand(50, 1, 28, 28, generator=generator), torch.arange(50) % 10)
    pool, held_out, test = pool_of("repeated", digits, digits, seed=1)
    assert (len(pool.labels), len(held_out.labels), len(test.labels)) == (135, 5, 50)
    one, two = pool.images[:45], pool.images[45:90]
    assert torch.equal(pool.labels[:45], pool.labels[45:90])
    assert (one - two).std().item() == pytest.approx(2**0.5 * 0.1, rel=0.05)
    once = pool_of("mnist", digits, digits, seed=1)
    assert torch.equal(once.held_out.images, held_out.images)
    assert test.images.mean().item() == pytest.approx((digits.images.mean().item() - 0.1307) / 0.3081, rel=1e-4)


def test_the_first_labels_are_two_of_each_digit() -> None:
    labels = torch.randint(10, (300,), generator=torch.Generator().manual_seed(2))
    first = first_labels(labels, seed=3)
    assert torch.bincount(labels[first]).tolist() == [2] * 10
    assert first != first_labels(labels, seed=4)


def test_the_network_is_that_of_the_source() -> None:
    layers = [f"{type(m).__name__} {m.p}" if hasattr(m, "p") else type(m).__name__ for m in build("fixed")]
    convolution = ["Conv2d", "MaxPool2d", "ReLU", "Dropout2d 0.5"]
    assert layers == [*convolution, *convolution, "Flatten", "Linear", "ReLU", "Dropout 0.5", "Linear"]
    assert build("none")(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert WAYS["learned-bald"].label == "learned p, BALD"


def test_labels_to_a_goal_are_medians_of_those_that_reach_it() -> None:
    def part(*accuracy: float) -> dict:
        points = [{"labels": 20 + 5 * i, "accuracy": a, "nll": 1 - a} for i, a in enumerate(accuracy)]
        return {"curve": points}

    found = summary([part(0.5, 0.91, 0.96), part(0.92, 0.94, 0.94), part(0.1, 0.2, 0.93)])
    assert found["goals"] == {"0.9": {"labels": 25, "nll": pytest.approx(0.08)}, "0.95": None}
    assert found["curve"]["accuracy"] == pytest.approx([0.5067, 0.6833, 0.9433], abs=1e-4)
    assert summary([part(0.96)])["curve"]["nll_error"] == [0]
