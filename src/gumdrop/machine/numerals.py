"""Numbers as people write them: thousands set apart, and no powers of ten for what has a name."""

import math
import re

MINUS = "\N{MINUS SIGN}"

SMALLEST, LARGEST = 1e-4, 1e15
"""Outside of these a power of ten is easier to read than the zeros."""
NAMED = ((1e12, " tn"), (1e9, " bn"), (1e6, " M"))


def readable(value: float, digits: int = 4) -> str:
    """Return a number with its thousands set apart; what stands before the decimal point is never rounded away.

    Example:
        >>> readable(413386.2), readable(-5.4721), readable(0.00012345, 3)
        ('413,386', '-5.472', '0.000123')
    """
    if not value:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")  # 999.96 has one place fewer than its digits say
    if not SMALLEST <= abs(rounded) < LARGEST:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(rounded))))}f}"


def cell(value: float) -> str:
    """Return a number of a table: at most four digits, and none that say nothing; years stay in one piece.

    Example:
        >>> cell(59.0), cell(2015), cell(413386.24)
        ('59', '2015', '413,386')
    """
    text = readable(value)
    if "." in text and "e" not in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace(",", "") if abs(value) < 1e4 else text


def shortened(values: list[float]) -> list[str]:
    """Return labels of an axis: in millions or more where there are such, with as few digits as tell them apart.

    Example:
        >>> shortened([0.0, 500_000.0, 1_000_000.0]), shortened([2500.0, 5000.0])
        (['0', '0.5 M', '1.0 M'], ['2,500', '5,000'])
    """
    largest = max((abs(value) for value in values), default=0.0)
    if not SMALLEST <= largest < LARGEST:
        return [f"{value:.3g}" for value in values]
    scale, name = next((each for each in NAMED if largest >= each[0]), (1.0, ""))
    if max(values) - min(values) < scale / 100:  # such as times: the digits that tell them apart are the last ones
        scale, name = 1.0, ""
    near = 0.01 * (max(values) - min(values)) / scale / max(len(values) - 1, 1)
    for places in range(13):
        texts = [f"{value / scale:,.{places}f}" for value in values]
        if all(abs(float(t.replace(",", "")) - v / scale) <= near for t, v in zip(texts, values, strict=True)):
            break
    return [text + name if value else "0" for text, value in zip(texts, values, strict=True)]


def with_minus(text: str) -> str:
    """Return a text whose negative numbers have a minus sign; hyphens in words, dates, ranges and flags stay.

    Example:
        >>> with_minus("-0.5 to -2e-05, on 2019-01-05, p-value, --seed")
        '−0.5 to −2e−05, on 2019-01-05, p-value, --seed'
    """
    return re.sub(r"(?<![\w.-])-(?=\.?\d)|(?<=\de)-(?=\d)", MINUS, text)
