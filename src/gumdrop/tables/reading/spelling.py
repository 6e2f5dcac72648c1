"""Cells as people spell them: what is missing, and numbers with decimal commas, thousands marks, currencies, units."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from gumdrop.tables.errors import MISSING
from gumdrop.tables.plain import SPARSE

MISSING_SPELLINGS = ["?", "-", ".", "na", "Na", "N.A.", "n.a.", "NONE", "none"]
"""What counts as missing, beside the spellings of pandas."""
PANDAS_SPELLINGS = "NA NaN nan N/A n/a NULL null None <NA> -NaN -nan #N/A #NA #N/A|N/A 1.#IND 1.#QNAN -1.#IND -1.#QNAN"
"""What pandas takes for missing in a CSV file, and in no other format."""

_MISSING = {MISSING, *MISSING_SPELLINGS, *(each.replace("|", " ") for each in PANDAS_SPELLINGS.split())}


_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def exact_number(text: str) -> Fraction | None:
    """Return the number that a text spells as programs do, exactly; None if it spells none.

    Example:
        >>> exact_number("1E3") == exact_number("01000") == exact_number("1000.0"), exact_number("A1")
        (True, None)
    """
    return Fraction(text) if _PLAIN.fullmatch(text) else None


def words_for_missing(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Return the words that `tidy` takes for missing, by column of texts.

    Example:
        >>> words_for_missing(pd.DataFrame({"colour": ["red", "n/a", "", "n/a", " - "], "size": range(5)}))
        {'colour': ['n/a', '-']}
    """
    found = {}
    for name in frame.select_dtypes(["object", "string"]):
        distinct = [cell.strip() for cell in frame[name].dropna().unique() if isinstance(cell, str)]
        found[str(name)] = [*dict.fromkeys(word for word in distinct if word in _MISSING - {MISSING})]
    return {name: words for name, words in found.items() if words}


def tidy(frame: pd.DataFrame, labels: Collection[str] = ()) -> pd.DataFrame:
    """Take blanks from around texts, and those that say that they are missing for missing, of labels blank ones."""
    for name in [name for name, dtype in zip(frame.columns, frame.dtypes, strict=True) if dtype.kind == "O"]:
        if frame[name].dtype == object or pd.api.types.is_string_dtype(frame[name]):
            if all(isinstance(value, str) for value in frame[name].dropna().unique()):
                text = frame[name].str.strip()
                frame[name] = text.mask(text.isin({MISSING} if name in labels else _MISSING))
    return frame


Decimal = Literal[".", ","]

CURRENCIES = "$€£¥₩₹₽₺₪₫₴₦₱฿₡₲₵₸"
_CURRENCY = rf"[A-Z]{{0,2}}[{CURRENCIES}]"
_CODE = (  # of ISO 4217: any three letters before a number could be an article
    "AED|ARS|AUD|BGN|BRL|CAD|CHF|CLP|CNY|COP|CZK|DKK|EGP|EUR|GBP|HKD|HUF|IDR|ILS|INR|ISK|JPY|KRW|MXN|MYR|NGN|NOK|NZD|"
    "PEN|PHP|PKR|PLN|RON|RSD|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR"
)
_UNIT = r"[A-Za-zµ°²³/]{1,8}"
_NUMBER = re.compile(
    rf"([+\u2212-]?)\s*({_CURRENCY}|%|{_CODE}|)\s*([+\u2212-]?)"
    rf"([\d.,' \u00a0\u202f\u2019]*\d[.,]?(?:[eE][+-]?\d+)?)\s*({_CURRENCY}|%|{_UNIT}|)"
)
_BOOKED = re.compile(rf"({_CURRENCY}|{_CODE}|)\s*\(([^()]+)\)\s*({_CURRENCY}|%|{_UNIT}|)")
_SPACES = r"' \u00a0\u202f\u2019"
_POINT = re.compile(rf"[1-9]\d{{0,2}}(?:[,{_SPACES}]\d{{3}})+(?:\.\d+)?|\d*\.?\d+(?:[eE][+-]?\d+)?|\d+\.")
_COMMA = re.compile(rf"[1-9]\d{{0,2}}(?:[.{_SPACES}]\d{{3}})+(?:,\d+)?|\d*,?\d+(?:[eE][+-]?\d+)?|\d+,")
_AROUND = re.compile(r"(\D*?)[\s(+-]*\d(?:[\d.,' ]*\d)?[\s)]*(\D*)")


@dataclass(frozen=True)
class Mark:
    """How a column of numbers is written; tables that come later must write it so, as a cell alone does not tell."""

    decimal: Decimal | None = field(default=None, metadata=SPARSE)
    """The decimal mark; None where no cell tells it."""
    unit: str = ""
    """The currency, per cent sign or unit of all cells, or of some where others have none."""


class Spelling(NamedTuple):
    """How the texts of a column may be read as numbers."""

    decimals: frozenset[Decimal]
    """The decimal marks under which every text is a number; two if both readings agree or none can be told wrong."""
    same: bool
    """Whether both readings give the same numbers."""
    unit: str
    """That of `Mark`."""


class _Amount(NamedTuple):
    """A number in a text."""

    body: str
    """Its digits and marks, without a sign."""
    unit: str
    """What stands before or after it."""
    negative: bool
    """Whether it is below 0: with a minus sign, or in parentheses as in accounting."""


def _amount(text: str) -> _Amount | None:
    """Take a text apart; None if it is no number."""
    text = text.strip()
    booked = _BOOKED.fullmatch(text)
    match = _NUMBER.fullmatch("".join(booked.groups()) if booked else text)
    if match is None:
        return None
    first, before, second, body, after = match.groups()
    signs = [sign for sign in (first, second, "-" if booked else "") if sign]
    return None if len(signs) > 1 else _Amount(body, before + after, signs in (["-"], ["\u2212"]))


def is_booked(text: str) -> bool:
    """Return whether a text is a negative number in parentheses, as accounting writes it.

    Example:
        >>> is_booked("(13.21)"), is_booked("$ (1,300)"), is_booked("(a)"), is_booked("-13.21")
        (True, True, False, False)
    """
    return _BOOKED.fullmatch(text.strip()) is not None and _amount(text) is not None


def spelling_of(texts: Iterable[str]) -> Spelling | None:
    """Return how distinct texts are numbers with marks that a program does not expect; None if they are not.

    Example:
        >>> spelling_of(["€ 1.234,50", "€ 7"])
        Spelling(decimals=frozenset({','}), same=False, unit='€')
        >>> sorted(spelling_of(["1,234", "2,500"]).decimals), spelling_of(["1,234"]).same
        ([',', '.'], False)
        >>> spelling_of(["USD 5", "7 USD", "USD (1.50)"]).unit
        'USD'
        >>> spelling_of(["$5", "€5"]) is spelling_of(["5 kg", "5 lb"]) is spelling_of(["5 kg", "5"]) is None
        True
    """
    amounts = []
    for text in texts:  # most columns of text are told by their first cell
        amount = _amount(text)
        if amount is None:
            return None
        amounts.append(amount)
    if not amounts:
        return None
    units = {amount.unit for amount in amounts}
    if len(units - {""}) > 1 or ("" in units and not all(unit[-1] in CURRENCIES for unit in units - {""})):
        return None  # some have a unit, and others none or another
    bodies = [amount.body for amount in amounts]
    readings: tuple[tuple[Decimal, re.Pattern[str]], ...] = ((".", _POINT), (",", _COMMA))
    fits = frozenset(decimal for decimal, pattern in readings if all(map(pattern.fullmatch, bodies)))
    if not fits:
        return None
    same = len(fits) == 2 and all(_value(body, ".") == _value(body, ",") for body in bodies)
    return Spelling(fits, same, max(units))


def spelled_numbers(column: pd.Series, decimal: Decimal) -> pd.Series:
    """Read a column of texts that `spelling_of` accepted; per cent stay per cent, and other units are left out."""
    codes, distinct = pd.factorize(column)
    values = np.array([_parse(str(text), decimal) for text in distinct] + [np.nan])
    return pd.Series(values[codes], index=column.index, name=column.name)


def _parse(text: str, decimal: Decimal) -> float:
    amount = _amount(text)
    assert amount is not None
    value = _value(amount.body, decimal)
    return -value if amount.negative else value


def _value(body: str, decimal: Decimal) -> float:
    thousands = "," if decimal == "." else "."
    return float(re.sub(rf"[{thousands}{_SPACES}]", "", body).replace(decimal, "."))


def words_around(texts: Iterable[str]) -> list[str]:
    """Return the words that stand before and after the one number of each text; none if they differ.

    Example:
        >>> words_around(["approx 5 pieces", "approx 1,200 pieces"]), words_around(["A5", "A7"])
        (['approx', 'pieces'], [])
    """
    found: set[tuple[str, ...]] = set()
    for text in texts:
        match = _AROUND.fullmatch(text.strip())
        if match is None or len(found) > 1:
            return []
        found.add(match.groups())
    words = [word for around in found for word in around if word]
    return words if len(found) == 1 and sum(map(str.isalpha, "".join(words))) > 1 else []  # A5 is a name


def are_words(labels: Iterable[str]) -> bool:
    """Whether a column with these labels was read as it is spelled, since some other cell was no number."""
    return bool(plain_numbers(pd.Series([*filter(None, labels)], dtype=object))[1].any())


def plain_numbers(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Read a column of numbers, or of texts that are numbers as programs write them."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        spelled = column.astype(object).map(str, na_action="ignore")
        values = pd.to_numeric(spelled, errors="coerce").to_numpy(dtype=np.float64, copy=True)
        return values, np.isnan(values) & column.notna().to_numpy()
    values = column.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    return values, np.zeros(len(values), dtype=bool)
