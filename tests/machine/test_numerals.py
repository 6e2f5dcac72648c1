"""Numbers as people write them."""

import pytest

from gumdrop.machine.numerals import cell, readable, shortened, with_minus


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (413386.2, "413,386"), (-5.4721, "-5.472"), (999.96, "1,000"), (99.996, "100.0"), (0.1, "0.1000"),
     (1e9, "1,000,000,000"), (1.5e15, "1.500e+15"), (2e-5, "2.000e-05"), (float("nan"), "nan")],
)  # fmt: skip
def test_readable(value: float, text: str) -> None:
    assert readable(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(59.0, "59"), (2015, "2015"), (-9999, "-9999"), (75000, "75,000"), (0.30000000000000004, "0.3"), (100, "100"),
     (413386.25, "413,386"), (1e-7, "1.000e-07")],
)  # fmt: skip
def test_cell(value: float, text: str) -> None:
    assert cell(value) == text


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.0, 200_000.0, 400_000.0], ["0", "200,000", "400,000"]),
        ([0.0, 2.5e6, 5e6], ["0", "2.5 M", "5.0 M"]),
        ([1.6e9, 1.6e9 + 20, 1.6e9 + 40], ["1,600,000,000", "1,600,000,020", "1,600,000,040"]),
        ([1.6e9, 1.6e9 + 2e4], ["1,600,000,000", "1,600,020,000"]),
        ([7e6], ["7,000,000"]),
        ([-0.5, 0.0, 0.5], ["-0.5", "0", "0.5"]),
        ([0.0, 1e-5, 2e-5], ["0", "1e-05", "2e-05"]),
        ([], []),
    ],
)
def test_labels_of_an_axis(values: list[float], texts: list[str]) -> None:
    assert shortened(values) == texts


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("-5.4", "−5.4"),
        ("(-.5 to -2e-05)", "(−.5 to −2e−05)"),
        ("← -0.25", "← −0.25"),
        ("2019-01-05, 1-2, p-3, x-y, --seed", "2019-01-05, 1-2, p-3, x-y, --seed"),
    ],
)
def test_negative_numbers_have_a_minus_sign_and_words_their_hyphens(text: str, written: str) -> None:
    assert with_minus(text) == written
