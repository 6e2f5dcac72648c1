"""The recipes for other libraries run as they stand, smaller where they would take long."""

import importlib.util
import math
import os
from pathlib import Path

import pytest
import torch

import gumdrop as gd
from gumdrop.layers import dropout_blocks

from builders.rates import set_logit

os.environ["HF_HUB_OFFLINE"] = "1"
RECIPES = Path(__file__).parents[2] / "docs" / "recipes"


def recipe(name, *needs):
    for need in needs:
        pytest.importorskip(need, reason=f"the recipe needs {need}")
    spec = importlib.util.spec_from_file_location(name, RECIPES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_skorch() -> None:
    result = recipe("skorch_net", "skorch", "sklearn").main(max_epochs=15)
    assert min(result["neg_log_loss"]) > -0.2
    assert all(0 < p < 1 for p in result["rates"].values())
    assert any(abs(p - 0.1) > 1e-3 for p in result["rates"].values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
def test_lightning(tmp_path) -> None:
    result = recipe("lightning_module", "lightning").main(max_epochs=10, folder=str(tmp_path))
    assert result["log_likelihood"] > -1.2  # that of the mean of a standardised target is -1.42
    assert math.isfinite(result["train_kl"])
    assert {"rate_0", "rate_2"} <= result.keys()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_trainer_of_hugging_face() -> None:
    result = recipe("hf_trainer", "transformers", "accelerate").main(max_steps=60)
    assert result["accuracy"] > 0.6
    rates = result["rates"].values()
    assert len(rates) == 14
    assert all(0 < p < 1 for p in rates)
    assert any(abs(p - 0.05) > 0.01 for p in rates)


def one_step(module, batch_size, accumulated, folder):
    """Take one step of plain gradient descent on 64 rows; what was lost, and where it led."""
    torch.manual_seed(0)
    model = module.model()
    with torch.no_grad():
        for block in dropout_blocks(model):  # no masks, so that both ways compute the same
            set_logit(block.site, -40.0)

    class Descent(module.ConcreteDropoutTrainer):
        def create_optimizer(self, model=None):
            self.optimizer = torch.optim.SGD(gd.parameter_groups(self.model), lr=1.0)
            return self.optimizer

    arguments = module.TrainingArguments(
        folder, max_steps=1, per_device_train_batch_size=batch_size, gradient_accumulation_steps=accumulated,
        max_grad_norm=0.0, lr_scheduler_type="constant", save_strategy="no", report_to=[], disable_tqdm=True,
        use_cpu=True, seed=0,
    )  # fmt: skip
    trainer = Descent(model, arguments, train_dataset=module.Sentences(64, seed=0))
    return trainer.train().training_loss, dict(model.named_parameters())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_trainer_accumulates_gradients_to_those_of_one_batch(tmp_path) -> None:
    module = recipe("hf_trainer", "transformers", "accelerate")
    loss, parameters = one_step(module, 64, 1, tmp_path)
    for batch_size, accumulated in ((16, 4), (32, 2)):
        other_loss, others = one_step(module, batch_size, accumulated, tmp_path)
        assert other_loss == pytest.approx(loss, rel=1e-5)
        for name, value in others.items():
            torch.testing.assert_close(value, parameters[name], rtol=1e-4, atol=1e-5)


def same_rates(result) -> None:
    assert all(abs(p - result["start"][name]) > 0.01 for name, p in result["learned"].items())
    assert result["loaded"] == result["learned"]
    assert result["difference of draws"] == 0.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_rates_come_back_with_a_pretrained_model() -> None:
    result = recipe("hf_pretrained", "transformers").main(steps=10)
    assert len(result["start"]) == 14
    own = {"classifier": 0.1}  # it takes over the dropout in front of it
    assert result["start"] == pytest.approx(dict.fromkeys(result["start"], 0.05) | own)
    same_rates(result)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_rates_come_back_with_an_adapter() -> None:
    result = recipe("peft_adapter", "transformers", "peft").main(steps=10)
    assert len(result["start"]) == 12
    assert all(p == pytest.approx(0.1) for p in result["start"].values())
    same_rates(result)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a line search that begins anew
def test_a_surrogate_for_botorch() -> None:
    module = recipe("botorch_surrogate", "botorch")
    x = torch.rand(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = 50 + 10 * x.sum(1, keepdim=True)
    networks = module.untrained(3, num_networks=2)
    model = module.DrawnFunctions(networks, module.train(networks, x, y, epochs=60), num_samples=3, seed=0)
    points = x[:8].reshape(4, 2, 3).requires_grad_()
    values = model.posterior(points).values
    assert values.shape == (4, 6, 2, 1)
    torch.testing.assert_close(values, model.posterior(points).values, rtol=0, atol=0)
    for i, network in enumerate(networks):  # functions are those of the networks, in the units of the target
        with torch.no_grad():
            drawn = gd.draw(network.double(), seed=1)(module.centred(points[:, 0]))[:, :1]
        torch.testing.assert_close(values[:, 3 * i + 1, 0], y.mean() + y.std() * drawn)
    assert torch.autograd.grad(values.sum(), points)[0].abs().min() > 0
    result = module.main(evaluations=23, first_epochs=150, epochs=30)
    assert result["regret"] < result["regret at first"] / 2
