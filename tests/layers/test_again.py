"""Gradient checkpointing: what is run again has the masks of its pass, and leaves random state to all others."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import gumdrop as gd

KINDS = pytest.mark.parametrize("reentrant", [True, False])
Wrap = Callable[..., Tensor]


class Parts(nn.Module):
    """A model of parts, which are run again if somebody says how."""

    def __init__(self) -> None:
        super().__init__()
        self.again: Wrap | None = None
        self.layer, self.head = nn.Linear(6, 6), nn.Linear(6, 6)

    def part(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        return function(x) if self.again is None else self.again(function, x)

    def body(self, x: Tensor) -> Tensor:
        return torch.sin(self.layer(x))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.part(self.body, x)
        return self.head(x)


class Shared(Parts):
    """Uses a site several times in a part, beside dropout that cannot learn."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.plain = nn.Dropout(0.3), nn.AlphaDropout(0.3)

    def body(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = self.plain(x + self.drop(torch.tanh(self.layer(x))))
        return torch.sin(x)


class Numbers(Parts):
    """Drops by a number, in its own parts and around them, beside dropout that cannot learn."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout, self.plain = 0.3, nn.AlphaDropout(0.3)

    def body(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = torch.sin(F.dropout(self.plain(self.layer(x)), p=self.dropout, training=self.training))
        return F.layer_norm(x + self.plain(x), (6,))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cos(F.dropout(x, p=self.dropout, training=self.training))
        return super().forward(x) + F.dropout(x, p=self.dropout, training=self.training)


class Nested(Shared):
    def outer(self, x: Tensor) -> Tensor:
        return self.part(super().body, x) + self.plain(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.part(self.outer, self.part(self.outer, x)))


class Flat(Shared):
    """Sees other rows than the examples that its root was called with, and draws their masks by itself."""

    def body(self, x: Tensor) -> Tensor:
        return super().body(x.flatten(0, 1)).view_as(x)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.unsqueeze(1).expand(-1, 3, -1))


class Words(Shared):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 6)

    def body(self, x: Tensor) -> Tensor:
        return super().body(x) + self.words(torch.arange(len(x)).unsqueeze(1)).squeeze(1)


class Sequences(Shared):
    def __init__(self) -> None:
        super().__init__()
        self.layer = self.drop = nn.Identity()  # type: ignore[assignment]
        self.steps = nn.LSTM(6, 6, 2, dropout=0.3, batch_first=True)
        self.mix = nn.MultiheadAttention(6, 2, dropout=0.3, batch_first=True)

    def body(self, x: Tensor) -> Tensor:
        y = self.plain(self.steps(x.unsqueeze(1))[0])
        return self.plain(x + self.mix(y, y, y, need_weights=False)[0].squeeze(1))


def converted(cls: type[Parts], **options: Any) -> Parts:
    torch.manual_seed(1)
    model = cls().double().train()
    return gd.learn_dropout(model, p=0.3, report=lambda report: None, **{"plain_dropout": "learn", **options})


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().sum()


def gradients(model: Parts, again: Wrap | None, run: Callable[[Parts, Tensor], Tensor]) -> Tensor:
    model.again = again
    torch.manual_seed(0)
    model.zero_grad()
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    loss = run(model, x)
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    return torch.cat([loss.detach().view(1), *(p.grad.flatten() for p in model.parameters())])  # type: ignore[union-attr]


def check(model: Parts, again: Wrap, run: Callable[[Parts, Tensor], Tensor] = loss_of, **tolerance: float) -> None:
    torch.testing.assert_close(gradients(model, again, run), gradients(model, None, run), **tolerance)  # type: ignore[arg-type]


@KINDS
@pytest.mark.parametrize("way", ["learn", "keep", "fixed"])
@pytest.mark.parametrize("cls", [Parts, Shared, Numbers, Nested, Flat, Words, Sequences])
def test_gradients_are_those_of_one_run(cls: type[Parts], way: str, reentrant: bool) -> None:
    model = converted(cls, plain_dropout="keep" if way == "keep" else "learn", embeddings=True, recurrent=True)
    if way == "fixed":
        gd.fix_dropout(model)
    check(model, functools.partial(checkpoint, use_reentrant=reentrant))


@KINDS
def test_a_part_that_asks_first_leaves_the_graph_to_the_layers_behind(reentrant: bool) -> None:
    model = converted(Parts)
    gradients(model, functools.partial(checkpoint, use_reentrant=reentrant), loss_of)
    assert model.head.get_parameter("concrete_dropout.scaled_logit").grad != 0


@KINDS
@pytest.mark.parametrize("cls", [Shared, Numbers])
def test_two_passes(cls: type[Parts], reentrant: bool) -> None:
    again = functools.partial(checkpoint, use_reentrant=reentrant)
    check(converted(cls), again, lambda model, x: (model(x) * model(2 * x)).sum())

    def one_after_the_other(model: Parts, x: Tensor) -> Tensor:
        first, second = loss_of(model, x), loss_of(model, 2 * x)
        first.backward()  # type: ignore[no-untyped-call]
        return second

    check(converted(cls), again, one_after_the_other)


@KINDS
@pytest.mark.parametrize("cls", [Shared, Numbers])
def test_without_the_random_state(cls: type[Parts], reentrant: bool) -> None:
    model = converted(cls)
    model.plain = nn.Identity()
    check(model, functools.partial(checkpoint, use_reentrant=reentrant, preserve_rng_state=False))


@pytest.mark.filterwarnings("ignore:None of the inputs")  # of the inner parts, in a first run without a graph
@KINDS
@pytest.mark.parametrize("cls", [Shared, Numbers])
@pytest.mark.parametrize("parts", [False, True])
def test_the_whole_model(cls: type[Parts], parts: bool, reentrant: bool) -> None:
    def whole(model: Parts, x: Tensor) -> Tensor:
        again, model.again = model.again, model.again if parts else None
        return loss_of(model, x) if again is None else again(functools.partial(loss_of, model), x)

    check(converted(cls), functools.partial(checkpoint, use_reentrant=reentrant), whole)


@KINDS
def test_a_part_that_was_converted_by_itself(reentrant: bool) -> None:
    class Around(Parts):
        def __init__(self, inner: Parts) -> None:
            super().__init__()
            self.layer = inner  # type: ignore[assignment]

    again = functools.partial(checkpoint, use_reentrant=reentrant)
    model = Around(converted(Shared)).double()
    check(model, again)
    check(gd.learn_dropout(model), again)


@KINDS
def test_half_precision(reentrant: bool) -> None:
    def run(model: Parts, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return loss_of(model, x.float())

    check(converted(Shared).float(), functools.partial(checkpoint, use_reentrant=reentrant), run, rtol=0.02, atol=0.02)


@KINDS
def test_sequential(reentrant: bool) -> None:
    class Sequential(Parts):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.3), nn.Tanh()) for _ in range(4)])
            self.layer = self.head = nn.Identity()  # type: ignore[assignment]

        def forward(self, x: Tensor) -> Tensor:
            return self.layers(x) if self.again is None else checkpoint_sequential(self.layers, 2, x, reentrant)

    check(converted(Sequential), checkpoint)


def test_gradients_of_gradients() -> None:
    def penalty(model: Parts, x: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(loss_of(model, x), x, create_graph=True)
        return gradient.square().sum() + loss_of(model, x)

    check(converted(Shared), functools.partial(checkpoint, use_reentrant=False), penalty)


@pytest.mark.parametrize("fresh", [False, True])
@KINDS
def test_functions_that_are_drawn(fresh: bool, reentrant: bool) -> None:
    model = converted(Shared)

    def drawn(model: Parts, x: Tensor) -> Tensor:
        function = gd.draw(model, seed=0, fresh=fresh)
        return loss_of(function, x) + loss_of(function, x)

    model.plain = nn.Identity()
    expected = torch.autograd.grad(drawn(model, torch.ones(5, 6, dtype=torch.float64)), model.layer.weight)
    model.again = functools.partial(checkpoint, use_reentrant=reentrant)
    x = torch.ones(5, 6, dtype=torch.float64, requires_grad=True)
    model.zero_grad()
    drawn(model, x).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(model.layer.weight.grad, expected[0])


class OfAnotherLibrary(torch.autograd.Function):
    """Gradient checkpointing that does not ask PyTorch for it."""

    @staticmethod
    def forward(ctx: Any, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        ctx.function, ctx.state = function, torch.get_rng_state()
        ctx.save_for_backward(x)
        return function(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, Tensor | None]:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            x = ctx.saved_tensors[0].detach().requires_grad_()
            y = ctx.function(x)
        torch.autograd.backward(y, g)
        return None, x.grad


@pytest.mark.parametrize("way", ["learn", "keep"])
@pytest.mark.parametrize("cls", [Parts, Shared, Flat, Words, Sequences])
def test_other_libraries(cls: type[Parts], way: str) -> None:
    check(converted(cls, plain_dropout=way, embeddings=True), OfAnotherLibrary.apply)


def losses_of_two_threads(again: Wrap) -> tuple[list[Tensor], list[Tensor]]:
    """Run a linear model in two threads at once: its loss is the input times its gradient, if masks are there again."""
    model = converted(Parts, plain_dropout="keep")
    model.again, model.head = again, nn.Identity()  # type: ignore[assignment]
    vars(model)["body"] = model.layer
    nn.init.zeros_(model.layer.bias)
    inputs = [torch.randn(5, 6, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    start, losses = threading.Barrier(2), [torch.empty(())] * 2

    def run(number: int) -> None:
        start.wait()
        losses[number] = model(inputs[number]).sum()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return inputs, losses


@KINDS
def test_threads(reentrant: bool) -> None:
    inputs, losses = losses_of_two_threads(functools.partial(checkpoint, use_reentrant=reentrant))
    for x, loss in zip(inputs, losses, strict=True):
        loss.backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        torch.testing.assert_close((x.grad * x).sum(), loss)


def test_other_libraries_do_not_tell_threads_apart() -> None:
    """Threads number the nodes of their graphs by themselves, so two passes may have the same numbers."""
    _, losses = losses_of_two_threads(OfAnotherLibrary.apply)
    with pytest.raises(RuntimeError, match="one after the other"):
        losses[0].backward()  # type: ignore[no-untyped-call]
