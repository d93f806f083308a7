"""What softmax training learns from: what records say, and what is known of both of their sides without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.training import _profile as kernels

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

ALL = 1 << 62  # longer than any profile


class RecordLists(NamedTuple):
    """What some records say (record k: targets[indptr[k]] ...), and the entries of their sides as kernels take them."""

    indptr: NDArray[np.int64]
    targets: Ints
    numbers: Ints
    counts: Floats
    places: NDArray[np.int64]

    def cut(self, first: int, end: int) -> RecordLists:
        """Of the records first ... end - 1."""
        indptr, places = self.indptr[first : end + 1], self.places[2 * first : 2 * end + 1]
        inside = slice(places[0], places[-1])
        targets = self.targets[indptr[0] : indptr[-1]]
        return RecordLists(indptr - indptr[0], targets, self.numbers[inside], self.counts[inside], places - places[0])


class Source(Protocol):
    """Where training gets its records from."""

    @property
    def records(self) -> int: ...
    @property
    def entries(self) -> int: ...
    def lists(self, order: NDArray[np.int64], batch: int) -> Iterator[RecordLists]:
        """The records in an order; each piece has whole batches but for the last one."""
        ...


@dataclass(frozen=True, eq=False)
class Side:
    """A profile of every record: the entries of the record's row in a relation, without the record's own."""

    rows: Ints  # record -> row of the relation
    relation: CSR
    own: CSR  # record -> its own entries

    @classmethod
    def none(cls, records: int) -> Side:
        """A side that says nothing."""
        empty = CSR(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
        return cls(np.full(records, -1, np.int32), empty, empty)


@dataclass(frozen=True, eq=False)
class RecordsInMemory:
    """Records in memory: what each says, and its two sides; of longer profiles, `longest` entries stand for all."""

    targets: CSR
    sides: tuple[Side, Side]
    longest: int = ALL

    @property
    def records(self) -> int:
        return self.targets.rows

    @property
    def entries(self) -> int:
        return len(self.targets.indices)

    def lists(self, order: NDArray[np.int64], batch: int) -> Iterator[RecordLists]:
        return (self.of(order[start : start + batch]) for start in range(0, len(order), batch))

    def of(self, records: NDArray[np.int64]) -> RecordLists:
        said = self.targets.take(records)
        first, second = self.sides
        entries = kernels.other_entries(
            records,
            *(first.rows, *first.relation, *first.own[:2]),
            *(second.rows, *second.relation, *second.own[:2]),
            True,
            self.longest,
        )
        return RecordLists(said.indptr, said.indices, *entries)
