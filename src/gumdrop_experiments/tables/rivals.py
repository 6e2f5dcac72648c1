"""Models of other packages, each as its documentation says: nothing is tuned, and no test row is seen.

Where the documentation stops training early, a part of the training rows is held out for that.

References:
    Duan et al. 2020, "NGBoost" (arXiv:1910.03225).
    Malinin, Prokhorenkova & Ustimenko 2021, "Uncertainty in Gradient Boosting via Ensembles" (arXiv:2006.10562).
    Meinshausen 2006, "Quantile Regression Forests" (JMLR 7).
    Holzmüller, Grinsztajn & Steinwart 2024, "Better by Default" (arXiv:2407.04491), for RealMLP.
    Gorishniy, Kotelnikov & Babenko 2024, "TabM" (arXiv:2410.24210).
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from gumdrop.likelihoods import RegressionPrediction
from gumdrop_experiments.tables.tasks import QUANTILE_LEVELS, Prediction, Quantiles, Task, gaussian, probabilities

HELD_OUT, PATIENCE = 0.1, 50
VIRTUAL_MODELS = 10
NGBOOST_ROUNDS = 2000
"""As many as its authors' own regression benchmark allows; the early stop chooses."""
QUICK_ROUNDS = 100
TABM_HELD_OUT = 0.2
"""The package's own share."""


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
    found = model.pred_dist(task.x_test, max_iter=model.best_val_loss_itr)
    return gaussian(found.loc, found.scale)


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
    found = model.virtual_ensembles_predict(
        task.x_test, prediction_type="VirtEnsembles", virtual_ensembles_count=VIRTUAL_MODELS, thread_count=1
    )
    return RegressionPrediction.mixture([gaussian(each[:, 0], each[:, 1] ** 0.5) for each in found.swapaxes(0, 1)])


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
