"""What is tried with uncertainty: labels are chosen, out-of-distribution rows found, and rates watched as data grow."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from gumdrop.estimators import ConcreteDropoutClassifier, ConcreteDropoutRegressor
from gumdrop.metrics import choose, outlier_p_values
from gumdrop_experiments.harness import BaseSettings, Plain, Run

PASSES = 200
"""Of networks that are trained anew after each batch of labels."""
FIRST_ROWS, BATCH, POOL = 20, 40, 1000
ALARM = 0.05
KNOWN = 8
"""Digits below this are known."""
Numbers = NDArray[Any]

CHOICES: dict[str, Callable[[Any, int, int], torch.Tensor]] = {
    "random": lambda prediction, count, seed: choose(torch.ones(len(prediction.label)), count, seed=seed),
    "highest mutual information": lambda prediction, count, seed: choose(prediction.mutual_information, count),
    "in proportion to it": lambda prediction, count, seed: choose(prediction.mutual_information, count, seed=seed),
}
SEEDS, LABEL_SEEDS, QUICK_SEEDS = 5, 3, 2
ROUNDS, QUICK_ROUNDS = 4, 1
QUICK_PASSES = 3
SIZES = {"diabetes": [50, 100, 200, 442], "digits": [100, 200, 400, 800, 1797]}
QUICK_SIZES = {"diabetes": [50, 100], "digits": [50, 100]}


@threadpool_limits.wrap(limits=1)
def study(settings: BaseSettings, run: Run) -> Plain:
    """Try each with several seeds."""
    quick = run.options.quick
    seeds = run.options.seeds(QUICK_SEEDS if quick else SEEDS)
    rounds, passes = (QUICK_ROUNDS, QUICK_PASSES) if quick else (ROUNDS, None)
    results = [run.part(f"outliers.{seed}", partial(outliers, seed, passes)) for seed in seeds]
    rates = {
        name: [run.part(f"growing.{name}.{seed}", partial(growing, name, seed, sizes, passes)) for seed in seeds[:2]]
        for name, sizes in (QUICK_SIZES if quick else SIZES).items()
    }
    curves = {
        choice: [
            run.part(f"digits.{number}.{seed}", partial(label, choice, seed, rounds, passes))
            for seed in seeds[:LABEL_SEEDS]
        ]
        for number, choice in enumerate(CHOICES)
    }
    return {"labels": curves, "outliers": results, "growing": rates}


def label(choice: str, seed: int, rounds: int, passes: int | None) -> list[dict[str, float]]:
    """Label digits batch by batch."""
    x, x_test, y, y_test = train_test_split(*load_digits(return_X_y=True), train_size=POOL, random_state=seed)
    model = ConcreteDropoutClassifier(max_iter=passes or PASSES, random_state=seed)
    left = np.random.default_rng(seed).permutation(POOL)
    batch, left = left[:FIRST_ROWS], left[FIRST_ROWS:]
    target, curve = torch.from_numpy(y_test), []
    for number in range(rounds + 1):
        model.partial_fit(x[batch], y[batch], classes=range(10))
        prediction = model.predict_distribution(x_test)
        point = {"labels": FIRST_ROWS + number * BATCH, "rate": float(model.dropout_rates_.mean())}
        point["accuracy"] = (prediction.label == target).double().mean().item()
        curve.append(point | {"log_likelihood": prediction.log_prob(target).mean().item()})
        if number < rounds:
            chosen = CHOICES[choice](model.predict_distribution(x[left]), BATCH, seed * 1000 + number).numpy()
            batch, left = left[chosen], np.delete(left, chosen)
    return curve


def outliers(seed: int, passes: int | None) -> Plain:
    """Learn the digits 0 to 7, and tell from test rows of these what was never seen: 8 and 9, and turned digits."""
    x, y = load_digits(return_X_y=True)
    unknown = x[y >= KNOWN]
    x, x_test, y, _ = train_test_split(x[y < KNOWN], y[y < KNOWN], test_size=0.4, random_state=seed)
    reference, usual = np.array_split(x_test, 2)
    turned = np.rot90(usual.reshape(-1, 8, 8), axes=(1, 2)).reshape(-1, 64)
    scores = _outlier_scores(x, y, seed, passes)
    results: Plain = {}
    for kind, rows in {"digits 8 and 9": unknown, "digits turned by 90 degrees": turned}.items():
        truth = np.r_[np.zeros(len(usual)), np.ones(len(rows))]
        results[kind] = {}
        for name, score in scores.items():
            auroc = roc_auc_score(truth, score(np.vstack([usual, rows])))
            alarms = [np.mean(outlier_p_values(score(each), score(reference)) <= ALARM) for each in (usual, rows)]
            results[kind][name] = {"auroc": float(auroc), "false_alarms": float(alarms[0]), "found": float(alarms[1])}
    return results


def _outlier_scores(x: Numbers, y: Numbers, seed: int, passes: int | None) -> dict[str, Callable[[Numbers], Numbers]]:
    """Scores that are high for out-of-distribution rows, of models that know some rows."""
    ours = ConcreteDropoutClassifier(max_iter=passes, random_state=seed).fit(x, y)
    network = make_pipeline(StandardScaler(), MLPClassifier((50, 50), early_stopping=True, random_state=seed)).fit(x, y)
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, y)
    covariance = EmpiricalCovariance().fit(x)
    forest = IsolationForest(random_state=seed).fit(x)

    def entropy(p: Numbers) -> Numbers:
        return np.asarray(-(p * np.log(np.clip(p, 1e-300, 1))).sum(1))

    return {
        "gumdrop: mutual information": lambda rows: ours.predict_distribution(rows).mutual_information.numpy(),
        "gumdrop: entropy": lambda rows: ours.predict_distribution(rows).predictive_entropy.numpy(),
        "one plain network: entropy": lambda rows: entropy(network.predict_proba(rows)),
        "logistic regression: entropy": lambda rows: entropy(logistic.predict_proba(rows)),
        "Mahalanobis distance": lambda rows: np.asarray(covariance.mahalanobis(rows)),
        "isolation forest": lambda rows: np.asarray(-forest.score_samples(rows)),
    }


def growing(name: str, seed: int, sizes: list[int], passes: int | None) -> list[Plain]:
    """Grow a set by `partial_fit` and watch the learned rates."""
    x, y = load_digits(return_X_y=True) if name == "digits" else load_diabetes(return_X_y=True)
    kind: Any = ConcreteDropoutClassifier if name == "digits" else ConcreteDropoutRegressor
    model = kind(max_iter=passes, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(x))
    curve, seen = [], 0
    for size in sizes:
        some = order[seen:size]
        model.partial_fit(x[some], y[some], **({"classes": range(10)} if name == "digits" and not seen else {}))
        curve.append({"rows": size, "rates": model.dropout_rates_.mean(0).tolist()})
        seen = size
    return curve
