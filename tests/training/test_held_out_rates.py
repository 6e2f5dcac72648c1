"""Rates for a network that is trained: the likelihood that they have, what they find, and what they leave alone."""

import copy
import math

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop.functional import dropout_scale
from gumdrop.layers import ConcreteDropout
from gumdrop.likelihoods import Bernoulli, Categorical, Gaussian
from gumdrop.metrics import fit_temperature
from gumdrop.prediction.twins import twin_of
from gumdrop.training import FittedRates, fit_rates, frozen, held_out_rates
from gumdrop.training.data import arguments_of
from gumdrop.training.frozen import FrozenNetwork
from gumdrop.training.strength import mixture_log_likelihood

from builders.models import Words, data
from builders.rates import set_logit

SPARE = torch.Generator().manual_seed(3)


@pytest.fixture
def few_steps(monkeypatch) -> None:
    """What is found does not matter."""
    monkeypatch.setattr(held_out_rates, "STEPS", 2)
    monkeypatch.setattr(frozen, "JUDGES", 4)


def sites(model: nn.Module) -> list[ConcreteDropout]:
    return [module for module in model.modules() if isinstance(module, ConcreteDropout)]


def plain(inputs: int = 30, width: int = 40, outputs: int = 1) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


class Branching(nn.Module):
    """Looks at values, so that draws run one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        return self.second(h.tanh() if h.sum().item() < 1e9 else h)


def test_pixels_are_mixed_one_by_one_as_they_are_predicted() -> None:
    draws, y = torch.randn(5, 4, 3, 2, 6, generator=SPARE), torch.randint(3, (4, 2, 6), generator=SPARE)
    expected = Categorical().predict([draws], 5).log_prob(y).sum((1, 2))
    torch.testing.assert_close(mixture_log_likelihood(Categorical(), draws, y), expected)
    words = mixture_log_likelihood(Bernoulli(), draws[:, :, 0], (y > 0)[:, :, :].float())
    assert words.shape == (4,)


@pytest.mark.parametrize(
    ("build", "x"),
    [
        (lambda: plain(4, 5, 2), data(6, 4)),
        (lambda: nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2)), data(6, 2, 3, 3)),
        (Words, torch.randint(11, (6, 4), generator=SPARE)),
        (Branching, data(6, 4)),
    ],
    ids=["dense", "convolution", "recurrent", "branching"],
)
def test_relaxed_draws_and_their_gradient_are_those_of_a_loop(build, x) -> None:
    torch.manual_seed(1)
    model = gd.learn_dropout(build()).eval()
    count, y = 5, torch.tensor([0, 1, 1, 0, 1, 0])
    logits = torch.linspace(-2, 0.5, len(sites(model))).requires_grad_()
    noise = [torch.rand(count, site.num_units, generator=SPARE) for site in sites(model)]
    factors = [dropout_scale(a, u) for a, u in zip(logits, noise, strict=True)]
    network = FrozenNetwork(twin_of(model), count, 8, 0, None)
    ours = mixture_log_likelihood(Categorical(1.7), network.relaxed(arguments_of(x), factors), y)
    (slope,) = torch.autograd.grad(ours.sum(), [logits], retain_graph=True)

    likelihoods = []
    for s in range(count):
        for site, factor in zip(sites(model), factors, strict=True):
            site.factor_source = lambda _, __, factor=factor[s : s + 1]: factor
        likelihoods.append(torch.softmax(model(x) / 1.7, dim=1)[torch.arange(6), y])
    naive = torch.stack(likelihoods).mean(0).log()
    torch.testing.assert_close(ours, naive)
    torch.testing.assert_close(slope, torch.autograd.grad(naive.sum(), [logits])[0])
    assert slope.abs().min() > 1e-4


class Sides(nn.Module):
    """Adds up two layers that read different inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(20, 1), nn.Linear(20, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.left(x[:, :20]) + self.right(x[:, 20:])


def planted(left: float, right: float, noise: float, count: int = 500) -> tuple[nn.Module, tuple, tuple]:
    """A network, and rows for which each draws its own function of it."""
    torch.manual_seed(0)
    network, generator = Sides(), torch.Generator().manual_seed(6)
    size = torch.rand(2 * count, 2, generator=generator).mul(4).repeat_interleave(20, dim=1)  # unlike on both sides
    x = torch.randn(2 * count, 40, generator=generator) * size
    model = gd.learn_dropout(copy.deepcopy(network))
    for site, p in zip(sites(model), (left, right), strict=True):
        set_logit(site, torch.tensor(p).logit())
    with torch.no_grad():
        y = gd.draw(model, seed=0, fresh=True, shared=False)(x)
    y = y + noise * torch.randn(y.shape, generator=torch.Generator().manual_seed(4))
    return network, (x[:count], y[:count]), (x[count:], y[count:])


def test_rates_that_were_planted_are_found_layer_by_layer() -> None:
    network, held_out, (x, y) = planted(0.01, 0.4, noise=0.2)
    as_it_was = copy.deepcopy(network)
    fitted = fit_rates(network, held_out, likelihood="gaussian")
    assert fitted.kept == "each layer"
    assert fitted.rates["left"] < 0.1
    assert fitted.rates["right"] == pytest.approx(0.4, rel=0.3)
    assert fitted.rates == pytest.approx(gd.dropout_rates(network))
    assert fitted.likelihood.temperature == fitted.temperature
    score = gd.predict(network, x, fitted.likelihood, seed=1).log_prob(y).mean().item()
    assert score == pytest.approx(fitted.scores["each layer"], abs=0.1)
    for better, worse in (("each layer", "one rate"), ("one rate", "temperature")):
        assert fitted.scores[better] > fitted.scores[worse] + fitted.errors[better]
    mean = as_it_was(x).detach()
    alone = Gaussian((y - mean).square().mean().log()).predict([mean.unsqueeze(0)], 1).log_prob(y).mean()
    assert score > alone + 0.05


def test_each_fold_is_scored_by_rates_that_were_learned_without_it(monkeypatch) -> None:
    x, learned, scored = torch.arange(20.0)[:, None], [], []
    outputs = FrozenNetwork.outputs

    def learn(network, rows, likelihood, start):
        learned.append(rows.x.alone.flatten().tolist())
        return torch.full((len(network.sites),), -3.0 - len(learned))

    def watched(network, rows, logits, **options):
        if len(rows.alone) < len(x):
            scored.append((rows.alone.flatten().tolist(), logits[0].item()))
        return outputs(network, rows, logits, **options)

    def keep_on(gains):
        return gains.mean() > -1e9 and len(learned) in (0, 4)

    monkeypatch.setattr(held_out_rates, "_learned", learn)
    monkeypatch.setattr(held_out_rates, "is_beyond_chance", keep_on)
    monkeypatch.setattr(held_out_rates, "_is_behind", lambda gain: False)
    monkeypatch.setattr(frozen, "JUDGES", 4)
    monkeypatch.setattr(FrozenNetwork, "outputs", watched)
    fit_rates(plain(1), (x, torch.randn(20, 1)), likelihood="gaussian")
    assert [logit for _, logit in scored] == [-4.0 - k for k in range(len(learned))]
    for (rows, _), without in zip(scored, learned, strict=True):
        assert sorted(rows + without) == x[:, 0].tolist()


def looked_at(monkeypatch) -> list[tuple[int, float]]:
    """Rows and logits that functions are drawn for."""
    seen, outputs = [], FrozenNetwork.outputs

    def watched(network, rows, logits, **options):
        seen.append((len(rows), logits.unique().tolist()))
        return outputs(network, rows, logits, **options)

    monkeypatch.setattr(FrozenNetwork, "outputs", watched)
    return seen


def test_what_clearly_loses_is_not_looked_at_on_all_rows(monkeypatch) -> None:
    seen = looked_at(monkeypatch)
    network, held_out, _ = planted(1e-7, 1e-7, noise=0.01)
    fitted = fit_rates(network, held_out, likelihood=Gaussian(2 * math.log(0.01)))
    assert fitted.kept == "temperature"
    assert list(fitted.scores) == ["as it is", "temperature", "one rate"]  # no rates of layers were learned
    assert fitted.scores["one rate"] < fitted.scores["temperature"] - 2 * fitted.errors["one rate"]
    rows = [count for count, logits in seen if logits[0] > -10]
    assert rows == [held_out_rates.FIRST_ROWS] * len(held_out_rates.GRID)


def test_draws_share_what_stands_in_front_of_the_first_site() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4 * 26 * 26, 2))
    model, passed = gd.learn_dropout(network, include=[], plain_dropout="learn"), []
    twin = twin_of(model)
    frozen_network = FrozenNetwork(twin, 32, 32, 0, None)
    twin[0].forward = lambda x, inner=twin[0].forward: passed.append(len(x)) or inner(x)
    draws = frozen_network.outputs(arguments_of(data(64, 1, 28, 28)), torch.tensor([-1.0]))
    assert len(draws) == frozen.JUDGES
    assert sum(passed) < 64 * frozen.JUDGES / 3


def test_rates_of_layers_that_lose_are_given_up(monkeypatch) -> None:
    learned = []

    def learn(network, rows, likelihood, start):
        learned.append(start)
        return torch.full((len(network.sites),), 3.0)

    monkeypatch.setattr(held_out_rates, "_learned", learn)
    network, held_out, _ = planted(0.2, 0.2, noise=0.2, count=200)
    fitted = fit_rates(network, held_out, likelihood="gaussian")
    assert fitted.kept == "one rate"
    assert len(learned) == 1
    assert fitted.scores["each layer"] < fitted.scores["one rate"]


def test_a_network_that_is_right_keeps_the_temperature_alone() -> None:
    network, held_out, (x, _) = planted(1e-7, 1e-7, noise=0.3)
    before = network(x).detach()
    fitted = fit_rates(network, held_out, likelihood=Gaussian(2 * math.log(0.6)))
    assert fitted.kept == "temperature"
    assert set(fitted.rates.values()) == {0.0}
    assert fitted.temperature == pytest.approx(0.25, rel=0.15)
    assert fitted.scores["temperature"] > fitted.scores["as it is"]
    prediction = gd.predict(network, x, fitted.likelihood, seed=0)  # without a warning
    torch.testing.assert_close(prediction.mean, before)
    assert prediction.epistemic.max() < 1e-10


def labels(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.distributions.Categorical(logits=network(x) / 3).sample()


@pytest.mark.parametrize("name", ["categorical", "bernoulli"])
def test_the_temperature_of_classes_is_that_of_temperature_scaling(name: str) -> None:
    network, x = plain(outputs=3 if name == "categorical" else 1), 4 * data(500, 30)
    torch.manual_seed(2)
    with torch.no_grad():
        logits = network(x)
        y = labels(network, x) if name == "categorical" else torch.bernoulli(torch.sigmoid(logits / 3))
    fitted = fit_rates(network, (x, y), likelihood=name)
    expected = fit_temperature(logits, y.long(), likelihood=name)
    assert expected > 2
    if fitted.kept == "temperature":
        assert 0.9 * expected < fitted.temperature < expected  # whose prior is worth a row
    prediction = gd.predict_classification(network, x, likelihood=name, temperature=fitted.temperature, seed=0)
    same = gd.predict(network, x, fitted.likelihood, seed=0)
    torch.testing.assert_close(prediction.log_probabilities, same.log_probabilities)


@pytest.mark.usefixtures("few_steps")
def test_weights_flags_and_random_numbers_are_left_alone() -> None:
    network, (x, y), _ = planted(0.1, 0.3, noise=0.1, count=60)
    network.left.weight.requires_grad_(False)
    before, kept = copy.deepcopy(network.state_dict()), (x.clone(), y.clone())
    state = torch.random.get_rng_state()
    again = copy.deepcopy(network)
    fitted = fit_rates(network, (x, y), likelihood="gaussian", seed=5)
    assert torch.equal(state, torch.random.get_rng_state())
    assert fit_rates(again, (x, y), likelihood="gaussian", seed=5).scores == fitted.scores
    assert fit_rates(network, (x, y), likelihood="gaussian", seed=5).scores == fitted.scores  # whatever it starts from
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in before.items())
    assert [parameter.grad for parameter in network.parameters()] == [None] * 6
    assert [p.requires_grad for p in (network.left.weight, network.right.weight)] == [False, True]
    assert torch.equal(x, kept[0])
    assert torch.equal(y, kept[1])
    assert not network.training
    assert all(site.factor_source is None for site in sites(network))


@pytest.mark.usefixtures("few_steps")
def test_dropout_of_its_own_says_where_rates_are_and_what_is_left_is_off() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
    rows = (data(40, 4), data(40, 1))
    assert list(fit_rates(network, rows, likelihood="gaussian").rates) == ["3"]
    chosen = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))
    gd.learn_dropout(chosen, include=["0"])
    assert list(fit_rates(chosen, rows, likelihood="gaussian").rates) == ["0"]
    assert [module.p for module in chosen.modules() if isinstance(module, nn.Dropout)] == [0.0, 0.0]


def test_what_has_no_temperature_keeps_none_and_outputs_are_taken_out() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = plain(4, 5)

        def forward(self, x: torch.Tensor, *, shift: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"log_rate": self.inner(x) + shift}

    torch.manual_seed(0)
    x, y = {0: data(40, 4), "shift": data(40, 1)}, torch.randint(4, (40, 1)).float()
    fitted = fit_rates(Wrapped(), (x, y), likelihood="poisson", output=lambda found: found["log_rate"], num_samples=4)
    assert isinstance(fitted, FittedRates)
    assert fitted.temperature == 1
    assert fitted.scores["as it is"] == fitted.scores["temperature"]


def test_rows_and_numbers_that_cannot_be() -> None:
    x = data(40, 30)
    with pytest.raises(ValueError, match="`held_out` must have at least 8 rows, got 32, 32 and 7"):
        fit_rates(plain(), (x[:7], x[:7, :1]), likelihood="gaussian")
    with pytest.raises(ValueError, match="`num_samples` and `batch_size` must be at least 1"):
        fit_rates(plain(), (x, x[:, :1]), likelihood="gaussian", num_samples=0)
    with pytest.raises(ValueError, match="the targets in `held_out` hold 40 values that are NaN"):
        fit_rates(plain(), (x, x[:, :1] * torch.nan), likelihood="gaussian")
    with pytest.raises(ValueError, match="has nothing to convert"):
        fit_rates(nn.Flatten(), (x, x), likelihood="gaussian")
    with pytest.raises(ValueError, match="`temperature` must be positive, got 0"):
        Gaussian(temperature=0.0)


@pytest.mark.parametrize("shape", [(40,), (40, 3)])
def test_targets_of_another_shape_are_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"targets in `held_out` have shape \(40,.*, and the model returns \(40, 1\)"):
        fit_rates(plain(4), (data(40, 4), torch.ones(shape)), likelihood="gaussian")


@pytest.mark.parametrize("outputs", [1, 2])
def test_rows_that_leave_no_residual_have_no_temperature(few_steps: None, outputs: int) -> None:
    model, x = plain(4, outputs=outputs), data(40, 4)
    nn.init.zeros_(model[2].weight)
    with pytest.raises(ValueError, match="is exact on all rows of `held_out`, so that no noise is small enough"):
        fit_rates(model, (x, model(x)[:, :1].detach()), likelihood="gaussian")
