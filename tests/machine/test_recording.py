"""Steps that numbers are recorded in: found where they are beyond doubt, and never in what was measured."""

import numpy as np
import pytest

from gumdrop.machine.recording import Steps, atoms_of, stays_positive, steps_of

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (RNG.choice([3.0, 4, 5, 6, 7, 8], 200), Steps(1.0, 3.0, 8.0)),
        (np.round(RNG.uniform(0, 5, 400) * 2) / 2, Steps(0.5, 0.0, 5.0)),
        (np.r_[RNG.integers(0, 51, 400) * 20, 0, 1000], Steps(20.0, 0.0, 1000.0)),
        (RNG.choice([1.25, 2.25, 5.25], 60), Steps(1.0, 1.25, 5.25)),
        (RNG.choice([10.0, 25, 40, 70], 60), Steps(15.0, 10.0, 70.0)),
        (np.repeat([5.0, 7.0, 12.0], 9), Steps(1.0, 5.0, 12.0)),  # of the distances 2 and 5
        (np.repeat([-2.0, 4.0], 9), Steps(6.0, -2.0, 4.0)),
    ],
)
def test_levels_in_equal_distances(values, expected: Steps) -> None:
    found = steps_of(np.asarray(values, dtype=np.float64))
    np.testing.assert_allclose([found.size, found.first, found.last], [expected.size, expected.first, expected.last])


@pytest.mark.parametrize(("dtype", "start"), [(np.float32, 0.0), (np.float32, -7.7), (np.float64, 1e3)])
def test_tenths_have_rounding_errors(dtype: type, start: float) -> None:
    found = steps_of((start + np.arange(300) % 40 / 10).astype(dtype))
    assert found.count == 40
    np.testing.assert_allclose(found.levels, start + np.arange(40) / 10, rtol=1e-6, atol=1e-6)


def test_a_value_off_the_steps_among_many_changes_nothing() -> None:
    values = np.repeat(np.arange(30.0), 10)
    assert steps_of(np.r_[values, 4.37]) == Steps(1.0, 0.0, 29.0)
    assert steps_of(np.r_[values, np.arange(20) + 0.37]) is None


@pytest.mark.parametrize(
    "values",
    [
        RNG.normal(size=500),
        np.round(RNG.normal(size=500), 4),
        RNG.choice(RNG.normal(size=30), 900),  # copies of rows are no levels
        RNG.choice(RNG.normal(size=3), 900),
        np.r_[np.zeros(9900), RNG.exponential(size=98), 3.2, 3.2],  # most claims are 0
        np.minimum(RNG.normal(size=500), -1.0),  # a limit of the instrument
        np.arange(500.0),  # a number for each row
        np.full(50, 3.0),
    ],
)
def test_what_was_measured_has_none(values) -> None:
    assert steps_of(values) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (RNG.exponential(size=50), True),
        (RNG.poisson(1.0, 100), True),
        (np.exp(RNG.normal(12, 0.4, 200)), True),  # prices: far from 0, and skewed
        (RNG.normal(4, 1, 500).clip(0.5), False),  # none below 0 is chance
        (RNG.normal(1.5, 1, 20).clip(0.1), False),
        (RNG.normal(1.5, 1, 400).clip(0.0), True),
        (RNG.normal(124, 7, 1500), False),
        (np.r_[RNG.exponential(size=5000), -0.1], False),
        (np.exp(RNG.normal(0, 1, 100)) + 1e9, False),
        (np.full(9, 2.0), False),
    ],
)
def test_numbers_that_end_at_0(values, expected: bool) -> None:
    assert stays_positive(np.asarray(values, dtype=np.float64)) is expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.r_[np.zeros(90), RNG.exponential(300, 310)], (0.0,)),
        (np.r_[np.full(25, 100.0), RNG.uniform(20, 99, 300)], (100.0,)),
        (np.r_[np.zeros(60), np.full(40, 50.0), RNG.uniform(0, 50, 200)], (0.0, 50.0)),
        (np.r_[np.zeros(9), RNG.exponential(300, 100)], ()),  # few rows
        (np.r_[np.zeros(16), RNG.exponential(300, 484)], ()),  # a small share
        (RNG.poisson(0.7, 500), ()),  # levels
        (RNG.choice([3.0, 4, 5, 5, 5, 5, 6, 6, 6, 7], 800), ()),
        (np.r_[np.zeros(300), RNG.uniform(0, 1, 25)], ()),  # hardly anything beside
        (RNG.normal(size=400), ()),
    ],
)
def test_values_that_many_rows_share(values, expected) -> None:
    assert atoms_of(np.asarray(values, dtype=np.float64)) == expected
