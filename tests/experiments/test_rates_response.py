"""Rates that follow held-out rows through the response of the weights, on problems whose answer is known."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from gumdrop import dropout_rates
from gumdrop.ensembles import EnsembleSettings
from gumdrop.layers import SITE
from gumdrop.likelihoods import Categorical, Gaussian
from gumdrop.networks import mlp
from gumdrop_experiments.rates.ensembles import Setup
from gumdrop_experiments.rates.responses import Answers, SelfTuning, nll_by_response
from gumdrop_experiments.rates.study import ARMS, Trained

LOGIT = -1.0


def squares(output: Tensor, y: Tensor) -> Tensor:
    return (output - y).square().sum(-1) / 2


def line(num_rows: int = 10_000) -> tuple[SelfTuning, Tensor, Tensor, Tensor]:
    """A linear model of independent inputs, its rows with held-out ones beside them, its targets, its best weights."""
    torch.manual_seed(0)
    x, beside = torch.randn(2, num_rows, 3)
    x = x - x.mean(0)
    w = torch.tensor([[1.0], [-0.7], [0.4]])
    y = x @ w + 0.5 * torch.randn(len(x), 1)
    y = y - y.mean()
    model = SelfTuning(mlp(3, 1, hidden=[]), 3, num_draws=2, spread=0.4).train()
    model.network[0].bias.data.zero_()
    return model, torch.cat([x, beside, beside @ w], dim=1), y, best_weights(x, y, LOGIT)


def best_weights(x: Tensor, y: Tensor, logit: float) -> Tensor:
    """Weights with the least squared error under masks: those of a ridge of p / (1 - p) times the mean squares."""
    square = x.T @ x
    ridge = torch.tensor(logit).exp() * square.diagonal().diag()
    return torch.linalg.solve(square + ridge, x.T @ y).T


def place(model: SelfTuning, weights: Tensor, logit: float) -> None:
    model.network[0].weight.data.copy_(weights)
    model.logits.data.fill_(logit)


def test_the_response_is_what_weights_do_that_are_trained_anew() -> None:
    model, rows, y, best = line(200_000)
    place(model, best, LOGIT)
    x = rows[:, :3]
    slope = (best_weights(x, y, LOGIT + 0.05) - best_weights(x, y, LOGIT - 0.05)) / 0.1
    gate = model.gates[0].weight
    norms = []
    for factor in (0.0, 1.0):
        model.zero_grad()
        gate.data.copy_(torch.stack([factor * slope[0, 0] / best[0, 0], torch.zeros(())]).unsqueeze(1))
        torch.manual_seed(1)
        nll_by_response(squares)(model(rows), y).mean().backward()
        norms.append(gate.grad.norm().item())
    assert norms[1] < 0.1 * norms[0]


def test_the_gradient_of_rates_is_that_of_held_out_rows_under_weights_trained_anew() -> None:
    model, rows, y, best = line()
    x = rows[:, :3]
    slope = (best_weights(x, y, LOGIT + 0.01) - best_weights(x, y, LOGIT - 0.01)) / 0.02
    model.gates[0].weight.data.copy_(torch.stack([slope[0, 0] / best[0, 0], torch.zeros(())]).unsqueeze(1))

    def held_out(logit: float) -> Tensor:
        place(model, best_weights(x, y, logit), logit)
        torch.manual_seed(1)  # the same masks each time
        found = model(rows)
        assert isinstance(found, Answers)
        log_p = torch.stack([-squares(draw, found.y_held_out) for draw in found.held_out])
        return -log_p.logsumexp(0).mean()

    wanted = (held_out(LOGIT + 0.01) - held_out(LOGIT - 0.01)) / 0.02
    place(model, best, LOGIT)
    torch.manual_seed(1)
    nll_by_response(squares)(model(rows), y).mean().backward()
    assert model.logits.grad.item() == pytest.approx(wanted.item(), rel=0.01)


def test_each_loss_moves_its_own_parameters() -> None:
    model, rows, _, best = line(100)
    place(model, best, LOGIT)
    found = model(rows)
    assert isinstance(found, Answers)
    parts = {"output": "network", "moved": "gates", "held_out": "logits"}
    for part, mover in parts.items():
        model.zero_grad()
        getattr(found, part).sum().backward(retain_graph=True)
        moved = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
        assert moved == {mover}, part
    torch.testing.assert_close(model.network[0].get_submodule(SITE).p_logit, torch.tensor(LOGIT))


def input_rate(x: Tensor, y: Tensor) -> float:
    """Train two lines on half of the rows each for 400 steps, and give their mean rate."""

    def build() -> nn.Module:
        return mlp(x.shape[1], 1, hidden=[], homoscedastic_noise=True)

    settings = EnsembleSettings(num_members=2, held_out_fraction=0.5, epochs=100, lr=0.02)
    setup = Setup(build, (x, (y - y.mean()) / y.std()), settings, Gaussian())
    (like,) = setup._replace(settings=dataclasses.replace(settings, epochs=1)).fit([build])
    fit, _ = ARMS["response"](setup, Trained({1.0: like}, {}))
    assert fit.scores.nanmean().isfinite()
    return sum(sum(dropout_rates(member).values()) for member in fit.model.members) / 2


def test_rates_rise_among_useless_inputs_and_fall_without_noise() -> None:
    torch.manual_seed(0)
    x = torch.randn(200, 40)
    line = x[:, :1] - x[:, 1:2]
    assert input_rate(x, line + 4 * torch.randn(200, 1)) > 0.2
    assert input_rate(x, line) < 0.05


def test_rates_by_response_are_learned_for_classes_too() -> None:
    torch.manual_seed(0)
    x = torch.randn(60, 3)
    settings = EnsembleSettings(num_members=2, epochs=2, batch_size=32)
    classes = Setup(lambda: mlp(3, 2, hidden=[6]), (x, (x[:, 0] > 0).long()), settings, Categorical())
    (like,) = classes.fit([classes.build])
    fit, _ = ARMS["response"](classes, Trained({1.0: like}, {}))
    assert fit.scores.nanmean().isfinite()
    assert all(p != pytest.approx(0.1) for member in fit.model.members for p in dropout_rates(member).values())
