"""Upper bounds of users' and items' parts of queries: computed once, shared by all pairs they are in."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from whyrank.index import _kernels as kernels
from whyrank.index._kernels import Batch, Groups, Keys, PartBounds
from whyrank.index.form import Floats, Numbers

PIECE = 8192  # queries that are looked up at once
SAMPLE = 256  # queries that show how many groups are scored without and with bounds of parts
FEW_GROUPS = 4  # scored for a query: bounds of parts would not save enough
GAIN = 2.0  # times fewer groups that must be scored with bounds of parts
COST = 0.3  # of scoring all groups: what it takes to compute the bounds of a part

Share = Callable[[Callable[[int, int], Any], int], list[Any]]  # work(first, last) over pieces of 0..count
Tables = tuple[Floats, Floats]


class UpperBounds:
    """Bounds of the parts that come often, for every group of the pool, in `memory` bytes.

    A part is known by the number of its user or item, and compared with what its bounds were computed from, so that
    answers never depend on what is stored here. A side that is full begins anew.
    """

    def __init__(self, keys: Keys, groups: Groups, memory: int) -> None:
        self._keys, self._groups = keys, groups
        widths = (keys.split, keys.columns - keys.split)
        self._room = max(1, memory // 2 // (4 * (len(groups.leaders) + max(widths))))
        self._paired = min(widths) > 0
        self._sides = [self._new_side(part, 0) for part in range(2)]
        self._taken = [0, 0]  # slots
        # Queries and the groups scored for them: by norms, and by bounds of both parts.
        self._queries, self._scored = [0, 0], [0, 0]
        self._lock = threading.Lock()

    @property
    def piece(self) -> int:
        """How many queries may be looked up at once."""
        return min(PIECE if self._queries[0] else SAMPLE, self._room)

    def look_up(self, batch: Batch, numbers: tuple[Numbers, Numbers], share: Share) -> Tables:
        """Write the slots of the batch's parts, after computing bounds that will pay; return the bounds by slot."""
        often = self._uses_before_bounds_pay()
        with self._lock:
            if often < math.inf:
                for part in range(2):
                    self._look_up(part, batch, numbers[part], often, share)
            return self.tables

    @property
    def tables(self) -> Tables:
        """The bounds of users' and items' parts, by slot; they stay valid when more are computed."""
        return self._sides[0].bounds, self._sides[1].bounds

    def count(self, queries: int, scored: list[tuple[int, int, int]]) -> None:
        """Note how far queries went: how many had bounds of both parts, groups scored for these, and for others."""
        known, for_known, for_others = (sum(each) for each in zip(*scored, strict=True))
        with self._lock:
            self._queries = [self._queries[0] + queries - known, self._queries[1] + known]
            self._scored = [self._scored[0] + for_others, self._scored[1] + for_known]

    def groups_scored(self) -> float:
        """Return how many groups were scored for a query, on average."""
        return sum(self._scored) / max(1, sum(self._queries))

    def _uses_before_bounds_pay(self) -> float:
        """How often a part has to come before its bounds are computed: until doing without has cost as much."""
        usual, best = (groups / max(queries, 1) for queries, groups in zip(self._queries, self._scored, strict=True))
        if not self._paired or usual <= FEW_GROUPS or (self._queries[1] >= SAMPLE and usual < GAIN * best):
            return math.inf
        return 1.0 + COST * len(self._groups.leaders) / usual

    def _look_up(self, part: int, batch: Batch, numbers: Numbers, often: float, share: Share) -> None:
        begin = self._taken[part]
        if begin + len(batch.rows) > len(self._sides[part].bounds):
            self._sides[part], begin = self._new_side(part, self._room), 0
        side = self._sides[part] = _with_numbers(self._sides[part], int(numbers.max(initial=0)) + 1)
        column = part * self._keys.split
        try:
            given = (side, numbers, batch.queries, batch.rows, column, often, begin, batch.slots[part])
            taken = kernels.look_up(*given)
            work = partial(kernels.compute_bounds, self._groups.keys, column, side.parts, side.bounds, begin)
            share(work, taken - begin)
        except BaseException:  # interrupted: some slots may have no bounds
            self._sides[part], taken = self._new_side(part, 0), 0
            raise
        finally:
            self._taken[part] = taken

    def _new_side(self, part: int, room: int) -> PartBounds:
        """Make a side without parts. Memory that is not written to is not taken from the system."""
        width = self._keys.columns - self._keys.split if part else self._keys.split
        nobody = np.empty(0, np.int32)
        tables = (np.empty((room, columns), np.float32) for columns in (width, len(self._groups.leaders)))
        return PartBounds(nobody, nobody, *tables)


def _with_numbers(side: PartBounds, count: int) -> PartBounds:
    """Make room for users or items by number."""
    more = count - len(side.slot_of)
    if more <= 0:
        return side
    more = max(more, len(side.slot_of))
    slot_of = np.concatenate([side.slot_of, np.full(more, -1, np.int32)])
    return side._replace(slot_of=slot_of, uses=np.concatenate([side.uses, np.zeros(more, np.int32)]))
