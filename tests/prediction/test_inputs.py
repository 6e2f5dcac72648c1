"""What predictions are made of: several inputs, inputs without rows, and loaders with the same functions throughout."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

import gumdrop as gd

from builders.rates import set_logit

PREDICTIONS = [gd.sample, gd.predict_regression, gd.predict_classification, gd.predict_counts]


def numbers(prediction: Any) -> list[Tensor]:
    """All tensors of a result."""
    return (
        [prediction]
        if isinstance(prediction, Tensor)
        else [v for v in vars(prediction).values() if isinstance(v, Tensor)]
    )


def assert_same(one: Any, other: Any) -> None:
    for a, b in zip(numbers(one), numbers(other), strict=True):
        torch.testing.assert_close(a, b)


def network(**options: Any) -> nn.Module:
    return gd.learn_dropout(nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2)), p=0.3, **options)


class Graph(nn.Module):
    """One step of messages between the nodes of a graph; the edges are pairs of numbers of nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = gd.learn_dropout(nn.Linear(3, 2), p=0.4)
        self.seen: list[Any] = []

    def forward(self, x: Tensor, edge_index: Tensor, mode: str = "sum", weight: Tensor | None = None) -> Tensor:
        self.seen.append((len(x), tuple(edge_index.shape), mode, weight))
        source, target = edge_index
        y = self.layer(x)
        return y + torch.zeros_like(y).index_add(0, target, y[source])


class TestShared:
    @pytest.mark.parametrize("predict", PREDICTIONS)
    def test_edges_are_passed_on_whole(self, predict: Callable[..., Any]) -> None:
        model, x = Graph(), torch.randn(4, 3)
        edges = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])
        named = {"x": x, "edge_index": edges, "mode": "mean", "weight": None}
        expected = predict(model, named, shared=["edge_index"], seed=0, batch_size=4)
        assert set(model.seen) == {(4, (2, 4), "mean", None)}
        assert_same(predict(model, (x, edges), shared=(1,), seed=0), expected)
        assert 4 in numbers(expected)[0].shape

    @pytest.mark.parametrize("batch_size", [None, 2])
    def test_rows_are_cut_and_what_is_shared_is_not(self, batch_size: int | None) -> None:
        class Sensors(nn.Module):
            """Rows of 3 sensors, of which each listens to some others."""

            def __init__(self) -> None:
                super().__init__()
                self.layer = gd.learn_dropout(nn.Linear(3, 2), p=0.4)

            def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
                return self.layer(x @ adjacency)

        model, x, adjacency = Sensors(), torch.randn(3, 3), torch.randn(3, 3)  # as many rows as sensors
        expected = gd.sample(model.layer, x @ adjacency, num_samples=5, seed=1)
        got = gd.sample(model, (x, adjacency), shared=[1], num_samples=5, seed=1, batch_size=batch_size)
        torch.testing.assert_close(got, expected)

    @pytest.mark.parametrize(
        ("change", "shared", "error", "message"),
        [
            ({}, ["edges"], ValueError, r"`shared` must be a collection of .* \['x', 'edge_index'\], got"),
            ({}, [2], ValueError, r"`shared` must be a collection of .* \['x', 'edge_index'\], got"),
            ({}, "edge_index", ValueError, r"`shared` must be a collection of .* \['x', 'edge_index'\], got"),
            ({}, (), ValueError, r"same number of rows, .* got \[2, 4\]; name what has no rows, as the edges"),
            ({"edge_index": torch.tensor(1)}, (), TypeError, "got a tensor without dimensions at 'edge_index'; name"),
            ({"edge_index": [[0], [1]]}, (), TypeError, "got list at 'edge_index'; name"),
        ],
    )
    def test_what_has_no_rows_must_be_named(self, change: Any, shared: Any, error: Any, message: str) -> None:
        x = {"x": torch.randn(4, 3), "edge_index": torch.tensor([[0], [1]])} | change
        with pytest.raises(error, match=message):
            gd.sample(Graph(), x, shared=shared)


class Words(nn.Module):
    """Two inputs by their names, of which one may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = gd.learn_dropout(nn.Linear(3, 2), p=0.4)

    def forward(self, left: Tensor, right: Tensor | None = None) -> Tensor:
        return self.layer(left if right is None else left + 2 * right)


class TestLoaders:
    @pytest.mark.parametrize("predict", PREDICTIONS)
    @pytest.mark.parametrize("seed", [3, None])
    def test_all_batches_see_the_same_functions(self, predict: Callable[..., Any], seed: int | None) -> None:
        """Row 0 is in each batch; so it would have to get the same prediction in all of them."""
        model, row = network(), torch.randn(1, 3)
        x = torch.cat([row, torch.randn(3, 3), row, torch.randn(3, 3), row])
        result = predict(model, DataLoader(TensorDataset(x), batch_size=4), num_samples=20, seed=seed)
        for value in numbers(result):
            rows = value.movedim(value.ndim - 2, 0) if value.ndim > 1 else value
            torch.testing.assert_close(rows[0], rows[4])
            torch.testing.assert_close(rows[0], rows[8])
        if seed is not None:
            assert_same(result, predict(model, x, num_samples=20, seed=seed))

    def test_plain_dropout_too(self) -> None:
        model = nn.Sequential(nn.Linear(3, 16), nn.Dropout(0.4), nn.Linear(16, 2))
        x = torch.randn(7, 3)
        expected = gd.sample(model, x, num_samples=6, seed=3)
        torch.testing.assert_close(gd.sample(model, DataLoader(x, batch_size=3), num_samples=6, seed=3), expected)

    def test_kinds_of_batches(self) -> None:
        model = Words()
        left, right, y = torch.randn(5, 3), torch.randn(5, 3), torch.randn(5)
        both = gd.sample(model, (left, right), num_samples=4, seed=0)
        alone = gd.sample(model, left, num_samples=4, seed=0)
        rows = range(5)
        named = [{"left": left[i], "right": right[i]} for i in rows]
        for data, expected in (
            (left, alone),  # the inputs
            (TensorDataset(left), alone),  # a tuple of them
            (TensorDataset(left, y), alone),  # with targets
            (named, both),
            ([(named[i], y[i]) for i in rows], both),
            ([((left[i], right[i]), y[i]) for i in rows], both),
        ):
            got = gd.sample(model, DataLoader(data, batch_size=2), num_samples=4, seed=0)  # type: ignore[arg-type]
            torch.testing.assert_close(got, expected)
        stream: Iterator[Any] = ({"left": left[i : i + 2], "right": right[i : i + 2]} for i in range(0, 5, 2))
        torch.testing.assert_close(gd.sample(model, stream, num_samples=4, seed=0), both)
        alone_in_it = iter([((left, right),)])  # a pair of inputs would be taken for inputs and targets
        torch.testing.assert_close(gd.sample(model, alone_in_it, num_samples=4, seed=0), both)
        with pytest.raises(ValueError, match="`x` must hold at least one batch, got none; an iterator can be gone"):
            gd.sample(model, stream)
        with pytest.raises(TypeError, match=r"a batch must be a pair .* got 3 parts; several inputs are a tuple or"):
            gd.sample(model, DataLoader(TensorDataset(left, right, y)))

    def test_shared_arguments_in_batches(self) -> None:
        model, edges = Graph(), torch.tensor([[0], [1]])
        graphs = [{"x": torch.randn(size, 3), "edge_index": edges} for size in (4, 2, 3)]
        got = gd.predict_regression(model, iter(graphs), shared=["edge_index"], seed=0, num_samples=5)
        parts = [gd.predict_regression(model, each, shared=["edge_index"], seed=0, num_samples=5) for each in graphs]
        assert_same(got, gd.likelihoods.RegressionPrediction.joined(parts))

    def test_moments_and_draws_that_are_not_kept(self) -> None:
        model, x = network(), torch.randn(7, 3)
        loader: Any = DataLoader(x, batch_size=3)  # type: ignore[arg-type]
        found, expected = (gd.predict_regression(model, each, method="moments") for each in (loader, x))
        assert_same(found, expected)
        assert gd.predict_regression(model, loader, keep_draws=False).draw_means is None
        assert gd.predict_counts(model, loader, keep_draws=False).draw_log_rates is None

    def test_only_one_batch_is_looked_at_at_a_time(self) -> None:
        asked: list[int] = []

        class Counted(IterableDataset):
            def __iter__(self) -> Iterator[Tensor]:
                for i in range(6):
                    asked.append(i)
                    yield torch.randn(2, 3)

        model, sizes = network(), []
        model.register_forward_pre_hook(lambda module, args: sizes.append((len(asked), len(args[0]))))
        gd.predict_classification(model, DataLoader(Counted(), batch_size=None), num_samples=2, seed=0)
        assert sizes == [(i, 2) for i in (1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6)]

    @pytest.mark.parametrize("predict", PREDICTIONS[1:])
    def test_a_warning_names_the_line_of_the_caller(self, predict: Callable[..., Any]) -> None:
        x = torch.randn(4, 3)
        for inputs in (x, (x,), DataLoader(x, batch_size=2)):  # type: ignore[arg-type, var-annotated]
            model: Any = network()
            for site in (model[0].concrete_dropout, model[2].concrete_dropout):
                set_logit(site, -40.0)
            with pytest.warns(UserWarning, match="all learned dropout rates are") as caught:
                predict(model, inputs, num_samples=2, seed=0)
            assert [warning.filename for warning in caught] == [__file__]

    def test_what_is_no_input_is_refused(self) -> None:
        data = TensorDataset(torch.randn(5, 3))
        for loader in (
            DataLoader(data, batch_size=2, shuffle=True),
            DataLoader(data, batch_size=2, drop_last=True),
            DataLoader(data, sampler=DistributedSampler(data, 2, 0, shuffle=False)),
        ):
            with pytest.raises(ValueError, match="must be a loader that gives each row once and in order, got one"):
                gd.sample(network(), loader)
        for wrong in (data, 3):
            with pytest.raises(TypeError, match=f"DataLoader or another iterable .* got {type(wrong).__name__}"):
                gd.sample(network(), wrong)  # type: ignore[arg-type]


class TestOneLogit:
    @pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 4)])
    def test_against_two_logits(self, shape: tuple[int, ...]) -> None:
        """A logit is the difference of two, of which the first is 0."""
        model = gd.learn_dropout(nn.Linear(3, max(1, math.prod(shape))), p=0.4)

        def logits(result: Tensor) -> Tensor:
            return result.reshape(len(result), *shape)

        x = torch.randn(5, 3)
        one = gd.predict_classification(model, x, likelihood="bernoulli", seed=0, num_samples=9, output=logits)
        two = gd.predict_classification(
            model, x, seed=0, num_samples=9, output=lambda y: torch.stack([0 * logits(y), logits(y)], dim=1)
        )
        assert one.probabilities.shape == (5, 2, *shape)
        assert_same(one, two)
        naive = torch.sigmoid(logits(gd.sample(model, x, seed=0, num_samples=9).flatten(0, 1)))
        torch.testing.assert_close(one.probabilities[:, 1], naive.unflatten(0, (9, 5)).mean(0))

    def test_sure_answers_keep_their_log_probability(self) -> None:
        model = gd.learn_dropout(nn.Linear(2, 1, bias=False), p=0.5)
        model.weight.data.fill_(-200.0)
        prediction = gd.predict_classification(model, torch.ones(1, 2), likelihood="bernoulli", num_samples=8, seed=1)
        draws = gd.sample(model, torch.ones(1, 2), num_samples=8, seed=1).double()
        expected = torch.logsumexp(nn.functional.logsigmoid(draws), 0) - math.log(8)
        torch.testing.assert_close(prediction.log_prob(torch.ones(1, 1).long()).double(), expected)

    def test_errors(self) -> None:
        model, x = gd.learn_dropout(nn.Linear(3, 1)), torch.randn(5, 3)
        with pytest.raises(ValueError, match=r"C >= 2, got .* for one logit of yes or no pass `likelihood="):
            gd.predict_classification(model, x)
        with pytest.raises(ValueError, match="`likelihood` must be 'categorical' or 'bernoulli', got 'poisson'"):
            gd.predict_classification(model, x, likelihood="poisson")  # type: ignore[arg-type]
        for wrong in (0.0, -1.0, math.nan):
            with pytest.raises(ValueError, match="`temperature` must be positive, got"):
                gd.predict_classification(model, x, likelihood="bernoulli", temperature=wrong)

    @pytest.mark.parametrize("likelihood", ["categorical", "bernoulli"])
    def test_temperature_divides_the_logits_of_each_draw(self, likelihood: str) -> None:
        model, x = network(), torch.randn(5, 3)
        predict = partial(gd.predict_classification, model, x, likelihood=likelihood, seed=0)
        assert_same(predict(temperature=2.5), predict(output=lambda logits: logits / 2.5))
