"""Explanations of wide tables: the columns that lead, and all others as one."""

import numpy as np
import pandas as pd
import pytest
import torch

from gumdrop.machine.numerals import readable
from gumdrop.tables import FitSettings, fit_table
from gumdrop.tables.explanation import column_groups, explain_rows, explain_table, leading_columns

SETTINGS = FitSettings(hidden=(8,), num_members=2, epochs=40, num_samples=4, num_background=20, compare=False)


@pytest.fixture(scope="module")
def wide() -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": random.normal(size=100) for i in range(62)})
    frame.insert(30, "word", random.choice(["a", "b", "c"], 100))
    return frame.assign(
        number=5 * frame["x40"] + 4 * (frame["word"] == "b"), kind=np.where(frame["x7"] > 0, "up", "down")
    )


@pytest.fixture(scope="module")
def models(wide) -> dict[str, object]:
    goals = {"number": "kind", "kind": "number"}
    return {goal: fit_table(wide.drop(columns=other), goal, settings=SETTINGS) for goal, other in goals.items()}


def test_columns_that_matter_are_found(wide, models) -> None:
    for model in models.values():
        rows = torch.from_numpy(model.schema.encode_inputs(wide.head(4)).x)
        found = leading_columns(model, rows, model.background, 20)
        assert found == sorted(set(found))
        sizes = np.abs(explain_rows(model, rows, orders=20).prediction.share)
        assert len(set(sizes.argmax(1)) - set(found)) <= 1  # sensitivity is of first order
        assert sizes[:, found].sum() > 1.5 * 20 / 63 * sizes.sum()
        rows[:, model.schema.groups[found[0]]] = torch.nan  # as usual, so without sensitivity
        assert found[0] not in leading_columns(model, rows, model.background, 20)


def test_all_encoded_columns_are_in_one_group(models) -> None:
    model = models["number"]
    groups = column_groups(model, [2, 30])
    assert [len(each) for each in groups] == [1, 3, 61]
    assert sorted(np.concatenate(groups)) == list(range(model.schema.num_features))
    assert len(column_groups(model, range(63))) == len(column_groups(model, None)) == 63


def test_a_wide_table_is_explained_by_its_leading_columns(wide, models, tmp_path) -> None:
    model, said = models["number"], []
    wide.head(2).to_csv(tmp_path / "new.csv", index=False)
    found = explain_table(model, tmp_path / "new.csv", notify=said.append)
    assert (len(found.columns), found.orders, found.columns[-1]) == (41, 25, "23 other columns")
    assert any(note.startswith("of 63 columns the 40 that predictions are most sensitive to") for note in said)
    errors = max(max(row.explained.errors) for row in found.rows)
    assert f"by 25 orders the standard error of a share is at most {readable(errors, 2)}," in said[-1]
    assert found.notes == said
    for row in found.rows:
        assert len(row.values) == len(row.explained.shares) == len(row.epistemic.errors) == 41
        assert sum(row.explained.shares) == pytest.approx(row.explained.value - row.explained.usual, abs=1e-3)
        assert row.values[-1] == "–"
    x = torch.from_numpy(model.schema.encode_inputs(wide.head(1)).x)
    whole = explain_rows(model, x, orders=25)
    for name in ("x40", "word"):
        k, among = model.schema.names.index(name), found.columns.index(name)
        error = np.hypot(whole.prediction.error[0, k], found.rows[0].explained.errors[among])
        assert abs(whole.prediction.share[0, k] - found.rows[0].explained.shares[among]) < 5 * error + 1e-3
    assert len(found.overall.explained) == 41
    assert found.overall.rows == 9
