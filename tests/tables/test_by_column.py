"""The test rows column by column: importance, groups, and where to cut a probability."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from gumdrop.ensembles.models import Ensemble
from gumdrop.likelihoods import ClassificationPrediction, RegressionPrediction
from gumdrop.tables.by_column import _grid, by_column, effects
from gumdrop.tables.model import TableModel
from gumdrop.tables.profile import Profile, column_profiles
from gumdrop.tables.reading.declared import Reading
from gumdrop.tables.schema.columns import CategoryColumn
from gumdrop.tables.schema.inference import infer_schema
from gumdrop.tables.schema.schema import Target
from gumdrop.tables.task import Classification, Cut


class Line(Ensemble):
    """Says 3 times the first encoded column, give or take 1/2."""

    def __init__(self, *members):
        super().__init__(members or [nn.Sequential()])

    def _of_functions(self, functions, x, batch_size):
        raise NotImplementedError

    def functions(self, num_samples, seed):
        return None  # asks its members one by one

    def predict(self, x, **_):
        mean = 3 * x[:, :1]
        return RegressionPrediction.gaussian(mean, torch.full_like(mean, 0.25))


def houses(num_rows=60):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(0, 1, num_rows), "idle": rng.normal(0, 1, num_rows)})
    frame["town"] = np.where(np.arange(num_rows) % 3 == 0, "Aldrup", "Bexen")
    frame["agency"] = [f"A{i // 20}" for i in range(num_rows)]
    frame.loc[5, "idle"] = np.nan
    frame["price"] = 3 * frame["size"] + 0.5 * rng.normal(size=num_rows) + 4 * (frame["town"] == "Aldrup")
    return frame


@pytest.fixture
def found():
    frame = houses()
    schema = infer_schema(frame, "price", Reading(drop=("agency",)))
    schema = type(schema)(schema.columns, Target("price", "regression"))  # units are those of the table
    model = TableModel(schema, Line(), (), background=torch.from_numpy(schema.encode_inputs(frame).x))
    x = torch.from_numpy(schema.encode_inputs(frame).x)
    prediction = model.predict_encoded(x)
    tested = model.prediction_frame(prediction)
    tested.insert(0, "row", range(1, len(frame) + 1))
    observed = torch.tensor(frame[["price"]].to_numpy())
    return frame, model, x, observed, by_column(model, x, observed, tested, frame, "agency"), prediction


def test_training_rows_are_kept_in_the_units_of_the_table(found) -> None:
    frame, model, x, observed, _, _ = found
    encoded = model.schema.encode_inputs(frame)
    profile = Profile(column_profiles(model.schema, encoded.x, encoded.unknown), 0.0, 60, 0)
    known = dataclasses.replace(model, profile=profile)
    tested = model.prediction_frame(model.predict_encoded(x))
    tested.insert(0, "row", range(1, 61))
    size, idle, town = by_column(known, x, observed, tested, frame, None).spreads
    low, high = frame["size"].min(), frame["size"].max()
    assert (size.kind, size.labels) == ("number", [f"{low:.4g}", f"{high:.4g}"])
    assert size.edges[1:] == pytest.approx(frame["size"].quantile(np.arange(1, 11) / 10, "lower"), abs=0.12)
    assert (sum(size.counts), size.counts[0], size.counts[-1], idle.counts[-1]) == (60, 0, 0, 1)
    assert (town.kind, town.labels, town.counts) == ("category", ["Aldrup", "Bexen"], [20, 40, 0])


def test_importance_is_what_is_lost_when_rows_trade_their_cells(found) -> None:
    _, model, x, observed, result, right = found
    first, *others = result.importance
    assert (first.name, result.rows, result.shuffles) == ("size", 60, 5)
    assert all(gain.mean == gain.se == 0 for each in others for gain in each.gains.values())
    traded = x.clone()
    losses = []
    for seed in range(200):  # the naive twin: permutations at random
        order = torch.randperm(60, generator=torch.Generator().manual_seed(seed))
        traded[:, 0] = x[order, 0]
        wrong = model.predict_encoded(traded)
        losses.append(((wrong.mean - observed).abs() - (right.mean - observed).abs()).mean().item())
    gain = first.gains["distance"]
    assert abs(gain.mean - np.mean(losses) * 60 / 59) < 2 * gain.se  # one in 60 of them keeps its cell
    assert 0.02 < gain.se / gain.mean < 0.3


def test_groups_are_categories_and_quarters_and_count_what_holds(found) -> None:
    frame, *_, result, prediction = found
    lower, upper = (end.squeeze(1).numpy() for end in prediction.interval(0.9))
    held = frame["price"].between(lower, upper)
    groups = {(each.column, each.words): each for each in result.groups}
    assert groups["town", "Aldrup"].rows == 20
    assert groups["town", "Aldrup"].held == held[frame["town"] == "Aldrup"].sum() < 5
    assert groups["town", "Bexen"].held == held[frame["town"] == "Bexen"].sum()
    assert all(each.stated == 0.9 for each in result.groups)
    assert groups["agency", "A1"].held == held[20:40].sum()  # rows were split by it, and it is no input
    quarters = [each for each in result.groups if each.column == "size"]
    assert [each.rows for each in quarters] == [15] * 4
    assert sum(each.held for each in quarters) == held.sum()


def test_cells_to_draw_are_those_of_the_columns_that_are_worth_most(found) -> None:
    frame, *_, result, _ = found
    cells = {each.name: each for each in result.cells}
    assert result.cell_rows == list(range(1, 61))
    assert cells["size"].numbers == frame["size"].tolist()
    assert cells["idle"].numbers[5] is None
    assert cells["town"].labels == frame["town"].tolist()


def ranked(probabilities, labels):
    columns = torch.tensor([[1 - p, p] for p in probabilities])
    return ClassificationPrediction.from_log_probabilities(columns.log()), torch.tensor(labels)


def test_the_best_cut_has_the_best_f1_of_all() -> None:
    task = Classification(Target("fraud", "classification", classes=("no", "yes")))
    rng = np.random.default_rng(3)
    labels = (rng.random(200) < 0.2).astype(int)
    probabilities = np.clip((0.3 * labels + 0.5 * rng.random(200)).round(2), 0.01, 0.99)  # with ties
    cut = task.best_cut(*ranked(probabilities.tolist(), labels.tolist()))

    def f1(at):
        flagged = probabilities >= at
        return 2 * (flagged & (labels == 1)).sum() / (flagged.sum() + labels.sum())

    assert cut.label == 1
    assert f1(cut.probability) == max(f1(at) for at in np.linspace(0, 1, 1001))
    assert task.best_cut(*ranked([0.5, 0.6], [1, 1])) is None


def test_ranking_tells_what_cuts_come_to() -> None:
    task = Classification(Target("fraud", "classification", classes=("no", "yes")))
    prediction, labels = ranked([0.9, 0.6, 0.4, 0.3, 0.1, 0.05], [1, 0, 1, 0, 0, 0])
    found = task.ranking(prediction, labels, Cut(1, 0.35))
    assert (found.name, found.rows, found.other_rows) == ("yes", 2, 4)
    assert found.average_precision == pytest.approx((1 + 2 / 3) / 2)
    half, suggested = found.thresholds
    assert (half.flagged, half.found, half.suggested) == (2, 1, False)
    assert (suggested.flagged, suggested.found, suggested.suggested) == (3, 2, True)
    assert len(task.ranking(prediction, labels, None).thresholds) == 1
    several = Classification(Target("kind", "classification", classes=("no", "yes", "perhaps")))
    three = ClassificationPrediction.from_log_probabilities(torch.full((4, 3), 1 / 3).log())
    assert several.ranking(three, torch.tensor([0, 1, 1, 2]), None).thresholds == []
    assert several.best_cut(three, torch.tensor([0, 1, 1, 2])) is None


class Slopes(Line):
    """Says the mean of the slopes of its members, times the first encoded column."""

    def __init__(self, *slopes):
        super().__init__(*(nn.ParameterList([torch.tensor(slope)]) for slope in slopes))

    def predict(self, x, **_):
        mean = torch.stack([member[0] for member in self.members]).mean() * x[:, :1]
        return RegressionPrediction.gaussian(mean, torch.full_like(mean, 0.25))


def test_an_effect_has_the_categories_in_their_order() -> None:
    cells, first = _grid(CategoryColumn("floor", ("2", "9", "10")), pd.Series(["10", "x", "9", "2", "9"]))
    assert (cells.labels, first.tolist()) == (["2", "9", "10", "x"], [3, 2, 0, 1])


def test_an_effect_is_the_mean_over_rows_with_the_spread_of_the_functions(found) -> None:
    frame, model, x, *_ = found
    spread = dataclasses.replace(model, ensemble=Slopes(2.0, 3.0, 7.0))
    size, idle, town = effects(spread, x, frame, model.schema.columns[:3], None)
    assert size.numbers == sorted(size.numbers)
    encoded = (np.array(size.numbers) - frame["size"].mean()) / frame["size"].std(ddof=0)
    np.testing.assert_allclose(size.mean, 4 * encoded, rtol=1e-5)
    np.testing.assert_allclose(size.epistemic, np.std([2, 3, 7]) * abs(encoded), rtol=1e-5)
    flat = 4 * float(x[:, 0].mean())
    np.testing.assert_allclose([*idle.mean, *town.mean], flat, atol=1e-5)
    assert (town.labels, len(idle.numbers)) == (["Aldrup", "Bexen"], 16)
