"""Predictions, drawing and training of one model, side by side in several threads."""

import copy
import functools
import itertools
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.prediction.switches import FallbackWarning, switched

from builders.models import Transformer, Words, converted, data, dense, fingerprint, mixed_model

THREADS = 4


class Attention(nn.Module):
    """Dropout inside attention, which takes its random numbers from the default generator."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "chain": lambda: (dense(), data(9, 4)),
    "lstm": lambda: (converted(Words(), embeddings=True), torch.arange(20).reshape(4, 5) % 11),
    "transformer": lambda: (converted(Transformer()), torch.arange(20).reshape(4, 5) % 11),
    "plain dropout and batch statistics": lambda: (mixed_model(), data(9, 6)),
    "random numbers of its own": lambda: (Attention(), data(3, 5, 8)),
    "encoder layer": lambda: (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True), data(3, 5, 8)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("training", [False, True])
def test_predictions_at_once_are_those_of_one_after_the_other(name: str, training: bool) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name]()
    model.train(training)
    before = fingerprint(model)
    predict = functools.partial(gd.sample, model, x, num_samples=5)
    seeds = list(range(24))
    expected = [predict(seed=seed) for seed in seeds]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda seed: predict(seed=seed), seeds))
    wrong = sum(
        not torch.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in zip(found, expected, strict=True)
    )
    assert wrong == 0
    assert fingerprint(model) == before


def test_settings_of_the_process_come_back_whatever_ends_first() -> None:
    first, second = (switched([(FallbackWarning(), False)], owner) for owner in (1, 2))
    assert FallbackWarning().read()
    first.__enter__()
    second.__enter__()
    second.__exit__(None, None, None)
    assert not FallbackWarning().read()
    first.__exit__(None, None, None)
    assert FallbackWarning().read()


def test_training_goes_on_beside_predictions() -> None:
    """Masks and batch statistics of the training are as without predictions: nothing is switched off meanwhile."""
    model, x = mixed_model().train(), data(16, 6)
    stop = threading.Event()

    def predict() -> int:
        count = 0
        while not stop.is_set():
            gd.sample(model, x, num_samples=3)
            count += 1
        return count

    with ThreadPoolExecutor(THREADS) as pool:
        running = [pool.submit(predict) for _ in range(2)]
        try:
            for _ in range(50):
                assert not torch.equal(model(x), model(x))
                assert all(module.training for module in model.modules())
        finally:
            stop.set()
        assert sum(each.result() for each in running) > 0


@pytest.mark.parametrize("context", [gd.sampling, gd.draw])
@pytest.mark.parametrize("plain", [False, True])
def test_a_context_refuses_other_threads(context: Any, plain: bool) -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 1)) if plain else gd.learn_dropout(nn.Linear(4, 1), p=0.5)
    model, x = model.eval(), data(3, 4)
    expected = gd.sample(model, x, num_samples=4, seed=0)
    before = fingerprint(model)
    with ThreadPoolExecutor(1) as pool:
        with context(model, seed=0):
            with pytest.raises(RuntimeError, match="inside `sampling` or `draw` of another thread"):
                pool.submit(model, x).result()
            with pytest.raises(RuntimeError, match=r"or give this thread a `copy\.deepcopy`"):
                pool.submit(context(model).__enter__).result()
            assert torch.equal(pool.submit(gd.sample, model, x, num_samples=4, seed=0).result(), expected)
        pool.submit(model, x).result()
    assert fingerprint(model) == before


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_contexts_that_are_not_nested_leave_nothing_behind(order: tuple[int, ...]) -> None:
    model = mixed_model()
    before = fingerprint(model)
    contexts = [gd.sampling(model, seed=1), gd.draw(model[0], seed=2), gd.draw(model, seed=3)]
    for context in contexts:
        context.__enter__()
    for i in order:
        contexts[i].__exit__(None, None, None)
    assert fingerprint(model) == before


def test_the_context_that_is_left_goes_on() -> None:
    model, x = mixed_model(), data(5, 6)
    with torch.no_grad():
        with gd.draw(model, seed=2):
            expected = model(x)
        outer, inner = gd.sampling(model, seed=1), gd.draw(model, seed=2)
        outer.__enter__()
        inner.__enter__()
        outer.__exit__(None, None, None)
        assert torch.equal(model(x), expected)
        inner.__exit__(None, None, None)


@pytest.mark.parametrize("context", [gd.sampling, gd.draw])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_that_are_made_inside_a_context_have_nothing_of_it(context: Any, copied: Callable[[Any], Any]) -> None:
    model, x = mixed_model(), data(5, 6)
    with context(model):
        other = copied(model)
    assert torch.equal(other(x), model.eval()(x))
    assert torch.equal(gd.sample(other, x, num_samples=4, seed=0), gd.sample(model, x, num_samples=4, seed=0))
    other.train()
    assert not torch.equal(other(x), other(x))


class Branches(nn.Module):
    """Modules that other attributes refer to as well."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.layers = [self.first, self.second]
        self.by_name = {"first": self.first}
        self.call = self.second.forward
        self.__dict__["also"] = self.first
        self.partial = functools.partial(nn.Module.__call__, self.second)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return self.partial(self.by_name["first"](self.also(x)))


def test_references_between_modules_lead_to_the_twins() -> None:
    model, x = converted(Branches()).train(), data(5, 4)
    with torch.no_grad():
        expected = []
        for seed in range(40):
            with gd.draw(model, seed=seed):
                expected.append(model(x))
    found = torch.cat([gd.sample(model, x, num_samples=1, seed=seed) for seed in range(40)])
    torch.testing.assert_close(found, torch.stack(expected))
    assert all(module.training for module in model.modules())
