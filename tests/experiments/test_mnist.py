"""`gumdrop reproduce mnist`, on a few made-up digits."""

import numpy as np
import pytest
import torch

from gumdrop_experiments.mnist import study
from gumdrop_experiments.shared import class_scores, plain_prediction

from builders.reproduced import reproduce, reproduced, results_of


def test_a_run_leaves_its_numbers_and_figures(digits, tmp_path, monkeypatch, constants) -> None:
    constants(study, QUICK_WIDTHS=(8,), QUICK_WIDTH=16)
    monkeypatch.setattr(study._Work, "passes", lambda work, num_data: 2)
    out = tmp_path / "out"
    words = ("--quick", "--sizes", "60", "240", "--epochs", "1", "--num-samples", "5")
    results = reproduced("mnist", out, *words, data=digits)
    small, large = results["sizes"]
    assert (small["num_data"], large["num_data"]) == (60, 240)
    assert set(large["search"]) == set(study.FIXED)
    assert large["search"][large["chosen"]]["nll"] == min(each["nll"] for each in large["search"].values())
    for each in (*small["learned"], *large["learned"], *large["fixed"]):
        assert 0 <= each["drawn"]["accuracy"] <= 1
        assert len(each["rates_over_training"][-1]) == 4
    assert large["learned"][0]["rates"] == pytest.approx(large["learned"][0]["rates_over_training"][-1], abs=1e-4)
    inputs, hidden = study.FIXED[large["chosen"]]
    assert large["fixed"][0]["rates_over_training"][-1] == pytest.approx([inputs] + [hidden] * 3, abs=1e-3)
    assert [each["width"] for each in results["widths"]] == [8, 16]
    assert "784-16-16-16-10" in (out / "report.html").read_text()
    assert reproduce("mnist", out, *words, "--resume", data=digits) == 0
    assert results_of(out) == results


def test_scores_of_certain_and_uncertain_answers() -> None:
    logits = torch.tensor([[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found = class_scores(plain_prediction(torch.nn.Identity(), logits), torch.tensor([0, 2]))
    in_parts = plain_prediction(torch.nn.Identity(), logits, batch_size=1)
    assert class_scores(in_parts, torch.tensor([0, 2])) == found
    p = np.exp(8) / (np.exp(8) + 2)
    assert found["accuracy"] == 0.5
    assert found["nll"] == pytest.approx((-np.log(p) + np.log(3)) / 2, rel=1e-5)
    assert found["brier"] == pytest.approx(((1 - p) ** 2 + 2 * ((1 - p) / 2) ** 2 + 6 / 9) / 2, rel=1e-5)
