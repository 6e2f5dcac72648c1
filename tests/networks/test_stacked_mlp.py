"""Many dense networks as one: outputs, KL and gradients against each network alone under the same masks."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop import HomoscedasticNoise
from gumdrop.functional.masks import dropout_scale
from gumdrop.layers import ConcreteDropout, PiecewiseLinear, dropout_blocks
from gumdrop.layers.site import factors_from
from gumdrop.networks import mlp, set_strength, stacked_pass
from gumdrop.networks.stacked import StackedMLP, stack
from gumdrop.training.stacked import precisions_of

from builders.rates import set_logit

MEMBERS, ROWS, INPUTS = 3, 7, 4
NUM_DATA = torch.tensor([3.0, 50.0, 6000.0])  # so that the cap of a prior holds for some alone
NO_PRIOR = torch.zeros(1, 1)
X = torch.randn(MEMBERS, ROWS, INPUTS, generator=torch.Generator().manual_seed(1))
DENSE = partial(mlp, INPUTS, 2, hidden=(6, 5), homoscedastic_noise=True)
KINDS: dict[str, Callable[[], nn.Module]] = {
    "relu": DENSE,
    "silu": partial(DENSE, activation="silu"),
    "bins": lambda: DENSE(encoding=PiecewiseLinear.fitted(X[0], 3)),
    "one layer": lambda: gd.learn_dropout(nn.Sequential(nn.Linear(INPUTS, 3))),
    "one input": partial(mlp, 1, 2, hidden=(6, 5), homoscedastic_noise=True),
    "fixed": lambda: gd.fix_dropout(DENSE()),
    "soft": lambda: gd.learn_dropout(nn.Sequential(nn.Linear(INPUTS, 5), nn.ReLU(), nn.Linear(5, 2)), temperature=0.4),
}


def inputs(kind: str) -> Tensor:
    return X[..., :1] if kind == "one input" else X


def networks(kind: str) -> list[nn.Module]:
    """Networks that differ in weights, rates, strengths and noise."""
    torch.manual_seed(0)
    members = [KINDS[kind]() for _ in range(MEMBERS)]
    for i, member in enumerate(members):
        sites = [module for module in member.modules() if isinstance(module, ConcreteDropout)]
        for j, site in enumerate(sites):
            set_logit(site, (-1.0, 0.5, -14.0)[(i + j) % 3])
        set_strength(member, 0.5 + i)
        sites[0].strength = 2.0 + i
        for module in member.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.bias)
            elif isinstance(module, HomoscedasticNoise):
                nn.init.normal_(module.log_variance)
    return members


def learned(network: StackedMLP, x: Tensor, precisions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, the slopes of a loss that is linear in them, and the KL; gradients are left."""
    seen: list[Tensor] = []

    def slope(output: Tensor) -> tuple[Tensor, Tensor]:
        seen.extend([output, torch.randn_like(output)])
        return (output * seen[1]).sum((1, 2)), seen[1]

    loss, kl = network.learn(x, slope, precisions, NUM_DATA)
    torch.testing.assert_close(loss, (seen[0] * seen[1]).sum((1, 2)))
    return seen[0], seen[1], kl


def alone(member: nn.Module, x: Tensor, noise: list[Tensor], hard: bool) -> Tensor:
    """One network under masks of this noise, of its sites in order."""
    rest = iter(noise)

    def source(site: ConcreteDropout, _: Tensor) -> Tensor:
        return dropout_scale(site.p_logit, next(rest), temperature=site.temperature, hard=hard)

    with factors_from(source, member):
        return member(x)


@pytest.mark.parametrize(
    ("lengthscale", "shared"), [("fan_in", False), ("regression", True), ("weak", False), (0.7, True)]
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:the prior `lengthscale='fan_in'` weighs:UserWarning")
def test_a_step_is_that_of_each_network_alone(
    monkeypatch: pytest.MonkeyPatch, kind: str, lengthscale: Any, shared: bool
) -> None:
    """Outputs, KL, and the gradients of a loss and of the KL over N; with inputs of each, or one for all."""
    members, network, x = networks(kind), stack(networks(kind)), inputs(kind)
    x = x[0] if shared else x
    noise = [torch.rand(1, ROWS, units).clamp_(1e-3, 1 - 1e-3) for units in network.units]
    monkeypatch.setattr(stacked_pass, "uniform_noise", lambda *_, **__: torch.cat([each.flatten() for each in noise]))
    precisions = precisions_of(network, num_data=NUM_DATA, lengthscale=lengthscale)
    output, slopes, kl = learned(network, x, precisions)
    for i, (member, rows) in enumerate(zip(members, x.expand(MEMBERS, -1, -1), strict=True)):
        own = alone(member, rows, [each[0] for each in noise], hard=kind == "fixed")
        own_kl = gd.kl_divergence(member, num_data=NUM_DATA[i], lengthscale=lengthscale)
        torch.testing.assert_close((output[i], kl[i]), (own, own_kl), rtol=1e-5, atol=1e-5)
        ((own * slopes[i]).sum() + own_kl / NUM_DATA[i]).backward()
    for parameter in network.parameters():
        if parameter.requires_grad:
            assert parameter.grad.stride() == parameter.stride()  # of use to a fused optimiser
            parameter.data.copy_(parameter.grad)
    for member, found in zip(members, network.states(), strict=True):
        for name, own_parameter in member.named_parameters():
            if own_parameter.requires_grad:
                torch.testing.assert_close(found[name], own_parameter.grad, rtol=2e-4, atol=1e-5)


def test_the_first_rate_of_a_large_batch_goes_by_a_part_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is turned by a quarter four times, its masks with it, gives each quarter in turn."""
    rows, network, members = 4 * stacked_pass.LEAST_ROWS, stack(networks("silu")), networks("silu")
    network.entropies.zero_()  # which leaves the loss alone
    x = torch.randn(MEMBERS, rows, INPUTS)
    noise = [torch.rand(rows, units).clamp_(1e-3, 1 - 1e-3) for units in network.units]
    slopes, found = torch.randn(MEMBERS, rows, 4), []
    for shift in range(0, rows, stacked_pass.LEAST_ROWS):
        turned = torch.cat([each.roll(shift, 0).flatten() for each in noise])
        monkeypatch.setattr(stacked_pass, "uniform_noise", lambda *_, turned=turned, **__: turned)
        turned_slopes = slopes.roll(shift, 1)
        network.learn(x.roll(shift, 1), lambda _, of=turned_slopes: (of.sum((1, 2)), of), NO_PRIOR, NUM_DATA)
        found.append(network.scaled_logits.grad.clone())
    expected = []
    for member, inputs_of, slopes_of in zip(members, x, slopes, strict=True):
        (alone(member, inputs_of, noise, hard=False) * slopes_of).sum().backward()
        expected.append([block.site.scaled_logit.grad for block in dropout_blocks(member)])
    torch.testing.assert_close(torch.stack(found).mean(0), torch.tensor(expected), rtol=2e-4, atol=2e-4)
    assert not torch.allclose(found[0][:, 0], found[1][:, 0]), "it is a part of the rows that tells"
    torch.testing.assert_close(found[0][:, 1:], found[1][:, 1:], rtol=2e-4, atol=2e-4)


def test_without_a_prior_entropy_alone_is_the_kl() -> None:
    network = stack(networks("relu"))
    p = network.p_logits.sigmoid()
    entropy = -(p * p.log() + (1 - p) * torch.log1p(-p))
    torch.testing.assert_close(
        learned(network, X, NO_PRIOR)[2], -(network.entropies * entropy).sum(1), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_functions_are_those_of_each_network_alone(kind: str) -> None:
    members, network = networks(kind), stack(networks(kind))
    noise = [torch.rand(1, 2, units) for units in network.units]
    drawn, x = network.functions(), inputs(kind)
    functions = drawn.outputs(x, drawn.factors(noise))
    by_row = drawn.outputs(x, drawn.factors([each.unsqueeze(2).expand(-1, -1, ROWS, -1) for each in noise]))
    torch.testing.assert_close(by_row, functions)
    for i, member in enumerate(members):
        expected = [alone(member, x[i], [each[0, s : s + 1] for each in noise], hard=True) for s in range(2)]
        torch.testing.assert_close(functions[i], torch.stack(expected), rtol=1e-5, atol=1e-5)
    assert functions.shape == learned(network, x, NO_PRIOR)[0].unsqueeze(1).expand(-1, 2, -1, -1).shape


def test_a_seed_names_functions_and_without_one_each_row_has_a_mask() -> None:
    network, x = stack([DENSE(p=0.5)] * 2), X[:1, :1].expand(2, ROWS, -1)  # one row many times
    again = network.drawn(x, 5, 3)
    assert torch.equal(again, network.drawn(x, 5, 3))
    torch.testing.assert_close(again, again[:1, :, :1].expand_as(again))  # the same masks in all members
    assert not torch.equal(again, network.drawn(x, 5, 4))
    assert (again.std(1)[..., :2] > 0).all(), "draws differ"
    rows = network.drawn(x, 5, None)
    assert (rows.std(2)[..., :2] > 0).all()
    torch.testing.assert_close(rows[0], rows[1])


def test_states_are_those_of_the_networks_and_the_stack_has_copies() -> None:
    members, network = networks("bins"), stack(networks("bins"))
    for member, state in zip(members, network.states(), strict=True):
        trained = dict(member.named_parameters())
        assert state.keys() == trained.keys()
        torch.testing.assert_close(state, {name: value.detach() for name, value in trained.items()}, rtol=0, atol=0)
    assert network.rates() == [pytest.approx(gd.dropout_rates(member)) for member in members]
    original = stack(members)
    nn.init.zeros_(original.block)
    assert all(parameter.abs().max() > 0 for parameter in members[0].parameters())
    original.load_state_dict(network.state_dict())
    assert torch.equal(original.drawn(X, 2, 0), network.drawn(X, 2, 0))


@pytest.mark.parametrize("learns_noise", [True, False])
@pytest.mark.parametrize("kind", ["relu", "fixed"])
def test_groups_are_those_of_a_single_network(kind: str, learns_noise: bool) -> None:
    members = networks(kind)
    for module in nn.ModuleList(members).modules():
        if isinstance(module, HomoscedasticNoise):
            module.log_variance.requires_grad_(learns_noise)

    def facts(groups: list[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
        """How many numbers have which options."""
        sizes = [sum(each.numel() for each in group["params"] if each.requires_grad) for group in groups]
        options = [tuple(group.get(name) for name in ("weight_decay", "lr", "eps")) for group in groups]
        return {each: size for each, size in zip(options, sizes, strict=True) if size}

    own = facts(gd.parameter_groups(members[0], weight_decay=0.1, rate_lr=0.05))
    assert facts(stack(members).groups(0.1, 0.05)) == {each: MEMBERS * size for each, size in own.items()}


def watched() -> nn.Module:
    model = DENSE()
    model[0].register_forward_hook(lambda *_: None)
    return model


def replaced() -> nn.Module:
    model = DENSE()
    vars(model)["forward"] = lambda x: 2 * nn.Sequential.forward(model, x)
    return model


def tied() -> nn.Module:
    one = nn.Linear(INPUTS, INPUTS)
    return gd.learn_dropout(nn.Sequential(one, nn.ReLU(), one, nn.ReLU(), nn.Linear(INPUTS, 2)))


def frozen() -> nn.Module:
    model = DENSE()
    model[2].weight.requires_grad_(False)
    return model


def softer() -> nn.Module:
    model = DENSE()
    for block in dropout_blocks(model):
        block.site.temperature = 0.4
    return model


def sequential(*layers: nn.Module, **options: Any) -> nn.Module:
    return gd.learn_dropout(nn.Sequential(nn.Linear(INPUTS, 5), *layers, nn.Linear(5, 2)), **options)


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "watched": watched,
    "another forward": replaced,
    "tied": tied,
    "frozen": frozen,
    "a rate for each unit": lambda: sequential(nn.ReLU(), per_unit=True),
    "a layer without a rate": lambda: sequential(nn.ReLU(), exclude=["0"]),
    "another activation": lambda: sequential(nn.Tanh()),
    "normalised": lambda: sequential(nn.BatchNorm1d(5), nn.ReLU()),
    "no activation": sequential,
    "a prior of the noise": lambda: nn.Sequential(*list(DENSE())[:-1], HomoscedasticNoise(2, gamma_prior=(1.0, 1.0))),
    "in float64": lambda: DENSE().double(),
    "nested": lambda: nn.Sequential(DENSE()),
    "another class": lambda: type("Own", (nn.Sequential,), {})(*list(DENSE())),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_what_is_no_plain_dense_network_is_not_stacked(other: Callable[[], nn.Module]) -> None:
    assert stack([DENSE()]) is not None
    assert stack([other()]) is None


@pytest.mark.parametrize(
    "other",
    [
        partial(DENSE, hidden=(5, 6)),
        partial(DENSE, activation="silu"),
        partial(DENSE, homoscedastic_noise=False),
        lambda: gd.fix_dropout(DENSE()),
        softer,
        lambda: DENSE(encoding=PiecewiseLinear.fitted(X[1], 3)),
    ],
)
def test_networks_that_differ_are_not_stacked(other: Callable[[], nn.Module]) -> None:
    assert stack([other(), other()]) is not None
    assert stack([DENSE(), other()]) is None
    assert stack([KINDS["bins"](), other()]) is None  # an encoding has the edges of all
