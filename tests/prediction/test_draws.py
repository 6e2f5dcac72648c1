"""Draws that run at once against the loop over draws: the same seed gives the same functions, however they run."""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.layers import ConcreteDropout
from gumdrop.networks import mlp
from gumdrop.prediction.inputs import arguments
from gumdrop.prediction.running import RunningMoments
from gumdrop.prediction.ways import evaluate as draws
from gumdrop.prediction.ways import masks, vmap
from gumdrop.prediction.ways.folding import foldable, folded

from builders.models import Transformer, Words, converted, data, dense
from builders.rates import set_logit

S = 7


class Residual(nn.Module):
    """A block with a forward of its own, around which its input goes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x).relu()


class Recurrent(nn.Module):
    def __init__(self, cls: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.rnn = cls(3, 5, **options)
        self.head = nn.Linear(5 * (1 + self.rnn.bidirectional), 2)

    def forward(self, x: Tensor) -> Tensor:
        if self.rnn.batch_first:
            return self.head(self.rnn(x)[0][:, -1])
        hidden = x.new_full((self.rnn.num_layers, len(x), 5), 0.1)
        state = (hidden, hidden + 0.2) if self.rnn.mode == "LSTM" else hidden
        output, final = self.rnn(x.transpose(0, 1), state)
        return self.head(output[-1] + (final[1] if self.rnn.mode == "LSTM" else final)[-1])


def convolutional() -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(2, 6), nn.ReLU(inplace=True), nn.AvgPool2d(2))
    return converted(nn.Sequential(stem, nn.Conv2d(6, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 9, 2)))


CHAINS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "dense": lambda: (dense(), data(9, 4)),
    "one row": lambda: (dense(), data(1, 4)),
    "mlp": lambda: (mlp(4, 1, hidden=(6,), homoscedastic_noise=True), data(9, 4)),
    "tokens": lambda: (
        converted(nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 2))),
        data(5, 3, 4),
    ),
    "a rate for each unit": lambda: (
        converted(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)), per_unit=True),
        data(9, 4),
    ),
    "not all layers": lambda: (
        converted(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)), exclude=["0"]),
        data(9, 4),
    ),
    "convolutional": lambda: (convolutional(), data(5, 3, 8, 8)),
    "channels last": lambda: (convolutional(), data(5, 3, 8, 8).contiguous(memory_format=torch.channels_last)),
    "one layer": lambda: (converted(nn.Linear(4, 2)), data(9, 4)),
    "float64": lambda: (dense().double(), data(9, 4).double()),
    "bfloat16": lambda: (
        converted(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))).bfloat16(),
        data(9, 4).bfloat16(),
    ),
}
BATCHED: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "residual": lambda: (converted(nn.Sequential(nn.Linear(4, 6), Residual(6), nn.Linear(6, 2))), data(9, 4)),
    "softmax over rows": lambda: (converted(nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=0))), data(9, 4)),
    "lstm": lambda: (converted(Recurrent(nn.LSTM, batch_first=True)), data(9, 6, 3)),
    "lstm, two layers, hidden state dropped": lambda: (
        converted(Recurrent(nn.LSTM, num_layers=2), recurrent=True), data(9, 6, 3)
    ),
    "gru, both directions": lambda: (converted(Recurrent(nn.GRU, bidirectional=True, batch_first=True)), data(9, 6, 3)),
    "rnn, time first": lambda: (converted(Recurrent(nn.RNN)), data(9, 6, 3)),
    "lstm without sites": lambda: (
        converted(nn.Sequential(nn.Linear(3, 3), Recurrent(nn.LSTM, batch_first=True)), types=nn.Linear), data(9, 6, 3)
    ),
    "words": lambda: (converted(Words(), embeddings=True), torch.arange(20).reshape(4, 5) % 11),
    "transformer": lambda: (converted(Transformer()), torch.arange(20).reshape(4, 5) % 11),
}  # fmt: skip


def loop_alone(monkeypatch: pytest.MonkeyPatch, *, folds: bool = False) -> None:
    ways = draws._ways
    monkeypatch.setattr(draws, "_ways", lambda *args: ways(*args)[:1])
    if not folds:
        monkeypatch.setattr(draws, "foldable", lambda model: [])


def batched_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no other way, so that a model that needs the loop is an error."""
    ways = draws._ways
    monkeypatch.setattr(draws, "_ways", lambda *args: ways(*args)[1:2])


def chain_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = draws._ways
    monkeypatch.setattr(draws, "_ways", lambda *args: ways(*args)[2:])


def by_loop(model: nn.Module, x: Any, num_samples: int = S, **options: Any) -> Tensor:
    with pytest.MonkeyPatch.context() as patch:
        loop_alone(patch)
        return gd.sample(model, x, num_samples=num_samples, seed=3, **options)


def assert_same(one: Tensor, other: Tensor) -> None:
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.05}[one.dtype]
    torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


class TestSameAsTheLoop:
    @pytest.mark.parametrize("budget", [1, 300, 2**21])
    @pytest.mark.parametrize("name", CHAINS)
    def test_chains(self, name: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = CHAINS[name]()
        expected = by_loop(model, x)
        assert expected.std(0).max() > 0
        monkeypatch.setattr(draws, "CACHED", budget)
        chain_alone(monkeypatch)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)

    @pytest.mark.parametrize("budget", [1, 2**21])
    @pytest.mark.parametrize("name", [name for name in [*CHAINS, *BATCHED] if name != "channels last"])
    def test_any_model_that_can_be_batched(self, name: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = {**CHAINS, **BATCHED}[name]()
        expected = by_loop(model, x)
        monkeypatch.setattr(draws, "CACHED", budget)
        monkeypatch.setattr(draws._AtOnce, "least", 1)
        batched_alone(monkeypatch)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)

    @pytest.mark.parametrize("name", [name for name in BATCHED if name != "softmax over rows"])
    def test_batch_size(self, name: str) -> None:
        model, x = BATCHED[name]()
        assert_same(gd.sample(model, x, num_samples=S, seed=3, batch_size=2), by_loop(model, x))

    @pytest.mark.parametrize("name", ["dense", "tokens", "convolutional"])
    def test_batch_size_of_chains(self, name: str) -> None:
        model, x = CHAINS[name]()
        assert_same(gd.sample(model, x, num_samples=S, seed=3, batch_size=2), by_loop(model, x))

    def test_output_of_each_draw(self) -> None:
        model, x = dense(), data(9, 4)

        def output(result: Tensor) -> Tensor:
            return result - result.mean(0)  # over the rows, of one draw

        assert_same(gd.sample(model, x, num_samples=S, seed=3, output=output), by_loop(model, x, output=output))

    @pytest.mark.parametrize("name", ["dense", "convolutional", "residual"])
    def test_under_autocast(self, name: str) -> None:
        model, x = {**CHAINS, **BATCHED}[name]()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            expected = by_loop(model, x)
            ours = gd.sample(model, x, num_samples=S, seed=3)
        assert ours.dtype == expected.dtype == torch.bfloat16
        assert_same(ours, expected)

    def test_predictions(self) -> None:
        model, x = dense(), data(9, 4)
        with pytest.MonkeyPatch.context() as patch:
            loop_alone(patch)
            regression = gd.predict_regression(model, x, num_samples=S, seed=3)
            classification = gd.predict_classification(model, x, num_samples=S, seed=3)
        ours = gd.predict_regression(model, x, num_samples=S, seed=3)
        for name in ("mean", "epistemic", "aleatoric", "draw_means", "draw_variances"):
            assert_same(getattr(ours, name), getattr(regression, name))
        classes = gd.predict_classification(model, x, num_samples=S, seed=3)
        assert_same(classes.log_probabilities, classification.log_probabilities)
        assert_same(classes.expected_entropy, classification.expected_entropy)

    def test_a_chain_that_is_being_trained(self) -> None:
        """It runs without a twin; only batch normalisation asks for the mode."""
        model, x = converted(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))), data(9, 4)
        model.train()(x)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        expected = by_loop(model, x)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)
        assert_same(gd.sample(model.eval(), x, num_samples=S, seed=3), expected)
        torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)

    def test_ensemble_of_one_call_each(self) -> None:
        model, x = dense(), data(9, 4)
        assert torch.equal(gd.sample(model, x, num_samples=S, seed=3), gd.sample(model, x, num_samples=S, seed=3))
        longer = gd.sample(model, x, num_samples=3 * S, seed=3)
        assert_same(longer[:S], gd.sample(model, x, num_samples=S, seed=3))


class Pictures(nn.Module):
    """Maps that are larger than the kernels, and a dense layer whose weight is larger than its input."""

    def __init__(self, dims: int) -> None:
        super().__init__()
        convolution = [nn.Conv1d, nn.Conv2d, nn.Conv3d][dims - 1]
        transposed = [nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d][dims - 1]
        self.first = convolution(3, 4, 2)
        self.again = convolution(4, 4, 1)
        self.grouped = convolution(4, 4, 1, groups=2)
        self.up = transposed(4, 5, 2, stride=2)
        self.head = nn.Linear(5 * 9**dims, 20)

    def forward(self, x: Tensor) -> Tensor:
        x = self.grouped(self.again(self.again(self.first(x).relu())))
        return self.head(self.up(x, output_size=[9] * (x.ndim - 2)).flatten(1))


class NormalisedWeights(nn.Module):
    """A forward that asks a site itself, a direct ``forward``, which no dropout reaches, and masks for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.site, self.direct, self.rows = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(self.site.concrete_dropout(x), F.normalize(self.site.weight))
        x = self.direct.forward(x)
        with gd.sampling(self.rows, seed=1, shared=False):
            return self.rows(x)


class Threads(nn.Module):
    """Branches that run at once."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.head = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(self.branch, (x, x.flip(-1)))
        return self.head(one + other).mean((2, 3))


def contents(model: nn.Module) -> list[dict[str, int]]:
    """Identity of everything that a model's modules hold."""
    return [{name: id(value) for name, value in (*vars(m).items(), *m._parameters.items())} for m in model.modules()]


class TestFolded:
    """Columns of weights that are dropped in place of the units of larger inputs."""

    @pytest.mark.parametrize("name", [*CHAINS, *BATCHED])
    def test_same_as_dropped_inputs(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = {**CHAINS, **BATCHED}[name]()
        expected = by_loop(model, x)
        loop_alone(monkeypatch, folds=True)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    @pytest.mark.parametrize("dims", [1, 2, 3])
    def test_convolutions(self, dims: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = converted(Pictures(dims)).to(dtype), data(2, 3, *[5] * dims).to(dtype)
        assert {layer for layer, site in foldable(model)} == {model.first, model.again, model.up, model.head}
        before = contents(model), {name: value.clone() for name, value in model.state_dict().items()}
        expected = by_loop(model, x)
        loop_alone(monkeypatch, folds=True)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)
        assert contents(model) == before[0]
        torch.testing.assert_close(dict(model.state_dict()), before[1], rtol=0, atol=0)

    def test_the_smaller_one_is_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = converted(nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 50))), data(9, 6)
        seen = []
        linear = F.linear
        monkeypatch.setattr(F, "linear", lambda x, weight, bias: seen.append((x, weight)) or linear(x, weight, bias))
        loop_alone(monkeypatch, folds=True)
        gd.sample(model, x, num_samples=S, seed=3)
        for (wide, small_weight), (narrow, large_weight) in zip(seen[::2], seen[1::2], strict=True):
            assert torch.equal(wide, x)
            assert large_weight is model[1].weight
            ratio = small_weight / model[0].weight
            torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))  # whole columns
            torch.testing.assert_close(ratio, torch.where(ratio > 0, 1 / 0.7, 0.0))
            assert set((narrow == 0).sum(0).tolist()) <= {0, 9}
        assert any((weight == 0).any() for _, weight in seen[::2])
        assert any((x == 0).any() for x, _ in seen[1::2])

    def test_a_short_last_part_is_rounded_as_the_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = converted(nn.Linear(64, 100)).bfloat16(), data(1, 64).bfloat16().expand(301, 64)
        loop_alone(monkeypatch, folds=True)
        y = gd.sample(model, x, num_samples=S, seed=3, batch_size=150)
        # Another kernel for one row rounds few of them otherwise; with masks on the other factor half would differ.
        assert (y[:, -1] == y[:, 0]).float().mean() > 0.8
        torch.testing.assert_close(y[:, -1], y[:, 0])

    def test_only_calls_of_layers_are_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = converted(NormalisedWeights()), data(9, 4)
        expected = by_loop(model, x)
        loop_alone(monkeypatch, folds=True)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)

    def test_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = converted(Threads()), data(4, 3, 32, 32)
        before = contents(model)
        loop_alone(monkeypatch, folds=True)
        gd.sample(model, x, num_samples=100, seed=3)
        assert contents(model) == before

    def test_an_error_leaves_nothing_behind(self) -> None:
        model = converted(Pictures(2))
        before = contents(model)
        with pytest.raises(ValueError, match="must have 3 units at dimension -3, got shape"):
            gd.sample(model, data(2, 4, 5, 5))
        with pytest.raises(ValueError, match="requested an output size"):
            gd.sample(model, data(2, 3, 9, 9))
        assert contents(model) == before

    def test_what_is_left_as_it_is(self) -> None:
        """Layers of which someone else has changed something, and sites with another meaning."""
        assert not foldable(torch.compile(converted(Pictures(2)), backend="eager"))
        model = converted(Pictures(2))
        model.up.register_forward_hook(lambda module, args, result: None)
        model.again.forward = functools.partial(type(model.again).forward, model.again)
        torch.nn.utils.parametrizations.weight_norm(model.first)
        assert [layer for layer, site in foldable(model)] == [model.head]
        site = model.head.concrete_dropout
        site.forward = functools.partial(type(site).forward, site)
        assert not foldable(model)
        with folded(foldable(other := converted(nn.Linear(4, 2)))):
            assert not foldable(other)
        last = converted(nn.Conv1d(6, 6, 1), custom={nn.Conv1d: lambda layer: layer.weight[:, :, 0]})
        assert not foldable(last)

    def test_one_weight_in_two_layers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one, other = nn.Linear(3, 3), nn.Linear(3, 3)
        other.weight = one.weight
        model = converted(nn.Sequential(one, nn.ReLU(), other))
        assert len(foldable(model)) == 2
        assert foldable(model)[0][1] is foldable(model)[1][1]
        x = data(9, 3)
        expected = by_loop(model, x)
        loop_alone(monkeypatch, folds=True)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)


class Forked(nn.Module):
    """Takes its way by the values of a draw."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return y if y.sum() > 0 else -y


class Remembering(Forked):
    def forward(self, x: Tensor) -> Tensor:
        self.last = self.inner(x)
        return self.last


class RememberingInBuffer(Forked):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.last = self.inner(x)
        return self.last


class Overwriting(Forked):
    def forward(self, x: Tensor) -> Tensor:
        result = torch.zeros(len(x), 2)
        result[:] = self.inner(x)
        return result


class TestDrawsInCommon:
    """Draws that drop the same units of a recurrent layer's input are one, where few units make them likely."""

    @pytest.mark.parametrize(("p", "most"), [(0.3, 2**3), (0.6, 40)])
    @pytest.mark.parametrize("batch_size", [None, 4])
    def test_each_is_run_once(
        self, p: float, most: int, batch_size: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model, x = gd.learn_dropout(Recurrent(nn.LSTM, batch_first=True), p=p), data(9, 6, 3)
        expected = by_loop(model, x, num_samples=40)
        rows: list[int] = []
        run = vmap._run_folded

        def counted(*args: Any) -> tuple[Tensor, ...]:
            rows.append(args[4])
            return run(*args)

        monkeypatch.setattr(vmap, "_run_folded", counted)
        monkeypatch.setattr(vmap, "COPIED", 1000)
        monkeypatch.setattr(draws._AtOnce, "first_count", 40)
        monkeypatch.setattr(draws, "CACHED", 2 * 9 * 6 * 5 * 4)  # two draws of the output
        batched_alone(monkeypatch)
        ours = gd.sample(model, x, num_samples=40, seed=3, batch_size=batch_size)
        assert_same(ours, expected)
        parts = 1 if batch_size is None else 3
        assert sum(rows) <= most * parts
        assert batch_size is not None or p != 0.3 or max(rows) == 2  # memory is bounded by the budget


class TestWhatOnlyTheLoopCanDo:
    @pytest.mark.parametrize("make", [Forked, Remembering, RememberingInBuffer, Overwriting])
    def test_forward(self, make: type[nn.Module]) -> None:
        model, x = converted(make()), data(9, 4)
        expected = by_loop(model, x)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)
        if make is Remembering:
            assert not hasattr(model, "last")  # what a prediction keeps in its modules goes with its twin
        if make is RememberingInBuffer:
            assert torch.equal(model.last, torch.zeros(1))  # type: ignore[arg-type]

    def test_state_that_goes_from_call_to_call(self) -> None:
        class Smoothing(RememberingInBuffer):
            def forward(self, x: Tensor) -> Tensor:
                self.last = self.inner(x) + 0.5 * self.last
                return self.last

        model, x = converted(Smoothing()), data(9, 4)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), by_loop(model, x))

    @pytest.mark.parametrize("make", [Remembering, RememberingInBuffer])
    def test_what_keeps_something_is_not_run_at_once(
        self, make: type[nn.Module], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It would keep several draws, where the loop keeps the last."""
        batched_alone(monkeypatch)
        with pytest.raises(RuntimeError, match="the model keeps something of what it computes"):
            gd.sample(converted(make()), data(9, 4), num_samples=S, seed=3)

    def test_failure_after_some_chunks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[Tensor] = []
        armed: list[bool] = []

        class Failing(nn.Linear):
            def forward(self, x: Tensor) -> Tensor:
                calls.append(x)
                if len(calls) == 3 and armed:
                    raise RuntimeError("no memory")
                return super().forward(x)

        model, x = converted(nn.Sequential(nn.Linear(4, 4), Failing(4, 2)), types=nn.Linear), data(9, 4)
        expected = by_loop(model, x)
        calls.clear()
        armed.append(True)
        monkeypatch.setattr(draws, "CACHED", 2 * 4 * 9 * 4)
        monkeypatch.setattr(draws._AtOnce, "least", 1)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)
        assert len(calls) > 3

    def test_plain_dropout(self) -> None:
        model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.3), nn.Linear(6, 2))
        x = data(9, 4)
        assert torch.equal(gd.sample(model, x, num_samples=S, seed=3), by_loop(model, x))

    def test_hooks_see_ordinary_draws(self) -> None:
        model, x, seen = dense(), data(9, 4), []
        model[0].register_forward_hook(lambda module, args, result: seen.append(result))
        gd.sample(model, x, num_samples=S, seed=3)
        assert [tuple(each.shape) for each in seen] == [(9, 6)] * S

    def test_hooks_on_all_modules_see_ordinary_draws(self) -> None:
        model, x, seen = dense(), data(9, 4), []

        def watch(module, args, result):
            if isinstance(module, nn.Linear) and module.in_features == 4:
                seen.append(tuple(result.shape))

        with nn.modules.module.register_module_forward_hook(watch):
            gd.sample(model, x, num_samples=S, seed=3)
        assert seen == [(9, 6)] * S

    def test_errors_are_those_of_one_draw(self) -> None:
        with pytest.raises(ValueError, match=r"must have 4 units at dimension -1, got shape \(9, 3\)"):
            gd.sample(dense(), data(9, 3))
        with pytest.raises(TypeError, match=r"input must be a floating tensor, got torch\.int64"):
            gd.sample(dense(), torch.ones(9, 4).long())
        for x in (torch.ones(9), torch.ones(9, 0)):
            with pytest.raises(ValueError, match="must have 4 units at dimension -1, got shape"):
                gd.sample(dense(), x)

    def test_statistics_of_the_batch(self) -> None:
        """Batch normalisation without running statistics mixes rows: those of a draw, never those of several."""
        model = converted(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 2)))
        x = data(9, 4)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), by_loop(model, x))


class TestDeterministicPrefix:
    def rows_of(self, monkeypatch: pytest.MonkeyPatch, model: nn.Module, x: Tensor, **options: Any) -> list[int]:
        """Rows that each call of a linear map saw."""
        rows = []
        linear = F.linear

        def counted(x: Tensor, *args: Any) -> Tensor:
            rows.append(len(x))
            return linear(x, *args)

        monkeypatch.setattr(F, "linear", counted)
        gd.sample(model, x, num_samples=S, seed=3, **options)
        return rows

    def test_first_layer_whose_rate_is_zero_to_rounding(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = dense(), data(9, 4)
        set_logit(model[0].concrete_dropout, -30.0)
        expected = by_loop(model, x)
        monkeypatch.setattr(draws, "CACHED", 2 * 4 * 9 * 6)  # two draws
        rows = self.rows_of(monkeypatch, model, x)
        assert rows.count(9) - (S % 2) * 2 == 1  # once; a last chunk of one draw has as many rows in the others
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)

    def test_rates_of_zero_everywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = dense(), data(9, 4)
        for site in model.modules():
            if isinstance(site, ConcreteDropout):
                set_logit(site, -30.0)
        assert self.rows_of(monkeypatch, model, x) == [9, 9, 9]
        assert gd.sample(model, x, num_samples=S, seed=3).shape == (S, 9, 2)
        with pytest.warns(UserWarning, match="none of the 7 draws is likely to drop a unit"):
            prediction = gd.predict_regression(model, x, num_samples=S)
        assert prediction.epistemic.max() == 0

    @pytest.mark.parametrize("name", BATCHED)
    def test_sites_that_rest_in_other_models(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = BATCHED[name]()
        sites = [site for site in model.modules() if isinstance(site, ConcreteDropout)]
        for resting in (sites[:1], sites):
            for site in resting:
                set_logit(site, -30.0)
            expected = by_loop(model, x)
            with pytest.MonkeyPatch.context() as patch:
                batched_alone(patch)
                patch.setattr(draws._AtOnce, "least", 1)
                assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)

    def test_a_rate_of_one(self) -> None:
        model, x = dense(), data(9, 4)
        set_logit(model[3].concrete_dropout, 200.0)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), by_loop(model, x))


class TestEqualDraws:
    """Draws that keep all units are one function, which runs once."""

    def with_rates(self, model: nn.Module, p: float) -> nn.Module:
        for site in model.modules():
            if isinstance(site, ConcreteDropout):
                site.start_at(p)
        return model

    @pytest.mark.parametrize("name", [*CHAINS, *BATCHED])
    def test_same_as_the_loop(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(draws, "EQUAL", 0)
        monkeypatch.setattr(draws._AtOnce, "least", 1)
        model, x = {**CHAINS, **BATCHED}[name]()
        self.with_rates(model, 0.03)
        assert_same(gd.sample(model, x, num_samples=40, seed=3), by_loop(model, x, 40))

    def test_rows_that_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(draws, "EQUAL", 0)
        model, x = self.with_rates(dense(), 0.03), data(9, 4)
        distinct = len(by_loop(model, x, 40).unique(dim=0))
        run, counts = draws.run_chain, set()

        def counted(chain: Any, x: Tensor, chunk: Any) -> Tensor:
            counts.add(chunk.count)
            return run(chain, x, chunk)

        monkeypatch.setattr(draws, "run_chain", counted)
        gd.sample(model, x, num_samples=40, seed=3)
        assert len(counts) == 1
        assert distinct <= counts.pop() < 30  # masks that differ in units that are 0 are one function, too

    def test_few_numbers_are_not_looked_through(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(masks, "distinct_draws", lambda keeps: pytest.fail("looked"))
        gd.sample(self.with_rates(dense(), 1e-3), data(1, 4), num_samples=40, seed=3)


class TestMemory:
    @pytest.mark.parametrize("name", [*CHAINS, *BATCHED])
    def test_chunks_are_bounded(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = {**CHAINS, **BATCHED}[name]()
        budget = 4000
        monkeypatch.setattr(draws, "CACHED", budget)
        monkeypatch.setattr(draws, "LOOPED", 1)
        chunks = []
        for chunk in draws.drawn(model, arguments(x), 50, 3, None, None):
            chunks.append(len(chunk))
            assert chunk.numel() * chunk.element_size() <= budget * draws.RESULTS
        assert sum(chunks) == 50
        widest = max(site.num_units for site in model.modules() if isinstance(site, ConcreteDropout))
        assert max(chunks) * widest * len(x) * x.element_size() // 2 <= max(budget, widest * len(x) * 8)

    def test_input_is_not_changed(self) -> None:
        for make in (*CHAINS.values(), *BATCHED.values()):
            model, x = make()
            before = x.clone()
            gd.sample(model, x, num_samples=S, seed=3)
            assert torch.equal(x, before)


@pytest.mark.parametrize("sizes", [[1, 1, 1, 1, 1], [5], [2, 3], [4, 1]])
def test_running_moments(sizes: list[int]) -> None:
    values = torch.randn(5, 3, 2, dtype=torch.float64) + 1e4
    moments = RunningMoments()
    for part in values.split(sizes):
        moments.add(part)
    torch.testing.assert_close(moments.mean, values.mean(0))
    torch.testing.assert_close(moments.variance, values.var(0, correction=0), rtol=1e-7, atol=0.0)
