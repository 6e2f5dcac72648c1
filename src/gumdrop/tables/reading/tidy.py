"""Texts of a table without blanks around them, and what counts as missing in all formats."""

import pandas as pd

from gumdrop.tables.errors import MISSING

MISSING_SPELLINGS = ["?", "-", ".", "na", "Na", "N.A.", "n.a.", "NONE", "none"]
"""What counts as missing, beside the spellings of pandas."""
PANDAS_SPELLINGS = "NA NaN nan N/A n/a NULL null None <NA> -NaN -nan #N/A #NA #N/A|N/A 1.#IND 1.#QNAN -1.#IND -1.#QNAN"
"""What pandas takes for missing in a CSV file, and in no other format."""

_MISSING = {MISSING, *MISSING_SPELLINGS, *(each.replace("|", " ") for each in PANDAS_SPELLINGS.split())}


def tidy(frame: pd.DataFrame) -> pd.DataFrame:
    """Take blanks from around texts, and those that say that they are missing for missing."""
    for name in [name for name, dtype in zip(frame.columns, frame.dtypes, strict=True) if dtype.kind == "O"]:
        if frame[name].dtype == object or pd.api.types.is_string_dtype(frame[name]):
            if all(isinstance(value, str) for value in frame[name].dropna().unique()):
                text = frame[name].str.strip()
                frame[name] = text.mask(text.isin(_MISSING))
    return frame
