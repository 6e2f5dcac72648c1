import copy

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.networks import mlp
from gumdrop.training import CheckpointError, RowSource, fit, fit_stacked, stacked, state
from gumdrop.training import rows as rows_room


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
        if name.endswith("scaled_logit"):
            nn.init.constant_(value, -6.0)
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


@pytest.mark.parametrize("lengthscale", ["fan_in", 0.5])
def test_each_data_set_has_its_own_size(lengthscale) -> None:
    models = networks(2)
    small, large = task(0, 10), task(1, 40)
    options = {"likelihood": "gaussian", "epochs": 1, "lr": 1e-9, "lengthscale": lengthscale}
    results = fit_stacked(models, [small, large], **options)
    kl = [gd.kl_divergence(model, lengthscale=lengthscale).item() for model in networks(2)]
    assert results[0].history[0].kl == pytest.approx(kl[0] / 10, rel=1e-4)
    assert results[1].history[0].kl == pytest.approx(kl[1] / 40, rel=1e-4)


def test_weights_are_the_size_of_the_data() -> None:
    weight = torch.linspace(0.5, 6.0, 40)
    (result,) = fit_stacked(networks(1), [task(0, 40)], likelihood="gaussian", epochs=1, lr=1e-9, weights=[weight])
    expected = gd.kl_divergence(networks(1)[0]).item() / weight.sum().item()
    assert result.history[0].kl == pytest.approx(expected, rel=1e-4)


def test_the_history_is_the_mean_over_rows_whatever_the_batches() -> None:
    """A last batch of 4 rows counts as 4 rows."""
    x, y = task(0, 64)
    y[:, 0] *= torch.where(torch.arange(64) % 16 == 0, 30.0, 1.0)
    histories = []
    for batch_size in (60, 64):
        models = [without_noise(model) for model in networks(2)]
        results = fit_stacked(models, [(x, y)] * 2, likelihood="gaussian", epochs=1, lr=1e-9, batch_size=batch_size)
        histories.append([(result.history[0].nll, result.history[0].kl) for result in results])
    torch.testing.assert_close(torch.tensor(histories[0]), torch.tensor(histories[1]), rtol=1e-4, atol=0.0)


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

    interrupted.__qualname__ = "gaussian"
    with pytest.raises(KeyboardInterrupt):
        fit_stacked(networks(2), data, likelihood=interrupted, **options, checkpoint=tmp_path / "stack.pt")
    models = networks(2)
    results = fit_stacked(models, data, likelihood="gaussian", **options, checkpoint=tmp_path / "stack.pt")
    assert results == expected
    assert torch.equal(weights(models[1]), weights(expected_models[1]))
    interrupted.__qualname__ = "student"
    with pytest.raises(CheckpointError, match="likelihood was gaussian, is student"):
        fit_stacked(models, data, likelihood=interrupted, **options, checkpoint=tmp_path / "stack.pt")
    with pytest.raises(CheckpointError, match="other data"):
        fit_stacked(models, data[::-1], likelihood="gaussian", **options, checkpoint=tmp_path / "stack.pt")


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="of one length, at least 1, got 2, 1, 1 and 1"):
        fit_stacked(networks(2), [task(0)], likelihood="gaussian", epochs=1)
    with pytest.raises(ValueError, match="`keep_best` needs `held_out` rows"):
        fit_stacked(networks(1), [task(0)], likelihood="gaussian", epochs=1, keep_best=True)
    with pytest.raises(ValueError, match="`held_out_noise` needs held-out data"):
        fit_stacked(networks(1), [task(0)], likelihood="gaussian", epochs=1, held_out_noise=True)
    with pytest.raises(ValueError, match="`epochs` must be at least 1"):
        fit_stacked(networks(1), [task(0)], likelihood="gaussian", epochs=0)
    with pytest.raises(TypeError, match="got a setting `max_norm`, and the settings here are batch_size, lr"):
        fit_stacked(networks(1), [task(0)], likelihood="gaussian", epochs=1, max_norm=1.0)
    x, y = task(0)
    with pytest.raises(ValueError, match="not finite in epoch 1"):
        fit_stacked(networks(1), [(x, y * 1e30)], likelihood="gaussian", epochs=1)


# Rows of shared data, and rows that are held out


def test_shared_data_are_held_once_and_only_the_named_rows_are_seen() -> None:
    """Rows that no model is to see are not numbers."""
    x, y = task(0, num_rows=40)
    x[30:] = float("nan")
    rows = [torch.arange(0, 20), torch.arange(5, 30)]
    data = rows_room.StackedRows([(x, y), (x, y)], rows)
    assert data._x is x
    assert [set(order.tolist()) for order in data.shuffled()] == [set(each.tolist()) for each in rows]
    models = networks(2)
    fit_stacked(models, [(x, y)] * 2, rows=rows, likelihood="gaussian", epochs=2)
    assert all(weights(model).isfinite().all() for model in models)


def test_rows_of_different_data_do_not_mix() -> None:
    first, second = task(0, num_rows=10), task(1, num_rows=12)
    data = rows_room.StackedRows([first, second, first], [torch.arange(10), torch.arange(12), torch.tensor([3])])
    x, y = data[data.shuffled()]
    for i, source in enumerate([first, second]):
        assert {tuple(row) for row in x[i].tolist()} == {tuple(row) for row in source[0].tolist()}
        assert {tuple(row) for row in y[i].tolist()} == {tuple(row) for row in source[1].tolist()}
    assert (x[2] == first[0][3]).all()
    assert (y[2] == first[1][3]).all()


def noisy_networks(count: int) -> list[nn.Sequential]:
    torch.manual_seed(7)
    return [mlp(3, 1, hidden=[16], homoscedastic_noise=True) for _ in range(count)]


def apart(monkeypatch) -> None:
    monkeypatch.setattr(stacked, "Together", _refuse)


def _refuse(*arguments) -> None:
    raise RuntimeError("vmap: not today\nsecond line")


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.filterwarnings("ignore:the models are trained one after the other")
def test_held_out_noise_is_that_of_the_held_out_rows_of_each_model(together, monkeypatch) -> None:
    """The held-out rows of the second model are four times as noisy as those it trains on."""
    if not together:
        apart(monkeypatch)
    x, _ = task(0, num_rows=160)
    spread = torch.where(torch.arange(160) < 120, 0.2, 0.8).unsqueeze(1)
    y = x[:, :1] + spread * torch.randn(160, 1, generator=torch.Generator().manual_seed(3))
    rows = [torch.arange(100), torch.arange(100)]
    held_out = [torch.arange(100, 120), torch.arange(120, 160)]
    models = noisy_networks(2)
    options = {"likelihood": "gaussian", "epochs": 150, "lr": 1e-2, "lengthscale": "weak"}
    fit_stacked(models, [(x, y)] * 2, rows=rows, held_out=held_out, held_out_noise=True, **options)
    for model, each in zip(models, held_out, strict=True):
        with gd.sampling(model, seed=0, shared=False), torch.no_grad():
            residuals = torch.cat([model(x[each])[:, :1] - y[each] for _ in range(50)])
        assert model[-1].log_variance.exp().item() == pytest.approx(residuals.square().mean().item(), rel=0.25)
        assert model[-1].log_variance.requires_grad
    assert models[1][-1].log_variance > models[0][-1].log_variance + 1


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.filterwarnings("ignore:the models are trained one after the other")
def test_the_best_epoch_of_each_model_is_kept(together, monkeypatch) -> None:
    """Long training on pure noise gets worse on other rows; a model that learns something gets better."""
    if not together:
        apart(monkeypatch)
    x, y = task(0, num_rows=64)
    noise = torch.randn(64, 1, generator=torch.Generator().manual_seed(1))
    data = [(x, y), (x, noise)]
    rows, held_out = [torch.arange(24)] * 2, [torch.arange(24, 64)] * 2
    models = networks(2, p=0.01)
    options = {"likelihood": "gaussian", "epochs": 40, "lr": 2e-2, "lengthscale": 0.01}
    results = fit_stacked(models, data, rows=rows, held_out=held_out, keep_best=True, **options)
    for model, (inputs, targets), each, result in zip(models, data, held_out, results, strict=True):
        scores = [record.validation_nll for record in result.history]
        assert result.best_epoch == 1 + min(range(len(scores)), key=scores.__getitem__)
        score = -gd.predict_regression(model, inputs[each], seed=0).log_prob(targets[each]).mean().item()
        assert score == pytest.approx(min(scores), abs=0.1)
    assert results[1].best_epoch < 20 < results[0].best_epoch


def test_the_held_out_value_is_that_of_the_averaged_prediction() -> None:
    """Minus the log of the mean density over draws: the mean of the logs is far larger."""
    torch.manual_seed(0)
    models = [mlp(3, 2, hidden=[16], p=0.5) for _ in range(2)]
    x, y = task(0, 30)
    rows = [torch.arange(30)] * 2
    options = {"likelihood": "gaussian", "epochs": 1, "lr": 1e-9, "held_out": rows, "keep_best": True}
    results = fit_stacked(models, [(x, y)] * 2, **options, validation_samples=4000)
    for model, result in zip(models, results, strict=True):
        prediction = gd.predict_regression(model, x, num_samples=4000, seed=0)
        expected = -prediction.log_prob(y).mean().item()
        assert result.history[0].validation_nll == pytest.approx(expected, abs=0.02)
        draws = gd.sample(model, x, num_samples=100, seed=0)
        assert torch.stack([gd.gaussian_nll(*draw.chunk(2, -1), y) for draw in draws]).mean() > expected + 0.1


def test_a_stopped_run_with_held_out_rows_goes_on(tmp_path) -> None:
    x, y = task(0, num_rows=40)
    options = {"rows": [torch.arange(30)] * 2, "held_out": [torch.arange(30, 40)] * 2, "epochs": 6, "batch_size": 8}
    options |= {"held_out_noise": True, "keep_best": True}
    whole, models = noisy_networks(2), noisy_networks(2)
    expected = fit_stacked(whole, [(x, y)] * 2, likelihood="gaussian", **options)
    calls = 0

    def interrupted(output, target):
        nonlocal calls
        calls += 1
        if calls > 20:
            raise KeyboardInterrupt
        return gd.gaussian_nll(*output.chunk(2, -1), target)

    interrupted.__qualname__ = "gaussian"
    state_of = {"checkpoint": tmp_path / "stack.pt"}
    monkey = pytest.MonkeyPatch()
    monkey.setattr(state, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    with monkey.context(), pytest.raises(KeyboardInterrupt):
        fit_stacked(noisy_networks(2), [(x, y)] * 2, likelihood=interrupted, **options, **state_of)
    monkey.undo()
    results = fit_stacked(models, [(x, y)] * 2, likelihood="gaussian", **options, **state_of)
    assert results == expected
    assert all(torch.equal(weights(model), weights(other)) for model, other in zip(models, whole, strict=True))


# Models that cannot be stacked


def test_models_of_other_shapes_train_one_after_the_other() -> None:
    models = [*networks(1), mlp(3, 2, hidden=[9])]
    with pytest.warns(UserWarning, match="cannot be stacked: their layers or shapes differ"):
        results = fit_stacked(models, [task(0)] * 2, likelihood="gaussian", epochs=30, lr=1e-2)
    assert all(result.history[-1].nll < result.history[0].nll - 0.3 for result in results)
    assert not any(model.training for model in models)


class _Branching(nn.Sequential):
    def forward(self, x):
        return super().forward(x if x.mean().item() > -100 else -x)


def test_a_model_that_looks_at_its_numbers_trains_one_after_the_other() -> None:
    torch.manual_seed(0)
    models = [gd.learn_dropout(_Branching(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))) for _ in range(2)]
    with pytest.warns(UserWarning, match="cannot be stacked: vmap"):
        results = fit_stacked(models, [task(0)] * 2, likelihood="gaussian", epochs=30, lr=1e-2)
    assert all(result.history[-1].nll < result.history[0].nll - 0.3 for result in results)


def test_batch_normalisation_is_stacked_and_keeps_statistics_for_each_model() -> None:
    torch.manual_seed(0)
    layers = [[nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)] for _ in range(2)]
    models = [gd.learn_dropout(nn.Sequential(*each)) for each in layers]
    fit_stacked(models, [task(0), task(1)], likelihood="gaussian", epochs=3)
    assert not torch.equal(models[0][1].running_mean, models[1][1].running_mean)
    assert [int(model[1].num_batches_tracked) for model in models] == [3 * 2] * 2


def test_apart_takes_the_same_steps_as_together(monkeypatch) -> None:
    models = [without_noise(model) for model in networks(3)]
    others = copy.deepcopy(models)
    data = [task(i) for i in range(3)]
    options = {"likelihood": "gaussian", "epochs": 10, "batch_size": 64, "lr": 2e-2}
    expected = fit_stacked(models, data, **options)
    apart(monkeypatch)
    with pytest.warns(UserWarning, match="cannot be stacked: vmap: not today$"):
        results = fit_stacked(others, data, **options)
    for model, other, result, record in zip(models, others, results, expected, strict=True):
        torch.testing.assert_close(weights(model), weights(other), rtol=1e-3, atol=1e-4)
        assert result.history[-1].nll == pytest.approx(record.history[-1].nll, rel=1e-3)
        assert result.history[-1].rates == pytest.approx(record.history[-1].rates, rel=1e-3)


def test_parameters_that_want_no_gradient_are_left_alone() -> None:
    models = networks(2)
    for model in models:
        model[0].weight.requires_grad_(False)
    before = [(model[0].weight.clone(), model[2].weight.clone()) for model in models]
    fit_stacked(models, [task(0)] * 2, likelihood="gaussian", epochs=2)
    for model, (frozen, free) in zip(models, before, strict=True):
        assert torch.equal(model[0].weight, frozen)
        assert not torch.equal(model[2].weight, free)


def test_equal_weights_leave_the_fit_as_it_was_and_a_weight_stands_for_equal_rows() -> None:
    """A linear model of two groups of rows: the fit follows the group that has the weight, as if it were repeated."""
    x = torch.cat([torch.ones(30, 1), -torch.ones(30, 1)])
    y = torch.where(torch.arange(60).unsqueeze(1) % 3 == 0, 2.0, -1.0)  # a third of them 2, the others -1
    weights = torch.where(y.squeeze(1) > 0, 4.0, 1.0)  # weighted: two thirds of 2
    rows = torch.arange(60).repeat_interleave(weights.long())

    def trained(data, **options) -> torch.Tensor:
        torch.manual_seed(0)
        model = without_noise(mlp(1, 2, hidden=[]))
        settings = {"likelihood": "gaussian", "epochs": 300, "batch_size": 200, "lr": 5e-2, "lengthscale": 0.01}
        fit_stacked([model], [data], **settings, **options)
        return model(torch.tensor([[1.0], [-1.0]])).detach()

    by_weight = trained((x, y), weights=[weights])
    torch.testing.assert_close(by_weight, trained((x[rows], y[rows])), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(by_weight[:, 0], torch.full((2,), 1.0), rtol=0, atol=0.05)
    unweighted = trained((x, y))
    torch.testing.assert_close(unweighted, trained((x, y), weights=[torch.ones(60)]), rtol=1e-2, atol=1e-2)


def test_rows_are_drawn_as_often_as_their_weights_say() -> None:
    torch.manual_seed(0)
    weight = torch.tensor([0.5, 3.0, 1.5, 5.0], dtype=torch.float64)
    counts = torch.zeros(4)
    for _ in range(200):
        places = rows_room._drawn_by_weight(weight, 20)
        each = torch.bincount(places, minlength=4)
        assert (each - weight * 2).abs().max() <= 1
        counts += each
    torch.testing.assert_close(counts / counts.sum(), weight.float() / 10, rtol=0.02, atol=0.0)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([torch.ones(5)], r"`weights` must hold one number for each row"),
        ([torch.ones(64, 1)], r"`weights` must hold one number for each row"),
        ([torch.zeros(64)], r"`weights` must be positive and finite"),
        ([torch.full((64,), torch.nan)], r"`weights` must be positive and finite"),
    ],
)
def test_bad_weights(weights, words) -> None:
    with pytest.raises(ValueError, match=words):
        fit_stacked(networks(1), [task(0)], likelihood="gaussian", epochs=1, weights=weights)


# Stopping early, and inputs that are made when they are asked for


def test_a_run_stops_once_no_model_gets_better() -> None:
    held_out = [torch.arange(48, 64)] * 2
    rows = [torch.arange(48)] * 2
    options = {"likelihood": "gaussian", "rows": rows, "held_out": held_out, "keep_best": True, "lr": 0.05}
    results = fit_stacked(networks(2), [task(0)] * 2, epochs=400, patience=6, **options)
    count = len(results[0].history)
    assert 6 < count < 400
    assert count - max(result.best_epoch for result in results) >= 6
    assert len(fit_stacked(networks(2), [task(0)] * 2, epochs=400, patience=6, tol=1e3, **options)[0].history) == 7


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"patience": 3}, "`patience` needs `keep_best=True`"),
        ({"patience": 0, "keep_best": True}, "`patience` must be at least 1, got 0"),
        ({"tol": -0.5}, r"`tol` must be at least 0, got -0.5"),
    ],
)
def test_settings_of_stopping_early(setting, words) -> None:
    with pytest.raises(ValueError, match=words):
        fit_stacked(
            networks(2), [task(0)] * 2, likelihood="gaussian", epochs=1, held_out=[torch.arange(3)] * 2, **setting
        )


class Made(RowSource):
    def __init__(self, x: torch.Tensor) -> None:
        self.x, self.shape, self.asked = x, tuple(x.shape), 0

    def __getitem__(self, rows: torch.Tensor) -> torch.Tensor:
        self.asked = max(self.asked, rows.numel())
        return self.x[rows]


def test_inputs_that_are_made_train_as_those_that_are_held(tmp_path) -> None:
    x, y = task(0)
    source, options = Made(x), {"likelihood": "gaussian", "epochs": 3, "batch_size": 8}
    held, made = networks(2), networks(2)
    fit_stacked(held, [(x, y)] * 2, **options)
    fit_stacked(made, [(source, y)] * 2, **options)
    assert torch.equal(weights(held[1]), weights(made[1]))
    assert source.asked <= 2 * 8, "no more than a batch at once"
    with pytest.raises(ValueError, match="`checkpoint` is bound to its data, which must be tensors"):
        fit_stacked(made, [(source, y)] * 2, checkpoint=tmp_path / "run", **options)
    other = Made(x + 1)
    fit_stacked(networks(2), [(source, y), (other, y)], **options)


def test_rows_of_32_bits_are_shuffled_as_those_of_64() -> None:
    x, y = task(0)
    long = rows_room.StackedRows([(x, y)] * 2, [torch.arange(50), torch.arange(20)])
    short = rows_room.StackedRows([(x, y)] * 2, [torch.arange(50).int(), torch.arange(20).int()])
    torch.manual_seed(3)
    expected = long.shuffled()
    torch.manual_seed(3)
    found = short.shuffled()
    assert found.dtype == torch.int32
    assert torch.equal(expected, found.long())
