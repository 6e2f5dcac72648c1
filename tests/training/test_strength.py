"""The strength of dropout: what it does to the objective, and how held-out rows choose it."""

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.functional.kl import bernoulli_entropy
from gumdrop.layers import ConcreteDropout
from gumdrop.networks import mlp, set_strength
from gumdrop.training import tune_strength
from gumdrop.training.epochs import mean_rates
from gumdrop.training.strength import choose_strength


def network(per_unit: bool = False) -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))
    return gd.learn_dropout(layers, p=0.3, per_unit=per_unit)


def rows(count: int = 120, noise: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 6, generator=generator)
    return x, x[:, :1] + noise * torch.randn(count, 1, generator=generator)


@pytest.mark.parametrize("per_unit", [False, True])
def test_the_strength_multiplies_the_entropy_of_each_site_and_nothing_else(per_unit: bool) -> None:
    model = network(per_unit)
    plain = gd.kl_divergence(model, lengthscale="fan_in")
    entropies = [block.site.num_units * bernoulli_entropy(block.site.p_logit).mean() for block in blocks(model)]
    set_strength(model, 3.0, include=["0"])
    tempered = gd.kl_divergence(model, lengthscale="fan_in")
    torch.testing.assert_close(plain - tempered, 2 * entropies[0].to(plain))
    tempered.backward()
    slope = blocks(model)[0].site.scaled_logit.grad.clone()
    set_strength(model, 1.0)
    model.zero_grad()
    gd.kl_divergence(model, lengthscale="fan_in").backward()
    logit = blocks(model)[0].site.p_logit
    units = 1 if per_unit else 6
    expected = 2 * units / 10 * (logit * logit.sigmoid() * (1 - logit.sigmoid())).detach()  # counted in tens
    torch.testing.assert_close(slope - blocks(model)[0].site.scaled_logit.grad, expected)
    assert "strength=3" in repr(set_strength(model, 3.0))
    assert "strength" not in repr(network())


def blocks(model: nn.Module) -> list:
    return list(gd.layers.dropout_blocks(model))


def test_the_history_has_the_mean_rate_of_units_with_rates_of_their_own() -> None:
    model = network(per_unit=True)
    for block in blocks(model):
        block.site.scaled_logit.data.copy_(torch.linspace(-0.5, 0.2, block.site.num_units))
    expected = {name: p.mean().item() for name, p in gd.dropout_rates(model).items()}
    assert mean_rates(model) == pytest.approx(expected)
    assert max(expected.values()) < 0.5 < max(p.max() for p in gd.dropout_rates(model).values())


def test_strengths_that_cannot_be() -> None:
    for strength in (0.0, -1.0, float("inf"), float("nan")):
        for call in (lambda value: set_strength(network(), value), lambda value: ConcreteDropout(3, strength=value)):
            with pytest.raises(ValueError, match="`strength` must be a positive number"):
                call(strength)
    with pytest.raises(ValueError, match=r"no site of `model` has a name like \['encoder'\]; they are 0, 2, ..."):
        set_strength(network(), 2.0, include=["encoder"])
    with pytest.raises(ValueError, match="`strengths` must hold at least one"):
        tune_strength(network(), rows(), rows(), likelihood="gaussian", epochs=1, strengths=[])


def test_a_gain_that_may_be_chance_leaves_the_elbo() -> None:
    noise = torch.randn(200, generator=torch.Generator().manual_seed(0))
    elbo = torch.zeros(200)
    assert choose_strength({1.0: elbo, 4.0: elbo + 0.01 + noise - noise.mean()}) == 1
    assert choose_strength({1.0: elbo, 4.0: elbo + 0.2 + noise - noise.mean()}) == 4
    assert choose_strength({0.25: elbo + 1, 1.0: elbo, 4.0: elbo - 1}) == 0.25
    assert choose_strength({2.0: elbo, 4.0: elbo + 0.01}) == 4  # without the ELBO among them the best
    assert choose_strength({0.5: elbo * torch.nan, 1.0: elbo * torch.nan}) == 1
    scores = {1.0: torch.zeros(4), 4.0: torch.tensor([1.0, -1.0, torch.nan, 1.0])}  # one row has no score
    assert choose_strength(scores, torch.tensor([9.0, 1.0, 50.0, 9.0])) == 4
    assert choose_strength(scores, torch.tensor([1.0, 9.0, 50.0, 1.0])) == 1


def test_rows_that_weigh_little_make_no_gain_certain() -> None:
    gains = torch.randn(1000, generator=torch.Generator().manual_seed(3))
    gains[:10] += 0.2 - gains[:10].mean()
    scores = {1.0: torch.zeros(1000), 3.0: gains}
    assert choose_strength({strength: each[:10] for strength, each in scores.items()}) == 1.0
    for weight in (0.0, 1e-6):
        assert choose_strength(scores, torch.full((1000,), weight).index_fill(0, torch.arange(10), 1.0)) == 1.0


def test_noise_asks_for_more_dropout_than_the_elbo_has() -> None:
    model = mlp(6, 1, hidden=[32], homoscedastic_noise=True)
    x, y = rows(400)
    tuned = tune_strength(
        model, (x[:60], y[:60]), (x[60:], y[60:]), likelihood="gaussian", epochs=60,
        strengths=[0.01, 1.0, 10.0], lengthscale="faint", held_out_noise=True, lr=1e-2,
    )  # fmt: skip
    assert tuned.scores[10.0] > tuned.scores[0.01]
    assert {block.site.strength for block in blocks(model)} == {tuned.strength}
    assert tuned.result.history[tuned.result.best_epoch - 1].rates == pytest.approx(gd.dropout_rates(model))
    assert not model.training
