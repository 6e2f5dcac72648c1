"""Steps of dense networks whose gradients are written out, against autograd on the same masks."""

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.functional.masks import dropout_scale
from gumdrop.layers import factors_from
from gumdrop.networks import mlp
from gumdrop.objective.likelihoods import LIKELIHOODS
from gumdrop.training import CheckpointError, dense_stack, fit_stacked
from gumdrop.training.dense_layers import dense_layers_of
from gumdrop.training.dense_stack import DenseStack

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
    for i, model in enumerate(models):
        gd.networks.set_strength(model, 0.5 + i)
        gd.networks.set_strength(model, 2.0 + i, include=["0"])
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


def fit_two(x: torch.Tensor, y: torch.Tensor, likelihood: str, models: list[nn.Module], **options) -> None:
    held_out = {"rows": [torch.arange(20)] * 2}
    fit_stacked(models, [(x, y)] * 2, likelihood=likelihood, epochs=1, **{"lengthscale": "weak"} | held_out | options)


@pytest.mark.parametrize(
    ("y", "likelihood", "error"),
    [
        (torch.zeros(20, 1), "gaussian", ValueError),
        (torch.zeros(20), "gaussian", ValueError),
        (torch.zeros(20), "categorical", TypeError),
    ],
)
def test_targets_that_do_not_fit_are_refused(y: torch.Tensor, likelihood: str, error: type[Exception]) -> None:
    """What a likelihood refuses is not broadcast or cut to whole numbers here."""
    models = networks(likelihood, fixed=False)[:2]
    with pytest.raises(error):
        fit_two(torch.randn(20, INPUTS), y, likelihood, models)


@pytest.mark.parametrize("lengthscale", ["foo", -1.0])
def test_priors_that_are_none_are_refused(lengthscale) -> None:
    with pytest.raises(ValueError, match="`lengthscale` must be a positive number"):
        fit_two(torch.randn(20, INPUTS), torch.zeros(20, 2), "gaussian", networks("gaussian", False)[:2],
                lengthscale=lengthscale)  # fmt: skip


def test_float64_targets_and_rows_of_several_positions_are_taken() -> None:
    fit_two(torch.randn(20, INPUTS), torch.zeros(20, 2).double(), "gaussian", networks("gaussian", False)[:2])
    fit_two(torch.randn(20, 3, INPUTS), torch.zeros(20, 3, 2), "gaussian", networks("gaussian", False)[:2])


def test_a_weight_of_two_layers_stays_one() -> None:
    def tied() -> nn.Module:
        one = nn.Linear(INPUTS, INPUTS)
        model = nn.Sequential(one, nn.ReLU(), one, nn.ReLU(), nn.Linear(INPUTS, 3))
        return gd.learn_dropout(model)

    assert dense_layers_of([tied(), tied()], LIKELIHOODS["categorical"]) is None


def test_a_checkpoint_of_other_layers_is_refused(tmp_path) -> None:
    x, y = torch.randn(20, 2), torch.zeros(20, 2)

    def two(*hidden: int, **options) -> list[nn.Module]:
        return [mlp(2, 2, hidden=hidden, homoscedastic_noise=True, **options) for _ in range(2)]

    place = tmp_path / "run.checkpoint"
    fit_two(x, y, "gaussian", two(8, 4), checkpoint=place)
    for models in (two(4, 8), two(8, 4, activation="silu")):
        with pytest.raises(CheckpointError, match="other model"):
            fit_two(x, y, "gaussian", models, checkpoint=place)
