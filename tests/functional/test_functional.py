"""Masks, scales, entropy and KL terms against naive twins, limits, derivatives and extremes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gumdrop import functional as fn
from gumdrop.functional.floats import finite_exp, widened
from gumdrop.functional.kl import total_kl
from gumdrop.functional.masks import inverse_keep
from gumdrop.functional.noise import uniform_noise
from gumdrop.layers import ConcreteDropout
from gumdrop.likelihoods.gaussian import split_gaussian

from builders import reference as ref

NOISE = [0.03, 0.2, 0.31, 0.5, 0.77, 0.999]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def double(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def leaf(values: object) -> Tensor:
    return double(values).requires_grad_()


class TestAgainstNaiveTwin:
    @pytest.mark.parametrize("p", [0.02, 0.3, 0.85])
    @pytest.mark.parametrize("temperature", [0.1, 2 / 3, 1.7, None], ids=str)
    def test_factors(self, p: float, temperature: float | None) -> None:
        a, x = ref.logit(p), double([1.5, -2.0, 0.3, 4.0, -0.7, 1.1])
        options: Any = {"hard": True} if temperature is None else {"temperature": temperature}
        expected = [ref.hard_scale(a, u) if temperature is None else ref.soft_scale(a, u, temperature) for u in NOISE]
        np.testing.assert_allclose(fn.dropout_scale(double(a), double(NOISE), **options), expected, rtol=1e-12)
        y = fn.concrete_dropout(x, double(a), noise=double(NOISE), **options)
        np.testing.assert_allclose(y, x.numpy() * expected, rtol=1e-12)
        if temperature is not None:
            keep = fn.soft_keep(double(a), double(NOISE), temperature=temperature)
            np.testing.assert_allclose(keep, np.array(expected) * (1 - p), rtol=1e-12)
        assert inverse_keep(double(a)).item() == pytest.approx(1 / (1 - p), rel=1e-12)

    def test_a_rate_for_each_unit_and_noise_shared_over_positions(self) -> None:
        logits = double([-2.0, 0.5, 1.3])
        noise = torch.rand(4, 1, 3, dtype=torch.float64)
        x = torch.randn(4, 5, 3, dtype=torch.float64)
        y = fn.concrete_dropout(x, logits, noise=noise, temperature=0.4)
        for b, i, k in np.ndindex(4, 5, 3):
            expected = x[b, i, k].item() * ref.soft_scale(logits[k].item(), noise[b, 0, k].item(), 0.4)
            assert y[b, i, k].item() == pytest.approx(expected, rel=1e-10)

    @pytest.mark.parametrize("rates", [0.3, 0.75, [0.1, 0.6, 0.9]])
    def test_kl_of_one_rate_and_of_a_rate_for_each_unit(self, rates: Any) -> None:
        weight = torch.randn(4, 3, dtype=torch.float64)
        squares = weight.square().sum(0) if isinstance(rates, list) else weight.square().sum()
        kl = fn.dropout_kl(double(rates).logit(), squares, 3, precision=2.5)
        assert kl.item() == pytest.approx(ref.kl(rates, weight.numpy(), precision=2.5), rel=1e-9)


class TestLimits:
    @pytest.mark.parametrize("p", [0.1, 0.4, 0.9])
    def test_temperature_to_zero_gives_the_hard_mask_of_the_same_noise(self, p: float) -> None:
        noise = torch.rand(2000, dtype=torch.float64)
        a = double(ref.logit(p))
        noise = noise[(torch.logit(noise) - a).abs() > 1e-3]
        soft = fn.dropout_scale(a, noise, temperature=1e-5)
        torch.testing.assert_close(soft, fn.dropout_scale(a, noise, hard=True), rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.8])
    def test_mean_and_variance_of_the_factor(self, p: float) -> None:
        noise = torch.rand(400_000)
        a = torch.tensor(ref.logit(p))
        hard = fn.dropout_scale(a, noise, hard=True)
        deviation = math.sqrt(p / (1 - p))
        assert hard.mean().item() == pytest.approx(1, abs=5 * deviation / math.sqrt(400_000))
        assert hard.std().item() == pytest.approx(deviation, rel=0.02)
        soft = fn.dropout_scale(a, noise, temperature=0.1)
        mean, variance = ref.soft_moments(p, 0.1)
        assert soft.mean().item() == pytest.approx(mean, abs=5 * deviation / math.sqrt(400_000))
        assert soft.var().item() == pytest.approx(variance, rel=0.02)
        assert mean == pytest.approx(1, abs=0.01)  # the bias of the relaxation at the default temperature
        assert math.sqrt(variance) / deviation == pytest.approx(0.94, abs=0.03)

    def test_a_draw_of_exactly_zero_is_dropped_unless_nothing_is(self) -> None:
        zero = torch.zeros(1)
        assert fn.dropout_scale(torch.tensor(ref.logit(0.01)), zero, hard=True).item() == 0
        assert fn.dropout_scale(torch.tensor(ref.logit(0.01)), zero).item() < 1e-6
        assert fn.dropout_scale(torch.tensor(-1e4), zero, hard=True).item() == 1


class TestDerivatives:
    @pytest.mark.parametrize("temperature", [0.3, 1.5])
    @pytest.mark.parametrize("shape", [(), (3,)])
    @pytest.mark.parametrize("rows", [1, 4])
    def test_gradcheck(self, temperature: float, shape: tuple[int, ...], rows: int) -> None:
        x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
        a = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        noise = torch.rand(rows, 3, dtype=torch.float64) * 0.8 + 0.1

        def function(x: Tensor, a: Tensor) -> Tensor:
            return fn.concrete_dropout(x, a, noise=noise, temperature=temperature)

        assert torch.autograd.gradcheck(function, (x, a))
        assert torch.autograd.gradgradcheck(function, (x, a))

    def test_gradcheck_of_entropy_and_kl(self) -> None:
        a, squares = leaf([-3.0, 0.4, 2.0]), leaf([1.0, 0.2, 3.0])
        assert torch.autograd.gradcheck(fn.bernoulli_entropy, (a,))
        assert torch.autograd.gradgradcheck(fn.bernoulli_entropy, (a,))

        def kl(a: Tensor, squares: Tensor) -> Tensor:
            return fn.dropout_kl(a, squares, 3, precision=1.7)

        assert torch.autograd.gradcheck(kl, (a, squares))
        assert torch.autograd.gradgradcheck(kl, (a, squares))
        tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3), (4,))]
        logits, units, precisions = leaf([ref.logit(0.3), -1.7]), double([3.0, 5.0]), double([1.7, 0.4])
        parts = zip(logits, tensors, (3, 5), (1.7, 0.4), strict=True)
        expected = sum(fn.dropout_kl(a, w.square().sum(), k, precision=tau) for a, w, k, tau in parts)
        torch.testing.assert_close(total_kl(logits, units, precisions / 2, tensors), expected)

        def total(logits: Tensor, *tensors: Tensor) -> Tensor:
            return (0.1 * total_kl(logits, units, precisions / 2, tensors)).exp()

        assert torch.autograd.gradcheck(total, (logits, *tensors))
        assert torch.autograd.gradgradcheck(total, (logits, *tensors))

    def test_kl_of_very_many_numbers(self) -> None:
        tensor = torch.linspace(-1, 1, 3_000_001).half()
        kl = total_kl(torch.zeros(1), torch.zeros(1), torch.full((1,), 0.5), [tensor])
        assert kl.item() == pytest.approx(tensor.double().square().sum().item(), rel=1e-4)

    def test_hard_mask_has_a_gradient_for_x_alone(self) -> None:
        a, x = leaf(ref.logit(0.25)), leaf([1.0] * 6)
        y = fn.concrete_dropout(x, a, noise=double(NOISE), hard=True)
        gradients = torch.autograd.grad(y.sum(), (x, a), allow_unused=True)
        assert gradients[1] is None
        np.testing.assert_allclose(gradients[0], [0, 0] + [4 / 3] * 4)


class TestDtypes:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_rounds_only_the_result(self, dtype: torch.dtype) -> None:
        """bfloat16 uniforms have 2^8 values: a rate below 0.004 would drop nothing or far too much."""
        x, noise, a = torch.randn(200_000).to(dtype), torch.rand(200_000), torch.tensor(ref.logit(0.001))
        y = fn.concrete_dropout(x, a, noise=noise)
        assert torch.equal(y, fn.concrete_dropout(x.float(), a, noise=noise).to(dtype))
        torch.manual_seed(1)
        y = fn.concrete_dropout(torch.ones_like(x), a, hard=True)
        torch.manual_seed(1)
        assert torch.equal(y == 0, torch.rand(200_000) < 0.001)
        assert fn.dropout_scale(a.to(dtype), noise).dtype == torch.float32

    def test_rate_gradient_is_summed_in_float32(self) -> None:
        """A sum of 2^16 small terms in bfloat16 would stop growing at 256."""
        a = torch.tensor(ref.logit(0.3), requires_grad=True)
        exact = torch.tensor(ref.logit(0.3), dtype=torch.float64, requires_grad=True)
        x, noise = torch.ones(65_536, dtype=torch.bfloat16), torch.rand(65_536)
        # Squares: the plain sum keeps its mean, so that its gradient is all noise.
        fn.concrete_dropout(x, a, noise=noise).float().square().sum().backward()
        wide = fn.concrete_dropout(x.double(), exact, noise=noise.double())
        wide.square().sum().backward()
        assert a.grad is not None
        assert exact.grad is not None
        assert a.grad.item() == pytest.approx(exact.grad.item(), rel=1e-2)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_rate_has_the_float32_gradient(self, dtype: torch.dtype) -> None:
        """Its parts nearly cancel, so they must not be rounded one by one."""
        noise, x, weight = torch.rand(1000), torch.randn(1000), torch.randn(8)
        gradients = []
        for a in (torch.tensor(3.25, dtype=dtype), torch.tensor(3.25)):
            a.requires_grad_()
            y = fn.concrete_dropout(x, a, noise=noise, temperature=1.0)
            (y.square().mean() + fn.dropout_kl(a, weight.square().sum(), 8) / 1000).backward()
            assert a.grad is not None
            gradients.append(a.grad)
        assert gradients[0].item() == pytest.approx(gradients[1].item(), rel=torch.finfo(dtype).eps * 2)

    def test_autocast_does_not_round_mask_entropy_or_kl(self) -> None:
        a, noise = torch.tensor([-1.3, 2.2]), torch.tensor([0.37, 0.91])
        results = []
        for enabled in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                kl = fn.dropout_kl(a, torch.tensor([1.1, 0.7]), 2)
                results.append((fn.dropout_scale(a, noise), fn.bernoulli_entropy(a), inverse_keep(a), kl))
        for plain, cast in zip(*results, strict=True):
            assert cast.dtype == torch.float32
            assert torch.equal(plain, cast)

    def test_widened_and_finite_exp(self) -> None:
        assert [widened(torch.ones(1, dtype=d)).dtype for d in DTYPES] == [torch.float32] * 3 + [torch.float64]
        assert widened(torch.tensor([3])).dtype == torch.float32
        value = torch.tensor([-300.0, 1.5, 300.0], requires_grad=True)
        result = finite_exp(value)
        assert result.isfinite().all()
        np.testing.assert_allclose(result.detach()[:2], [0.0, math.exp(1.5)], rtol=1e-6)
        assert result[2] > 0.999 * torch.finfo(torch.float32).max
        result.sum().backward()
        assert value.grad is not None
        np.testing.assert_allclose(value.grad, [0.0, math.exp(1.5), 0.0], rtol=1e-6)


X = [1.0, -0.75, 0.0, 0.004, 30.0]  # exact in every dtype or near enough


def _fits(values: list[float], dtype: torch.dtype) -> bool:
    return all(abs(value) < 0.98 * torch.finfo(dtype).max for value in values)


@settings(max_examples=150)
@given(
    p_logit=st.one_of(st.floats(-1e4, 1e4), st.floats(-40, 40)),
    temperature=st.floats(0.05, 2.0),
    uniform=st.floats(0, 1, exclude_max=True),
    p_dtype=st.sampled_from(DTYPES),
    x_dtype=st.sampled_from(DTYPES),
)
@example(p_logit=17.0, temperature=0.1, uniform=0.5, p_dtype=torch.float32, x_dtype=torch.float32)
@example(p_logit=9.0, temperature=0.1, uniform=0.5, p_dtype=torch.float16, x_dtype=torch.float16)
@example(p_logit=1e4, temperature=2.0, uniform=0.0, p_dtype=torch.float16, x_dtype=torch.bfloat16)
@example(p_logit=89.0, temperature=2.0, uniform=0.9, p_dtype=torch.float32, x_dtype=torch.float32)
@example(p_logit=-1e4, temperature=0.05, uniform=0.0, p_dtype=torch.float64, x_dtype=torch.float16)
def test_finite_for_every_logit_dtype_temperature_and_noise(
    p_logit: float, temperature: float, uniform: float, p_dtype: torch.dtype, x_dtype: torch.dtype
) -> None:
    """No NaN, and no Inf where the exact number, computed in float64, fits the dtype."""
    wide = torch.float64 if p_dtype == torch.float64 else torch.float32
    eps = torch.finfo(wide).eps
    noise = torch.tensor([uniform, 0.0, 1 - eps / 2, eps / 2, 0.3], dtype=wide).clamp(max=1 - eps / 2)
    clamped = noise.double().clamp(eps / 2, 1 - eps / 2).tolist()
    for hard in (False, True):
        x = torch.tensor(X).to(x_dtype).requires_grad_()
        a = torch.tensor(p_logit).to(p_dtype).requires_grad_()
        exact_a = a.item()
        scales = [
            ref.hard_scale(exact_a, u) if hard else ref.soft_scale(exact_a, c, temperature)
            for u, c in zip(noise.tolist(), clamped, strict=True)
        ]
        exact = [v * s if v else 0.0 for v, s in zip(x.tolist(), scales, strict=True)]
        y = fn.concrete_dropout(x, a, noise=noise, temperature=temperature, hard=hard)
        fits = torch.tensor([_fits([value], x_dtype) and _fits([value], wide) for value in exact])
        assert y.dtype == x_dtype
        assert not y.isnan().any()
        assert y[fits].isfinite().all()
        # The output itself overflows, or the factor of a kept unit: there is no gradient to speak of.
        if not _fits([*exact, *scales, 1 + math.exp(min(exact_a, 700.0))], wide):
            continue
        if not hard and ref.sigmoid(-exact_a) > torch.finfo(wide).tiny:  # not among the numbers that lose digits
            near = 0.04 if torch.bfloat16 in (p_dtype, x_dtype) else 0.02
            np.testing.assert_allclose(y[fits].detach().double(), double(exact)[fits], rtol=near, atol=1e-4)
        y.backward(torch.ones_like(y))
        assert x.grad is not None
        assert x.grad.dtype == x_dtype
        assert not x.grad.isnan().any()
        assert x.grad[torch.tensor([_fits([s], x_dtype) for s in scales])].isfinite().all()
        if not hard:
            slopes = [ref.soft_scale_slope(exact_a, u, temperature) for u in clamped]
            terms = [v * s if v else 0.0 for v, s in zip(x.tolist(), slopes, strict=True)]
            assert a.grad is not None
            assert not (fits.all() and a.grad.isnan())
            if fits.all() and _fits([sum(abs(term) for term in terms)], p_dtype):  # of outputs that did not overflow
                assert a.grad.isfinite()


@settings(max_examples=100)
@given(
    p_logit=st.one_of(st.floats(-1e4, 1e4), st.floats(-40, 40), st.floats(80, 100)),
    weight=st.one_of(st.just(0.0), st.floats(-100, 100)),
    precision=st.sampled_from([1e-4, 1.0, 50.0]),
    p_dtype=st.sampled_from(DTYPES),
    weight_dtype=st.sampled_from(DTYPES),
)
@example(p_logit=85.0, weight=10.0, precision=1e-4, p_dtype=torch.float32, weight_dtype=torch.float32)
def test_entropy_and_kl_are_finite_for_every_logit(
    p_logit: float, weight: float, precision: float, p_dtype: torch.dtype, weight_dtype: torch.dtype
) -> None:
    a = torch.tensor(p_logit).to(p_dtype).requires_grad_()
    w = torch.tensor([weight, 0.0]).to(weight_dtype).requires_grad_()
    exact_a = a.item()
    entropy = fn.bernoulli_entropy(a)
    assert 0 <= entropy.item() <= math.log(2) + 1e-6
    assert entropy.item() == pytest.approx(ref.entropy(exact_a), rel=1e-5, abs=1e-30)
    (slope,) = torch.autograd.grad(entropy, a)
    expected = -exact_a * ref.sigmoid(exact_a) * ref.sigmoid(-exact_a)
    assert slope.item() == pytest.approx(expected, rel=0.02, abs=1e-6)
    assert inverse_keep(a).isfinite()

    wide = entropy.dtype
    kl = fn.dropout_kl(a, w.to(wide).square().sum(), 2, precision=precision)
    assert kl.dtype == wide
    inverse = ref.exp(-ref.log_sigmoid(-exact_a))
    weight_term = 0.5 * precision * w[0].item() ** 2 * inverse if w[0] != 0 else 0.0
    assert not kl.isnan()
    if _fits([weight_term], wide):
        assert kl.isfinite()
        if _fits([inverse, precision * inverse], wide):  # else it is saturated
            assert kl.item() == pytest.approx(weight_term - 2 * ref.entropy(exact_a), rel=1e-2, abs=1e-4)
    kl.backward()
    assert a.grad is not None
    assert w.grad is not None
    assert not a.grad.isnan()
    assert not w.grad.isnan().any()
    if _fits([weight_term + abs(expected)], p_dtype):
        assert a.grad.isfinite()
    slope_of_weight = precision * abs(w[0].item()) * inverse
    if _fits([slope_of_weight], weight_dtype) and _fits([slope_of_weight], wide):
        assert w.grad.isfinite().all()
    assert w.grad[1] == 0


class TestTransforms:
    def test_vmap_randomness(self) -> None:
        a, x = torch.tensor(0.0), torch.ones(64)

        def dropped(x: Tensor, a: Tensor) -> Tensor:
            return fn.concrete_dropout(x, a, hard=True)

        different = torch.func.vmap(dropped, in_dims=(0, None), randomness="different")(x.expand(3, 64), a)
        assert not torch.equal(different[0], different[1])
        same = torch.func.vmap(dropped, in_dims=(0, None), randomness="same")(x.expand(3, 64), a)
        assert torch.equal(same[0], same[1])
        assert set(same.flatten().tolist()) == {0.0, 2.0}
        rates = torch.func.vmap(dropped, in_dims=(None, 0), randomness="same")(x, torch.tensor([-9.0, 0.0, 9.0]))
        kept = (rates > 0).sum(1).tolist()
        assert kept[0] > kept[1] > kept[2]


def kept_bytes(function: Callable[[], Tensor], *free: Tensor) -> int:
    """Bytes that a forward pass keeps, without its output and what is given."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = function()
    for tensor in (y, *free):
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(kept.values())


class TestSideEffects:
    def test_keeps_no_more_than_fixed_dropout(self) -> None:
        x, site = torch.randn(512, 300, requires_grad=True), ConcreteDropout(300)
        learned = kept_bytes(lambda: site(x.relu()), site.scaled_logit)  # as most layers, ReLU keeps what it gives
        assert learned <= kept_bytes(lambda: nn.Dropout(0.1)(x.relu())) + 64

    @pytest.mark.parametrize(("shape", "feature_dim"), [((8, 100, 64), -1), ((8, 16, 20, 20), -3)])
    def test_a_shared_mask_keeps_next_to_nothing(self, shape: tuple[int, ...], feature_dim: int) -> None:
        x, site = torch.randn(shape, requires_grad=True), ConcreteDropout(shape[feature_dim], feature_dim=feature_dim)
        assert kept_bytes(lambda: site(x)) <= 4 * shape[0] * shape[feature_dim] + 64

    def test_a_checkpointed_site_has_the_same_gradients(self) -> None:
        site, x = ConcreteDropout(300), torch.randn(200, 300, requires_grad=True)
        gradients = []
        for call in (site, lambda x: checkpoint(site, x, use_reentrant=False)):
            torch.manual_seed(0)
            gradients.append(torch.autograd.grad(call(x).square().sum(), (x, site.scaled_logit)))
        torch.testing.assert_close(gradients[0], gradients[1])

    @pytest.mark.parametrize("hard", [False, True])
    def test_inputs_are_not_changed(self, hard: bool) -> None:
        x, a, noise = torch.randn(5, 3), torch.tensor([0.1, -0.4, 2.0]), torch.rand(5, 3)
        copies = [t.clone() for t in (x, a, noise)]
        fn.concrete_dropout(x, a, noise=noise, hard=hard)
        assert all(torch.equal(t, c) for t, c in zip((x, a, noise), copies, strict=True))

    def test_generator_is_reproducible_and_leaves_the_global_state(self) -> None:
        x, a = torch.ones(4, 50), torch.tensor(0.3)
        state = torch.get_rng_state()

        def dropped(seed: int, x: Tensor = x) -> Tensor:
            return fn.concrete_dropout(x, a, generator=torch.Generator().manual_seed(seed), hard=True)

        assert torch.equal(dropped(7), dropped(7))
        assert not torch.equal(dropped(7), dropped(8))
        for dtype in DTYPES:  # the noise does not depend on the dtype of the activations
            assert torch.equal(dropped(7, x.to(dtype)) > 0, dropped(7) > 0)
        assert torch.equal(torch.get_rng_state(), state)
        noise = uniform_noise((4, 50), generator=torch.Generator().manual_seed(7))
        assert torch.equal(fn.concrete_dropout(x, a, noise=noise, hard=True), dropped(7))


class TestErrors:
    @pytest.mark.parametrize("temperature", [0.0, -0.1, math.nan])
    def test_temperature(self, temperature: float) -> None:
        a, noise = torch.tensor(0.0), torch.rand(3)
        for call in (fn.soft_keep, lambda *_, **options: fn.concrete_dropout(noise, a, noise=noise, **options)):
            with pytest.raises(ValueError, match=r"`temperature` must be a positive number, got .*; 0.1 is the usual"):
                call(a, noise, temperature=temperature)

    @pytest.mark.parametrize(
        ("p_logit", "noise", "message"),
        [
            *(
                ((), shape, r"`noise` of shape .* must broadcast to `x` of")
                for shape in [(5,), (4, 2, 3), (3, 1), (2, 2)]
            ),
            *((shape, (2, 3), "`p_logit` of shape .* must broadcast to `x`") for shape in [(2,), (1, 1, 1), (3, 3)]),
        ],
    )
    def test_shapes_that_do_not_broadcast(self, p_logit: tuple[int, ...], noise: tuple[int, ...], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            fn.concrete_dropout(torch.ones(2, 3), torch.zeros(p_logit), noise=torch.rand(noise))

    @pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
    def test_input_that_is_not_floating(self, dtype: torch.dtype) -> None:
        with pytest.raises(TypeError, match=r"`x` must be a floating tensor, got torch\."):
            fn.concrete_dropout(torch.ones(3, dtype=dtype), torch.tensor(0.0))

    def test_kl_shapes(self) -> None:
        with pytest.raises(ValueError, match=r"`square_norm` must have the shape of `p_logit`, \(3,\), got \(\)"):
            fn.dropout_kl(torch.zeros(3), torch.tensor(1.0), 3)
        with pytest.raises(ValueError, match="one for each of 8 units, got 3"):
            fn.dropout_kl(torch.zeros(3), torch.ones(3), 8)

    def test_split(self) -> None:
        mean, log_variance = split_gaussian(torch.arange(8.0).view(2, 4))
        assert mean.tolist() == [[0, 1], [4, 5]]
        assert log_variance.tolist() == [[2, 3], [6, 7]]
        for shape in [(), (3,), (4, 5)]:
            with pytest.raises(ValueError, match=r"halves of its last dimension.*2 D outputs"):
                split_gaussian(torch.zeros(shape))


@pytest.fixture
def site() -> ConcreteDropout:
    torch.manual_seed(0)
    return ConcreteDropout(6, p=0.4)


class TestSite:
    def test_eval_passes_the_input_on(self, site: ConcreteDropout) -> None:
        x = torch.randn(3, 6)
        assert site.eval()(x) is x
        assert not site.is_active

    @pytest.mark.parametrize(
        ("feature_dim", "batch_dim", "shape", "shared"),
        [
            (-1, 0, (4, 7, 6), (4, 1, 6)),  # tokens
            (-1, 1, (7, 4, 6), (1, 4, 6)),  # tokens, time first
            (-2, 0, (4, 6, 5), (4, 6, 1)),  # 1-D signals
            (-3, 0, (4, 6, 5, 3), (4, 6, 1, 1)),  # images
            (-4, 0, (4, 6, 2, 5, 3), (4, 6, 1, 1, 1)),  # volumes
            (-3, 0, (6, 5, 3), (6, 1, 1)),  # one image
            (-1, 0, (6,), (6,)),  # one row
            (-1, 1, (7, 6), (1, 6)),  # one sequence, time first
        ],
    )
    def test_one_mask_for_all_positions_of_an_example(
        self, feature_dim: int, batch_dim: int, shape: tuple[int, ...], shared: tuple[int, ...]
    ) -> None:
        site = ConcreteDropout(6, p=0.4, temperature=2.0, feature_dim=feature_dim, batch_dim=batch_dim)
        scale = site.factor(torch.ones(shape))
        assert scale.shape == shared
        assert len(scale.unique()) == math.prod(shared)
        assert site(torch.ones(shape)).shape == shape

    @pytest.mark.parametrize("temperature", [0.1, 2.0])
    def test_factors_have_the_temperature_of_the_site(self, temperature: float) -> None:
        site, x = ConcreteDropout(6, p=0.4, temperature=temperature), torch.ones(50, 6)
        for call in (site.factor, site):
            torch.manual_seed(5)
            result = call(x)
            torch.manual_seed(5)
            expected = fn.dropout_scale(site.p_logit, torch.rand(50, 6), temperature=temperature)
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)
            assert result.requires_grad

    def test_repr(self, site: ConcreteDropout) -> None:
        assert repr(site) == "ConcreteDropout(num_units=6, one rate, temperature=0.1)"
        site.fix()
        assert repr(site).endswith("temperature=0.1, fixed)")
        assert "a rate for each unit" in repr(ConcreteDropout(6, per_unit=True))

    def test_float64_rate(self) -> None:
        site = ConcreteDropout(3, dtype=torch.float64)
        x = torch.ones(2, 3)
        assert site(x).dtype == torch.float32
        assert site.factor(x).dtype == torch.float64

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"num_units": 0}, "`num_units` must be at least 1, got 0"),
            ({"p": 0.0}, r"`p` must be strictly between 0 and 1, got 0\.0; p is the probability of dropping"),
            ({"p": 1.0}, "`p` must be strictly between 0 and 1"),
            ({"p": math.nan}, "`p` must be strictly between 0 and 1"),
            ({"temperature": 0.0}, "`temperature` must be a positive number, got 0"),
            ({"feature_dim": 1}, "`feature_dim` is counted from the end and must be negative, got 1"),
        ],
    )
    def test_constructor_errors(self, arguments: dict[str, float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ConcreteDropout(**{"num_units": 3, **arguments})  # type: ignore[arg-type]
