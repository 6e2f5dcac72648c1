"""Results of made-up fits."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

NORMAL_90 = 1.645


def _history(rng: np.random.Generator, epochs: int, finals: dict[str, float]) -> list[dict[str, Any]]:
    steps = []
    for epoch in range(1, epochs + 1):
        fall = math.exp(-6 * epoch / max(epochs, 20))
        rates = {site: p + (0.1 - p) * fall for site, p in finals.items()}
        noise = 0.03 * float(rng.normal())
        losses = {"nll": 1.0 + 1.4 * fall + noise, "kl": 0.12 + 0.5 * fall}
        steps.append(
            {"epoch": epoch, **losses, "validation_nll": 1.1 + 1.3 * fall + 2 * noise, "learning_rate": 0.01}
            | {"rates": rates}
        )
    return steps


def _common(rng: np.random.Generator, rows: int, epochs: int, layers: int, features: list[str]) -> dict[str, Any]:
    labels = [f"input ({len(features)} columns)"] + [f"hidden layer {i} (50 units)" for i in range(1, layers)]
    finals = {str(2 * i): float(p) for i, p in enumerate(rng.uniform(0.02, 0.35, layers))}
    spread = {site: {"p": p, "least": 0.8 * p, "most": 1.3 * p} for site, p in finals.items()}
    sites = [{"site": s, "label": label, **p} for (s, p), label in zip(spread.items(), labels, strict=True)]
    settings = {"hidden": [50, 50], "num_members": 5, "epochs": epochs, "batch_size": 32, "lr": 0.01, "seed": 0}
    return {
        "format": 1,
        "gumdrop": "0.1.0",
        "table": {"name": "diabetes.csv", "rows": 5 * rows, "features": features}
        | {"train_rows": 4 * rows, "watched_rows": [rows // 3 + i // 3 for i in range(5)], "test_rows": rows},
        "best_epochs": [max(1, epochs - i) for i in range(5)],
        "settings": {**settings, "num_samples": 100, "coverage": 0.9},
        "environment": {"python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.0", "hardware": "x86_64 CPU, 4 threads"},
        "seconds": 12.3,
        "history": _history(rng, epochs, finals),
        "rates": sites,
        "notes": ["2 missing values in 'bmi' were replaced by the median"],
    }


def _score(names: tuple[str, ...], model: str, *values: float | None) -> dict[str, Any]:
    return {"name": model, "ours": model == "learned dropout", "values": dict(zip(names, values, strict=True))}


def regression_results(rows: int = 88, *, epochs: int = 400, layers: int = 3, seed: int = 0) -> dict[str, Any]:
    """Results of a made-up regression whose stated uncertainty is right."""
    rng = np.random.default_rng(seed)
    features = ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]
    mean, epistemic = rng.uniform(70, 260, rows), rng.gamma(2.0, 9.0, rows)
    aleatoric = rng.uniform(30, 62, rows)
    std = np.hypot(epistemic, aleatoric)
    observed = mean + std * rng.normal(size=rows)
    levels = np.linspace(0.05, 0.95, 19)
    inside = np.abs(observed - mean)[:, None] <= std[:, None] * np.array(
        [NormalDist().inv_cdf((1 + p) / 2) for p in levels]
    )
    numbers = np.arange(1, rows + 1) * 5
    test = {"row": numbers, "observed": observed, "mean": mean, "lower": mean - NORMAL_90 * std}
    test |= {"upper": mean + NORMAL_90 * std, "epistemic_std": epistemic, "aleatoric_std": aleatoric}
    rmse = float(np.sqrt(np.mean((observed - mean) ** 2)))
    unsure = [
        {
            "row": int(numbers[i]),
            "values": [f"{v:.1f}" for v in rng.normal(50, 20, len(features))],
            "observed": f"{observed[i]:.0f}",
            "predicted": f"{mean[i]:.0f}",
            "interval": f"{mean[i] - NORMAL_90 * std[i]:.0f} to {mean[i] + NORMAL_90 * std[i]:.0f}",
            "epistemic": float(epistemic[i]),
        }
        for i in np.argsort(-epistemic)[:10]
    ]
    scores = [
        ("learned dropout", rmse, -5.40, float(np.mean(np.abs(observed - mean) < NORMAL_90 * std)), 30.1),
        ("fixed dropout, p = 0.1", rmse * 1.03, -5.47, 0.82, 30.9),
        ("gradient-boosted trees", rmse * 0.98, None, None, None),
        ("mean of the training part", 77.2, -5.77, 0.93, 44.6),
    ]
    names = ("RMSE", "log likelihood", "coverage of 90 % interval", "CRPS")
    return _common(rng, rows, epochs, layers, features) | {
        "task": "regression",
        "target": {"name": "progression", "classes": []},
        "scores": [_score(names, *row) for row in scores],
        "score_notes": {
            "RMSE": "root mean squared error, in the units of progression; lower is better",
            "log likelihood": "how probable the true values were to the model, in nats per row; higher is better",
        },
        "calibration": {"expected": levels.tolist(), "observed": inside.mean(axis=0).tolist()},
        "test": {name: values.tolist() for name, values in test.items()},
        "unsure": {"columns": features, "rows": unsure},
    }


def classification_results(
    rows: int = 120, *, classes: int = 3, epochs: int = 200, layers: int = 3, seed: int = 1
) -> dict[str, Any]:
    """Results of a made-up classification whose probabilities are right."""
    rng = np.random.default_rng(seed)
    names = ["Adelie", "Chinstrap", "Gentoo"][:classes] + [f"class {i}" for i in range(4, classes + 1)]
    features = ["bill length (mm)", "bill depth (mm)", "flipper length (mm)", "body mass (g)"]
    probability = 1 - 0.55 * rng.beta(0.5, 3.0, rows)
    predicted = rng.integers(0, classes, rows)
    shift = np.where(rng.random(rows) < probability, 0, rng.integers(1, max(classes, 2), rows))
    observed = (predicted + shift) % classes
    entropy = -probability * np.log(probability) - (1 - probability) * np.log1p(-probability + 1e-12)
    entropy += (1 - probability) * math.log(max(classes - 1, 1))
    information = entropy * rng.uniform(0.05, 0.5, rows)
    bins = np.minimum((probability * 10).astype(int), 9)
    right = observed == predicted
    count = np.bincount(bins, minlength=10)
    filled = np.maximum(count, 1)
    share = [float(v) if c else None for v, c in zip(np.bincount(bins, right, 10) / filled, count, strict=True)]
    sure = [float(v) if c else None for v, c in zip(np.bincount(bins, probability, 10) / filled, count, strict=True)]
    accuracy = float(right.mean())
    scores = [
        ("learned dropout", accuracy, -0.21, 0.021),
        ("fixed dropout, p = 0.1", accuracy - 0.03, -0.24, 0.034),
        ("gradient-boosted trees", accuracy - 0.01, -0.29, 0.041),
        ("most frequent class", 0.42, -1.06, 0.01),
    ]
    unsure = [
        {
            "row": int(i + 1),
            "values": [f"{v:.1f}" for v in rng.normal(40, 9, len(features))],
            "observed": names[observed[i]],
            "predicted": names[predicted[i]],
            "interval": f"{100 * probability[i]:.0f}%",
            "epistemic": float(information[i]),
        }
        for i in np.argsort(-information)[:10]
    ]
    return _common(rng, rows, epochs, layers, features) | {
        "task": "classification",
        "target": {"name": "species", "classes": names},
        "scores": [_score(("accuracy", "log likelihood", "calibration error"), *row) for row in scores],
        "calibration": {"expected": sure, "observed": share, "count": count.tolist()},
        "test": {
            "row": list(range(1, rows + 1)),
            "observed": [names[i] for i in observed],
            "predicted": [names[i] for i in predicted],
            "probability": probability.tolist(),
            "predictive_entropy": entropy.tolist(),
            "mutual_information": information.tolist(),
        },
        "unsure": {"columns": features, "rows": unsure},
    }


def with_columns(results: dict[str, Any], *, fails: bool = False) -> dict[str, Any]:
    """Add what the test rows tell column by column, made up; in one group the promise fails."""
    rows = results["test"]["row"]
    numbers = results["task"] == "regression"
    guess = "distance" if numbers else "right"
    importance = [
        {"name": name, "gains": {"log likelihood": {"mean": 0.4 / k, "se": 0.05}, guess: {"mean": 0.1 / k, "se": 0.02}}}
        for k, name in enumerate(results["table"]["features"], 1)
    ]
    groups = [{"column": "sex", "words": "one", "rows": 50, "held": 46, "stated": 0.9}]
    groups += [{"column": "sex", "words": "two", "rows": 40, "held": 22 if fails else 35, "stated": 0.9}]
    cells = [
        {"name": "age", "numbers": [None, *(30.0 + i % 50 for i in rows[1:])]},
        {"name": "sex", "labels": ["one" if i % 3 else "" for i in rows]},
        {"name": "seen", "numbers": [18_000.0 + 10 * i for i in rows], "dates": True},
    ]
    effects = [{**cells[0], "numbers": [30.0, 40.0], "mean": [120.0, 130.0], "epistemic": [5.0, 4.0]}]
    effects += [{**cells[1], "labels": ["one", ""], "mean": [0.4, 0.6], "epistemic": [0.1, 0.0]}]
    found = {"effects": effects, "effects_of": None if numbers else results["target"]["classes"][0]}
    found |= {"importance": importance, "rows": len(rows), "shuffles": 5, "groups": groups}
    return results | {"columns": found | {"cell_rows": rows, "cells": cells if numbers else []}}
