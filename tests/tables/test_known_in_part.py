"""Tables whose target is known in part: times with an event, numbers between two ends."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from gumdrop.cli import main
from gumdrop.ensembles import EnsembleSettings
from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop.likelihoods import Categorical, Gaussian, PartKnown
from gumdrop.tables import Reading, TableError, fit_table, load_table_model
from gumdrop.tables.results import read_results
from gumdrop.tables.schema.schema import TableSchema
from gumdrop.views.report import write_report

from builders.tables import QUICK

RNG = np.random.default_rng(0)
AGE = RNG.normal(size=200)
TIME, END = np.exp(2 - 0.8 * AGE + 0.4 * RNG.normal(size=200)), RNG.uniform(1, 30, 200)
WEEKS = pd.DataFrame({"age": AGE, "arm": RNG.choice(["a", "b"], 200), "week": np.minimum(TIME, END),
                      "left": (TIME <= END).astype(int)})  # fmt: skip
WEEKS.loc[3, "week"] = np.nan
EVENT = Reading(event="left")
LEVELS = pd.DataFrame({"depth": AGE, "low": np.where(TIME > 4, TIME, np.nan), "high": np.where(TIME > 4, TIME, 4.0)})
RANGE = Reading(lower="low", upper="high")
LEARNS = dataclasses.replace(QUICK, epochs=40, compare=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weeks") / "run"
    fit_table(WEEKS, "week", folder, reading=EVENT, settings=LEARNS)
    return folder


def test_a_time_is_predicted_by_its_survival(folder) -> None:
    model = load_table_model(folder)
    found = model.predict(WEEKS.drop(columns=["week", "left"]), at=[2, 20], quantiles=[0.5])
    assert (found["p(>2)"] >= found["p(>20)"]).all()
    assert np.array_equal(found["prediction"], found["q50"])
    assert np.corrcoef(np.log(found["prediction"]), np.log(TIME))[0, 1] > 0.6
    assert (found["prediction"] > 0).all()
    assert model.schema.target.known == ("left",)
    assert TableSchema.from_json(model.schema.to_json()) == model.schema
    assert model.schema.names == ["age", "arm"]


def test_rows_that_are_not_seen_count_with_what_is_known(folder) -> None:
    results = read_results(folder)
    assert "'week' was seen in" in results.notes[1]
    assert "1 of 200 rows have no 'week'" in results.notes[0]
    scores = {score.name: score.values["log likelihood"] for score in results.scores}
    assert scores["learned dropout"] > scores["one curve for all rows"] + 0.2
    written = pd.read_csv(folder / "predictions.csv")
    rows = WEEKS.iloc[written["row"] - 1]
    assert np.allclose(written["observed"], rows["week"])
    assert np.array_equal(written["observed_upper"].notna(), rows["left"] == 1)
    assert results.columns.importance[0].name == "age"
    shares = np.array(results.calibration.observed, dtype=float)
    assert (np.diff(shares) >= 0).all()
    assert results.uncertain.rows[0].observed.startswith("over") or float(results.uncertain.rows[0].observed)


def test_curves_of_the_test_part_and_their_page(folder) -> None:
    curves = read_results(folder).curves
    assert curves.values[0] == 0
    for above in [each.above for each in curves.rows] + [curves.mean, curves.whole]:
        assert above[0] == pytest.approx(1)
        assert (np.diff(above) <= 1e-6).all()
    assert len(curves.at) == 3
    assert np.abs(np.array(curves.mean) - curves.whole).mean() < 0.2
    page = write_report(folder).read_text()
    assert page.count("<svg") >= 4
    assert "Kaplan-Meier" in page
    assert "cells of the" in page


def test_commands_of_a_time(folder, tmp_path, shell) -> None:
    WEEKS.head(20).to_csv(tmp_path / "new.csv", index=False)
    told = shell.told("evaluate", folder, tmp_path / "new.csv")
    assert told["rows"] == 19
    assert {"integrated Brier score", "concordance", "calibration p"} <= {*told["scores"]}
    words = ["evaluate", str(folder), str(tmp_path / "new.csv"), "--page", str(tmp_path / "page.html")]
    assert main(words) == 0
    assert "over " in (tmp_path / "page.html").read_text()
    words = ["predict", str(folder), str(tmp_path / "new.csv"), "--at", "1", "5", "--out", str(tmp_path / "p.csv")]
    assert main([*words, "--keep", "week"]) == 0
    written = pd.read_csv(tmp_path / "p.csv")
    assert {"p(>1)", "p(>5)", "week"} <= {*written}
    assert "probability of its interval" in shell.said("info", folder)
    table, again = str(tmp_path / "new.csv"), str(tmp_path / "again")
    words = ["fit", table, "--test", table, "--config", str(folder / "config.toml"), "--epochs", "1", "--no-compare"]
    assert main([*words, "--out", again, "--quiet"]) == 0
    assert main(["compare", str(folder), again]) == 0
    assert "cannot be exported" in shell.refused("export", folder)


def test_numbers_between_two_ends() -> None:
    model = fit_table(LEVELS, "arsenic", reading=RANGE, settings=LEARNS)
    found = model.predict(LEVELS[["depth"]])
    assert np.corrcoef(np.log(found["prediction"]), np.log(TIME))[0, 1] > 0.6
    assert model.schema.names == ["depth"]


@pytest.mark.parametrize("zeros", [[0], [0, 1]])
def test_times_of_0_that_are_over_or_not(zeros, tmp_path) -> None:
    rest = WEEKS.dropna().head(80)
    frame = pd.concat([rest, rest.head(2 * len(zeros)).assign(week=0.0, left=zeros * 2)], ignore_index=True)
    model = fit_table(frame, "week", tmp_path / "run", reading=EVENT, settings=dataclasses.replace(LEARNS, epochs=2))
    assert np.isfinite(model.predict(frame)["prediction"]).all()
    assert all(np.isfinite(list(score.values.values())).all() for score in read_results(tmp_path / "run").scores)


def changed(**cells) -> pd.DataFrame:
    frame = WEEKS.astype(object)
    for name, value in cells.items():
        frame.loc[6, name] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "reading", "message"),
    [
        (changed(week=-2.0), EVENT, r"'week' has '-2.0' in data row 7, which is a time before the start: count"),
        (changed(left=2), EVENT, r"'left' has '2.0' in data row 7, which is neither 1 nor 0: write 1 where"),
        (changed(left=None), EVENT, r"'left' has 'nan' in data row 7, which is neither 1 nor 0"),
        (WEEKS.assign(left=0), EVENT, r"no row has the event 'left'.*wrong way round"),
        (LEVELS.assign(low=9.0), RANGE, r"'low' has '9.0' in data row \d+ \(and .* which is above its 'high' of"),
        (LEVELS.assign(low=np.nan), RANGE, r"'low' is missing in all rows"),
        (LEVELS.assign(arsenic=1.0), RANGE, "`--target arsenic` is a column"),
    ],
)
def test_what_cannot_be_is_refused_by_its_cell(frame, reading, message) -> None:
    with pytest.raises(TableError, match=message):
        fit_table(frame, "arsenic" if reading is RANGE else "week", reading=reading, settings=QUICK)


def test_a_stream_says_that_it_reads_no_such_targets(tmp_path) -> None:
    WEEKS.to_parquet(tmp_path / "weeks.parquet")
    settings = dataclasses.replace(QUICK, stream=True)
    with pytest.raises(TableError, match="known in part: leave `stream` away, or take a sample"):
        fit_table(tmp_path / "weeks.parquet", "week", reading=EVENT, settings=settings)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"lower": "low"}, "give both"),
        ({"lower": "low", "upper": "high", "event": "left"}, "give one"),
        ({"event": "left", "task": "classification"}, "leave it away"),
    ],
)
def test_choices_that_contradict_each_other_are_refused(choices, message) -> None:
    with pytest.raises(ValueError, match=message):
        Reading(**choices)


def records(event, time) -> np.ndarray:
    return np.array(list(zip(event, time, strict=True)), dtype=[("left", type(event[0])), ("week", float)])


def test_the_regressor_takes_what_scikit_survival_takes() -> None:
    X, seen, times = AGE[:, None], TIME <= END, np.minimum(TIME, END)
    choices = {"hidden_layer_sizes": (12,), "n_members": 2, "max_iter": 20, "random_state": 0}
    model = ConcreteDropoutRegressor(**choices).fit(X, y := records(seen.tolist(), times))
    likelihood = model.log_prob(X, y)
    assert likelihood.mean() > -2.6
    prediction = model.predict_distribution(X)
    later = 1 - prediction.cdf(prediction.mean.new_tensor(times)[:, None])[:, 0].numpy()
    assert np.allclose(likelihood[~seen], np.log(later[~seen]))
    frame = ConcreteDropoutRegressor(**choices).fit(X, pd.DataFrame({"left": seen, "week": times}))
    assert np.array_equal(frame.predict(X), model.predict(X))
    ends = ConcreteDropoutRegressor(**choices).fit(X, records(times.tolist(), np.where(seen, times, np.inf)))
    assert np.corrcoef(ends.predict(X), model.predict(X))[0, 1] > 0.9


def test_the_regressor_adds_rows_that_are_known_in_part() -> None:
    X, y = AGE[:60, None], records((TIME <= END).tolist(), np.minimum(TIME, END))[:60]
    choices = {"hidden_layer_sizes": (8,), "n_members": 2, "max_iter": 3, "random_state": 0}
    whole = ConcreteDropoutRegressor(**choices).fit(X, y)
    grown = ConcreteDropoutRegressor(**choices).partial_fit(X[:40], y[:40])
    grown.partial_fit(X[40:41], y[40:41]).partial_fit(X[41:], y[41:])
    np.testing.assert_array_equal(grown.predict(X), whole.predict(X))
    with pytest.raises(ValueError, match=r"`y` must have the fields of earlier calls, \('left', 'week'\), got None"):
        grown.partial_fit(X, y["week"])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        grown.fit(X, y[:50])


def test_moments_of_times_end_at_the_largest_that_training_knows(folder) -> None:
    """Half of the rows are not over, and nothing tells how heavy the tail beyond is."""
    random = np.random.default_rng(0)
    x, event = random.normal(size=(150, 1)), random.random(150) < 0.3
    times = np.exp(3 * random.normal(size=150))
    model = ConcreteDropoutRegressor(n_members=2, max_iter=10, random_state=0).fit(x, records(event.tolist(), times))
    assert model.ensemble_.scaling.scale.kind == "log"
    mean, std = model.predict(x, return_std=True)
    assert (mean < times.max()).all()
    assert (std < times.max()).all()
    upper = model.predict_interval(x)[1]
    assert upper.max() > times.max()
    draws = np.minimum(model.sample_y(x[:20], 4000), times.max())
    np.testing.assert_allclose(draws.mean(1), mean[:20], rtol=0.15)
    np.testing.assert_allclose(draws.std(1), std[:20], rtol=0.15)
    table = load_table_model(folder)
    assert table.schema.target.last == WEEKS["week"].max()
    found = table.predict(WEEKS)
    assert (found[["std", "epistemic_std", "aleatoric_std"]] < WEEKS["week"].max()).all(axis=None)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (records([True] * 9 + [False], [1.0] * 9 + [-1.0]), "`week` of `y` must be at least 0 and .*, got -1 in row 9"),
        (records([False] * 10, [1.0] * 10), "`left` is false in all rows"),
        (records([3.0] * 10, [1.0] * 10), "`left` of `y` must not be above `week`"),
        (records([np.nan] * 10, [np.inf] * 10), "has no end"),
    ],
)
def test_the_regressor_refuses_what_cannot_be(y, message) -> None:
    with pytest.raises(ValueError, match=message):
        ConcreteDropoutRegressor().fit(AGE[:10, None], y)


def test_held_out_rows_pick_the_epoch_and_the_training_is_that_of_classes() -> None:
    settings = EnsembleSettings()
    assert settings.keeps_best(PartKnown())
    assert not settings.keeps_best(Gaussian())
    of_parts, of_classes, of_numbers = (settings.schedule(500, each()) for each in (PartKnown, Categorical, Gaussian))
    assert of_parts == of_classes != of_numbers
