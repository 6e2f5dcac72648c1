"""`gumdrop reproduce sentiment` on made-up sentences, and the network that reads them."""

from __future__ import annotations

import pytest
import torch

from gumdrop import categorical_nll
from gumdrop.training import state
from gumdrop_experiments.sentiment import study
from gumdrop_experiments.sentiment.page import draw_rates
from gumdrop_experiments.sentiment.study import SentenceReader

from builders.reproduced import reproduce, reproduced
from builders.reviews import write_reviews


def test_every_arm_is_trained(tmp_path):
    out = tmp_path / "out"
    write_reviews(tmp_path / "data" / "sst")
    words = ["--seeds", 1, "--epochs", 3, "--phrase-epochs", 1, "--hidden", 8, "--regularisers", 1e-6, 2e-5]
    found = reproduced("sentiment", out, *words, data=tmp_path / "data")
    assert len(found) == 12
    for label, each in found.items():
        assert len(each["parts"][0]["rates"]) == 2 + ("words" in label)
    assert found["fixed 0.3"]["parts"][0]["rates"]["head"] == pytest.approx([0.3] * 3)
    rates_of = {label: each["parts"][0]["rates"]["head"][-1] for label, each in found.items()}
    assert rates_of["learned"] != rates_of["learned, given factors"]
    for score in ("nll", "accuracy"):
        for name in ("train", "validation"):
            assert len(found["none"]["parts"][0][f"{name}_{score}"]) == 3
    assert all(0 <= share <= 1 for share in found["none"]["parts"][0]["train_accuracy"])
    page = (out / "report.html").read_text()
    assert "learned, words too, with phrases" in page


def test_a_run_goes_on_in_the_epoch_where_it_was_stopped(tmp_path, monkeypatch):
    out, counts = tmp_path / "out", iter(range(1000))
    write_reviews(tmp_path / "data" / "sst")
    words = ["--seeds", 1, "--epochs", 3, "--phrase-epochs", 0, "--hidden", 8, "--ways", "none", "learned"]

    def stops(logits, target):
        if next(counts) == 2 * (1 + 5):  # after two epochs of one batch and five draws
            raise KeyboardInterrupt
        return categorical_nll(logits, target)

    with monkeypatch.context() as patch:
        patch.setattr(state, "SECONDS_BETWEEN_CHECKPOINTS", -1.0)
        patch.setattr(study, "categorical_nll", stops)
        assert reproduce("sentiment", out, *words, data=tmp_path / "data") == 130
    resumed = reproduced("sentiment", out, *words, "--resume", data=tmp_path / "data")
    once = reproduced("sentiment", tmp_path / "whole", *words, data=tmp_path / "data")
    assert resumed == once
    assert len(once["none"]["parts"][0]["validation_accuracy"]) == 3


def test_the_epoch_that_is_kept_is_marked():
    part = {"best_epoch": 2, "rates": {"lstm.ih_l0": [0.2, 0.3, 0.4], "head": [0.5, 0.6, 0.7]}}
    (ax,) = draw_rates({"none": {"parts": [part]}, "learned": {"parts": [part]}}).axes
    marks = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if len(line.get_xdata()) == 1]
    assert marks == [(2, 0.3), (2, 0.6)]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "into the LSTM",
        "into the classes",
        "epoch kept",
    ]


def test_padding_does_not_change_what_is_read():
    model = SentenceReader(9, size=4, hidden=5).eval()
    sentence = torch.tensor([[3, 4, 5]])
    padded = torch.tensor([[3, 4, 5, 0, 0], [2, 3, 4, 5, 6]])
    torch.testing.assert_close(model(padded)[:1], model(sentence))
