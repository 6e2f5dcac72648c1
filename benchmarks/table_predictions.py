"""Predictions of a table model: one row at a time, and many, beside the matrix products that they are made of.

Run with ``make benchmark-rows``; writes ``docs/results/speed_table_predictions.json``. What one row costs is compared
with asking the members one by one; what many rows cost, with the batched products of the layers alone.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import torch

from gumdrop.ensembles import RegressionEnsemble
from gumdrop.ensembles.models import DrawnFunctions
from gumdrop.ensembles.noise import NoiseFunction
from gumdrop.networks import mlp
from gumdrop.tables.model import TableModel
from gumdrop.tables.schema.inference import infer_schema

from timing import interleaved, summary, write_results

SEED, MEMBERS, HIDDEN, COLUMNS, DRAWS = 0, 10, (64, 64), 8, 100
MANY = 2000


class OneByOne(RegressionEnsemble):
    """An ensemble whose members are asked one after the other."""

    def functions(self, num_samples: int, seed: int | None) -> DrawnFunctions | None:
        """Draw nothing ahead."""
        return None


def table_model(kind: type[RegressionEnsemble], frame: pd.DataFrame) -> TableModel:
    """A model of the default size whose networks are as they begin: their predictions take as long as learned ones."""
    torch.manual_seed(SEED)
    make = partial(mlp, COLUMNS, 1, hidden=HIDDEN, activation="silu", homoscedastic_noise=True)
    ensemble = kind([make() for _ in range(MEMBERS)], NoiseFunction(COLUMNS, 1))
    ensemble.noise.tail.fill_(0.3)
    return TableModel(infer_schema(frame, "y"), ensemble.eval(), HIDDEN, num_samples=DRAWS)


def products(functions: DrawnFunctions, num_rows: int, rows_at_once: int) -> Callable[[], None]:
    """The batched products of all layers alone, for as many rows at a time as a prediction takes."""
    count = functions.factors[0].shape[0]
    share = functions.factors[0].shape[1]
    parts = functions.dense
    inputs = [torch.randn(count, share * rows_at_once, weight.shape[2]) for weight in parts.weights]

    def run() -> None:
        for _ in range(-(-num_rows // rows_at_once)):
            for x, weight, bias in zip(inputs, parts.weights, parts.biases, strict=True):
                torch.baddbmm(bias.unsqueeze(1), x, weight.mT)

    return run


def main(rounds: int) -> None:
    """Time both."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    frame = pd.DataFrame(rng.standard_normal((MANY, COLUMNS)), columns=[f"x{i}" for i in range(COLUMNS)])
    frame["y"] = frame.sum(axis=1) + 5 * rng.standard_normal(MANY)
    model, twin = table_model(RegressionEnsemble, frame), table_model(OneByOne, frame)
    x = torch.from_numpy(model.schema.encode_inputs(frame).x)
    one, row = x[:1], frame.iloc[[0]]
    functions = model.ensemble.functions(DRAWS, model.seed)
    assert functions is not None
    at_once = len(next(functions.outputs(x))[0])
    few = {
        "encoded, members one by one": partial(twin.predict_encoded, one),
        "encoded": partial(model.predict_encoded, one),
        "data frame": partial(model.predict, row),
    }
    many = {
        "products": products(functions, MANY, at_once),
        "draws": lambda: list(functions.outputs(x)),
        "encoded": partial(model.predict_encoded, x),
        "encoded, members one by one": partial(twin.predict_encoded, x),
        "data frame": partial(model.predict, frame),
    }
    write_results(
        "speed_table_predictions",
        command=f"benchmarks/table_predictions.py --rounds {rounds}",
        seed=SEED,
        results={
            "one row": summary(interleaved(few, rounds=rounds), "encoded, members one by one"),
            f"{MANY} rows": summary(interleaved(many, rounds=rounds), "products"),
        },
        members=MEMBERS,
        hidden=list(HIDDEN),
        columns=COLUMNS,
        draws=DRAWS,
        rounds=rounds,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    main(parser.parse_args().rounds)
