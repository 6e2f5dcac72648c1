"""All masks of a pass in one table, against the formula site by site under the same noise."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.functional import dropout_scale
from gumdrop.layers import dropout_blocks, factors_from
from gumdrop.layers.site import ConcreteDropout, sites_of
from gumdrop.layers.table import tables_of

ROWS = 5


class Mixed(nn.Module):
    """Layers whose inputs have positions, and some whose inputs have none."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.tokens, self.head = nn.Conv1d(3, 6, 3), nn.Linear(6, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.tokens(torch.tanh(self.conv(x)).mT)
        out: Tensor = self.head(torch.tanh(tokens).mean(1))
        return out


def chain() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 3), nn.Tanh(), nn.Linear(3, 2))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "chain": (chain, (ROWS, 4)),
    "positions": (Mixed, (ROWS, 3, 9)),
    "recurrent": (lambda: nn.LSTM(4, 3, num_layers=2, batch_first=True), (ROWS, 6, 4)),
    "time first": (lambda: nn.LSTM(4, 3, num_layers=2), (6, ROWS, 4)),
}


def spread_rates(model: nn.Module) -> None:
    """Let each site have a rate of its own."""
    with torch.no_grad():
        for i, site in enumerate(sites_of(model)):
            site.scaled_logit.copy_(
                torch.linspace(-0.2, 0.1, site.scaled_logit.numel()).view_as(site.scaled_logit) + i / 9
            )


def by_formula(model: nn.Module, noise: Tensor) -> Callable[[ConcreteDropout, Tensor], Tensor]:
    """Give the factors that each site has of its columns of noise, with their gradient by autograd."""
    sites = sites_of(model)
    columns = dict(zip(sites, noise.split([site.num_units for site in sites], 1), strict=True))

    def factor(site: ConcreteDropout, x: Tensor) -> Tensor:
        return dropout_scale(site.p_logit, columns[site], temperature=site.temperature, hard=site.is_fixed)

    return factor


def result_of(model: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor | None]]:
    output = model(x)
    output = output if isinstance(output, Tensor) else output[0]
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(output.square().sum(), [x, *parameters], allow_unused=True)
    return output.detach(), list(gradients)


@pytest.mark.parametrize("options", [{}, {"per_unit": True}, {"temperature": 0.4}, {"fixed": True}])
@pytest.mark.parametrize("name", MODELS)
def test_the_table_is_the_formula_site_by_site(name: str, options: dict[str, float | bool]) -> None:
    make, shape = MODELS[name]
    is_fixed = options.get("fixed", False)
    model = gd.learn_dropout(make().double(), **{k: v for k, v in options.items() if k != "fixed"}).train()
    spread_rates(model)
    if is_fixed:
        gd.fix_dropout(model)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(3)
    found = result_of(model, x)
    torch.manual_seed(3)
    noise = torch.rand(ROWS, sum(site.num_units for site in sites_of(model)), dtype=torch.float64)
    with factors_from(by_formula(model, noise), model):
        expected = result_of(model, x)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_rates_of_several_kinds_have_tables_of_their_own() -> None:
    model = gd.learn_dropout(nn.Sequential(chain(), nn.Linear(2, 2)))
    sites = sites_of(model)
    gd.fix_dropout(model[0][0])
    sites[1].temperature = 0.3
    sites[3].temperature = 0.3
    tables = tables_of(model, torch.ones(ROWS, 4))
    assert [len(table.uses) for table in tables] == [2]  # the two that are alone draw by themselves
    sites[0].scaled_logit, sites[2].temperature = sites[0].scaled_logit, 0.3
    assert [len(table.uses) for table in tables_of(model, torch.ones(ROWS, 4))] == [3]


def test_a_site_with_other_rows_draws_by_itself() -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.last(self.second(self.first(x).reshape(-1, 3)).view_as(x).mean(1))
            return out

    model = gd.learn_dropout(Pooled(), p=0.5)
    seen: list[Tensor] = []
    for layer in (model.first, model.second, model.last):
        layer.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model(torch.ones(4, 200, 3))
    assert len(seen[0][:, 0].unique(dim=0)) > 1
    assert torch.equal(seen[0][:, :1].expand_as(seen[0]), seen[0])  # one mask for all positions of an example
    assert len(seen[1].unique(dim=0)) > 4  # rows, where code made rows of the positions


def test_masks_in_eval_and_in_parts() -> None:
    """A model in eval draws none, and parts that are in training draw their own."""
    model = gd.learn_dropout(chain(), p=0.5).eval()
    x = torch.randn(3, 4)
    state = torch.get_rng_state()
    assert torch.equal(model(x), model(x))
    assert torch.equal(torch.get_rng_state(), state)
    model[2].train()
    assert not torch.equal(model(x), model(x))


def test_a_site_costs_few_operations() -> None:
    """Each further site adds its product and the gradient of that, and no mask of its own."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.count += all(r.alias_info is None or r.alias_info.is_write for r in func._schema.returns)
            return func(*args, **(kwargs or {}))

    def operations(model: nn.Module) -> int:
        model(torch.ones(3, 4)).sum().backward()
        model.zero_grad()
        with Count() as counted:
            model(torch.ones(3, 4)).sum().backward()
        return counted.count

    counts = {}
    for depth in (4, 9):
        plain = nn.Sequential(*[nn.Linear(4, 4) for _ in range(depth)])
        before = operations(plain)
        counts[depth] = operations(gd.learn_dropout(plain)) - before
    assert counts[9] - counts[4] <= 3 * 5


def test_a_replaced_layer_and_a_moved_dtype_are_seen() -> None:
    model = gd.learn_dropout(chain(), p=0.4)
    model(torch.ones(3, 4))
    model[4] = gd.learn_dropout(nn.Linear(3, 2))
    assert model(torch.ones(3, 4)).shape == (3, 2)
    model.double()
    assert model(torch.ones(3, 4, dtype=torch.float64)).dtype == torch.float64
    assert {block.site.use.called for block in dropout_blocks(model)} == {True}
