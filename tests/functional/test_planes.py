"""Half precision times factors that positions share: against the float32 product, in every order of memory."""

import math

import pytest
import torch
from torch import Tensor

from gumdrop import functional as fn
from gumdrop.functional import fused_masks as bulk
from gumdrop.functional.planes import gradients, planes_of, times
from gumdrop.layers import ConcreteDropout

LAST, LAST_3D = torch.channels_last, torch.channels_last_3d
SHARED = [
    ((3, 5, 16, 12), (3, 5, 1, 1), torch.contiguous_format),
    ((3, 64, 24, 24), (3, 64, 1, 1), LAST),
    ((1, 64, 24, 24), (1, 64, 1, 1), LAST),
    ((2, 40, 6, 12, 13), (2, 40, 1, 1, 1), LAST_3D),
    ((2, 4, 6, 12, 13), (2, 4, 1, 1, 1), torch.contiguous_format),
    ((2, 5, 400), (2, 5, 1), torch.contiguous_format),  # one dimension of positions
    ((3, 300, 128), (3, 1, 128), torch.contiguous_format),  # tokens
    ((300, 3, 128), (1, 3, 128), torch.contiguous_format),  # tokens, time first
    ((128, 16, 24), (1, 16, 24), torch.contiguous_format),
    ((2, 7, 50, 128), (2, 1, 1, 128), torch.contiguous_format),  # positions in two dimensions
]


def of(shape: tuple[int, ...], dtype: torch.dtype, order: torch.memory_format) -> Tensor:
    return torch.randn(shape).to(dtype).contiguous(memory_format=order)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("shape", "mask_shape", "order"), SHARED)
class TestAgainstTheProductInFloat32:
    def test_values_and_gradients(
        self, shape: tuple[int, ...], mask_shape: tuple[int, ...], order: torch.memory_format, dtype: torch.dtype
    ) -> None:
        x, g, factors = of(shape, dtype, order), of(shape, dtype, order), torch.rand(mask_shape) + 0.5
        planes = planes_of(x, mask_shape)
        assert planes is not None
        y = times(x, factors, planes)
        assert torch.equal(y, (x.float() * factors).to(dtype))
        assert y.stride() == x.stride()
        expected = (g.float() * factors).to(dtype)
        terms = y.double() * g.double()
        for gradient in (g, g.clone(memory_format=torch.contiguous_format)):
            grad_x, sums = gradients(gradient, y, factors, planes, (True, True))
            assert grad_x is not None
            assert sums is not None
            assert torch.equal(grad_x, expected)
            assert sums.dtype == torch.float32
            spread = terms.abs().sum_to_size(mask_shape)
            assert ((sums - terms.sum_to_size(mask_shape)).abs() < 1e-5 * spread).all()

    def test_the_operation(
        self, shape: tuple[int, ...], mask_shape: tuple[int, ...], order: torch.memory_format, dtype: torch.dtype
    ) -> None:
        """Like the plain formula in float32 with the same noise, but for the rounding of the result."""
        x, g = of(shape, dtype, order).requires_grad_(), of(shape, dtype, order)
        found, expected = [], []
        for p in (0.001, 0.3):  # in half precision 1 / (1 - .001) would be 1
            a = torch.tensor(p).logit().requires_grad_()
            torch.manual_seed(5)
            y = bulk.relaxed_dropout(x, a, mask_shape, temperature=0.1)
            found.append((y, *torch.autograd.grad(y, (x, a), g)))
            torch.manual_seed(5)
            noise = torch.rand(mask_shape)
            twin = fn.concrete_dropout(x.float(), a, noise=noise)
            expected.append((twin.to(dtype), *torch.autograd.grad(twin, (x, a), g.float())))
        close = {"rtol": 1.01 * torch.finfo(dtype).eps, "atol": 1e-7}  # the smallest number of float16 is 6e-8
        for ours, other in zip(found, expected, strict=True):
            torch.testing.assert_close(ours[:2], other[:2], **close)
            assert ours[2].item() == pytest.approx(other[2].item(), abs=0.02 * math.sqrt(x.numel()))


def test_only_what_is_asked_for() -> None:
    x, factors = torch.ones(2, 3, 20, 20).bfloat16(), torch.rand(2, 3, 1, 1)
    planes = planes_of(x, factors.shape)
    assert planes is not None
    assert gradients(x, x, factors, planes, (False, True))[0] is None
    assert gradients(x, x, factors, planes, (True, False))[1] is None


@pytest.mark.parametrize(
    ("x", "mask_shape"),
    [
        (torch.ones(4, 5, 20, 20), (4, 5, 1, 1)),  # float32 has no conversions to save
        (torch.ones(40, 500).bfloat16(), (40, 500)),  # nothing is shared
        (torch.ones(0, 5, 20, 20).bfloat16(), (0, 5, 1, 1)),
        (torch.ones(4, 5, 3, 3).bfloat16(), (4, 5, 1, 1)),  # few positions
        (torch.ones(64, 5, 24, 24).bfloat16().contiguous(memory_format=LAST), (64, 5, 1, 1)),  # many calls
        (torch.ones(4, 5, 20, 40).bfloat16()[..., ::2], (4, 5, 1, 1)),  # gaps in memory
        (torch.ones(20, 4, 20, 5).bfloat16(), (1, 4, 1, 5)),  # positions in two places
        (torch.ones(300, 128, 3).bfloat16().permute(2, 0, 1), (3, 1, 128)),  # units in front of rows in memory
    ],
)
def test_what_is_no_plane(x: Tensor, mask_shape: tuple[int, ...]) -> None:
    assert planes_of(x, mask_shape) is None


def test_a_layer_under_autocast_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[torch.Size] = []
    monkeypatch.setattr(bulk, "times", lambda x, *rest: calls.append(x.shape) or times(x, *rest))
    site = ConcreteDropout(5, feature_dim=-3)
    x = torch.randn(3, 5, 20, 20).bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = site(x)
    y.float().square().sum().backward()
    assert calls == [x.shape]
    assert y.dtype == x.dtype
    assert site.scaled_logit.grad is not None
    assert site.scaled_logit.grad.isfinite()
