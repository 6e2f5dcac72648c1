"""`gumdrop reproduce attribution`, on a handful of made-up digits and pictures."""

import pytest
import torch

from gumdrop import cli
from gumdrop_experiments.attribution import masks, peers
from gumdrop_experiments.attribution import study as experiment
from gumdrop_experiments.attribution.masks import mask_iou, planted_squares
from gumdrop_experiments.attribution.peers import gumbel_masks
from gumdrop_experiments.attribution.study import PHOTOGRAPHS
from gumdrop_experiments.networks import convolutional
from gumdrop_experiments.networks.convolutional import photograph_batches, train_or_load

from builders.digits import write_digits
from builders.reproduced import reproduced

pytest.importorskip("captum")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def data(tmp_path):
    """A folder of data sets: bars at ten heights for digits, two colours for photographs."""
    generator = torch.Generator().manual_seed(0)
    folder = tmp_path / "data"
    write_digits(folder / "mnist", count=60)
    (folder / "images").mkdir()
    for i, name in enumerate(PHOTOGRAPHS):
        pixels = torch.randint(0, 256, (30, 40, 3), generator=generator, dtype=torch.uint8)
        pixels[..., 0] = 30 * i
        Image.frombytes("RGB", (40, 30), bytes(pixels.flatten().tolist())).save(folder / "images" / name)
    return folder


@pytest.mark.slow
def test_attribution_leaves_its_numbers_and_figures(data, tmp_path, constants) -> None:
    constants(convolutional, CLASSIFIER_STEPS=5)
    constants(experiment, STEPS=3, SPEED_ITERATIONS=1, CROP=32, PICTURE=40, SHOWN=10, UNSEEN=slice(10))
    constants(masks, SQUARES=4)
    constants(peers, ROUNDS=1)
    out = tmp_path / "out"
    results = reproduced("attribution", out, "--num-images", 1, "--iterations", 2, data=data)
    assert set(results["planted"]["infills"]) == {"blur", "mean", "zeros", "uniform", "normal", "local_shuffle"}
    for found in results["digits"].values():
        assert {"FIDO ssr", "FIDO joint", "Gumbel t=1 sdr", "integrated gradients", "occlusion 5 x 5"} <= set(found)
        assert all(0 <= row["insertion"]["mean"] <= 1 for row in found.values())
    for row in results["speed"]["networks"].values():
        assert row["largest_difference"] < 1e-3
        assert row["network_times_faster"] == pytest.approx(row["network_alone"] / row["network_batch"])
    assert "pictures" not in results["shown"]
    words = ["explain-image", str(out / "digits.pt2"), str(data / "images" / "camera.png"), "--quiet"]
    assert cli.main([*words, "--out", str(out / "camera.png"), "--iterations", "2"]) == 0


# Its parts


def test_a_planted_square_is_the_pattern_and_noise_is_around_it() -> None:
    images, patterns = planted_squares(5, seed=1)
    inside = patterns != 0
    assert inside.flatten(1).sum(1).tolist() == [100] * 5
    assert torch.equal(images[inside], patterns[inside])
    assert images[~inside].abs().max() < 1
    assert mask_iou(inside.float(), inside).tolist() == [1.0] * 5
    again = planted_squares(5, seed=1)
    assert torch.equal(again[0], images)
    assert not torch.equal(planted_squares(5, seed=2)[0], images)


def test_the_usual_loop_finds_what_fido_finds() -> None:
    """The same distribution of masks at the same temperature: rates agree up to noise, not number for number."""
    from gumdrop.attribution import FIDO, FIDOSettings

    class Left(torch.nn.Module):
        def forward(self, x):
            light = x[..., :4].mean((1, 2, 3))
            return torch.stack([8 * light, 0 * light], dim=1)

    model, x = Left().eval(), torch.ones(2, 1, 8, 8)
    before = torch.get_rng_state()
    settings = FIDOSettings(iterations=60)
    target, infill = torch.zeros(2).long(), torch.zeros_like(x)
    ssr, sdr = gumbel_masks(model, x, target, infill, settings=settings, temperature=0.1)
    assert torch.equal(torch.get_rng_state(), before)
    found = FIDO(model, settings).explain(x, 0, infill="zeros")
    torch.testing.assert_close(ssr, found.keep_ssr, atol=0.15, rtol=0)
    torch.testing.assert_close(sdr, found.keep_sdr, atol=0.15, rtol=0)


def test_a_trained_classifier_is_read_again(tmp_path) -> None:
    pictures = torch.rand(3, 3, 40, 40, generator=torch.Generator().manual_seed(0))
    batches = photograph_batches(pictures, size=16, batch_size=8)
    x, y = batches(torch.Generator().manual_seed(0))
    assert x.shape == (8, 3, 16, 16)
    assert y.max() < 3

    def build():
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 3))

    first = train_or_load(build, lambda: batches, tmp_path / "a.pt", steps=3, seed=0)
    again = train_or_load(build, lambda: pytest.fail("trained again"), tmp_path / "a.pt", steps=3, seed=0)
    assert torch.equal(first[1].weight, again[1].weight)
    assert not again.training
