"""A column that never varied in training has no effect on predictions, whatever it holds later."""

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop.export.table_encoding import TableEncoder
from gumdrop.tables import fit_table
from gumdrop.tables.fitting.settings import FitSettings
from gumdrop.tables.prediction import predict_frame
from gumdrop.tables.reading.table import read_table
from gumdrop.tables.schema.columns import MeasuredColumn
from gumdrop.tables.schema.inference import infer_schema
from gumdrop.tables.schema.schema import TableSchema

FLAT = {
    "exported": ("2024-01-05", "2025-08-01"),
    "version": (3, -1e20),
    "share": (0.1, 0.2),
    "site": ("north", "south"),
    "round": ([0.3, 0.1 + 0.2], 0.5),
    "flag": ([1.0, None], 7.0),
}
"""What columns hold in training, and later."""


def flat(later: bool, num_rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    cells = {name: pair[later] for name, pair in FLAT.items()}
    columns = {name: cell * (num_rows // 2) if isinstance(cell, list) else cell for name, cell in cells.items()}
    x = rng.normal(size=num_rows)
    return pd.DataFrame({"x": x, **columns, "y": x + rng.normal(size=num_rows)})


@pytest.fixture(scope="module")
def model():
    return fit_table(flat(False), "y", settings=FitSettings(hidden=(8,), num_members=1, epochs=2, num_samples=9))


def test_predictions_stay_whatever_a_flat_column_holds(model) -> None:
    before, after = (model.predict(flat(later)) for later in (False, True))
    pd.testing.assert_frame_equal(before.drop(columns="missing_cells"), after.drop(columns="missing_cells"))
    blank = flat(False).assign(**dict.fromkeys(FLAT))
    np.testing.assert_array_equal(model.predict(blank)["prediction"], before["prediction"])


def test_a_flat_column_that_changed_is_noted_and_nothing_else_is_said_of_it(model) -> None:
    assert predict_frame(model, read_table(flat(False), **model.reading).frame).evaluation is not None
    found = predict_frame(model, read_table(flat(True), **model.reading).frame)
    assert "'exported' was 2024-01-05 in all rows of training and is another in 60 rows: that has no effect on " \
           "predictions" in found.notes  # fmt: skip
    assert "'site' was 'north' in all rows of training and is another in 60 rows: that has no effect on predictions" \
           in found.notes  # fmt: skip
    assert (len(found.notes), found.outside, found.unseen) == (6, {}, {}), found.notes
    assert found.drift is not None
    assert found.drift.columns == []
    assert not any("was" in note for note in predict_frame(model, read_table(flat(False), **model.reading).frame).notes)
    blank = predict_frame(model, read_table(flat(False).assign(site=None), **model.reading).frame)
    assert "60 missing values in 'site' were of no effect, as training had one value" in blank.notes


def test_a_graph_encodes_flat_columns_as_the_schema_does() -> None:
    schema = infer_schema(flat(False).drop(columns="site"), "y")
    months = MeasuredColumn(name="month", kind="cycle", cycle="month", mean=3.0, median=3.0, least=3.0, most=3.0)
    schema = TableSchema((*schema.columns, months), schema.target)
    columns = {column.name: column for column in schema.columns}
    for later in (False, True):
        frame = flat(later).assign(month=["March", "June"] * 30)
        raw = np.stack([column.axis.read(frame[name]) for name, column in columns.items()], axis=1)
        found = TableEncoder(schema)(torch.from_numpy(raw)).numpy()
        np.testing.assert_array_equal(found, schema.encode_inputs(frame).x)
        np.testing.assert_allclose(found[:, -3:], [[0, 1, 0]] * 60, atol=1e-7)
