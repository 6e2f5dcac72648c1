import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop import dropout_rates
from gumdrop.ensembles import EnsembleSettings, RegressionEnsemble
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.likelihoods import ClassificationPrediction, RegressionPrediction
from gumdrop.tables import TableError, load_table_model, read_table
from gumdrop.tables.explained import Background, ColumnShares, ExplainedRow, ExplainedTarget, Overall, TableExplanation
from gumdrop.tables.fitting import fit as table_fit
from gumdrop.tables.fitting import train as fitting_train
from gumdrop.tables.fitting.fit import fit_table
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.info import _what, rates_in_words
from gumdrop.tables.model_file import checksum_of, save_model
from gumdrop.tables.prediction import predict_frame
from gumdrop.tables.reading.declared import Reading
from gumdrop.tables.results import Rate, read_results
from gumdrop.tables.schema.inference import infer_schema
from gumdrop.tables.schema.schema import Target
from gumdrop.tables.scoring import mean_record, shown
from gumdrop.tables.task import Classification, Regression
from gumdrop.training import EpochRecord
from gumdrop.training.state import TrainingState
from gumdrop.views.explanation import headline
from gumdrop.views.html import signed

from builders.tables import ALONE, NO_GRADE, NO_PRICE, QUICK, write_table


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    fit_table(write_table(place / "houses.csv"), "price", place / "run", reading=NO_GRADE, settings=QUICK)
    return place


@pytest.fixture(scope="module")
def classification(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    fit_table(write_table(place / "houses.csv"), "grade", place / "run", reading=NO_PRICE, settings=QUICK)
    return place


def test_a_fit_leaves_a_whole_folder_and_nothing_else(regression) -> None:
    assert {path.name for path in regression.iterdir()} == {"houses.csv", "run"}
    assert {path.name for path in (regression / "run").iterdir()} == {
        "config.toml", "model.json", "model.safetensors", "predictions.csv", "results.json",
    }  # fmt: skip


def test_results_say_what_was_done(regression) -> None:
    results = json.loads((regression / "run" / "results.json").read_text())
    assert results["task"] == "regression"
    assert len(results["table"].pop("sha256")) == 64
    assert results["table"] | {"features": None} == {
        "name": "houses.csv", "rows": 120, "train_rows": 96, "watched_rows": [20, 19, 19], "test_rows": 24,
        "features": None, "encoded_features": 4,
    }  # fmt: skip
    assert [score["name"] for score in results["scores"]] == [
        "learned dropout", "fixed dropout, p = 0.1", "no dropout", "gradient-boosted trees", "linear model",
        "mean of the training part",
    ]  # fmt: skip
    assert [score["null_model"] for score in results["scores"]] == [False] * 5 + [True]
    assert set(results["scores"][0]["skill"]) == {"distance", "log likelihood"}
    assert [rate["label"] for rate in results["rates"]] == ["input (4 encoded features)", "hidden layer 1 (12 units)"]
    assert all(0 < rate["least"] < rate["p"] < rate["most"] < 1 for rate in results["rates"])
    assert results["settings"] | {"epochs": 4, "batch_size": 128, "num_members": 3} == results["settings"]
    assert results["best_epochs"] == [4, 4, 4]
    assert len(results["history"]) == 4
    assert results["notes"] == ["1 missing value in 'size' was set to the training median, to learn with"]


def test_rates_that_went_to_0_are_put_into_words() -> None:
    def rates(*most: float) -> list[Rate]:
        return [Rate(str(i), f"layer {i}", p, 0.0, p) for i, p in enumerate(most)]

    assert rates_in_words(rates(0.1, 0.02), 5) == ""
    assert rates_in_words(rates(0.1, 0.001), 5).startswith("The rate of layer 1 has gone to 0")
    gone = rates_in_words(rates(0.001, 0.001), 5)
    assert gone.startswith("No dropout is left")
    assert gone.endswith("only how the 5 networks differ.")
    assert "0 for every row, and says nothing of out-of-distribution rows" in rates_in_words(rates(0.001), 1)


def test_cells_and_answers_are_written_out(regression) -> None:
    assert [shown(value) for value in (413400.0, np.int64(75000), 2015, 0.5, True, None, "a")] == [
        "413,400", "75,000", "2015", "0.5", "True", "", "a",
    ]  # fmt: skip
    model = load_table_model(regression / "run")
    none = ColumnShares(0.0, 0.0, [], None)
    row = ExplainedRow(1, [], 413386.2, 301000.4, 1.2e6, none, none)
    target, background = ExplainedTarget("price", "", "regression"), Background(0, "training")
    found = TableExplanation(target, 0.9, [], background, 1, 0, [row], Overall(0, [], []), [])
    assert headline(found, row) == "Row 1: price 413,386, 90% interval 301,000 to 1,200,000"
    assert [signed(share) for share in (12345.6, -1380.0, 1e-5, 0.5)] == ["+12,346", "-1,380", "0", "+0.500"]
    column = dataclasses.replace(model.schema.columns[0], least=1e5, most=2e6, mean=413400.0, std=170000.0)
    assert _what(column) == "100,000 to 2,000,000, mean 413,400, std 170,000"


def test_test_predictions_are_those_of_the_loaded_model(regression) -> None:
    written = pd.read_csv(regression / "run" / "predictions.csv")
    model = load_table_model(regression / "run")
    frame = read_table(regression / "houses.csv").frame
    again = predict_frame(model, frame).frame
    for name in again.columns[:6]:
        np.testing.assert_allclose(written[name], again[name].iloc[written["row"] - 1], rtol=2e-5)
    np.testing.assert_allclose(written["observed"], frame["price"].iloc[written["row"] - 1])
    np.testing.assert_allclose(again["std"] ** 2, again["epistemic_std"] ** 2 + again["aleatoric_std"] ** 2, rtol=1e-4)


def test_scores_are_in_units_of_the_target(regression) -> None:
    results = json.loads((regression / "run" / "results.json").read_text())
    written = pd.read_csv(regression / "run" / "predictions.csv")
    ours = results["scores"][0]["values"]
    rmse = np.sqrt(np.mean((written["observed"] - written["prediction"]) ** 2))
    assert ours["RMSE"] == pytest.approx(rmse, rel=1e-4)
    inside = (written["lower"] <= written["observed"]) & (written["observed"] <= written["upper"])
    assert ours["coverage of 90% interval"] == pytest.approx(inside.mean())
    mean = results["scores"][-1]["values"]
    spread = written["observed"].std()
    assert mean["log likelihood"] == pytest.approx(-0.5 * np.log(2 * np.pi * spread**2) - 0.5, abs=0.3)


def test_classification(classification) -> None:
    results = json.loads((classification / "run" / "results.json").read_text())
    assert results["target"]["classes"] == ["bad", "good"]
    assert all(record["validation_nll"] > 0 for record in results["history"])
    written = pd.read_csv(classification / "run" / "predictions.csv")
    assert set(written["prediction"]) <= {"bad", "good"}
    np.testing.assert_allclose(written["p(bad)"] + written["p(good)"], 1, rtol=1e-5)
    assert (written["mutual_information"] >= 0).all()
    assert results["scores"][0]["values"]["accuracy"] == pytest.approx(
        (written["prediction"] == written["observed"]).mean()
    )
    of_the_observed = np.where(written["observed"] == "bad", written["p(bad)"], written["p(good)"])
    assert results["scores"][0]["values"]["log likelihood"] == pytest.approx(np.log(of_the_observed).mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("labels", "given", "sought"),
    [
        (["no", "yes", "yes"], None, "yes"),
        (["nein", "Ja", "Ja"], None, "Ja"),
        (["False", "TRUE", "TRUE"], None, "TRUE"),
        ([0, 1, 1], None, "1"),
        (["cat", "cat", "dog"], None, "dog"),
        (["no", "yes", "yes"], "no", "no"),
        ([0, 1, 1], "0", "0"),
        (["a", "b", "c"], None, ""),
    ],
)
def test_the_class_that_is_looked_for(labels, given, sought):
    frame = pd.DataFrame({"x": range(12), "y": labels * 4})
    assert infer_schema(frame, "y", Reading(positive=given)).target.sought == sought
    with pytest.raises(TableError, match="--positive maybe is"):
        infer_schema(frame, "y", Reading(positive="maybe"))


@pytest.mark.parametrize("spelled", [["0.0", "1.0"], ["Yes", "YES", "no"], ["1.50", "x"], ["10%", "20%"]])
def test_classes_are_observed_as_they_are_predicted_however_they_are_spelled(tmp_path, spelled) -> None:
    labels = [spelled[i % len(spelled)] for i in range(40)]
    settings = FitSettings(hidden=(4,), num_members=1, epochs=1, num_samples=4, compare=False)
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    fit_table(tmp_path / "t.csv", "y", tmp_path / "run", reading=Reading(task="classification"), settings=settings)
    written = pd.read_csv(tmp_path / "run" / "predictions.csv", dtype=str)
    results = read_results(tmp_path / "run")
    assert {*results.test.observed} <= {*load_table_model(tmp_path / "run").schema.target.classes}
    assert written["observed"].tolist() == results.test.observed
    assert np.mean(written["observed"] == written["prediction"]) == results.scores[0].values["accuracy"]


def test_the_probability_of_the_rarer_class_is_scored_as_a_ranking(classification) -> None:
    ranking = json.loads((classification / "run" / "results.json").read_text())["ranking"]
    written = pd.read_csv(classification / "run" / "predictions.csv")
    of_class = written["observed"] == ranking["class"]
    assert (ranking["rows"], ranking["other_rows"]) == (of_class.sum(), (~of_class).sum())
    assert ranking["rows"] <= ranking["other_rows"]
    p = written[f"p({ranking['class']})"].to_numpy()
    pairs = np.sign(p[of_class][:, None] - p[~of_class])
    assert ranking["auroc"] == pytest.approx((1 + pairs.mean()) / 2, abs=0.01)  # the file has seven digits


def test_the_twins_are_the_same_ensemble_at_one_rate_and_leave_the_process_alone(regression, tmp_path, monkeypatch):
    rates = []
    before = torch.get_num_threads(), torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()
    fit = fitting_train.fit

    def watched(*arguments, **options):
        fitted = fit(*arguments, **options)
        rates.append([dropout_rates(member) for member in fitted.model.members])
        return fitted

    monkeypatch.setattr(fitting_train, "fit", watched)
    fit_table(regression / "houses.csv", "price", tmp_path / "run", reading=NO_GRADE, settings=QUICK)
    assert before == (torch.get_num_threads(), torch.get_rng_state().tolist(), np.random.get_state()[1].tolist())
    one, other = ((folder / "run" / "predictions.csv").read_bytes() for folder in (tmp_path, regression))
    assert one == other, "the same seed gives the same folder"
    learned, fixed, none = rates
    assert len(learned) == len(fixed) == len(none) == 3
    assert all(p == pytest.approx(0.1) for member in fixed for p in member.values())
    assert all(p == 0 for member in none for p in member.values())
    assert any(abs(p - 0.1) > 0.01 for member in learned for p in member.values())


def test_the_twins_are_trained_as_long_as_the_model_was(regression, tmp_path, monkeypatch):
    """What training decided, not what was asked for."""
    train, lengths, fit = table_fit.train_until_stopped, [], fitting_train.fit

    def shorter(data, settings, *rest):
        return train(data, dataclasses.replace(settings, epochs=2), *rest)

    def watched(*arguments, **options):
        fitted = fit(*arguments, **options)
        lengths.append([len(member.history) for member in fitted.members])
        return fitted

    monkeypatch.setattr(table_fit, "train_until_stopped", shorter)
    monkeypatch.setattr(fitting_train, "fit", watched)
    settings = dataclasses.replace(QUICK, num_members=2)
    fit_table(regression / "houses.csv", "price", tmp_path / "run", reading=NO_GRADE, settings=settings)
    assert lengths == [[2, 2]] * 3


@pytest.mark.parametrize(
    ("after", "done", "twins", "kept"),
    [(3, 3, [], ["learned"]), (10, 4, ["fixed dropout, p = 0.1"], ["fixed", "learned", "plain"])],
)
def test_a_stopped_fit_goes_on_where_it_was(regression, tmp_path, monkeypatch, after, done, twins, kept) -> None:
    monkeypatch.setattr("gumdrop.training.state.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    record, seen = TrainingState.record, []

    def stop(state, *records):
        record(state, *records)
        seen.append(records[0].epoch)
        if len(seen) == after:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingState, "record", stop)
    arguments = (regression / "houses.csv", "price", tmp_path / "run")
    fit_table(*arguments, reading=NO_GRADE, settings=QUICK)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["stopped"] == {"done": done, "planned": 4}
    assert len(results["history"]) == done
    names = [score["name"] for score in results["scores"]][1:]
    assert names[: len(twins) + 1] == [*twins, "gradient-boosted trees"]
    assert load_table_model(tmp_path / "run").ensemble.noise.weight.isfinite().all()
    assert sorted(path.stem for path in (tmp_path / "run.partial").iterdir()) == kept
    fit_table(*arguments, reading=NO_GRADE, settings=QUICK)
    assert seen == [1, 2, 3, 4] * 3
    again, whole = (json.loads((run / "results.json").read_text()) for run in (tmp_path / "run", regression / "run"))
    assert again["scores"] == whole["scores"]
    for name in ("predictions.csv", "model.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (regression / "run" / name).read_bytes()
    assert not (tmp_path / "run.partial").exists()


def test_a_rare_class_may_miss_from_a_part(tmp_path) -> None:
    frame = pd.read_csv(write_table(tmp_path / "houses.csv"))
    frame.loc[7, "grade"] = "superb"
    frame.to_csv(tmp_path / "rare.csv", index=False)
    fit_table(tmp_path / "rare.csv", "grade", tmp_path / "run", reading=NO_PRICE, settings=ALONE)
    assert "p(superb)" in pd.read_csv(tmp_path / "run" / "predictions.csv")


def test_classes_are_split_in_equal_shares_and_a_single_row_is_trained_on() -> None:
    task = Classification(Target("grade", "classification", classes=("a", "b", "c", "d")))
    classes = np.array([0] * 50 + [1] * 30 + [2] * 19 + [3])
    np.random.default_rng(0).shuffle(classes)
    for seed in range(20):
        test = task.test_rows(classes, 20, seed)
        counts = np.bincount(classes[test], minlength=4)
        assert len(set(test.tolist())) == 20
        assert abs(counts - [10, 6, 4, 0]).max() <= 1
        assert counts[3] == 0
    assert not np.array_equal(np.sort(task.test_rows(classes, 20, 0)), np.sort(test))
    assert len(task.test_rows(np.arange(12) // 2, 2, 0)) == 2


def test_a_guess_gains_where_it_is_right_or_nearer_and_the_other_is_not() -> None:
    def saying(labels: list[int]) -> ClassificationPrediction:
        return ClassificationPrediction.from_log_probabilities(torch.eye(3)[labels].mul(2).log_softmax(1))

    task = Classification(Target("grade", "classification", classes=("a", "b", "c")))
    observed = torch.tensor([0, 1, 2, 1])
    name, gains = task.guess_gains(saying([0, 1, 0, 2]), saying([0, 2, 2, 0]), observed)
    assert (name, gains.tolist()) == ("right", [0, 1, -1, 0])
    of_numbers = Regression(Target("price", "regression"))
    ours, other, seen = (torch.tensor(each)[:, None] for each in ([3.0, -1.0], [5.5, 0.0], [3.5, 0.25]))
    predictions = (RegressionPrediction.gaussian(mean, torch.ones(2, 1)) for mean in (ours, other))
    name, gains = of_numbers.guess_gains(*predictions, seen)
    assert name == "distance"
    torch.testing.assert_close(gains, torch.tensor([1.5, -1.0]))


def test_an_epoch_of_the_ensemble_is_the_mean_of_its_members() -> None:
    first = EpochRecord(3, nll=2.0, kl=0.5, validation_nll=1.5, learning_rate=0.01, rates={"0": 0.1, "2": 0.3})
    second = EpochRecord(3, nll=1.0, kl=0.9, validation_nll=2.5, learning_rate=0.01, rates={"0": 0.2, "2": 0.7})
    found = mean_record([first, second])
    assert (found.epoch, found.learning_rate) == (3, 0.01)
    assert (found.nll, found.kl, found.validation_nll) == pytest.approx((1.5, 0.7, 2.0))
    assert found.rates == pytest.approx({"0": 0.15, "2": 0.5})
    assert mean_record([first, dataclasses.replace(second, validation_nll=None)]).validation_nll is None


def test_rows_without_a_target_are_left_out_and_rows_keep_their_numbers(tmp_path) -> None:
    frame = pd.read_csv(write_table(tmp_path / "houses.csv"))
    frame.loc[frame.index % 4 == 0, "price"] = np.nan
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    notes: list[str] = []
    fit_table(tmp_path / "gaps.csv", "price", tmp_path / "run", reading=NO_GRADE, settings=ALONE, notify=notes.append)
    assert "30 of 120 rows have no 'price' (blank, NA, None and the like) and are left out" in notes
    tested = pd.read_csv(tmp_path / "run" / "predictions.csv")
    np.testing.assert_allclose(tested["observed"], frame["price"].iloc[tested["row"] - 1])


def copied(folder, place):
    """The files of a model in another folder, and its description."""
    for path in folder.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    return json.loads((place / "model.json").read_text())


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_damaged_model_is_refused(regression, tmp_path, name) -> None:
    copied(regression / "run", tmp_path)
    whole = (tmp_path / name).read_bytes()
    for contents in (whole[: len(whole) // 2], b"[" * 100_000):
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(TableError, match="damaged"):
            load_table_model(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(TableError, match=r"holds no model\.json|missing"):
        load_table_model(tmp_path)


def test_files_of_two_models_do_not_go_together(regression, tmp_path) -> None:
    copied(regression / "run", tmp_path)
    model = load_table_model(tmp_path)
    model.ensemble.noise.offset += 1
    (tmp_path / "other").mkdir()
    save_model(model, tmp_path / "other")
    load_table_model(tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").rename(tmp_path / "model.safetensors")
    with pytest.raises(TableError, match=r"model\.safetensors is missing, damaged or of another model"):
        load_table_model(tmp_path)


def test_no_bit_of_a_model_changes_in_silence(regression, tmp_path) -> None:
    copied(regression / "run", tmp_path)
    rng = np.random.default_rng(0)
    frame = read_table(regression / "houses.csv").frame.head(3)
    before = predict_frame(load_table_model(tmp_path), frame).frame
    for name in ("model.json", "model.safetensors"):
        whole = (tmp_path / name).read_bytes()
        for place in rng.integers(len(whole), size=40):
            changed = bytearray(whole)
            changed[place] ^= 1 << rng.integers(8)
            (tmp_path / name).write_bytes(changed)
            try:  # a blank that became a line break changes nothing
                pd.testing.assert_frame_equal(predict_frame(load_table_model(tmp_path), frame).frame, before)
                assert name == "model.json"
            except TableError as error:
                assert "damaged" in str(error) or "has model format" in str(error)  # noqa: PT017
        (tmp_path / name).write_bytes(whole)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_members": 10**12}, "damaged: 1000000000000 networks"),
        ({"num_members": 2}, "of another model"),
        ({"num_members": "3"}, "damaged"),
        ({"hidden": [10**12]}, "of another model"),
        ({"hidden": [1] * 100}, "damaged: 3 networks with 100 hidden layers"),
        ({"hidden": 12}, "damaged"),
        ({"num_samples": 10**12}, "damaged: `num_samples` must be from 1 to"),
        ({"num_samples": None}, "damaged"),
        ({"coverage": 1.5}, "damaged: `coverage`"),
        ({"seed": -1}, "damaged: `seed`"),
        ({"seed": True}, "`seed` must be a whole number"),
        ({"format": [3]}, r"has model format \[3\]"),
        ({"format": 99, "gumdrop": "9.0"}, r"format 99 \(gumdrop 9\.0\), this is .*; update gumdrop, or fit again"),
        ({"format": 6}, "predict with the version that wrote it, or fit again"),
        ({"schema": 5}, "not the schema of a table"),
    ],
)
def test_what_a_description_says_is_checked(regression, tmp_path, change, words) -> None:
    description = copied(regression / "run", tmp_path) | change
    (tmp_path / "model.json").write_text(json.dumps(description | {"sha256": checksum_of(description)}))
    with pytest.raises(TableError, match=words):
        load_table_model(tmp_path)


def test_a_target_whose_spread_is_small_beside_its_size(tmp_path) -> None:
    frame = pd.read_csv(write_table(tmp_path / "houses.csv"))
    frames = {"near": frame, "far": frame.assign(price=frame["price"] + 1.7e9)}  # as Unix times are
    written, scores = {}, {}
    for name, each in frames.items():
        each.to_csv(tmp_path / f"{name}.csv", index=False)
        fit_table(tmp_path / f"{name}.csv", "price", tmp_path / name, reading=NO_GRADE, settings=ALONE)
        written[name] = pd.read_csv(tmp_path / name / "predictions.csv")
        results = json.loads((tmp_path / name / "results.json").read_text())
        scores[name] = [list(score["values"].values()) for score in results["scores"]]
    for name in ("observed", "prediction", "lower", "upper"):
        np.testing.assert_allclose(written["far"][name] - 1.7e9, written["near"][name], atol=0.01)
    np.testing.assert_allclose(written["far"]["std"], written["near"]["std"], rtol=1e-4)
    np.testing.assert_allclose(scores["far"], scores["near"], rtol=1e-3)
    apart = written["far"]["observed"] - written["far"]["prediction"]
    assert scores["far"][0][0] == pytest.approx(np.sqrt(np.mean(apart**2)))
    assert scores["far"][0][0] > 1


def test_every_setting_of_the_training_arrives() -> None:
    own = {"num_members": 7, "epochs": 3, "batch_size": 9, "lr": 0.3, "strength": 4.0, "seed": 5}
    assert FitSettings(**own).ensemble() == EnsembleSettings(**own)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"coverage": 1.0}, "`coverage` must be strictly between"),
        ({"test_fraction": 0.0}, "`test_fraction` must be"),
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        ({"num_members": 0}, "`num_members` must be at least 1"),
        ({"lr": 0.0}, "`lr` must be positive"),
        ({"epochs": 0}, "`epochs` must be at least 1"),
        ({"hidden": (5, 0)}, "`hidden` must hold positive sizes"),
        ({"hidden": (70_000,)}, "`hidden` must hold positive sizes up to 65,536"),
        ({"hidden": (5,) * 101}, "at most 100 of them"),
        ({"hidden": (60_000, 60_000)}, "36,000,000,000 weights of 10 networks"),
        ({"num_members": 10**6}, "`num_members` must be at most 1,000, got 1,000,000"),
        ({"epochs": 10**12}, "`epochs` must be at most 1,000,000"),
        ({"num_samples": 10**12}, "`num_samples` must be at most"),
        ({"seed": 2**40}, "`seed` must be at most"),
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"lr": float("inf")}, "`lr` must be positive and finite"),
    ],
)
def test_bad_settings(options, words) -> None:
    with pytest.raises(ValueError, match=words):
        FitSettings(**options)


def test_a_reader_is_told_of_heavy_tails() -> None:
    task, ensemble = (
        Regression(Target("price", "regression", positive=True)),
        RegressionEnsemble([], NoiseFunction(1, 1)),
    )
    (ends,) = task.scale_notes(ensemble)
    ensemble.noise.bend = torch.tensor([0.4])
    tails = "the noise of 'price' has heavy tails: held-out rows prefer those of Student's t"
    assert task.scale_notes(ensemble) == [ends, tails]
