"""How fast rates move: the unit of their parameter, its gradient in each way to run a site, and states from before."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_diabetes
from torch import Tensor, nn

import gumdrop as gd
from gumdrop import functional as fn
from gumdrop.layers import UNIT
from gumdrop.networks import mlp

from builders.models import Computed


def rates_of_diabetes(parameters: Callable[[nn.Module], Any]) -> list[float]:
    """Rates after README's loop, ten epochs long."""
    x, y = (torch.from_numpy(part).float()[:400] for part in load_diabetes(return_X_y=True))
    x, y = x / x.std(0), ((y - y.mean()) / y.std())[:, None]
    torch.manual_seed(0)
    model = mlp(10, 2, hidden=(64, 64))
    optimizer = torch.optim.AdamW(parameters(model), lr=1e-3)
    for _ in range(10):
        for rows in torch.randperm(len(x)).split(32):
            mean, log_variance = model(x[rows]).chunk(2, dim=-1)
            nll = gd.gaussian_nll(mean, log_variance, y[rows])
            loss = gd.negative_elbo(nll, model, num_data=len(x), likelihood="gaussian")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return [float(p) for p in gd.dropout_rates(model).values()]


def test_ten_epochs_over_all_parameters() -> None:
    """All rates start from .1. If the logits were parameters, they would move by .13 at most: from .09 to .112."""
    plainly, in_groups = (rates_of_diabetes(each) for each in (nn.Module.parameters, gd.parameter_groups))
    assert max(plainly[:2]) < 0.06
    assert plainly[2] > 0.18
    assert all(abs(one - other) < 0.15 for one, other in zip(plainly, in_groups, strict=True))


@pytest.mark.parametrize("per_unit", [False, True])
def test_gradient_descent_goes_by_the_gradient_of_the_logit(per_unit: bool) -> None:
    model, x = gd.learn_dropout(nn.Linear(5, 3), p=0.3, per_unit=per_unit), torch.randn(7, 5)
    site: Any = model.concrete_dropout
    logit = site.p_logit.detach().requires_grad_()
    optimizer = torch.optim.SGD([site.scaled_logit], lr=0.2)
    torch.manual_seed(1)
    (model(x).square().sum() + gd.kl_divergence(model, lengthscale=1.0)).backward()
    optimizer.step()
    torch.manual_seed(1)
    y = nn.functional.linear(fn.concrete_dropout(x, logit, noise=torch.rand(7, 5)), model.weight, model.bias)
    squares = model.weight.square()
    loss = y.square().sum() + fn.dropout_kl(logit, squares.sum(0) if per_unit else squares.sum(), 5)
    (gradient,) = torch.autograd.grad(loss, logit)
    torch.testing.assert_close(site.p_logit, logit - 0.2 * gradient, rtol=1e-4, atol=1e-6)


def by_autograd(loss: Callable[[Tensor], Tensor], scaled: Tensor) -> Tensor:
    value = scaled.clone().requires_grad_()
    return torch.autograd.grad(loss(value), value)[0]


WAYS: dict[str, Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]] = {
    "grad": lambda loss, scaled: torch.func.grad(loss)(scaled),
    "vmap": lambda loss, scaled: torch.func.vmap(torch.func.grad(loss), randomness="same")(scaled.expand(2))[1],
    "around vmap": lambda loss, scaled: by_autograd(
        lambda value: torch.func.vmap(loss, randomness="same")(value.expand(2))[1], scaled
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ["output", "kl"])
def test_all_ways_to_run_a_site_have_one_gradient(way: str, what: str) -> None:
    model, x = gd.learn_dropout(nn.Linear(5, 3), p=0.3), torch.randn(7, 5)

    def compute(model: nn.Module) -> Tensor:
        return model(x).square().sum() if what == "output" else gd.kl_divergence(model, lengthscale="fan_in")

    def loss(scaled: Tensor) -> Tensor:
        return torch.func.functional_call(objective, {"model.concrete_dropout.scaled_logit": scaled}, ())

    objective, scaled = Computed(model, compute), model.concrete_dropout.scaled_logit.detach()
    gradients = []
    for each in (by_autograd, WAYS[way]):
        torch.manual_seed(1)
        gradients.append(each(loss, scaled))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


# What was stored when the parameter was the logit


def of_logits(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state dict as it was before."""
    place = "scaled_logit"
    return {
        name.replace(place, "p_logit"): UNIT * value if name.endswith(place) else value for name, value in state.items()
    }


@pytest.mark.parametrize("options", [{}, {"per_unit": True}])
@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
def test_state_dicts_of_logits(options: dict[str, Any], assign: bool, fixed: bool) -> None:
    first, other = (nn.Linear(4, 4) for _ in range(2))
    model = gd.learn_dropout(nn.Sequential(first, nn.LSTM(4, 4)), p=0.3, **options)
    twin = gd.learn_dropout(nn.Sequential(other, nn.LSTM(4, 4)), **options)
    if fixed:
        gd.fix_dropout(twin)
    old = of_logits(model.state_dict())
    kept = dict(old)
    twin.load_state_dict(old, assign=assign)
    assert old.keys() == kept.keys()
    for (name, value), mine in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, value, msg=name)


def test_state_dicts_of_logits_with_tied_layers() -> None:
    def tied() -> nn.Module:
        layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        layers[1].weight = layers[0].weight
        return gd.learn_dropout(layers, p=0.3)

    model, twin = tied(), gd.fix_dropout(tied())
    twin.load_state_dict(of_logits(model.state_dict()))
    assert gd.dropout_rates(twin) == pytest.approx(gd.dropout_rates(model))
