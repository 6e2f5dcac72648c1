"""`gumdrop reproduce co2`, on a made-up record."""

import json

import numpy as np
import pytest
import torch

from gumdrop import cli
from gumdrop_experiments.co2 import study as co2
from gumdrop_experiments.co2.networks import Scale
from gumdrop_experiments.co2.series import LEFT_OUT, series
from gumdrop_experiments.data.mauna_loa import MaunaLoa


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


def test_a_small_run_leaves_every_figure_and_number(data, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(co2, "QUICK", Scale(width=16, depth=2, epochs=3, num_samples=20))
    state, out = torch.get_rng_state(), tmp_path / "out"
    assert cli.main(["reproduce", "co2", "--quick", "--data", str(data), "--out", str(out)]) == 0
    assert torch.equal(torch.get_rng_state(), state)
    contents = json.loads((out / "results.json").read_text())
    assert contents["figures"] == ["co2.png", "co2-learned.png"]
    networks, processes = contents["results"]["networks"], contents["results"]["processes"]
    assert set(networks) == {"relu-fixed", "tanh-fixed", "relu-learned", "tanh-learned"}
    for name, network in networks.items():
        assert len(network["rates"]) == 2
        assert ("fixed" in name) == (network["rates"] == pytest.approx([0.2, 0.2]))
        assert network["band_ratio"] == pytest.approx(network["band_at_end"] / network["band_at_last"], rel=1e-3)
    seasonal, plain = (processes[name]["later"] for name in ("seasonal", "squared-exponential"))
    assert seasonal["log_likelihood"] > plain["log_likelihood"] + 0.5  # the made-up record is all seasons and bend
    for each in (*networks.values(), *processes.values()):
        assert 0 <= each["later"]["coverage_50"] <= each["later"]["coverage_95"] <= 1
    page = (out / "report.html").read_text()
    assert "GP, seasonal kernel" in page


def test_numbers_are_at_least_one(data, tmp_path, capsys) -> None:
    assert cli.main(["reproduce", "co2", "--epochs", "0", "--data", str(data), "--out", str(tmp_path / "out")]) == 2
    assert "`epochs` must be at least 1, got 0" in capsys.readouterr().err
