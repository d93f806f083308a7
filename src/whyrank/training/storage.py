"""All tables of a model in one array: rows padded to whole vectors, the bias in the lane behind the factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.rng import key_of
from whyrank.training._pairwise import RowLayout
from whyrank.training._start import fill_uniform

Floats = NDArray[np.float32]

LANES = 8
ALIGNMENT = 64
FACTORS_DOMAIN = 1  # keeps the random numbers of different purposes apart


@dataclass(frozen=True)
class Table:
    """A matrix to learn: one row of factors for each user, item or explanation, with a bias if wanted.

    `bias_start` holds one starting bias per row; without it biases start at zero.
    """

    rows: int
    factors: int
    bias: bool = False
    bias_start: NDArray[np.float32] | None = None


class Storage:
    """Named tables; `factors(name)` and `bias(name)` are views of what is learned."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.tables = dict(tables)
        self.width = next(iter(self.tables.values())).factors
        self.blocks = blocks_of(self.width)
        sizes = [table.rows for table in self.tables.values()]
        ends = np.cumsum([0, *sizes])
        self.starts = dict(zip(self.tables, ends[:-1].tolist(), strict=True))
        self.values = _aligned(int(ends[-1]), len(self.blocks) * LANES)

    @classmethod
    def started(cls, tables: Mapping[str, Table], seed: int, factor_range: float) -> Storage:
        """Factors uniform in +-factor_range, biases at their start; a row depends on seed, table and number only."""
        storage = cls(tables)
        for number, (name, table) in enumerate(storage.tables.items()):
            start_rows(storage.whole(name), table, number, 0, seed, factor_range)
        return storage

    def whole(self, name: str) -> Floats:
        """A table's padded rows, as kernels take them."""
        start = self.starts[name]
        return self.values[start : start + self.tables[name].rows]

    def factors(self, name: str) -> Floats:
        """(rows, factors)"""
        return self.whole(name)[:, : self.width]

    def bias(self, name: str) -> Floats:
        """(rows,)"""
        if not self.tables[name].bias:
            raise ParameterError(f"table {name!r} has no bias")
        return self.whole(name)[:, self.width]

    def layout(self, bias: bool) -> RowLayout:
        """How kernels take rows; the bias takes part if it shall."""
        masks = np.zeros((2, len(self.blocks) * LANES), np.float32)
        masks[0, : self.width] = 1
        masks[1, self.width] = bias
        return RowLayout(masks, self.blocks)

    def copied_from(self, old: Storage) -> Storage:
        """This storage, with the first rows of every table taken from an older, smaller one."""
        for name in old.tables:
            rows = old.whole(name)
            if name not in self.tables or len(rows) > self.tables[name].rows or old.width != self.width:
                raise ParameterError(f"table {name!r}: cannot grow from {rows.shape[0]} rows of {old.width} factors")
            self.whole(name)[: len(rows)] = rows
        return self


def blocks_of(width: int) -> tuple[int, ...]:
    """As long as a row of so many factors has vectors, with room for the bias."""
    return (0,) * (width // LANES + 1)


def start_rows(rows: Floats, table: Table, number: int, first: int, seed: int, factor_range: float) -> None:
    """Start neighbouring padded rows of table `number`, the first of them having the number `first`."""
    key = key_of(seed, FACTORS_DOMAIN, number)
    fill_uniform(rows, first, table.factors, np.float32(factor_range), key)
    if table.bias_start is not None:
        rows[:, table.factors] = table.bias_start[first : first + len(rows)]


def grow(old: Storage, tables: Mapping[str, Table], seed: int, factor_range: float) -> Storage:
    """Larger tables for new rows: old rows keep their bits, new ones start as a fresh fit would start them."""
    return Storage.started(tables, seed, factor_range).copied_from(old)


def _aligned(rows: int, width: int) -> Floats:
    spare = ALIGNMENT // 4
    flat = np.zeros(rows * width + spare, np.float32)
    offset = (-flat.ctypes.data % ALIGNMENT) // 4
    return flat[offset : offset + rows * width].reshape(rows, width)
