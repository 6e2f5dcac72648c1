"""Moments without sampling: closed forms, numeric integration, naive twins, and many draws."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.layers import ConcreteDropout
from gumdrop.prediction import propagate_moments
from gumdrop.prediction.moments import propagation
from gumdrop.prediction.moments.propagation import _by_slopes, _layers
from gumdrop.prediction.moments.rules import RULES, State, activation, rule_of

from builders.rates import set_logit

ACTIVATIONS = [layer for layer, rule in RULES.items() if rule is activation]


def converted(*layers: nn.Module, p: float = 0.2, **options: Any) -> nn.Sequential:
    return gd.learn_dropout(nn.Sequential(*layers), p=p, **options).double()


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def sampled(model: nn.Module, x: Tensor, num_samples: int = 20_000) -> tuple[Tensor, Tensor]:
    draws = gd.sample(model, x, num_samples=num_samples, seed=0)
    return draws.mean(0), draws.var(0)


class TestExact:
    @pytest.mark.parametrize("per_unit", [False, True])
    @pytest.mark.parametrize("p", [0.02, 0.4, 0.9])
    def test_dropout_and_a_linear_map(self, p: float, per_unit: bool) -> None:
        model, x = converted(nn.Linear(5, 3), p=p, per_unit=per_unit), data(4, 5)
        site = model[0].concrete_dropout
        if per_unit:
            set_logit(site, site.p_logit + data(5).clamp(-1, 1))
        mean, variance = propagate_moments(model, x)
        expected = (x.square() * site.p_logit.exp()) @ model[0].weight.square().T
        torch.testing.assert_close(mean, model.eval()(x).detach())
        torch.testing.assert_close(variance, expected.detach())

    def test_two_linear_maps(self) -> None:
        """All units of the second layer depend on the same masks of the first; their variances alone would not do."""
        model, x = converted(nn.Linear(5, 6), nn.Linear(6, 2)), data(4, 5)
        first, second = model[0].weight, model[1].weight
        odds = 0.25
        hidden = model[0].eval()(x)
        spread = odds * x.square() @ first.square().T  # variance of each hidden unit
        expected = odds * x.square() @ (second @ first).square().T + odds * (hidden**2 + spread) @ second.square().T
        torch.testing.assert_close(propagate_moments(model, x).variance, expected.detach())

    def test_pixels_share_the_mask_of_their_channel(self) -> None:
        model = converted(nn.Conv2d(2, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), p=0.3)
        x = data(4, 2, 6, 6)
        parts = [x * torch.eye(2).view(2, 1, 2, 1, 1)[k] for k in range(2)]
        bias = model[0].bias
        expected = sum(3 / 7 * (model.eval()(part) - bias).square() for part in parts)
        torch.testing.assert_close(propagate_moments(model, x).variance, expected.detach())

    @pytest.mark.parametrize("p", [0.02, 0.3])
    def test_tokens_share_the_mask_of_their_unit(self, p: float) -> None:
        model, x = converted(nn.Linear(3, 4), nn.Flatten(), nn.Linear(20, 2), p=p, exclude=["2"]), data(6, 5, 3)
        readout = model[2].weight.view(2, 5, 4)
        effect = torch.einsum("dth,hk,ntk->ndk", readout, model[0].weight, x)  # of a unit in all tokens
        expected = p / (1 - p) * effect.square().sum(2)
        torch.testing.assert_close(propagate_moments(model, x).variance, expected.detach())

    def test_batch_normalisation(self) -> None:
        model, x = converted(nn.Linear(5, 6), nn.BatchNorm1d(6), exclude=[]), data(4, 5)
        model[1].running_mean.copy_(data(6))
        model[1].running_var.copy_(data(6).exp())
        model[1].weight.data.copy_(data(6))
        factor = model[1].weight.square() / (model[1].running_var + model[1].eps)
        mean, variance = propagate_moments(model, x)
        torch.testing.assert_close(variance, (0.25 * x.square() @ model[0].weight.square().T * factor).detach())
        torch.testing.assert_close(mean, model.eval()(x).detach())

    @pytest.mark.parametrize("cls", [nn.Dropout, nn.Dropout1d])
    def test_plain_dropout(self, cls: type[nn.Module]) -> None:
        x = data(4, 5, 3)
        model = nn.Sequential(cls(0.2), nn.Flatten(), nn.Linear(15, 2)).double()
        weight = model[2].weight.view(2, 1, 5, 3)
        each = weight * x
        terms = each.square().sum((2, 3)) if cls is nn.Dropout else each.sum(3).square().sum(2)
        torch.testing.assert_close(propagate_moments(model, x).variance, (0.25 * terms).T.detach())

    def test_outputs_that_are_not_random(self) -> None:
        model = converted(nn.Linear(5, 1))
        model.append(gd.HomoscedasticNoise(1, log_variance=-1.5).double())
        mean, variance = propagate_moments(model, data(4, 5))
        assert (mean[:, 1] == -1.5).all()
        assert (variance[:, 1] == 0).all()
        assert (variance[:, 0] > 0).all()


@pytest.mark.parametrize("cls", ACTIVATIONS)
def test_activation_of_a_gaussian(cls: type[nn.Module]) -> None:
    layer = cls()
    mean, std = data(12) * 2, torch.rand(12, dtype=torch.float64) + 0.1
    z = torch.linspace(-10, 10, 200_001, dtype=torch.float64).unsqueeze(1)
    weight = torch.exp(-0.5 * z.square())
    weight = weight / weight.sum()
    values = layer(mean + std * z)
    first = (weight * values).sum(0)
    second = (weight * (values - first).square()).sum(0)
    linear = (weight * values * z).sum(0).square()
    sources: Any = []
    state = activation(layer, State(mean, std.square()), sources)
    tolerance = 1e-8 if cls in (nn.ReLU, nn.LeakyReLU) else 0.003
    torch.testing.assert_close(state.mean.detach(), first, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(state.variance, second, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(sources[0].independent, second - linear, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Tanh(), nn.SiLU(), nn.LeakyReLU(0.2)])
def test_networks_against_many_draws(activation: nn.Module) -> None:
    model = converted(nn.Linear(8, 40), activation, nn.Linear(40, 40), activation, nn.Linear(40, 2), p=0.05)
    x = data(10, 8)
    mean, variance = propagate_moments(model, x)
    expected, spread = sampled(model, x)
    assert ((mean - expected) / spread.sqrt()).abs().max() < 0.1
    errors = (variance / spread).sqrt().sub(1).abs()
    assert errors.mean() < 0.05
    assert errors.max() < 0.2


def test_convolutional_network_against_many_draws() -> None:
    model = converted(
        *(nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(8, 8, 2), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)),
        p=0.05,
    )
    x = data(4, 2, 8, 8)
    mean, variance = propagate_moments(model, x)
    expected, spread = sampled(model, x, 5000)
    assert ((mean - expected) / spread.sqrt()).abs().max() < 0.2
    assert (variance / spread).sqrt().sub(1).abs().max() < 0.2


def small_network(p: float = 0.02, **options: Any) -> nn.Sequential:
    layers = [nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 2)]
    return converted(*layers, p=p, **options)


class TestSingleDrops:
    @pytest.mark.parametrize("per_unit", [False, True])
    def test_against_a_loop_over_units(self, per_unit: bool) -> None:
        model, x = small_network(per_unit=per_unit).eval(), data(4, 5)
        sites = [module for module in model.modules() if isinstance(module, ConcreteDropout)]
        if per_unit:
            for site in sites:
                set_logit(site, site.p_logit + data(site.num_units).clamp(max=0.5))
        factors = {site: torch.ones(site.num_units, dtype=torch.float64) for site in sites}
        hooks = [site.register_forward_hook(lambda site, args, x: x * factors[site]) for site in sites]
        with torch.no_grad():
            y, variance, shift = model(x), 0.0, 0.0
            for site in sites:
                for k, p in enumerate(site.p.expand(site.num_units)):
                    factors[site][k] = 0
                    change = model(x) - y
                    factors[site][k] = 1
                    variance, shift = variance + p / (1 - p) * change**2, shift + p / (1 - p) * change
            for site in sites:
                factors[site] = (1 / (1 - site.p)).expand(site.num_units)
            kept = model(x)
        for hook in hooks:
            hook.remove()
        mean, found = propagate_moments(model, x)
        torch.testing.assert_close(mean, kept + shift)
        torch.testing.assert_close(found, variance)

    @pytest.mark.parametrize("p", [0.001, 0.02])
    @pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
    def test_closer_than_slopes_to_all_masks(self, p: float, activation: type[nn.Module]) -> None:
        """Against the sum over every mask of 4 + 5 + 5 units, weighted by its probability."""
        layers = [nn.Linear(4, 5), activation(), nn.Linear(5, 5), activation(), nn.Linear(5, 1)]
        model, x = converted(*layers, p=p), data(20, 4)
        masks = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 14)
        kept = masks.sum(1)
        weight = ((1 - p) ** kept * p ** (14 - kept)).view(-1, 1, 1)
        hidden = x.expand(len(masks), 20, 4)
        for start, width, layer, act in ((0, 4, 0, 1), (4, 5, 2, 3), (9, 5, 4, None)):
            mask = masks[:, start : start + width].unsqueeze(1) / (1 - p)
            linear = model[layer]
            hidden = (hidden * mask) @ linear.weight.T + linear.bias
            hidden = hidden if act is None else model[act](hidden)
        exact_mean = (weight * hidden).sum(0)
        exact = (weight * (hidden - exact_mean).square()).sum(0)
        mean, variance = propagate_moments(model, x)
        slopes = _by_slopes([(layer, rule_of(name, layer)) for name, layer in _layers(model, "")], x)
        assert ((mean - exact_mean).abs() / exact.sqrt()).max() < 0.05
        error, other = ((v / exact).sqrt().sub(1).abs().mean() for v in (variance, slopes.variance))
        assert error < 0.03
        assert error < other

    def test_pixels_without_a_channel(self) -> None:
        layers = [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 2), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten()]
        model, x = converted(*layers, nn.Linear(27, 2), p=0.02), data(4, 2, 6, 6)
        mean, variance = propagate_moments(model, x)
        expected, spread = sampled(model, x, 20_000)
        assert ((mean - expected) / spread.sqrt()).abs().max() < 0.1
        assert (variance / spread).sqrt().sub(1).abs().max() < 0.1

    def test_parts_of_the_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = small_network(), data(11, 5)
        whole = propagate_moments(model, x)
        monkeypatch.setattr(propagation, "ROWS", 30)
        for ours, expected in zip(propagate_moments(model, x), whole, strict=True):
            torch.testing.assert_close(ours, expected)


class TestPredictRegression:
    def test_noise_that_drops_is_log_normal(self) -> None:
        """To the mean of exp(s) for a Gaussian s belongs half the variance of s."""
        model, x = converted(nn.Linear(5, 2), p=0.4), data(4, 5)
        (mean, log_noise), (_, spread) = (part.T for part in propagate_moments(model, x))
        prediction = gd.predict_regression(model, x, method="moments")
        assert spread.max() > 0.1
        torch.testing.assert_close(prediction.mean[:, 0], mean)
        torch.testing.assert_close(prediction.aleatoric[:, 0], torch.exp(log_noise + spread / 2))

    @pytest.mark.parametrize("log_variance", [-1.0, torch.tensor([0.3, -2.0])])
    def test_known_noise(self, log_variance: Any) -> None:
        model, x = converted(nn.Linear(8, 2)), data(10, 8)
        prediction = gd.predict_regression(model, x, method="moments", log_variance=log_variance)
        expected = torch.as_tensor(log_variance, dtype=torch.float64).exp().expand(10, 2)
        torch.testing.assert_close(prediction.aleatoric, expected)
        assert torch.equal(prediction.epistemic, propagate_moments(model, x).variance)

    @pytest.mark.parametrize("options", [{"output": lambda y: y}, {"shared": ["other"]}])
    def test_what_needs_draws_is_refused(self, options: dict[str, Any]) -> None:
        model, x = converted(nn.Linear(8, 2)), data(10, 8)
        inputs = {"input": x, "other": x[0]} if "shared" in options else x
        with pytest.raises(ValueError, match="needs a model of one input tensor that returns its output, without `out"):
            gd.predict_regression(model, inputs, method="moments", **options)


class TestNothingLeftBehind:
    @pytest.mark.parametrize("p", [0.01, 0.2])
    def test_gradients_flags_and_input(self, p: float) -> None:
        """Also where the first layer works in place, and whatever the batches."""
        first = nn.LeakyReLU(0.2, inplace=True)
        model, x = converted(first, nn.Linear(8, 6), nn.ReLU(inplace=True), nn.Linear(6, 2), p=p), data(10, 8)
        model.train()
        before, state = x.clone(), torch.get_rng_state()
        mean, variance = propagate_moments(model, x)
        assert not mean.requires_grad
        assert not variance.requires_grad
        assert torch.equal(x, before)
        assert torch.equal(torch.get_rng_state(), state)
        assert all(parameter.grad is None for parameter in model.parameters())
        assert all(module.training for module in model.modules())
        with torch.no_grad():
            torch.testing.assert_close(propagate_moments(model, x).variance, variance)
        parts = gd.predict_regression(model, x, method="moments", log_variance=0.0, batch_size=3)
        torch.testing.assert_close(parts.epistemic, variance)


@pytest.mark.parametrize(
    ("model", "options", "match"),
    [
        (
            nn.Sequential(nn.Sequential(nn.MaxPool2d(2)), nn.Flatten()),
            {},
            r"layer '0\.0' is a MaxPool2d, whose moments",
        ),
        (nn.LSTM(2, 2), {}, "`model` is a LSTM, whose moments are not known; build the model as an nn.Sequential"),
        (nn.Sequential(nn.Linear(8, 2)), {}, "`model` has no dropout"),
        (converted(nn.Linear(8, 2), nn.BatchNorm1d(2, track_running_stats=False)), {}, "without running statistics"),
        (converted(nn.Linear(8, 2), nn.Unflatten(1, (1, 2))), {}, "layer '1' is a Unflatten"),
        (converted(nn.Linear(7, 2)), {}, r"must have 7 units at dimension -1, got shape \(10, 8\)"),
        (converted(nn.Linear(7, 2), p=0.01), {}, r"must have 7 units at dimension -1, got shape \(10, 8\)"),
        (converted(nn.Linear(8, 2)), {"x": data(10, 3, 8)}, r"must return shape \(N, D\), got \(10, 3, 2\)"),
        (converted(nn.Linear(8, 2), p=0.01), {"x": data(10, 3, 8)}, r"must return shape \(N, D\), got \(10, 3, 2\)"),
        (converted(nn.Linear(8, 2)), {"batch_size": 0}, "`batch_size` must be at least 1, got 0"),
        (converted(nn.Linear(8, 2)), {"x": (data(4, 8), data(4, 8))}, "needs a model of one input tensor that returns"),
        (converted(nn.Linear(8, 2)), {"method": "moment"}, "`method` must be 'draws' or 'moments', got 'moment'"),
    ],
)
def test_errors(model: nn.Module, options: dict[str, Any], match: str) -> None:
    x = data(10, 8).to(next(model.parameters(), data(1)).dtype)
    with pytest.raises(ValueError, match=match):
        gd.predict_regression(model, **{"x": x, "method": "moments"} | options)
