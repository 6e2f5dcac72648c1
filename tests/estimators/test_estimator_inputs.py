"""Groups, times, weights of classes and sparse inputs of estimators, and quantiles through what is around them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
import torch
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor, predict_interval, predict_quantiles
from gumdrop.estimators import ensemble as of_estimators
from gumdrop.estimators.rows import held_together

QUICK = {"hidden_layer_sizes": (8,), "n_members": 3, "max_iter": 4, "n_mc_samples": 6, "random_state": 0}


def numbers(num_rows: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(num_rows, 2))
    return x, np.exp(1 + 0.5 * x[:, 0] + 0.2 * random.normal(size=num_rows))


@pytest.fixture
def folds(monkeypatch):
    """The inputs that each member held out, of the fits that were made, in the units of the networks."""
    held_out = []
    train = of_estimators.fit

    def noted(build, rows, *arguments, **options):
        fitted = train(build, rows, *arguments, **options)
        held_out.append([rows.x[each].numpy() for each in fitted.held_out])
        return fitted

    monkeypatch.setattr(of_estimators, "fit", noted)
    return held_out


def test_targets_to_score_are_one_for_each_row() -> None:
    x, y = numbers()
    codes = np.digitize(y, [2.0, 4.0])
    models = ConcreteDropoutRegressor(**QUICK).fit(x, y), ConcreteDropoutClassifier(**QUICK).fit(x, codes)
    for model, target in zip(models, (y, codes), strict=True):
        expected, series = model.log_prob(x, target), pd.Series(target, index=target)
        for given in (target[:, None], target.tolist(), series, series.to_frame()):
            np.testing.assert_array_equal(model.log_prob(x, given), expected)
        model.conformal = True
        for score in (model.log_prob, model.conformalize, model.update):
            with pytest.raises(ValueError, match="inconsistent numbers of samples"):
                score(x[:30], target)  # whose two halves are no ends of intervals
            with pytest.raises(ValueError, match="inconsistent numbers of samples"):
                score(x, target[:30])


def test_what_is_no_number_is_refused_with_a_way_out() -> None:
    x, y = numbers()
    model = ConcreteDropoutRegressor(**QUICK)
    frame = pd.DataFrame({"size": x[:, 0], "word": ["a", "b"] * 30, "day": pd.date_range("2024-01-01", periods=60)})
    for columns, what in ((["size", "word"], "'word'"), (["size", "day"], "'day'")):
        with pytest.raises(ValueError, match=rf"Column {what} of `X` is of dtype .*`gumdrop\.tables\.fit_table`"):
            model.fit(frame[columns], y)
    with pytest.raises(ValueError, match=r"`y` must hold numbers, got .*; ConcreteDropoutClassifier takes labels"):
        model.fit(x, ["a"] * 60)
    with pytest.raises(ValueError, match="`hidden_layer_sizes` must hold positive numbers of units, got -3"):
        ConcreteDropoutRegressor(hidden_layer_sizes=-3).fit(x, y)
    one, same = ({**QUICK, "hidden_layer_sizes": sizes} for sizes in (8, (8,)))
    predicted = [ConcreteDropoutRegressor(**options).fit(x, y).predict(x) for options in (one, same)]
    np.testing.assert_array_equal(*predicted)


def test_truths_are_numbers() -> None:
    x, y = numbers()
    yes = y > np.median(y)
    found = ConcreteDropoutRegressor(**QUICK).fit(x, yes).predict(x)
    np.testing.assert_array_equal(found, ConcreteDropoutRegressor(**QUICK).fit(x, yes.astype(float)).predict(x))


@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("estimator", [ConcreteDropoutRegressor, ConcreteDropoutClassifier])
def test_rows_of_a_group_are_held_out_together(estimator, chosen, folds) -> None:
    x, y = numbers()
    group = np.arange(60) % 12
    x[:, 1] = group  # so that what was held out tells its group
    y = y if estimator is ConcreteDropoutRegressor else y > np.median(y)
    settings = QUICK | {"hidden_layer_sizes": None} if chosen else QUICK
    model = estimator(**settings).fit(x, y, groups=[f"patient {i}" for i in group])
    for part in folds[0]:
        of_part = np.round(part[:, 1] * model._learned.scale[1] + model._learned.center[1]).astype(int)
        assert sorted(of_part) == sorted(np.repeat(np.unique(of_part), 5))
    order = np.random.default_rng(1).permutation(60)
    again = estimator(**settings).fit(x[order], y[order], groups=group[order])
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_whole_stretches_of_time_are_held_out(folds) -> None:
    x, y = numbers()
    times = pd.Series(pd.date_range("2024-01-01", periods=60, freq="h"))
    x[:, 1] = np.arange(60)
    order = np.random.default_rng(1).permutation(60)
    model = ConcreteDropoutRegressor(**QUICK).fit(x[order], y[order], times=times[order])
    for part in folds[0]:
        hours = np.sort(np.round(part[:, 1] * model._learned.scale[1] + model._learned.center[1]).astype(int))
        assert hours.tolist() == [6 * stretch + i for stretch in np.unique(hours // 6) for i in range(6)]
    np.testing.assert_array_equal(
        ConcreteDropoutRegressor(**QUICK).fit(x, y, times=np.arange(60.0)).predict(x), model.predict(x)
    )


def test_a_weight_stands_for_equal_rows_of_one_time() -> None:
    x, y = numbers()
    weights, times = np.random.default_rng(0).integers(0, 4, 60), np.arange(60)
    heavy = ConcreteDropoutRegressor(**QUICK).fit(x, y, weights, times=times)
    repeated = (each.repeat(weights, axis=0) for each in (x, y))
    again = ConcreteDropoutRegressor(**QUICK).fit(*repeated, times=times.repeat(weights))
    np.testing.assert_allclose(heavy.predict(x), again.predict(x), rtol=1e-6)
    np.testing.assert_array_equal(*(held_together(None, times, np.full(60, weight)) for weight in (1.0, 0.3)))


def test_equal_rows_of_different_groups_stay_apart() -> None:
    assert held_together(["a", "a", "b", None], None, np.array([1, 1, 1, 0])).tolist() == [0, 0, 1, 0]  # no weight
    x, y = numbers(20)
    twice = np.r_[x, x], np.r_[y, y]
    apart = ConcreteDropoutRegressor(**QUICK).fit(*twice, groups=np.repeat(["a", "b"], 20))
    assert apart.ensemble_ is not None
    alike = ConcreteDropoutRegressor(**QUICK).fit(*twice, groups=np.tile(np.arange(20) // 4, 2))
    heavy = ConcreteDropoutRegressor(**QUICK).fit(x, y, np.full(20, 2.0), groups=np.arange(20) // 4)
    np.testing.assert_array_equal(alike.predict(x), heavy.predict(x))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": range(8)}, "another value in each of 8 rows.*`times` if it tells the order"),
        ({"groups": ["a"] * 8}, "at least 2 groups.*got 1"),
        ({"groups": ["a", None] * 4}, "`groups` must have shape.*leave these rows out"),
        ({"groups": ["a", "b"]}, "inconsistent numbers of samples"),
        ({"groups": np.zeros((8, 2))}, r"got shape \(8, 2\)"),
        ({"times": [1.0, np.nan] * 4}, "`times` must have shape.*leave these rows out"),
        ({"times": np.array(["2024-01-01", "NaT"] * 4, dtype="M8[D]")}, "leave these rows out"),
        ({"times": ["2024-01-01"] * 8}, "numbers or dates.*2024-01-01.*pandas.to_datetime"),
        ({"times": [3] * 8}, "the same time in nearly all rows"),
        ({"times": [3] * 8, "groups": ["a", "b"] * 4}, "give one"),
    ],
    ids=str,
)
def test_groups_and_times_that_cannot_be_used_say_what_to_do(given, message) -> None:
    x, y = numbers(8)
    with pytest.raises(ValueError, match=message):
        ConcreteDropoutRegressor(**QUICK).fit(x, y, **given)


def test_groups_reach_the_estimator_through_cross_validation() -> None:
    x, y = numbers()
    group = np.arange(60) % 6
    with sklearn.config_context(enable_metadata_routing=True):
        model = ConcreteDropoutRegressor(**QUICK).set_fit_request(groups=True)
        scores = cross_val_score(model, x, y, cv=GroupKFold(2), params={"groups": group})
        with pytest.raises(ValueError, match="another value in each of 30 rows"):
            cross_val_score(model, x, y, cv=2, params={"groups": np.arange(60)}, error_score="raise")
    assert scores.shape == (2,)


def test_weights_of_classes_act_as_weights_of_rows() -> None:
    x, _ = numbers(80)
    y = np.where(x[:, 0] > 1, "rare", "common")
    counts = {name: int((y == name).sum()) for name in ("rare", "common")}
    balanced = ConcreteDropoutClassifier(**QUICK, class_weight="balanced").fit(x, y)
    weights = np.array([80 / (2 * counts[name]) for name in y])
    by_rows = ConcreteDropoutClassifier(**QUICK).fit(x, y, weights)
    np.testing.assert_allclose(balanced.predict_proba(x), by_rows.predict_proba(x), atol=1e-4)
    assert (
        balanced.predict_proba(x)[:, 1].mean()
        > ConcreteDropoutClassifier(**QUICK).fit(x, y).predict_proba(x)[:, 1].mean()
    )
    tenfold = {"rare": 10.0}  # a label that is not named has 1
    told = ConcreteDropoutClassifier(**QUICK, class_weight=tenfold).fit(x, y)
    weights = np.where(y == "rare", 10.0, 1.0)
    by_rows = ConcreteDropoutClassifier(**QUICK).fit(x, y, weights * 80 / weights.sum())
    np.testing.assert_allclose(told.predict_proba(x), by_rows.predict_proba(x), atol=1e-4)
    twice = ConcreteDropoutClassifier(**QUICK, class_weight="balanced").fit(x, y, np.full(80, 2.0))
    thrice = ConcreteDropoutClassifier(**QUICK, class_weight="balanced").fit(np.r_[x, x], np.r_[y, y])
    np.testing.assert_allclose(twice.predict_proba(x), thrice.predict_proba(x), atol=1e-4)


@pytest.mark.parametrize("weight", [{"rare": 0.0}, {"rare": -1.0}, {"rare": np.nan}, "even", {"other": 2.0}], ids=str)
def test_weights_of_classes_that_cannot_be_used_are_refused(weight) -> None:
    x, _ = numbers(20)
    with pytest.raises(ValueError, match="class_weight"):
        ConcreteDropoutClassifier(**QUICK, class_weight=weight).fit(x, np.where(x[:, 0] > 0, "rare", "common"))


@pytest.mark.parametrize("layout", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_inputs_are_those_that_they_stand_for(layout, monkeypatch) -> None:
    x, y = numbers()
    x[x < 0] = 0
    model = ConcreteDropoutRegressor(**QUICK).fit(layout(x), y)
    np.testing.assert_array_equal(model.predict(x), ConcreteDropoutRegressor(**QUICK).fit(x, y).predict(layout(x)))
    np.testing.assert_array_equal(model.log_prob(layout(x), y), model.log_prob(x, y))
    grown = ConcreteDropoutRegressor(**QUICK).partial_fit(layout(x[:30]), y[:30]).partial_fit(layout(x[30:]), y[30:])
    np.testing.assert_array_equal(grown.predict(x), model.predict(x))
    monkeypatch.setattr("gumdrop.estimators.rows.MOST_DENSE", 100)
    with pytest.raises(ValueError, match=r"up to 100 cells, got 60 x 2: make fewer columns.*TruncatedSVD"):
        model.fit(layout(x), y)


@pytest.mark.parametrize(
    ("func", "inverse"),
    [(np.log, np.exp), (lambda y: 1 / y, lambda z: 1 / np.maximum(z, 1e-6))],
    ids=["rising", "falling"],
)
def test_quantiles_survive_what_stands_around_a_regressor(func, inverse) -> None:
    x, y = numbers()
    inner = make_pipeline(StandardScaler(), "passthrough", ConcreteDropoutRegressor(**QUICK))
    model = make_pipeline(
        StandardScaler(), TransformedTargetRegressor(inner, func=func, inverse_func=inverse, check_inverse=False)
    ).fit(x, y)
    probabilities = [0.05, 0.5, 0.9]
    found = predict_quantiles(model, x, probabilities)
    transformed = model[-1].regressor_
    at = StandardScaler().fit_transform(StandardScaler().fit_transform(x))
    draws = inverse(transformed[-1].sample_y(at, n_samples=2000))  # of the networks, carried over
    below = (draws[:, :, None] <= found[:, None]).mean((0, 1))
    np.testing.assert_allclose(below, probabilities, atol=0.01)
    assert (np.diff(found) >= 0).all()
    lower, upper = predict_interval(model, x, 0.8)
    np.testing.assert_allclose(np.stack([lower, upper], 1), predict_quantiles(model, x, [0.1, 0.9]), rtol=1e-6)
    search = GridSearchCV(model, {"transformedtargetregressor__check_inverse": [False]}, cv=2).fit(x, y)
    np.testing.assert_array_equal(predict_quantiles(search, x, probabilities), found)


def test_a_regressor_alone_and_learned_transforms_are_asked_alike() -> None:
    x, y = numbers()
    plain = ConcreteDropoutRegressor(**QUICK).fit(x, y)
    np.testing.assert_array_equal(predict_quantiles(plain, x), plain.predict_quantiles(x))
    np.testing.assert_array_equal(predict_interval(plain, x, 0.7), plain.predict_interval(x, 0.7))
    ranked = QuantileTransformer(n_quantiles=20, output_distribution="normal")
    model = TransformedTargetRegressor(ConcreteDropoutRegressor(**QUICK), transformer=ranked).fit(x, y)
    lower, upper = predict_interval(model, x, 0.8)
    assert ((y.min() <= lower) & (lower < upper) & (upper <= y.max())).all()


def test_quantiles_that_cannot_be_carried_over_are_refused() -> None:
    x, y = numbers()
    around = {"func": lambda y: y, "inverse_func": np.sin, "check_inverse": False}
    model = TransformedTargetRegressor(ConcreteDropoutRegressor(**QUICK), **around).fit(x, y * 10)
    with pytest.raises(ValueError, match="rise or fall throughout"):
        predict_interval(model, x)
    both = TransformedTargetRegressor(ConcreteDropoutRegressor(**QUICK), transformer=StandardScaler())
    with pytest.raises(ValueError, match="one target behind its transform"):
        predict_quantiles(both.fit(x, np.stack([y, -y], 1)), x)
    with pytest.raises(TypeError, match="got Ridge"):
        predict_quantiles(make_pipeline(StandardScaler(), Ridge()).fit(x, y), x)
    with pytest.raises(ValueError, match="`coverage`"):
        predict_interval(model, x, 1.0)


@pytest.mark.parametrize("kind", ["constant", "rounded", "sparse", "weightless"])
@pytest.mark.parametrize("estimator", [ConcreteDropoutRegressor, ConcreteDropoutClassifier])
def test_a_column_that_never_varied_has_no_effect_and_is_told_where_it_changes(estimator, kind) -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=40), np.full(40, 0.3)])
    y, weights, given = x[:, 0] > 0, np.ones(40), scipy.sparse.csr_matrix if kind == "sparse" else np.asarray
    if kind == "rounded":
        x[::2, 1] = 0.1 + 0.2
    if kind == "weightless":
        x[0, 1], weights[0] = 5.0, 0.0
    model = estimator(n_members=1, max_iter=2, hidden_layer_sizes=8, random_state=0)
    model.fit(given(x), y.astype(float), sample_weight=weights)
    model.predict(given(x[1:]))
    before = model.predict_distribution(given(x[1:]))
    changed = x[1:].copy()
    changed[3, 1] = -1e12
    with pytest.warns(UserWarning, match="differs from training in columns that never varied there, 1: that has no"):
        after = model.predict_distribution(given(changed))
    for name in ("mean", "epistemic") if estimator is ConcreteDropoutRegressor else ("probabilities",):
        torch.testing.assert_close(getattr(after, name), getattr(before, name), rtol=0, atol=0)
