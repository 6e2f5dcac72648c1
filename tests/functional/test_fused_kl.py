"""The KL of many weights as one operation against the plain formula: values, gradients, dtypes, extremes."""

import pytest
import torch
from torch import Tensor

from gumdrop.functional import fused_kl as kl
from gumdrop.functional.fused_kl import Prior, shared_rate_kl

PRIORS = [Prior(3.0, 4), Prior(0.5, 700), Prior(2.0), Prior(0.3)]
SHAPES = [(3, 4), (900, 700), (3,), (900,)]  # the second in parts


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def some(dtype: torch.dtype = torch.float32, logits: tuple[float, ...] = (-2.0, 1.3)) -> tuple[list[Tensor], ...]:
    p_logits = [torch.tensor(each, requires_grad=True) for each in logits]
    return p_logits, [torch.randn(shape).to(dtype).requires_grad_() for shape in SHAPES]


class TestAgainstPlainFormula:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    @pytest.mark.parametrize("logits", [(-2.0, 1.3), (-13.0, 9.0), (0.0, -30.0)])
    def test_value_and_gradients(self, dtype: torch.dtype, logits: tuple[float, ...]) -> None:
        p_logits, tensors = some(dtype, logits)
        ours, plain = (form(p_logits, tensors, PRIORS, 0.6) for form in (shared_rate_kl, kl._plain))
        assert ours.dtype == plain.dtype == torch.promote_types(dtype, torch.float32)
        torch.testing.assert_close(ours, plain, rtol=2e-5, atol=1e-6)
        asked = [*p_logits, *tensors]
        for mine, other in zip(
            torch.autograd.grad(3 * ours, asked), torch.autograd.grad(3 * plain, asked), strict=True
        ):
            assert mine.dtype == other.dtype
            rtol = 0.01 if dtype == torch.bfloat16 else 1e-5
            torch.testing.assert_close(mine, other, rtol=rtol, atol=1e-6)

    def test_biases_alone(self) -> None:
        bias = torch.randn(5, requires_grad=True)
        value = shared_rate_kl([], [bias], [Prior(3.0)])
        assert value.item() == pytest.approx(1.5 * bias.square().sum().item(), rel=1e-6)
        value.backward()
        torch.testing.assert_close(bias.grad, 3 * bias.detach())

    def test_only_what_is_asked_for(self) -> None:
        p_logits, tensors = some()
        p_logits[0].requires_grad_(False)
        tensors[1].requires_grad_(False)
        shared_rate_kl(p_logits, tensors, PRIORS).backward()
        assert [each.grad is None for each in (*p_logits, *tensors)] == [True, False, False, True, False, False]

    @pytest.mark.parametrize("p_logit", [-1e4, -100.0, 60.0, 87.0, 1e4])
    def test_extreme_rates(self, p_logit: float) -> None:
        p_logits, tensors = some(logits=(p_logit, 0.0))
        tensors[0].data.zero_()
        value = shared_rate_kl(p_logits, tensors, PRIORS)
        gradients = torch.autograd.grad(value, [*p_logits, *tensors])
        assert all(each.isfinite().all() for each in (value, *gradients))
        assert (gradients[2] == 0).all()


def test_gradcheck_and_the_gradient_of_the_gradient() -> None:
    logits = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (-1.0, 0.4)]
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3), (3, 2), (2,))]
    priors = [Prior(3.0, 3), Prior(0.5, 2), Prior(2.0)]

    def function(*parts: Tensor) -> Tensor:
        return shared_rate_kl(parts[:2], parts[2:], priors, 0.7)

    assert torch.autograd.gradcheck(function, (*logits, *tensors))
    assert torch.autograd.gradgradcheck(function, (*logits, *tensors))


def test_a_gradient_that_has_a_gradient_is_the_same_and_knows_its_factor() -> None:
    asked = [torch.tensor(0.4).requires_grad_(), torch.randn(3, 2).requires_grad_(), torch.randn(3).requires_grad_()]
    factor = torch.tensor(3.0, requires_grad=True)

    def loss() -> Tensor:
        return factor * shared_rate_kl(asked[:1], asked[1:], [Prior(3.0, 2), Prior(0.5)])

    plainly, again = torch.autograd.grad(loss(), asked), torch.autograd.grad(loss(), asked, create_graph=True)
    for mine, other in zip(again, plainly, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    square = sum(each.square().sum() for each in again)  # goes with the square of the factor
    torch.testing.assert_close(torch.autograd.grad(square, factor)[0], 2 * square.detach() / factor.detach())


@pytest.mark.parametrize("logits", [(-0.9, 0.03, 0.4), ()])
def test_numbers_and_tensors_give_the_same(logits: tuple[float, ...]) -> None:
    """A CPU computes with the first, other devices with the second."""
    p_logits, norms = [torch.tensor(each) for each in logits], torch.tensor([2.0, 0.0, 50.0, 3.0]).double()
    priors = [Prior(1.0, 5), Prior(2.0, 8), Prior(0.1, 9), Prior(4.0)]
    found, expected = (
        form(p_logits, norms, priors, 0.3, 10.0) for form in (kl._terms_of_tensors, kl._terms_of_numbers)
    )
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, norms.new_tensor(other), rtol=1e-12, atol=0.0)


def test_sums_of_very_many_numbers() -> None:
    half = torch.full((3_000_000,), 0.1, dtype=torch.bfloat16)
    expected = 0.5 * half.double().square().sum().item()
    assert shared_rate_kl([], [half], [Prior(1.0)]).item() == pytest.approx(expected, rel=1e-4)
