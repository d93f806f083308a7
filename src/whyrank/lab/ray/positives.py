"""The positives of the row shards that one machine owns, taken from the parts of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.lab.ray.dataset import Dataset, Side, changes, stacked
from whyrank.training._negatives import Known, known_of
from whyrank.training.passes import Ints, Pass
from whyrank.training.shards import NOTHING, Partition, RowShard

KINDS = ("user", "item", "explanation")


def kind_of(table: str) -> str:
    """Whose rows a table has; tables are named after them."""
    return next(kind for kind in KINDS if table.startswith(kind))


@dataclass(frozen=True)
class Columns:
    """What a pass takes of the data: the kind of its rows and of the columns of its blocks, one or two."""

    rows: Side
    columns: tuple[str, ...]

    @classmethod
    def of(cls, one: Pass) -> Columns:
        return cls(kind_of(one.tables[0]), tuple(kind_of(name) for name in one.column_tables))  # type: ignore[arg-type]

    @property
    def three_way(self) -> bool:
        return len(self.columns) > 1


def own_shards(
    data: Dataset, one: Pass, partition: Partition, own: range, by_record: bool, numbers: Ints | None
) -> list[RowShard]:
    """As `training.shards.row_shards`, of some row shards: a machine reads all parts, one at a time.

    `numbers` are the rows that its table has, in order; None: all.
    """
    take, pools = Columns.of(one), [partition.pool(shard) for shard in own]
    place = np.full(partition.rows, -1, np.int32)
    place[np.concatenate(pools)] = np.arange(sum(map(len, pools)), dtype=np.int32)
    pieces, knows = [], []
    for number in range(data.parts):
        part, (first, end) = data.part(take.rows, number), data.bounds(take.rows)[number : number + 2]
        mine = place[part[take.rows]] >= 0
        pieces.append([part[name][mine] for name in (take.rows, *take.columns, "record")])
        if not take.three_way:
            said = data.relation(take.rows, take.columns[0], number, part)
            knows.append(said.take(np.flatnonzero(place[first:end] >= 0)))
    row, *columns, record = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.argsort(place[row], kind="stable")
    row, record, columns = row[order], record[order], [column[order] for column in columns]
    ends = np.searchsorted(place[row], np.cumsum([0, *map(len, pools)])).tolist()
    row = row if numbers is None else place[row]
    if take.three_way:
        known_row, known = _known_of_pairs(row, columns[0], columns[1], record)
    else:
        known_row, known = row, _known_of_rows(stacked(knows), np.flatnonzero(place >= 0), numbers, partition.rows)
    other, record = columns[1] if take.three_way else NOTHING, record if by_record else record[:0]
    cuts = [slice(first, end) for first, end in pairwise(ends)]
    return [RowShard(row[c], columns[0][c], other[c], record[c], known_row[c], known) for c in cuts]


def _known_of_rows(said: CSR, rows: NDArray[np.int64], numbers: Ints | None, count: int) -> Known:
    """What rows know, by their places in this machine's table; `said` has the given rows."""
    if numbers is not None:
        said = said.take(np.searchsorted(rows, numbers))
        return known_of(said.indptr, said.indices)
    sizes = np.zeros(count + 1, np.int64)
    sizes[rows + 1] = said.sizes()
    return known_of(np.cumsum(sizes), said.indices)


def _known_of_pairs(row: Ints, column: Ints, other: Ints, record: NDArray[np.int64]) -> tuple[Ints, Known]:
    """What records know, and the row there of each entry; records of a pair share it."""
    indptr = np.append(np.flatnonzero(changes(record)), len(row)).astype(np.int64)
    width = np.int64(column.max(initial=0)) + 1
    pairs, place = np.unique(row[indptr[:-1]] * width + column[indptr[:-1]], return_inverse=True)
    several = len(pairs) < len(place)
    of_entries = np.repeat(place if several else np.arange(len(place)), np.diff(indptr)).astype(np.int32)
    if several:
        indptr, other, _ = CSR.from_pairs(of_entries, other, len(pairs), int(other.max(initial=0)) + 1)
    return of_entries, known_of(indptr, other)
