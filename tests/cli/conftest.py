"""Two folders of `gumdrop fit` that the tests of the commands share, and rows with odd cells."""

import numpy as np
import pandas as pd
import pytest

from gumdrop.cli import main

from builders.tables import write_table

QUICK = ["--epochs", "2", "--members", "2", "--hidden", "6", "--draws", "6", "--quiet"]


@pytest.fixture(scope="session")
def quick():
    """Flags of a fit that takes a moment."""
    return QUICK


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("commands")
    frame = pd.read_csv(write_table(place / "houses.csv"))
    frame.insert(0, "id", [f"H{i:03}" for i in range(len(frame))])
    frame.insert(1, "sold", pd.date_range("2019-01-05", periods=len(frame), freq="9D").strftime("%d.%m.%Y"))
    frame.to_csv(place / "houses.csv", index=False)
    words = ["fit", "--target", "price", "--drop", "grade", "id", "--unit", "thousand euro", *QUICK]
    assert main([*words, "--table", str(place / "houses.csv"), "--out", str(place / "run")]) == 0
    assert main(["fit", str(place / "houses.csv"), "--target", "grade", "--drop", "price", "id", "--out",
                 str(place / "classes"), *QUICK]) == 0  # fmt: skip
    return place


@pytest.fixture(autouse=True)
def _undrawn(undrawn) -> None:
    """The pages of `place` are drawn: it was made before."""


@pytest.fixture
def odd_rows(place):
    frame = pd.read_csv(place / "houses.csv").head(4).assign(colour=["red", "violet", "Red", None])
    frame.loc[2, "size"] = 1e4
    frame.loc[1, "size"] = np.nan
    frame.drop(columns="price").to_csv(place / "odd.csv", index=False)
    return place / "odd.csv"
