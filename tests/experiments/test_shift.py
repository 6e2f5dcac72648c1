"""`gumdrop reproduce shift` on made-up digits, and how it changes images."""

import math

import pytest
import torch

from gumdrop.training import STRENGTHS
from gumdrop_experiments.rates.results import ELBO, GRID, HELD_OUT, OFF
from gumdrop_experiments.shift import study
from gumdrop_experiments.shift.study import ALL, FIXED, LABELS, MEMBERS, PLAIN, SHIFTS, blurred, noisy, summary, turned

from builders.digits import write_digits
from builders.reproduced import reproduced


def test_every_way_is_scored_at_each_step_and_drawn(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(study, "HIDDEN", (8,))
    write_digits(tmp_path / "data" / "mnist", count=60)
    words = ["--quick", "--epochs", 1, "--num-samples", 2, "--test-images", 20]
    results = reproduced("shift", tmp_path / "out", *words, data=tmp_path / "data")
    assert (results["images"], results["test_images"]) == (60, 20)
    assert list(results["ensemble"]["by_step"]) == list(LABELS)
    assert list(results["single"]["by_step"]) == [way for way in LABELS if way != PLAIN]
    for size in ("single", "ensemble"):
        for way, shifts in results[size]["by_step"].items():
            assert list(shifts) == list(SHIFTS)
            for name, scores in shifts.items():
                assert len(scores) == len(results["steps"][name]) == 6
                assert all(math.isfinite(each["nll"]) for each in scores)
                of_way, of_none = (results[size]["by_step"][each][name][1:] for each in (way, OFF))
                gain = sum(each["nll"] for each in of_none) / 5 - sum(each["nll"] for each in of_way) / 5
                assert results[size]["gain_on"][OFF][way][name][0] == pytest.approx(gain, abs=1e-3)


def test_held_out_images_choose_and_test_images_judge() -> None:
    def part(held_out: float, nll: float) -> dict:
        scores = {"turned": [{"nll": each} for each in (0.0, nll, nll)]}
        rows = [[held_out, held_out + 0.01]] * MEMBERS
        images = {"turned": [-nll, -nll]}
        rates = [[0.1]] * MEMBERS
        return {
            "members": [scores] * MEMBERS,
            "ensemble": scores,
            "of_images": images,
            "held_out": rows,
            "rates": rates,
        }

    parts = {way: part(-1.0, 2.0) for way in (*FIXED, *STRENGTHS)}
    parts["0.1"] = part(-0.5, 3.0)  # chosen by the grid, and worse under the shift
    parts[4.0] = part(-0.5, 1.0)
    parts[4.0]["held_out"] = [[-0.5, -0.5], *[[-3.0, -3.0]] * (MEMBERS - 1)]  # the first network alone prefers it
    parts[PLAIN] = part(0.0, 1.5)
    found = summary(parts)
    assert found["chosen"]["ensemble"] == {GRID: "0.1", HELD_OUT: 1.0}
    assert found["chosen"]["single"] == {GRID: ["0.1"] * MEMBERS, HELD_OUT: [4.0, *[1.0] * (MEMBERS - 1)]}
    assert found["ensemble"]["gain_on"][OFF][GRID][ALL] == pytest.approx((-1, 0))
    assert found["ensemble"]["gain_on"][PLAIN][ELBO]["turned"] == pytest.approx((-0.5, 0))
    assert found["single"]["gain_on"][OFF][HELD_OUT]["turned"] == pytest.approx((0.2, 0.2))
    assert found["single"]["by_step"][HELD_OUT]["turned"][1]["nll"] == pytest.approx(1.8)
    assert found["single"]["mean"][HELD_OUT]["turned"] == {"nll": pytest.approx(1.8)}


def test_images_turn_counter_clockwise() -> None:
    image = torch.zeros(1, 1, 9, 9)
    image[..., 4, 8] = 1  # at the right
    quarter = turned(image, 90)
    assert quarter[0, 0, 0, 4] == pytest.approx(1, abs=1e-5)
    assert quarter.sum() == pytest.approx(1, abs=1e-4)
    torch.testing.assert_close(turned(image, 0), image)


def test_a_blur_is_a_gaussian_of_that_width() -> None:
    image = torch.zeros(2, 1, 21, 21)
    image[:, :, 10, 10] = 1
    found = blurred(image, 1.5)
    steps = torch.arange(21.0) - 10
    assert found.shape == image.shape
    torch.testing.assert_close(found[0, 0], found[0, 0].T)
    assert found[1].sum() == pytest.approx(1, abs=1e-5)
    assert (found[0, 0].sum(0) * steps**2).sum().sqrt() == pytest.approx(1.5, rel=0.02)


def test_noise_is_the_same_at_each_step_but_for_its_size() -> None:
    image = torch.full((50, 1, 9, 9), 0.5)
    little, more = noisy(image, 0.02), noisy(image, 0.04)
    torch.testing.assert_close(more - image, 2 * (little - image))
    assert (little - image).std() == pytest.approx(0.02, rel=0.05)
    assert noisy(image, 5.0).min() == 0
    assert not torch.equal(noisy(image, 0.02, seed=1), little)
