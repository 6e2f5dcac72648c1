"""`gumdrop reproduce injected` on made-up tables, digits and reviews, and the ways that it compares."""

import math

import pytest
import torch
from torch import nn

from gumdrop.likelihoods import Categorical, Gaussian
from gumdrop.training import frozen, held_out_rates
from gumdrop_experiments.data.mnist import small_digits
from gumdrop_experiments.injected import Settings, far, study, tasks

from builders.digits import write_digits
from builders.reproduced import reproduced
from builders.reviews import write_reviews
from builders.streets import write_pictures
from builders.uci import write_set


@pytest.mark.slow
def test_every_network_is_trained_and_every_way_scored(tmp_path, constants) -> None:
    pytest.importorskip("transformers", reason="needs the package transformers")
    constants(held_out_rates, STEPS=1, MOST_ROWS=16, GRID=(-3.0, -1.0))
    constants(frozen, JUDGES=4)
    constants(tasks, CROP=16, QUICK_ROWS=24, QUICK_CROPS=(4, 8, 2))
    constants(tasks, small_digits=lambda: small_digits().rows(slice(1330)))
    constants(study, GRID=(0.02, 0.2), GRID_SAMPLES=3, PRECISIONS=(0.1, 10.0))
    data = tmp_path / "data"
    for name in tasks.TABLES:
        write_set(data / "uci" / name)
    write_digits(data / "mnist", count=120)
    write_reviews(data / "sst")
    write_pictures(data / "camvid", {"train": 4, "val": 2, "test": 2}, size=(180, 240))
    found = reproduced("injected", tmp_path / "out", "--quick", "--num-samples", 3, data=data)
    assert list(found["networks"]) == list(tasks.TASKS)
    for name, network in found["networks"].items():
        missing = {study.OWN} if name in {*tasks.TABLES, "digits-cnn", "camvid"} else set()
        missing |= {study.LAPLACE} if name == "camvid" else set()
        missing |= {study.AS_IT_IS} if name in tasks.TABLES else set()
        assert set(network["ways"]) == set(study.WAYS) - missing
        assert network["ways"][study.TEMPERATURE]["log_likelihood_gain"] == [0, 0]
        assert sum(network["ways"][study.FITTED]["kept"].values()) == 1
        for way in network["ways"].values():
            assert 0 <= way["auroc"][0] <= 1
            assert math.isfinite(way["log_likelihood"][0])
        absent = {far.DENSITY, far.OWN_DENSITY, far.NEAREST, "Laplace"} if name == "camvid" else set()
        assert set(network["far"]) == set(far.FAR) - absent
        assert all(0 <= each["auroc"][0] <= 1 for each in network["far"].values())
    assert found["counts"]["networks"] == 9


def test_rates_are_counted_against_the_best_other_way() -> None:
    def network(fitted: float, other: float, auroc: float) -> dict:
        gains = {study.TEMPERATURE: 0.0, study.INJECTION: other, study.LAPLACE: -1.0, study.FITTED: fitted}
        return {
            "ways": {way: {"log_likelihood_gain": (each, 0), "auroc_gain": (auroc, 0)} for way, each in gains.items()}
        }

    found = {"a": network(0.05, 0.01, 0.03), "b": network(0.009, 0.01, 0.0), "c": network(-0.003, -0.1, 0.02)}
    assert study.counts(found) == {"networks": 3, "near": 2, "ahead": 1, "behind temperature": 1, "found": 2}


@pytest.mark.parametrize("likelihood", [Gaussian(-0.7), Categorical()], ids=["numbers", "classes"])
def test_a_last_layer_has_the_posterior_of_its_gauss_newton_matrix(likelihood) -> None:
    torch.manual_seed(0)
    outputs = 1 if isinstance(likelihood, Gaussian) else 3
    network = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, outputs))
    x = torch.randn(20, 2)
    y = torch.randn(20, 1) if outputs == 1 else torch.randint(3, (20,))
    task = tasks.Task(lambda: network, (x, y), (x, y), (x, y), x, epochs=1, lr=0.1)
    layer = study.LastLayer(network, task, likelihood, Settings(num_samples=4000), seed=0)
    features = network[:2](x).detach()

    def nll(
        weight: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:  # linear in its parameters: Gauss-Newton is exact
        return likelihood.nll(features @ weight.T + bias, y).sum()

    weight, bias = network[2].weight.detach(), network[2].bias.detach()
    hessian = torch.autograd.functional.hessian(
        lambda w: nll(w[:, :-1], w[:, -1]), torch.cat([weight, bias[:, None]], 1)
    )
    torch.testing.assert_close(layer.precision, hessian.reshape_as(layer.precision).double(), rtol=1e-4, atol=1e-4)
    drawn = layer.with_prior(10.0)(x[:1])
    phi = torch.cat([features[0], torch.ones(1)]).double()
    covariance = torch.linalg.inv(layer.precision + 10 * torch.eye(len(layer.precision)))
    variance = covariance.view(outputs, 5, outputs, 5)[0, :, 0] @ phi @ phi
    assert drawn[:, 0, 0].var().item() == pytest.approx(variance.item(), rel=0.1)


def test_columns_and_words_are_mixed_and_stay_what_they_are() -> None:
    x = torch.randn(50, 3)
    mixed = tasks.mixed_columns(x, 0)
    assert torch.equal(mixed.sort(0).values, x.sort(0).values)
    assert not torch.equal(mixed, x)
    sentences = torch.tensor([[3, 4, 0, 0], [5, 6, 7, 0]])
    words = tasks.mixed_words(sentences, 0)
    assert torch.equal(words == 0, sentences == 0)
    assert set(words.unique().tolist()) <= {0, 3, 4, 5, 6, 7}


@pytest.mark.parametrize("is_shared", [True, False])
def test_densities_of_classes_are_low_between_them(is_shared: bool) -> None:
    classes = torch.arange(80) % 2
    known = torch.randn(80, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    known[:, 0] += 10 * classes
    score = far.gaussians(known, classes, is_shared=is_shared)
    between = torch.tensor([[5.0, 0, 0]], dtype=torch.float64)
    assert score(between) > score(known).max()


def test_what_functions_disagree_on() -> None:
    logits = torch.tensor([[[3.0, 0.0], [3.0, 0.0]], [[3.0, 0.0], [0.0, 3.0]]])
    assert far.epistemic(Categorical(), lambda x: logits, torch.zeros(2)).diff() > 0.1
    means = torch.tensor([[[1.0], [1.0]], [[1.0], [3.0]]])
    assert far.epistemic(Gaussian(0.0), lambda x: means, torch.zeros(2)).tolist() == [0, 1]
