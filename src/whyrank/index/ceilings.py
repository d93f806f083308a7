"""What is known of the two parts of queries, a user's and an item's, and shared by all pairs they are in."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.index import _ceilings as kernels
from whyrank.index._topn import QUERY_CODE
from whyrank.index.layout import Layout, Share

FIRST = 1024  # parts, and rows of ceilings, that new tables have room for
SEEN = 0.25  # of the memory for parts themselves; the rest is for ceilings


class Ceilings:
    """Parts of queries that were seen, and the ceilings of those that were seen often, for the groups of a layout.

    Results do not depend on what is known. `memory` limits it in bytes: a side that is full begins anew.
    """

    def __init__(self, layout: Layout, memory: int) -> None:
        keys = layout.keys
        widths = keys.split, keys.columns - keys.split
        self.layout, self._columns = layout, (0, keys.split)
        self._seen = int(SEEN * memory / (4 * (sum(widths) + 2 * 4)))
        self._lifted = int((1.0 - SEEN) * memory / (4 * 2 * layout.groups))
        self._sides = [_Side(width, layout.groups) for width in widths]
        self._starts = kernels.offsets(layout.codes, keys.second // 2)
        self._norms, self._gaps = (
            [self._highest(each[part]) for part in range(2)] for each in (keys.code_norms, keys.code_gaps)
        )

    @property
    def capacity(self) -> int:
        """How many queries can be looked up at once."""
        return min(self._seen, self._lifted)

    @property
    def nbytes(self) -> int:
        return sum(side.nbytes for side in self._sides)

    def tables(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The ceilings of the first and the second part; they stay valid when more is known."""
        return self._sides[0].ceilings, self._sides[1].ceilings

    def find(
        self,
        queries: NDArray[np.float32],
        rows: NDArray[np.int64],
        slots: NDArray[np.int32],
        often: float,
        share: Share,
    ) -> NDArray[np.bool_]:
        """Which queries have ceilings of both parts, and where: `slots` become rows of the two tables.

        Counts every part that is asked with, and finds the ceilings of those that were `often`.
        """
        bits, both = queries.view(np.uint32), np.ones(len(rows), np.bool_)

        def look(first: int, last: int) -> list[tuple[int, int]]:
            tables = ((side.parts, side.places, side.rows) for side in self._sides)
            return [
                kernels.find(bits, rows, column, *table, slots, number, first, last)
                for number, (column, table) in enumerate(zip(self._columns, tables, strict=True))
            ]

        found = np.sum(share(look, len(rows)), axis=0).tolist()
        for number, (column, (unknown, waiting)) in enumerate(zip(self._columns, found, strict=True)):
            if unknown + waiting == 0:
                continue
            side = self._sides[number]
            seen = side.count + unknown
            if seen > self._seen or side.lifted + min(unknown + waiting, seen - side.lifted) > self._lifted:
                side = self._sides[number] = _Side(side.parts.shape[1], side.ceilings.shape[1])
                slots[rows, number], unknown = kernels.UNKNOWN, len(rows)
            if unknown:
                side.make_room(unknown)
                side.count = kernels.enter(bits, rows, column, side.parts, side.places, slots, number, side.count)
            wanted = np.empty(len(rows), np.int64)
            new = kernels.note(rows, slots, number, side.uses, side.rows, often, side.lifted, wanted)
            if new:
                self._lift(number, side, wanted[:new], share)
            both &= slots[rows, number] >= 0
        return both

    def _lift(self, number: int, side: _Side, wanted: NDArray[np.int64], share: Share) -> None:
        """Find the ceilings of parts that have got the next rows."""
        keys = self.layout.keys
        try:
            side.make_rows(len(wanted))
            work = partial(
                kernels.lift, side.parts.view(np.float32), wanted, self.layout.codes, self._starts, number,
                number * keys.second // 2, keys.scale, keys.reach, QUERY_CODE, self._norms[number],
                self._gaps[number], side.ceilings, side.lifted,
            )  # fmt: skip
            share(work, len(wanted))
            side.lifted += len(wanted)
        except BaseException:  # interrupted: some may have none
            side.rows[wanted] = -1
            raise

    def _highest(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        """The highest of each group, rounded up."""
        return self.layout.spread(values, 0.0).reshape(self.layout.groups, -1).max(1) * np.float32(1 + 1e-6)


class _Side:
    """The parts of one side, by slot, and the ceilings of some of them, by row."""

    def __init__(self, width: int, groups: int) -> None:
        self.count, self.lifted = 0, 0
        self.parts, self.ceilings = np.empty((FIRST, width), np.uint32), np.empty((FIRST, groups), np.float32)
        self.uses, self.rows = np.zeros(FIRST, np.int32), np.full(FIRST, -1, np.int32)
        self.places = np.full(2 * FIRST, -1, np.int32)

    @property
    def nbytes(self) -> int:
        arrays = (self.parts, self.ceilings, self.uses, self.rows, self.places)
        return sum(each.nbytes for each in arrays)

    def make_room(self, more: int) -> None:
        """Grow until so many more parts fit; tables in use elsewhere stay as they are."""
        if self.count + more > len(self.parts):
            parts, uses, rows = (_grown(table, self.count, more) for table in (self.parts, self.uses, self.rows))
            rows[self.count :] = -1
            places = np.full(2 * len(parts), -1, np.int32)
            kernels.settle(parts, self.count, places)
            self.parts, self.uses, self.rows, self.places = parts, uses, rows, places  # all of them or none

    def make_rows(self, more: int) -> None:
        """Grow until the ceilings of so many more parts fit."""
        if self.lifted + more > len(self.ceilings):
            self.ceilings = _grown(self.ceilings, self.lifted, more)


def _grown(table: NDArray[Any], count: int, more: int) -> NDArray[Any]:
    """The first `count` rows of a table in one that is twice as large, or as often twice as `more` need."""
    size = len(table)
    while count + more > size:
        size *= 2
    result = np.zeros((size, *table.shape[1:]), table.dtype)
    result[:count] = table[:count]
    return result
