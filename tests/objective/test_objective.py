"""Likelihoods against torch.distributions, the KL against its naive twin, and the loss in nats per datum."""

import copy
import functools
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, distributions, nn
from torch.nn.utils import prune
from torch.utils.data import DataLoader, TensorDataset

import gumdrop as gd
from gumdrop.layers import ConcreteDropout
from gumdrop.likelihoods import LIKELIHOODS, Gaussian, Likelihood
from gumdrop.likelihoods.hurdle import Hurdle

from builders import reference as ref
from builders.masks import columns_of
from builders.models import Computed
from builders.rates import set_logit


def array(value: Tensor) -> np.ndarray:
    return value.detach().double().numpy()


def double(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


class Laplace(Gaussian):
    """A likelihood of a user, on the outputs of another."""

    def nll(self, output: Tensor, target: Tensor) -> Tensor:
        mean, log_scale = output.chunk(2, dim=-1)
        return -distributions.Laplace(mean, log_scale.exp()).log_prob(target).sum(-1)


class TestLikelihoods:
    @pytest.mark.parametrize("events", [(), (3,), (2, 4, 3)])
    @pytest.mark.parametrize("noise", ["each", "event", "scalar"])
    def test_gaussian(self, events: tuple[int, ...], noise: str) -> None:
        mean, y = torch.randn(5, *events), torch.randn(5, *events)
        log_variance = torch.randn({"each": (5, *events), "event": events, "scalar": ()}[noise])
        expected = -distributions.Normal(mean, torch.exp(log_variance / 2)).log_prob(y).reshape(5, -1).sum(1)
        nll = gd.gaussian_nll(mean, log_variance, y)
        assert nll.shape == (5,)
        torch.testing.assert_close(nll, expected, rtol=1e-5, atol=1e-5)
        first = mean.flatten()[0].item(), y.flatten()[0].item(), log_variance.flatten()[0].item()
        if not events:
            naive = -ref.normal_log_density(first[1], first[0], math.exp(first[2]))
            assert nll[0].item() == pytest.approx(naive, rel=1e-5)

    @pytest.mark.parametrize("temperature", [1.0, 2.5])
    @pytest.mark.parametrize(
        "likelihood",
        [*LIKELIHOODS.values(), Gaussian(log_variance=-0.7), Hurdle(), Hurdle(bound=-0.3), Laplace()],
        ids=repr,
    )
    def test_slopes_are_those_of_autograd(self, likelihood: Likelihood, temperature: float) -> None:
        output = torch.randn(6, 4)
        has_halves = likelihood.name == "negative_binomial" or likelihood.is_density
        y = torch.randn(6, 2 if has_halves and likelihood != Gaussian(log_variance=-0.7) else 4)
        likelihood = likelihood.tempered(temperature)
        if likelihood.name == "categorical":
            y = torch.tensor([0, 3, 1, 1, 2, 0])
        elif likelihood.name == "hurdle":
            y[:, 1] = torch.tensor([0, 1, 1, 0, 0, 1])
        elif not likelihood.is_density:
            y = (y > 0).float()
        with torch.no_grad():
            nll, slope = likelihood.slope(output, y)
            expected, autograd = Likelihood.slope(likelihood, output, y)
        torch.testing.assert_close((nll, slope), (expected, autograd))
        torch.testing.assert_close(nll, likelihood.nll(output, y))

    @pytest.mark.parametrize("shape", [(), (6,), (4, 3)])
    def test_categorical(self, shape: tuple[int, ...]) -> None:
        logits, y = torch.randn(5, 7, *shape), torch.randint(7, (5, *shape))
        log_prob = distributions.Categorical(logits=logits.movedim(1, -1)).log_prob(y)
        nll = gd.categorical_nll(logits, y)
        assert nll.shape == (5,)
        torch.testing.assert_close(nll, -log_prob.reshape(5, -1).sum(1))
        for dtype in (torch.uint8, torch.int32):
            assert torch.equal(gd.categorical_nll(logits, y.to(dtype)), nll)

    @pytest.mark.parametrize("void", [255, -1, -100, 2])
    def test_categorical_ignores_void_positions(self, void: int) -> None:
        logits, y = torch.randn(2, 3, 4), torch.randint(2, (2, 4))
        y[0, 1], y[1, 3] = void, void
        nll = gd.categorical_nll(logits, y, ignore_index=void)
        log_p = torch.log_softmax(logits, 1)
        for n in range(2):
            expected = -sum(log_p[n, y[n, i], i].item() for i in range(4) if y[n, i] != void)
            assert nll[n].item() == pytest.approx(expected, rel=1e-5)

    def test_categorical_ignores_nothing_unasked(self) -> None:
        """PyTorch's cross_entropy would silently skip -100."""
        with pytest.raises(IndexError, match="-100 is out of bounds"):
            gd.categorical_nll(torch.randn(2, 3), torch.tensor([1, -100]))

    @pytest.mark.parametrize("shape", [(), (3,), (2, 4)])
    def test_bernoulli(self, shape: tuple[int, ...]) -> None:
        """Also of soft labels."""
        logits, y = torch.randn(5, *shape), torch.rand(5, *shape)
        each = -(y * logits.sigmoid().log() + (1 - y) * (-logits).sigmoid().log())
        torch.testing.assert_close(gd.bernoulli_nll(logits, y), each.reshape(5, -1).sum(1))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_outputs_are_summed_in_float32(self, dtype: torch.dtype) -> None:
        a, y, labels = torch.randn(3, 400).to(dtype), torch.rand(3, 400), torch.randint(400, (3,))
        half = (3 * y).to(dtype)
        for nll, target in (
            (gd.bernoulli_nll, y),
            (gd.poisson_nll, y),
            (gd.categorical_nll, labels),
            (lambda a, y: gd.gaussian_nll(a, a, y), y),
            (lambda a, y: gd.gaussian_nll(a, a, y), half),
        ):
            wide = target.float() if target.is_floating_point() else target
            torch.testing.assert_close(nll(a, target), nll(a.float(), wide))
        log_rate = torch.tensor([5.0]).to(dtype)  # 257 is no bfloat16 number
        expected = math.exp(5) - 257 * 5 + math.lgamma(258)
        assert gd.poisson_nll(log_rate, torch.tensor([257])).item() == pytest.approx(expected, rel=1e-5)

    def test_gaussian_is_finite_where_the_exact_value_is(self) -> None:
        log_variances = [-1e4, -300.0, -200.0, -100.0, -60.0, 0.0, 100.0, 200.0, 300.0, 1e4]
        for pair in itertools.product([0.0, 1e-30, 1e-20, 3.0, -1e15, 1e20, 1e30], log_variances):
            self.check_finite(*pair)

    def check_finite(self, residual: float, log_variance: float) -> None:
        mean = torch.tensor([[residual]], requires_grad=True)
        s = torch.tensor([[log_variance]], requires_grad=True)
        nll = gd.gaussian_nll(mean, s, torch.zeros(1, 1))
        nll.sum().backward()
        assert not any(value.isnan().any() for value in (nll, mean.grad, s.grad))
        exponent = 2 * math.log(abs(residual)) - log_variance if residual else -math.inf
        if (log_variance > -88 and exponent < 80) or (not residual and log_variance > -301):
            exact = 0.5 * (math.log(2 * math.pi) + log_variance + math.exp(exponent))
            assert nll.item() == pytest.approx(exact, rel=1e-4)
            assert mean.grad.isfinite().all()
            assert s.grad.isfinite().all()

    def test_others_are_finite_for_extreme_values(self) -> None:
        extreme = torch.tensor([-1e4, 1e4])
        np.testing.assert_allclose(gd.bernoulli_nll(extreme, torch.tensor([0.0, 1.0])), [0, 0], atol=1e-6)
        np.testing.assert_allclose(gd.bernoulli_nll(extreme, torch.tensor([1.0, 0.0])), [1e4, 1e4])
        logits = torch.tensor([[1e4, -1e4], [1e4, -1e4]])
        np.testing.assert_allclose(gd.categorical_nll(logits, torch.tensor([0, 1])), [0, 2e4], atol=1e-6)
        np.testing.assert_allclose(
            gd.poisson_nll(torch.tensor([-1e4, -1e4]), torch.tensor([0, 2])), [0, 2e4 + math.log(2)]
        )
        large, count = torch.tensor([[math.log(1e6)]]), torch.tensor([[1_000_000]])
        exact = pytest.approx(0.5 * math.log(2 * math.pi * 1e6), abs=1e-3)  # in float32 terms of 1e7 cancel
        assert gd.poisson_nll(large, count).item() == exact
        assert -LIKELIHOODS["poisson"].predict([large[None]], 1).log_prob(count).item() == exact

    @pytest.mark.parametrize(
        "nll", [gd.bernoulli_nll, gd.poisson_nll, lambda a, y: gd.gaussian_nll(a, torch.zeros(()), y)]
    )
    @pytest.mark.parametrize("shapes", [((4,), (4, 1)), ((4, 1), (4,)), ((4, 1), (1, 1)), ((4, 2), (4, 3)), ((), ())])
    def test_no_silent_broadcasting(self, nll: Any, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        with pytest.raises(ValueError, match=r"must have the same shape.*\(N,\) and \(N, 1\) differ"):
            nll(torch.zeros(shapes[0]), torch.zeros(shapes[1]))

    def test_other_shapes_and_dtypes_are_refused(self) -> None:
        for shape in [(4,), (1, 3), (2,), (3, 1)]:
            with pytest.raises(ValueError, match=r"`log_variance` must be a scalar or .* of `mean`, \(4, 3\)"):
                gd.gaussian_nll(torch.zeros(4, 3), torch.zeros(shape), torch.zeros(4, 3))
        for logits, target in [((4,), (4,)), ((4, 3), (4, 1)), ((4, 3, 2), (4, 3)), ((4, 3), (5,))]:
            with pytest.raises(ValueError, match="must have the shape of `logits` without its class dimension"):
                gd.categorical_nll(torch.zeros(logits), torch.zeros(target, dtype=torch.long))
        with pytest.raises(TypeError, match=r"`target` must hold class indices, got torch.float32; .*target.long\(\)"):
            gd.categorical_nll(torch.zeros(4, 3), torch.zeros(4))


def conv_columns(layer: Any) -> np.ndarray:
    """Weights as (rows, input channels): column k holds what input channel k is multiplied with."""
    columns = [array(layer.weight)[columns_of(layer, k).numpy()] for k in range(layer.in_channels)]
    return np.stack(columns, axis=1)


CONVOLUTIONS = [
    (nn.Conv1d(4, 6, 3), 4 * 3),
    (nn.Conv2d(4, 6, (3, 2)), 4 * 6),
    (nn.Conv2d(4, 6, 3, groups=2), 2 * 9),
    (nn.Conv2d(4, 8, 3, groups=4, bias=False), 9),
    (nn.Conv3d(2, 3, 2), 2 * 8),
    (nn.ConvTranspose1d(4, 2, 3), 4 * 3),
    (nn.ConvTranspose2d(4, 6, 3, groups=2), 2 * 9),
    (nn.ConvTranspose3d(2, 4, 2, groups=2), 8),
]


class TestKl:
    @pytest.mark.parametrize("p", [0.05, 0.3, 0.8])
    @pytest.mark.parametrize("lengthscale", [0.01, 1, 2.5, "fan_in", "weak", "faint"])
    def test_linear(self, p: float, lengthscale: Any) -> None:
        """The bias is not divided by 1 - p, and 1 - p is not squared."""
        model = gd.learn_dropout(nn.Linear(5, 3), p=p)
        precision = {"fan_in": 5, "weak": 0.5, "faint": 0.05}.get(lengthscale) or lengthscale**2
        expected = ref.kl(p, array(model.weight), [array(model.bias)], precision=precision)
        assert gd.kl_divergence(model, lengthscale=lengthscale).item() == pytest.approx(expected, rel=1e-4)

    @pytest.mark.parametrize("per_unit", [False, True])
    @pytest.mark.parametrize(("layer", "fan_in"), CONVOLUTIONS, ids=lambda v: type(v).__name__)
    def test_convolutions_count_channels(self, layer: Any, fan_in: int, per_unit: bool) -> None:
        model: Any = gd.learn_dropout(copy.deepcopy(layer), p=0.3, per_unit=per_unit)
        rates: Any = 0.3
        if per_unit:
            rates = list(np.linspace(0.1, 0.8, layer.in_channels))
            set_logit(model.concrete_dropout, torch.tensor([ref.logit(p) for p in rates], dtype=torch.float32))
        biases = [] if layer.bias is None else [array(layer.bias)]
        for lengthscale, precision in [("fan_in", fan_in), (0.7, 0.49)]:
            expected = ref.kl(rates, conv_columns(layer), biases, precision=precision)
            assert gd.kl_divergence(model, lengthscale=lengthscale).item() == pytest.approx(expected, rel=1e-4)

    def test_rates_of_units_in_double_precision(self) -> None:
        model = gd.learn_dropout(nn.Linear(5, 3).double(), p=0.3, per_unit=True)
        expected = ref.kl([0.3] * 5, array(model.weight), [array(model.bias)], precision=0.49)
        assert gd.kl_divergence(model, lengthscale=0.7).item() == pytest.approx(expected, rel=1e-7)

    @pytest.mark.parametrize("recurrent", [False, True])
    def test_lstm_has_only_the_weights_that_are_dropped(self, recurrent: bool) -> None:
        """Input dropout zeroes columns of W_ih; W_hh has no part in that posterior."""
        model: Any = gd.learn_dropout(nn.LSTM(3, 4, num_layers=2, bidirectional=True), p=0.2, recurrent=recurrent)
        expected = 0.0
        for suffix in ("l0", "l0_reverse", "l1", "l1_reverse"):
            for part in ("ih", "hh") if recurrent else ("ih",):
                weight, bias = (array(getattr(model, f"{kind}_{part}_{suffix}")) for kind in ("weight", "bias"))
                assert weight.shape == (16, 4 if part == "hh" else 3 if "l0" in suffix else 8)
                expected += ref.kl(0.2, weight, [bias], precision=weight.shape[1])
        assert gd.kl_divergence(model, lengthscale="fan_in").item() == pytest.approx(expected, rel=1e-5)
        gradients = torch.autograd.grad(
            gd.kl_divergence(model, lengthscale="fan_in"), [model.weight_hh_l0], allow_unused=True
        )
        assert (gradients[0] is not None) is recurrent

    @pytest.mark.parametrize("sizes", [{}, {"kdim": 3, "vdim": 5}])
    def test_attention(self, sizes: dict[str, int]) -> None:
        model: Any = gd.learn_dropout(nn.MultiheadAttention(4, 2, **sizes), p=0.35)
        nn.init.normal_(model.in_proj_bias)
        nn.init.normal_(model.out_proj.bias)
        expected = ref.kl(0.35, array(model.out_proj.weight), [array(model.out_proj.bias)], precision=4)
        expected += 4 / 2 * float((array(model.in_proj_bias) ** 2).sum())
        if sizes:
            for weight in (model.q_proj_weight, model.k_proj_weight, model.v_proj_weight):
                expected += ref.kl(0.35, array(weight), precision=weight.shape[1])
        else:
            expected += ref.kl(0.35, array(model.in_proj_weight), precision=4)
        assert gd.kl_divergence(model, lengthscale="fan_in").item() == pytest.approx(expected, rel=1e-5)

    def test_tied_weight_counts_once_and_its_biases_each(self) -> None:
        first, second = nn.Linear(4, 4), nn.Linear(4, 4)
        second.weight = first.weight
        model = gd.learn_dropout(nn.Sequential(first, second), p=0.3)
        expected = ref.kl(0.3, array(first.weight), [array(first.bias), array(second.bias)], precision=4)
        assert gd.kl_divergence(model, lengthscale="fan_in").item() == pytest.approx(expected, rel=1e-5)
        second.bias = first.bias
        expected = ref.kl(0.3, array(first.weight), [array(first.bias)], precision=4)
        assert gd.kl_divergence(model, lengthscale="fan_in").item() == pytest.approx(expected, rel=1e-5)

    def test_parameters_that_are_views_of_one_vector_all_count(self) -> None:
        """As in functional calls with a flat vector: parts of one base, some of them of one size, are not tied."""
        model = gd.learn_dropout(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3)), p=0.3)
        vector = nn.utils.parameters_to_vector(model.parameters()).detach().requires_grad_()

        parts, start = {}, 0
        for name, parameter in model.named_parameters():
            parts[f"model.{name}"] = vector[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()
        for context in (torch.enable_grad(), torch.no_grad()):
            with context:
                flat = torch.func.functional_call(
                    Computed(model, functools.partial(gd.kl_divergence, lengthscale="fan_in")), parts, ()
                )
                torch.testing.assert_close(flat, gd.kl_divergence(model, lengthscale="fan_in"))

    @pytest.mark.parametrize("make", [nn.Linear, lambda k, o: nn.Conv1d(k, o, 1), nn.LSTM])
    @pytest.mark.parametrize("method", ["weight norm", "spectral norm", "pruning", "pruning twice"])
    @pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
    def test_weights_that_a_hook_computes_are_those_of_the_next_forward(self, make: Any, method: str) -> None:
        model = gd.learn_dropout(make(4, 3)).eval()
        name = "weight_ih_l0" if make is nn.LSTM else "weight"
        if method == "weight norm":
            nn.utils.weight_norm(model, name)
        elif method == "spectral norm":
            nn.utils.spectral_norm(model, name)
        else:
            prune.l1_unstructured(model, name, amount=0.3)
        if method == "pruning twice":
            prune.random_unstructured(model, name, amount=0.3)
        before = gd.kl_divergence(model, lengthscale=2.0)
        source = dict(model.named_parameters())[name + ("_g" if method == "weight norm" else "_orig")]
        with torch.no_grad():
            source[1:] *= 3
        now = gd.kl_divergence(model, lengthscale=2.0)
        model(torch.randn(2, 4, 4))
        after = gd.kl_divergence(model, lengthscale=2.0)
        assert now > before or method == "spectral norm"
        torch.testing.assert_close(now, after)
        for _ in range(2):
            gd.kl_divergence(model, lengthscale="fan_in").backward()  # no graph is kept
        assert source.grad is not None

    def test_homoscedastic_noise_has_its_gamma_prior(self) -> None:
        layer = gd.learn_dropout(nn.Linear(3, 2), p=0.3)
        noise = gd.HomoscedasticNoise(2, gamma_prior=(3.0, 0.5))
        noise.log_variance.data = torch.tensor([0.4, -1.1])
        model = nn.Sequential(layer, noise)
        tau = np.exp([-0.4, 1.1])
        prior = float((-3.0 * np.log(tau) + 0.5 * tau).sum())
        assert gd.kl_divergence(model, lengthscale="fan_in").item() == pytest.approx(
            gd.kl_divergence(layer, lengthscale="fan_in").item() + prior, rel=1e-5
        )
        # -log Gamma(tau; a, b) plus the Jacobian of log tau, up to a constant
        density = distributions.TransformedDistribution(
            distributions.Gamma(3.0, 0.5), [distributions.ExpTransform().inv]
        )
        difference = -density.log_prob(torch.tensor([-0.4, 1.1])).sum() + density.log_prob(torch.zeros(2)).sum()
        assert difference.item() == pytest.approx(prior - 2 * 0.5, rel=1e-4)
        noise.log_variance.data = torch.full((2,), -math.log(3.0 / 0.5))  # the mode
        (gradient,) = torch.autograd.grad(gd.kl_divergence(model, lengthscale="fan_in"), noise.log_variance)
        np.testing.assert_allclose(gradient, [0, 0], atol=1e-5)
        plain = nn.Sequential(layer, gd.HomoscedasticNoise(2, log_variance=0.7))
        assert gd.kl_divergence(plain, lengthscale="fan_in").item() == pytest.approx(
            gd.kl_divergence(layer, lengthscale="fan_in").item(), rel=1e-6
        )

    def test_depends_on_the_parameters_and_on_nothing_that_was_run(self) -> None:
        """Nothing is kept from a forward pass: neither a number of elements nor a graph."""
        model: Any = gd.learn_dropout(nn.Conv2d(3, 4, 3), p=0.3)
        fresh = gd.kl_divergence(model, lengthscale="fan_in")
        attributes = set(vars(model))
        model(torch.randn(2, 3, 9, 9)).sum().backward()
        model.eval()(torch.randn(3, 5, 5))
        assert set(vars(model)) == attributes
        assert torch.equal(gd.kl_divergence(model, lengthscale="fan_in"), fresh)
        for _ in range(2):
            gd.kl_divergence(model, lengthscale="fan_in").backward()  # no graph is kept
        set_logit(model.concrete_dropout, torch.tensor(ref.logit(0.6)))
        assert gd.kl_divergence(model, lengthscale="fan_in") != fresh

    @pytest.mark.parametrize("p_logit", [-1e4, -60.0, 60.0, 1e4])
    @pytest.mark.parametrize("zero", [False, True])
    def test_extreme_rates(self, p_logit: float, zero: bool) -> None:
        model: Any = gd.learn_dropout(nn.Linear(784, 3))
        if zero:
            nn.init.zeros_(model.weight)
        set_logit(model.concrete_dropout, p_logit)
        kl = gd.kl_divergence(model, lengthscale="fan_in")
        kl.backward()
        assert not kl.isnan()
        assert kl.isfinite() or p_logit == 1e4
        assert all(not parameter.grad.isnan().any() for parameter in model.parameters())

    def test_half_precision_model(self) -> None:
        model: Any = gd.learn_dropout(nn.Linear(300, 300), p=0.3).bfloat16()
        kl = gd.kl_divergence(model, lengthscale=1.0)
        assert kl.dtype == torch.float32
        p = ref.sigmoid(model.concrete_dropout.p_logit.item())
        expected = ref.kl(p, array(model.weight), [array(model.bias)], precision=1.0)
        assert kl.item() == pytest.approx(expected, rel=1e-4)

    def test_errors(self) -> None:
        with pytest.raises(ValueError, match=r"`model` has no learned dropout; convert it with `gumdrop.learn_dropout"):
            gd.kl_divergence(nn.Sequential(nn.Linear(3, 2), gd.HomoscedasticNoise(2)), lengthscale="fan_in")
        loose = nn.Sequential(gd.learn_dropout(nn.Linear(3, 2)), ConcreteDropout(2))
        with pytest.raises(ValueError, match="site '1' is attached to no layer"):
            gd.kl_divergence(loose, lengthscale="fan_in")
        with pytest.raises(ValueError, match="site '0' is attached to no layer"):
            gd.kl_divergence(nn.Sequential(ConcreteDropout(2)), lengthscale="fan_in")
        late: Any = gd.learn_dropout(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)))
        late[2].weight = late[0].weight
        with pytest.raises(ValueError, match=r"'0' and '2' have one weight and a rate each.*tie them before it"):
            gd.negative_elbo(late(torch.randn(5, 3)).sum(1), late, num_data=5, likelihood="categorical")
        late[2].bias = late[0].bias
        late[2].concrete_dropout = late[0].concrete_dropout  # as conversion does
        torch.testing.assert_close(
            gd.kl_divergence(late, lengthscale="fan_in"), gd.kl_divergence(late[0], lengthscale="fan_in")
        )
        lengthscales: list[Any] = [0, -1.0, math.nan, "fanin"]
        for lengthscale in lengthscales:
            with pytest.raises(ValueError, match=r'`lengthscale` must be a positive number, .*"weak" or "faint", got '):
                gd.kl_divergence(late, lengthscale=lengthscale)


def accelerator(steps: int) -> Any:
    return pytest.importorskip("accelerate").Accelerator(cpu=True, gradient_accumulation_steps=steps)


class TestNegativeElbo:
    @pytest.mark.parametrize("likelihood", [None, "gaussian"])  # the prior is that which is named
    @pytest.mark.parametrize("batch", [1, 7, 250])
    def test_parts_add_up_in_nats_per_datum(self, likelihood: str | None, batch: int) -> None:
        model, nll = gd.learn_dropout(nn.Linear(3, 2), p=0.3), torch.rand(batch)
        loss = gd.negative_elbo(nll, model, num_data=250, likelihood=likelihood, lengthscale=1.7)
        assert loss.nll.item() == pytest.approx(nll.mean().item())
        expected = ref.kl(0.3, array(model.weight), [array(model.bias)], precision=1.7**2) / 250
        assert loss.kl.item() == pytest.approx(expected, rel=1e-5)
        assert loss.total.item() == pytest.approx(nll.mean().item() + expected, rel=1e-6)
        assert loss == loss.nll + loss.kl == loss.total
        counted = gd.negative_elbo(
            nll.mean(),
            model,
            num_data=np.int64(250),
            likelihood=likelihood,
            lengthscale=1.7,  # type: ignore[arg-type]
        )
        assert torch.equal(counted.total, loss.total)

    @pytest.mark.parametrize(
        ("shape", "num_data", "error", "message"),
        [
            *(
                ((4,), wrong, TypeError, "`num_data` must be an integer, the number of examples in")
                for wrong in (100.0, True, None, "100", torch.tensor(100))
            ),
            *(
                (shape, wrong, ValueError, r"`num_data` must be at least the batch of \d, got .*loader\.dataset")
                for shape, wrong in (((4,), 3), ((), 0), ((4,), -5), ((), -1))
            ),
            ((4, 1), 1000, ValueError, r"`nll` must hold one value for each example, shape \(N,\), got"),
            ((4, 8, 8), 1000, ValueError, r"`nll` must hold one value for each example, shape \(N,\), got"),
        ],
    )
    def test_errors(self, shape: tuple[int, ...], num_data: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            gd.negative_elbo(
                torch.ones(shape), gd.learn_dropout(nn.Linear(3, 2)), num_data=num_data, likelihood="categorical"
            )

    def test_it_is_computed_with_like_any_loss(self) -> None:
        model = gd.learn_dropout(nn.Linear(3, 2), p=0.3)
        loss = gd.negative_elbo(torch.rand(4), model, num_data=40, likelihood="categorical")
        other = gd.negative_elbo(torch.rand(4), model, num_data=40, likelihood="categorical")
        number = loss.total.item()
        assert loss.item() == float(loss.detach()) == number == pytest.approx((loss.nll + loss.kl).item())
        results = [loss / 4, 4 * loss, loss * 4, -loss, loss + 1, sum([loss, other]), loss.detach(), loss.total]
        numbers = [number / 4, 4 * number, 4 * number, -number, number + 1, number + other.item(), number, number]
        for result, expected in zip(results, numbers, strict=True):
            assert type(result) is Tensor  # and has no parts, which would not be its own
            assert result.item() == pytest.approx(expected)
        assert f"{loss:.3f}" == f"{number:.3f}"
        assert torch.stack([loss, other]).mean().item() == pytest.approx((number + other.item()) / 2)

    @pytest.mark.parametrize(
        ("backward", "factor"),
        [
            (lambda loss: loss.backward(), 1.0),
            (lambda loss: (loss / 4).backward(), 0.25),
            (lambda loss: loss.__itruediv__(4).backward(), 0.25),
            (lambda loss: (loss + loss).backward(), 2.0),
            (lambda loss: sum([loss, 2 * loss]).backward(), 3.0),
            (lambda loss: torch.amp.GradScaler("cpu", init_scale=8.0).scale(loss).backward(), 8.0),
            (lambda loss: torch.amp.GradScaler("cpu", enabled=False).scale(loss).backward(), 1.0),
            (lambda loss: [each.backward() for each in torch.amp.GradScaler("cpu", init_scale=8.0).scale([loss])], 8.0),
            (lambda loss: accelerator(3).backward(loss), 1 / 3),
        ],
    )
    def test_gradients_are_those_of_the_number(self, backward: Callable[[Any], Any], factor: float) -> None:
        model: Any = gd.learn_dropout(nn.Linear(3, 2), p=0.3)
        model.eval()

        def loss() -> gd.objective.NegativeElbo:
            nll = gd.categorical_nll(model(torch.ones(8, 3)), torch.zeros(8, dtype=torch.long))
            return gd.negative_elbo(nll, model, num_data=40, likelihood="categorical")

        one = loss()
        expected = torch.autograd.grad(one.nll + one.kl, list(model.parameters()))
        backward(loss())
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, factor * gradient)

    def test_a_training_step_may_return_it_in_lightning(self) -> None:
        lightning = pytest.importorskip("lightning")

        class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
            def __init__(self, total: bool) -> None:
                super().__init__()
                torch.manual_seed(0)
                self.network, self.total = gd.learn_dropout(nn.Linear(3, 2), p=0.3), total

            def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
                nll = gd.categorical_nll(self.network(batch[0]), batch[1])
                loss = gd.negative_elbo(nll, self.network, num_data=40, likelihood="categorical")
                self.log("loss", loss)
                return loss.total if self.total else loss

            def configure_optimizers(self) -> torch.optim.Optimizer:
                return torch.optim.SGD(self.parameters(), 0.1)

        rows = TensorDataset(torch.linspace(-1, 1, 60).view(20, 3), torch.arange(20) % 2)
        quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False)
        modules = [Module(total) for total in (True, False)]
        for module in modules:
            trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", accumulate_grad_batches=2, **quiet)
            torch.manual_seed(1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what Lightning says of workers and logging
                trainer.fit(module, DataLoader(rows, batch_size=5))
            assert trainer.callback_metrics["loss"].isfinite()
        for one, other in zip(modules[0].parameters(), modules[1].parameters(), strict=True):
            assert torch.equal(one, other)

    @pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # of any loss, where a graph breaks
    @pytest.mark.parametrize("fullgraph", [False, True])
    def test_compiled(self, fullgraph: bool) -> None:
        model: Any = gd.learn_dropout(nn.Linear(3, 2), p=0.3).eval()

        def loss(x: Tensor) -> gd.objective.NegativeElbo:
            nll = gd.categorical_nll(model(x), torch.zeros(8, dtype=torch.long))
            return gd.negative_elbo(nll, model, num_data=40, likelihood="categorical")

        def step(x: Tensor) -> Tensor:
            each = loss(x)
            (each / 2).backward()
            return each.detach()

        x = torch.ones(8, 3)
        expected = loss(x)
        got = torch.compile(loss, fullgraph=fullgraph, backend="eager")(x)
        torch.testing.assert_close(torch.stack([got, got.nll, got.kl]), torch.stack([expected, got.nll, expected.kl]))
        if not fullgraph:
            torch.testing.assert_close(torch.compile(step, backend="eager")(x), expected.detach())
            assert model.weight.grad is not None

    def test_under_transforms(self) -> None:
        model: Any = gd.learn_dropout(nn.Linear(3, 2), p=0.3).eval()
        parameters = {name: value.detach() for name, value in model.named_parameters()}

        def compute(model: nn.Module) -> Tensor:
            nll = gd.categorical_nll(model(torch.ones(8, 3)), torch.zeros(8, dtype=torch.long))
            return gd.negative_elbo(nll, model, num_data=40, likelihood="categorical")

        def of(values: dict[str, Tensor]) -> Any:
            return torch.func.functional_call(loss, {f"model.{name}": value for name, value in values.items()}, ())

        loss = Computed(model, compute)
        loss().backward()
        for name, gradient in torch.func.grad(of)(parameters).items():
            torch.testing.assert_close(gradient, model.get_parameter(name).grad)


@pytest.mark.parametrize("p", [0.15, 0.4])
def test_elbo_of_a_linear_model_is_the_sum_over_all_masks(p: float) -> None:
    """Expected NLL over all 2^K Bernoulli masks against hard masks drawn by the library; exact KL."""
    problem = ref.linear_problem(20, num_units=8)
    weight = problem.best_weight(p, *ref.hard_moments(p))
    model: Any = gd.learn_dropout(nn.Linear(8, 1, bias=False), p=p)
    model.weight.data = torch.tensor(weight, dtype=torch.float32)[None]
    x, y = torch.tensor(problem.x, dtype=torch.float32), torch.tensor(problem.y, dtype=torch.float32)[:, None]
    log_variance = torch.tensor(math.log(problem.noise_variance))
    means = gd.sample(model, x, num_samples=8000, seed=0)
    draws = torch.stack([gd.gaussian_nll(mean, log_variance, y).mean() for mean in means])
    error = draws.std().item() / math.sqrt(len(draws))
    exact = problem.nll_by_enumeration(weight, p) / 20
    assert error < 0.01 * exact
    assert draws.mean().item() == pytest.approx(exact, abs=4 * error)
    loss = gd.negative_elbo(draws.mean(), model, num_data=20, lengthscale=math.sqrt(problem.precision))
    assert loss.total.item() == pytest.approx(exact + problem.kl(weight, p) / 20, abs=4 * error)


class TestHomoscedasticNoise:
    def test_output_reads_like_a_heteroscedastic_network(self) -> None:
        noise = gd.HomoscedasticNoise(2, log_variance=-0.7)
        mean = torch.randn(5, 3, 2)
        output = noise(mean)
        assert output.shape == (5, 3, 4)
        assert torch.equal(output[..., :2], mean)
        np.testing.assert_allclose(output[..., 2:].detach(), -0.7, rtol=1e-6)
        assert noise(mean.bfloat16()).dtype == torch.bfloat16

    def test_errors(self) -> None:
        with pytest.raises(ValueError, match="`num_outputs` must be at least 1, got 0"):
            gd.HomoscedasticNoise(0)
        for prior in [(0.0, 1.0), (1.0, -2.0)]:
            with pytest.raises(ValueError, match="`gamma_prior` must be a positive shape and rate, got"):
                gd.HomoscedasticNoise(1, gamma_prior=prior)
        with pytest.raises(ValueError, match=r"the input must have 3 means, got shape \(5, 1\)"):
            gd.HomoscedasticNoise(3)(torch.zeros(5, 1))
