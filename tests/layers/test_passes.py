"""Layers that a forward uses several times: one weight, one mask for each example of a pass."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import gumdrop as gd


class Cell(nn.Module):
    """A recurrent network of its own, whose state shows the masks: each step adds the dropped input."""

    def __init__(self, units: int = 200, steps: int = 3) -> None:
        super().__init__()
        self.linear, self.steps = nn.Linear(units, units, bias=False), steps
        nn.init.eye_(self.linear.weight)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.linear(x) for _ in range(self.steps)])


def cell(**options: Any) -> Cell:
    return gd.learn_dropout(Cell(), p=0.4, **options)


@pytest.mark.parametrize("per_unit", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_steps_share_masks_and_examples_do_not(per_unit: bool, fixed: bool, dtype: torch.dtype) -> None:
    model = cell(per_unit=per_unit)
    model = gd.fix_dropout(model) if fixed else model
    model.linear.to(dtype)
    y = model(torch.ones(100, 200, dtype=dtype))  # enough for a mask that is cut out of words
    assert torch.equal(y[0], y[1])
    assert torch.equal(y[0], y[2])
    assert len(y[0].unique(dim=0)) == 100
    assert not torch.equal(model(torch.ones(100, 200, dtype=dtype)), y)


def test_spread_of_training_and_of_predictions_agree() -> None:
    """With a mask for each use the variance of the sum over T steps would be T times smaller."""
    model, x = gd.learn_dropout(Cell(4, 5), p=0.4), torch.ones(20_000, 4)
    expected = 5**2 * 4 * 0.4 / 0.6
    with torch.no_grad():
        relaxed = model.train()(x).sum((0, 2)).var()
        drawn = gd.draw(model, seed=0, shared=False, fresh=True)
        sampled = drawn(x).sum((0, 2)).var()
    drawn = gd.sample(model, x[:1], num_samples=20_000, seed=0, output=lambda y: y.sum((0, 2))).var()
    for variance, tolerance in ((relaxed, 0.15), (sampled, 0.05), (drawn, 0.05)):  # a relaxed mask varies a little less
        assert variance.item() == pytest.approx(expected, rel=tolerance)


def test_other_rows_have_masks_of_their_own() -> None:
    class Shrinking(Cell):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([self.linear(x[: len(x) - i]) for i in range(2)])

    model = gd.learn_dropout(Shrinking(), p=0.4)
    y = model(torch.ones(4, 200))
    assert not torch.equal(y[:3], y[4:])


def test_inputs_of_other_dimensions_share_the_mask() -> None:
    class Both(Cell):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([self.linear(x).unsqueeze(1), self.linear(x.unsqueeze(1).expand(-1, 2, -1))], 1)

    y = gd.learn_dropout(Both(), p=0.4, per_unit=True)(torch.ones(4, 200))
    assert torch.equal(y[:, 0], y[:, 1])
    assert torch.equal(y[:, 0], y[:, 2])


@pytest.mark.parametrize("kind", ["rnn", "attention", "embedding"])
def test_other_layers(kind: str) -> None:
    layer: Any = {
        "rnn": lambda: nn.LSTM(6, 6, batch_first=True),
        "attention": lambda: nn.MultiheadAttention(6, 2, batch_first=True),
        "embedding": lambda: nn.Embedding(30, 6),
    }[kind]()

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, *args: Tensor) -> tuple[Tensor, Tensor]:
            first, second = (self.layer(*args) for _ in range(2))
            return (first, second) if kind == "embedding" else (first[0], second[0])

    x = torch.randint(30, (4, 5)) if kind == "embedding" else torch.randn(4, 5, 6)
    model = gd.learn_dropout(Twice(), p=0.4, embeddings=True)
    first, second = model(*[x] * (3 if kind == "attention" else 1))
    assert torch.equal(first, second)


def test_tied_layers_share_the_mask_of_their_weight() -> None:
    model = nn.Sequential(nn.Linear(50, 50), nn.Linear(50, 50))
    model[1].weight = model[0].weight
    gd.learn_dropout(model, p=0.4)
    nn.init.eye_(model[0].weight)  # type: ignore[arg-type]
    for layer in model:
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    drawn = gd.draw(model, seed=0, shared=False, fresh=True)
    with torch.no_grad():
        assert sorted(drawn(torch.ones(3, 50)).unique().tolist()) == pytest.approx([0, 1 / 0.6**2])


def test_a_part_that_was_converted_by_itself_joins_the_pass_around_it() -> None:
    inner = gd.learn_dropout(Cell(200, 1), p=0.4)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = inner, nn.Linear(200, 200)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([self.inner(x), self.inner(x)])

    x = torch.ones(3, 200)
    y = Outer()(x)
    assert not torch.equal(y[0], y[1])  # each call of what was converted is a pass
    y = gd.learn_dropout(Outer())(x)
    assert torch.equal(y[0], y[1])


def test_an_interrupted_pass_does_not_go_on() -> None:
    class Interrupted(Cell):
        armed = True

        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            if self.armed:
                raise KeyboardInterrupt
            return y

    model, x = gd.learn_dropout(Interrupted(), p=0.4), torch.ones(3, 200)
    with pytest.raises(KeyboardInterrupt):
        model(x)
    model.armed = False
    assert not torch.equal(model.linear(x), model.linear(x))
    assert not torch.equal(model(x), model(x))
    other = cell()
    assert not torch.equal(other(x), other(x))


@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled(fullgraph: bool) -> None:
    torch.compiler.reset()
    model = cell()
    compiled = torch.compile(model, backend="eager", fullgraph=fullgraph)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for rows in (3, 3, 4, 5, 6):
        y = compiled(torch.ones(rows, 200))
        assert torch.equal(y[0], y[1])
        assert torch.equal(y[0], y[2])
        assert len(y[0].unique(dim=0)) == rows
        assert not torch.equal(compiled(torch.ones(rows, 200)), y)
        y.sum().backward()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - graphs <= 2  # one of them for any number of rows


class Checkpointed(nn.Module):
    def __init__(self, repeats: int, *, reentrant: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.repeats, self.reentrant, self.on = repeats, reentrant, True

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.repeats):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=self.reentrant) if self.on else layer(x)
        return x


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing(reentrant: bool, repeats: int, fixed: bool) -> None:
    """What is recomputed has the masks of the pass."""
    model = gd.learn_dropout(Checkpointed(repeats, reentrant=reentrant), p=0.4)
    if fixed:
        gd.fix_dropout(model)
    x = torch.randn(5, 6, requires_grad=True)
    gradients = []
    for model.on in (False, True):
        torch.manual_seed(0)
        model.zero_grad()
        model(x).square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))  # type: ignore[union-attr]
    torch.testing.assert_close(*gradients)


def test_checkpointing_of_two_passes_before_one_backward() -> None:
    model = gd.learn_dropout(Checkpointed(2, reentrant=False), p=0.4)
    gradients = []
    for model.on in (False, True):
        torch.manual_seed(0)
        model.zero_grad()
        losses = [model(torch.full((5, 6), float(i), requires_grad=True)).square().sum() for i in (1, 2)]
        (losses[0] + 3 * losses[1]).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))  # type: ignore[union-attr]
    torch.testing.assert_close(*gradients)
