"""All members at once predict what the members say one by one, and what cannot be stacked is asked one by one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop import HomoscedasticNoise
from gumdrop.ensembles import ClassificationEnsemble, RegressionEnsemble
from gumdrop.ensembles.models import DrawnFunctions
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.layers import ConcreteDropout, PiecewiseLinear
from gumdrop.networks import mlp
from gumdrop.prediction import draws

Ensemble = RegressionEnsemble | ClassificationEnsemble
X = torch.randn(150, 3, generator=torch.Generator().manual_seed(1))


def networks(make: Callable[[], nn.Module]) -> list[nn.Module]:
    """Three networks whose rates and noise differ."""
    torch.manual_seed(0)
    members = [make() for _ in range(3)]
    for i, member in enumerate(members):
        for j, module in enumerate(member.modules()):
            if isinstance(module, ConcreteDropout):
                nn.init.constant_(module.scaled_logit, -0.1 * (i + 1) + 0.01 * j)
            elif isinstance(module, HomoscedasticNoise):
                nn.init.constant_(module.log_variance, -1.0 - i)
    return members


def regression(make: Callable[[], nn.Module]) -> RegressionEnsemble:
    ensemble = RegressionEnsemble(networks(make), noise := NoiseFunction(3, 2))
    noise.weight.uniform_(-0.1, 0.1)
    noise.tail.fill_(0.3)
    return ensemble


WIDE = partial(mlp, 3, 2, hidden=(20, 12))
ENSEMBLES = {
    "one variance": lambda: regression(partial(WIDE, homoscedastic_noise=True)),
    "a variance of the inputs": lambda: regression(partial(mlp, 3, 4, hidden=(8,), activation="silu")),
    "bins": lambda: regression(
        partial(WIDE, homoscedastic_noise=True, encoding=PiecewiseLinear.fitted(X, 6), activation="silu")
    ),
    "fixed rates": lambda: regression(lambda: gd.fix_dropout(WIDE(homoscedastic_noise=True))),
    "classes": lambda: ClassificationEnsemble(networks(partial(mlp, 3, 4, hidden=(20,)))),
}


def one_by_one(ensemble: Ensemble, x: Tensor, **settings: int | None) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(ensemble), "functions", lambda self, num_samples, seed: None)
        return ensemble.predict(x, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", ENSEMBLES.values(), ids=ENSEMBLES.keys())
@pytest.mark.parametrize("num_rows", [1, 150])
def test_all_at_once_is_what_the_members_say(
    make: Callable[[], Ensemble], num_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble, x = make(), X[:num_rows]
    monkeypatch.setattr("gumdrop.ensembles.models.CACHED", draws.CACHED // 512)  # several parts of the rows
    functions = ensemble.functions(10, 7)
    assert isinstance(functions, DrawnFunctions)
    expected = one_by_one(ensemble, x, num_samples=10, seed=7)
    for found in (
        ensemble.predict(x, num_samples=10, seed=7),
        ensemble.predict(x, num_samples=10, seed=7, functions=functions, batch_size=9),
    ):
        for name, value in vars(expected).items():
            if isinstance(value, Tensor):
                torch.testing.assert_close(getattr(found, name), value, rtol=1e-4, atol=1e-6)


def test_functions_are_those_of_the_weights_when_they_were_drawn() -> None:
    ensemble = ENSEMBLES["classes"]()
    one, other = (ensemble.predict(X, num_samples=3) for _ in range(2))
    assert not torch.equal(one.log_probabilities, other.log_probabilities)  # without a seed
    functions = ensemble.functions(4, 1)
    before = ensemble.predict(X, num_samples=4, seed=1, functions=functions)
    for parameter in ensemble.parameters():
        nn.init.zeros_(parameter)
    after = ensemble.predict(X, num_samples=4, seed=1, functions=functions)
    assert torch.equal(before.log_probabilities, after.log_probabilities)
    assert not torch.equal(before.log_probabilities, ensemble.predict(X, num_samples=4, seed=1).log_probabilities)


def test_what_cannot_be_stacked_is_asked_one_by_one() -> None:
    """Members that drop nothing are no fault, since members differ."""
    ensemble = ClassificationEnsemble([WIDE(), mlp(3, 2, hidden=(9, 12))])
    for module in ensemble.modules():
        if isinstance(module, ConcreteDropout):
            nn.init.constant_(module.scaled_logit, -6.0)
    assert ensemble.functions(4, 0) is None
    prediction = ensemble.predict(X, num_samples=4, seed=0)
    assert prediction.probabilities.shape == (150, 2)
    assert (prediction.mutual_information > 0).any()


@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        (X, {"num_samples": 0}, ValueError, "`num_samples` must be at least 1"),
        (X, {"batch_size": 0}, ValueError, "`batch_size` must be at least 1"),
        (X[:0], {}, ValueError, "at least 1, got"),
        (X[:, :2], {}, ValueError, "must have 3 units"),
        (X.double(), {}, RuntimeError, "dtype"),
    ],
)
def test_wrong_arguments_are_refused_as_by_the_members(x: Tensor, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        ENSEMBLES["one variance"]().predict(x, **options)
