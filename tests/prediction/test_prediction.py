"""Monte-Carlo prediction: closed forms, mixtures, and nothing left behind."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.layers import ConcreteDropout

from builders import reference as ref
from builders.models import fingerprint, mixed_model
from builders.rates import set_logit

PREDICTIONS: list[Callable[..., Any]] = [gd.sample, gd.predict_regression, gd.predict_classification]


def linear(num_units: int, num_outputs: int = 1, *, p: float, **options: Any) -> Any:
    return gd.learn_dropout(nn.Linear(num_units, num_outputs), p=p, **options)


def rates_of_their_own(p: float) -> nn.Module:
    model = linear(20, p=p, per_unit=True)
    set_logit(model.concrete_dropout, torch.linspace(0.2 * p, 1.5 * p, 20).logit())
    return model


class TestClosedForm:
    """Dropout in front of a linear map has output variance p / (1 - p) sum c^2, c what a unit adds to the output."""

    @pytest.mark.parametrize("p", [0.1, 0.6])
    @pytest.mark.parametrize(
        ("make", "shape", "contribution"),
        [
            (lambda p: linear(20, p=p), (20,), lambda weight, x: weight * x),
            (rates_of_their_own, (20,), lambda weight, x: weight * x),
            (lambda p: nn.Sequential(nn.Dropout(p), nn.Linear(20, 1)).eval(), (20,), lambda weight, x: weight * x),
            (lambda p: gd.learn_dropout(nn.Conv2d(5, 1, 4), p=p), (5, 4, 4), lambda w, x: (w * x).sum((1, 2))),
            (lambda p: linear(5, p=p), (7, 5), lambda weight, x: weight * x.sum(0)),
        ],
        ids=["one rate", "a rate for each unit", "plain", "whole channels", "tokens share a mask"],
    )
    def test_of_rows_and_of_draws(self, p: float, make: Any, shape: tuple[int, ...], contribution: Any) -> None:
        model, x = make(p), torch.randn(1, *shape)
        weight = next(value for name, value in model.named_parameters() if name.endswith("weight"))
        rates = p if isinstance(model, nn.Sequential) else model.concrete_dropout.p
        expected = (rates / (1 - rates) * contribution(weight[0], x[0]).square()).sum().item()
        with torch.no_grad():
            rows = gd.draw(model, seed=1, shared=False, fresh=True)(x.expand(60_000, *shape))
            mean = model.eval()(x).sum().item()
        count = 8_000 if isinstance(model, nn.Sequential) else 30_000  # plain dropout is drawn one by one
        for y in (rows, gd.sample(model, x, num_samples=count, seed=2)[:, 0]):
            y = y.flatten(1).sum(1)
            assert y.mean().item() == pytest.approx(mean, abs=4 * math.sqrt(expected / len(y)))
            assert y.var().item() == pytest.approx(expected, rel=0.05)


def single_layer_lstm() -> nn.LSTM:
    """With a dropout that has nothing to stand between, of which PyTorch warns when it is given to the constructor."""
    model = nn.LSTM(3, 4)
    model.dropout = 0.5
    return model


class TestNothingLeftBehind:
    @pytest.mark.parametrize("seed", [0, None])
    def test_in_a_model_by_draws_and_predictions(self, seed: int | None) -> None:
        """Also while an exception, and with it the frame that it left, is still held."""
        model, x = mixed_model(), torch.randn(5, 6)
        before, copy_of_x = fingerprint(model), x.clone()
        for fresh in (False, True):
            drawn = gd.draw(model, seed=seed, fresh=fresh)
            drawn(x)
            with pytest.raises(ValueError, match="must have 6 units"):
                drawn(torch.zeros(5, 7))
        for predict in (gd.sample, gd.predict_regression, gd.predict_classification):
            predict(model, x, num_samples=4, seed=seed)
        assert fingerprint(model) == before
        for predict, message in ((gd.predict_regression, "halves"), (gd.predict_classification, "C >= 2")):
            with pytest.raises(ValueError, match=message) as held:
                predict(model, x, output=lambda y: y[:, :1], seed=seed)
            assert (fingerprint(model), held.type) == (before, ValueError)
        assert torch.equal(x, copy_of_x)

    def test_batch_statistics_do_not_change_and_are_used(self) -> None:
        model = nn.Sequential(nn.BatchNorm1d(3), gd.learn_dropout(nn.Linear(3, 1)))
        norm: Any = model[0]
        norm.running_mean += 5.0
        set_logit(model[1].concrete_dropout, -50.0)  # type: ignore[operator, union-attr]
        statistics = {name: value.clone() for name, value in norm.state_dict().items()}
        x = torch.randn(8, 3)
        y = gd.sample(model, x, num_samples=2, seed=0)[0]
        assert all(torch.equal(value, statistics[name]) for name, value in norm.state_dict().items())
        torch.testing.assert_close(y, model.eval()(x).detach())

    def test_the_global_seed_of_other_devices_is_not_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """torch.manual_seed seeds every accelerator, of which only some are restored."""

        def forbidden(*args: Any) -> None:
            raise AssertionError("seeds all devices")

        monkeypatch.setattr(torch, "manual_seed", forbidden)
        monkeypatch.setattr(torch.random, "manual_seed", forbidden)
        monkeypatch.setattr(torch.cuda, "manual_seed_all", forbidden)
        gd.sample(linear(3, p=0.5), torch.randn(2, 3), num_samples=2, seed=0)


class TestDraw:
    def test_the_draw_of_a_draw_has_one_mask(self) -> None:
        """Of two masks at once the variance would be 3 / (1 - p) times too large."""
        p, x = 0.5, torch.ones(1, 4)
        model = nn.Sequential(nn.Dropout(p), nn.Linear(4, 1, bias=False))
        nn.init.ones_(model[1].weight)  # type: ignore[arg-type]
        alone = gd.sample(model, x, num_samples=200, seed=3)
        for fresh in (False, True):
            assert torch.equal(gd.sample(gd.draw(model, seed=1, fresh=fresh), x, num_samples=200, seed=3), alone)

    def test_training_the_one_trains_the_other(self) -> None:
        model, x = gd.learn_dropout(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2)), p=0.1), torch.randn(3, 6)
        drawn = gd.draw(model, seed=1)
        before = drawn(x)
        assert {id(p) for p in drawn.parameters()} == {id(p) for p in model.parameters()}
        with torch.no_grad():
            model[0].weight.mul_(2)
        assert not torch.allclose(drawn(x), before)

    @pytest.mark.parametrize("fresh", [False, True])
    def test_seeds(self, fresh: bool) -> None:
        model, x = nn.Sequential(ConcreteDropout(200, p=0.5), nn.Dropout(0.5)), torch.randn(3, 200)  # 2^400 draws
        outputs = [gd.draw(model, seed=seed, fresh=fresh)(x).detach() for seed in (0, 0, 1, None, None)]
        assert torch.equal(outputs[0], outputs[1])
        for first, second in itertools.combinations(outputs[1:], 2):
            assert not torch.equal(first, second)

    @pytest.mark.parametrize("plain", [False, True])
    def test_masks_are_shared_by_rows_or_not(self, plain: bool) -> None:
        model = nn.Sequential(nn.Dropout(0.5)) if plain else nn.Sequential(ConcreteDropout(200, p=0.5))
        x = torch.ones(6, 200)
        drawn = gd.draw(model, seed=0, fresh=True)
        y = drawn(x)
        assert set(y.unique().tolist()) == {0.0, 2.0}
        assert (y == y[0]).all()
        assert not torch.equal(drawn(x), y)
        drawn = gd.draw(model, seed=0, shared=False, fresh=True)
        y = drawn(x)
        assert len(y.unique(dim=0)) == 6
        correlation = torch.corrcoef(y)[~torch.eye(6, dtype=torch.bool)]
        assert correlation.abs().max() < 0.3

    def test_draws_have_gradients(self) -> None:
        """Thompson sampling and attribution differentiate through a drawn function."""
        model, x = linear(4, p=0.4), torch.randn(3, 4, requires_grad=True)
        drawn = gd.draw(model, seed=0)
        drawn(x).sum().backward()
        mask = x.grad[0] / model.weight[0]
        kept = mask > 0.5
        assert 0 < kept.sum() < 4
        torch.testing.assert_close(mask, kept / 0.6)

    def test_draw_is_one_function_for_every_input(self) -> None:
        model = mixed_model()
        x, z = torch.randn(9, 6), torch.randn(4, 6)
        drawn = gd.draw(model, seed=3)
        with torch.no_grad():
            y = drawn(x)
            torch.testing.assert_close(drawn(x), y, rtol=0, atol=0)
            torch.testing.assert_close(drawn(x[2:5]), y[2:5])
            torch.testing.assert_close(torch.cat([drawn(z), drawn(x)])[4:], y)
            torch.testing.assert_close(torch.cat([drawn(row[None]) for row in x]), y)

    def test_drawn_convolution_does_not_depend_on_the_image_size(self) -> None:
        model: Any = gd.learn_dropout(nn.Conv2d(8, 2, 3), p=0.5)
        x = torch.randn(2, 8, 9, 9)
        drawn = gd.draw(model, seed=3)
        with torch.no_grad():
            torch.testing.assert_close(drawn(x[..., :6]), drawn(x)[..., :4])

    @pytest.mark.parametrize(
        "make",
        [
            lambda: nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True),
            lambda: nn.LSTM(8, 8, 2, dropout=0.5, batch_first=True),
            lambda: nn.AlphaDropout(0.5),
            lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True),
        ],
        ids=["attention", "lstm", "alpha", "fast path"],
    )
    def test_dropout_that_takes_no_masks(self, make: Callable[[], nn.Module]) -> None:
        """It is on while sampling, from the same seed the same, and a draw of it is an error and not a constant."""
        model = make().eval()
        x = torch.randn(3, 5, 8)
        arguments = (x, x, x) if isinstance(model, nn.MultiheadAttention) else (x,)

        def call(drawn: nn.Module) -> Tensor:
            output = drawn(*arguments)
            return output if isinstance(output, Tensor) else output[0]

        outputs = []
        for seed in (0, 0, 1):
            drawn = gd.draw(model, seed=seed, fresh=True)
            with torch.no_grad():
                outputs.append(call(drawn))
                assert not torch.equal(call(drawn), outputs[-1])
        assert torch.equal(outputs[0], outputs[1])
        assert not torch.equal(outputs[0], outputs[2])
        assert torch.backends.mha.get_fastpath_enabled()
        if not isinstance(model, nn.TransformerEncoderLayer):
            with pytest.raises(ValueError, match="no dropout"):
                gd.draw(model)

    def test_draw_switches_off_what_it_cannot_keep(self) -> None:
        model = gd.learn_dropout(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)).eval()
        x, drawn = torch.randn(3, 5, 8), gd.draw(model, seed=0)
        with torch.no_grad():
            assert torch.equal(drawn(x), drawn(x))

    @pytest.mark.parametrize(
        "model",
        [
            nn.Linear(3, 1),
            nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.0)),
            nn.LSTM(3, 4, dropout=0.0, num_layers=2),
            single_layer_lstm(),
            nn.MultiheadAttention(4, 2),
            nn.Sequential(nn.AlphaDropout(0.0)),
        ],
        ids=["none", "zero", "lstm", "single layer", "attention", "alpha"],
    )
    def test_error_if_nothing_is_stochastic(self, model: nn.Module) -> None:
        before = fingerprint(model)
        draws = [partial(gd.draw, fresh=False), partial(gd.draw, fresh=True)]
        for call in (*draws, *(partial(predict, x=torch.ones(2, 3)) for predict in PREDICTIONS)):
            with pytest.raises(ValueError, match=r"`model` has no dropout.*gumdrop.learn_dropout"):
                call(model)
        assert fingerprint(model) == before


class TestPlainDropout:
    """Models with torch.nn's own dropout, which nothing was done to."""

    @pytest.mark.parametrize(
        ("dropout", "shape", "mask"),
        [
            (nn.Dropout, (6, 5), (1, 5)),
            (nn.Dropout, (6, 5, 4), (1, 5, 4)),
            (nn.Dropout1d, (6, 5, 4), (1, 5, 1)),
            (nn.Dropout2d, (6, 5, 4, 3), (1, 5, 1, 1)),
            (nn.Dropout3d, (6, 5, 4, 3, 2), (1, 5, 1, 1, 1)),
            (nn.Dropout, (5,), (5,)),
            (nn.Dropout1d, (5, 4), (5, 1)),
            (nn.Dropout3d, (5, 4, 3, 2), (5, 1, 1, 1)),
        ],
    )
    def test_shape_of_the_mask(
        self, dropout: Callable[[float], nn.Module], shape: tuple[int, ...], mask: tuple[int, ...]
    ) -> None:
        model = dropout(0.5)
        kept = torch.zeros(mask)
        drawn = gd.draw(model, seed=0, fresh=True)
        for _ in range(40):
            y = drawn(torch.ones(shape))
            assert y.shape == shape
            assert set(y.unique().tolist()) <= {0.0, 2.0}
            corner = y[tuple(slice(size) for size in mask)]
            assert torch.equal(corner.expand(shape), y)
            kept += corner / 2
        assert (kept > 0).all()
        assert (kept < 40).all()
        assert len(kept.unique()) > 1

    def test_input_is_not_changed(self) -> None:
        model, x = nn.Dropout(0.5, inplace=True), torch.ones(3, 50)
        drawn = gd.draw(model, fresh=True)
        drawn(x)
        gd.sample(gd.learn_dropout(nn.Sequential(nn.Linear(50, 2)), p=0.5), x, num_samples=1)
        assert torch.equal(x, torch.ones(3, 50))
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            assert drawn(x.to(dtype)).dtype == dtype
        assert torch.equal(gd.draw(nn.Dropout(1.0), fresh=True)(x), torch.zeros(3, 50))

    def test_two_uses_of_one_module_have_two_masks(self) -> None:
        """Many models share one nn.Dropout: in a drawn function its uses must not have the same mask."""

        class Twice(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.dropout = nn.Dropout(0.5)

            def forward(self, x: Tensor) -> Tensor:
                return self.dropout(self.dropout(x)).sum(1, keepdim=True)

        model, x = Twice(), torch.ones(5, 4)
        y = gd.sample(model, x, num_samples=5_000, seed=0)[:, 0, 0]
        assert y.var().item() == pytest.approx(4 * (1 / 0.25 - 1), rel=0.1)  # with one mask: 4 * 4
        for batch_size in (1, 2, 5):  # each pass over the model begins with the first mask
            draws = gd.sample(model, x, num_samples=50, seed=0, batch_size=batch_size)
            assert torch.equal(draws[:, :, 0], y[:50, None].expand(50, 5))
        drawn = gd.draw(model, seed=0)
        assert torch.equal(drawn(x), drawn(x))

    @pytest.mark.parametrize("in_place", [False, True])
    @pytest.mark.parametrize("plain", [False, True])
    def test_compiled_models_are_stochastic_too(self, plain: bool, in_place: bool) -> None:
        """A compiled model does not look for hooks that came after it was compiled."""
        model: Any = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 1)) if plain else linear(4, p=0.5)
        model.eval()
        x = torch.randn(6, 4)
        expected = gd.sample(model, x, num_samples=12, seed=0)
        assert (expected.var(0) > 0).all()
        if in_place:
            model.compile(backend="eager")
        compiled = model if in_place else torch.compile(model, backend="eager")
        with torch.no_grad():
            before = compiled(x)
        torch.testing.assert_close(gd.sample(compiled, x, num_samples=12, seed=0), expected)
        torch.testing.assert_close(gd.sample(compiled, x, num_samples=12, seed=0, batch_size=4), expected)
        with torch.no_grad():
            assert torch.equal(compiled(x), before)


class TestInvariance:
    @pytest.fixture
    def model(self) -> nn.Module:
        return mixed_model()

    def test_order_and_batches_of_rows(self, model: nn.Module) -> None:
        x, order = torch.randn(10, 6), torch.randperm(10)
        y = gd.sample(model, x, num_samples=7, seed=0)
        torch.testing.assert_close(gd.sample(model, x[order], num_samples=7, seed=0), y[:, order])
        torch.testing.assert_close(gd.sample(model, x[3:4], num_samples=7, seed=0), y[:, 3:4])

        for predict, name in ((gd.predict_regression, "epistemic"), (gd.predict_classification, "probabilities")):
            whole, *batched = (predict(model, x, num_samples=7, seed=0, batch_size=size) for size in (None, 1, 3, 1000))
            for result in batched:
                torch.testing.assert_close(getattr(result, name), getattr(whole, name))

    def test_seed(self, model: nn.Module) -> None:
        x = torch.randn(4, 6)
        y = gd.sample(model, x, num_samples=7, seed=0)
        assert torch.equal(gd.sample(model, x, num_samples=7, seed=0), y)
        assert not torch.equal(gd.sample(model, x, num_samples=7, seed=1), y)
        assert not torch.equal(gd.sample(model, x, num_samples=7), gd.sample(model, x, num_samples=7))
        torch.testing.assert_close(gd.sample(model, x, num_samples=12, seed=0)[:7], y)  # more draws go on from fewer
        assert len(y.flatten(1).unique(dim=0)) == 7
        torch.manual_seed(99)
        assert torch.equal(gd.sample(model, x, num_samples=7, seed=0), y)

    def test_many_seeds_give_as_many_functions(self) -> None:
        model, x = linear(64, p=0.5), torch.randn(1, 64)
        assert len({gd.sample(model, x, num_samples=1, seed=seed).item() for seed in range(300)}) == 300
        sites = [linear(64, p=0.5) for _ in range(300)]
        masks = []
        for site in gd.draw(nn.ModuleList(sites), seed=0, fresh=True):
            masks.append(tuple((site.concrete_dropout(torch.ones(1, 64)) > 0).flatten().tolist()))
        assert len(set(masks)) == 300

    def test_a_pass_more_of_one_site_does_not_move_another(self) -> None:
        model, x = nn.Sequential(ConcreteDropout(20, p=0.5), ConcreteDropout(20, p=0.5)), torch.ones(1, 20)
        expected = gd.draw(model, seed=0, fresh=True)[1](x)
        first, second = gd.draw(model, seed=0, fresh=True)
        first(x)
        assert torch.equal(second(x), expected)


class Wrapped(nn.Module):
    """Two inputs, and an answer by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = linear(6, 2, p=0.4)

    def forward(self, left: Tensor, right: Tensor) -> dict[str, Tensor]:
        return {"logits": self.layer(torch.cat([left, 2 * right], dim=1))}


X = torch.ones(5, 6)


class TestInputs:
    def test_tuple_list_and_mapping_in_and_a_mapping_out(self) -> None:
        model, left, right = Wrapped(), torch.randn(5, 2), torch.randn(5, 4)
        y = gd.sample(model.layer, torch.cat([left, 2 * right], 1), num_samples=3, seed=0)
        for size in (None, 2):
            for x in ((left, right), [left, right], {"right": right, "left": left}):
                found = gd.sample(model, x, num_samples=3, seed=0, batch_size=size, output=lambda r: r["logits"])
                torch.testing.assert_close(found, y)
        for predict in PREDICTIONS:
            predict(model, (left, right), output=lambda result: result["logits"])
            with pytest.raises(TypeError, match=r"the model returned a dict; pass `output`.*result.logits"):
                predict(model, (left, right))

    @pytest.mark.parametrize(
        ("wrong", "error", "message"),
        [
            ({"num_samples": 0}, ValueError, "`num_samples` must be at least 1, got 0"),
            ({"batch_size": 0}, ValueError, "`batch_size` must be at least 1, got 0; None takes all"),
            ({"x": X[:0]}, ValueError, r"`x` must hold tensors with the same number of rows.* got \[0\]"),
            ({"x": (X, X[:4])}, ValueError, r"same number of rows, at least 1, got \[4, 5\]"),
            ({"x": ()}, ValueError, "same number of rows"),
            ({"x": X.numpy()}, TypeError, "`x` must be a tensor, a tuple or mapping of tensors, .* got ndarray"),
            ({"x": {"a": X, "other": X.numpy()}}, TypeError, "hold tensors with rows .* got ndarray at 'other'; name"),
        ],
    )
    def test_errors(self, wrong: dict[str, Any], error: type[Exception], message: str) -> None:
        for predict in PREDICTIONS:
            with pytest.raises(error, match=message):
                predict(linear(6, 2, p=0.4), **{"x": X} | wrong)


class TestRegression:
    @pytest.fixture
    def model(self) -> nn.Module:
        torch.manual_seed(0)
        return gd.learn_dropout(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4)), p=0.3)

    @pytest.fixture
    def x(self) -> Tensor:
        torch.manual_seed(1)
        return torch.randn(5, 6)

    @pytest.mark.parametrize("positions", [(), (7,)])
    def test_log_density_is_that_of_each_row(self, positions: tuple[int, ...]) -> None:
        model, x, target = linear(6, 4, p=0.3), torch.randn(5, *positions, 6), torch.randn(5, *positions, 2)
        prediction = gd.predict_regression(model, x, num_samples=30, seed=0)
        assert prediction.mean.shape == (5, *positions, 2)
        draws: Any = prediction.draw_means, prediction.draw_variances
        means, variances = (value.flatten(2).double().numpy() for value in draws)
        expected = ref.mixture_log_density(target.flatten(1).numpy(), means, variances)
        assert prediction.log_prob(target).shape == (5,)
        np.testing.assert_allclose(prediction.log_prob(target), expected, rtol=1e-4)
        assert prediction.log_prob(target + 1e6).isfinite().all()  # no underflow to log 0

    @pytest.mark.parametrize("log_variance", [-0.7, torch.tensor(-0.7), torch.tensor([-0.7, 0.4])])
    def test_known_noise(self, log_variance: Any) -> None:
        model, x = linear(6, 2, p=0.3), torch.randn(5, 6)
        prediction = gd.predict_regression(model, x, num_samples=20, seed=0, log_variance=log_variance)
        assert prediction.mean.shape == (5, 2)
        expected = np.broadcast_to(np.exp(np.asarray(log_variance)), (5, 2))
        np.testing.assert_allclose(prediction.aleatoric, expected, rtol=1e-5)
        y = gd.sample(model, x, num_samples=20, seed=0)
        np.testing.assert_allclose(prediction.epistemic, y.var(0, correction=0), rtol=1e-4)

    def test_half_precision_outputs_are_averaged_in_float32(self) -> None:
        """Under bfloat16 a running mean of 1000 draws would stand still after the first few hundred."""
        model: Any = gd.learn_dropout(nn.Sequential(nn.Linear(64, 4)), p=0.4)
        x = torch.randn(3, 64)
        with torch.autocast("cpu", torch.bfloat16):
            y = gd.sample(model, x, num_samples=1000, seed=0).double()
            prediction = gd.predict_regression(model, x, num_samples=1000, seed=0)
            classes = gd.predict_classification(model, x, num_samples=1000, seed=0)
        assert prediction.mean.dtype == torch.float32
        assert not prediction.mean.requires_grad
        np.testing.assert_allclose(prediction.draw_variances, y[..., 2:].exp(), rtol=1e-3)
        np.testing.assert_allclose(prediction.mean, y[..., :2].mean(0), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(prediction.epistemic, y[..., :2].var(0, correction=0), rtol=1e-3)
        np.testing.assert_allclose(prediction.aleatoric, y[..., 2:].exp().mean(0), rtol=1e-3)
        np.testing.assert_allclose(classes.probabilities, y.softmax(-1).mean(0), rtol=1e-3)

    @pytest.mark.parametrize("log_variance", [-1e4, -200.0, 200.0, 1e4])
    def test_extreme_noise_is_never_nan(self, log_variance: float) -> None:
        model, x = linear(6, p=0.3), torch.randn(3, 6)
        prediction = gd.predict_regression(model, x, num_samples=5, seed=0, log_variance=log_variance)
        assert prediction.aleatoric.isfinite().all()
        assert (prediction.aleatoric > 0).all()
        assert not prediction.log_prob(torch.randn(3, 1)).isnan().any()
        assert not prediction.log_prob(prediction.mean).isnan().any()
        assert not prediction.quantile(0.3).isnan().any()

    def test_errors(self, model: nn.Module, x: Tensor) -> None:
        prediction = gd.predict_regression(model, x, num_samples=3)
        with pytest.raises(ValueError, match=r"halves of its last dimension, got shape \(5, 3\)"):
            gd.predict_regression(linear(6, 3, p=0.3), x)
        with pytest.raises(ValueError, match=r"`log_variance` must be a number or have shape \(4,\), got \(3,\)"):
            gd.predict_regression(model, x, log_variance=torch.zeros(3))
        with pytest.raises(AttributeError, match="cannot assign"):
            prediction.mean = x  # type: ignore[misc]
        for log_variance in (None, 0.0):  # shape (N,) would be split into rows that are means or variances
            with pytest.raises(ValueError, match=r"must return shape \(N, D\), got \(5,\).*unsqueeze"):
                gd.predict_regression(model, x, output=lambda y: y[:, 0], log_variance=log_variance)


class TestClassification:
    @pytest.mark.parametrize("positions", [(), (3,), (2, 3)])
    def test_against_naive_averages(self, positions: tuple[int, ...]) -> None:
        model = linear(6, 4, p=0.5)
        model.weight.data *= 4
        x = torch.randn(5, *positions, 6)

        def classes_first(y: Tensor) -> Tensor:
            return y.movedim(-1, 1)

        prediction = gd.predict_classification(model, x, num_samples=40, seed=0, output=classes_first)
        logits = gd.sample(model, x, num_samples=40, seed=0).double().numpy()
        p = np.exp(logits - logits.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        probabilities = np.moveaxis(prediction.probabilities.numpy(), 1, -1)
        assert prediction.probabilities.shape == (5, 4, *positions)
        np.testing.assert_allclose(probabilities, p.mean(0), rtol=1e-4)
        of_mean_logits = np.exp(logits.mean(0)) / np.exp(logits.mean(0)).sum(-1, keepdims=True)
        assert not np.allclose(probabilities, of_mean_logits, rtol=0.05)
        for index in np.ndindex(5, *positions):
            total = ref.discrete_entropy(p.mean(0)[index])
            expected = np.mean([ref.discrete_entropy(draw[index]) for draw in p])
            assert prediction.predictive_entropy[index].item() == pytest.approx(total, rel=1e-4)
            assert prediction.expected_entropy[index].item() == pytest.approx(expected, rel=1e-4)
            assert prediction.mutual_information[index].item() == pytest.approx(total - expected, abs=1e-5)
        assert (prediction.mutual_information > 0).all()
        assert torch.equal(prediction.label, torch.tensor(p.mean(0).argmax(-1)))
        target = torch.randint(4, (5, *positions))
        log_prob = prediction.log_prob(target)
        assert log_prob.shape == target.shape
        for index in np.ndindex(5, *positions):
            naive = math.log(p.mean(0)[index][int(target[index])])
            assert log_prob[index].item() == pytest.approx(naive, rel=1e-4)
        assert torch.equal(prediction.log_prob(target.to(torch.uint8)), log_prob)

    def test_a_sure_function_has_no_information(self) -> None:
        model = linear(6, 3, p=0.5)
        set_logit(model.concrete_dropout, -60.0)
        with pytest.warns(UserWarning, match="none of the 9 draws is likely to drop a unit"):
            prediction = gd.predict_classification(model, torch.randn(50, 6), num_samples=9)
        assert (prediction.mutual_information >= 0).all()
        np.testing.assert_allclose(prediction.mutual_information, 0, atol=1e-6)

    def test_extreme_logits(self) -> None:
        model, x = linear(6, 3, p=0.5), torch.randn(5, 6) * 1e6
        prediction = gd.predict_classification(model, x, num_samples=20, seed=0)
        assert prediction.log_probabilities.isfinite().all()
        assert prediction.predictive_entropy.isfinite().all()
        assert prediction.mutual_information.isfinite().all()
        np.testing.assert_allclose(prediction.probabilities.sum(1), 1, rtol=1e-5)

    def test_errors(self) -> None:
        model, x = linear(6, 3, p=0.5), torch.randn(5, 6)
        prediction = gd.predict_classification(model, x, num_samples=3)
        for shape in [(5, 1), (4,), (5, 3)]:
            with pytest.raises(ValueError, match=r"`target` must have shape \(5,\), got"):
                prediction.log_prob(torch.zeros(shape, dtype=torch.long))
        with pytest.raises(TypeError, match=r"`target` must hold class indices, got torch.float32"):
            prediction.log_prob(torch.zeros(5))
        with pytest.raises(ValueError, match=r"logits of shape \(N, C, ...\) with C >= 2, got \(5, 1\)"):
            gd.predict_classification(linear(6, 1, p=0.5), x)
        with pytest.raises(ValueError, match=r"with C >= 2, got \(5,\)"):
            gd.predict_classification(linear(6, 1, p=0.5), x, output=lambda y: y.squeeze(-1))
