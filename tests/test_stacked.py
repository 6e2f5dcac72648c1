import copy

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.networks import mlp
from gumdrop.training import CheckpointError, fit, fit_stacked, state


def task(seed: int, num_rows: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_rows, 3, generator=generator)
    return x, x[:, :1] * 2 - x[:, 1:2] + 0.2 * torch.randn(num_rows, 1, generator=generator)


def networks(count: int, **options) -> list[nn.Sequential]:
    torch.manual_seed(7)
    return [mlp(3, 2, hidden=[8], **options) for _ in range(count)]


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([value.flatten() for value in model.state_dict().values()])


def without_noise(model: nn.Module) -> nn.Module:
    """Rates so small that no unit is ever dropped: what is left of training is deterministic."""
    for name, value in model.named_parameters():
        if name.endswith("p_logit"):
            nn.init.constant_(value, -60.0)
    return model


def test_a_stack_takes_the_same_steps_as_each_model_alone() -> None:
    """One batch holds all rows, so that shuffling changes nothing, and no unit is dropped."""
    models = [without_noise(model) for model in networks(3)]
    alone = [copy.deepcopy(model) for model in models]
    data = [task(i) for i in range(3)]
    options = {"likelihood": "gaussian", "epochs": 20, "batch_size": 64, "lr": 2e-2, "weight_decay": 0.1}
    results = fit_stacked(models, data, **options)
    for model, other, pair, result in zip(models, alone, data, results, strict=True):
        expected = fit(other, pair, **options)
        torch.testing.assert_close(weights(model), weights(other), rtol=1e-3, atol=1e-4)
        assert result.history[-1].nll == pytest.approx(expected.history[-1].nll, rel=1e-3)
        assert result.history[-1].kl == pytest.approx(expected.history[-1].kl, rel=1e-3)
        assert result.history[-1].learning_rate == pytest.approx(expected.history[-1].learning_rate)


def test_learned_rates_agree_with_training_alone() -> None:
    data = [task(0)] * 6
    options = {"likelihood": "gaussian", "epochs": 60, "batch_size": 16, "lr": 1e-2}
    stacked = [result.history[-1] for result in fit_stacked(networks(6), data, **options)]
    alone = [fit(model, pair, **options).history[-1] for model, pair in zip(networks(6), data, strict=True)]
    for site in ("0", "2"):
        a = torch.tensor([record.rates[site] for record in stacked])
        b = torch.tensor([record.rates[site] for record in alone])
        assert a.mean() == pytest.approx(b.mean().item(), abs=0.05)


def test_models_learn_from_their_own_data_alone() -> None:
    data = [task(0), (task(1)[0], 5 + task(1)[1])]
    first, second = networks(2), networks(2)
    fit_stacked(first, data, likelihood="gaussian", epochs=5)
    fit_stacked(second, [data[0], (data[1][0], data[1][1] - 20)], likelihood="gaussian", epochs=5)
    torch.testing.assert_close(weights(first[0]), weights(second[0]))
    assert not torch.allclose(weights(first[1]), weights(second[1]))


def test_masks_differ_between_models() -> None:
    models = [copy.deepcopy(networks(1)[0]) for _ in range(2)]
    fit_stacked(models, [task(0)] * 2, likelihood="gaussian", epochs=2, batch_size=64)
    assert not torch.equal(weights(models[0]), weights(models[1]))


def test_each_data_set_has_its_own_size() -> None:
    models = networks(2)
    small, large = task(0, 10), task(1, 40)
    results = fit_stacked(models, [small, large], likelihood="gaussian", epochs=1, lr=1e-9)
    kl = [gd.kl_divergence(model).item() for model in networks(2)]
    assert results[0].history[0].kl == pytest.approx(kl[0] / 10, rel=1e-4)
    assert results[1].history[0].kl == pytest.approx(kl[1] / 40, rel=1e-4)


@pytest.mark.parametrize("change", [{"per_unit": True}, {}])
def test_rates_are_those_of_the_models(change) -> None:
    torch.manual_seed(0)
    models = [gd.learn_dropout(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), **change) for _ in range(2)]
    results = fit_stacked(models, [task(0), task(1)], likelihood="gaussian", epochs=3)
    for model, result in zip(models, results, strict=True):
        rates = {name: float(torch.as_tensor(p).mean()) for name, p in gd.dropout_rates(model).items()}
        assert result.history[-1].rates == pytest.approx(rates)
        assert not model.training


def test_fixed_rates_and_homoscedastic_noise_stack_too() -> None:
    torch.manual_seed(0)
    models = [gd.fix_dropout(mlp(3, 1, hidden=[4], homoscedastic_noise=True)) for _ in range(2)]
    fit_stacked(models, [task(0), task(1)], likelihood="gaussian", epochs=3, lr=0.1)
    assert gd.dropout_rates(models[0]) == {"0": pytest.approx(0.1), "2": pytest.approx(0.1)}
    assert models[0][-1].log_variance.item() != models[1][-1].log_variance.item() != 0


def test_same_seed_same_models_and_the_random_state_is_left_alone() -> None:
    first, second, third = networks(2), networks(2), networks(2)
    before = torch.get_rng_state()
    for models, seed in ((first, 1), (second, 1), (third, 2)):
        fit_stacked(models, [task(0), task(1)], likelihood="gaussian", epochs=2, seed=seed)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weights(first[1]), weights(second[1]))
    assert not torch.equal(weights(first[1]), weights(third[1]))


def test_a_stopped_stack_goes_on(tmp_path, monkeypatch) -> None:
    data = [task(0), task(1)]
    options = {"epochs": 6, "batch_size": 64, "seed": 3}
    expected_models = networks(2)
    expected = fit_stacked(expected_models, data, likelihood="gaussian", **options)
    monkeypatch.setattr(state, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    calls = []

    def interrupted(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        calls.append(None)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return gd.objective.LIKELIHOODS["gaussian"](output, target)

    with pytest.raises(KeyboardInterrupt):
        fit_stacked(networks(2), data, likelihood=interrupted, **options, checkpoint=tmp_path / "stack.pt")
    models = networks(2)
    results = fit_stacked(models, data, likelihood="gaussian", **options, checkpoint=tmp_path / "stack.pt")
    assert results == expected
    assert torch.equal(weights(models[1]), weights(expected_models[1]))
    with pytest.raises(CheckpointError, match="other data"):
        fit_stacked(models, data[::-1], likelihood="gaussian", **options, checkpoint=tmp_path / "stack.pt")


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="of one length, at least 1, got 2 and 1"):
        fit_stacked(networks(2), [task(0)], likelihood="gaussian", epochs=1)
    with pytest.raises(ValueError, match="the same layers and shapes"):
        fit_stacked([*networks(1), mlp(3, 2, hidden=[9])], [task(0)] * 2, likelihood="gaussian", epochs=1)
    with pytest.raises(ValueError, match="`epochs` must be at least 1"):
        fit_stacked(networks(1), [task(0)], likelihood="gaussian", epochs=0)
    x, y = task(0)
    with pytest.raises(ValueError, match="not finite in epoch 1"):
        fit_stacked(networks(1), [(x, y * 1e30)], likelihood="gaussian", epochs=1)
