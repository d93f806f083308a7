"""Records of parts on their way to a softmax training: no machine has more of them than a few batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from whyrank.cluster.dataset import Dataset, changes, relation
from whyrank.cluster.dataset import Side as Rows
from whyrank.cluster.session import Cluster, Reference
from whyrank.cluster.store import Arrays
from whyrank.data.csr import CSR
from whyrank.models.profile import ITEMS_SEEN, SAID
from whyrank.training.records import Lists, RecordsInMemory, Side

SIDES: dict[str, tuple[Rows, ...]] = {"reasons": ("user", "item"), "items": ("user",)}
BATCHES = 32  # that are asked for at a time
AHEAD = 2  # such pieces are on their way while one is learned from


@dataclass(frozen=True, eq=False)
class Streamed:
    """The records of a stage: every part finds its own, with what their row says, and one task puts them in order."""

    cluster: Cluster
    parts: list[tuple[int, Reference]]  # of which side, and what `read_side` gave
    records: int
    entries: int

    @classmethod
    def of(cls, cluster: Cluster, learn: Dataset, stage: str) -> Streamed:
        parts = [
            (place, cluster.submit(read_side, learn, stage, side, part))
            for place, side in enumerate(SIDES[stage])
            for part in range(learn.parts)
        ]
        return cls(cluster, parts, learn.records, learn.records if stage == "items" else learn.triplets)

    def lists(self, order: NDArray[np.int64], batch: int) -> Iterator[Lists]:
        waiting: deque[Reference] = deque()
        for start in range(0, len(order), batch * BATCHES):
            waiting.append(self._ask(order[start : start + batch * BATCHES]))
            if len(waiting) > AHEAD:
                yield self._given(waiting.popleft())
        while waiting:
            yield self._given(waiting.popleft())

    def _ask(self, records: NDArray[np.int64]) -> Reference:
        asked = self.cluster.put(records)
        pieces = [self.cluster.submit(find, part, side, asked) for side, part in self.parts]
        return self.cluster.submit(put_together, len(records), *pieces)

    def _given(self, lists: Reference) -> Lists:
        return Lists(*(array.copy() for array in self.cluster.gather([lists])[0]))


# -- what machines do --------------------------------------------------------------------------------------------------


def read_side(learn: Dataset, stage: str, side: Rows, number: int) -> Arrays:
    """The records of a part, ascending: which row each has, what the rows say, and what each says itself."""
    part = learn.part(side, number)
    order = np.argsort(part["record"], kind="stable")
    first, end = list(pairwise(learn.bounds(side)))[number]
    starts = np.flatnonzero(changes(part["record"][order]))
    columns, width = ("item", learn.item_count) if stage == "items" else ("explanation", learn.explanation_count)
    said = relation(part, side, columns, first, end - first, width)
    entries = order[starts] if stage == "items" else order
    indptr = np.arange(len(starts) + 1) if stage == "items" else np.append(starts, len(order))
    found = {"records": part["record"][order[starts]], "rows": part[side][order[starts]] - np.int32(first)}
    found |= {"own_indptr": indptr.astype(np.int64), "own": part[columns][entries]}
    found["longest"] = np.array([ITEMS_SEEN if stage == "items" else SAID])
    return found | said._asdict()


def find(part: Arrays, side: int, asked: NDArray[np.int64]) -> tuple[int, NDArray[np.int64], Lists]:
    """Which of the asked records a part has, and what it knows of them; what they say is known to the first side."""
    at = np.minimum(np.searchsorted(part["records"], asked), max(len(part["records"]) - 1, 0))
    mine = np.flatnonzero(part["records"][at] == asked) if len(part["records"]) else np.empty(0, np.int64)
    own = CSR(part["own_indptr"], part["own"], part["own"])
    known = Side(part["rows"], CSR(part["indptr"], part["indices"], part["counts"]), own)
    longest, silent = int(part["longest"][0]), Side.none(len(part["records"]))
    if side == 0:
        return side, mine, RecordsInMemory(own, (known, silent), longest).of(at[mine])
    nothing = CSR(np.zeros(len(known.rows) + 1, np.int64), own.indices[:0], own.indices[:0])
    return side, mine, RecordsInMemory(nothing, (silent, known), longest).of(at[mine])


def put_together(count: int, *pieces: tuple[int, NDArray[np.int64], Lists]) -> Lists:
    """Records in the order in which they were asked for."""
    said, sizes = np.zeros(count, np.int64), np.zeros(2 * count, np.int64)
    for side, mine, lists in pieces:
        said[mine] += np.diff(lists.indptr)
        sizes[2 * mine + side] = np.diff(lists.places)[side::2]
    indptr, places = (np.concatenate([[0], np.cumsum(each)]) for each in (said, sizes))
    targets, numbers = np.empty(indptr[-1], np.int32), np.empty(places[-1], np.int32)
    counts = np.empty(places[-1], np.float32)
    for side, mine, lists in pieces:
        targets[_entries(indptr[mine], np.diff(lists.indptr))] = lists.targets
        to = _entries(places[2 * mine + side], np.diff(lists.places)[side::2])
        numbers[to], counts[to] = lists.numbers, lists.counts
    return Lists(indptr, targets, numbers, counts, places)


def _entries(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of runs of entries."""
    return np.arange(sizes.sum()) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
