"""What is known of the two parts of queries, a user's and an item's, and shared by all pairs they are in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels import ceilings as kernels
from whyrank.kernels.topn import QUERY_CODE
from whyrank.ranking.layout import Layout

FIRST = 1024  # parts that a new table has room for

Share = Callable[[Callable[[int, int], Any], int], list[Any]]


class Ceilings:
    """Parts of queries that were seen, and the ceilings of those that were seen often, for the groups of a layout.

    Results do not depend on what is known. `memory` limits it in bytes: a side that is full begins anew.
    """

    def __init__(self, layout: Layout, memory: int) -> None:
        keys = layout.keys
        widths = keys.split, keys.columns - keys.split
        self.layout, self._columns = layout, (0, keys.split)
        self.capacity = max(16, memory // (4 * (2 * layout.groups + sum(widths) + 16)))
        self._sides = [_Side(width, layout.groups) for width in widths]
        self._starts = kernels.offsets(layout.codes, keys.second // 2)
        self._norms, self._gaps = (
            [self._highest(each[part]) for part in range(2)] for each in (keys.code_norms, keys.code_gaps)
        )

    @property
    def nbytes(self) -> int:
        return sum(side.nbytes for side in self._sides)

    def tables(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The ceilings of the first and the second part; they stay valid when more is known."""
        return self._sides[0].ceilings, self._sides[1].ceilings

    def find(
        self, queries: NDArray[np.float32], rows: NDArray[np.int64], slots: NDArray[np.int32], share: Share
    ) -> None:
        """Write where the parts of some queries stand, at most `capacity` queries."""
        bits = queries.view(np.uint32)
        for number, (side, column) in enumerate(zip(self._sides, self._columns, strict=True)):
            look = partial(kernels.find, bits, rows, column, side.parts, side.places, slots, number)
            unknown = sum(share(look, len(rows)))
            if side.count + unknown > self.capacity:
                side = self._sides[number] = _Side(side.parts.shape[1], side.ceilings.shape[1])
                slots[rows, number], unknown = -1, len(rows)
            if unknown:
                side.make_room(unknown)
                side.count = kernels.enter(bits, rows, column, side.parts, side.places, slots, number, side.count)

    def ready(self, rows: NDArray[np.int64], slots: NDArray[np.int32], often: float, share: Share) -> NDArray[np.bool_]:
        """Note that queries are asked, and find ceilings for parts that were `often` asked; which queries have both."""
        keys, both = self.layout.keys, np.ones(len(rows), np.bool_)
        for number, side in enumerate(self._sides):
            if side.lifted == side.count:
                continue
            wanted = np.empty(len(rows) + 1, np.int64)
            wanted = wanted[: kernels.note(rows, slots, number, side.uses, side.done, often, wanted)]
            if len(wanted):
                work = partial(
                    kernels.lift, side.parts.view(np.float32), wanted, self.layout.codes, self._starts, number,
                    number * keys.second // 2, keys.scale, keys.reach, QUERY_CODE, self._norms[number],
                    self._gaps[number], side.ceilings,
                )  # fmt: skip
                try:
                    share(work, len(wanted))
                except BaseException:  # interrupted: some may have none
                    side.done[wanted] = False
                    raise
                side.lifted += len(wanted)
            both &= side.done[slots[rows, number]]
        return both

    def _highest(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        """The highest of each group, rounded up."""
        return self.layout.spread(values, 0.0).reshape(self.layout.groups, -1).max(1) * np.float32(1 + 1e-6)


class _Side:
    """The parts of one side."""

    def __init__(self, width: int, groups: int) -> None:
        self.count, self.lifted = 0, 0
        self.parts, self.ceilings = np.empty((FIRST, width), np.uint32), np.empty((FIRST, groups), np.float32)
        self.uses, self.done = np.zeros(FIRST, np.int32), np.zeros(FIRST, np.bool_)
        self.places = np.full(2 * FIRST, -1, np.int32)

    @property
    def nbytes(self) -> int:
        arrays = (self.parts, self.ceilings, self.uses, self.done, self.places)
        return sum(each.nbytes for each in arrays)

    def make_room(self, more: int) -> None:
        """Grow until so many more parts fit; tables in use elsewhere stay as they are."""
        size = len(self.parts)
        while self.count + more > size:
            size *= 2
        if size > len(self.parts):
            for name in ("parts", "ceilings", "uses", "done"):
                before = getattr(self, name)
                grown = np.zeros((size, *before.shape[1:]), before.dtype)
                grown[: self.count] = before[: self.count]
                setattr(self, name, grown)
            self.places = np.full(2 * size, -1, np.int32)
            kernels.settle(self.parts, self.count, self.places)
