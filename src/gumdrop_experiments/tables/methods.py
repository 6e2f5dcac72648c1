"""The methods that `gumdrop reproduce tables` compares, each with its usual settings and nothing tuned to a set.

Those of other packages are as their documentation says. Where it stops training early, a part of the training rows is
held out for that; no test row is seen.

References:
    Duan et al. 2020, "NGBoost" (arXiv:1910.03225).
    Malinin, Prokhorenkova & Ustimenko 2021, "Uncertainty in Gradient Boosting via Ensembles" (arXiv:2006.10562).
    Meinshausen 2006, "Quantile Regression Forests" (JMLR 7).
    Holzmüller, Grinsztajn & Steinwart 2024, "Better by Default" (arXiv:2407.04491), for RealMLP.
    Gorishniy, Kotelnikov & Babenko 2024, "TabM" (arXiv:2410.24210).
"""

import contextlib
import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from gumdrop import fix_dropout, predict_classification, predict_regression
from gumdrop.ensembles import EnsembleSettings, Rows, fit_ensembles, schedule
from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor
from gumdrop.likelihoods import Categorical, Gaussian, RegressionPrediction
from gumdrop.networks import mlp
from gumdrop.tables import boosted_classes, boosted_regression
from gumdrop.training import fit
from gumdrop_experiments.data.uci import Split
from gumdrop_experiments.shared import seeded
from gumdrop_experiments.tables.tasks import QUANTILE_LEVELS, Prediction, Quantiles, Task, gaussian, probabilities
from gumdrop_experiments.uci.methods import deep_ensemble
from gumdrop_experiments.uci.work import Work

HELD_OUT, PATIENCE = 0.1, 50
VIRTUAL_MODELS = 10
NGBOOST_ROUNDS = 2000
"""As many as its authors' own regression benchmark allows; the early stop chooses."""
QUICK_ROUNDS = 100
TABM_HELD_OUT = 0.2
"""The package's own share."""
NUM_SAMPLES = 100
PLAIN_LENGTHSCALE = 1e-2
"""A prior that hardly matters, as that of a plain network with a little weight decay."""
KERNEL_ROWS, CLASS_ROWS = 1000, 500
"""Rows at most from which a Gaussian process learns its kernel (and for classes all), at a cost like their cube."""


def _parts(task: Task, share: float = HELD_OUT) -> Any:
    """Inputs to train on and to stop by, then targets to train on and to stop by."""
    classes = task.y_train if task.num_classes else None
    return train_test_split(task.x_train, task.y_train, test_size=share, random_state=task.seed, stratify=classes)


def ngboost(task: Task) -> Prediction:
    """NGBoost with a normal distribution, stopped early."""
    from ngboost import NGBRegressor

    x, x_stop, y, y_stop = _parts(task)
    rounds = QUICK_ROUNDS if task.epochs else NGBOOST_ROUNDS
    model = NGBRegressor(n_estimators=rounds, random_state=task.seed, verbose=False)
    model.fit(x, y, X_val=x_stop, Y_val=y_stop, early_stopping_rounds=PATIENCE)
    distribution = model.pred_dist(task.x_test, max_iter=model.best_val_loss_itr)
    return gaussian(distribution.loc, distribution.scale)


def catboost(task: Task) -> Prediction:
    """CatBoost stopped early: virtual ensembles of a mean and a variance, or probabilities of classes."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    x, x_stop, y, y_stop = _parts(task)
    options: dict[str, Any] = {"random_seed": task.seed, "thread_count": 1, "allow_writing_files": False}
    stop: dict[str, Any] = {"eval_set": (x_stop, y_stop), "early_stopping_rounds": PATIENCE, "verbose": False}
    if task.num_classes:
        return probabilities(CatBoostClassifier(**options).fit(x, y, **stop).predict_proba(task.x_test))
    # A virtual model is a part of the trees, two at least.
    options |= {"loss_function": "RMSEWithUncertainty", "posterior_sampling": True}
    model = CatBoostRegressor(best_model_min_trees=2 * VIRTUAL_MODELS, **options).fit(x, y, **stop)
    draws = model.virtual_ensembles_predict(
        task.x_test, prediction_type="VirtEnsembles", virtual_ensembles_count=VIRTUAL_MODELS, thread_count=1
    )
    return RegressionPrediction.mixture([gaussian(each[:, 0], each[:, 1] ** 0.5) for each in draws.swapaxes(0, 1)])


def forest(task: Task) -> Prediction:
    """A quantile regression forest."""
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(random_state=task.seed, n_jobs=1).fit(task.x_train, task.y_train)
    values = model.predict(task.x_test, quantiles=list(QUANTILE_LEVELS))
    return Quantiles.of(values, task.y_train, model.predict(task.x_test, quantiles="mean"))


def real_mlp(task: Task) -> Prediction:
    """RealMLP with its defaults, for all quantiles at once or for classes."""
    with _quiet():
        from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

        options: dict[str, Any] = {"random_state": task.seed, "n_threads": 1, "device": "cpu", "verbosity": 0}
        if task.epochs:
            options["n_epochs"] = task.epochs
        if task.num_classes:
            model = RealMLP_TD_Classifier(**options).fit(task.x_train, task.y_train)
            return probabilities(model.predict_proba(task.x_test).astype(np.float64))
        loss = f"multi_pinball({','.join(map(str, QUANTILE_LEVELS))})"
        model = RealMLP_TD_Regressor(train_metric_name=loss, val_metric_name=loss, **options)
        values = model.fit(task.x_train, task.y_train).predict(task.x_test)
        return Quantiles.of(values.astype(np.float64), task.y_train)


def tab_m(task: Task) -> Prediction:
    """TabM with its defaults; numbers get Gaussian noise of the variance that its held-out rows show."""
    with _quiet():
        from pytabkit import TabM_D_Classifier, TabM_D_Regressor

        kind = TabM_D_Classifier if task.num_classes else TabM_D_Regressor
        epochs = {"n_epochs": task.epochs} if task.epochs else {}
        model = kind(random_state=task.seed, n_threads=1, device="cpu", verbosity=0, **epochs)
        x, x_stop, y, y_stop = _parts(task, TABM_HELD_OUT)
        model.fit(x, y, x_stop, y_stop)
        if task.num_classes:
            return probabilities(model.predict_proba(task.x_test).astype(np.float64))
        mean, held_out = (model.predict(each).astype(np.float64).ravel() for each in (task.x_test, x_stop))
    return gaussian(mean, np.full(len(mean), np.sqrt(np.mean((y_stop - held_out) ** 2))))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the notes that Lightning prints at each training; the number of threads comes back."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning.pytorch")]
    before = [logger.level for logger in loggers]
    threads = torch.get_num_threads()
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


@dataclass(frozen=True)
class Method:
    """A method and what is said of it."""

    label: str
    run: Callable[[Task], Prediction]
    network: bool = False
    classes: bool = True
    package: str | None = None
    """The package that it needs beside those of gumdrop; it makes the method a rival, which may fail."""
    default: bool = True
    """Whether it runs unless methods are named."""


def _gumdrop(task: Task) -> Prediction:
    kind: Any = ConcreteDropoutClassifier if task.num_classes else ConcreteDropoutRegressor
    model = kind(max_iter=task.epochs, random_state=task.seed).fit(task.x_train, task.y_train)
    prediction: Prediction = model.predict_distribution(task.x_test)
    return prediction


def _tensors(task: Task) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Inputs to train on and to predict, standardised; targets; and what carries a prediction back to units."""
    inputs = StandardScaler().fit(task.x_train)
    x, x_test = (torch.tensor(inputs.transform(each), dtype=torch.float32) for each in (task.x_train, task.x_test))
    if task.num_classes:
        return x, torch.from_numpy(task.y_train), x_test, lambda prediction: prediction
    mean, std = task.y_train.mean(), task.y_train.std()
    y = torch.tensor((task.y_train - mean) / std, dtype=torch.float32).unsqueeze(1)
    return x, y, x_test, lambda prediction: prediction.rescale(std, mean)


def _fixed_network(num_inputs: int, num_classes: int) -> nn.Module:
    noise = not num_classes
    return fix_dropout(mlp(num_inputs, num_classes or 1, homoscedastic_noise=noise, p=0.1))


def _fixed_ensemble(task: Task) -> Prediction:
    """An ensemble with held-out noise, like the default of gumdrop, of networks of 2 x 50 with rates that stay."""
    x, y, x_test, in_units = _tensors(task)
    make = functools.partial(_fixed_network, x.shape[1], task.num_classes)
    settings = EnsembleSettings(epochs=task.epochs, seed=task.seed)
    (fitted,) = fit_ensembles([make], [Rows(x, y)], settings, Categorical() if task.num_classes else Gaussian())
    return in_units(fitted.model.predict(x_test, num_samples=NUM_SAMPLES, seed=task.seed))


def _fixed_single(task: Task) -> Prediction:
    """One network with MC dropout, as it is mostly done: nothing held out, noise learned with the weights."""
    x, y, x_test, in_units = _tensors(task)
    with seeded(task.seed):
        model = _fixed_network(x.shape[1], task.num_classes)
    batch_size, epochs = schedule(len(x), epochs=task.epochs, is_density=not task.num_classes)
    fit(
        model,
        (x, y),
        likelihood="categorical" if task.num_classes else "gaussian",
        epochs=epochs,
        batch_size=batch_size,
        lr=1e-2,
        lengthscale=PLAIN_LENGTHSCALE,
        seed=task.seed,
    )
    predict: Any = predict_classification if task.num_classes else predict_regression
    return in_units(predict(model, x_test, num_samples=NUM_SAMPLES, seed=task.seed))


def _deep_ensemble(task: Task) -> Prediction:
    """Five networks with a head for the noise and without dropout, mixed (Lakshminarayanan et al. 2017)."""
    x, y, x_test, in_units = _tensors(task)
    split = Split(x, y, x_test, torch.empty(0, 1), 0.0, 1.0)
    return in_units(deep_ensemble(Work("", [split], task.seed, task.epochs)).predictions[0])


def _process(task: Task) -> Prediction:
    order = np.random.default_rng(task.seed).permutation(len(task.x_train))
    scaler = StandardScaler().fit(task.x_train)
    x, y, x_test = scaler.transform(task.x_train)[order], task.y_train[order], scaler.transform(task.x_test)
    kernel = ConstantKernel() * RBF(x.shape[1] ** 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a scale at the end of its range is an answer too
        if task.num_classes:
            classifier = GaussianProcessClassifier(kernel, random_state=task.seed)
            return probabilities(classifier.fit(x[:CLASS_ROWS], y[:CLASS_ROWS]).predict_proba(x_test))
        process = GaussianProcessRegressor(kernel + WhiteKernel(), normalize_y=True, random_state=task.seed)
        process.fit(x[:KERNEL_ROWS], y[:KERNEL_ROWS])
    if len(x) > KERNEL_ROWS:
        process = GaussianProcessRegressor(process.kernel_, optimizer=None, normalize_y=True).fit(x, y)
    return gaussian(*process.predict(x_test, return_std=True))


def _linear(task: Task) -> Prediction:
    if task.num_classes:
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(task.x_train, task.y_train)
        return probabilities(model.predict_proba(task.x_test))
    model = make_pipeline(StandardScaler(), BayesianRidge()).fit(task.x_train, task.y_train)
    return gaussian(*model.predict(task.x_test, return_std=True))


def _boosted(task: Task) -> Prediction:
    x, y, x_test = (torch.from_numpy(each) for each in (task.x_train, task.y_train, task.x_test))
    if task.num_classes:
        return boosted_classes(x, y, task.num_classes, x_test, seed=task.seed)
    return boosted_regression(x, y.unsqueeze(1), x_test, seed=task.seed)


def _quantiles(task: Task) -> Prediction:
    trees = functools.partial(HistGradientBoostingRegressor, loss="quantile", random_state=task.seed)
    models = (trees(quantile=level).fit(task.x_train, task.y_train) for level in QUANTILE_LEVELS)
    return Quantiles.of(np.column_stack([model.predict(task.x_test) for model in models]), task.y_train)


METHODS: dict[str, Method] = {
    "gumdrop": Method("gumdrop, the estimator as it comes", _gumdrop, network=True),
    "fixed": Method("ensemble of 2 x 50, rates fixed at .1", _fixed_ensemble, network=True),
    "mc-dropout": Method("one network, MC dropout at .1", _fixed_single, network=True),
    "deep-ensemble": Method("deep ensemble of 5, no dropout", _deep_ensemble, network=True, classes=False),
    "process": Method("Gaussian process, RBF", _process),
    "linear": Method("Bayesian ridge / logistic", _linear),
    "boosting": Method("boosted trees", _boosted),
    "quantiles": Method("boosted quantiles", _quantiles, classes=False),
    "ngboost": Method("NGBoost, normal", ngboost, classes=False, package="ngboost"),
    "catboost": Method("CatBoost with uncertainty", catboost, package="catboost"),
    "forest": Method("quantile forest", forest, classes=False, package="quantile_forest"),
    "realmlp": Method("RealMLP, quantiles", real_mlp, network=True, package="pytabkit"),
    "tabm": Method("TabM, constant noise", tab_m, network=True, package="pytabkit", default=False),
}
"""All methods, by the names that ``--methods`` takes."""
