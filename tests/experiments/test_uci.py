"""`gumdrop reproduce uci`, scaled down, on real data that comes with scikit-learn."""

import importlib.util
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats

from gumdrop.likelihoods import RegressionPrediction
from gumdrop_experiments.data.uci import read_splits
from gumdrop_experiments.uci import methods as uci_methods
from gumdrop_experiments.uci import study as uci
from gumdrop_experiments.uci import work as uci_work
from gumdrop_experiments.uci.methods import GRID, METHODS, fixed_network, grid_settings
from gumdrop_experiments.uci.work import Work, scores

from builders.reproduced import reproduce, reproduced, results_of
from builders.uci import write_set


@pytest.fixture(autouse=True)
def few_draws(monkeypatch) -> None:
    monkeypatch.setattr(uci_methods, "NUM_SAMPLES", 20)
    monkeypatch.setattr(uci_work, "NUM_SAMPLES", 20)


@pytest.fixture
def data(tmp_path):
    write_set(tmp_path / "data" / "uci" / "diabetes")
    return tmp_path / "data"


@pytest.fixture
def work(data) -> Work:
    return Work("diabetes", read_splits(data / "uci" / "diabetes", most=2), seed=0, epochs=2)


def test_a_quick_run_compares_all_methods_and_goes_on_after_a_stop(data, tmp_path, monkeypatch) -> None:
    out = tmp_path / "out"
    run = partial(reproduce, "uci", out, "--quick", "--splits", 2, data=data)
    monkeypatch.setattr(uci, "QUICK_EPOCHS", 2)
    stopped = replace(METHODS["grid"], run=lambda work: (_ for _ in ()).throw(KeyboardInterrupt))
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "grid", stopped)
        assert run() == 130
    assert {path.name for path in (out / "parts").glob("*.json")} == {
        f"diabetes-{key}.json" for key in ("chosen", "gumdrop", "one-member", "dropout-off")
    }
    assert run() == 2, "the folder is not empty"
    monkeypatch.setitem(METHODS, "gumdrop", stopped)
    (found,) = reproduced("uci", out, "--quick", "--splits", 2, "--resume", data=data).values()
    assert list(found["methods"]) == [key for key, method in METHODS.items() if method.default]
    assert found["splits"] == 2
    for key, summary in found["methods"].items():
        assert all(math.isfinite(value) for score in ("rmse", "log_likelihood", "crps") for value in summary[score])
        assert ("gain" in summary) == (key != "grid")
    assert found["methods"]["one-member"]["cost_ratio"] == pytest.approx(1 / (12 * 0.8 + 1), rel=0.1)
    assert {"splits_in_turn", "splits_as_one_program", "grid_in_turn"} <= set(found["cost"])
    page = (out / "report.html").read_text()
    assert "fixed dropout, grid search" in page


@pytest.mark.parametrize(("scheme", "passes"), [("three-pass", 3), ("two-pass", 2)])
def test_a_scheme_of_passes_moves_weights_noise_and_rates(work, monkeypatch, scheme, passes) -> None:
    monkeypatch.setattr(uci_methods, "CYCLES", 2)
    outcome = METHODS[scheme].run(replace(work, scheme_epochs=20))
    assert outcome.row_passes == passes * 20 * 140
    assert len(outcome.rates) == 2
    assert [len(rates) for rates in outcome.rates] == [4, 4]
    assert all(abs(p - 0.1) > 1e-4 for rates in outcome.rates for p in rates)


def test_a_scheme_of_passes_has_a_schedule_of_its_own(work, monkeypatch) -> None:
    """Rates fall once the network knows its rows, so the schedule of the default must not say how long it trains."""
    monkeypatch.setattr(uci_methods, "CYCLES", 2)
    scheme = METHODS["three-pass"]
    before = scheme.run(replace(work, scheme_epochs=4)).rates
    monkeypatch.setattr(uci_work, "schedule", lambda num_rows, epochs: (16, 50))
    assert scheme.run(replace(work, scheme_epochs=4)).rates == before


def test_with_published_factors_the_entropy_alone_moves_all_rates_by_the_steps_of_the_report(work, monkeypatch) -> None:
    """It counts 3,500 times the ELBO's at 70 rows; a hundred steps of about 1e-3 carry each logit by about .1."""
    monkeypatch.setattr(uci_methods, "CYCLES", 2)
    scheme = METHODS["two-pass"]
    work = replace(work, splits=work.splits[:1], scheme_epochs=100)
    works = (replace(work, regularisers=each) for each in (None, (1e-2, 1e2)))
    plain, strong = map(scheme.run, works)
    for rates in strong.rates:
        assert rates == pytest.approx([0.1093] * 4, abs=1e-3)
    assert all(max(rates) - min(rates) > 0.01 for rates in plain.rates)


def test_the_grid_chooses_what_is_best_on_a_fifth_of_each_training_part(work, monkeypatch) -> None:
    """A search whose one candidate has the right noise, beside some a thousand times too sure, finds it."""
    monkeypatch.setitem(GRID, "diabetes", (1e3, 1 / 70**2, 1e4))
    outcome = METHODS["grid"].run(work)
    assert [chosen["precision"] for chosen in outcome.chosen] == [1 / 70**2] * 2
    assert outcome.row_passes == 2 * (2 * 12 * (70 - 14) + 2 * 70)
    noise = torch.cat([prediction.aleatoric for prediction in outcome.predictions]).sqrt()
    torch.testing.assert_close(noise, torch.full_like(noise, 70.0))


def test_other_sets_have_a_grid_of_their_own(work) -> None:
    settings = grid_settings("diabetes", work.splits)
    assert len(settings) == 12
    assert {round(precision * work.splits[0].y_std ** 2, 6) for _, precision in settings} == {2, 10, 50}
    model = fixed_network(work.splits[0], 0.05, 0.01)
    assert model[-1].log_variance.item() == pytest.approx(math.log(100 / work.splits[0].y_std ** 2), rel=1e-5)
    assert not model[-1].log_variance.requires_grad


def test_scores_are_in_units_of_the_target(work) -> None:
    split = work.splits[0]
    y = split.y_test * split.y_std + split.y_mean
    zero = torch.zeros_like(y)
    prediction = RegressionPrediction(y + 3, zero, zero + 4, (y + 3)[None], (zero + 4)[None])
    outcome = uci_methods.Outcome([prediction], [], 0.0, 0, [])
    (score,) = scores(outcome, [split])
    assert score["rmse"] == pytest.approx(3, rel=1e-4)
    assert score["log_likelihood"] == pytest.approx(stats.norm(3, 2).logpdf(0), rel=1e-4)
    assert (score["coverage_50"], score["coverage_90"], score["coverage_95"]) == (0, 1, 1)


def test_the_paired_test_allows_for_overlap(work) -> None:
    """With no test rows to speak of it is the plain t-test; with as many as to train on it is far more careful."""
    gain = np.random.default_rng(0).normal(0.05, 0.1, 20)
    split = work.splits[0]
    plain = stats.ttest_1samp(gain, 0).pvalue
    small = split.part(torch.arange(69), torch.tensor([69]))
    assert uci.paired_test(gain, [small]) > plain
    ratio = 10 / 70
    careful = gain.mean() / math.sqrt(gain.var(ddof=1) * (1 / 20 + ratio))
    assert uci.paired_test(gain, [split]) == pytest.approx(2 * stats.t.sf(careful, 19))
    assert uci.paired_test(np.zeros(5), [split]) is None


def test_a_split_that_does_not_match_is_named(data, tmp_path, capsys) -> None:
    (data / "uci" / "diabetes" / "index_test_1.txt").write_text("500\n")
    assert reproduce("uci", tmp_path / "out", data=data) == 2
    assert "must hold row numbers from 0 to 79, each once, got 500" in capsys.readouterr().err


def test_without_the_peer_package_it_is_left_out(data, tmp_path, capsys, monkeypatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "concretedropout" else find(name))
    out = tmp_path / "out"
    assert reproduce("uci", out, "--quick", "--methods", "no-dropout", "peer", "--splits", 2, data=data) == 0
    assert "concretedropout is not installed" in capsys.readouterr().out
    assert list(results_of(out)["diabetes"]["methods"]) == ["no-dropout"]
