"""`gumdrop reproduce g2p` on a made-up dictionary, and the pieces that it is made of."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

import gumdrop as gd

pytest.importorskip("rapidfuzz")

from gumdrop_experiments.g2p.spelling import beam_search, count_errors, judge
from gumdrop_experiments.g2p.training import train_as_reported
from gumdrop_experiments.harness.run import Run
from gumdrop_experiments.harness.settings import RunOptions
from gumdrop_experiments.networks.spellers import ByLength, PooledReader, Speller, phone_nll

from builders.reproduced import reproduce, reproduced


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "g2p").mkdir(parents=True)
    words = ["".join(letters) for n in (2, 3) for letters in itertools.product("abcde", repeat=n)]
    (folder / "g2p" / "cmudict.dict").write_text("".join(f"{word} {' '.join(word.upper())}\n" for word in words))
    return folder


@pytest.mark.slow
def test_every_setting_runs_and_what_is_said_is_judged(data, tmp_path):
    words = ["--pooled-epochs", 1, "--epochs", 15, "--num-samples", 3, "--test-words", 6]
    words += ["--regularisers", 1e-3, 1e-5]  # weights so dear, and masks so cheap, that rates fall
    found, ways = reproduced("g2p", tmp_path / "out", *words, data=data), ("learned", "learned, given factors")
    assert list(found["pooled"]) == [*(f"fixed {p:g}" for p in (0, 0.1, 0.2, 0.3, 0.4)), "broken", *ways]
    learned, given = (found["pooled"][way]["rates"]["head"][0] for way in ways)
    assert given < 0.1 < learned
    assert len(found["pooled"]["broken"]["per_step_rates"]) == 3
    assert found["pooled"]["learned"]["per_step_rates"] is None
    assert set(found["pooled"]["broken"]["rates"]) == {"head"}
    assert found["spellers"]["fixed 0.2"]["rates"]["head"] == pytest.approx([0.2] * 15)
    for speller in found["spellers"].values():
        judged, losses = speller["judged"], speller["history"]["validation_nll"]
        assert judged["no_draws"]["per"] < 1
        assert len(judged["doubt"]) == judged["words"] <= 6
        assert losses[-1] < losses[0]


def test_networks_are_trained_as_reported_and_more_of_them_later(data, tmp_path):
    words = ["--as-reported", "--pooled-epochs", 2, "--test-words", 6, "--resume", "--networks"]
    assert reproduce("g2p", tmp_path / "out", *words, "broken", data=data) == 0
    found = reproduced("g2p", tmp_path / "out", *words, "fixed 0.1", "broken", data=data)
    assert list(found["pooled"]) == ["fixed 0.1", "broken"]
    assert not found["spellers"]
    assert all(len(scores) == 2 for each in found["pooled"].values() for scores in each["history"].values())
    mean, sd = found["pooled"]["broken"]["last_epochs"]["nll"]
    first, second = found["pooled"]["broken"]["history"]["nll"]
    assert (mean, sd) == pytest.approx(((first + second) / 2, (first - second) / 2))
    rates = found["pooled"]["broken"]["rates"]
    assert set(rates) == {*(f"per_step.{i}" for i in range(5)), "head"}
    assert [each[-1] for name, each in rates.items() if name != "head"] == found["pooled"]["broken"]["per_step_rates"]


def test_networks_of_several_seeds_speak_together(data, tmp_path):
    out = tmp_path / "out"
    words = ["--epochs", 2, "--test-words", 6, "--num-samples", 3, "--resume", "--networks", "speller learned"]
    assert list(reproduced("g2p", out, *words, data=data)["spellers"]) == ["learned"]
    first = (out / "parts" / "speller-learned.json").read_text()
    found = reproduced("g2p", out, *words, "--members", 2, data=data)
    assert list(found["spellers"]) == ["learned", "2 learned together"]
    assert list(found["further_seeds"]) == ["learned, seed 1"]
    spellers = found["spellers"] | found["further_seeds"]
    assert (out / "parts" / "speller-learned.json").read_text() == first
    assert spellers["learned"]["history"] != spellers["learned, seed 1"]["history"]
    doubt = {variant: sum(each["judged"]["doubt"]) for variant, each in spellers.items()}
    assert max(doubt, key=doubt.get) == "2 learned together"  # networks of two seeds disagree more than draws of one
    assert "2 learned together" in (out / "report.html").read_text()


def test_a_reported_training_that_was_stopped_goes_on_as_if_it_had_not(tmp_path):
    letters, phones = torch.randint(1, 6, (40, 3)), torch.randint(1, 5, (40, 4))
    rows = (letters, phones), (letters[:8], phones[:8])

    def trained(folder, *stops):
        run = Run("g2p", RunOptions(out=tmp_path / folder, resume=True), notify=lambda note: None)
        for epochs in stops:
            torch.manual_seed(1)
            model = PooledReader(6, 5, steps=4, size=4, num_norms=5)
            gd.learn_dropout(model, report=lambda report: None)
            with torch.random.fork_rng():
                run.part("start", dict) if not (tmp_path / folder).exists() else None
                found = train_as_reported(run, model, rows, name="it", epochs=epochs, lengthscale=1.0, num_data=40)
        return found, model

    (once, model), (twice, same) = trained("once", 3), trained("twice", 1, 3)
    assert once == twice
    assert all(map(torch.equal, model.parameters(), same.parameters()))
    assert not model.training


def spelled(seed=0):
    torch.manual_seed(seed)
    model = Speller(6, 5, width=3, size=4, hidden=6)
    return model.eval(), torch.tensor([[2, 3, 0], [4, 5, 2]])


def all_ways(phones, longest):
    """Every way to say a word that ends in time, with its padding."""
    ways = []
    for n in range(longest):
        ways += [[*way, Speller.END] + [0] * (longest - n - 1) for way in itertools.product(phones, repeat=n)]
    return torch.tensor(ways)


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_a_wide_beam_finds_the_best_of_all_ways(seeds):
    models, longest = [spelled(seed)[0] for seed in seeds], 3
    _, words = spelled()
    ways = all_ways((3, 4), longest)
    rows = torch.cat([words[:1].expand(len(ways), -1), torch.ones(len(ways), 1, dtype=torch.long), ways[:, :-1]], 1)
    # Networks that speak together have the mean of their probabilities at each step.
    mean = torch.stack([model(rows).softmax(-1) for model in models]).mean(0)
    log_p = -phone_nll(mean.log(), ways)
    found, scores = beam_search(models, words, width=12, longest=longest)
    ended = (found[0] == Speller.END).any(1)
    best = log_p.argsort(descending=True)
    torch.testing.assert_close(scores[0][ended][:3], log_p[best[:3]])
    assert torch.equal(found[0][ended][:3], ways[best[:3]])


def test_judging_is_the_mixture_of_the_drawn_functions():
    model, words = spelled()
    gd.learn_dropout(model, p=0.3, exclude=["letters", "phones"], report=lambda report: None)
    ways, _ = beam_search([model.eval()], words, width=2, longest=4)
    prediction, disagreement = judge([model], words, ways, num_samples=5, seed=3)
    start = torch.ones(4, 1, dtype=torch.long)
    rows = torch.cat([words.repeat_interleave(2, 0), start, ways.flatten(0, 1)[:, :-1]], 1)
    drawn = torch.stack(
        [-phone_nll(draw, ways.flatten(0, 1)) for draw in gd.sample(model, rows, num_samples=5, seed=3)]
    )
    expected = drawn.exp().mean(0).log().view(2, 2)
    torch.testing.assert_close(prediction.log_probabilities[:, :2], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(2), atol=1e-5, rtol=0)
    assert (disagreement > 0).all()


def test_errors_are_counted_against_the_nearest_way():
    wrong, phone_errors = count_errors([(3, 4), (3,), (5, 5)], [[(3, 4)], [(4, 4, 4), (4,)], [(5, 6), (5, 5, 5)]])
    assert wrong.tolist() == [False, True, True]
    assert phone_errors == pytest.approx((0 + 1 + 1) / (2 + 1 + 2))


def test_batches_hold_words_of_like_length_and_every_word_once():
    lengths = torch.randint(1, 30, (101,))
    sampler = ByLength(lengths, 10, pool=4)
    batches = list(sampler)
    assert len(batches) == len(sampler) == 11
    assert sorted(itertools.chain(*batches)) == list(range(101))
    spread = [int(lengths[batch].max() - lengths[batch].min()) for batch in batches]
    assert sum(spread) / len(spread) < 12


def test_the_loss_of_a_word_is_the_sum_over_its_phones():
    logits = torch.randn(2, 4, 5)
    phones = torch.tensor([[3, 2, 0, 0], [4, 4, 3, 2]])
    log_p = torch.log_softmax(logits, -1)
    expected = -(log_p[0, 0, 3] + log_p[0, 1, 2])
    assert phone_nll(logits, phones)[0].item() == pytest.approx(expected.item(), rel=1e-5)
    longer = nn.functional.pad(phones, (0, 3))
    torch.testing.assert_close(phone_nll(logits, longer), phone_nll(logits, phones))


def test_the_pooled_network_forgets_padding():
    model = PooledReader(6, 5, steps=4, size=4).eval()
    word = torch.tensor([[2, 3]])
    padded = torch.tensor([[2, 3, 0, 0], [4, 3, 2, 5]])
    torch.testing.assert_close(model(padded)[:1], model(word))
    assert math.prod(model(word).shape) == 1 * 4 * 5


def test_the_decoder_is_normalised_over_what_is_said():
    model = PooledReader(6, 5, steps=4, size=4, num_norms=5)
    rows = []
    for norm in model.norms:
        norm.norm.register_forward_hook(lambda norm, inputs, output: rows.append(len(inputs[0])))
    words, said = torch.tensor([[2, 3, 0], [4, 5, 2]]), torch.tensor([[True, True, False], [True, True, True]])
    assert model.train()(words, said).shape == (2, 3, 5)
    assert rows == [5, 5, 5, 5, 5]
    torch.testing.assert_close(model.eval()(words, said)[said], model(words)[:, :3][said])
    assert rows[-2:] == [8, 8]
