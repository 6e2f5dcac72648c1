"""Predictions, drawing and training of one model, side by side in several threads."""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd

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


@pytest.mark.parametrize("fresh", [False, True])
def test_drawn_networks_are_called_in_any_thread(fresh: bool) -> None:
    model, x = mixed_model(), data(5, 6)
    before = fingerprint(model)

    def outputs(seed: int) -> Tensor:
        network = gd.draw(model, seed=seed, fresh=fresh)
        return torch.stack([network(x) for _ in range(3)])

    expected = [outputs(seed) for seed in range(24)]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(outputs, range(24)))
    torch.testing.assert_close(found, expected)
    assert fingerprint(model) == before


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
            drawn = gd.draw(model, seed=seed)
            expected.append(drawn(x))
    found = torch.cat([gd.sample(model, x, num_samples=1, seed=seed) for seed in range(40)])
    torch.testing.assert_close(found, torch.stack(expected))
    assert all(module.training for module in model.modules())
