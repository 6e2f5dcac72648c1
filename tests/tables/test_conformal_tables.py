"""Conformal levels from a fit to its folder, its predictions, and the rows that come after."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop.cli.commands import main
from gumdrop.likelihoods.conformal import ConformalLevels
from gumdrop.tables import TableError, fit_table, load_table_model
from gumdrop.tables.conformal import Conformal, GroupColumn, conformal_of
from gumdrop.tables.explanation import explain_table
from gumdrop.tables.following import follow, put_model
from gumdrop.tables.prediction import predict_known
from gumdrop.tables.reading.declared import Reading
from gumdrop.tables.results import read_results
from gumdrop.tables.schema.inference import infer_schema

from builders.tables import QUICK

SETTINGS = replace(QUICK, compare=False, conformal_by=("site",), test_fraction=0.5)


def sites(num_rows: int = 700, seed: int = 0) -> pd.DataFrame:
    """Two sites, one of which has five times the noise, and one that is seldom."""
    random = np.random.default_rng(seed)
    site = random.choice(["calm", "wild", "rare"], num_rows, p=[0.6, 0.35, 0.05])
    size = random.normal(size=num_rows)
    price = size + np.where(site == "wild", 1.5, 0.3) * random.normal(size=num_rows)
    return pd.DataFrame({"site": site, "size": size, "price": price, "rank": np.where(price > 0.5, "high", "low")})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("conformal") / "model"
    fit_table(sites(), "price", place, reading=Reading(drop=("rank", "site")), settings=SETTINGS)
    return place


def share_held(model, frame: pd.DataFrame) -> float:
    found = model.predict(frame)
    return float(((found["lower"] <= frame["price"]) & (frame["price"] <= found["upper"])).mean())


def test_each_group_has_what_is_promised_though_the_networks_do_not_see_it(folder) -> None:
    model, later = load_table_model(folder), sites(3000, seed=1)
    for site in ("calm", "wild"):
        assert share_held(model, later[later["site"] == site]) > 0.86
    assert share_held(replace(model, conformal=None), later[later["site"] == "wild"]) < 0.8
    notes = " ".join(read_results(folder).notes)
    assert "intervals are conformal: 210 training rows" in notes
    assert "groups of 'site' with fewer than 50 of these rows keep the level of all rows: rare (" in notes


def test_explanations_give_the_intervals_of_predictions(folder, tmp_path) -> None:
    model, later = load_table_model(folder), sites(4, seed=1)
    later.to_csv(tmp_path / "later.csv", index=False)
    rows, found = explain_table(model, tmp_path / "later.csv", orders=2).rows, model.predict(later)
    for name in ("lower", "upper"):
        np.testing.assert_allclose([getattr(row, name) for row in rows], found[name], rtol=1e-5)


def test_groups_of_yes_and_no_are_known_in_any_capitals() -> None:
    levels = (ConformalLevels.of(torch.zeros(60, 1, 2)),) * 3
    schema = infer_schema(pd.DataFrame({"size": range(12), "price": np.arange(12) / 7}), "price")
    conformal = Conformal(levels, (GroupColumn("open", None, {"Yes": 2, "No": 1}),))
    groups = conformal.groups(schema, pd.DataFrame({"open": ["yes", "NO", "Yes", "maybe"]}))
    assert groups.squeeze(1).tolist() == [2, 1, 2, 0]
    mixed = pd.DataFrame({"size": range(120), "open": ["yes", "No", "YES", "no"] * 30})
    fitted, _ = conformal_of(torch.rand(120, 1, 2), mixed, schema, ["open"])
    assert fitted.columns[0].places == {}, "and each spelling is a group of its own in training, here too small"


def test_a_group_of_a_day_is_known_whether_its_file_has_dates_times_or_texts() -> None:
    levels = (ConformalLevels.of(torch.zeros(60, 1, 2)),) * 2
    conformal = Conformal(levels, (GroupColumn("day", None, {"2024-03-01": 1}),))
    schema = infer_schema(pd.DataFrame({"size": range(12), "price": np.arange(12) / 7}), "price")
    day = pd.Timestamp("2024-03-01")
    for cell in (day, day.date(), str(day), "2024-03-01"):
        assert conformal.groups(schema, pd.DataFrame({"day": [cell]})).tolist() == [[1]]


def test_groups_that_look_like_numbers_are_read_as_in_training(folder) -> None:
    model, later = load_table_model(folder), sites(300, seed=1)
    (column,) = model.conformal.columns
    percent = {"5%": column.places["calm"], "10%": column.places["wild"]}
    renamed = replace(model, conformal=replace(model.conformal, columns=(replace(column, places=percent),)))
    for name, other in (("calm", "5%"), ("wild", "10%")):
        rows = later[later["site"] == name]
        pd.testing.assert_frame_equal(renamed.predict(rows.assign(site=other)), model.predict(rows))


def test_quantiles_are_those_of_the_levels(folder) -> None:
    model, later = load_table_model(folder), sites(3000, seed=1)
    found = model.predict(later, quantiles=(0.1, 0.9))
    assert (later["price"] <= found["q90"]).mean() >= 0.88
    assert (later["price"] >= found["q10"]).mean() >= 0.88


def test_rows_that_come_later_move_the_levels_in_the_folder(folder) -> None:
    model, drifted = load_table_model(folder), sites(400, seed=2)
    drifted["price"] += 3 * np.random.default_rng(3).normal(size=400)
    before = share_held(model, drifted)
    names = {path.name for path in folder.iterdir()}
    put_model(follow(model, drifted, predict_known(model, drifted)[0].scored), folder, print)
    after = share_held(load_table_model(folder), drifted)
    assert before < 0.7
    assert 0.82 < after <= 1
    assert {path.name for path in folder.iterdir()} == names
    put_model(model, folder, print)


def test_rows_that_are_scored_at_another_coverage_leave_that_of_the_fit(folder, tmp_path) -> None:
    sites(60, seed=4).to_csv(tmp_path / "later.csv", index=False)
    before = load_table_model(folder)
    assert main(["evaluate", str(folder), str(tmp_path / "later.csv"), "--update", "--coverage", "0.5"]) == 0
    after = load_table_model(folder)
    assert after.coverage == before.coverage == 0.9
    assert not after.conformal.levels[0].central.equal(before.conformal.levels[0].central)
    put_model(before, folder, print)


def test_classes_have_sets() -> None:
    settings, results = replace(QUICK, compare=False, conformal=True), []
    options = {"settings": settings, "finish": lambda found, _: results.append(found)}
    model = fit_table(sites(400), "rank", reading=Reading(drop=("price",)), **options)
    found = model.predict(sites(200, seed=1))
    assert set(found["set"]) <= {"high", "low", "high | low"}
    assert all(row["prediction"] in row["set"].split(" | ") for _, row in found.iterrows())
    assert results[0].scores[0].values["coverage of 90% set"] > 0.7
    assert 1 <= results[0].scores[0].values["classes in a set"] <= 2


def test_what_cannot_be_is_told_before_the_training(folder) -> None:
    with pytest.raises(TableError, match=r"no column 'sit' .did you mean site"):
        fit_table(sites(100), "price", settings=replace(QUICK, conformal_by=("sit",)))
    model = load_table_model(folder)
    with pytest.raises(TableError, match="no column 'site'"):
        model.predict(sites(5).drop(columns="site"))
    with pytest.raises(TableError, match="this model has none: fit it with --conformal"):
        follow(replace(model, conformal=None), sites(5), None)
