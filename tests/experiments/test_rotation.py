"""`gumdrop reproduce rotation`, on a few made-up digits, and the pictures that it makes."""

import numpy as np
import pytest
import torch

from gumdrop_experiments.rotation import study
from gumdrop_experiments.rotation.study import no_digits, rotated
from gumdrop_experiments.shared import auroc

from builders.digits import idx, write_digits
from builders.reproduced import reproduce, results_of


def test_a_run_leaves_its_numbers_and_figures(digits, tmp_path, constants) -> None:
    constants(study, COMPARED=60, COMPARED_SAMPLES=4)
    write_digits(tmp_path / "clothes", splits=("test",), count=70, seed=1)
    words = ("--quick", "--num-samples", 6, "--others", tmp_path / "clothes")
    assert reproduce("rotation", tmp_path / "out", *words, data=digits) == 0
    results = results_of(tmp_path / "out")
    assert results["angles"] == [50, 57, 64, 71, 78, 85, 92, 99, 106, 113, 120, 127]
    for network in results["networks"].values():
        turning = network["turning"]
        assert len(turning["label"]) == len(turning["label_off"]) == len(turning["entropy_off"]) == 12
        total, parts = turning["predictive_entropy"], (turning["expected_entropy"], turning["mutual_information"])
        np.testing.assert_allclose(total, np.sum(parts, axis=0), atol=0.02)
        assert set(network["telling"]) == {"shuffled pixels", "two halves", "negative", "clothes"}
        assert all(0 <= value <= 1 for scores in network["telling"].values() for value in scores.values())
    for name in ("rotation.png", "rotation-entropy.png"):
        assert (tmp_path / "out" / name).stat().st_size > 2000


def test_pictures_of_another_size_are_an_error(digits, tmp_path, capsys) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(torch.zeros(4, 8, 8, dtype=torch.uint8)))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(torch.zeros(4, dtype=torch.uint8)))
    assert reproduce("rotation", tmp_path / "out", "--others", folder, data=digits) == 2
    assert "must be of 28 x 28 pixels, got (8, 8)" in capsys.readouterr().err


def test_a_picture_turns_about_its_middle() -> None:
    picture = torch.zeros(1, 5, 5)
    picture[0, 0, 2] = 1  # above the middle
    turned = rotated(picture, (0, 90, 180))
    torch.testing.assert_close(turned[0], picture)
    assert [tuple(each[0].nonzero()[0].tolist()) for each in (turned > 0.5)] == [(0, 2), (2, 0), (4, 2)]


def test_pictures_that_are_none_are_made_of_digits() -> None:
    digits = torch.rand(4, 1, 6, 6)
    found = no_digits(digits, seed=1)
    torch.testing.assert_close(found["shuffled pixels"].flatten(1).sort().values, digits.flatten(1).sort().values)
    assert torch.equal(found["two halves"][1, ..., :3], digits[1, ..., :3])
    assert torch.equal(found["two halves"][1, ..., 3:], digits[0, ..., 3:])
    torch.testing.assert_close(found["negative"] + digits, torch.ones_like(digits))


def test_auroc_is_the_share_of_pairs_in_order() -> None:
    known, unknown = torch.tensor([0.1, 0.4, 0.5]), torch.tensor([0.3, 0.9])
    pairs = (unknown[:, None] > known).float().mean().item()
    assert auroc(known, unknown) == pytest.approx(pairs)
    assert auroc(known, known) == pytest.approx(0.5)
