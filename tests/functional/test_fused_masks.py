"""Dropout as one operation against its naive twin: values, gradients, noise, what is kept, and where it stands back."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop import functional as fn
from gumdrop.functional import fused_masks as bulk
from gumdrop.functional import noise as words
from gumdrop.layers import ConcreteDropout

from builders import reference as ref

T = 0.1


def logit(p: float) -> Tensor:
    return torch.tensor(ref.logit(p))


def both_ways(
    x: Tensor, p_logit: Tensor, mask_shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, temperature: float = T
) -> list[tuple[Tensor, ...]]:
    """Output and gradients of the operation, and of the plain formula with the noise that the operation drew."""
    g = torch.randn(x.shape).to(x.dtype)
    seen: list[Any] = []
    scale_of = bulk._scale
    with monkeypatch.context() as patch:
        patch.setattr(bulk, "_scale", lambda rate, noise, t: seen.append(noise.clone()) or scale_of(rate, noise, t))
        draw = bulk.draw_cells
        patch.setattr(bulk, "draw_cells", lambda shape: seen.append(draw(shape)) or seen[-1])
        y = bulk.relaxed_dropout(x, p_logit, mask_shape, temperature=temperature)
    cells = next((each for each in seen if isinstance(each, tuple)), None)
    noise = seen[0] if cells is None else words._uniform(*cells)
    twin = fn.concrete_dropout(x, p_logit, noise=noise.view(mask_shape), temperature=temperature)
    return [(result.detach(), *torch.autograd.grad(result, (x, p_logit), g)) for result in (y, twin)]


class TestAgainstNaiveTwin:
    @pytest.mark.parametrize(
        ("shape", "mask_shape"),
        [
            ((5, 3), (5, 3)),  # a few
            ((128, 256), (128, 256)),  # cut out of words
            ((512, 256), (512, 256)),  # looked up
            ((2048, 513), (2048, 513)),  # in chunks, the last of them short
            ((4, 7, 3), (4, 1, 3)),  # tokens
            ((7, 4, 3), (1, 4, 3)),  # tokens, time first
            ((40, 300, 100), (40, 1, 100)),  # in chunks
            ((300, 40, 100), (1, 40, 100)),
            ((4, 6, 5, 5), (4, 6, 1, 1)),  # pictures
            ((3,), (3,)),
            ((0, 3), (0, 3)),
        ],
    )
    @pytest.mark.parametrize("p", [0.01, 0.4])
    @pytest.mark.parametrize("per_unit", [False, True])
    def test_values_and_gradients(
        self, shape: tuple[int, ...], mask_shape: tuple[int, ...], p: float, per_unit: bool, monkeypatch: Any
    ) -> None:
        x = torch.randn(shape, requires_grad=True)
        p_logit = logit(p)
        if per_unit:
            units = [1] * len(shape)
            feature = 1 if len(shape) == 4 else len(shape) - 1
            units[feature] = shape[feature]
            p_logit = p_logit + torch.randn(units[feature:])
        ours, twin = both_ways(x, p_logit.requires_grad_(), mask_shape, monkeypatch)
        torch.testing.assert_close(ours[0], twin[0], rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(ours[1], twin[1], rtol=1e-5, atol=1e-7)
        spread = math.sqrt(x.numel() + 1)  # the gradient is a sum of so many terms of either sign
        torch.testing.assert_close(ours[2], twin[2], rtol=1e-4, atol=3e-6 * spread)

    @pytest.mark.parametrize("temperature", [0.011, 0.3, 2 / 3, 1.5])
    @pytest.mark.parametrize("shape", [(9, 5), (128, 256), (512, 512), (1024, 1100)])
    def test_temperatures_that_are_no_tenth(
        self, temperature: float, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        x, p_logit = torch.randn(shape, requires_grad=True), logit(0.3).requires_grad_()
        ours, twin = both_ways(x, p_logit, shape, monkeypatch, temperature)
        for mine, other in zip(ours[:2], twin[:2], strict=True):
            torch.testing.assert_close(mine, other, rtol=2e-4, atol=1e-5)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("shape", [(9, 5), (128, 256), (1024, 1100)])
    def test_half_precision_rounds_only_the_result(
        self, dtype: torch.dtype, shape: tuple[int, ...], monkeypatch: Any
    ) -> None:
        x = torch.randn(shape).to(dtype).requires_grad_()
        p_logit = logit(0.3).requires_grad_()
        ours, twin = both_ways(x, p_logit, shape, monkeypatch)
        assert [each.dtype for each in ours] == [dtype, dtype, torch.float32]
        close = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-6}
        torch.testing.assert_close(ours[0], twin[0], **close)
        torch.testing.assert_close(ours[1], twin[1], **close)
        assert ours[2].item() == pytest.approx(twin[2].item(), abs=0.01 * math.sqrt(x.numel()))

    @pytest.mark.parametrize("p_logit", [-1e4, -200.0, -60.0, 17.0, 60.0, 1e4])
    @pytest.mark.parametrize("shape", [(20, 10), (512, 300)])
    def test_extreme_rates_are_finite(self, p_logit: float, shape: tuple[int, ...]) -> None:
        x = torch.randn(shape, requires_grad=True)
        a = torch.tensor(p_logit, requires_grad=True)
        y = bulk.relaxed_dropout(x, a, shape, temperature=T)
        gradients = torch.autograd.grad(y.square().sum(), (x, a))
        assert all(each.isfinite().all() for each in (y, *gradients))
        torch.testing.assert_close(y, x if p_logit < 0 else torch.zeros(shape))

    @pytest.mark.parametrize("per_unit", [False, True])
    def test_gradcheck_and_the_gradient_of_the_gradient(self, per_unit: bool) -> None:
        x = torch.randn(4, 5, 3, dtype=torch.float64, requires_grad=True)
        a = torch.randn(3 if per_unit else (), dtype=torch.float64, requires_grad=True)

        def function(x: Tensor, a: Tensor) -> Tensor:
            torch.manual_seed(3)
            return bulk.relaxed_dropout(x, a, (4, 1, 3), temperature=0.7)

        assert torch.autograd.gradcheck(function, (x, a))
        assert torch.autograd.gradgradcheck(function, (x, a))


class TestNoise:
    def test_cut_noise_is_uniform_and_independent(self) -> None:
        u = words.bulk_noise((1 << 19,), dtype=torch.float32, device=torch.device("cpu"))
        assert u.min() >= 0
        assert u.max() < 1
        n = len(u)
        counts = torch.histc(u, 64, 0, 1)
        assert ((counts - n / 64).square() / (n / 64)).sum().item() < 112  # chi-squared, 63 degrees, 1 in 10,000
        for lag in (1, 2, 3, 4, 5):  # four neighbours come from one word
            correlation = torch.corrcoef(torch.stack([u[lag:], u[:-lag]]))[0, 1].item()
            assert abs(correlation) < 4 / math.sqrt(n)
        assert u.mean().item() == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / n))

    @pytest.mark.parametrize("p", [1e-7, 3e-6, 4e-5, 0.3])
    def test_no_rate_is_too_small_for_sixteen_bits(self, p: float) -> None:
        """One offset for all numbers of a call makes each of them uniform without gaps, so the mean is right."""
        torch.manual_seed(4)
        offsets = torch.rand(20_000, dtype=torch.float64)
        cells = torch.arange(words.CELLS, dtype=torch.float64)
        lowest = cells[:4] / words.CELLS  # the cells in which a small rate falls
        dropped = ((lowest + offsets[:, None] / words.CELLS) < p).double().sum(1) / words.CELLS
        expected = min(p, 4 / words.CELLS)
        assert dropped.mean().item() == pytest.approx(expected, abs=5 / words.CELLS / math.sqrt(len(offsets)))

    def test_a_rate_below_sixteen_bits_is_met(self) -> None:
        """How often the noise itself falls below 4e-6, a quarter of what sixteen bits can tell apart."""
        calls, p = 2000, 4e-6
        below = 0
        for _ in range(calls):
            u = words.bulk_noise((words.LEAST_CUT,), dtype=torch.float32, device=torch.device("cpu"))
            below += int((u < p).sum())
        count = calls * words.LEAST_CUT
        cell = count / words.CELLS  # numbers of the lowest cell, all of which fall below p or none of them in a call
        assert below == pytest.approx(count * p, abs=6 * math.sqrt(cell * p * words.CELLS))

    def test_the_largest_cell_stays_below_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        largest = (
            torch.full((words.LEAST_CUT,), words.CELLS - 1, dtype=torch.uint16),
            torch.tensor(1 - 2**-24),
        )
        monkeypatch.setattr(words, "draw_cells", lambda shape: largest)
        u = words.bulk_noise((words.LEAST_CUT,), dtype=torch.float32, device=torch.device("cpu"))
        assert 0.9999 < u.max() < 1

    def test_no_two_calls_of_many_have_the_same_cells(self) -> None:
        device = torch.device("cpu")
        calls = [words.bulk_noise((words.LEAST_CUT,), dtype=torch.float32, device=device)[:64] for _ in range(300)]
        assert len({tuple((u * words.CELLS).long().tolist()) for u in calls}) == 300

    @pytest.mark.parametrize("p", [1e-5, 0.02, 0.3])
    def test_mean_and_variance_of_looked_up_masks(self, p: float) -> None:
        a = logit(p)
        masks = [bulk.relaxed_dropout(torch.ones(512, 512), a, (512, 512), temperature=T) for _ in range(30)]
        mean, variance = ref.soft_moments(p, T, points=2_000_000)
        count = 30 * 512 * 512
        all_masks = torch.stack(masks).double()
        deviation = math.sqrt(variance)
        # within a cell of 2^-16 the numbers of a call move together: that much is added to the error of the mean
        assert all_masks.mean().item() == pytest.approx(
            mean, abs=5 * (deviation / math.sqrt(count) + 2**-16 / math.sqrt(30))
        )
        if p > 1e-3:
            assert all_masks.std().item() == pytest.approx(deviation, rel=0.02)

    @pytest.mark.parametrize("count", [100, 20_001, 200_000])
    def test_seed_decides(self, count: int) -> None:
        def drawn(seed: int) -> Tensor:
            torch.manual_seed(seed)
            return ConcreteDropout(count)(torch.ones(1, count))

        assert torch.equal(drawn(1), drawn(1))
        assert not torch.equal(drawn(1), drawn(2))

    def test_threads_do_not_matter(self) -> None:
        site = ConcreteDropout(2000, p=0.3)
        results = []
        try:
            for threads in (1, 2):
                torch.set_num_threads(threads)
                torch.manual_seed(0)
                results.append(site(torch.ones(1000, 2000)))
        finally:
            torch.set_num_threads(1)
        assert torch.equal(*results)


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


class TestWhatIsKept:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("shape", [(128, 256), (512, 512), (2048, 600)])
    def test_no_more_than_fixed_dropout(self, dtype: torch.dtype, shape: tuple[int, int]) -> None:
        x = torch.randn(shape).to(dtype).requires_grad_()
        site = ConcreteDropout(shape[1])
        fixed = kept_bytes(lambda: nn.Dropout(0.1)(x))
        assert fixed == x.numel() * x.element_size()
        few = 64  # the rate, and the offset of the noise
        assert kept_bytes(lambda: site(x), site.scaled_logit) <= fixed + few

    @pytest.mark.parametrize(("shape", "feature_dim"), [((8, 100, 64), -1), ((8, 16, 20, 20), -3)])
    def test_a_shared_mask_keeps_next_to_nothing(self, shape: tuple[int, ...], feature_dim: int) -> None:
        x = torch.randn(shape, requires_grad=True)
        site = ConcreteDropout(shape[feature_dim], feature_dim=feature_dim)
        assert kept_bytes(lambda: site(x)) <= 4 * shape[0] * shape[feature_dim] + 64

    def test_input_is_not_changed_and_not_kept(self) -> None:
        x = torch.randn(600, 600)
        before = x.clone()
        site = ConcreteDropout(600)
        y = site(x)
        assert torch.equal(x, before)
        x.zero_()  # would be an error if the gradient asked for it
        y.sum().backward()
        assert site.scaled_logit.grad is not None


class TestPlainFormula:
    """Where something else makes a graph of it, the readable formula runs."""

    def test_under_transforms(self) -> None:
        x, a = torch.randn(300, 100), logit(0.2)

        def loss(a: Tensor) -> Tensor:
            return bulk.relaxed_dropout(x, a, x.shape, temperature=T).square().sum()

        torch.manual_seed(0)
        value = torch.func.grad(loss)(a)
        torch.manual_seed(0)
        noise = torch.rand(300, 100)
        leaf = a.clone().requires_grad_()
        fn.concrete_dropout(x, leaf, noise=noise).square().sum().backward()
        torch.testing.assert_close(value, leaf.grad)
        different = torch.func.vmap(lambda a: loss(a), randomness="different")(a.expand(3))
        assert len(different.unique()) == 3

    def test_compiled_in_one_graph(self) -> None:
        model = gd.learn_dropout(nn.Sequential(nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 2)))

        def loss(x: Tensor) -> Tensor:
            return gd.negative_elbo(model(x).square().mean(), model, num_data=1000).total

        value = torch.compile(loss, fullgraph=True, backend="eager")(torch.randn(100, 300))
        value.backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())

    def test_meta_device(self) -> None:
        site = ConcreteDropout(5, device="meta")
        x = torch.empty(3, 5, device="meta", requires_grad=True)
        assert site(x).shape == (3, 5)

    def test_checkpointed(self) -> None:
        from torch.utils.checkpoint import checkpoint

        site, x = ConcreteDropout(300), torch.randn(200, 300, requires_grad=True)
        gradients = []
        for call in (site, lambda x: checkpoint(site, x, use_reentrant=False)):
            torch.manual_seed(0)
            gradients.append(torch.autograd.grad(call(x).square().sum(), (x, site.scaled_logit)))
        torch.testing.assert_close(gradients[0], gradients[1])
