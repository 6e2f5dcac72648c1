"""Cells that a model cannot know are drawn from training rows: by whom, when, and what that does to predictions."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop.tables import cells as table_cells
from gumdrop.tables import model as tables
from gumdrop.tables import prediction as table_predict
from gumdrop.tables.cells import drawn_if_missing, imputations, imputer, mark_unknown
from gumdrop.tables.explanation import explain_rows
from gumdrop.tables.fitting.fit import fit_table
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.notes import encoding_notes
from gumdrop.tables.prediction import predict_frame
from gumdrop.tables.schema.inference import infer_schema

SETTINGS = FitSettings(hidden=(20,), num_members=2, epochs=80, num_samples=40, compare=False)
NAN = float("nan")


def make_table(num_rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """A price that the size and the town decide; the rooms go with the size."""
    rng = np.random.default_rng(seed)
    size, town = rng.normal(50, 10, num_rows), rng.choice(["Oslo", "Rome"], num_rows)
    price = 3 * size + 40 * (town == "Oslo") + rng.normal(0, 4, num_rows)
    rooms = size / 10 + rng.normal(0, 0.1, num_rows)
    cheap = np.where(price < np.median(price), "yes", "no")
    return pd.DataFrame({"size": size, "rooms": rooms, "town": town, "price": price, "cheap": cheap})


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    place = tmp_path_factory.mktemp("cells")
    frame = make_table()
    frame.drop(columns="cheap").to_csv(place / "price.csv", index=False)
    frame.drop(columns="price").to_csv(place / "cheap.csv", index=False)
    goals = ("price", "cheap")
    return {name: fit_table(place / f"{name}.csv", name, place / name, settings=SETTINGS) for name in goals}


def naive_donors(row: torch.Tensor, donors: torch.Tensor, count: int) -> set[int]:
    """The nearest donors over the known inputs, and all that are as near."""
    far = [sum((a - b) ** 2 for a, b in zip(row.tolist(), d.tolist(), strict=True) if a == a) for d in donors]
    last = sorted(far)[min(count, len(far)) - 1]
    return {i for i, each in enumerate(far) if each <= last + 1e-9}


def test_the_nearest_rows_complete_a_row_in_turns(monkeypatch) -> None:
    monkeypatch.setattr(table_cells, "NEIGHBOURS", 4)
    generator = torch.Generator().manual_seed(3)
    donors, x = torch.randn(15, 5, generator=generator), torch.randn(40, 5, generator=generator)
    x[torch.rand(x.shape, generator=generator) < 0.4] = NAN
    found = torch.stack(list(imputations(x, donors, 12, seed=1)))
    known = ~x.isnan()
    assert (found[:, known] == x[known]).all()
    for n in torch.arange(len(x))[~known.all(1)].tolist():
        same = (found[:, n, None, ~known[n]] == donors[:, ~known[n]]).all(2)  # one donor gives all of them
        used = {i: int(count) for i, count in enumerate(same.sum(0)) if count}
        expected = naive_donors(x[n], donors, 4)
        assert set(used) <= expected
        assert sum(used.values()) == 12
        assert set(used.values()) <= {12 // len(expected), -(-12 // len(expected))}


def test_rows_that_are_equally_near_all_take_part() -> None:
    donors = torch.cat([torch.tensor([[0.0, 1.0]] * 70), torch.tensor([[1.0, 0.0]] * 30)])
    donors = torch.cat([donors, torch.arange(100.0)[:, None]], dim=1)
    x = torch.tensor([[NAN, NAN, NAN], [1.0, 0.0, NAN]])
    found = torch.stack(list(imputations(x, donors, 100, seed=0)))
    assert sorted(found[:, 0, 2].tolist()) == list(range(100))
    assert set(found[:, 1, 2].tolist()) == set(range(70, 100))


def test_a_row_is_completed_in_the_same_way_among_others_and_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    donors, x = torch.randn(60, 6, generator=generator), torch.randn(50, 6, generator=generator)
    x[torch.rand(x.shape, generator=generator) < 0.5] = NAN
    whole = torch.stack(list(imputations(x, donors, 8, seed=2)))
    for rows in (torch.arange(50).flip(0), torch.tensor([0]), torch.tensor([9])):
        assert torch.equal(torch.stack(list(imputations(x[rows], donors, 8, seed=2))), whole[:, rows])


def test_intervals_widen_by_what_is_unknown_and_still_hold(models) -> None:
    model, test = models["price"], make_table(seed=1)
    bare = replace(model, background=torch.empty(0, 0))
    of_size, stds = {"size": None, "rooms": None}, []
    blanks = [{}, {"town": None}, {"town": "Nice"}, of_size, of_size | {"town": ""}]
    for blank in blanks:
        frame = test.assign(**blank)
        found = predict_frame(model, frame).frame
        inside = (found["lower"] <= test["price"]) & (test["price"] <= found["upper"])
        assert 0.82 <= inside.mean() <= 0.97
        stds.append(found["epistemic_std"].mean())
        if blank:
            old = predict_frame(bare, frame).frame
            assert ((old["lower"] <= test["price"]) & (test["price"] <= old["upper"])).mean() < 0.6
    assert 4 * stds[0] < stds[1] == pytest.approx(stds[2], rel=1e-6)
    assert stds[2] < stds[3] < stds[4] == pytest.approx(test["price"].std(), rel=0.25)


def test_what_the_other_cells_tell_is_used(models) -> None:
    frame = make_table(seed=1).assign(size=None)  # the rooms say it
    found = predict_frame(models["price"], frame).frame
    assert found["epistemic_std"].mean() < 15
    assert np.corrcoef(found["prediction"], make_table(seed=1)["price"])[0, 1] > 0.9


def test_other_rows_are_as_they_were(models) -> None:
    model, frame = models["price"], make_table(40, seed=2)
    whole = predict_frame(model, frame).frame
    bare = replace(model, background=torch.empty(0, 0))
    pd.testing.assert_frame_equal(whole, predict_frame(bare, frame).frame, check_exact=True)
    blank = frame.copy()
    blank.loc[::4, "size"] = None
    found = predict_frame(model, blank).frame
    known = found["missing_cells"] == 0
    pd.testing.assert_frame_equal(found[known], whole[known], check_exact=True)
    turned = predict_frame(model, blank.iloc[::-1]).frame.iloc[::-1].reset_index(drop=True)
    pd.testing.assert_frame_equal(turned, found, rtol=1e-4)
    pd.testing.assert_frame_equal(predict_frame(model, blank).frame, found, check_exact=True)


def test_pieces_of_a_table_are_predicted_as_the_whole(models, monkeypatch) -> None:
    frame = make_table(30, seed=2)
    frame.loc[::3, "size"] = None
    whole = predict_frame(models["price"], frame).frame
    monkeypatch.setattr(table_predict, "ROWS_OF_A_PART", 7)
    monkeypatch.setattr(tables, "DISTANCES_AT_ONCE", 500)  # two rows
    pd.testing.assert_frame_equal(predict_frame(models["price"], frame).frame, whole, rtol=1e-4)


def test_unknown_cells_raise_the_disagreement_about_classes(models) -> None:
    model, test = models["cheap"], make_table(seed=1)
    blank = test.assign(size=np.nan, rooms=np.nan)
    known, unknown = (predict_frame(model, frame).frame for frame in (test, blank))
    assert unknown["mutual_information"].mean() > 3 * known["mutual_information"].mean()
    probability = np.where(test["cheap"] == "yes", unknown["p(yes)"], unknown["p(no)"])
    old = predict_frame(replace(model, background=torch.empty(0, 0)), blank).frame
    assert np.log(probability).mean() > np.log(np.where(test["cheap"] == "yes", old["p(yes)"], old["p(no)"])).mean()


@pytest.mark.parametrize(("missing", "drawn"), [(9, ["size", "town"]), (10, ["size"])])
def test_a_missing_category_that_training_knows_stays_one(missing, drawn) -> None:
    frame = make_table(60)[["size", "town", "price"]]
    frame.loc[: missing - 1, "town"] = None
    schema = infer_schema(frame, "price")
    donors = torch.from_numpy(schema.encode_inputs(frame).x)
    assert drawn_if_missing(schema, donors) == drawn
    new = schema.encode_inputs(pd.DataFrame({"size": [50.0, None, 50.0], "town": [None, "Rome", "Nice"]}))
    marked = mark_unknown(schema, new.x, new.unknown, donors).isnan()
    assert marked.tolist() == [[False, *3 * ["town" in drawn]], [True, False, False, False], [False, True, True, True]]
    assert not mark_unknown(schema, new.x, new.unknown, donors[:0]).isnan().any()


def test_the_notes_say_where_cells_come_from(models) -> None:
    model, new = models["price"], pd.DataFrame({"size": [None], "rooms": [5.0], "town": ["Nice"]})
    notes = predict_frame(model, new).notes
    assert notes == [
        "1 missing value in 'size' was drawn from similar training rows",
        "categories of 'town' that training did not have count as unknown and drawn from similar training rows: "
        "'Nice' (1 row)",
    ]
    without = predict_frame(replace(model, background=torch.empty(0, 0)), new).notes
    assert without[0] == "1 missing value in 'size' was set to the training median"
    trained = encoding_notes(model.schema, model.schema.encode_inputs(new))
    assert trained == [f"{without[0]}, to learn with", *without[1:]]


def test_explanations_agree_with_predictions(models) -> None:
    model = models["price"]
    encoded = model.schema.encode_inputs(pd.DataFrame({"size": [55.0], "rooms": [5.5], "town": ["Nice"]}))
    x = mark_unknown(model.schema, encoded.x, encoded.unknown, model.background)
    found = explain_rows(model, x, orders=10)
    assert found.epistemic.value[0] == pytest.approx(model.predict_encoded(x).epistemic.sqrt().item(), rel=1e-4)
    assert found.epistemic.share[0].argmax() == 2
    assert found.epistemic.share[0, 2] > 10


def test_inputs_that_nobody_can_draw_are_refused(models) -> None:
    with pytest.raises(ValueError, match=r"must not hold NaN.*num_background"):
        replace(models["price"], background=torch.empty(0, 0)).predict_encoded(torch.full((1, 4), NAN))


def test_noise_does_not_hold_what_the_spread_of_drawn_cells_holds(tmp_path, monkeypatch) -> None:
    """Two cells in five are blank in training, too: fitted with the median in these, the noise is theirs once more."""
    monkeypatch.setattr("gumdrop.ensembles.correction.DRAWS", 4)
    frame, rng = make_table(400).drop(columns="cheap"), np.random.default_rng(1)
    frame = frame.mask((rng.random(frame.shape) < 0.4) & (frame.columns != "price"))
    frame.to_csv(tmp_path / "blank.csv", index=False)
    found = []
    for folder in ("drawn", "median"):
        if folder == "median":
            monkeypatch.setattr("gumdrop.tables.fitting.data.imputer", lambda marked, donors: None)
        settings = replace(SETTINGS, batch_size=32, epochs=40)
        fit_table(tmp_path / "blank.csv", "price", tmp_path / folder, settings=settings)
        scores = json.loads((tmp_path / folder / "results.json").read_text())["scores"][0]["values"]
        noise = pd.read_csv(tmp_path / folder / "predictions.csv")["aleatoric_std"].mean()
        found.append((noise, scores["log likelihood"]))
    (drawn, drawn_score), (median, median_score) = found
    assert drawn < 0.9 * median
    assert drawn_score > median_score - 0.1  # of 80 rows


def test_nothing_is_completed_where_all_is_known() -> None:
    donors = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    assert imputer(donors, donors) is None
    versions = imputer(donors.clone().index_fill_(0, torch.tensor([2]), NAN), donors)
    assert all(each[0].equal(donors[5]) for each in versions(torch.tensor([5, 2]), 4, 0))
