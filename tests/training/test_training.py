import copy
import json
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import gumdrop as gd
from gumdrop.networks import mlp, set_strength
from gumdrop.training import CheckpointError, FitResult, TrainingSettings, checkpoints, fit, fit_stacked, single, state

from builders.rates import set_logit


def wave(num_rows: int = 96) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(num_rows, 2, generator=generator) * 4 - 2
    noise = 0.1 * torch.randn(num_rows, 1, generator=generator)
    return x, torch.sin(x[:, :1]) + 0.5 * x[:, 1:] + noise


def network(seed: int = 3) -> nn.Sequential:
    torch.manual_seed(seed)
    return mlp(2, 2, hidden=[16])


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([value.flatten() for value in model.state_dict().values()])


def test_fit_lowers_the_nll_and_moves_the_rates() -> None:
    model = network()
    result = fit(model, wave(), likelihood="gaussian", epochs=60, lr=2e-2)
    history = json.loads(json.dumps([vars(record) for record in result.history]))
    assert [record["epoch"] for record in history] == list(range(1, 61))
    assert history[-1]["nll"] < history[0]["nll"] - 0.5
    assert all(abs(p - 0.1) > 0.005 for p in history[-1]["rates"].values())
    assert history[-1]["rates"] == pytest.approx({k: float(v) for k, v in gd.dropout_rates(model).items()})
    assert not model.training


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, partial(torch.optim.SGD, momentum=0.8)])
def test_the_schedule_changes_learning_rates_alone(optimizer) -> None:
    """One cycle up to the rate that was given and down again; momentum and decay stay."""
    model = network()
    own = optimizer(model.parameters(), lr=0.3, weight_decay=0.05)
    (group,) = own.param_groups
    before, rates = {name: value for name, value in group.items() if name not in ("params", "lr")}, []
    kept = state.TrainingState(model, own, steps=20, settings={}, checkpoint=None)
    for _ in range(20):
        rates.append(group["lr"])
        assert before | {name: group[name] for name in before} == before
        kept.step([model(torch.ones(1, 2)).sum()], None)
    assert max(rates) == pytest.approx(0.3, rel=1e-2)
    assert rates[0] < 0.02 > rates[-1]


def test_what_is_measured_is_kept_and_changes_no_weight(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(state, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    options = {"likelihood": "gaussian", "epochs": 3, "seed": 4}
    plain = network()
    assert fit(plain, wave(), **options).history[0].measured is None

    def measure(model: nn.Module, epoch: int) -> dict[str, float]:
        torch.rand(7)
        if (stopping, epoch) == (True, 3):
            raise KeyboardInterrupt
        return {"in training": float(model.training), "first": weights(model)[0].item()}

    stopping, other = True, network()
    with pytest.raises(KeyboardInterrupt):
        fit(other, wave(), **options, measure=measure, checkpoint=tmp_path / "run.pt")
    stopping = False
    history = fit(other, wave(), **options, measure=measure, checkpoint=tmp_path / "run.pt").history
    assert torch.equal(weights(other), weights(plain))
    assert [record.measured["in training"] for record in history] == [0, 0, 0]
    assert len({record.measured["first"] for record in history}) == 3


def test_the_kl_of_a_batch_is_weighed_by_num_data_not_by_the_batch() -> None:
    def first_kl(batch_size: int, **options) -> float:
        options |= {"likelihood": "gaussian", "epochs": 1, "lr": 1e-9, "batch_size": batch_size}
        return fit(network(), wave(), **options).history[0].kl

    assert first_kl(8) == pytest.approx(first_kl(96), rel=1e-4)
    assert first_kl(8, num_data=9600) == pytest.approx(first_kl(8) / 100, rel=1e-4)


def test_same_seed_same_model_and_the_global_random_state_is_left_alone() -> None:
    models = [network(), network(), network()]
    before = torch.get_rng_state()
    for model, seed in zip(models, (1, 1, 2), strict=True):
        fit(model, wave(), likelihood="gaussian", epochs=3, seed=seed)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weights(models[0]), weights(models[1]))
    assert not torch.equal(weights(models[0]), weights(models[2]))


def score_of(model: nn.Module, rows: tuple[torch.Tensor, torch.Tensor], seed: int = 0) -> float:
    prediction = gd.predict_regression(model, rows[0], num_samples=20, seed=seed)
    return -prediction.log_prob(rows[1]).mean().item()


def test_the_best_epoch_on_held_out_data_is_kept() -> None:
    model = network()
    x, y = wave(16)
    result = fit(model, (x, y), likelihood="gaussian", epochs=80, lr=5e-2, validation=wave(40), seed=1)
    scores = [record.validation_nll for record in result.history]
    assert result.best_epoch == scores.index(min(scores)) + 1
    assert score_of(model, wave(40), seed=1) == pytest.approx(min(scores), abs=1e-5)


def test_the_held_out_value_is_that_of_the_averaged_prediction() -> None:
    """Minus the log of the mean density over draws, not the mean of the logs, which is larger by half a nat here."""
    model = mlp(2, 2, hidden=[16], p=0.5)
    x, y = wave(40)
    options = {"likelihood": "gaussian", "epochs": 1, "lr": 1e-9, "validation": (x, y + 1)}
    (record,) = fit(model, wave(), **options, validation_samples=200, seed=3).history
    prediction = gd.predict_regression(model, x, num_samples=200, seed=3)
    assert record.validation_nll == pytest.approx(-prediction.log_prob(y + 1).mean().item(), abs=1e-4)
    draws = gd.sample(model, x, num_samples=200, seed=3)
    assert torch.stack([gd.gaussian_nll(*d.chunk(2, -1), y + 1) for d in draws]).mean() > record.validation_nll + 0.02


def test_parts_of_a_batch_are_worth_the_whole() -> None:
    """The KL counts once for a batch, in however many parts it runs. No unit is dropped: nothing else differs."""
    models = [network() for _ in range(2)]
    for model, accumulate in zip(models, (1, 3), strict=True):
        for site in model.modules():
            if isinstance(site, gd.layers.ConcreteDropout):
                set_logit(site, -30.0)
        options = {"likelihood": "gaussian", "epochs": 2, "batch_size": 32, "lengthscale": 1.0, "num_data": 96}
        fit(model, wave(), **options, accumulate=accumulate)
    torch.testing.assert_close(weights(models[0]), weights(models[1]), rtol=1e-3, atol=2e-4)


def test_gradients_are_clipped_and_rates_have_a_learning_rate_of_their_own() -> None:
    def moved(**options: float) -> tuple[float, float]:
        """How far weights and logits went."""
        model, before = network(), network()
        fit(model, wave(), likelihood="gaussian", epochs=1, **options)
        ways = {name: (a - b).abs().max().item() for (name, a), b in zip(
            model.named_parameters(), before.parameters(), strict=True)}  # fmt: skip
        logits = [way for name, way in ways.items() if "scaled_logit" in name]
        return max(way for name, way in ways.items() if "scaled_logit" not in name), max(logits)

    assert min(moved()) > 1e-3
    assert max(moved(max_norm=1e-26)) < 1e-4  # far below what the optimiser divides by, for rates too
    weight, rate = moved(rate_lr=1e-9)
    assert weight > 1e-3
    assert rate < 1e-6


def test_patience_stops_early() -> None:
    result = fit(network(), wave(16), likelihood="gaussian", epochs=300, lr=5e-2, validation=wave(40), patience=5)
    assert len(result.history) == result.best_epoch + 5 < 300

    def flat(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return 0 * output.sum(1) + 1  # a value that stays the same is no better

    result = fit(network(), wave(16), likelihood=flat, lengthscale=1.0, epochs=50, validation=wave(8), patience=4)
    assert len(result.history) == 1 + 4


@pytest.mark.parametrize("held_out_noise", [False, True])
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(tmp_path, stopped_at, held_out_noise: bool) -> None:
    make = homoscedastic if held_out_noise else network
    options = {"likelihood": "gaussian", "epochs": 6, "validation": wave(24), "seed": 4, "batch_size": 16}
    options |= {"held_out_noise": held_out_noise}
    whole, stopped, other = make(), make(), make(seed=99)  # the checkpoint holds all that counts
    expected = fit(whole, wave(), **options)
    with stopped_at(20):  # in the fourth epoch
        fit(stopped, wave(), **options, checkpoint=tmp_path / "run.pt")
    assert all(parameter.requires_grad for parameter in stopped.parameters())
    assert fit(other, wave(), **options, checkpoint=tmp_path / "run.pt") == expected
    assert torch.equal(weights(other), weights(whole))
    again = fit(make(seed=98), wave(), **options, checkpoint=tmp_path / "run.pt")  # finished: nothing to do
    assert again == expected
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


def test_an_interruption_leaves_the_best_model_so_far(stopped_at) -> None:
    """Steps of this size go astray: the last epoch before the stop is not the best."""
    options = {"likelihood": "gaussian", "epochs": 20, "lr": 0.5, "validation": wave(40)}
    scores = [record.validation_nll for record in fit(network(), wave(), **options).history]
    model, epochs = network(), next(i for i in range(1, 20) if scores[i] > min(scores[:i])) + 1
    with stopped_at(3 * epochs + 2):
        fit(model, wave(), **options)
    assert score_of(model, wave(40)) == pytest.approx(min(scores[:epochs]), abs=1e-5)


def flipped(data: bytes, place: int) -> bytes:
    """The same with one bit changed."""
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[: len(data) // 2], "no whole checkpoint"),
        (lambda data: b"", "no whole checkpoint"),
        (lambda data: b"hello", "no whole checkpoint"),
        (lambda data: flipped(data, len(data) // 3), "no whole checkpoint"),
        (lambda data: flipped(data, len(data) - 9), "no whole checkpoint"),
        (lambda data: data[:-32], "before format 3"),
    ],
)
def test_a_damaged_checkpoint_is_refused(tmp_path, damage, words) -> None:
    path = tmp_path / "run.pt"
    fit(network(), wave(), likelihood="gaussian", epochs=2, checkpoint=path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=words):
        fit(network(), wave(), likelihood="gaussian", epochs=2, checkpoint=path)


def test_a_checkpoint_of_another_run_is_refused(tmp_path, monkeypatch) -> None:
    (x, y), (held_x, held_y) = wave(), wave(24)
    options = {"likelihood": "gaussian", "epochs": 2, "validation": (held_x, held_y), "checkpoint": tmp_path / "run.pt"}
    fit(network(), (x, y), **options)

    def refused(words: str, model: nn.Module | None = None, targets: torch.Tensor = y, **changes) -> None:
        with pytest.raises(CheckpointError, match=words):
            fit(model or network(), (x, targets), **options | changes)

    refused("epochs was 2, is 3", epochs=3)
    for other in (set_strength(network(), 3.0, include=["0"]), gd.fix_dropout(network())):
        refused("other dropout", other)
    refused(r"likelihood was Gaussian.* is Poisson", targets=y.exp().round(), likelihood="poisson",
            validation=(held_x, held_y.exp().round()))  # fmt: skip
    refused("other data", targets=y + 1)
    refused("other data", validation=(held_x, held_y + 1))
    refused("another model", mlp(2, 4, hidden=[16]))

    def one(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return gd.gaussian_nll(*output.chunk(2, -1), target)

    def other(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return 2 * one(output, target)

    options |= {"likelihood": one, "lengthscale": "regression", "checkpoint": tmp_path / "own.pt"}
    fit(network(), (x, y), **options)
    refused("likelihood was .*one, is .*other", likelihood=other)
    monkeypatch.setattr(checkpoints, "CHECKPOINT_FORMAT", 5)
    refused("has format 4")


def test_a_setting_that_a_checkpoint_does_not_name_is_not_compared(tmp_path) -> None:
    path, options = tmp_path / "run.pt", {"likelihood": "gaussian", "epochs": 2, "validation": wave(24)}
    expected = fit(network(), wave(), checkpoint=path, **options)
    contents = checkpoints.read_checkpoint(path, path.read_bytes())
    assert contents["settings"].pop("tol") == 0.0
    checkpoints.write_checkpoint(path, contents)
    assert fit(network(), wave(), checkpoint=path, tol=0.5, **options) == expected


def test_a_failed_write_leaves_the_checkpoint_as_it_was(tmp_path, monkeypatch) -> None:
    path = tmp_path / "run.pt"
    fit(network(), wave(), likelihood="gaussian", epochs=2, checkpoint=path)
    before = path.read_bytes()

    def full_disk(contents, file) -> None:
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(state.torch, "save", full_disk)
    with pytest.raises(OSError, match="no space"):
        fit(network(), wave(), likelihood="gaussian", epochs=2, checkpoint=path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


def homoscedastic(seed: int = 3) -> nn.Sequential:
    torch.manual_seed(seed)
    return mlp(2, 1, hidden=[64], homoscedastic_noise=True)


class Sum(nn.Module):
    """A model of two inputs: what `network` is of one that holds them side by side."""

    def __init__(self, make=network) -> None:
        super().__init__()
        self.network = make()

    def forward(self, left: torch.Tensor, right: torch.Tensor, *, flip: bool = False, note: str | None = None):
        assert note in (None, "kept")
        return self.network(torch.cat([right, left] if flip else [left, right], dim=1))


def assert_same_history(result: FitResult, expected: FitResult) -> None:
    for name in ("nll", "validation_nll"):
        values = [getattr(record, name) for record in expected.history]
        assert [getattr(record, name) for record in result.history] == pytest.approx(values, rel=1e-5)


def columns(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"left": x[:, :1], "right": x[:, 1:]}


@pytest.mark.parametrize("kind", ["tuple", "list", "mapping", "mapping with flags"])
@pytest.mark.parametrize("options", [{}, {"accumulate": 2, "batch_size": 10}, {"held_out_noise": True}], ids=str)
def test_several_inputs_train_as_one_that_holds_them(kind, options) -> None:
    def split(x: torch.Tensor):
        flags = {"flip": False, "note": "kept"} if kind == "mapping with flags" else {}
        parts = columns(x)
        return {"tuple": tuple(parts.values()), "list": list(parts.values())}.get(kind, parts | flags)

    make = homoscedastic if "held_out_noise" in options else network
    options = options | {"likelihood": "gaussian", "epochs": 3}
    one, several = make(), Sum(make)
    (x, y), held_out = wave(), wave(24)
    expected = fit(one, (x, y), validation=held_out, **options)
    result = fit(several, (split(x), y), validation=(split(held_out[0]), held_out[1]), **options)
    assert_same_history(result, expected)
    torch.testing.assert_close(weights(several), weights(one))


def test_loaders_of_several_inputs() -> None:
    (x, y), (held_x, held_y) = wave(), wave(24)
    options = {"likelihood": "gaussian", "epochs": 2}
    expected = fit(network(), DataLoader(TensorDataset(x, y), batch_size=32), validation=(held_x, held_y), **options)
    for pick in (lambda row: {"left": row[:1], "right": row[1:]}, lambda row: (row[:1], row[1:])):
        train, validation = (
            [(pick(row), target) for row, target in zip(*pair, strict=True)] for pair in ((x, y), (held_x, held_y))
        )
        loaders = DataLoader(train, batch_size=32), DataLoader(validation, batch_size=7)
        result = fit(Sum(), loaders[0], validation=loaders[1], **options)
        assert_same_history(result, expected)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [5, 24])
def test_a_validation_loader_scores_as_its_rows_do(batch_size, shuffle) -> None:
    """The same functions in every batch, and batches of any size weigh as many rows as they hold."""
    held_out = wave(24)
    loader = DataLoader(TensorDataset(*held_out), batch_size=batch_size, shuffle=shuffle)
    options = {"likelihood": "gaussian", "epochs": 4, "lr": 5e-2, "patience": 4}
    models = network(), network()
    expected = fit(models[0], wave(16), validation=held_out, **options)
    result = fit(models[1], wave(16), validation=loader, **options)
    assert_same_history(result, expected)
    assert result.best_epoch == expected.best_epoch
    assert torch.equal(weights(models[0]), weights(models[1]))


def test_a_stream_cannot_watch_a_sharded_model(monkeypatch) -> None:
    class Stream(IterableDataset):
        def __iter__(self):
            yield wave(24)

    monkeypatch.setattr(single, "is_sharded", lambda model: True)
    with pytest.raises(ValueError, match="`validation` of a sharded model must give all processes as many batches"):
        fit(network(), wave(), likelihood="gaussian", epochs=1, validation=DataLoader(Stream(), batch_size=None))


def test_a_checkpoint_knows_the_values_of_several_inputs(tmp_path) -> None:
    (x, y), place = wave(), tmp_path / "run.pt"
    parts = columns(x)
    options = {"likelihood": "gaussian", "epochs": 2, "checkpoint": place}
    first = fit(Sum(), (parts, y), **options)
    again = fit(Sum(), (dict(reversed(parts.items())), y), **options)  # the order of names says nothing
    assert again.history == first.history
    with pytest.raises(CheckpointError, match="other data"):
        fit(Sum(), (parts | {"right": parts["right"] + 1}, y), **options)


@pytest.mark.parametrize("likelihood", ["student_t", "categorical", "bernoulli", "poisson", "negative_binomial"])
def test_other_likelihoods(likelihood) -> None:
    x, y = wave()
    target = {"categorical": (y > 0).long().squeeze(1), "bernoulli": (y > 0).float(), "student_t": y}
    model = mlp(2, 1 if likelihood in ("bernoulli", "poisson") else 2, hidden=[8])
    result = fit(model, (x, target.get(likelihood, y.exp().round())), likelihood=likelihood, epochs=20, lr=2e-2)
    assert result.history[-1].nll < result.history[0].nll
    assert gd.predict(model, x, likelihood, num_samples=5, seed=0).rows(torch.arange(3)).log_prob is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": 0}, "`epochs` must be at least 1"),
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        ({"lr": 0.0}, "`lr` must be positive"),
        ({"lr": float("nan")}, "`lr` must be positive"),
        ({"rate_lr": -1.0}, "`rate_lr` must be positive"),
        ({"max_norm": 0.0}, "`max_norm` must be positive"),
        ({"patience": 3}, "`patience` needs `validation`"),
        ({"held_out_noise": True}, "`held_out_noise` needs held-out data"),
        ({"held_out_noise": True, "validation": wave(8)}, "got 0 of these and such data"),
        ({"held_out_noise": True, "validation": DataLoader(TensorDataset(*wave(8)))}, "at random, got a loader"),
        ({"likelihood": "cauchy"}, "one of gaussian, student_t"),
        ({"num_data": 5}, "`num_data` must be at least the batch"),
        ({"validation": (torch.zeros(2, 2), torch.zeros(3, 1))}, "`validation` must hold as many"),
        ({"weight_decay": -1.0}, "`weight_decay` must be at least 0"),
        ({"accumulate": 0}, "`accumulate` must be at least 1"),
        ({"validation_samples": 0}, "`validation_samples` must be at least 1"),
        ({"tol": -1.0}, "`tol` must be at least 0"),
    ],
)
def test_bad_arguments(options, words) -> None:
    arguments = {"likelihood": "gaussian", "epochs": 1} | options
    with pytest.raises(ValueError, match=words):
        fit(network(), wave(), **arguments)


def test_settings_by_name_and_in_a_record() -> None:
    record = TrainingSettings(epochs=2, batch_size=16, seed=3)
    named, given, changed = network(), network(), network()
    expected = fit(named, wave(), likelihood="gaussian", epochs=2, batch_size=16, seed=3)
    assert fit(given, wave(), likelihood="gaussian", settings=record) == expected
    assert len(fit(changed, wave(), likelihood="gaussian", settings=record, epochs=1).history) == 1
    assert torch.equal(weights(named), weights(given))
    with pytest.raises(TypeError, match="got a setting `batchsize`, and the settings here are epochs, batch_size, lr"):
        fit(network(), wave(), likelihood="gaussian", epochs=1, batchsize=3)
    with pytest.raises(TypeError, match="`epochs` must be given"):
        fit(network(), wave(), likelihood="gaussian", lr=0.1)


NO_PAIR = "must be a pair .* got"
PAIR = r"`train` must be a tuple \(inputs, targets\)"
ROWS = DataLoader([{"x": torch.ones(2), "labels": torch.ones(1)}] * 8)


@pytest.mark.parametrize(
    ("change", "options", "error", "words"),
    [
        (
            lambda x, y: (x, y.index_fill(0, torch.tensor([3, 5]), torch.inf)),
            {},
            ValueError,
            "2 values that are NaN or",
        ),
        (lambda x, y: (x.masked_fill(x == x[3, 1], torch.nan), y), {}, ValueError, "inputs in `train` hold 1 values"),
        (lambda x, y: (x[:0], y[:0]), {}, ValueError, "at least 1, got 0 and 0"),
        (lambda x, y: (x, y * 3), {"likelihood": "bernoulli"}, ValueError, "which no bernoulli can give"),
        (lambda x, y: (x, y - 9), {"likelihood": "poisson"}, ValueError, "which no poisson can give"),
        (lambda x, y: (x * 1e30, y * 1e30), {}, ValueError, r"not finite in epoch 1.*smaller `lr`"),
        (lambda x, y: [x, y], {}, TypeError, PAIR),
        (lambda x, y: (x.numpy(), y.numpy()), {}, TypeError, PAIR),
        (lambda x, y: TensorDataset(x, y), {}, TypeError, PAIR),
        (lambda x, y: x, {}, TypeError, PAIR),
        (lambda x, y: ROWS, {}, TypeError, f"a batch of `train` {NO_PAIR} dict; a `collate_fn` of the loader"),
        (
            lambda x, y: (x, y),
            {"validation": DataLoader(TensorDataset(*[torch.ones(3, 1)] * 3))},
            TypeError,
            f"a batch of `validation` {NO_PAIR} 3 parts",
        ),
        (lambda x, y: ((x, x[:5]), y), {}, ValueError, "`train` must hold tensors with the same number of .* let the"),
        (lambda x, y: ({"x": x, "right": x.numpy()}, y), {}, TypeError, "`train` must .* got ndarray at 'right'; let"),
        (lambda x, y: ((x, x / 0), y), {}, ValueError, "the inputs in `train` hold 192 values that are NaN"),
    ],
)
def test_bad_data(change, options, error, words) -> None:
    with pytest.raises(error, match=words):
        fit(network(), change(*wave()), **{"likelihood": "gaussian", "epochs": 1} | options)


def test_an_unconverted_model_is_refused() -> None:
    with pytest.raises(ValueError, match="has no learned dropout"):
        fit(nn.Linear(2, 2), wave(), likelihood="gaussian", epochs=1)


def test_held_out_noise_is_that_of_held_out_residuals() -> None:
    """A network that learns 16 rows by heart believes its own residuals; others' tell the truth."""
    options = {"likelihood": "gaussian", "epochs": 300, "lr": 4e-2, "lengthscale": 0.01, "validation": wave(100)}
    options["seed"] = 1
    x, y = wave(16)
    y = y + 0.5 * torch.randn(16, 1, generator=torch.Generator().manual_seed(0))
    own, held_out = homoscedastic(), homoscedastic()
    fit(own, (x, y), **(options | {"validation": None}))
    result = fit(held_out, (x, y), held_out_noise=True, **options)
    residuals = gd.sample(held_out, wave(100)[0], num_samples=50, seed=0)[..., :1] - wave(100)[1]
    variance = held_out[-1].log_variance.exp().item()
    assert variance == pytest.approx(residuals.square().mean().item(), rel=0.6)  # it lags where the best epoch is early
    assert variance > 1.1 * own[-1].log_variance.exp().item()
    assert result.history[result.best_epoch - 1].validation_nll == min(r.validation_nll for r in result.history)
    assert held_out[-1].log_variance.requires_grad


@pytest.mark.parametrize("stacked", [False, True])
def test_held_out_data_are_evaluated_every_few_epochs_and_in_the_last(stacked) -> None:
    x = torch.linspace(-1, 1, 40).unsqueeze(1)
    model, data = mlp(1, 2), (x, x.square())
    options = {"likelihood": "gaussian", "epochs": 7, "validate_every": 3}
    if stacked:
        rows = {"rows": [torch.arange(30)], "held_out": [torch.arange(30, 40)]}
        (result,) = fit_stacked([model], [data], keep_best=True, **rows, **options)
    else:
        result = fit(model, data, validation=data, **options)
    known = [record.epoch for record in result.history if record.validation_nll is not None]
    assert known == [3, 6, 7]
    assert result.best_epoch in known
    with pytest.raises(ValueError, match="`validate_every` must be at least 1"):
        fit(model, data, likelihood="gaussian", epochs=1, validate_every=0)


def normalising() -> nn.Module:
    return gd.learn_dropout(nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)))


@pytest.mark.parametrize("num_rows", [33, 65, 4])
def test_no_rest_of_one_row_is_left(num_rows: int) -> None:
    sizes: list[int] = []
    model = normalising()
    model.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])) if model.training else None)
    fit(model, wave(num_rows), likelihood="gaussian", epochs=2, batch_size=3 if num_rows == 4 else 32)
    assert len(sizes) == 2 * -(-num_rows // (3 if num_rows == 4 else 32))
    assert sum(sizes) == 2 * num_rows
    assert min(sizes) >= max(sizes) - 1


def test_one_row_that_cannot_be_normalised_is_an_error_that_helps() -> None:
    loader = DataLoader(TensorDataset(*wave(33)), batch_size=32)
    for data, options in ((wave(33), {"batch_size": 1}), (wave(33), {"accumulate": 20}), (loader, {})):
        with pytest.raises(ValueError, match=r"a batch of one row cannot be normalised .* choose `batch_size=`"):
            fit(normalising(), data, likelihood="gaussian", epochs=1, **options)


class Named(nn.Module):
    """Returns its output by name, as models of Hugging Face do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp(2, 1, hidden=[8])
        self.noise = gd.HomoscedasticNoise(1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"numbers": self.noise(self.inner(x))}


@pytest.mark.filterwarnings("ignore:the models are trained one after the other")
def test_a_model_that_returns_a_record() -> None:
    options = {"likelihood": "gaussian", "epochs": 2, "validation": wave(20), "held_out_noise": True}
    torch.manual_seed(0)
    model = Named()
    plain = nn.Sequential(copy.deepcopy(model.inner), copy.deepcopy(model.noise))
    found = fit(model, wave(), output=lambda result: result["numbers"], **options)
    expected = fit(plain, wave(), **options)
    for one, other in zip(found.history, expected.history, strict=True):
        assert (one.nll, one.validation_nll) == (other.nll, other.validation_nll)
    with pytest.raises(TypeError, match="the model returned a dict; pass `output`, a function that takes the tensor"):
        fit(Named(), wave(), likelihood="gaussian", epochs=1)
    with pytest.raises(TypeError, match="`output` returned a NoneType; pass `output`"):
        fit(Named(), wave(), likelihood="gaussian", epochs=1, output=lambda result: result.get("logits"))
    with pytest.raises(TypeError, match="the model returned a dict; wrap it in a module"):
        fit_stacked([Named(), Named()], [wave(), wave()], likelihood="gaussian", epochs=1)
