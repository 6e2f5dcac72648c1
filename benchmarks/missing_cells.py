"""Do 90 % intervals hold 90 % of the targets where cells are blank? Coverage with no, one, half and all cells unknown.

Each table is split three times, seven parts to train on and three to try, and fitted with the defaults of
``gumdrop fit``; figures are means over the splits.
Cells of the test rows are then blanked, those of categories replaced by a word that training never saw: each column in
turn, ten random halves of the columns, all columns. Beside the coverage of predictions that draw these cells from
50, 200 and 500 training rows stands that without such rows, with the training median and no category in their place.
Run with ``make benchmark-missing DATA=DIR``, where ``DIR/uci`` has the UCI tables; without data, the tables that
scikit-learn has. Goes on table by table where it was stopped; writes ``docs/results/missing_cells.json`` and fills the
table of ``docs/tables.md``.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import train_test_split

from gumdrop.ensembles import Rows, choose, fit
from gumdrop.likelihoods import Gaussian, RegressionPrediction
from gumdrop.tables import TableModel, load_table_model
from gumdrop.tables.cells import imputer, mark_unknown
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.model_file import save_model
from gumdrop.tables.reading.declared import Reading
from gumdrop.tables.reading.spelling import plain_numbers
from gumdrop.tables.schema.inference import infer_schema, with_statistics
from gumdrop.tables.task import task_of
from gumdrop_experiments.data.uci import read_rows

import performance_page
from timing import RESULTS, write_results

FITS = Path("runs/missing_cells")
SETTINGS = FitSettings()
SPLITS = 3
MOST_ROWS = 2000
HALVES = 10
UNSEEN = "never seen"
BACKGROUNDS = (0, 50, 200, 500)
"""Training rows to draw from; 0 is the stand-in of the median and of no category."""


def uci(name: str) -> Callable[[Path], pd.DataFrame]:
    """A table of the UCI sets, at most `MOST_ROWS` of it."""

    def read(data: Path) -> pd.DataFrame:
        x, y = read_rows(data / "uci" / name)
        frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])]).assign(target=y)
        return frame.sample(min(len(frame), MOST_ROWS), random_state=0, ignore_index=True)

    return read


def diabetes(data: Path) -> pd.DataFrame:
    """The patients of the documentation, with their sex as a word."""
    frame = load_diabetes(as_frame=True, scaled=False).frame
    return frame.assign(sex=frame["sex"].map({1.0: "one", 2.0: "two"}))


def friedman(data: Path) -> pd.DataFrame:
    """Friedman's function of five of ten independent inputs, one of which is known as five words."""
    x, y = make_friedman1(1000, noise=1.0, random_state=0)
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(10)]).assign(target=y)
    return frame.assign(x3=np.array(list("abcde"))[(5 * frame["x3"]).astype(int)])


def with_blanks(read: Callable[[Path], pd.DataFrame]) -> Callable[[Path], pd.DataFrame]:
    """The same table with a fifth of the cells blank at random, in training as in the test."""

    def blanked(data: Path) -> pd.DataFrame:
        frame = read(data)
        blank = np.random.default_rng(0).random(frame.shape) < 0.2
        blank[:, frame.columns.get_loc("target")] = False
        return frame.mask(blank)

    return blanked


TABLES: dict[str, Callable[[Path], pd.DataFrame]] = {
    "diabetes": diabetes,
    "friedman": friedman,
    "boston-housing": uci("boston-housing"),
    "concrete-strength": uci("concrete-strength"),
    "wine-quality-red": uci("wine-quality-red"),
    "kin8nm": uci("kin8nm"),
    "friedman, a fifth blank": with_blanks(friedman),
}


def fitted(place: Path, train: pd.DataFrame, count: int) -> TableModel:
    """The model of some training rows of which so many are kept, fitted unless it is in its place already."""
    if (place / "model.json").is_file():
        return load_table_model(place)
    schema = with_statistics(infer_schema(train, "target", Reading(task="regression")), train)
    encoded, y = schema.encode_inputs(train), torch.from_numpy(schema.encode_target(train))
    x = torch.from_numpy(encoded.x)
    background = x[spread(len(x), count)]
    imputations = imputer(mark_unknown(schema, encoded.x, encoded.unknown, background), background)
    build = partial(task_of(schema.target).network, schema.num_features)
    rows, settings = Rows(x, y, imputations=imputations), SETTINGS.ensemble()
    architecture = choose(build, rows, settings, Gaussian())
    found = fit(build, rows, settings, Gaussian(), architecture=architecture)
    model = TableModel(schema, found.model, architecture.hidden, background=background)
    place.mkdir(parents=True, exist_ok=True)
    save_model(model, place)
    return model


def spread(length: int, count: int) -> np.ndarray:
    """Places of some rows, spread evenly over all."""
    return np.linspace(0, length - 1, min(count, length)).round().astype(int)


def blanked(frame: pd.DataFrame, blank: np.ndarray) -> pd.DataFrame:
    """A table with some cells of its inputs gone: numbers missing, words never seen."""
    inputs = frame.drop(columns="target")
    words = [name for name in inputs if plain_numbers(inputs[name])[1].any()]
    gone = inputs.mask(blank)
    gone[words] = inputs[words].mask(blank[:, [inputs.columns.get_loc(name) for name in words]], UNSEEN)
    return gone.assign(target=frame["target"])


def patterns(test: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The test rows with no, one, half and all cells unknown, several times over."""
    n, k = len(test), test.shape[1] - 1
    eye, rng = np.eye(k, dtype=bool), np.random.default_rng(0)
    halves = [rng.random((n, k)).argsort(axis=1) < k // 2 for _ in range(HALVES)]
    masks = {
        "none": [np.zeros((n, k), bool)],
        "one": [np.tile(row, (n, 1)) for row in eye],
        "half": halves,
        "all": [np.ones((n, k), bool)],
    }
    return {name: pd.concat([blanked(test, mask) for mask in each]) for name, each in masks.items()}


def scored(model: TableModel, frame: pd.DataFrame) -> dict[str, float]:
    """Coverage of the 90 % interval and its width, and standard deviations, in units of the target."""
    encoded = model.schema.encode_inputs(frame)
    prediction = model.predict_encoded(mark_unknown(model.schema, encoded.x, encoded.unknown, model.background))
    assert isinstance(prediction, RegressionPrediction)
    y = torch.from_numpy(frame["target"].to_numpy(copy=True))[:, None]
    lower, upper = prediction.interval(model.coverage)
    found = {
        "coverage": ((lower <= y) & (y <= upper)).float(),
        "width": upper - lower,
        "epistemic_std": prediction.epistemic.sqrt(),
        "aleatoric_std": prediction.aleatoric.sqrt(),
        "log_likelihood": prediction.log_prob(y.to(prediction.mean)),
    }
    return {key: float(value.mean()) for key, value in found.items()}


def part(name: str, data: Path) -> dict[str, Any]:
    """All figures of a table."""
    frame = TABLES[name](data)
    found: list[dict[str, dict[str, dict[str, float]]]] = []
    for seed in range(SPLITS):
        train, test = train_test_split(frame, test_size=0.3, random_state=seed)
        model = fitted(FITS / f"{name}-{seed}", train, max(BACKGROUNDS))
        kept = {b: replace(model, background=model.background[spread(len(model.background), b)]) for b in BACKGROUNDS}
        if train.drop(columns="target").isna().any(axis=None):  # without rows to draw from the noise is another one
            kept[0] = fitted(FITS / f"{name}-{seed}-0", train, 0)
        blanks = patterns(test)
        found.append({str(b): {key: scored(each, blanks[key]) for key in blanks} for b, each in kept.items()})
    figures = {
        b: {
            key: {what: float(np.mean([each[b][key][what] for each in found])) for what in found[0][b][key]}
            for key in found[0][b]
        }
        for b in found[0]
    }
    sizes = {"rows": len(frame), "columns": frame.shape[1] - 1, "train_rows": len(train), "test_rows": len(test)}
    return sizes | {"target_std": float(frame["target"].std()), "background": figures}


def main() -> None:
    """Measure the tables that are not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that holds uci/")
    parser.add_argument("--again", action="store_true", help="measure all tables again, with the fits that are there")
    options = parser.parse_args()
    done = RESULTS / "missing_cells.json"
    results = json.loads(done.read_text())["results"] if done.is_file() and not options.again else {}
    for name in TABLES:
        if name in results or (TABLES[name].__qualname__.startswith("uci") and options.data is None):
            continue
        results[name] = part(name, options.data)
        shape = {"splits": SPLITS, "halves": HALVES, "coverage": SETTINGS.coverage}
        write_results("missing_cells", command="make benchmark-missing", seed=SETTINGS.seed, results=results, **shape)
        for count, found in results[name]["background"].items():
            print(name, count, {pattern: f"{each['coverage']:.3f}" for pattern, each in found.items()}, flush=True)
    performance_page.main()


if __name__ == "__main__":
    main()
