"""`gumdrop reproduce camvid` on drawn shapes, and its pieces: the reader, the networks, the scores by brute force."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.likelihoods import ClassificationPrediction

Image = pytest.importorskip("PIL.Image")
from gumdrop.attribution.pictures import ImageFileError  # noqa: E402
from gumdrop_experiments.camvid.page import by_depth, page  # noqa: E402
from gumdrop_experiments.camvid.scores import (  # noqa: E402  # noqa: E402
    PixelScores,
    calibration_by_averages,
    confusion,
    mean_iou,
    miou_by_draws,
    noisy_log_probabilities,
    normalised_by,
    pixel_nll,
)
from gumdrop_experiments.data.camvid import CAMVID_CLASSES, VOID, read_segnet  # noqa: E402
from gumdrop_experiments.harness import WithPictures  # noqa: E402
from gumdrop_experiments.harness.variants import START  # noqa: E402
from gumdrop_experiments.networks.segmentation import (  # noqa: E402
    DEPTHS,
    NETWORKS,
    FCDenseNet,
    UNet,
)

from builders.reproduced import reproduced  # noqa: E402
from builders.streets import write_pictures  # noqa: E402


def test_pictures_come_with_the_classes_of_their_pixels(tmp_path):
    write_pictures(tmp_path, {"train": 5})
    found = read_segnet(tmp_path, "train")
    assert found.pictures.shape == (5, 3, 40, 48)
    assert found.labels.unique().tolist() == [0, 3, VOID]
    smaller = read_segnet(tmp_path, "train", size=(20, 24), limit=2)
    assert smaller.pictures.shape == (2, 3, 20, 24)
    assert set(smaller.labels.unique().tolist()) <= {0, 3, VOID}
    expected = found.pictures[0].float().view(3, 20, 2, 24, 2).mean((2, 4))
    assert (smaller.pictures[0].float() - expected).abs().max() <= 1


def test_what_cannot_be_read_is_named(tmp_path):
    write_pictures(tmp_path, {"train": 2})
    (tmp_path / "val.txt").write_text("only-one\n")
    with pytest.raises(ImageFileError, match="must name a picture and its map of classes"):
        read_segnet(tmp_path, "val")
    (tmp_path / "train" / "1.png").write_bytes(b"no picture")
    with pytest.raises(ImageFileError, match=r"1\.png cannot be read as a picture"):
        read_segnet(tmp_path, "train")
    Image.fromarray(np.zeros((40, 48, 3), dtype=np.uint8)).save(tmp_path / "trainannot" / "0.png")
    with pytest.raises(ImageFileError, match="must hold one number for each pixel, its class, but is RGB"):
        read_segnet(tmp_path, "train")
    Image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(tmp_path / "trainannot" / "0.png")
    with pytest.raises(ImageFileError, match="bring all to one size with `size`"):
        read_segnet(tmp_path, "train")


@pytest.mark.parametrize(
    ("depth", "convolutions", "millions"), [("56", 56, 1.38), ("67", 67, 3.46), ("103", 103, 9.32)]
)
def test_the_published_networks_have_their_layers_and_weights(depth, convolutions, millions):
    with torch.device("meta"):
        model = FCDenseNet(DEPTHS[depth], 11)
    assert sum(isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)) for m in model.modules()) == int(depth)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.01)


def test_under_autocast_transposed_convolutions_stay_in_float32() -> None:
    model, seen = FCDenseNet(DEPTHS["small"], 4).eval(), []
    for up in model.up:
        up.register_forward_pre_hook(lambda module, args: seen.append(args[0].dtype))
    x = torch.randn(1, 3, 24, 32)
    with torch.no_grad():
        expected = model(x)
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
    assert seen == [torch.float32] * 6
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), expected, atol=0.1 * expected.std().item(), rtol=0)
    assert model.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("model", [FCDenseNet(DEPTHS["small"], 4), UNet(4)], ids=["fc-densenet", "u-net"])
def test_the_network_takes_any_size(model):
    assert model.eval()(torch.zeros(1, 3, 21, 30)).shape == (1, 4, 21, 30)


def test_a_u_net_of_a_user_is_converted_by_one_call():
    model = gd.learn_dropout(UNet(4, (8, 16)), report=lambda report: None)
    convolutions = [m for m in model.modules() if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d))]
    assert len(gd.dropout_rates(model)) == len(convolutions) == 9
    x = torch.randn(2, 3, 12, 16)
    at_once = gd.predict_classification(model, x, num_samples=6, seed=0)
    one_by_one = torch.stack(list(gd.sample(model, x, num_samples=6, seed=0)))
    torch.testing.assert_close(at_once.probabilities, one_by_one.softmax(2).mean(0), rtol=1e-4, atol=1e-6)


def test_void_pixels_count_in_no_loss():
    logits, labels = torch.randn(2, 3, 4, 5), torch.randint(3, (2, 4, 5))
    whole, left_out = pixel_nll(logits, labels), int(labels[0, 0, 0])
    labels[0, 0, 0] = VOID
    lost = -torch.log_softmax(logits, 1)[0, left_out, 0, 0]
    torch.testing.assert_close(whole[0] - pixel_nll(logits, labels)[0], lost, atol=1e-4, rtol=0)


def test_noise_on_logits_is_averaged_as_probabilities():
    output = torch.randn(1, 4, 2, 2)
    noise = torch.randn(3, 1, 2, 1, 1)
    mean, log_variance = output[:, :2], output[:, 2:]
    expected = torch.stack([(mean + e * (0.5 * log_variance).exp()).softmax(1) for e in noise]).mean(0)
    torch.testing.assert_close(noisy_log_probabilities(output, noise).exp(), expected)
    none = noisy_log_probabilities(torch.cat([mean, torch.full_like(mean, -80)], 1), noise)
    torch.testing.assert_close(none, torch.log_softmax(mean, 1))


def predictions(count=3, classes=4):
    torch.manual_seed(1)
    draws = (2 * torch.randn(5, count, classes, 6, 7)).log_softmax(2)
    log_p = torch.logsumexp(draws, 0) - math.log(5)
    return ClassificationPrediction(log_p, torch.special.entr(draws.exp()).sum(2).mean(0))


def test_scores_are_those_of_all_pixels_at_once():
    metrics = pytest.importorskip("sklearn.metrics")
    prediction, labels = predictions(), torch.randint(4, (3, 6, 7))
    labels[:, 0] = VOID
    scores = PixelScores(4)
    for i in range(3):
        part = ClassificationPrediction(prediction.log_probabilities[i : i + 1], prediction.expected_entropy[i : i + 1])
        scores.add(part, labels[i : i + 1])
    found = scores.result()
    known = labels != VOID
    truth, said = labels[known].numpy(), prediction.label[known].numpy()
    assert found["accuracy"] == pytest.approx((truth == said).mean())
    assert found["iou"] == pytest.approx(metrics.jaccard_score(truth, said, average=None).tolist())
    per_picture = [
        metrics.jaccard_score(t[k].numpy(), p[k].numpy(), average="macro")
        for t, p, k in zip(labels, prediction.label, known, strict=True)
    ]
    assert found["miou_per_picture"] == pytest.approx(np.mean(per_picture))
    p = prediction.probabilities.permute(0, 2, 3, 1)[known].numpy()
    assert found["nll"] == pytest.approx(metrics.log_loss(truth, p), rel=1e-5)
    assert found["overconfidence"] == pytest.approx(p.max(1).mean() - found["accuracy"], abs=1e-6)
    for c, error in enumerate(found["class_ece"]):
        sums = np.bincount((p[:, c] * 20).astype(int), weights=p[:, c] - (truth == c))
        assert error == pytest.approx(np.abs(sums).sum() / len(truth), abs=1e-6)
    doubt = prediction.mutual_information[known].numpy()
    assert found["auroc"]["mutual_information"] == pytest.approx(metrics.roc_auc_score(truth != said, doubt), abs=0.01)
    assert sum(found["calibration"]["pixels"]) == known.sum()


def test_other_averages_are_those_of_all_pixels_at_once():
    torch.manual_seed(2)
    log_p, labels = (2 * torch.randn(5, 3, 4, 6, 7)).log_softmax(2), torch.randint(4, (3, 6, 7))
    labels[:, 0] = VOID
    found = calibration_by_averages([(log_p[:, :2], labels[:2]), (log_p[:, 2:], labels[2:])])
    for average, p in (("probabilities", log_p.exp().mean(0)), ("logarithms", log_p.mean(0).exp())):
        for pixels, chosen in (("of a class", labels != VOID), ("all", labels >= 0)):
            sure, right = p.amax(1)[chosen], (p.argmax(1) == labels)[chosen]
            expected = sure.mean() - right.float().mean()
            assert found[f"{average}, {pixels}"]["overconfidence"] == pytest.approx(expected.item(), abs=1e-6)
    assert found["logarithms, all"]["ece"] >= abs(found["logarithms, all"]["overconfidence"]) - 1e-9


def test_perfect_scores_are_perfect():
    labels = torch.randint(3, (2, 5, 5))
    log_p = torch.full((2, 3, 5, 5), -20.0).scatter(1, labels.unsqueeze(1), 0.0)
    scores = PixelScores(3)
    scores.add(ClassificationPrediction(log_p, torch.zeros(2, 5, 5)), labels)
    found = scores.result()
    assert (found["miou"], found["accuracy"], found["miou_per_picture"]) == (1, 1, 1)
    assert max(found["nll"], found["ece"], found["calibration_mse"]) < 1e-6
    assert found["auroc"]["mutual_information"] is None


def test_some_variants_of_a_u_net_in_bfloat16(tmp_path):
    folder, out = tmp_path / "data", tmp_path / "out"
    write_pictures(folder / "camvid", {"train": 2, "val": 1, "test": 1})
    words = ["--height", 24, "--width", 32, "--network", "unet", "--seeds", 2, "--bfloat16", "--crop", 16]
    words += ["--epochs", 1, "--num-samples", 2, "--variants", "learned from 0.05", "learned", "none"]
    words += ["--regularisers", "1e-8", 1]  # with these the entropy decides alone
    found = reproduced("camvid", out, *words, data=folder)
    counts = [(variant, len(runs)) for variant, runs in found.items()]
    assert counts == [("none", 2), ("learned", 2), ("learned from 0.05", 2)]
    assert all(rates[-1] > START for run in found["learned"] for rates in run["rates"].values())
    assert all(0.05 < rates[-1] < START for rates in found["learned from 0.05"][0]["rates"].values())
    assert "Calibration error of each class" in (out / "report.html").read_text()


def test_maps_can_be_normalised_without_masks_and_by_the_picture() -> None:
    model = gd.learn_dropout(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 1)), p=0.5)
    model[1].running_mean.fill_(7)
    crops = torch.randn(3, 2, 3, 8, 8).unbind()
    found = normalised_by(model.eval(), crops)
    assert found["masked training"] is model
    expected = torch.cat([model[0](x) for x in crops]).mean((0, 2, 3))
    torch.testing.assert_close(found["training without masks"][1].running_mean, expected)
    picture = model[3](nn.functional.batch_norm(model[0](crops[0]), None, None, training=True).relu())
    torch.testing.assert_close(found["the picture"](crops[0]), picture)
    assert model[1].running_mean.tolist() == [7] * 4


def test_draws_are_averaged_as_probabilities_and_as_logits() -> None:
    model = gd.learn_dropout(nn.Sequential(nn.Conv2d(3, 6, 1), nn.Tanh(), nn.Conv2d(6, 4, 1)), p=0.5).eval()
    pictures = [(4 * torch.randn(1, 3, 9, 9), torch.randint(4, (1, 9, 9))) for _ in range(2)]
    found = miou_by_draws(model, pictures, num_samples=5, autocast=nullcontext)
    assert found["draws"] == [1, 3, 5]
    drawn = torch.cat([torch.stack(list(gd.sample(model, x, num_samples=5, seed=0))) for x, _ in pictures], 1)
    truth = torch.cat([y for _, y in pictures])
    for i, n in enumerate(found["draws"]):
        label = {"probabilities": drawn[:n].softmax(2).mean(0).argmax(1), "logits": drawn[:n].mean(0).argmax(1)}
        for how, found_label in label.items():
            assert found[how][i] == pytest.approx(mean_iou(confusion(truth, found_label, 4)))
    assert found["probabilities"][0] == found["logits"][0]


@pytest.mark.parametrize("name", ["56", "small", "unet"])
def test_rates_are_drawn_in_the_order_in_which_data_pass_them(name):
    model = gd.learn_dropout(NETWORKS[name](4), exclude=["first"], report=lambda report: None).eval()
    names, passed = list(gd.dropout_rates(model)), []
    for site in names:
        model.get_submodule(site).register_forward_hook(lambda *_, site=site: passed.append(site))
    model(torch.zeros(1, 3, 64, 64))
    assert by_depth(names) == passed


@pytest.mark.slow
def test_a_small_run_on_drawn_shapes(tmp_path):
    folder, out = tmp_path / "data", tmp_path / "out"
    write_pictures(folder / "camvid", {"train": 4, "val": 1, "test": 1})
    words = ["--height", 32, "--width", 40, "--crop", 24, "--epochs", 6, "--num-samples", 2, "--seeds", 1]
    found = reproduced("camvid", out, *words, "--draws", data=folder)
    assert list(found) == ["none", "fixed 0.2", "learned", "learned, aleatoric head"]
    for variant, (run,) in found.items():
        assert run["draws"]["accuracy"] > 0.5
        assert run["nll"][-1] < run["nll"][0]
        assert all(0 < rates[-1] < 1 for rates in run["rates"].values())
        assert (run["draws"] == run["no_draws"]) == (variant == "none")
        assert [iou is None for iou in run["miou_validation"]] == [True, True, False] * 2
        assert 0 < run["miou_train"][0] < run["miou_train"][-1] <= 1
    assert list(found["learned"][0]["averages"]) == ["no_draws", "draws"]
    for how, scores in found["learned"][0]["averages"].items():
        assert scores["probabilities, of a class"]["ece"] == pytest.approx(found["learned"][0][how]["ece"], abs=1e-6)
        assert scores["logarithms, all"]["overconfidence"] < scores["probabilities, all"]["overconfidence"] + 1e-6
    by_draws = found["learned"][0]["by_draws"]["masked training"]
    assert by_draws["probabilities"][-1] == pytest.approx(found["learned"][0]["draws"]["miou"])
    assert "camvid-maps.png" in {path.name for path in out.iterdir()}

    shown = {name: torch.zeros(40, 48, dtype=torch.uint8) for name in ("truth", "prediction", "aleatoric", "epistemic")}
    with_maps = page(WithPictures(found, [shown | {"picture": torch.zeros(3, 40, 48, dtype=torch.uint8)}]))
    drawn = {picture.name: picture.drawing for picture in with_maps.pictures}
    words = [text.get_text() for text in drawn["camvid-maps"].legends[0].get_texts()]
    assert words == [*CAMVID_CLASSES, "no class"]
    without = {picture.name for picture in page(WithPictures({"none": found["none"]}, [])).pictures}
    assert without.isdisjoint({"camvid-maps", "camvid-rates"})
