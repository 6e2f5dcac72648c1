"""Tables to fit, and choices that fit them quickly."""

import dataclasses

import numpy as np
import pandas as pd

from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.reading.declared import Reading

NO_GRADE, NO_PRICE = Reading(drop=("grade",)), Reading(drop=("price",))
QUICK = FitSettings(hidden=(12,), num_members=3, epochs=4, num_samples=12, strength=1.0)
ALONE = dataclasses.replace(QUICK, compare=False)
ONE = ["--members", "1", "--epochs", "2", "--hidden", "4", "--draws", "5", "--no-compare", "--quiet"]
"""Flags of `gumdrop fit` for one small network."""


def write_table(path, num_rows: int = 120, seed: int = 0):
    rng = np.random.default_rng(seed)
    size, colour = rng.normal(50, 9, num_rows), rng.choice(["red", "green", "blue"], num_rows)
    price = 3 * size + 20 * (colour == "red") + rng.normal(0, 5, num_rows)
    frame = pd.DataFrame(
        {"size": size, "colour": colour, "price": price, "grade": np.where(price > 155, "good", "bad")}
    )
    frame.loc[5, "size"] = np.nan
    frame.to_csv(path, index=False)
    return path
