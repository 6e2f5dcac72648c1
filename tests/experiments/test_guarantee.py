"""`gumdrop reproduce guarantee` on made-up tables and streams, and the counts that it draws from them."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from test_rivals import write_tables

from gumdrop.tables.fitting.settings import FitSettings
from gumdrop_experiments.guarantee import study, ways
from gumdrop_experiments.guarantee.ways import COVERAGES, column_of
from gumdrop_experiments.tables.tasks import Task

from builders.reproduced import reproduced
from builders.uci import write_set


@pytest.mark.slow
def test_every_way_has_intervals_of_every_table_and_levels_follow_streams(tmp_path, constants) -> None:
    constants(ways, RIVALS={"trees, CV+ of MAPIE": ways.RIVALS["trees, CV+ of MAPIE"]})
    constants(ways, FitSettings=partial(FitSettings, num_members=3))
    data = tmp_path / "data"
    write_set(data / "uci" / "boston-housing")
    write_tables(data / "tables", rows=300)
    found = reproduced("guarantee", tmp_path / "out", "--quick", "--sets", "boston-housing", data=data)
    (table,) = found["tables"].values()
    assert table["splits"] == 2
    assert {ways.PLAIN, ways.CONFORMAL, ways.BY} <= set(table["ways"])
    for way in table["ways"].values():
        assert len(way["coverage"]) == len(COVERAGES)
        assert way["width"][0] > 0
        assert way["interval score"][0] > 0
    assert len(found["streams"]) == 3
    for stream in found["streams"].values():
        assert np.array(stream["ways"]["levels that follow"]).shape == (len(COVERAGES), 2)


def test_scores_are_those_of_their_formulas() -> None:
    """Two rows: one in the middle of its interval of width 2, one that is 3 above it; in units of 2."""
    ends = np.broadcast_to(np.array([-1.0, 1.0]), (len(COVERAGES), 2, 2))
    scores = study._scores(ends, np.array([0.0, 4.0]), np.array([0, 3]), unit=2.0)
    assert scores["coverage"] == [0.5] * 4
    assert scores["width"] == 1
    assert scores["interval score"] == pytest.approx((2 + (2 + 20 * 3)) / 2 / 2)
    assert scores["held in quarters"] == [1, 0, 0, 0]


def test_the_column_that_makes_groups_is_the_one_that_goes_with_the_target() -> None:
    x = np.random.default_rng(0).normal(size=(50, 3))
    assert column_of(Task(x, -np.exp(x[:, 2]), x, x[:, 2])) == 2
    x, y = ways.SETS["wide-noisy"](Path())
    assert x.shape == (300, 20)
    assert y.shape == (300,)
