"""Draws that run at once against the loop over draws: the same seed gives the same functions, however they run."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.layers import ConcreteDropout, PiecewiseLinear
from gumdrop.likelihoods.prediction import RunningMoments
from gumdrop.networks import mlp
from gumdrop.networks.dense import DenseFunctions
from gumdrop.prediction import draws
from gumdrop.prediction.inputs import arguments

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


class Primed(nn.Module):
    """A recurrent layer whose first state comes from a dropped layer, and its sequences do not."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.rnn, self.head = nn.Linear(3, 5), nn.GRU(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x.transpose(0, 1), self.start(x.mean(1)).tanh()[None])[0][-1])


def convolutional() -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(2, 6), nn.ReLU(inplace=True), nn.AvgPool2d(2))
    return converted(nn.Sequential(stem, nn.Conv2d(6, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 9, 2)))


CHAINS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "dense": lambda: (dense(), data(9, 4)),
    "one row": lambda: (dense(), data(1, 4)),
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
STACKED: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "noise, ReLU": lambda: (mlp(4, 1, hidden=(6,), homoscedastic_noise=True, p=0.3), data(9, 4)),
    "SiLU": lambda: (converted(nn.Sequential(nn.Linear(4, 6), nn.SiLU(), nn.Linear(6, 2))), data(9, 4)),
    "one layer": lambda: (converted(nn.Sequential(nn.Linear(4, 2))), data(9, 4)),
    "encoded": lambda: (mlp(4, 2, hidden=(6, 5), p=0.3, encoding=PiecewiseLinear.fitted(data(40, 4), 3)), data(9, 4)),
}
BATCHED: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "residual": lambda: (converted(nn.Sequential(nn.Linear(4, 6), Residual(6), nn.Linear(6, 2))), data(9, 4)),
    "softmax over rows": lambda: (converted(nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=0))), data(9, 4)),
    "lstm": lambda: (converted(Recurrent(nn.LSTM, batch_first=True)), data(9, 6, 3)),
    "lstm, two layers, hidden state dropped": lambda: (
        converted(Recurrent(nn.LSTM, num_layers=2), recurrent=True), data(9, 6, 3)
    ),
    "gru, both directions": lambda: (converted(Recurrent(nn.GRU, bidirectional=True, batch_first=True)), data(9, 6, 3)),
    "gru, first state dropped": lambda: (converted(Primed()), data(9, 6, 3)),
    "rnn, time first": lambda: (converted(Recurrent(nn.RNN)), data(9, 6, 3)),
    "lstm without sites": lambda: (
        converted(nn.Sequential(nn.Linear(3, 3), Recurrent(nn.LSTM, batch_first=True)), types=nn.Linear), data(9, 6, 3)
    ),
    "words": lambda: (converted(Words(), embeddings=True), torch.arange(20).reshape(4, 5) % 11),
    "transformer": lambda: (converted(Transformer()), torch.arange(20).reshape(4, 5) % 11),
}  # fmt: skip
MODELS = {**STACKED, **CHAINS, **BATCHED}
APART = [name for name in BATCHED if name != "softmax over rows"]


@contextlib.contextmanager
def alone(way: str) -> Iterator[pytest.MonkeyPatch]:
    """Leave one way to run a model, so that one which needs another is an error."""
    ways = draws._Call.ways
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws._Call, "ways", lambda call: [each for each in ways(call) if way in repr(each)])
        yield patch


def by_loop(model: nn.Module, x: Any, num_samples: int = S, **options: Any) -> Tensor:
    with alone("_one_by_one"):
        return gd.sample(model, x, num_samples=num_samples, seed=3, **options)


def at_once(model: nn.Module, x: Any, num_samples: int = S, **options: Any) -> Tensor:
    with alone("_at_once") as patch:
        patch.setattr(draws, "LEAST_AT_ONCE", 1)
        return gd.sample(model, x, num_samples=num_samples, seed=3, **options)


def assert_same(one: Tensor, other: Tensor) -> None:
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.05}[one.dtype]
    torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance)


class TestSameAsTheLoop:
    @pytest.mark.parametrize("budget", [1, 300, 2**21])
    @pytest.mark.parametrize("name", STACKED)
    def test_stacks(self, name: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = STACKED[name]()
        expected = by_loop(model, x)
        assert expected.std(0).max() > 0
        monkeypatch.setattr(draws, "CACHED", budget)
        with alone("_of_dense"):
            assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)
            assert_same(gd.sample(model, x, num_samples=S, seed=3, batch_size=2), expected)

    @pytest.mark.parametrize("budget", [1, 300, 2**21])
    @pytest.mark.parametrize("name", [name for name in [*CHAINS, *BATCHED] if name != "channels last"])
    def test_any_model_that_can_be_batched(self, name: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = MODELS[name]()
        expected = by_loop(model, x)
        monkeypatch.setattr(draws, "CACHED", budget)
        assert_same(at_once(model, x), expected)

    @pytest.mark.parametrize("name", [*APART, "tokens", "convolutional", "plain"])
    def test_batch_size_and_number_of_draws(self, name: str) -> None:
        plain = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.3), nn.Linear(6, 2))
        model, x = (plain, data(9, 4)) if name == "plain" else MODELS[name]()
        expected = by_loop(model, x)
        assert_same(gd.sample(model, x, num_samples=S, seed=3, batch_size=2), expected)
        assert_same(gd.sample(model, x, num_samples=3 * S, seed=3)[:S], expected)

    def test_output_of_each_draw(self) -> None:
        model, x = dense(), data(9, 4)

        def output(result: Tensor) -> Tensor:
            return result - result.mean(0)  # over the rows, of one draw

        assert_same(gd.sample(model, x, num_samples=S, seed=3, output=output), by_loop(model, x, output=output))

    @pytest.mark.parametrize("name", ["dense", "convolutional", "residual"])
    def test_under_autocast(self, name: str) -> None:
        model, x = MODELS[name]()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            expected = by_loop(model, x)
            ours = gd.sample(model, x, num_samples=S, seed=3)
        assert ours.dtype == expected.dtype == torch.bfloat16
        assert_same(ours, expected)

    def test_a_chain_that_is_being_trained(self) -> None:
        """It runs without a twin; only batch normalisation asks for the mode."""
        model, x = converted(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))), data(9, 4)
        model.train()(x)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        expected = by_loop(model, x)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)
        assert_same(gd.sample(model.eval(), x, num_samples=S, seed=3), expected)
        torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)


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


class Smoothing(RememberingInBuffer):
    """Its state goes from call to call."""

    def forward(self, x: Tensor) -> Tensor:
        self.last = self.inner(x) + 0.5 * self.last
        return self.last


class Overwriting(Forked):
    def forward(self, x: Tensor) -> Tensor:
        result = torch.zeros(len(x), 2)
        result[:] = self.inner(x)
        return result


class TestWhatOnlyTheLoopCanDo:
    @pytest.mark.parametrize("make", [Forked, Remembering, RememberingInBuffer, Overwriting, Smoothing])
    def test_forward(self, make: type[nn.Module]) -> None:
        model, x = converted(make()), data(9, 4)
        expected = by_loop(model, x)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)
        if make is Remembering:
            assert not hasattr(model, "last")  # what a prediction keeps in its modules goes with its twin
        if make is RememberingInBuffer:
            assert torch.equal(model.last, torch.zeros(1))  # type: ignore[arg-type]

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
        monkeypatch.setattr(draws, "LEAST_AT_ONCE", 1)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), expected)
        assert len(calls) > 3

    @pytest.mark.parametrize("everywhere", [False, True])
    def test_hooks_see_ordinary_draws(self, everywhere: bool) -> None:
        model, x, seen = dense(), data(9, 4), []

        def watch(module: nn.Module, args: Any, result: Tensor) -> None:
            if isinstance(module, nn.Linear) and module.in_features == 4:
                seen.append(tuple(result.shape))

        register = nn.modules.module.register_module_forward_hook if everywhere else model[0].register_forward_hook
        with register(watch):
            gd.sample(model, x, num_samples=S, seed=3)
        assert seen == [(9, 6)] * S

    def test_errors_are_those_of_one_draw(self) -> None:
        with pytest.raises(TypeError, match=r"input must be a floating tensor, got torch\.int64"):
            gd.sample(dense(), torch.ones(9, 4).long())
        for x in (torch.ones(9), torch.ones(9, 0), torch.ones(9, 3)):
            with pytest.raises(ValueError, match="must have 4 units at dimension -1, got shape"):
                gd.sample(dense(), x)

    def test_statistics_of_the_batch(self) -> None:
        """Batch normalisation without running statistics mixes rows: those of a draw, never those of several."""
        model = converted(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 2)))
        x = data(9, 4)
        assert_same(gd.sample(model, x, num_samples=S, seed=3), by_loop(model, x))


class TestRatesOfZeroOrOne:
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
    def test_sites_that_rest_in_other_models(self, name: str) -> None:
        model, x = BATCHED[name]()
        sites = [site for site in model.modules() if isinstance(site, ConcreteDropout)]
        for resting in (sites[:1], sites):
            for site in resting:
                set_logit(site, -30.0)
            assert_same(at_once(model, x), by_loop(model, x))

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

    @pytest.mark.parametrize("name", MODELS)
    def test_same_as_the_loop(self, name: str) -> None:
        model, x = MODELS[name]()
        self.with_rates(model, 0.03)
        assert_same(gd.sample(model, x, num_samples=40, seed=3), by_loop(model, x, 40))

    def test_rows_that_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = self.with_rates(mlp(4, 2, hidden=[6, 6]), 0.03), data(9, 4)
        distinct = len(by_loop(model, x, 40).unique(dim=0))
        run, counts = DenseFunctions.outputs, []

        def counted(dense: DenseFunctions, x: Tensor, factors: list[Tensor]) -> Tensor:
            counts.append(len(factors[0][0]))
            return run(dense, x, factors)

        monkeypatch.setattr(DenseFunctions, "outputs", counted)
        gd.sample(model, x, num_samples=40, seed=3)
        assert len(counts) == 1
        assert distinct <= counts[0] < 30  # masks that differ in units that are 0 are one function, too


class TestMemory:
    @pytest.mark.parametrize("name", MODELS)
    def test_chunks_are_bounded(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model, x = MODELS[name]()
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


class Interrupted:
    """The context of vmap, which an interrupt leaves before its body: the generator that would end it stays."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __enter__(self) -> None:
        self.context.__enter__()
        raise KeyboardInterrupt

    def __exit__(self, *args: object) -> None:
        """Not reached."""


@pytest.mark.parametrize("where", ["_vmap_increment_nesting", "_vmap_decrement_nesting", "vmap_increment_nesting"])
def test_an_interrupt_inside_vmap_breaks_no_later_prediction(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = converted(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Softplus(), nn.Linear(4, 2))), torch.randn(5, 3)
    expected = gd.sample(model, x, num_samples=3, seed=0)
    inside, count = torch._functorch.vmap, torch._C._functorch.get_dynamic_layer_stack_depth
    own = getattr(inside, where)

    def interrupted(*args: Any) -> Any:
        if where == "vmap_increment_nesting":
            return Interrupted(own(*args))
        if "increment" in where:
            own(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(inside, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            gd.sample(model, x, num_samples=3, seed=0)
    assert count() == 0
    assert torch.equal(gd.sample(model, x, num_samples=3, seed=0), expected)


# Random numbers that no module owns


class OwnNoise(nn.Module):
    """A forward that goes on with something random."""

    def __init__(self, noise: Callable[[Tensor], Tensor], p: float = 0.4) -> None:
        super().__init__()
        self.layer, self.noise = nn.Linear(4, 4), noise
        gd.learn_dropout(self, p=p)

    def forward(self, x: Tensor) -> Tensor:
        return self.noise(self.layer(x).exp())


@pytest.mark.parametrize("p", [0.4, 1e-9])
@pytest.mark.parametrize("noise", [F.dropout, lambda x: nn.Dropout(0.3)(x), lambda x: x + torch.randn_like(x)])
def test_own_random_numbers_are_told_once(noise: Callable[[Tensor], Tensor], p: float) -> None:
    model, x = OwnNoise(noise, p), torch.ones(3, 4)
    state = torch.get_rng_state()
    with pytest.warns(UserWarning, match="random numbers in predictions that no module owns"):
        drawn = gd.sample(model, x, num_samples=S, seed=0)
    assert torch.equal(torch.get_rng_state(), state)
    assert len(drawn.flatten(1).unique(dim=0)) == S  # also where all units are kept
    assert torch.equal(gd.sample(model, x, num_samples=S, seed=0), drawn)


@pytest.mark.parametrize("p", [0.4, 1e-9])
def test_random_numbers_that_change_nothing_are_not_told(p: float) -> None:
    def drawn_in_vain(x: Tensor) -> Tensor:
        torch.rand(())
        return x

    gd.sample(OwnNoise(drawn_in_vain, p), torch.ones(3, 4), num_samples=S, seed=0)


def test_plain_dropout_is_owned() -> None:
    model = nn.Sequential(OwnNoise(lambda x: x + 0 * torch.rand(())), nn.Dropout(0.5))
    gd.sample(model, torch.ones(3, 4), num_samples=S, seed=0)
