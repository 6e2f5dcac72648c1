"""Layers whose weight is used without a call, and dropout that no code uses: named at conversion, not converted."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.layers import dropout_blocks
from gumdrop.networks.uses import never_called


class Net(nn.Module):
    """A network with a place for a way to use its head."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.drop = nn.Linear(8, 8), nn.Linear(8, 3, bias=False), nn.Dropout(0.3)
        nn.init.zeros_(self.head.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.use(self.drop(torch.tanh(self.body(x))))

    def use(self, x: Tensor) -> Tensor:
        return self.head(x)


class ByWeight(Net):
    def use(self, x: Tensor) -> Tensor:
        return F.linear(x.to(self.head.weight.dtype), self.head.weight)


class ByForward(Net):
    def use(self, x: Tensor) -> Tensor:
        return self.head.forward(x)


class ByProperty(Net):
    @property
    def matrix(self) -> Tensor:
        return self.head.weight

    def use(self, x: Tensor) -> Tensor:
        return x @ self.matrix.T


class InPart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Unused()

    def forward(self, x: Tensor) -> Tensor:
        return self.net.body(x) @ self.net.head.weight.T


class ByOverride(ByWeight):
    def use(self, x: Tensor) -> Tensor:
        return super().use(x) * 2


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.loss = nn.Linear(8, 8), nn.LinearCrossEntropyLoss(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.loss(self.body(x), torch.zeros(len(x), dtype=torch.long))


class Sometimes(Net):
    def use(self, x: Tensor) -> Tensor:
        return self.head(x) if self.training else F.linear(x, self.head.weight)


class OfDtype(Net):
    def use(self, x: Tensor) -> Tensor:
        layer = self.head
        return layer(x.to(self.head.weight.dtype))


class ByName(Net):
    def use(self, x: Tensor) -> Tensor:
        return getattr(self, "head")(x) + 0 * self.head.weight.sum()  # noqa: B009


class Elsewhere(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Unused(), Unused()])

    def forward(self, x: Tensor) -> Tensor:
        return sum(part.head(part.drop(part(x))) for part in self.parts)  # type: ignore[return-value]


class Unused(Net):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.body(x)) + self.head.weight.sum()


def listed(model: nn.Module) -> set[str]:
    names = {id(module): name for name, module in model.named_modules()}
    return {names[key] for key in never_called(model)}


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (ByWeight, {"head"}),
        (ByForward, {"head"}),
        (ByProperty, {"head"}),
        (ByOverride, {"head"}),
        (Unused, {"head", "drop"}),
        (InPart, {"net.head", "net.drop"}),
        pytest.param(
            Loss,
            {"loss.linear"},
            marks=pytest.mark.skipif(not hasattr(nn, "LinearCrossEntropyLoss"), reason="needs torch 2.13"),
        ),
    ],
)
def test_what_does_not_act_is_named_and_left_alone(cls: type[nn.Module], names: set[str]) -> None:
    model = cls()
    assert listed(model) == names
    with pytest.warns(UserWarning, match="without calling it"):
        gd.learn_dropout(model, plain_dropout="learn")
    model.train()(torch.randn(4, 8))
    assert all(block.site.use.called for block in dropout_blocks(model))


@pytest.mark.parametrize("cls", [Net, Sometimes, OfDtype, ByName, Elsewhere])
def test_what_may_act_is_converted(cls: type[nn.Module]) -> None:
    assert listed(cls()) == set()


def test_a_layer_that_is_only_called_from_outside_is_converted() -> None:
    class Head(Net):
        def forward(self, x: Tensor) -> Tensor:
            return self.drop(self.body(x))

    assert listed(Head()) == set()


def test_layers_beside_converted_ones_do_not_pass_themselves_by() -> None:
    model = nn.Sequential(gd.learn_dropout(nn.Linear(8, 8)), nn.Linear(8, 8))
    assert listed(model) == set()
    assert set(gd.dropout_rates(gd.learn_dropout(model))) == {"0", "1"}
