"""Rows as the estimators see them: each once, sorted, standardised, never copied."""

import numpy as np
import pytest
import torch

from gumdrop.estimators.rows import StandardisedRows, chunks, distinct, moments


def tables(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables with few and with many rows that are equal, whole or in some columns."""
    random = np.random.default_rng(seed)
    kinds = [random.integers(0, 2, 60), random.integers(0, 30, 60), random.normal(size=60), np.full(60, -0.0)]
    x = np.column_stack([kinds[i] for i in random.integers(0, 4, 4)]).astype(float)
    return x, random.integers(0, 3, (60, 2)).astype(float), random.integers(0, 3, 60).astype(float)


@pytest.mark.parametrize("seed", range(6))
def test_equal_rows_count_once_with_the_sum_of_their_weights(seed) -> None:
    x, y, weights = tables(seed)
    rows = distinct(x, y, weights)
    found = {tuple(x[i]) + tuple(y[i]): weight for i, weight in zip(rows.indices, rows.weights, strict=True)}
    expected: dict[tuple[float, ...], float] = {}
    for i in np.flatnonzero(weights):
        key = tuple(x[i]) + tuple(y[i])
        expected[key] = expected.get(key, 0) + weights[i]
    assert found == expected
    assert len(found) == len(rows.indices)


def test_all_rows_of_weight_one_need_no_room_for_their_weights() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    rows = distinct(x, x[:, :1], np.ones(50))
    assert rows.weights.strides == (0,)
    assert rows.indices.dtype == np.int32
    assert rows.x is x


def test_rows_are_standardised_when_they_are_asked_for(monkeypatch) -> None:
    monkeypatch.setattr("gumdrop.estimators.rows.ROWS_AT_ONCE", 7)
    x = np.random.default_rng(0).normal(1e6, 3, (40, 3))  # float32 alone would lose the digits that matter
    places, weights = np.arange(3, 33), np.random.default_rng(1).uniform(1, 2, 30)
    center, scale = moments(x, places, weights)
    np.testing.assert_allclose(center, np.average(x[places], axis=0, weights=weights))
    np.testing.assert_allclose(scale, np.sqrt(np.average((x[places] - center) ** 2, axis=0, weights=weights)))
    rows = StandardisedRows(x, places, center, scale)
    some = torch.tensor([[0, 5], [29, 5]], dtype=torch.int32)
    assert rows[some].dtype == torch.float32
    np.testing.assert_allclose(rows[some].numpy(), (x[places[some.numpy()]] - center) / scale, atol=1e-6)
    assert [len(range(*part.indices(40))) for part in chunks(40)] == [7, 7, 7, 7, 7, 5]
