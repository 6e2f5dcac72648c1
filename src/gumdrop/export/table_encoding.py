"""The encoding of a table's columns as part of a graph: what the schema makes of the same table, bit for bit."""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from gumdrop.tables.reading.times import CYCLES, DAYS_OF_A_YEAR
from gumdrop.tables.schema.columns import CategoryColumn
from gumdrop.tables.schema.schema import TableSchema

PERIODS = {"season": DAYS_OF_A_YEAR, "weekday": 7.0, "hour": 1.0}
"""Days of each cycle."""


class TableEncoder(nn.Module):
    """Turn raw columns, (N, C), into the inputs of the networks, (N, `schema.num_features`) in float32.

    In float64 up to the last step, like the schema: a column may lie far from 0 for its spread.
    """

    order: Tensor

    def __init__(self, schema: TableSchema) -> None:
        super().__init__()
        numbers: list[tuple[float, ...]] = []
        labels: list[tuple[float, ...]] = []
        cycles: list[tuple[float, ...]] = []
        for source, (column, group) in enumerate(zip(schema.columns, schema.groups, strict=True)):
            place = group.start
            if isinstance(column, CategoryColumn):
                missing = column.categories.index("") if "" in column.categories else -1
                labels += [(source, place + code, code, missing) for code in range(len(column.categories))]
                continue
            numbers.append((source, place, column.mean, column.std, column.median))
            if column.cycle is not None:
                cycles.append((source, place + 1, CYCLES[column.cycle].length, False))
            for i, part in enumerate(column.parts or ()):
                cycles.append((source, place + 1 + 2 * i, PERIODS[part], part == "weekday"))
        kinds = ((_Numbers, numbers), (_Labels, labels), (_Cycles, cycles))
        blocks = [kind(rows) for kind, rows in kinds if rows]
        self.blocks = nn.ModuleList(blocks)
        self.register_buffer("order", torch.argsort(torch.cat([block.places for block in blocks])))

    def forward(self, columns: Tensor) -> Tensor:
        """Encode."""
        return torch.cat([block(columns) for block in self.blocks], dim=1).float().index_select(1, self.order)


class _Block(nn.Module):
    """Encoded columns of one kind: the column that each comes from, its place among all, and constants of the kind."""

    constants: ClassVar[Sequence[str]]
    source: Tensor

    def __init__(self, rows: list[tuple[float, ...]]) -> None:
        super().__init__()
        source, places, *constants = torch.tensor(rows, dtype=torch.float64).unbind(dim=1)
        self.register_buffer("source", source.long())
        self.places = places
        for name, values in zip(self.constants, constants, strict=True):
            self.register_buffer(name, values.contiguous())


class _Numbers(_Block):
    """Standardised numbers and days; a missing one is the median."""

    constants = ("mean", "std", "median")
    mean: Tensor
    std: Tensor
    median: Tensor

    def forward(self, columns: Tensor) -> Tensor:
        values = columns.index_select(1, self.source)
        return (torch.where(torch.isnan(values), self.median, values) - self.mean) / self.std


class _Labels(_Block):
    """1 where a cell has the category."""

    constants = ("code", "missing")
    code: Tensor
    missing: Tensor

    def forward(self, columns: Tensor) -> Tensor:
        values = columns.index_select(1, self.source)
        return (torch.where(torch.isnan(values), self.missing, values) == self.code).to(columns.dtype)


class _Cycles(_Block):
    """Sine and cosine of where a day stands in a cycle; 0 where it is missing."""

    constants = ("period", "whole")
    period: Tensor
    whole: Tensor

    def __init__(self, rows: list[tuple[float, ...]]) -> None:
        super().__init__(rows)
        self.places = torch.cat([self.places, self.places + 1])  # all sines, and then all cosines

    def forward(self, columns: Tensor) -> Tensor:
        days = columns.index_select(1, self.source)
        turns = torch.where(self.whole > 0, torch.floor(days), days) / self.period
        angle = 2 * math.pi * (turns - torch.floor(turns))
        waves = torch.cat([torch.sin(angle), torch.cos(angle)], dim=1)
        return torch.where(torch.isnan(waves), 0.0, waves)
