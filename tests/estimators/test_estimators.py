"""Scikit-learn's own checks, and what a user of its estimators relies on."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gumdrop.ensembles import EnsembleSettings, correction
from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor
from gumdrop.likelihoods import RegressionPrediction, TargetScale

CHECKED = {"hidden_layer_sizes": (8,), "n_members": 2, "max_iter": 10, "batch_size": 64, "learning_rate_init": 0.05}
QUICK = {"hidden_layer_sizes": (16,), "n_members": 3, "max_iter": 60, "n_mc_samples": 60, "random_state": 0}
SIMPLE = QUICK | {"strength": 1.0}  # half as many networks, and no choice between them


@pytest.mark.slow
@parametrize_with_checks(
    [ConcreteDropoutRegressor(**CHECKED, n_mc_samples=4), ConcreteDropoutClassifier(**CHECKED, n_mc_samples=4)]
)
def test_all_checks_of_scikit_learn(estimator, check, monkeypatch) -> None:
    monkeypatch.setattr(correction, "DRAWS", 2)
    own = type(estimator).set_params
    in_haste = lambda self, **given: own(self, **given | {n: 50 for n, v in given.items() if repr(v) == "1000"})  # noqa: E731
    monkeypatch.setattr(type(estimator), "set_params", in_haste)  # one of the checks asks for 1,000 passes
    check(estimator)


def numbers(num_rows: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noise of standard deviation 5 around a line through values of the order of 1,000."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (num_rows, 2)) * [1, 50] + [0, 300]
    return x, 1000 + 30 * x[:, 0] + random.normal(0, 5, num_rows)


def labels(num_rows: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(0, 1, (num_rows, 2))
    return x, np.array(["low", "middle", "high"], dtype=object)[np.digitize(x[:, 0], [-0.5, 0.5])]


@pytest.fixture(scope="module")
def regressor():
    return ConcreteDropoutRegressor(**QUICK).fit(*numbers())


@pytest.fixture(scope="module")
def classifier():
    return ConcreteDropoutClassifier(**QUICK).fit(*labels())


@pytest.mark.parametrize("estimator", [ConcreteDropoutRegressor, ConcreteDropoutClassifier])
def test_every_setting_of_the_training_arrives(estimator) -> None:
    own = {"n_members": 7, "max_iter": 3, "batch_size": 9, "learning_rate_init": 0.3, "lengthscale": 0.2}
    own |= {"strength": 4.0, "validation_fraction": 0.4, "early_stopping": True, "n_iter_no_change": 8, "tol": 0.6}
    names = {
        "n_members": "num_members",
        "max_iter": "epochs",
        "learning_rate_init": "lr",
        "n_iter_no_change": "patience",
    }
    names |= {"validation_fraction": "held_out_fraction"}
    expected = {names.get(name, name): value for name, value in own.items() if name != "early_stopping"}
    assert estimator(**own)._settings(11) == EnsembleSettings(**expected, seed=11)
    assert estimator(**own | {"early_stopping": False})._settings(11).patience is None


def test_predictions_are_in_units_of_the_target(regressor) -> None:
    x, y = numbers(seed=1)
    mean, std = regressor.predict(x, return_std=True)
    assert mean.dtype == std.dtype == np.float64
    assert np.sqrt(np.mean((y - mean) ** 2)) < 12
    assert 3 < std.mean() < 15
    np.testing.assert_array_equal(mean, regressor.predict(x))
    assert regressor.score(x, y) > 0.85


def test_intervals_hold_what_they_promise_and_agree_with_the_quantiles(regressor) -> None:
    x, y = numbers(1000, seed=2)
    lower, upper = regressor.predict_interval(x, coverage=0.8)
    assert np.mean((lower <= y) & (y <= upper)) == pytest.approx(0.8, abs=0.12)
    found = regressor.predict_quantiles(x, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(found[:, 0], lower, rtol=1e-9)  # (1 - 0.8) / 2 is not quite 0.1
    np.testing.assert_allclose(found[:, 2], upper, rtol=1e-9)
    assert (np.diff(found) > 0).all()


def test_draws_and_densities_are_those_of_the_distribution(regressor) -> None:
    x, y = numbers(50, seed=3)
    draws = regressor.sample_y(x, 4000, random_state=1)
    mean, std = regressor.predict(x, return_std=True)
    assert draws.shape == (50, 4000)
    np.testing.assert_allclose(draws.mean(1), mean, atol=0.15 * std.max())
    np.testing.assert_allclose(draws.std(1), std, rtol=0.1)
    expected = regressor.predict_distribution(x).log_prob(torch.from_numpy(y)[:, None]).numpy()
    np.testing.assert_allclose(regressor.log_prob(x, y), expected)
    np.testing.assert_array_equal(regressor.sample_y(x, 3), regressor.sample_y(x, 3))


def test_a_drawn_target_says_nothing_of_the_noise_of_other_rows(regressor) -> None:
    regressor = copy.deepcopy(regressor)
    regressor.ensemble_.noise.tail = torch.tensor([1.5])
    x = numbers()[0][:40]
    draws = regressor.sample_y(x, 2000, random_state=1)
    sizes = np.log(np.abs(draws - draws.mean(1, keepdims=True)))
    assert np.corrcoef(sizes)[np.triu_indices(40, 1)].mean() < 0.05
    std = regressor.predict(x, return_std=True)[1]
    np.testing.assert_allclose(draws.std(1).mean(), std.mean(), rtol=0.1)


@pytest.mark.parametrize("unit", [1e-15, 1e50])
def test_units_make_no_difference(unit) -> None:
    x, y = numbers(60)
    for target in (y - 1000, np.exp(y / 15 - 66)):
        model = ConcreteDropoutRegressor(**QUICK | {"max_iter": 5}).fit(x, target)
        of_units = ConcreteDropoutRegressor(**QUICK | {"max_iter": 5}).fit(x * unit, target * unit)
        np.testing.assert_allclose(of_units.predict(x * unit), unit * model.predict(x))
        np.testing.assert_allclose(of_units.predict_interval(x * unit), unit * np.stack(model.predict_interval(x)))


def predicting(regressor, prediction: RegressionPrediction):
    """A regressor that predicts something else, with noise of one size."""
    regressor = copy.deepcopy(regressor)
    regressor.predict_distribution = lambda x: prediction
    regressor.ensemble_.noise.tail, regressor.ensemble_.noise.bend = torch.zeros(1), torch.zeros(1)
    return regressor


def test_draws_far_below_the_end_of_a_root_stay_at_it(regressor) -> None:
    far = RegressionPrediction.gaussian(torch.full((5, 1), -9.0).double(), torch.full((5, 1), 0.01).double())
    far = RegressionPrediction.mixture([far] * 4).on(TargetScale(0.0, kind="sqrt"))
    assert (predicting(regressor, far).sample_y(np.zeros((5, 2)), 20) < 1e-3).all()


def test_draws_of_functions_that_a_bound_cuts_off_are_those_of_the_distribution(regressor) -> None:
    mean = torch.tensor([-1.0, 2.0, 0.5, -3.0]).double()[:, None, None] + torch.tensor([0.0, 1.0, 30.0])[:, None]
    parts = [RegressionPrediction.gaussian(each, torch.full((3, 1), 0.25).double()) for each in mean]
    cut = RegressionPrediction.mixture(parts).on(TargetScale(0.0, kind="sqrt"))
    draws = predicting(regressor, cut).sample_y(np.zeros((3, 2)), 20_000)
    for probability in (0.1, 0.5, 0.9):
        below = (draws < cut.quantile(probability).numpy()).mean(1)
        np.testing.assert_allclose(below, probability, atol=0.015)


def test_several_targets() -> None:
    x, y = numbers()
    both = np.column_stack([y, -0.01 * y])
    model = ConcreteDropoutRegressor(**QUICK).fit(x, both)
    mean, std = model.predict(x, return_std=True)
    assert mean.shape == std.shape == (200, 2)
    assert model.predict_quantiles(x, [0.2, 0.7]).shape == (200, 2, 2)
    draws, expected = model.sample_y(x[:5], 20_000), model.predict_distribution(x[:5]).covariance.numpy()
    size = (expected[:, 0, 0] * expected[:, 1, 1])[:, None, None] ** 0.5
    found, scale = np.stack([np.cov(each) for each in draws]), np.array([[100, 1], [1, 0.01]])
    np.testing.assert_allclose(found / scale / size, expected / scale / size, atol=0.06)
    assert (expected[:, 0, 1] < -0.9 * size[:, 0, 0]).all()  # the noise, too
    assert model.log_prob(x, both).shape == (200,)
    assert np.corrcoef(mean[:, 0], mean[:, 1])[0, 1] < -0.9


def test_what_was_learned_is_there(regressor) -> None:
    count = 3 * len(regressor.strengths_)
    assert regressor.dropout_rates_.shape == (count, 2)
    assert ((regressor.dropout_rates_ > 0) & (regressor.dropout_rates_ < 1)).all()
    assert regressor.n_iter_ == 60 == len(regressor.history_[0])
    assert len(regressor.history_) == count
    assert regressor.history_[0][0].nll > regressor.history_[0][-1].nll
    x, y = numbers()
    again = ConcreteDropoutRegressor(**QUICK).fit(x[::-1], y[::-1])
    np.testing.assert_array_equal(again.predict(x), regressor.predict(x))


def test_labels_of_any_type(classifier) -> None:
    x, y = labels()
    assert classifier.classes_.tolist() == ["high", "low", "middle"]
    assert classifier.score(x, y) > 0.8
    np.testing.assert_array_equal(classifier.predict(x), classifier.classes_[classifier.predict_proba(x).argmax(1)])
    for code in (np.array([3, -1, 7]), np.array([0.5, 1.5, 2.5]).astype(str), np.array([True, False, True])):
        coded = code[np.unique(y, return_inverse=True)[1]]
        model = ConcreteDropoutClassifier(**QUICK | {"max_iter": 2}).fit(x, coded)
        assert set(model.predict(x).tolist()) <= set(code.tolist())


def test_probabilities_densities_draws_and_entropies(classifier) -> None:
    x, y = labels(60, seed=4)
    probabilities = classifier.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_allclose(np.exp(classifier.predict_log_proba(x)), probabilities)
    own = [probabilities[i, classifier.classes_.tolist().index(label)] for i, label in enumerate(y)]
    np.testing.assert_allclose(classifier.log_prob(x, y), np.log(own))
    draws = classifier.sample_y(x, 4000)
    for i, label in enumerate(classifier.classes_):
        np.testing.assert_allclose((draws == label).mean(1), probabilities[:, i], atol=0.04)
    prediction = classifier.predict_distribution(x)
    assert (prediction.mutual_information >= 0).all()
    assert (prediction.mutual_information <= prediction.predictive_entropy).all()
    with pytest.raises(ValueError, match=r"`y` must hold labels of `classes_`, got 'huge'"):
        classifier.log_prob(x, ["huge"] * 60)


BOTH = pytest.mark.parametrize(
    ("estimator", "data"), [(ConcreteDropoutRegressor, numbers), (ConcreteDropoutClassifier, labels)]
)


@BOTH
def test_a_weight_stands_for_equal_rows(estimator, data) -> None:
    x, y = data(40)
    weights = np.random.default_rng(0).integers(0, 4, 40)
    settings = QUICK | {"max_iter": 5}
    by_weight = estimator(**settings).fit(x, y, sample_weight=weights)
    repeated = estimator(**settings).fit(x.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_array_equal(by_weight.predict(x), repeated.predict(x))
    assert by_weight.history_ == repeated.history_
    by_fraction = estimator(**settings).fit(x, y, sample_weight=weights / 2 + 0.25)
    assert by_fraction.history_ != repeated.history_


@BOTH
def test_growing_data_give_the_same_model_as_all_at_once(estimator, data) -> None:
    x, y = data(60)
    settings = SIMPLE | {"max_iter": 5}
    grown = estimator(**settings).partial_fit(x[:25], y[:25]).partial_fit(x[25:], y[25:])
    whole = estimator(**settings).fit(x, y)
    np.testing.assert_array_equal(grown.predict(x), whole.predict(x))
    with pytest.raises(ValueError, match="expecting 2 features"):
        grown.partial_fit(x[:, :1], y)
    np.testing.assert_array_equal(
        grown.fit(x[:30], y[:30]).predict(x), estimator(**settings).fit(x[:30], y[:30]).predict(x)
    )
    np.testing.assert_array_equal(grown.partial_fit(x, y).predict(x), whole.predict(x))  # `fit` keeps no rows


def test_classes_may_be_named_before_they_are_seen() -> None:
    x, y = labels(60)
    model = ConcreteDropoutClassifier(**QUICK | {"max_iter": 2})
    model.partial_fit(x[y == "low"], y[y == "low"], classes=["low", "middle", "high"])
    assert model.predict_proba(x).shape == (60, 3)
    assert model.fit(x[y != "middle"], y[y != "middle"]).classes_.tolist() == ["high", "low"]  # of its rows alone


def test_pipelines_cross_validation_and_searches() -> None:
    frame = pd.DataFrame(numbers(90)[0], columns=["size", "age"]).assign(colour=["red", "green", "blue"] * 30)
    y = numbers(90)[1]
    columns = make_column_transformer(
        (StandardScaler(), ["size", "age"]), (OneHotEncoder(sparse_output=False), ["colour"])
    )
    columns.set_output(transform="pandas")
    pipeline = make_pipeline(columns, ConcreteDropoutRegressor(**SIMPLE | {"learning_rate_init": 0.03}))
    pipeline.fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist()[0] == "standardscaler__size"
    mean, std = pipeline.predict(frame, return_std=True)
    assert mean.shape == std.shape == (90,)
    assert cross_val_score(pipeline, frame, y, cv=2).min() > 0.5
    quick = ConcreteDropoutRegressor(**SIMPLE | {"max_iter": 2})
    search = GridSearchCV(quick, {"hidden_layer_sizes": [(4,), (8, 4)]}, cv=2, n_jobs=1).fit(*numbers(40))
    assert search.best_params_["hidden_layer_sizes"] in [(4,), (8, 4)]
    classifier = ConcreteDropoutClassifier(**SIMPLE | {"max_iter": 2})
    search = GridSearchCV(classifier, {"early_stopping": [False, True]}, cv=2, scoring="neg_brier_score")
    assert search.fit(*labels(60)).predict_proba(labels(60)[0]).shape == (60, 3)


def test_the_global_random_states_and_the_inputs_are_left_alone() -> None:
    x, y = numbers(40)
    copies, before, numpy_before = (x.copy(), y.copy()), torch.get_rng_state(), np.random.get_state()[1].copy()
    model = ConcreteDropoutRegressor(**QUICK | {"max_iter": 2}).fit(x, y, sample_weight=np.full(40, 2.0))
    model.predict(x)
    model.sample_y(x, 2)
    assert torch.equal(before, torch.get_rng_state())
    assert (np.random.get_state()[1] == numpy_before).all()
    np.testing.assert_array_equal(x, copies[0])
    np.testing.assert_array_equal(y, copies[1])


def test_many_rows_are_predicted_in_parts(regressor, monkeypatch) -> None:
    x, y = numbers(50)
    whole = regressor.predict_quantiles(x), regressor.log_prob(x, y)
    monkeypatch.setattr("gumdrop.estimators.rows.ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(regressor.predict_quantiles(x), whole[0], rtol=1e-12)
    np.testing.assert_allclose(regressor.log_prob(x, y), whole[1], rtol=1e-9)


# Early stopping


@BOTH
def test_early_stopping_ends_a_run_and_keeps_the_best_pass_of_each_member(estimator, data) -> None:
    x, y = data(60)
    settings = SIMPLE | {"max_iter": 300, "early_stopping": True, "n_iter_no_change": 5, "learning_rate_init": 0.05}
    model = estimator(**settings).fit(x, y)
    assert 5 < model.n_iter_ < 300
    assert all(len(history) == model.n_iter_ for history in model.history_)
    scores = np.array([[record.validation_nll for record in history] for history in model.history_])
    assert (scores[:, -5:].min(1) >= scores[:, :-5].min(1) - model.tol).all()
    rates = [list(history[best].rates.values()) for history, best in zip(model.history_, scores.argmin(1), strict=True)]
    np.testing.assert_allclose(model.dropout_rates_, rates, rtol=1e-5)
    assert estimator(**settings | {"tol": 100.0}).fit(x, y).n_iter_ == 6
    passes = {"max_iter": 12, "n_iter_no_change": 1, "tol": 100.0}
    assert estimator(**settings | passes | {"early_stopping": False}).fit(x, y).n_iter_ == 12
    fewer = estimator(**settings | {"validation_fraction": 0.5}).fit(x, y)
    assert not np.array_equal(fewer.dropout_rates_, model.dropout_rates_)


@pytest.mark.parametrize(
    ("setting", "weights", "words"),
    [
        ({"validation_fraction": 0.0}, None, "`validation_fraction` must be above 0 and at most 1/2, got 0.0"),
        ({"validation_fraction": 0.6}, None, "`validation_fraction` must be above 0 and at most 1/2, got 0.6"),
        ({"early_stopping": True, "n_iter_no_change": 0}, None, "`n_iter_no_change` must be at least 1, got 0"),
        ({"early_stopping": True, "tol": -1.0}, None, r"`tol` must be at least 0, got -1.0"),
        ({"max_iter": 0}, None, "`max_iter` must be at least 1, got 0"),
        ({}, np.zeros(40), "at least one non-zero"),
        ({}, np.eye(40)[0], "at least 4 different rows of positive weight, got 1"),
        ({}, -np.ones(40), "Negative values"),
    ],
)
def test_settings_and_weights_are_checked_under_their_own_names(setting, weights, words) -> None:
    with pytest.raises(ValueError, match=words):
        ConcreteDropoutRegressor(**QUICK | setting).fit(*numbers(40), sample_weight=weights)
    with pytest.raises(ValueError, match=r"at least 2 classes, got the class \['low'\]"):
        ConcreteDropoutClassifier(**QUICK).fit(numbers(40)[0], ["low"] * 40)


# What tables come in


def on_disk(x: np.ndarray, folder) -> np.ndarray:
    np.save(folder / "x.npy", x)
    return np.load(folder / "x.npy", mmap_mode="r")


@pytest.mark.parametrize(
    "of",
    [
        lambda x, _: np.asfortranarray(x),
        lambda x, _: x[:, ::-1].copy()[:, ::-1],
        lambda x, _: x.astype(np.float32),
        lambda x, _: pd.DataFrame(x),
        on_disk,
    ],
    ids=["by column", "backwards", "float32", "pandas", "on disk"],
)
def test_inputs_of_any_layout_give_the_same_model(of, tmp_path) -> None:
    x, y = numbers(60)
    x = x.astype(np.float32).astype(np.float64)
    frozen = x.copy()
    frozen.flags.writeable = False
    settings = SIMPLE | {"max_iter": 3}
    expected = ConcreteDropoutRegressor(**settings).fit(frozen, y).predict(x)
    found = ConcreteDropoutRegressor(**settings).fit(of(x, tmp_path), y).predict(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_frames_of_polars() -> None:
    polars = pytest.importorskip("polars")
    x, y = numbers(60)
    frame = polars.DataFrame({"size": x[:, 0], "age": x[:, 1]})
    settings = SIMPLE | {"max_iter": 3}
    model = ConcreteDropoutRegressor(**settings).fit(frame[["size", "age"]], polars.Series("price", y))
    assert model.feature_names_in_.tolist() == ["size", "age"]
    np.testing.assert_array_equal(
        model.predict(frame[["size", "age"]]), ConcreteDropoutRegressor(**settings).fit(x, y).predict(x)
    )
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["age", "size"]])


def test_the_classifier_takes_what_the_regressor_takes_with_the_same_defaults() -> None:
    classifier, regressor = ConcreteDropoutClassifier().get_params(), ConcreteDropoutRegressor().get_params()
    assert classifier == regressor | {"class_weight": None}
    assert ConcreteDropoutClassifier(strength=4.0).get_params()["strength"] == 4.0


@BOTH
def test_twenty_rows_are_enough_for_the_defaults(estimator, data) -> None:
    x, y = data(20)
    model = estimator(random_state=0, max_iter=10).fit(x, y)
    assert np.isfinite(model.log_prob(x, y)).all()


# Conformal levels


def test_levels_come_from_the_fit_from_rows_set_aside_and_from_rows_that_follow() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(900, 2))
    y = X + random.standard_t(3, (900, 2)) * [1, 30]
    options = {"hidden_layer_sizes": (8,), "n_members": 2, "max_iter": 3, "n_mc_samples": 20, "random_state": 0}
    model = ConcreteDropoutRegressor(conformal=True, **options).fit(X[:200], y[:200])
    by_fit = model.predict_interval(X[500:])[1]
    lower, upper = model.conformalize(X[200:500], y[200:500]).predict_interval(X[500:])
    np.testing.assert_allclose(((lower <= y[500:]) & (y[500:] <= upper)).mean(0), 0.9, atol=0.05)
    assert not np.allclose(by_fit, upper)
    after = model.update(X[500:], 5 * y[500:]).predict_interval(X[500:])[1]
    assert (after > upper).all()
    with pytest.raises(ValueError, match="set it"):
        model.set_params(conformal=False).update(X, y)
    classifier = ConcreteDropoutClassifier(conformal=True, **options).fit(X[:200], y[:200, 0] > 0)
    sets = classifier.conformalize(X[200:500], y[200:500, 0] > 0).predict_set(X[500:], coverage=0.8)
    assert sets[np.arange(400), (y[500:, 0] > 0).astype(int)].mean() == pytest.approx(0.8, abs=0.06)
