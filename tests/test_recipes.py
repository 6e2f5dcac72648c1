"""The recipes for other libraries run as they stand, smaller where they would take long."""

import importlib.util
import json
import math
import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
RECIPES = Path(__file__).parents[1] / "docs" / "recipes"
DATA = Path(os.environ.get("GUMDROP_DATA", Path(__file__).parents[2] / "shared" / "data"))


def recipe(name, *needs):
    for need in needs:
        pytest.importorskip(need, reason=f"the recipe needs {need}")
    spec = importlib.util.spec_from_file_location(name, RECIPES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_skorch() -> None:
    result = recipe("skorch_net", "skorch", "sklearn").main(max_epochs=15)
    assert min(result["neg_log_loss"]) > -0.2
    assert all(0 < p < 1 for p in result["rates"].values())
    assert any(abs(p - 0.1) > 1e-3 for p in result["rates"].values())


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
def test_lightning(tmp_path) -> None:
    result = recipe("lightning_module", "lightning").main(max_epochs=10, folder=str(tmp_path))
    assert result["log_likelihood"] > -1.2  # that of the mean of a standardised target is -1.42
    assert math.isfinite(result["train_kl"])
    assert {"rate_0", "rate_2"} <= result.keys()


@pytest.mark.filterwarnings("ignore")
def test_the_trainer_of_hugging_face() -> None:
    result = recipe("hf_trainer", "transformers", "accelerate").main(max_steps=60)
    assert result["accuracy"] > 0.6
    rates = result["rates"].values()
    assert len(rates) == 14
    assert all(0 < p < 1 for p in rates)
    assert any(abs(p - 0.05) > 0.01 for p in rates)


@pytest.mark.filterwarnings("ignore")
def test_a_rate_for_each_adapter(monkeypatch) -> None:
    if not (DATA / "sst").is_dir():
        pytest.skip("needs the sentences of SST-2; GUMDROP_DATA names the folder that holds sst/")
    module = recipe("lora_sst", "transformers", "peft")
    monkeypatch.setattr(module, "PRIORS", ("weak",))
    result = next(module.run(DATA, base_steps=60, steps=5, seeds=1, few=60))
    (rates,) = result["rates"]
    assert len(rates) == 11
    assert all(p != pytest.approx(0.1, abs=1e-4) for p in rates.values())
    assert all(0.3 < score["accuracy"] < 1 for scores in result["scores"].values() for score in scores)
    assert len(module.draw([result]).axes) == 4


def test_the_figures_of_the_page_are_those_of_the_results_file() -> None:
    page = (RECIPES.parent / "integrations.md").read_text(encoding="utf-8")
    results = json.loads((RECIPES.parent / "results" / "lora.json").read_text(encoding="utf-8"))["results"]
    assert [result["sentences"] for result in results] == [500, 6920]
    for result in results:
        for method, scores in result["scores"].items():
            means = [sum(each[name] for each in scores) / len(scores) for name in scores[0]]
            accuracy, nll, error = means
            assert f"| {result['sentences']:,} | {method} | {accuracy:.3f} | {nll:.3f} | {error:.3f} |" in page
