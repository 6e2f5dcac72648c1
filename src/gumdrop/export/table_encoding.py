"""The encoding of a table's columns as part of a graph: what the schema makes of the same table, bit for bit."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gumdrop.tables.reading.times import CYCLES, DAYS_OF_A_YEAR
from gumdrop.tables.schema.columns import CategoryColumn
from gumdrop.tables.schema.schema import TableSchema

PERIODS = {"season": DAYS_OF_A_YEAR, "weekday": 7.0, "hour": 1.0}
"""Days of each cycle."""


def _numbers(values: Tensor, mean: Tensor, std: Tensor, median: Tensor) -> Tensor:
    """Standardised numbers and days; a missing one is the median."""
    return (torch.where(torch.isnan(values), median, values) - mean) / std


def _labels(values: Tensor, code: Tensor, missing: Tensor) -> Tensor:
    """1 where a cell has the category."""
    return (torch.where(torch.isnan(values), missing, values) == code).to(values.dtype)


def _constants(values: Tensor, constant: Tensor) -> Tensor:
    """The same for all cells, missing ones too, of a column that had one value in training."""
    return torch.zeros_like(values) + constant


def _cycles(days: Tensor, period: Tensor, whole: Tensor) -> Tensor:
    """Sine and cosine of where a day stands in a cycle, all sines first; 0 where it is missing."""
    turns = torch.where(whole > 0, torch.floor(days), days) / period
    angle = 2 * math.pi * (turns - torch.floor(turns))
    waves = torch.cat([torch.sin(angle), torch.cos(angle)], dim=1)
    return torch.where(torch.isnan(waves), 0.0, waves)


ENCODE: dict[str, Callable[..., Tensor]] = {
    "numbers": _numbers,
    "labels": _labels,
    "constants": _constants,
    "cycles": _cycles,
}
"""Inputs of the networks from the cells of columns of a kind and the constants of these."""


class TableEncoder(nn.Module):
    """Turn raw columns, (N, C), into the inputs of the networks, (N, `schema.num_features`) in float32.

    In float64 up to the last step, like the schema: a column may lie far from 0 for its spread.
    """

    order: Tensor

    def __init__(self, schema: TableSchema) -> None:
        super().__init__()
        numbers: list[tuple[float, ...]] = []
        labels: list[tuple[float, ...]] = []
        same: list[tuple[float, ...]] = []
        cycles: list[tuple[float, ...]] = []
        for source, (column, group) in enumerate(zip(schema.columns, schema.groups, strict=True)):
            first = group.start
            if column.constant is not None:
                same += [(source, first + i, value) for i, value in enumerate(column.constant.tolist())]
                continue
            if isinstance(column, CategoryColumn):
                missing = column.categories.index("") if "" in column.categories else -1
                labels += [(source, first + code, code, missing) for code in range(len(column.categories))]
                continue
            numbers.append((source, first, column.mean, column.std, column.median))
            if column.cycle is not None:
                cycles.append((source, first + 1, CYCLES[column.cycle].length, False))
            for i, part in enumerate(column.parts or ()):
                cycles.append((source, first + 1 + 2 * i, PERIODS[part], part == "weekday"))
        columns = [row[1] for row in numbers + labels + same + cycles] + [row[1] + 1 for row in cycles]
        self.register_buffer("order", torch.tensor(columns).argsort())
        self.tables = {name: rows for name, rows in zip(ENCODE, (numbers, labels, same, cycles), strict=True) if rows}
        for name, rows in self.tables.items():
            sources, _, *constants = torch.tensor(rows, dtype=torch.float64).unbind(dim=1)
            self.register_buffer(f"{name}_source", sources.long())
            self.register_buffer(f"{name}_constants", torch.stack(constants))

    def forward(self, columns: Tensor) -> Tensor:
        """Encode."""
        encoded = []
        for name in self.tables:
            source, constants = self.get_buffer(f"{name}_source"), self.get_buffer(f"{name}_constants")
            encoded.append(ENCODE[name](columns.index_select(1, source), *constants.unbind()))
        return torch.cat(encoded, dim=1).float().index_select(1, self.order)
