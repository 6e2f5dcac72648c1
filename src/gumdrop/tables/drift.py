"""How a new table differs from what a model was trained on: its columns, and the model's uncertainty of its rows.

Each column is compared with its profile by a chi-squared test of two samples over the bins, and by how many cells lie
where training had none; Holm's step-down over all columns keeps the chance of any false alarm at 1 %. A difference that
is sure but small, a population stability index below 0.1, is no drift.

References:
    Holm 1979, "A simple sequentially rejective multiple test procedure" (Scandinavian Journal of Statistics 6).
    Yurdakul & Naranjo 2020, "Statistical properties of the population stability index" (Journal of Risk Model
    Validation 14).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gumdrop.machine.picking import evenly
from gumdrop.tables.errors import MISSING
from gumdrop.tables.model import TableModel
from gumdrop.tables.profile import ColumnProfile, tally
from gumdrop.tables.schema.columns import CategoryColumn, Column
from gumdrop.tables.schema.schema import Encoded

LEAST_ROWS, MOST_ROWS = 20, 20_000
"""Rows below which nothing is said, and rows that are looked at, evenly spread."""
CHANCE = 0.01
"""Chance of a false alarm, if nothing is different."""
SMALL = 0.1
"""Population stability index below which a difference is too small to act on."""
EXPECTED = 5.0
"""Rows that a bin is to have by chance in both samples; smaller ones are counted together."""
MOST_BINS = 13
"""Bins that are kept of a column: as many as numbers have."""
MORE = 1.5
"""Times as many rows of large epistemic uncertainty as among the test rows, from which on that is said."""


@dataclass(frozen=True)
class Bin:
    """Cells of a column that are counted together."""

    what: str
    """Which, in words."""
    before: float
    """Their share in training."""
    now: float
    """Their share in this table."""


@dataclass(frozen=True, kw_only=True)
class ColumnDrift:
    """A column that is not distributed as in training."""

    name: str
    """The column."""
    psi: float
    """Population stability index over the bins."""
    p: float
    """Probability of such a difference by chance, times the columns that were tested (Holm)."""
    what: str
    """Cells whose share changed most, in words."""
    before: float
    """Their share in training."""
    now: float
    """Their share in this table."""
    outside: float
    """Share of numbers outside the range of training; 0 for categories."""
    unknown: float
    """Share of cells that are missing, or of a category that training did not have."""
    bins: list[Bin]
    """All bins that are not empty, in their order; of many categories those whose share changed most."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How a table differs from what a model was trained on."""

    rows: int
    """Rows that were looked at."""
    num_columns: int
    """Columns that were looked at."""
    columns: list[ColumnDrift]
    """Those that differ, from the most on."""
    above: float
    """Share of rows whose epistemic uncertainty is larger than that of nine tenths of the test rows of the fit."""
    above_before: float
    """The same of these test rows."""
    more_uncertain: bool
    """Whether that is more than chance makes."""

    @property
    def unlike(self) -> str:
        """How many columns differ."""
        if self.num_columns == 1:
            return "the column is not distributed as in training"
        are = "is" if len(self.columns) == 1 else "are"
        return f"{len(self.columns)} of {self.num_columns} columns {are} not distributed as in training"

    @property
    def notes(self) -> list[str]:
        """What differs, in a sentence each; none if nothing does."""
        notes = []
        if self.columns:
            names = ", ".join(f"'{each.name}'" for each in self.columns[:5])
            more = f" and {len(self.columns) - 5} more" if len(self.columns) > 5 else ""
            notes.append(f"{self.unlike}: {names}{more}; `gumdrop drift` shows how")
        if self.more_uncertain:
            notes.append(
                f"{self.above:.0%} of the rows have a larger epistemic uncertainty than nine tenths of the test rows "
                "of the fit had: they are less like what it learned from"
            )
        return notes


def find_drift(model: TableModel, frame: pd.DataFrame, epistemic: np.ndarray) -> Drift | None:
    """Compare a table with what a model was trained on; None if the table is too short, or the model does not know."""
    profile = model.profile
    if profile is None or len(frame) < LEAST_ROWS:
        return None
    pick = evenly(len(frame), MOST_ROWS)
    encoded = model.schema.encode_inputs(frame.iloc[pick])
    counts = tally(model.schema, [column.edges for column in profile.columns], encoded.x, encoded.unknown)
    chances = [
        _chance(np.array(was.counts), now) if column.constant is None else 1.0
        for column, was, now in zip(model.schema.columns, profile.columns, counts, strict=True)
    ]
    columns = [
        _described(column, was, now, p, encoded)
        for column, was, now, p in zip(model.schema.columns, profile.columns, counts, holm(chances), strict=True)
        if p < CHANCE
    ]
    above = int((epistemic[pick] > profile.epistemic).sum())
    before = profile.test_above / profile.test_rows
    beyond = _tail(above, len(pick), profile.test_above, profile.test_rows) < CHANCE
    return Drift(
        rows=len(pick),
        num_columns=len(counts),
        columns=sorted((column for column in columns if column.psi >= SMALL), key=lambda column: -column.psi),
        above=above / len(pick),
        above_before=before,
        more_uncertain=beyond and above / len(pick) > MORE * before,
    )


def _chance(was: np.ndarray, now: np.ndarray) -> float:
    """Probability that two samples of one distribution differ as much, in any bin or where the first has nothing."""
    new = now[was == 0].sum()
    beyond = (new + 1) * _tail(int(new), int(now.sum()), 0, int(was.sum()))  # at either end, and in any shares
    return min(1.0, 2 * min(beyond, _chi_squared(*_together(was, now))))


def _tail(count: int, rows: int, other_count: int, other_rows: int) -> float:
    """Probability that so many, or more, of the counted rows of two samples are in the first by chance (Fisher)."""
    counted = count + other_count
    k = torch.arange(max(count, counted - other_rows), min(counted, rows) + 1, dtype=torch.float64)

    def choose(n: int, k: Tensor) -> Tensor:
        return math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)

    of_all = choose(rows + other_rows, torch.tensor(float(counted), dtype=torch.float64))
    logs = choose(rows, k) + choose(other_rows, counted - k) - of_all
    return min(1.0, float(logs.exp().sum()))


def _together(was: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts with all bins together that are too small for a chi-squared test."""
    rows = min(was.sum(), now.sum())
    share = (was + now) / (was.sum() + now.sum())
    small = share * rows < EXPECTED
    if 0 < share[small].sum() * rows < EXPECTED:  # still too small, so with the smallest of the others
        small |= share == share[~small].min()
    return np.append(was[~small], was[small].sum()), np.append(now[~small], now[small].sum())


def _chi_squared(was: np.ndarray, now: np.ndarray) -> float:
    """Probability of such a difference of two samples by chance, over bins of which one may be empty."""
    both = was + now
    used = both > 0
    if used.sum() < 2:
        return 1.0
    expected = both[used] * now.sum() / both.sum(), both[used] * was.sum() / both.sum()
    distance = sum(((each[used] - e) ** 2 / e).sum() for each, e in zip((now, was), expected, strict=True))
    freedom = torch.tensor((int(used.sum()) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, torch.tensor(distance / 2, dtype=torch.float64)))


def holm(chances: Sequence[float]) -> list[float]:
    """Probabilities that take into account how many there are (Holm 1979)."""
    order = np.argsort(chances, kind="stable")
    scaled = np.maximum.accumulate(np.asarray(chances)[order] * np.arange(len(chances), 0, -1)).clip(max=1.0)
    adjusted = np.empty(len(chances))
    adjusted[order] = scaled
    return adjusted.tolist()


def _psi(was: np.ndarray, now: np.ndarray) -> float:
    """Population stability index; half a row in each bin keeps it finite."""
    p, q = ((each + 0.5) / (each.sum() + 0.5 * len(each)) for each in _together(was, now))
    return float(((q - p) * np.log(q / p)).sum())


def _described(column: Column, was: ColumnProfile, now: np.ndarray, p: float, encoded: Encoded) -> ColumnDrift:
    """Say what changed most in a column: cells that training never had together, or one of the other bins."""
    before = np.array(was.counts)
    names = _names(column, was, encoded)
    never = before == 0
    shares, shares_now = before / before.sum(), now / now.sum()
    change = np.where(never, 0.0, np.abs(shares_now - shares))
    k, fresh = int(change.argmax()), float(shares_now[never].sum())
    if fresh > change[k]:
        most = int(np.where(never, now, -1).argmax())
        is_end = was.edges and most in (0, len(was.edges))
        what, share, share_now = ("outside the training range" if is_end else names[most]), 0.0, fresh
    else:
        what, share, share_now = names[k], float(shares[k]), float(shares_now[k])
    outside = float(shares_now[0] + shares_now[-2]) if was.edges else 0.0
    return ColumnDrift(
        name=column.name,
        psi=_psi(before, now),
        p=p,
        what=what,
        before=share,
        now=share_now,
        outside=outside,
        unknown=float(shares_now[-1]),
        bins=[Bin(names[i], float(shares[i]), float(shares_now[i])) for i in _most_changed(shares, shares_now)],
    )


def _most_changed(shares: np.ndarray, shares_now: np.ndarray) -> np.ndarray:
    """Places of bins that are not empty, ascending; at most `MOST_BINS`."""
    filled = np.flatnonzero(shares + shares_now)
    order = np.argsort(-np.abs(shares_now - shares)[filled], kind="stable")
    return np.sort(filled[order[:MOST_BINS]])


def _names(column: Column, was: ColumnProfile, encoded: Encoded) -> list[str]:
    """What each bin is, in words."""
    if isinstance(column, CategoryColumn):
        unseen = ["unseen categories"] if column.name in encoded.unseen else []
        missing = ["missing"] if column.name in encoded.missing and MISSING not in column.categories else []
        last = " or ".join([*unseen, *missing])
        return [*(f"'{name}'" if name else "missing" for name in column.categories), last]
    edges = [edge * column.std + column.mean for edge in was.edges]
    ends = [column.rounded(edge) for edge in edges]
    above = 1 if column.cycle in ("month", "weekday") else 0  # the months after an edge
    starts = [column.rounded(edge + above) for edge in edges[:-1]]
    inner = [low if low == high else f"{low} to {high}" for low, high in zip(starts[1:], ends[2:], strict=True)]
    between = [f"up to {ends[1]}", *inner] if len(ends) > 1 else []
    return [f"below {ends[0]}", *between, f"above {ends[-1]}", "missing"] if ends else ["present", "missing"]
