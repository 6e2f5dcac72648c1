"""`gumdrop reproduce rows` on made-up digits and rows, and what it makes of its parts."""

import math
from functools import partial

import pytest

from gumdrop_experiments.rows.results import FIXED, GRID, LABELS, LEARNED, OFF, PRIORS, summary, verdict

from builders.digits import write_digits
from builders.reproduced import reproduce, reproduced, results_of
from builders.uci import write_set


@pytest.fixture
def data(tmp_path):
    write_digits(tmp_path / "data" / "mnist", count=120)
    write_set(tmp_path / "data" / "uci" / "kin8nm", rows=80, splits=2)
    return tmp_path / "data"


def test_every_way_is_scored_with_and_without_the_prior(data, tmp_path) -> None:
    words = ["--quick", "--sets", "mnist", "--sets", "kin8nm", "--least-steps", 4, "--most-steps", 8, "--epochs", 1]
    words += ["--num-samples", 2, "--test-images", 100, "--protocols"]
    results = reproduced("rows", tmp_path / "out", *words, data=data)
    protocols = {each["label"]: (each["rows"], each["held_out"], each["steps"]) for each in results["protocols"]}
    assert list(protocols.values()) == [(60, 12, 4), (120, 60, 4), (60, 12, 2), (60, 12, 4), (120, 60, 2)]
    assert results["protocols"][0]["nll"] != results["protocols"][3]["nll"]
    found = results["sets"]
    sizes = {name: [size["rows"] for size in each["sizes"]] for name, each in found.items()}
    assert sizes == {"mnist": [100, 120], "kin8nm": [70]}
    for each in found.values():
        for size in each["sizes"]:
            assert 4 <= size["steps"] <= 8
            assert size["held_out"] == size["rows"] // 5
            assert list(size["ways"]) == list(PRIORS)
            for prior, ways in size["ways"].items():
                assert list(ways) == list(LABELS)
                assert all(math.isfinite(way["test"]["nll"][0]) for way in ways.values())
                assert ways[GRID] == ways[size["chosen"][prior][0]]
                assert ways["0.3"]["rates"][0] == pytest.approx([0.3] * 3)
            assert size["ways"]["prior"][LEARNED]["test"] != size["ways"]["without"][LEARNED]["test"]


def test_parts_that_are_done_are_shown_without_the_others(data, tmp_path, capsys) -> None:
    words = ["--sets", "kin8nm", "--resume", "--sizes", 50, "--least-steps", 2, "--most-steps", 2, "--epochs", 1]
    run = partial(reproduce, "rows", tmp_path / "out", *words, "--num-samples", 2, data=data)
    assert run("--done") == 2
    assert "leave it out" in capsys.readouterr().err
    assert run("--seeds", 1) == 0
    assert run("--sizes", 60, "--seeds", 2, "--done") == 0
    found = results_of(tmp_path / "out")["sets"]
    assert [(size["rows"], size["seeds"]) for size in found["kin8nm"]["sizes"]] == [(50, [0])]


def test_the_grid_is_chosen_by_held_out_rows_and_judged_by_test_rows() -> None:
    def part(seed: int, best: str) -> dict:
        ways = {
            way: {"held_out_nll": 1.0 - (way == best), "rates": [p], "test": {"nll": 2.0 + p + seed}}
            for way, p in [*FIXED.items(), (LEARNED, 0.2)]
        }
        return {"seed": seed, "plan": {"rows": 50, "steps": 3}, "ways": dict.fromkeys(PRIORS, ways)}

    (size,) = summary([part(0, "0.5"), part(1, OFF)])
    assert size["chosen"]["prior"] == ["0.5", OFF]
    assert size["ways"]["without"][GRID]["test"]["nll"] == [2.5, 3.0]
    mean, half = size["gains"]["prior"]["test"][GRID]
    assert (mean, half) == pytest.approx((0.05, 12.706 * 0.25), rel=1e-4)  # gains of .3 and -.2
    assert size["gains_of_prior"][OFF] == (0, 0)
    assert (size["rows"], size["seeds"]) == (50, [0, 1])


@pytest.mark.parametrize(
    ("gain", "word"),
    [
        ((0.1, 0.09), "ahead"),
        ((-0.1, 0.09), "behind"),
        ((-0.1, 0.11), "not told apart"),
        ((0.1, None), "not told apart"),
    ],
)
def test_a_verdict_needs_an_interval_on_one_side(gain: tuple[float, float | None], word: str) -> None:
    assert verdict(gain) == word
