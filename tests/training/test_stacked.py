import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.networks import mlp
from gumdrop.training import CheckpointError, RowSource, fit, fit_stacked
from gumdrop.training import data as data_room
from gumdrop.training.held_out_noise import noise_of
from gumdrop.training.in_turn import InTurn

IN_TURN = "the models are trained one after the other"
NOTED = pytest.mark.filterwarnings(f"ignore:{IN_TURN}")


def task(seed: int, num_rows: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_rows, 3, generator=generator)
    return x, x[:, :1] * 2 - x[:, 1:2] + 0.2 * torch.randn(num_rows, 1, generator=generator)


def networks(count: int, *, in_turn: bool = False, **options: Any) -> list[nn.Sequential]:
    """Networks that are stacked, or the same ones as a part of others, which are not."""
    torch.manual_seed(7)
    models = [mlp(3, **{"num_outputs": 2, "hidden": [8]} | options) for _ in range(count)]
    return [nn.Sequential(model) for model in models] if in_turn else models


def noisy(count: int, *, in_turn: bool = False) -> list[nn.Sequential]:
    return networks(count, in_turn=in_turn, num_outputs=1, hidden=[16], homoscedastic_noise=True)


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([value.flatten() for value in model.state_dict().values()])


def without_noise(model: nn.Module) -> nn.Module:
    """Rates so small that no unit is ever dropped: what is left of training is deterministic."""
    for name, value in model.named_parameters():
        if name.endswith("scaled_logit"):
            nn.init.constant_(value, -6.0)
    return model


@NOTED
@pytest.mark.parametrize("max_norm", [None, 1e-3])
@pytest.mark.parametrize("in_turn", [False, True])
def test_each_model_takes_the_same_steps_as_alone(in_turn: bool, max_norm: float | None) -> None:
    """One batch holds all rows, so that shuffling changes nothing, and no unit is dropped."""
    models = [without_noise(model) for model in networks(3, in_turn=in_turn)]
    alone = [copy.deepcopy(model) for model in models]
    data = [task(i) for i in range(3)]
    options = {"likelihood": "gaussian", "epochs": 20, "batch_size": 64, "lr": 2e-2, "weight_decay": 0.1}
    options |= {"lengthscale": "classification", "max_norm": max_norm}  # the former goes by the number of rows
    results = fit_stacked(models, data, **options)
    for model, other, pair, result in zip(models, alone, data, results, strict=True):
        expected = fit(other, pair, **options)
        torch.testing.assert_close(weights(model), weights(other), rtol=1e-3, atol=1e-4)
        for name in ("nll", "kl", "learning_rate", "rates"):
            assert getattr(result.history[-1], name) == pytest.approx(getattr(expected.history[-1], name), rel=1e-3)
        assert not model.training


def test_weights_are_the_size_of_the_data() -> None:
    weight = torch.linspace(0.5, 6.0, 40)
    (result,) = fit_stacked(networks(1), [task(0, 40)], likelihood="gaussian", epochs=1, lr=1e-9, weights=[weight])
    expected = gd.kl_divergence(networks(1)[0], lengthscale="fan_in").item() / weight.sum().item()
    assert result.history[0].kl == pytest.approx(expected, rel=1e-4)


def test_the_history_is_the_mean_over_rows_whatever_the_batches() -> None:
    x, y = task(0, 64)
    y[:, 0] *= torch.where(torch.arange(64) % 16 == 0, 30.0, 1.0)
    histories = []
    for batch_size in (60, 64):
        models = [without_noise(model) for model in networks(2)]
        results = fit_stacked(models, [(x, y)] * 2, likelihood="gaussian", epochs=1, lr=1e-9, batch_size=batch_size)
        histories.append([(result.history[0].nll, result.history[0].kl) for result in results])
    torch.testing.assert_close(torch.tensor(histories[0]), torch.tensor(histories[1]), rtol=1e-4, atol=0.0)


@NOTED
@pytest.mark.parametrize("per_unit", [True, False])
def test_rates_are_those_of_the_models(per_unit: bool) -> None:
    layers = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(2)]
    models = [gd.learn_dropout(each, per_unit=per_unit) for each in layers]
    results = fit_stacked(models, [task(0), task(1)], likelihood="gaussian", epochs=3)
    for model, result in zip(models, results, strict=True):
        rates = {name: float(torch.as_tensor(p).mean()) for name, p in gd.dropout_rates(model).items()}
        assert result.history[-1].rates == pytest.approx(rates)
        assert all(abs(rate - 0.1) > 1e-4 for rate in rates.values())


@NOTED
@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("watched", [False, True])
def test_a_stopped_run_goes_on(tmp_path, stopped_at, in_turn: bool, watched: bool) -> None:
    data, options = [task(0), task(1)], {"likelihood": "gaussian", "epochs": 6, "batch_size": 16, "seed": 3}
    if watched:
        options |= {"rows": [torch.arange(48)] * 2, "held_out": [torch.arange(48, 64)] * 2}
        options |= {"held_out_noise": True, "keep_best": True}
    whole, stopped, models = (noisy(2, in_turn=in_turn) for _ in range(3))
    expected = fit_stacked(whole, data, **options)
    with stopped_at(14):
        fit_stacked(stopped, data, **options, checkpoint=tmp_path / "stack.pt")
    assert fit_stacked(models, data, **options, checkpoint=tmp_path / "stack.pt") == expected
    assert all(torch.equal(weights(model), weights(other)) for model, other in zip(models, whole, strict=True))


@pytest.mark.parametrize("change", [{"activation": "silu"}, {"hidden": [4, 8]}, {"strength": 2.0}])
def test_a_checkpoint_of_other_data_or_layers_is_refused(tmp_path, change) -> None:
    data, options = [task(0), task(1)], {"likelihood": "gaussian", "epochs": 1, "checkpoint": tmp_path / "stack.pt"}
    fit_stacked(networks(2), data, **options)
    with pytest.raises(CheckpointError, match="other data"):
        fit_stacked(networks(2), data[::-1], **options)
    with pytest.raises(CheckpointError, match="other model"):
        fit_stacked(networks(2, **change), data, **options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"train": [task(0)] * 2}, ValueError, "of one length, at least 1, got 1, 2, 2 and 2"),
        ({"keep_best": True}, ValueError, "`keep_best` needs `held_out` rows"),
        ({"held_out_noise": True}, ValueError, "`held_out_noise` needs held-out data"),
        ({"epochs": 0}, ValueError, "`epochs` must be at least 1"),
        ({"accumulate": 2}, ValueError, "`accumulate` is for one model alone"),
        ({"lengthscale": "foo"}, ValueError, "`lengthscale` must be a positive number"),
        ({"lengthscale": -1.0}, ValueError, "`lengthscale` must be a positive number"),
        ({"train": [(task(0)[0], task(0)[1] * 1e30)]}, ValueError, "not finite in epoch 1"),
        ({"train": [(task(0)[0], task(0)[1][:, 0])]}, ValueError, "must have the same shape"),
        ({"likelihood": "categorical"}, ValueError, "without its class dimension"),
        ({"likelihood": "categorical", "train": [(task(0)[0], torch.zeros(64))]}, TypeError, "hold class indices"),
        ({"weights": [torch.ones(5)]}, ValueError, "`weights` must hold one number for each row"),
        ({"weights": [torch.ones(64, 1)]}, ValueError, "`weights` must hold one number for each row"),
        ({"weights": [torch.zeros(64)]}, ValueError, "`weights` must be positive and finite"),
        ({"weights": [torch.full((64,), torch.nan)]}, ValueError, "`weights` must be positive and finite"),
        ({"patience": 3, "held_out": [torch.arange(3)]}, ValueError, "`patience` needs `keep_best=True`"),
    ],
)
def test_bad_arguments(options, error, words) -> None:
    with pytest.raises(error, match=words):
        fit_stacked(networks(1), **{"train": [task(0)], "likelihood": "gaussian", "epochs": 1} | options)


def test_no_models_are_refused() -> None:
    with pytest.raises(ValueError, match="of one length, at least 1, got 0, 0, 0 and 0"):
        fit_stacked([], [], likelihood="gaussian", epochs=1)


# Rows of shared data, and rows that are held out


def test_shared_data_are_held_once_and_only_the_named_rows_are_seen() -> None:
    x, y = task(0, num_rows=40)
    x[30:] = float("nan")
    rows = [torch.arange(0, 20), torch.arange(5, 30)]
    data = data_room.StackedRows([(x, y), (x, y)], rows)
    assert data._x is x
    assert [set(order.tolist()) for order in data.shuffled()] == [set(each.tolist()) for each in rows]
    assert [[y.shape[1] for _, y in data.batches(size)] for size in (25, 24)] == [[25], [13, 12]]
    models = networks(2)
    fit_stacked(models, [(x, y)] * 2, rows=rows, likelihood="gaussian", epochs=2)
    assert all(weights(model).isfinite().all() for model in models)


def test_rows_of_different_data_do_not_mix() -> None:
    first, second = task(0, num_rows=10), task(1, num_rows=12)
    data = data_room.StackedRows([first, second, first], [torch.arange(10), torch.arange(12), torch.tensor([3])])
    x, y = data[data.shuffled()]
    for i, source in enumerate([first, second]):
        assert {tuple(row) for row in x[i].tolist()} == {tuple(row) for row in source[0].tolist()}
        assert {tuple(row) for row in y[i].tolist()} == {tuple(row) for row in source[1].tolist()}
    assert (x[2] == first[0][3]).all()
    assert (y[2] == first[1][3]).all()


@NOTED
@pytest.mark.parametrize("in_turn", [False, True])
def test_held_out_noise_is_that_of_the_held_out_rows_of_each_model(in_turn: bool) -> None:
    x, _ = task(0, num_rows=160)
    spread = torch.where(torch.arange(160) < 120, 0.2, 0.8).unsqueeze(1)
    y = x[:, :1] + spread * torch.randn(160, 1, generator=torch.Generator().manual_seed(3))
    rows = [torch.arange(100), torch.arange(100)]
    held_out = [torch.arange(100, 120), torch.arange(120, 160)]
    models = noisy(2, in_turn=in_turn)
    options = {"likelihood": "gaussian", "epochs": 60, "lr": 2e-2, "lengthscale": "weak"}
    fit_stacked(models, [(x, y)] * 2, rows=rows, held_out=held_out, held_out_noise=True, **options)
    for model, each in zip(models, held_out, strict=True):
        residuals = gd.sample(model, x[each], num_samples=50, seed=0)[..., :1] - y[each]
        log_variance = noise_of(model, held_out)
        assert log_variance.exp().item() == pytest.approx(residuals.square().mean().item(), rel=0.25)
        assert log_variance.requires_grad
    assert noise_of(models[1], held_out) > noise_of(models[0], held_out) + 1


@NOTED
@pytest.mark.parametrize("in_turn", [False, True])
def test_the_best_epoch_of_each_model_is_kept(in_turn: bool) -> None:
    """Long training on pure noise gets worse on other rows; a model that learns something gets better."""
    x, y = task(0, num_rows=64)
    noise = torch.randn(64, 1, generator=torch.Generator().manual_seed(1))
    data = [(x, y), (x, noise)]
    rows, held_out = [torch.arange(24)] * 2, [torch.arange(24, 64)] * 2
    models = networks(2, in_turn=in_turn, p=0.01)
    options = {"likelihood": "gaussian", "epochs": 40, "lr": 2e-2, "lengthscale": 0.01}
    results = fit_stacked(models, data, rows=rows, held_out=held_out, keep_best=True, **options)
    for model, (inputs, targets), each, result in zip(models, data, held_out, results, strict=True):
        scores = [record.validation_nll for record in result.history]
        assert result.best_epoch == 1 + min(range(len(scores)), key=scores.__getitem__)
        score = -gd.predict_regression(model, inputs[each], seed=0).log_prob(targets[each]).mean().item()
        assert score == pytest.approx(min(scores), abs=0.1)
    assert results[1].best_epoch < 20 < results[0].best_epoch


def test_the_held_out_value_is_that_of_the_averaged_prediction() -> None:
    """Minus the log of the mean density over draws, the same in each epoch: the mean of the logs is far larger."""
    models = [mlp(3, 2, hidden=[16], p=0.5) for _ in range(2)]
    x, y = task(0, 30)
    rows = [torch.arange(30)] * 2
    options = {"likelihood": "gaussian", "epochs": 2, "lr": 1e-9, "held_out": rows, "keep_best": True}
    results = fit_stacked(models, [(x, y)] * 2, **options, validation_samples=4000)
    for model, result in zip(models, results, strict=True):
        prediction = gd.predict_regression(model, x, num_samples=4000, seed=0)
        expected = -prediction.log_prob(y).mean().item()
        scores = [record.validation_nll for record in result.history]
        assert scores == [pytest.approx(expected, abs=0.02), pytest.approx(scores[0], abs=1e-4)]
        draws = gd.sample(model, x, num_samples=100, seed=0)
        assert torch.stack([gd.gaussian_nll(*draw.chunk(2, -1), y) for draw in draws]).mean() > expected + 0.1


# Models that cannot be stacked


def test_models_of_other_shapes_train_one_after_the_other() -> None:
    models = [*networks(1), mlp(3, 2, hidden=[9])]
    with pytest.warns(UserWarning, match=IN_TURN) as caught:
        results = fit_stacked(models, [task(0)] * 2, likelihood="gaussian", epochs=30, lr=1e-2)
    assert caught[0].filename == __file__
    assert all(result.history[-1].nll < result.history[0].nll - 0.3 for result in results)


def test_without_a_seed_each_row_has_a_mask_and_with_one_each_draw_alone() -> None:
    models, x = InTurn(networks(2, p=0.5)), torch.ones(2, 40, 3)
    functions = models.drawn(x, 5, 0)
    assert (functions.std(1) > 0).all()
    torch.testing.assert_close(functions, functions[:, :, :1].expand_as(functions))
    assert (models.drawn(x, 5, None).std(2) > 0).all()


@NOTED
@pytest.mark.parametrize("shape", [(64, 4), (64,)])
def test_rows_of_several_positions_and_targets_of_float64(shape: tuple[int, ...]) -> None:
    x, y = (torch.randn(*shape, size) for size in (3, 1))
    assert len(fit_stacked(networks(2), [(x, y.double())] * 2, likelihood="gaussian", epochs=1)) == 2


@NOTED
def test_batch_normalisation_keeps_statistics_for_each_model() -> None:
    layers = [[nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)] for _ in range(2)]
    models = [gd.learn_dropout(nn.Sequential(*each)).eval() for each in layers]
    fit_stacked(models, [task(0), task(1)], likelihood="gaussian", epochs=3)
    assert not torch.equal(models[0][1].running_mean, models[1][1].running_mean)
    assert [int(model[1].num_batches_tracked) for model in models] == [3 * 2] * 2


@NOTED
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
        settings = {"likelihood": "gaussian", "epochs": 120, "batch_size": 200, "lr": 0.1, "lengthscale": 0.01}
        fit_stacked([model], [data], **settings, **options)
        return model(torch.tensor([[1.0], [-1.0]])).detach()

    by_weight = trained((x, y), weights=[weights])
    torch.testing.assert_close(by_weight, trained((x[rows], y[rows])), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(by_weight[:, 0], torch.full((2,), 1.0), rtol=0, atol=0.05)
    unweighted = trained((x, y))
    torch.testing.assert_close(unweighted, trained((x, y), weights=[torch.ones(60)]), rtol=1e-2, atol=1e-2)


def test_rows_of_the_shorter_come_equally_often() -> None:
    x, rows = torch.zeros(30, 1), [torch.arange(30), torch.arange(17)]
    data = data_room.StackedRows([(x, x)] * 2, rows)
    torch.manual_seed(0)
    counts = torch.cat([data.shuffled()[1] for _ in range(3000)]).bincount(minlength=17)
    assert (counts / (3000 * 30 / 17) - 1).abs().max() < 0.02  # 4 standard errors


def test_rows_are_drawn_as_often_as_their_weights_say() -> None:
    weight = torch.tensor([0.5, 3.0, 1.5, 5.0], dtype=torch.float64)
    counts = torch.zeros(4)
    for _ in range(200):
        places = data_room._drawn_by_weight(weight, 20)
        each = torch.bincount(places, minlength=4)
        assert (each - weight * 2).abs().max() <= 1
        counts += each
    torch.testing.assert_close(counts / counts.sum(), weight.float() / 10, rtol=0.02, atol=0.0)


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


@pytest.mark.parametrize("weighted", [False, True])
def test_each_held_out_row_counts_as_much_as_its_weight(weighted: bool) -> None:
    """Also where another model has more of them: no row of the shorter counts twice, and no other row at all."""
    models, data = [without_noise(model) for model in networks(2)], task(0)
    data[0][0] = torch.nan
    held_out, weight = [torch.arange(20, 64), torch.arange(20, 27)], torch.linspace(1, 9, 64)
    options: dict[str, Any] = {"weights": [weight] * 2} if weighted else {}
    options |= {"likelihood": "gaussian", "rows": [torch.arange(1, 20)] * 2, "epochs": 1, "lr": 1e-9, "keep_best": True}
    for model, result, rows in zip(
        models, fit_stacked(models, [data] * 2, held_out=held_out, **options), held_out, strict=True
    ):
        mean, log_variance = model(data[0][rows]).chunk(2, dim=1)
        nll = gd.gaussian_nll(mean, log_variance, data[1][rows]).detach().numpy()
        expected = np.average(nll, weights=weight[rows] if weighted else None)
        assert result.history[0].validation_nll == pytest.approx(expected, rel=1e-5)


class Made(RowSource):
    def __init__(self, x: torch.Tensor) -> None:
        self.x, self.shape, self.asked = x, tuple(x.shape), 0

    def __getitem__(self, rows: torch.Tensor) -> torch.Tensor:
        self.asked = max(self.asked, rows.numel())
        return self.x[rows]


@pytest.mark.parametrize("most", [0, 2**24])
def test_inputs_that_are_made_train_as_those_that_are_held(monkeypatch, tmp_path, most: int) -> None:
    monkeypatch.setattr("gumdrop.training.stacked.MOST_ENCODED", most)
    x, y = task(0)
    source, options = Made(x), {"likelihood": "gaussian", "epochs": 3, "batch_size": 8}
    held, made = networks(2), networks(2)
    fit_stacked(held, [(x, y)] * 2, **options)
    fit_stacked(made, [(source, y)] * 2, **options)
    assert torch.equal(weights(held[1]), weights(made[1]))
    assert source.asked == (len(x) if most else 2 * 8), "no more than a batch at once where rows are many"
    with pytest.raises(ValueError, match="`checkpoint` is bound to its data, which must be tensors"):
        fit_stacked(made, [(source, y)] * 2, checkpoint=tmp_path / "run", **options)
    with pytest.raises(ValueError, match="`checkpoint` is bound to its data, which must be tensors"):
        fit(made[0], (source, y), checkpoint=tmp_path / "run", **options)
    other = Made(x + 1)
    fit_stacked(networks(2), [(source, y), (other, y)], **options)
