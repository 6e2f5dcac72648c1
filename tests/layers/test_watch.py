"""Faults that would be silent: sites that do not act, rates that do not move, predictions without a drop."""

import copy
import functools
import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gumdrop as gd
from gumdrop.ensembles import ClassificationEnsemble
from gumdrop.layers import ConcreteDropout
from gumdrop.layers.use import SiteUse
from gumdrop.layers.watch import _ACTS, _COURSES, BETWEEN_LOOKS, OBJECTIVES, SKIPPED, STEPS


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


class Bypassing(Net):
    """Uses the weight of a layer without calling it, as Swin and Mamba do."""

    def forward(self, x: Tensor) -> Tensor:
        first = self.first  # what conversion does not see
        return self.second(F.linear(x, first.weight, first.bias).relu())


IDLE = r"did not act in the last objectives \('first'"
STUCK = rf"the weights have moved {STEPS} times and the dropout rates have not \('first', 'second'\)"


X, Y = torch.randn(16, 4, generator=torch.Generator().manual_seed(0)), torch.arange(16) % 2


def objective(model: nn.Module, call: Callable[[Tensor], Tensor] | None = None) -> Any:
    nll = gd.categorical_nll((call or model)(X), Y)
    return gd.negative_elbo(nll, model, num_data=100, likelihood="categorical")


def train(model: nn.Module, optimizer: torch.optim.Optimizer | None = None, *, steps: int = OBJECTIVES) -> None:
    optimizer = optimizer or torch.optim.AdamW(gd.parameter_groups(model))
    for _ in range(steps):
        optimizer.zero_grad()
        objective(model).backward()
        optimizer.step()


class TestSitesThatDoNotAct:
    def test_a_weight_that_is_used_without_its_layer(self) -> None:
        model = gd.learn_dropout(Bypassing())
        with pytest.warns(UserWarning, match=rf"{IDLE}\).*learn_dropout\(model, exclude=") as caught:
            train(model)
        assert caught[0].filename == __file__
        train(model, steps=2 * OBJECTIVES)  # once is enough
        train(gd.learn_dropout(Bypassing(), exclude=["first"]))
        gd.sample(model, torch.randn(3, 4))  # one site of several is enough

    def test_a_layer_that_is_skipped_at_random(self) -> None:
        """As in stochastic depth; but not if it is never asked again."""
        model = gd.learn_dropout(Net())
        for i in range(4 * SKIPPED):
            objective(model, functools.partial((Net if i % (SKIPPED - 1) == 0 else Bypassing).forward, model))

        def many() -> None:
            for _ in range(SKIPPED):
                objective(model, functools.partial(Bypassing.forward, model))

        with pytest.warns(UserWarning, match=IDLE):
            many()

    def test_a_model_in_eval(self) -> None:
        with pytest.warns(UserWarning, match=r"If the model is in eval mode, call model\.train\(\)"):
            train(gd.learn_dropout(Net()).eval())

    def test_a_site_that_many_layers_share(self) -> None:
        layers = [nn.Linear(4, 4) for _ in range(OBJECTIVES + 2)]
        for layer in layers:
            layer.weight = layers[0].weight
        train(gd.learn_dropout(nn.Sequential(*layers)), steps=2 * OBJECTIVES)

    @pytest.mark.parametrize("losses", [1, 2, 3])
    def test_several_losses_of_one_forward_are_no_reason(self, losses: int) -> None:
        model = gd.learn_dropout(Net())
        for _ in range(5):
            nll = gd.categorical_nll(model(X), Y)
            for _ in range(losses):
                gd.negative_elbo(nll, model, num_data=100, likelihood="categorical")

    def test_scores_without_a_gradient_do_not_count(self) -> None:
        model = gd.learn_dropout(Net()).eval()
        with torch.no_grad():
            for _ in range(2 * OBJECTIVES):
                objective(model)

    @pytest.mark.parametrize(
        "make",
        [
            lambda: (nn.LSTM(4, 4, batch_first=True), (torch.randn(16, 3, 4),)),
            lambda: (nn.MultiheadAttention(4, 2, batch_first=True), (torch.randn(16, 3, 4),) * 3),
            lambda: (nn.Conv1d(4, 2, 1), (torch.randn(16, 4, 3),)),
            lambda: (nn.Embedding(9, 4), (torch.randint(9, (16, 3)),)),
        ],
    )
    @pytest.mark.parametrize("compiled", [False, True])
    @pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo looks at it
    def test_every_layer_tells_that_it_acts(
        self, make: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]], compiled: bool
    ) -> None:
        layer, inputs = make()
        model: Any = gd.learn_dropout(layer, embeddings=True)
        call = torch.compile(model, backend="eager") if compiled else model
        for _ in range(OBJECTIVES):
            output = call(*inputs)
            nll = (output[0] if isinstance(output, tuple) else output).square().flatten(1).sum(1)
            gd.negative_elbo(nll, model, num_data=100, likelihood="categorical")


class TestALossOfOnesOwn:
    """A likelihood plus `gumdrop.kl_divergence`, as most texts write it."""

    def train(self, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            nll = gd.categorical_nll(model(X), Y).mean()
            (nll + gd.kl_divergence(model, num_data=100, likelihood="categorical") / 100).backward()
            optimizer.step()

    def test_sites_that_do_not_act(self) -> None:
        model = gd.learn_dropout(Bypassing())
        with pytest.warns(UserWarning, match=IDLE) as caught:
            self.train(model, torch.optim.AdamW(gd.parameter_groups(model)), OBJECTIVES)
        assert caught[0].filename == __file__

    def test_rates_that_do_not_move(self) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        gd.learn_dropout(model)
        with pytest.warns(UserWarning, match=STUCK):
            self.train(model, optimizer, STEPS + 1)

    def test_what_is_only_looked_at_is_no_objective(self) -> None:
        model = gd.learn_dropout(Net())
        for _ in range(2 * OBJECTIVES):
            kl = gd.kl_divergence(model, lengthscale=1.0)
            assert kl.isfinite()
            torch.autograd.grad(kl, model.first.weight)
        self.train(model, torch.optim.AdamW(gd.parameter_groups(model)), 2 * STEPS)

    def test_the_size_of_a_batch(self) -> None:
        model = gd.learn_dropout(Net())
        optimizer = torch.optim.AdamW(gd.parameter_groups(model))

        def steps(num_data: int) -> None:
            for _ in range(5):
                optimizer.zero_grad()
                nll = gd.categorical_nll(model(torch.randn(16, 4)), Y).mean()
                (nll + gd.kl_divergence(model, num_data=num_data, likelihood="categorical") / num_data).backward()
                optimizer.step()

        steps(100)
        with pytest.warns(UserWarning, match="`num_data` is 16, the size of the batch"):
            steps(16)

    def test_a_rate_that_was_never_initialised(self) -> None:
        model = gd.learn_dropout(Net())
        with torch.no_grad():
            model.first.concrete_dropout.scaled_logit.fill_(1e30)
        with pytest.raises(ValueError, match="drop probability of 'first' must be a number"):
            gd.kl_divergence(model, lengthscale=1.0).backward()


class TestRatesThatDoNotMove:
    def test_an_optimiser_from_before_the_conversion(self) -> None:
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        gd.learn_dropout(model)
        with pytest.warns(UserWarning, match=rf"{STUCK}.*Build it after learn_dropout"):
            train(model, optimizer, steps=STEPS + 1)
        train(model, optimizer, steps=2 * STEPS)

    @pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad])
    @pytest.mark.parametrize("foreach", [False, True])
    def test_optimisers_that_know_the_rates(self, make: Any, foreach: bool) -> None:
        model = gd.learn_dropout(Net())
        train(model, make(gd.parameter_groups(model), lr=1e-3, foreach=foreach), steps=2 * STEPS)

    def test_accumulated_gradients(self) -> None:
        """Objectives between two steps are no steps."""
        model = gd.learn_dropout(Net())
        optimizer = torch.optim.AdamW(gd.parameter_groups(model))
        for i in range(4 * STEPS):
            objective(model).backward()
            if i % 4 == 3:
                optimizer.step()

    def test_rates_and_weights_in_turns(self) -> None:
        model = gd.learn_dropout(Net())
        weights, rates = (torch.optim.AdamW([group]) for group in gd.parameter_groups(model))
        for i in range(4 * STEPS):
            objective(model).backward()
            (rates if i % STEPS == 0 else weights).step()

    def test_frozen_rates_and_frozen_weights(self) -> None:
        train(gd.fix_dropout(gd.learn_dropout(Net())), torch.optim.SGD([nn.Parameter(torch.zeros(1))]), steps=2 * STEPS)
        model = gd.learn_dropout(Net())
        for layer in (model.first, model.second):
            layer.weight.requires_grad_(False)
        train(model, torch.optim.SGD([model.first.bias], lr=0.1), steps=2 * STEPS)


class TestPredictionsWithoutADrop:
    @pytest.mark.parametrize("predict", [gd.predict_regression, gd.predict_classification])
    def test_rates_at_zero(self, predict: Callable[..., Any]) -> None:
        model, x = gd.learn_dropout(Net(), p=1e-9), torch.randn(3, 4)
        with pytest.warns(UserWarning, match=r"rates are 1e-09 or less, so that none of the 100 draws") as caught:
            predict(model, x)
        assert caught[0].filename == __file__
        predict(model, x)  # once is enough

    def test_where_something_else_drops_or_is_meant(self) -> None:
        x = torch.randn(3, 4)
        gd.predict_regression(nn.Sequential(nn.Dropout(0.1), gd.learn_dropout(Net(), p=1e-9)), x)
        gd.predict_regression(gd.fix_dropout(gd.learn_dropout(Net(), p=1e-9)), x)
        gd.predict_regression(gd.learn_dropout(Net(), p=1e-3), x)
        ClassificationEnsemble([gd.learn_dropout(Net(), p=1e-9) for _ in range(2)]).predict(x)
        gd.sample(gd.learn_dropout(Net(), p=1e-9), x)

    @pytest.mark.parametrize("batch_size", [None, 2])
    def test_a_model_that_goes_past_its_sites(self, batch_size: int | None) -> None:
        class Past(Net):
            def forward(self, x: Tensor) -> Tensor:
                first, second = self.first, self.second
                return F.linear(F.linear(x, first.weight), second.weight)

        with pytest.raises(ValueError, match="did not use any of its dropout in this prediction"):
            gd.sample(gd.learn_dropout(Past()), torch.randn(3, 4), batch_size=batch_size)

    def test_a_forward_in_a_closure_reaches_no_twin(self) -> None:
        """What a twin cannot follow is an error, and not a prediction of an undropped model."""
        model = gd.learn_dropout(Net()).eval()
        forward = model.forward
        vars(model)["forward"] = lambda x: forward(x)
        with pytest.raises(ValueError, match="or other modules than those of the model"):
            gd.sample(model, torch.randn(3, 4))


def test_copies_watch_by_themselves() -> None:
    model = gd.learn_dropout(Net())
    other = copy.deepcopy(model)
    sites = [[m for m in each.modules() if isinstance(m, ConcreteDropout)] for each in (model, other)]
    assert all(one.use is not two.use for one, two in zip(*sites, strict=True))


class TestNumData:
    """The size of the batch in the place of that of the data."""

    @staticmethod
    def train(
        rows: int,
        batch: int,
        num_data: Callable[[int], int],
        *,
        epochs: int = 2,
        drop_last: bool = False,
        scalar: bool = False,
        shuffle: bool = True,
        density: bool = False,
    ) -> None:
        model = gd.learn_dropout(Net())
        x, generator = torch.randn(rows, 4), torch.Generator().manual_seed(0)
        for _ in range(epochs):
            order = torch.randperm(rows, generator=generator) if shuffle else torch.arange(rows)
            for part in order.split(batch):
                if len(part) < batch and drop_last:
                    continue
                output = model(inputs := x[part])
                if density:
                    nll = gd.gaussian_nll(*output.chunk(2, -1), inputs[:, :1])
                else:
                    nll = gd.categorical_nll(output, part % 2)
                likelihood = "gaussian" if density else "categorical"
                nll = nll.mean() if scalar else nll
                gd.negative_elbo(nll, model, num_data=num_data(len(part)), likelihood=likelihood).backward()

    @pytest.mark.parametrize("num_data", [lambda batch: 16, lambda batch: batch])
    @pytest.mark.parametrize("scalar", [False, True])
    @pytest.mark.parametrize("density", [False, True])
    @pytest.mark.parametrize(("rows", "drop_last"), [(64, False), (70, True), (70, False)])
    def test_that_of_the_batch(
        self, rows: int, drop_last: bool, num_data: Callable[[int], int], scalar: bool, density: bool
    ) -> None:
        options = {"drop_last": drop_last, "scalar": scalar, "density": density}
        with pytest.warns(
            UserWarning, match=r"`num_data` is 16, the size of the batch.*len\(loader\.dataset\)"
        ) as caught:
            self.train(rows, 16, num_data, **options)
        assert [each.filename for each in caught] == [__file__]  # once is enough

    @pytest.mark.parametrize("options", [{}, {"scalar": True}, {"shuffle": False}, {"density": True}])
    @pytest.mark.parametrize(("rows", "batch"), [(64, 16), (70, 16), (16, 16), (16, 40), (2, 2), (300, 299)])
    def test_that_of_the_data(self, rows: int, batch: int, options: dict[str, bool]) -> None:
        self.train(rows, batch, lambda _: rows, epochs=14, **options)

    def test_a_mean_of_the_positions(self) -> None:
        model = gd.learn_dropout(nn.Conv1d(3, 5, 1))
        x, y = torch.randn(4, 3, 7), torch.randint(5, (4, 7))
        nll = F.cross_entropy(model(x), y)
        with pytest.warns(UserWarning, match="mean over 28 targets of 4 examples.*by 7"):
            gd.negative_elbo(nll, model, num_data=90, likelihood="categorical")
        summed = F.cross_entropy(model(x), y, reduction="none").sum(1)
        gd.negative_elbo(summed, gd.learn_dropout(nn.Conv1d(3, 5, 1)), num_data=90, likelihood="categorical")

    def test_one_data_set_after_the_other(self) -> None:
        model = gd.learn_dropout(Net())
        for rows in (16, 16, 20, 8):
            x = torch.randn(rows, 4)
            for _ in range(3):
                nll = gd.categorical_nll(model(x), torch.arange(rows) % 2)
                gd.negative_elbo(nll, model, num_data=rows, likelihood="categorical")


class TestLayersThatWereReplaced:
    def test_once_for_each_and_until_it_is_converted(self) -> None:
        model = gd.learn_dropout(Net())
        train(model)
        model.second = nn.Linear(8, 2)
        again = copy.deepcopy(model)
        for each in (model, again):
            with pytest.warns(UserWarning, match=r"replaced after learn_dropout \('second'\).*convert last") as caught:
                train(each, steps=BETWEEN_LOOKS)
            assert len(caught) == 1
            train(each, steps=BETWEEN_LOOKS)
            gd.learn_dropout(each)
            assert list(gd.dropout_rates(each)) == ["first", "second"]
            train(each, steps=BETWEEN_LOOKS)

    def test_in_a_larger_model_and_of_dropout_that_learned(self) -> None:
        body = gd.learn_dropout(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2)), plain_dropout="learn")
        model = gd.learn_dropout(nn.Sequential(body, nn.Linear(8, 2)), include=["1"])
        body[0], body[2] = nn.Linear(4, 8), nn.Dropout(0.2)
        with pytest.warns(UserWarning, match=r"replaced after learn_dropout \('0.0', '0.2'\)"):
            train(model)
        nll = gd.categorical_nll(model(X), Y).mean()
        nn.Module.__setattr__(model, "1", nn.Linear(8, 2))
        with pytest.raises(ValueError, match="no learned dropout"):
            gd.negative_elbo(nll, model, num_data=100, likelihood="categorical")

    def test_of_a_loss_of_ones_own(self) -> None:
        model = gd.learn_dropout(Net())
        model.first = nn.Linear(4, 8)
        with pytest.warns(UserWarning, match="replaced after learn_dropout"):
            TestALossOfOnesOwn().train(model, torch.optim.SGD(model.parameters(), lr=0.1), 1)

    def test_what_is_gone_or_wrapped_is_no_reason(self) -> None:
        model = gd.learn_dropout(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)))
        model[1] = nn.Identity()
        model[0] = nn.Sequential(model[0], nn.Tanh())
        train(model)
        model.append(nn.Tanh())
        del model[1]
        train(pickle.loads(pickle.dumps(gd.learn_dropout(Net()))))


def test_what_objectives_remember_is_beside_the_model_and_goes_with_it() -> None:
    model = gd.learn_dropout(Net())
    before = pickle.dumps(model)
    gc.collect()  # models of other tests
    watched = len(_ACTS), len(_COURSES)
    objective(model)
    assert (len(_ACTS), len(_COURSES)) == (watched[0] + 2, watched[1] + 1)
    model.first.concrete_dropout.use.called = model.second.concrete_dropout.use.called = False
    assert pickle.dumps(model) == before
    del model
    gc.collect()
    assert (len(_ACTS), len(_COURSES)) == watched


def test_sites_that_were_stored_with_what_they_remembered_are_read() -> None:
    use = SiteUse(3)
    stored = vars(use) | {"told": True, "objectives": 7, "inputs": torch.zeros(2)}
    read = SiteUse.__new__(SiteUse)
    read.__setstate__(stored)
    assert vars(read) == vars(use) | {"told": True}
