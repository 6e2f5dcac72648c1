"""`gumdrop reproduce regularisation`, on a few made-up digits."""

import json

import torch

from gumdrop import dropout_rates
from gumdrop_experiments.data.mnist import DigitImages
from gumdrop_experiments.networks.convolutional import tutorial_lenet, tutorial_perceptron
from gumdrop_experiments.regularisation import study
from gumdrop_experiments.regularisation.study import NETWORKS

from builders.reproduced import reproduce, reproduced


def test_errors_are_counted_and_a_stopped_run_goes_on_where_it_stopped(digits, tmp_path, monkeypatch) -> None:
    words = ("--epochs", "2", "--lenet-epochs", "1")
    whole = reproduced("regularisation", tmp_path / "whole", *words, data=digits)
    assert (whole["settings"]["epochs"], whole["test_images"]) == ({"perceptron": 2, "lenet": 1}, 240)
    networks = whole["networks"]
    assert list(networks) == list(NETWORKS)
    assert [len(part["errors"]) for part in networks.values()] == [2, 2, 2, 2, 2, 1, 1, 1, 1]
    assert all(0 <= errors <= 240 for part in networks.values() for errors in part["errors"])
    for kind in ("test_nll", "train_nll"):
        assert all(len(part[kind]) == len(part["errors"]) for part in networks.values())
    assert [len(networks[f"{name}-learned"]["rates_over_training"][-1]) for name in ("perceptron", "lenet")] == [3, 3]
    assert not networks["lenet-half"]["rates_over_training"]
    tuned = networks["perceptron-strength"]
    assert tuned["strength"] == float(min(tuned["held_out_nll"], key=tuned["held_out_nll"].get))
    one = json.loads((tmp_path / "whole" / "parts" / "perceptron-strength-1.json").read_text())
    assert len(tuned["held_out_nll"]) == 4
    assert len(one["errors"]) == 1  # a third of the epochs, on part of the images
    assert min(one["errors"]) <= 40
    assert networks["lenet-none"]["parameters"] == 520 + 25_050 + 1_225_500 + 5_010
    page = (tmp_path / "whole" / "report.html").read_text()
    assert "135.4 → 126.7" in page
    assert "twice for 2 steps" in page

    stopped, count, some = tmp_path / "stopped", [], ["perceptron-learned", "lenet-none"]
    words += ("--networks", *reversed(some))

    def stop(model, test, device):
        count.append(1)
        if len(count) == 2:  # in the second epoch of the learned perceptron
            raise KeyboardInterrupt
        return scores_of(model, test, device)

    scores_of = study._scores
    monkeypatch.setattr(study, "_scores", stop)
    assert reproduce("regularisation", stopped, *words, data=digits) == 130
    assert [path.name for path in (stopped / "parts").glob("*.checkpoint")] == ["perceptron-learned.checkpoint"]
    monkeypatch.setattr(study, "_scores", scores_of)
    found = reproduced("regularisation", stopped, *words, "--resume", data=digits)["networks"]
    assert list(found) == some
    assert found == {name: networks[name] for name in some}


def test_networks_of_the_tutorial() -> None:
    def layers(model) -> list[str]:
        return [f"{type(m).__name__} {m.p}" if hasattr(m, "p") else type(m).__name__ for m in model]

    x = torch.rand(3, 1, 28, 28)
    for model in (tutorial_perceptron(input_rate=0.2, hidden_rate=0.5), tutorial_lenet(rate=0.5), tutorial_lenet()):
        assert model(x).shape == (3, 10)
    dense = layers(tutorial_perceptron(input_rate=0.2, hidden_rate=0.5))
    assert dense == ["Flatten", "Dropout 0.2", "Linear", "Tanh", "Dropout 0.5", "Linear", "Tanh", "Linear"]
    convolution = ["Conv2d", "MaxPool2d", "Dropout2d 0.5"]
    assert layers(tutorial_lenet(rate=0.5)) == [
        *convolution,
        *convolution,
        *("Flatten", "Linear", "ReLU", "Dropout 0.5", "Linear"),
    ]
    assert list(dropout_rates(NETWORKS["lenet-learned"].build())) == ["2", "5", "7"]


def test_masks_by_hand_train_as_those_of_pytorch(monkeypatch) -> None:
    generator = torch.Generator().manual_seed(3)
    images, labels = torch.rand(60, 1, 28, 28, generator=generator), torch.randint(10, (60,), generator=generator)
    monkeypatch.setattr(study, "BATCH_SIZE", 20)
    found = study.compare_masks(DigitImages(images, labels), seed=0)
    assert found["steps"] == 3
    assert found["largest_difference"] < 1e-5
    other = study.compare_masks(DigitImages(images, labels), seed=1)
    assert abs(found["nll"]["by hand"][0] - other["nll"]["by hand"][0]) > 1e-3
