"""`gumdrop reproduce lora` on made-up reviews and digits, and the networks that it trains."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import gumdrop as gd
from gumdrop_experiments.data.mnist import small_digits
from gumdrop_experiments.lora import adapters, depth

from builders.digits import write_digits
from builders.reproduced import reproduced
from builders.reviews import write_reviews


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_way_is_trained_scored_and_drawn(tmp_path, constants) -> None:
    pytest.importorskip("peft", reason="needs the package peft")
    from gumdrop_experiments.lora import adapters, study

    # Adapters take one of the ways of an arm, each prior somewhere; paths choose between two.
    arms = enumerate(study.ADAPTER_ARMS.items())
    of_adapters = {arm: ([ways[i % len(ways)]], kind) for i, (arm, (ways, kind)) in arms}
    few = [way for way in depth.WAYS if way not in ("linear 0.5", "learned 300")]
    of_paths = {arm: (ways[:2], kind) for arm, (ways, kind) in study.DEPTH_ARMS.items()}
    constants(study, HELD_OUT=20, ADAPTER_ARMS=of_adapters, DEPTH_ARMS=of_paths)
    constants(study, small_digits=lambda: small_digits().rows(slice(100)))
    constants(adapters, NUM_SAMPLES=2, WAYS={way: adapters.WAYS[way] for (way,), _ in of_adapters.values()})
    constants(depth, NUM_SAMPLES=2, VALIDATION_SAMPLES=1, NETWORKS=("ViT",), WAYS=few)
    write_reviews(tmp_path / "data" / "sst")
    write_digits(tmp_path / "data" / "mnist", count=100)
    words = ("--quick", "--few", 32, "--more", 32, "--images", 50, "--base-steps", 2, "--steps", 2)
    found = reproduced("lora", tmp_path / "out", *words, data=tmp_path / "data")
    assert list(found["adapters"]) == ["32"]
    assert list(found["paths"]) == ["ViT on digits", "ViT on MNIST"]
    for arms in found["adapters"].values():
        assert list(arms) == list(study.ADAPTER_ARMS)
        assert {len(arms[arm]["chosen"]) for arm in arms} == {1}
        (learned,) = arms["learned, wherever there is dropout"]["chosen"]
        assert len(learned["rates"]) == 11 + 8  # adapters, and the dropout of the BERT
    assert set(adapters.WAYS) >= {way for ways, _ in study.ADAPTER_ARMS.values() for way in ways}
    for arms in found["paths"].values():
        assert all(len(each["rates"]) == depth.DEPTH for arm in arms.values() for each in arm["chosen"])


def test_what_is_scored_drawn_has_its_dropout() -> None:
    pytest.importorskip("peft", reason="needs the package peft")
    from gumdrop_experiments.lora.adapters import scored

    class Sentences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.last = nn.Embedding(9, 4), nn.Linear(4, 2)

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=self.last((self.words(input_ids) * attention_mask.unsqueeze(2)).sum(1)))

    model = gd.learn_dropout(Sentences(), include=["last"], p=0.5).eval()
    rows = torch.randint(1, 9, (20, 5)), torch.randint(2, (20,))
    assert scored(model, rows, drawn=False) == scored(model, rows, drawn=False)
    assert scored(model, rows, drawn=True)["nll"] != scored(model, rows, drawn=False)["nll"]


@pytest.mark.parametrize("name", depth.NETWORKS)
@pytest.mark.parametrize("side", [8, 28])
def test_paths_have_the_rates_of_a_way(name, side) -> None:
    x = torch.randn(3, 1, side, side)
    rates = {way: list(gd.dropout_rates(depth.network(name, side, way)).values()) for way in depth.WAYS}
    assert rates["linear 0.3"] == pytest.approx([0.3 * i / 8 for i in range(1, 9)], rel=1e-4)
    assert rates["learned 30"] == pytest.approx([0.1] * 8, rel=1e-4)
    assert max(rates["none"]) < 1e-5
    model = depth.network(name, side, "learned 30").train()
    model(x).sum().backward()
    sites = [module for module in model.modules() if type(module).__name__ == "DropInPlace"]
    assert {(site.num_units, site.strength) for site in sites} == {(1, 30.0)}
    assert model.eval()(x).shape == (3, 10)


def test_the_posterior_is_that_of_the_whole_gauss_newton_matrix() -> None:
    torch.manual_seed(0)
    first, last = nn.Linear(3, 5, bias=False), nn.Linear(5, 2)
    frozen = nn.Linear(5, 5).requires_grad_(requires_grad=False)
    model = nn.Sequential(first, nn.Tanh(), frozen, last).double()
    x, new = torch.randn(2, 6, 4, 3).double()  # rows of four positions, whose logits are averaged

    def logits(rows: torch.Tensor) -> torch.Tensor:
        return model(rows).mean(1)

    def slopes(rows: torch.Tensor) -> torch.Tensor:
        weights = [first.weight, torch.cat([last.weight, last.bias.unsqueeze(1)], 1).detach().requires_grad_()]
        by_row = []
        for row in rows:
            hidden = frozen(torch.tanh(row @ weights[0].T)).mean(0)
            odds = (weights[1][1] - weights[1][0]) @ torch.cat([hidden, hidden.new_ones(1)])
            by_row.append(torch.cat([g.flatten() for g in torch.autograd.grad(odds, weights)]))
        return torch.stack(by_row)

    (f, g), (f_new, g_new) = (adapters.log_odds(model, lambda rows=rows: logits(rows)) for rows in (x, new))
    torch.testing.assert_close(f, logits(x).diff(dim=1).squeeze(1).detach())
    torch.testing.assert_close(g_new, slopes(new))
    q = f.sigmoid()
    precision = 0.3 * torch.eye(g.shape[1]) + (q * (1 - q) * g.T) @ g
    exact = (g_new @ precision.inverse() * g_new).sum(1)
    variance = adapters.variances((f, g), g_new, 0.3)
    torch.testing.assert_close(variance, exact)
    log_p = adapters.log_probabilities(f_new, variance)
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(6).double())
    draws = (f_new + exact.sqrt() * torch.randn(200_000, 6).double()).sigmoid().mean(0)
    torch.testing.assert_close(log_p[:, 1].exp(), draws, rtol=0, atol=0.03)
