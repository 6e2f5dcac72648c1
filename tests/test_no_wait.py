"""No path waits for its device in a step: neither for a number of it, nor for one that is sent to it.

No GPU is needed. Tensors of the meta device have no numbers, so whatever asks for one fails, as it would wait on a GPU;
a copy to the device that waits is found by the operations and functions that make one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import gumdrop as gd
from gumdrop.attribution import search
from gumdrop.attribution.infills import RANDOM, make_infill
from gumdrop.attribution.masks import find_layout
from gumdrop.attribution.targets import log_odds
from gumdrop.ensembles import RegressionEnsemble
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.layers import PiecewiseLinear, dropout_blocks
from gumdrop.likelihoods import Gaussian
from gumdrop.networks import mlp
from gumdrop.networks.stacked import StackedMLP
from gumdrop.prediction import draws
from gumdrop.training import single, stacked
from gumdrop.training.data import StackedRows, prepared
from gumdrop.training.held_out_noise import noise_of, without_gradient
from gumdrop.training.in_turn import InTurn
from gumdrop.training.processes.group import ProcessGroup
from gumdrop.training.settings import TrainingSettings
from gumdrop.training.state import TrainingState

META = torch.device("meta")


def devices_of(parts: Any) -> set[str]:
    """Devices of the tensors in a structure; one without dimensions goes along as a number."""
    return {part.device.type for part in tree_leaves(parts) if isinstance(part, Tensor) and part.ndim}


class _Copies(TorchDispatchMode):
    """Refuse operations that bring numbers of the CPU to the device and wait until they are there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        waits = not (kwargs.get("non_blocking") or (func is torch.ops.aten.copy_.default and args[2:] == (True,)))
        if waits and {"cpu", "meta"} <= devices_of((args, kwargs, result)):
            raise AssertionError(f"{func} waits for a copy to the device")
        return result


class _Lists(TorchFunctionMode):
    """Refuse tensors that are made on the device from numbers of Python, which is a copy that waits."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        makes = func in (torch.tensor, torch.as_tensor, Tensor.new_tensor)
        if makes and result.device == META and not isinstance(args[-1], Tensor):
            raise AssertionError(f"{func} sends numbers of Python to the device, and waits")
        return result


@contextmanager
def no_wait() -> Iterator[None]:
    with _Lists(), _Copies():
        yield


def end_of_epoch() -> Any:
    """The one place of an epoch that asks for numbers."""
    return pytest.raises(NotImplementedError, match="Cannot copy out of meta")


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: bool((x > 0).all()),
        lambda x: x.cpu(),
        lambda x: x.nonzero(),
        lambda x: x[torch.tensor([0, 1])],
        lambda x: x.new_tensor([1.0, 2.0]),
        lambda x: torch.tensor([1.0, 2.0], device=META),
        lambda x: torch.ones(3).to(META),
        lambda x: x.copy_(torch.ones(3)),
    ],
)
def test_the_net_catches(wait: Callable[[Tensor], Any]) -> None:
    with no_wait(), pytest.raises((AssertionError, RuntimeError)):
        wait(torch.empty(3, device=META))


def test_the_net_lets_pass() -> None:
    x = torch.empty(3, device=META)
    with no_wait():
        torch.ones(3).to(META, non_blocking=True)
        x * torch.tensor(2.0) + 3.0
        torch.full((), 2.0, device=META)


class Reader(nn.Module):
    """A recurrent network of some kind with a head."""

    def __init__(self, lstm: nn.RNNBase) -> None:
        super().__init__()
        self.lstm, self.head = lstm, nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def pictures() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


def attention() -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Flatten(), nn.Linear(20, 2))


def bins() -> nn.Module:
    encoding = PiecewiseLinear.fitted(torch.randn(50, 4), 4)
    return nn.Sequential(encoding, nn.Linear(encoding.num_outputs, 8), nn.SiLU(), nn.Linear(8, 2))


def words() -> nn.Module:
    return nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 2))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], dict[str, Any]]] = {
    "dense": (dense, (6, 4), {}),
    "a rate for each unit": (dense, (6, 4), {"per_unit": True}),
    "bins": (bins, (6, 4), {}),
    "spatial": (pictures, (6, 3, 5, 5), {}),
    "recurrent": (lambda: Reader(nn.LSTM(4, 8, batch_first=True)), (6, 5, 4), {}),
    "recurrent, hidden states": (lambda: Reader(nn.GRU(4, 8, batch_first=True)), (6, 5, 4), {"recurrent": True}),
    "attention": (attention, (6, 5, 4), {}),
    "words": (words, (6, 5), {"types": (nn.Embedding, nn.Linear)}),
}


def on_device(name: str) -> tuple[nn.Module, Tensor]:
    make, shape, options = NETWORKS[name]
    model = gd.learn_dropout(make(), report=lambda report: None, **options).to(META)
    x = torch.empty(shape, device=META)
    return model, x.long() if name == "words" else x


LIKELIHOODS: dict[str, Callable[[Tensor], Tensor]] = {
    "gaussian": lambda out: gd.gaussian_nll(*out.chunk(2, -1), out.new_ones(6, 1)),
    "categorical": lambda out: gd.categorical_nll(out, out.new_zeros(6, dtype=torch.long)),
    "bernoulli": lambda out: gd.bernoulli_nll(out, out.new_ones(6, 2)),
    "poisson": lambda out: gd.poisson_nll(out, out.new_ones(6, 2)),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("fixed", [False, True])
def test_a_training_step(name: str, fixed: bool) -> None:
    model, x = on_device(name)
    if fixed:
        gd.fix_dropout(model)
    optimizer = torch.optim.SGD(model.train().parameters(), lr=0.1)
    with no_wait():
        for _ in range(2):
            loss = gd.negative_elbo(LIKELIHOODS["categorical"](model(x)), model, num_data=100, likelihood="poisson")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert all(block.weight.grad is not None for block in dropout_blocks(model))


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("lengthscale", [None, 1.0, "fan_in"])
def test_the_objective(likelihood: str, lengthscale: Any) -> None:
    model, x = on_device("dense")
    with no_wait():
        gd.negative_elbo(
            LIKELIHOODS[likelihood](model.train()(x)),
            model,
            num_data=100,
            likelihood=likelihood,
            lengthscale=lengthscale,
        ).backward()


@pytest.mark.parametrize("home", ["cpu", "meta"])
@pytest.mark.parametrize("options", [{}, {"max_norm": 1.0, "accumulate": 2}, {"held_out_noise": True}])
def test_steps_of_fit(options: dict[str, Any], home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *args, **kwargs: nullcontext())  # which knows no meta device
    monkeypatch.setattr(single, "STEPS_BETWEEN_NOISE", 1)
    model = mlp(4, 1, hidden=[8], homoscedastic_noise=True).to(META)
    rows = torch.zeros(6, 4, device=home), torch.zeros(6, 1, device=home)
    noise = noise_of(model, rows) if options.get("held_out_noise") else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = TrainingState(model, optimizer, steps=3, settings={}, checkpoint=None)
    learner = single._Single(
        model=model,
        network=model,
        data=prepared(rows),
        held_out=prepared(rows),
        likelihood=Gaussian(),
        noise=noise,
        num_data=6,
        settings=TrainingSettings(epochs=1, batch_size=2, **options),
        group=ProcessGroup(),
    )
    with without_gradient([] if noise is None else [noise]), no_wait(), end_of_epoch():
        learner.train(1, state)
    assert state.steps == 3


@pytest.mark.parametrize("home", ["cpu", "meta"])
@pytest.mark.parametrize("stack_of", [StackedMLP, InTurn])
def test_an_epoch_of_fit_stacked(stack_of: type[Any], home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "STEPS_BETWEEN_NOISE", 1)
    models = [mlp(4, 1, hidden=[8], homoscedastic_noise=True).to(META) for _ in range(2)]
    x, y = torch.zeros(6, 4, device=home), torch.zeros(6, 1, device=home)
    data = StackedRows([(x, y)] * 2, [torch.arange(6)] * 2, None, META)
    settings = TrainingSettings(epochs=1, batch_size=2, held_out_noise=True)
    with without_gradient([noise_of(model, x) for model in models]):
        stack = stack_of(models)
        optimizer = torch.optim.SGD(stack.groups(0.0, 0.1), lr=0.1)
        state = TrainingState(stack, optimizer, steps=3, settings={}, checkpoint=None, states=stack.states)
        with no_wait(), end_of_epoch():
            stacked._Stacked(stack, data, data, Gaussian(), settings, False).train(1, state)
    assert state.steps == 3


@pytest.mark.parametrize("kind", ["plain", "a sum of squares", "uniform", "local_shuffle"])
def test_steps_of_an_attribution(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("_check_varies", "check_finite"):  # after the first step and the last
        monkeypatch.setattr(search, check, lambda *args: None)
    model = pictures().to(META).eval()
    x, scores = torch.empty(6, 3, 5, 5, device=META), torch.empty(6, device=META)
    layout = find_layout(x, None)
    infill = make_infill(kind if kind in RANDOM else "zeros", x, layout)
    score = (lambda output, target: output.square().sum(1)) if kind == "a sum of squares" else log_odds
    target = None if kind == "a sum of squares" else torch.empty(6, dtype=torch.long, device=META)
    task = search.Task(x, infill, target, scores, scores, (), layout, (5, 5))
    settings = search.FIDOSettings(iterations=3, num_samples=2)
    with no_wait(), torch.no_grad():
        found = search.Search(model, score, settings, chunk_size=8)(
            task, seed=0, rows=torch.arange(6, device=META), advance=lambda: None
        )
    assert found.curves.shape == (2, 3, 6)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_calls_of_a_drawn_network(fresh: bool, name: str) -> None:
    model, x = on_device(name)
    drawn = gd.draw(model, seed=0, fresh=fresh)
    with no_wait(), torch.no_grad():
        drawn(x)


def test_functions_of_an_ensemble() -> None:
    members = [mlp(4, 1, hidden=[8], homoscedastic_noise=True) for _ in range(2)]
    ensemble = RegressionEnsemble(members, NoiseFunction(4, 1)).to(META)
    with no_wait():
        functions = ensemble.functions(10, seed=0)
        (result,) = functions.outputs(torch.empty(6, 4, device=META))
    assert result.shape == (10, 6, 1)


PREDICTIONS: dict[str, Callable[[nn.Module, Tensor], object]] = {
    "moments of numbers": lambda model, x: gd.predict_regression(model, x, num_samples=40, seed=0, keep_draws=False),
    "classes": lambda model, x: gd.predict_classification(model, x, num_samples=40, seed=0),
    "counts": lambda model, x: gd.predict_counts(model, x, num_samples=40, seed=0),
    "draws": lambda model, x: gd.sample(model, x, num_samples=40, seed=0),
    "batches": lambda model, x: gd.sample(model, x, num_samples=40, seed=0, batch_size=4),
    "rows of the CPU": lambda model, x: gd.sample(model, iter([(torch.zeros(6, 4),)]), num_samples=40, seed=0),
}


@pytest.mark.parametrize("kind", PREDICTIONS)
def test_kinds_of_predictions(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "fetched", lambda logits: torch.full((sum(x.numel() for x in logits),), -2.0))
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device=None: False)
    model, x = on_device("dense")
    with no_wait():
        PREDICTIONS[kind](model, x)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("rate", "in_turn"), [(0.1, False), (0.1, True), (1e-12, False)])
def test_draws_of_a_prediction(name: str, rate: float, in_turn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates are read once, before the first draw; numbers stand for them here."""
    model, x = on_device(name)
    reads: list[int] = []

    def fetched(logits: list[Tensor]) -> Tensor:
        assert devices_of([each.reshape(-1) for each in logits]) == {"meta"}
        reads.append(len(logits))
        return torch.logit(torch.full((sum(each.numel() for each in logits),), rate))

    monkeypatch.setattr(draws, "fetched", fetched)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device=None: False)
    monkeypatch.setattr(draws.MaskNoise, "restore", lambda noise, state: pytest.fail("another way was taken"))
    if in_turn:
        monkeypatch.setattr(draws._Call, "ways", lambda call: iter([call._one_by_one]))
    warned = pytest.warns(UserWarning, match="none of the 40 draws") if rate < 1e-7 else nullcontext()
    with no_wait(), warned:
        prediction = gd.predict_regression(model, x, num_samples=40, seed=0)
    assert prediction.epistemic.device == META
    assert reads == [len(list(dropout_blocks(model)))]
