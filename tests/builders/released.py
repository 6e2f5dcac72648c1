"""Files of a version that later ones must read: `python -m builders.released` in tests/ writes those of this version.

One table model of each kind of target, a converted network and its state dict, and an estimator, all of toy size, with
what they predict for rows of their own.
"""

import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import gumdrop as gd
from gumdrop.estimators import ConcreteDropoutRegressor
from gumdrop.machine.version import VERSION
from gumdrop.tables import FitSettings, Reading, fit_table, load_table_model
from gumdrop.tables.results import RESULTS_FILE

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = ("number", "classes", "hurdle", "counts", "survival")
STATE, NETWORK, ESTIMATOR, EXPECTED = "network.pt", "network.pickle", "regressor.pickle", "expected.json"
OF_A_MODEL = {"model.json", "model.safetensors"}
"""Files of a folder that predictions read."""
WITH_RESULTS = "classes"
"""The folder that keeps its results, too, which `gumdrop compare` and `info` read: they are longer than a model."""


def table(kind: str) -> pd.DataFrame:
    """Rows with a target of a kind."""
    random = np.random.default_rng(0)
    x, noise, of = random.uniform(-2, 2, 80).round(2), random.normal(size=80), random.integers(3, size=80)
    frame = pd.DataFrame({"x": x, "kind": np.array(["a", "b", "c"])[of]})
    frame["y"] = {
        "number": (np.sin(x) + of + noise / 5).round(3),
        "classes": np.where(x + noise / 2 > 0, "yes", "no"),
        "hurdle": np.where(x + noise < 0, 0, np.exp(x / 2 + noise / 2)).round(2),
        "counts": np.exp(1 + x / 2 + 0.6 * noise).astype(int),
        "survival": (np.exp(x / 2 + 0.4 * noise) + 0.05).round(2),
    }[kind]
    if kind == "survival":
        frame["died"] = (random.uniform(size=80) < 0.7).astype(int)
    return frame


def network() -> nn.Module:
    """A convolution and two dense layers, with a rate for each unit."""
    layers = nn.Conv1d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 4), nn.ReLU(), nn.Linear(4, 2)
    return gd.learn_dropout(nn.Sequential(*layers), per_unit=True)


INPUTS = torch.linspace(-1, 1, 20).view(2, 2, 5)
POINTS = np.linspace(-1, 1, 6).reshape(3, 2)


def of_table(kind: str, place: Path) -> list[list[Any]]:
    """What a table model says of the first rows, of which one has a cell that is not known."""
    rows = table(kind)[:4]
    rows.loc[1, "x"] = np.nan
    found: list[list[Any]] = load_table_model(place / kind).predict(rows).to_numpy(object).tolist()
    return found


def of_network(model: nn.Module) -> Iterable[Any]:
    """What a network predicts."""
    found: Tensor = gd.predict(model.eval(), INPUTS, "gaussian", num_samples=4, seed=0).mean
    return found.tolist()


def of_estimator(place: Path) -> Iterable[Any]:
    """Quantiles of an estimator."""
    found: Iterable[Any] = pickle.loads((place / ESTIMATOR).read_bytes()).predict_quantiles(POINTS).tolist()
    return found


def said(place: Path) -> dict[str, Any]:
    """All that these files predict."""
    model, found = network(), {kind: of_table(kind, place) for kind in KINDS}
    model.load_state_dict(torch.load(place / STATE, weights_only=True))
    stored = pickle.loads((place / NETWORK).read_bytes())
    return found | {STATE: of_network(model), NETWORK: of_network(stored), ESTIMATOR: of_estimator(place)}


def write(place: Path) -> None:
    """Fit all, and leave what is needed to predict."""
    place.mkdir()
    for kind in KINDS:
        settings = FitSettings(
            num_members=2, hidden=(4,), epochs=3, compare=False, num_background=4, conformal=kind == "number"
        )
        reading = Reading(event="died" if kind == "survival" else None)
        fit_table(table(kind), "y", place / kind, settings=settings, reading=reading)
        for path in (place / kind).iterdir():
            if path.name not in OF_A_MODEL | ({RESULTS_FILE} if kind == WITH_RESULTS else set()):
                path.unlink()
    torch.manual_seed(0)
    model = network()
    torch.save(model.state_dict(), place / STATE)
    nll = gd.gaussian_nll(*model(INPUTS).chunk(2, dim=-1), torch.zeros(2, 1))
    gd.negative_elbo(nll, model, num_data=2, likelihood="gaussian")  # what an objective remembers is not to be stored
    (place / NETWORK).write_bytes(pickle.dumps(model, protocol=4))
    random = np.random.default_rng(1)
    x = random.normal(size=(60, 2))
    estimator = ConcreteDropoutRegressor(n_members=2, hidden_layer_sizes=(4,), max_iter=3, strength=1.0, random_state=0)
    estimator.fit(x, np.stack([x[:, 0] + random.normal(size=60) / 5, x[:, 1]], 1))
    (place / ESTIMATOR).write_bytes(pickle.dumps(estimator, protocol=4))
    (place / EXPECTED).write_text(json.dumps(said(place), indent=1, default=float) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(GOLDEN / VERSION)
