"""The default prior: its strength by hand, how it is chosen, what it leaves to learn, and the warning of a stronger."""

import copy
import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop import likelihoods
from gumdrop.likelihoods import LIKELIHOODS
from gumdrop.networks import mlp
from gumdrop.objective.kl import CAPS
from gumdrop.training import fit, fit_stacked

from builders import reference as ref


def network(*sizes: int, **options: Any) -> nn.Module:
    layers = [layer for pair in itertools.pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
    return gd.learn_dropout(nn.Sequential(*layers[:-1]), **options)


def by_hand(model: Any, scale: float) -> float:
    """KL of a chain of Linear layers under a share of fan-in."""
    total = 0.0
    for layer in model[::2]:
        p = layer.concrete_dropout.p_logit.detach().double().sigmoid().expand(layer.in_features)
        weight, bias = (value.detach().double().numpy() for value in (layer.weight, layer.bias))
        total += ref.kl(p.tolist(), weight, [bias], precision=scale * layer.in_features)
    return total


class TestStrength:
    @pytest.mark.parametrize("name", ["classification", "regression"])
    @pytest.mark.parametrize("per_unit", [False, True])
    def test_fan_in_capped_in_nats_a_row(self, name: Any, per_unit: bool) -> None:
        model = network(6, 40, 2, p=0.3, per_unit=per_unit)
        count = 6 * 40 + 40 + 40 * 2 + 2
        for num_data in (1, 20, 3000, 10**6):
            scale = min(1.0, 2 * CAPS[name] * num_data / count)
            expected = by_hand(model, scale)
            for rows in (num_data, torch.tensor(num_data)):
                kl = gd.kl_divergence(model, num_data=rows, lengthscale=name)
                assert kl.item() == pytest.approx(expected, rel=1e-4, abs=1e-3)

    def test_a_tied_weight_counts_once(self) -> None:
        layer = nn.Linear(50, 50)
        tied = gd.learn_dropout(nn.Sequential(layer, nn.ReLU(), layer))
        single = gd.learn_dropout(nn.Sequential(nn.Linear(50, 50)))
        single.load_state_dict(tied.state_dict(), strict=False)
        kl = [gd.kl_divergence(each, num_data=9, lengthscale="regression").item() for each in (single, tied)]
        assert kl[0] == pytest.approx(kl[1])

    def test_gradients(self) -> None:
        """The gradient by hand is that of the plain formula, which a tensor as `num_data` takes."""
        model = network(9, 30, 2, p=0.2)
        parameters = list(model.parameters())

        def slopes(num_data: int | Tensor) -> tuple[Tensor, ...]:
            kl = gd.kl_divergence(model, num_data=num_data, lengthscale="classification")
            return torch.autograd.grad(kl, parameters, create_graph=True)

        for mine, plain in zip(slopes(15), slopes(torch.tensor(15)), strict=True):
            torch.testing.assert_close(mine, plain)
        second = [
            torch.autograd.grad(sum(each.square().sum() for each in slopes(rows)), parameters)  # type: ignore[arg-type]
            for rows in (15, torch.tensor(15))
        ]
        for mine, plain in zip(*second, strict=True):
            torch.testing.assert_close(mine, plain)

    def test_needs_the_number_of_rows(self) -> None:
        with pytest.raises(ValueError, match="'regression' depends on the number of rows; give `num_data`"):
            gd.kl_divergence(network(3, 2), lengthscale="regression")


class TestChoice:
    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    def test_of_the_loss(self, likelihood: str) -> None:
        model, name = network(5, 300, 2), "regression" if LIKELIHOODS[likelihood].is_density else "classification"
        kl = gd.negative_elbo(torch.rand(8), model, num_data=30, likelihood=likelihood).kl
        assert kl == gd.kl_divergence(model, num_data=30, lengthscale=name) / 30

    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    def test_of_a_kl_by_itself(self, likelihood: str) -> None:
        model, name = network(5, 300, 2), "regression" if LIKELIHOODS[likelihood].is_density else "classification"
        kl = gd.kl_divergence(model, num_data=30, likelihood=likelihood)
        assert kl == gd.kl_divergence(model, num_data=30, lengthscale=name)  # type: ignore[arg-type]
        own = gd.kl_divergence(model, likelihood=LIKELIHOODS[likelihood], lengthscale=0.3)
        assert own == gd.kl_divergence(model, lengthscale=0.3)

    def test_one_must_be_named(self) -> None:
        with pytest.raises(ValueError, match="must say what `nll` is of, since its prior depends on it"):
            gd.negative_elbo(torch.rand(8), network(3, 2), num_data=30)
        with pytest.raises(ValueError, match="must say what `nll` is of, since its prior depends on it"):
            gd.kl_divergence(network(3, 2), num_data=30)

    @pytest.mark.parametrize("likelihood", ["gaussian", "categorical", "a function"])
    def test_of_the_loops(self, likelihood: Any) -> None:
        """Data sets of two sizes, and steps too small to move anything: the KL of the first epoch is known."""
        models = [mlp(3, 2, hidden=[60]) for _ in range(2)]
        x, name = [torch.randn(n, 3) for n in (8, 20)], "regression"
        y = [torch.randn(n, 1) for n in (8, 20)]
        if likelihood == "categorical":
            y, name = [torch.randint(2, (n,)) for n in (8, 20)], "classification"
        if likelihood == "a function":
            likelihood = lambda output, target: gd.gaussian_nll(output[:, :1], output[:, 1:], target)  # noqa: E731
        options: dict[str, Any] = {"likelihood": likelihood, "epochs": 1, "lr": 1e-9}
        if likelihood not in ("gaussian", "categorical"):
            with pytest.raises(ValueError, match="function has no prior of its own; give lengthscale="):
                fit(models[0], (x[0], y[0]), **options)
            options["lengthscale"] = "regression"
        data = list(zip(x, y, strict=True))
        expected = [
            gd.kl_divergence(model, num_data=len(each), lengthscale=name).item() / len(each)  # type: ignore[arg-type]
            for model, each in zip(models, x, strict=True)
        ]
        stacked = fit_stacked([copy.deepcopy(model) for model in models], data, **options)
        assert [result.history[0].kl for result in stacked] == pytest.approx(expected, rel=1e-4)
        for model, pair, kl in zip(models, data, expected, strict=True):
            assert fit(copy.deepcopy(model), pair, **options).history[0].kl == pytest.approx(kl, rel=1e-4)


class TestWarning:
    x, labels = torch.zeros(20, 30), torch.arange(20) % 10

    def loss(self, model: nn.Module, **options: Any) -> Any:
        nll = gd.categorical_nll(model(self.x), self.labels)
        return gd.negative_elbo(nll, model, num_data=20, likelihood="categorical", **options)

    def test_once_for_each_model(self) -> None:
        for _ in range(2):
            model = network(30, 100, 10)
            message = r"'fan_in'` weighs .* nats a row, the likelihood 2\.\d.*drowns"
            with pytest.warns(UserWarning, match=message) as caught:
                self.loss(model, lengthscale="fan_in")
            assert caught[0].filename == __file__
            self.loss(model, lengthscale="fan_in")  # warnings are errors

    @pytest.mark.parametrize("options", [{}, {"num_data": 20}])
    def test_of_a_loss_of_ones_own(self, options: dict[str, Any]) -> None:
        """The weight of the KL in the loss is known where the number of rows is not."""
        model = network(30, 100, 10)
        with pytest.warns(
            UserWarning, match="'fan_in'` weighs .* nats a row, and where the likelihood is less"
        ) as caught:
            (gd.kl_divergence(model, lengthscale="fan_in", **options) / 20).backward()
        assert caught[0].filename == __file__
        (gd.kl_divergence(model, lengthscale="fan_in", **options) / 20).backward()
        (gd.kl_divergence(network(30, 100, 10), num_data=20, likelihood="categorical") / 20).backward()
        (gd.kl_divergence(network(30, 100, 10), lengthscale="fan_in") / 1e6).backward()
        gd.kl_divergence(network(30, 100, 10), lengthscale="fan_in").backward()  # a sum over rows: their number is open

    def test_not_of_what_lets_data_speak(self) -> None:
        for lengthscale in (None, "classification", "regression", 0.3):
            self.loss(network(30, 100, 10), lengthscale=lengthscale)
        self.loss(network(30, 3000, 3000, 10))
        # Ten points, a wide network and standard normal weights: the noisy line of the paper, which is learned.
        wide = mlp(1, 2, hidden=[500, 500])
        assert gd.negative_elbo(torch.ones(10), wide, num_data=10, lengthscale=1.0).kl > 10
        # A long sentence, or a target in small units: the likelihood is louder.
        gd.negative_elbo(torch.full((4,), 500.0), network(30, 100, 10), num_data=20, lengthscale="fan_in")
        sure = gd.negative_elbo(torch.zeros(4), network(5, 10, 2), num_data=10, lengthscale="fan_in")
        assert 0 < sure.kl < 3
        without_numbers = network(30, 100, 10).to("meta")
        gd.negative_elbo(torch.ones(3, device="meta"), without_numbers, num_data=20, lengthscale="fan_in")

    def test_compiled_code_neither_warns_nor_breaks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And it may be the first to ask for a likelihood by its name."""
        monkeypatch.delattr(likelihoods, "Categorical", raising=False)
        model = network(30, 100, 10)
        graphs = []

        def backend(graph: Any, _: Any) -> Any:
            graphs.append(graph)
            return graph.forward

        compiled = torch.compile(
            lambda x: self.loss(model, lengthscale="fan_in").total + 0 * x, fullgraph=True, backend=backend
        )
        values = [compiled(torch.zeros(())).item() for _ in range(3)]
        assert len(graphs) == 1
        assert all(math.isfinite(value) for value in values)
