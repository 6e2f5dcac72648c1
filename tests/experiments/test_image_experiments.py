"""`gumdrop reproduce mnist`, `regularisation` and `rotation`, on a few made-up digits."""

import json

import numpy as np
import pytest
import torch

from gumdrop import cli
from gumdrop_experiments.mnist import study as mnist
from gumdrop_experiments.mnist.study import plain_prediction, scores
from gumdrop_experiments.rotation import study as rotation
from gumdrop_experiments.rotation.study import auroc, rotated, strangers

from builders.digits import idx, write_digits


@pytest.fixture
def data(tmp_path):
    write_digits(tmp_path / "data" / "mnist")
    return tmp_path / "data"


def contents_of(folder) -> dict:
    return json.loads((folder / "results.json").read_text())


def run(name, data, out, *more) -> int:
    return cli.main(["reproduce", name, "--data", str(data), "--out", str(out), *more])


def test_mnist_leaves_its_numbers_and_figures(data, tmp_path, monkeypatch) -> None:
    state = torch.get_rng_state()
    monkeypatch.setattr(mnist, "QUICK_WIDTHS", (8,))
    monkeypatch.setattr(mnist, "QUICK_WIDTH", 16)
    out = tmp_path / "out"
    words = ("--quick", "--sizes", "60", "240", "--epochs", "1", "--num-samples", "5")
    assert run("mnist", data, out, *words) == 0
    assert torch.equal(torch.get_rng_state(), state)
    contents = contents_of(out)
    assert contents["figures"] == ["mnist-rates.png", "mnist-scores.png", "mnist-widths.png"]
    small, large = contents["results"]["sizes"]
    assert (small["num_data"], large["num_data"]) == (60, 240)
    assert set(large["search"]) == set(mnist.FIXED)
    assert large["search"][large["chosen"]]["nll"] == min(each["nll"] for each in large["search"].values())
    for study in (*small["learned"], *large["learned"], *large["fixed"]):
        assert 0 <= study["drawn"]["accuracy"] <= 1
        assert len(study["rates_over_training"][-1]) == 4
    assert large["learned"][0]["rates"] == pytest.approx(large["learned"][0]["rates_over_training"][-1], abs=1e-4)
    inputs, hidden = mnist.FIXED[large["chosen"]]
    assert large["fixed"][0]["rates_over_training"][-1] == pytest.approx([inputs] + [hidden] * 3, abs=1e-3)
    assert [each["width"] for each in contents["results"]["widths"]] == [8, 16]
    assert "784-16-16-16-10" in (out / "report.html").read_text()
    before = (out / "results.json").read_text()
    assert run("mnist", data, out, *words, "--resume") == 0
    assert json.loads(before)["results"] == contents_of(out)["results"]


def test_mnist_refuses_what_cannot_be(data, tmp_path, capsys) -> None:
    for words, said in {
        ("--sizes", "500"): "`sizes` must lie between 60 and 240, got [500]",
        ("--seeds", "0"): "`seeds` must be at least 1, got 0",
    }.items():
        assert run("mnist", data, tmp_path / "out", *words) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_scores_of_certain_and_uncertain_answers() -> None:
    logits = torch.tensor([[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found = scores(plain_prediction(torch.nn.Identity(), logits), torch.tensor([0, 2]))
    p = np.exp(8) / (np.exp(8) + 2)
    assert found["accuracy"] == 0.5
    assert found["nll"] == pytest.approx((-np.log(p) + np.log(3)) / 2, rel=1e-5)
    assert found["brier"] == pytest.approx(((1 - p) ** 2 + 2 * ((1 - p) / 2) ** 2 + 6 / 9) / 2, rel=1e-5)


def test_rotation_leaves_its_numbers_and_figures(data, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(rotation, "COMPARED", 60)
    monkeypatch.setattr(rotation, "COMPARED_SAMPLES", 4)
    write_digits(tmp_path / "clothes", splits=("test",), count=70, seed=1)
    out = tmp_path / "out"
    assert run("rotation", data, out, "--quick", "--num-samples", "6", "--others", str(tmp_path / "clothes")) == 0
    results = contents_of(out)["results"]
    assert results["angles"] == [50, 57, 64, 71, 78, 85, 92, 99, 106, 113, 120, 127]
    for network in results["networks"].values():
        turning = network["turning"]
        assert np.shape(turning["inputs"]) == np.shape(turning["outputs"]) == (6, 12, 3)
        total, parts = turning["predictive_entropy"], (turning["expected_entropy"], turning["mutual_information"])
        np.testing.assert_allclose(total, np.sum(parts, axis=0), atol=0.02)
        assert set(network["telling"]) == {"shuffled pixels", "two halves", "negative", "clothes"}
        assert all(0 <= value <= 1 for scores in network["telling"].values() for value in scores.values())
    assert (out / "rotation.png").stat().st_size > 5000
    assert (out / "rotation-entropy.png").stat().st_size > 5000


def test_pictures_of_another_size_are_an_error(data, tmp_path, capsys) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(torch.zeros(4, 8, 8, dtype=torch.uint8)))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(torch.zeros(4, dtype=torch.uint8)))
    assert run("rotation", data, tmp_path / "out", "--others", str(folder)) == 2
    assert "must be of 28 x 28 pixels, got (8, 8)" in capsys.readouterr().err


def test_a_picture_turns_about_its_middle() -> None:
    picture = torch.zeros(1, 5, 5)
    picture[0, 0, 2] = 1  # above the middle
    turned = rotated(picture, (0, 90, 180))
    torch.testing.assert_close(turned[0], picture)
    assert [tuple(each[0].nonzero()[0].tolist()) for each in (turned > 0.5)] == [(0, 2), (2, 0), (4, 2)]


def test_strangers_are_made_of_digits() -> None:
    digits = torch.rand(4, 1, 6, 6)
    found = strangers(digits, seed=1)
    torch.testing.assert_close(found["shuffled pixels"].flatten(1).sort().values, digits.flatten(1).sort().values)
    assert torch.equal(found["two halves"][1, ..., :3], digits[1, ..., :3])
    assert torch.equal(found["two halves"][1, ..., 3:], digits[0, ..., 3:])
    torch.testing.assert_close(found["negative"] + digits, torch.ones_like(digits))


def test_auroc_is_the_share_of_pairs_in_order() -> None:
    known, unknown = torch.tensor([0.1, 0.4, 0.5]), torch.tensor([0.3, 0.9])
    pairs = (unknown[:, None] > known).float().mean().item()
    assert auroc(known, unknown) == pytest.approx(pairs)
    assert auroc(known, known) == pytest.approx(0.5)
