"""`gumdrop reproduce co2`, on a made-up record."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gumdrop_experiments.co2 import processes as gaussian_processes
from gumdrop_experiments.co2 import study
from gumdrop_experiments.co2.page import point_estimate
from gumdrop_experiments.co2.series import LEFT_OUT, explained, series
from gumdrop_experiments.co2.study import NETWORKS, build
from gumdrop_experiments.data.mauna_loa import MaunaLoa

from builders.reproduced import figures_of, reproduce, reproduced, results_of


def record(months: int = 420) -> MaunaLoa:
    """A slow bend with years on it."""
    t = np.arange(months)
    ppm = 315 + 0.06 * t + 1e-4 * t**2 + 3 * np.sin(2 * np.pi * t / 12)
    return MaunaLoa(np.datetime64("1958-03", "M") + t, ppm)


@pytest.fixture
def data(tmp_path):
    months, ppm = record()
    lines = [f"{month},0,{value:.2f}" for month, value in zip(months.astype(str), ppm, strict=True)]
    (tmp_path / "data" / "co2").mkdir(parents=True)
    (tmp_path / "data" / "co2" / "co2-mm-mlo.csv").write_text("\n".join(lines))
    return tmp_path / "data"


def test_the_series_is_that_of_the_tutorial() -> None:
    found = series(record())
    assert len(found.x) == 272
    assert (found.x[0], found.x[-1]) == pytest.approx((-1.7257, 1.7257), abs=1e-4)
    assert found.later_x[-1] == pytest.approx(3.5087, abs=1e-4)
    assert np.diff(np.concatenate([found.x, found.later_x])) == pytest.approx(np.full(411, 0.012736), abs=1e-6)
    assert (found.y.mean(), found.y.std()) == pytest.approx((0, 1), abs=1e-9)
    assert np.corrcoef(found.x, found.y)[0, 1] == pytest.approx(0, abs=1e-9)
    assert found.period == pytest.approx(12 * 0.012736, abs=1e-5)


def test_later_months_have_the_same_line_and_scale() -> None:
    months, ppm = record()
    found = series(record())
    kept = [i for i, month in enumerate(months.astype(str)) if month not in LEFT_OUT][:272]
    rest = ppm[kept] - np.polyval(np.polyfit(np.arange(272), ppm[kept], 1), np.arange(272))
    line = np.polyval(np.polyfit(np.arange(272), ppm[kept], 1), 411)
    last = months.astype(str).tolist().index("1992-11")
    assert found.later_y[-1] == pytest.approx((ppm[last] - line) / rest.std())
    assert found.scale == pytest.approx(rest.std())


def test_a_record_that_is_too_short_is_an_error() -> None:
    with pytest.raises(ValueError, match="must go from 1958-03 to 1992-11 or later, got 1958-03 to 1974-10"):
        series(record(200))


SMALL = ("--quick", "--width", 16, "--steps", 30, "--learned-steps", 40, "--num-samples", 20, "--chain-draws", 20)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folder of one run, which tests go on with."""
    return tmp_path_factory.mktemp("co2") / "out"


def test_a_small_run_leaves_every_figure_and_number(data, out, monkeypatch, capsys) -> None:
    monkeypatch.setattr(gaussian_processes, "installed", lambda: False)
    results = reproduced("co2", out, *SMALL, "--networks", "fixed", "narrow", data=data)
    assert "numpyro is not installed, so gp-sampled is left out" in capsys.readouterr().out
    assert figures_of(out) == ["co2-record.png", "co2-fixed.png", "co2-narrow.png", "co2-fit.png"]
    networks, processes = results["networks"], results["processes"]
    assert set(networks) == {"relu-fixed", "tanh-fixed", "relu-narrow", "tanh-narrow"}
    assert len(results["asked"]) == 523
    for name, network in networks.items():
        assert len(network["curve"]["mean"]) == 523
        assert ("fixed" in name) == (network["rates"] == pytest.approx([0.2] * 5))
        assert network["looks"][-1]["step"] == (30 if "fixed" in name else 40)
        assert network["band_ratio"] == pytest.approx(network["band_at_end"] / network["band_at_last"], rel=1e-3)
    seasonal, plain = (processes[name]["later"] for name in ("seasonal", "squared-exponential"))
    assert seasonal["log_likelihood"] > plain["log_likelihood"] + 0.5  # the made-up record is all seasons and bend
    for each in (*networks.values(), *processes.values()):
        assert 0 <= each["later"]["coverage_50"] <= each["later"]["coverage_95"] <= 1
    page = (out / "report.html").read_text()
    assert "GP, seasonal kernel" in page

    (out / "parts" / "tanh-fixed.json").unlink()
    results = reproduced("co2", out, *SMALL, "--networks", "scripts", "--resume", data=data)  # more can be added
    assert list(results["networks"]) == ["relu-scripts", "tanh-scripts", "relu-fixed", "relu-narrow", "tanh-narrow"]
    assert results["networks"]["relu-narrow"] == networks["relu-narrow"]
    page = (out / "report.html").read_text()
    assert ".12 → 5.0" in page
    assert "Not trained: tanh 5 × 1024, p = .2; ReLU 4 × 128, learned p, held at first;" in page
    assert "Stopped" not in page


def test_a_network_that_was_stopped_is_reported_as_it_is(data, out, monkeypatch) -> None:
    monkeypatch.setattr(gaussian_processes, "installed", lambda: False)
    monkeypatch.setattr(study, "SAVED_EVERY", 10)
    found = series(record())
    assert reproduce("co2", out, *SMALL, "--networks", "narrow", "--resume", data=data) == 0
    state = out / "parts" / "relu-learned.checkpoint"
    looks = study.train(build(NETWORKS["relu-learned"], width=16, seed=0), found, state, steps=20, seed=0)
    assert reproduce("co2", out, *SMALL, "--networks", "narrow", "--resume", data=data) == 0
    results = results_of(out)
    assert results["networks"]["relu-learned"]["looks"][-1]["rmse"] == pytest.approx(looks[-1]["rmse"], abs=1e-3)
    assert "asked as they were: ReLU 5 × 1024, learned p after 20 steps." in (out / "report.html").read_text()
    assert (out / "parts" / "relu-learned-20.json").exists(), "it is asked once"
    assert state.exists(), "the training can still go on"


def test_a_training_that_was_stopped_goes_on_where_it_was(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(study, "SAVED_EVERY", 10)
    found = series(record())

    def network() -> torch.nn.Sequential:
        return build(NETWORKS["relu-narrow"], width=16, seed=1)

    def stop(*words: object, **more: object) -> None:
        raise KeyboardInterrupt

    whole, again = network(), network()
    looks = study.train(whole, found, tmp_path / "whole", steps=30, seed=3)
    monkeypatch.setattr("builtins.print", stop)  # what is said after a state was saved
    with pytest.raises(KeyboardInterrupt):
        study.train(again, found, tmp_path / "stopped", steps=30, seed=3)
    monkeypatch.undo()
    again = network()
    assert study.train(again, found, tmp_path / "stopped", steps=30, seed=3) == looks
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


def test_rates_that_are_held_stay_where_they_start(tmp_path) -> None:
    network = build(NETWORKS["relu-held"], width=16, seed=0)
    looks = study.train(network, series(record()), tmp_path / "state", steps=20, seed=0, hold=10)
    rates = {look["step"]: look["rates"][0] for look in looks}
    assert rates[10] == pytest.approx(0.1, abs=1e-5)
    assert rates[20] > 0.101


def test_the_share_of_the_seasons_is_blind_to_years() -> None:
    months = np.arange(120)
    year, trend = np.sin(2 * np.pi * months / 12), 0.3 * months
    assert explained(trend + year, trend + year) == 1
    assert explained(trend + year, 7 + year) == pytest.approx(1)
    assert explained(trend + year, trend) == pytest.approx(0, abs=1e-9)
    assert explained(year, 0.5 * year) == pytest.approx(0.75)


def test_a_process_with_given_hyper_parameters_is_that_of_scikit_learn() -> None:
    found, x = series(record()), np.array([-1.0, 0.3, 1.7, 2.5])
    mean, variance = gaussian_processes.conditional(found, x, 0.2, 1.3, 0.4)
    theirs = GaussianProcessRegressor(1.3**2 * RBF(0.2) + WhiteKernel(0.4**2), optimizer=None)
    expected, std = theirs.fit(found.x[:, None], found.y).predict(x[:, None], return_std=True)
    np.testing.assert_allclose(mean, expected, atol=1e-6)
    np.testing.assert_allclose(variance, std**2, rtol=1e-6)


def test_halves_of_the_record_have_the_density_of_the_whole() -> None:
    found = series(record())
    kernel = 1.3**2 * RBF(0.2)
    whole = multivariate_normal.logpdf(found.y, cov=kernel(found.x[:, None]) + 0.4**2 * np.eye(272))
    targets, squares = gaussian_processes.halves(found)
    within, across = 1.3**2 * np.exp(-squares / (2 * 0.2**2))
    parts = [
        multivariate_normal.logpdf(target, cov=covariance + 0.4**2 * np.eye(136))
        for target, covariance in zip(targets, (within + across, within - across), strict=True)
    ]
    assert sum(parts) == pytest.approx(whole, rel=1e-9)


def test_hyper_parameters_are_sampled_where_numpyro_is_there(data, tmp_path) -> None:
    pytest.importorskip("numpyro")
    out = tmp_path / "out"
    processes = reproduced("co2", out, *SMALL, "--networks", "narrow", data=data)["processes"]
    assert list(processes["sampled"]["parameters"]) == list(point_estimate(processes["squared-exponential"]))
    for one in processes["sampled"]["parameters"].values():
        assert np.shape(one["trace"]) == (2, 20)
        assert one["mean"] > 0
    assert (out / "co2-chains.png").stat().st_size > 2000
