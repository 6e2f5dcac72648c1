"""Probabilities in the place of logits are noticed, once for each model, and nothing else is taken for them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.training import fit

LOOKS = "look like probabilities, and logits are wanted"
X = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
LABELS = (X[:, 0] > 0).long()


class Ending(nn.Module):
    """A network whose code does something with its outputs at the end."""

    def __init__(self, end: Callable[[Tensor], Tensor], outputs: int) -> None:
        super().__init__()
        self.body, self.end = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, outputs)), end

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.body(x))


def network(end: Callable[[Tensor], Tensor], outputs: int = 2) -> nn.Module:
    return gd.learn_dropout(Ending(end, outputs))


def target(likelihood: str) -> Tensor:
    return LABELS if likelihood == "categorical" else LABELS.float().unsqueeze(1)


PROBABLE: list[tuple[str, int, Any]] = [
    ("categorical", 2, nn.Softmax(1)),
    ("categorical", 2, lambda z: z.softmax(1).clamp(1e-6, 1 - 1e-6)),
    ("categorical", 2, torch.sigmoid),
    ("bernoulli", 1, nn.Sigmoid()),
    ("bernoulli", 1, lambda z: z.squeeze(1).sigmoid().unsqueeze(1)),
]
FINE: list[tuple[str, int, Any]] = [
    ("categorical", 2, nn.Identity()),
    ("categorical", 2, nn.LogSoftmax(1)),
    ("categorical", 2, lambda z: 3 * z.softmax(1)),
    ("categorical", 2, nn.Hardtanh(0.0, 1.0)),
    ("bernoulli", 1, lambda z: 0.1 + 0.01 * z.tanh()),  # all between 0 and 1, as where few features tell much
    ("bernoulli", 1, nn.LogSigmoid()),
]


@pytest.mark.parametrize(("likelihood", "outputs", "end"), PROBABLE)
def test_a_network_that_ends_in_probabilities(likelihood: Any, outputs: int, end: Any) -> None:
    model = network(end, outputs)
    with pytest.warns(UserWarning, match=LOOKS) as caught:
        fit(model, (X, target(likelihood)), likelihood=likelihood, epochs=2)
    assert [each.filename for each in caught] == [__file__]
    fit(model, (X, target(likelihood)), likelihood=likelihood, epochs=1)  # warnings are errors
    with pytest.warns(UserWarning, match=LOOKS) as caught:
        gd.predict_classification(model, X, likelihood=likelihood, num_samples=3)
    assert [each.filename for each in caught] == [__file__]
    gd.predict_classification(model, X, likelihood=likelihood, num_samples=3)


@pytest.mark.parametrize(("likelihood", "outputs", "end"), FINE)
def test_no_false_alarm(likelihood: Any, outputs: int, end: Any) -> None:
    model = network(end, outputs)
    fit(model, (X, target(likelihood)), likelihood=likelihood, epochs=1)
    gd.predict_classification(model, X[:1], likelihood=likelihood, num_samples=2)


def test_a_loop_of_ones_own_and_half_precision() -> None:
    nll = {"categorical": gd.categorical_nll, "bernoulli": gd.bernoulli_nll}
    for likelihood, outputs, end in PROBABLE:
        model = network(end, outputs).bfloat16()
        with pytest.warns(UserWarning, match=LOOKS):
            nll[likelihood](model(X.bfloat16()), target(likelihood))
        nll[likelihood](model(X.bfloat16()), target(likelihood))


def test_a_trained_network_of_which_only_the_numbers_are_known() -> None:
    """Frozen, or not to be called again: probabilities of classes are known by their sum."""
    frozen = network(nn.Softmax(1), 3).requires_grad_(False)
    with pytest.warns(UserWarning, match=LOOKS):
        gd.predict_classification(frozen, X, num_samples=3)
    maps = gd.learn_dropout(nn.Sequential(nn.Conv2d(2, 3, 1), nn.Softmax(1)))
    with pytest.warns(UserWarning, match=LOOKS):
        gd.predict_classification(maps, torch.rand(2, 2, 3, 3), num_samples=3)
    model = network(nn.Sigmoid(), 1)
    with torch.inference_mode(), pytest.warns(UserWarning, match=LOOKS):
        gd.predict_classification(model, X, likelihood="bernoulli", num_samples=3)
    words = gd.learn_dropout(nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(8, 1), nn.Sigmoid()))
    with pytest.warns(UserWarning, match=LOOKS):
        gd.predict_classification(words, torch.randint(9, (5, 2)), likelihood="bernoulli", num_samples=3)
