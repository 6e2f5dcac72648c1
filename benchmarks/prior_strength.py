"""How strong should the prior be? Held-out log likelihood and rates against its precision, on scikit-learn's sets.

Five folds of each set train as one program, for each precision in units of that of the fan-in prior, with a fixed
number of steps and no early stopping. Run with ``make benchmarks``; writes ``docs/results/prior_strength.json`` and
``.png``.
"""

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from matplotlib.figure import Figure
from sklearn import datasets
from sklearn.model_selection import KFold, StratifiedKFold
from torch import Tensor

import gumdrop as gd
from gumdrop.networks import mlp
from gumdrop.objective import kl as divergence
from gumdrop.training import fit_stacked
from gumdrop_experiments.harness.origin import of_script

PRECISIONS = (1.0, 0.3, 0.1, 0.03, 0.01)
DEFAULT = divergence.WEAK_PRECISION
STEPS = 3000
BATCH_SIZE = 32
SEED = 0
RESULTS = Path(__file__).parents[1] / "docs" / "results"


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of one set."""
    if name == "friedman":
        return datasets.make_friedman1(250, noise=1.0, random_state=SEED)
    return getattr(datasets, f"load_{name}")(return_X_y=True)


def folds(name: str) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Standardised training and test parts; classes stay indices."""
    x, y = load(name)
    classes = y.dtype.kind == "i"
    splitter = (StratifiedKFold if classes else KFold)(5, shuffle=True, random_state=SEED)
    parts = []
    for train, test in splitter.split(x, y):
        scale = x[train].std(0) + 1e-9
        inputs = torch.tensor((x - x[train].mean(0)) / scale, dtype=torch.float32)
        spread = (y - y[train].mean()) / y[train].std()
        targets = torch.tensor(y) if classes else torch.tensor(spread, dtype=torch.float32).unsqueeze(1)
        parts.append((inputs[train], targets[train], inputs[test], targets[test]))
    return parts


def score(name: str, precision: float) -> dict[str, Any]:
    """Held-out log likelihood per row, with targets standardised, and mean rates of one set under one prior."""
    divergence.WEAK_PRECISION = precision
    parts = folds(name)
    classes = not parts[0][1].is_floating_point()
    num_outputs = int(max(y.max() for _, y, _, _ in parts)) + 1 if classes else 1
    torch.manual_seed(SEED)
    models = [mlp(x.shape[1], num_outputs, homoscedastic_noise=not classes) for x, *_ in parts]
    epochs = max(1, STEPS // -(-len(parts[0][0]) // BATCH_SIZE))
    likelihood = "categorical" if classes else "gaussian"
    data = [(x, y) for x, y, _, _ in parts]
    results = fit_stacked(models, data, likelihood=likelihood, epochs=epochs, lengthscale="weak", seed=SEED)
    predict = gd.predict_classification if classes else gd.predict_regression
    held_out = [
        predict(model, x, seed=SEED).log_prob(y).mean().item()
        for model, (_, _, x, y) in zip(models, parts, strict=True)
    ]
    rates = np.mean([list(result.history[-1].rates.values()) for result in results], axis=0)
    return {
        "set": name,
        "precision": precision,
        "log_likelihood": float(np.mean(held_out)),
        "standard_error": float(np.std(held_out, ddof=1) / len(held_out) ** 0.5),
        "rates": rates.tolist(),
    }


def draw(rows: list[dict[str, Any]], names: list[str]) -> Figure:
    """One panel for each set."""
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    for axes, name in zip(figure.subplots(2, 3).flat, names, strict=True):
        mine = [row for row in rows if row["set"] == name]
        axes.errorbar(
            [row["precision"] for row in mine],
            [row["log_likelihood"] for row in mine],
            [row["standard_error"] for row in mine],
            marker="o",
            capsize=3,
        )
        axes.axvline(DEFAULT, color="grey", linestyle=":", linewidth=1)
        axes.set(xscale="log", title=name.replace("_", " "))
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel('prior precision in units of "fan_in" (dotted: "weak")')
    figure.supylabel("held-out log likelihood, nats per row")
    return figure


def main() -> None:
    """Run the comparison and write its results."""
    torch.set_num_threads(1)
    names = ["iris", "wine", "breast_cancer", "digits", "diabetes", "friedman"]
    rows = []
    for name in names:
        for precision in PRECISIONS:
            rows.append(score(name, precision))
            print(
                f"{name:14} {precision:5} {rows[-1]['log_likelihood']:8.3f} +- {rows[-1]['standard_error']:.3f}",
                flush=True,
            )
    contents = {
        "command": "make benchmarks",
        "seed": SEED,
        "steps": STEPS,
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "hardware": f"{platform.machine()} CPU",
        "code": of_script(),
        "results": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "prior_strength.json").write_text(json.dumps(contents, indent=1) + "\n")
    draw(rows, names).savefig(RESULTS / "prior_strength.png", dpi=130)


if __name__ == "__main__":
    main()
