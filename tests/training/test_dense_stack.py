"""Steps of dense networks whose gradients are written out, against autograd on the same masks."""

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.functional.masks import dropout_scale
from gumdrop.layers import factors_from
from gumdrop.networks import mlp
from gumdrop.objective.likelihoods import LIKELIHOODS
from gumdrop.training import dense_stack
from gumdrop.training.dense_stack import DenseStack, dense_layers_of

NUM_MODELS, ROWS, INPUTS = 3, 7, 4
NUM_DATA = torch.tensor([40.0, 50.0, 60.0])


def networks(kind: str, fixed: bool) -> list[nn.Module]:
    torch.manual_seed(0)
    outputs, noise = (3, False) if kind == "categorical" else (2, True)
    models = [mlp(INPUTS, outputs, hidden=(6, 5), homoscedastic_noise=noise, p=0.3) for _ in range(NUM_MODELS)]
    for model in models:
        for parameter in model.parameters():
            if parameter.ndim:
                nn.init.normal_(parameter)
    return [gd.fix_dropout(model) for model in models] if fixed else models


def batch(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(NUM_MODELS, ROWS, INPUTS, generator=generator)
    if kind == "categorical":
        return x, torch.randint(3, (NUM_MODELS, ROWS), generator=generator)
    return x, torch.randn(NUM_MODELS, ROWS, 2, generator=generator)


def expected(model: nn.Module, x, y, noise, num_data: float, kind: str, lengthscale) -> tuple[float, float]:
    """Losses by the readable formulas, with gradients left in the parameters; `noise` of each site in order."""
    rest = iter(noise)

    def source(site, _):
        hard = site.is_fixed
        return dropout_scale(site.p_logit, next(rest), temperature=site.temperature, hard=hard)

    with factors_from(source, model):
        nll = LIKELIHOODS[kind](model(x), y).mean()
    kl = gd.kl_divergence(model, num_data=round(num_data), lengthscale=lengthscale) / num_data
    (nll + kl).backward()
    return nll.item(), kl.item()


@pytest.mark.parametrize("lengthscale", ["weak", "regression", 0.7])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_losses_and_gradients_are_those_of_autograd(monkeypatch, kind: str, fixed: bool, lengthscale) -> None:
    models = networks(kind, fixed)
    (x, y), sizes = batch(kind), [NUM_MODELS * ROWS * units for units in (INPUTS, 6, 5)]
    noise = torch.rand(sum(sizes), generator=torch.Generator().manual_seed(2)).clamp_(1e-3, 1 - 1e-3)
    monkeypatch.setattr(dense_stack, "bulk_noise", lambda *_, **__: noise.clone())
    stack = DenseStack(models, dense_layers_of(models, LIKELIHOODS[kind]), lengthscale)
    nll, kl = stack.backward(x, y, NUM_DATA, LIKELIHOODS[kind])
    assert all(p.grad.stride() == p.stride() for p in stack.parameters() if p.requires_grad)  # of use to a fused kernel
    by_site = [part.view(NUM_MODELS, ROWS, -1) for part in noise.split(sizes)]
    for parameter in stack.parameters():
        if parameter.requires_grad:
            parameter.data.copy_(parameter.grad)
    for i, (model, given) in enumerate(zip(models, stack.states(), strict=True)):
        own = expected(model, x[i], y[i], [part[i] for part in by_site], NUM_DATA[i].item(), kind, lengthscale)
        assert (nll[i].item(), kl[i].item()) == pytest.approx(own, rel=1e-5)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(given[name], parameter.grad, rtol=1e-4, atol=1e-6)
