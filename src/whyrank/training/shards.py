"""Tables cut into shards: rows once per fit, with the positives that they own; columns anew every epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.rng import key_of, shuffled
from whyrank.training._negatives import known_of
from whyrank.training._shards import rows_of_groups, shard_numbers, sort_into_blocks
from whyrank.training._start import draw_one_per_run
from whyrank.training.passes import Ints, Pass, RowShard
from whyrank.training.storage import Table

NOTHING = np.empty(0, np.int32)
NO_SHARDS = np.empty(0, np.uint8)
ALL = np.empty(0, np.bool_)
ORDER_DOMAIN, RECORD_DOMAIN = 2, 6
ROWS = 0  # in place of an epoch's number: the cut of a fit's rows
GROUPED_ROWS = 1 << 16  # tables from this size on are shuffled in groups of neighbours, which are read together
GROUP = 16
ROWS_PER_SHARD = 64
TRIPLETS_PER_SHARD = 1 << 20
FEW = 4


def default_shards(tables: Mapping[str, Table], passes: Sequence[Pass], triplets: int) -> int:
    """Four shards, fewer for small tables, more for many triplets; never a look at the machine.

    Small shards leave few negatives to draw from, and every shard more makes an epoch read the large tables once more.
    """
    smallest = min(tables[name].rows for one in passes for name in one.tables)
    most, shards = min(one.most_shards for one in passes), 1
    while shards < most and smallest >= 2 * shards * ROWS_PER_SHARD:
        if shards >= FEW and triplets <= shards * TRIPLETS_PER_SHARD:
            break
        shards *= 2
    return shards


def group_size(rows: int) -> int:
    """How many neighbouring rows of a table stay together when it is shuffled."""
    return GROUP if rows >= GROUPED_ROWS else 1


@dataclass(frozen=True, eq=False)
class Partition:
    """A table's groups of rows in random order, cut into equal shards."""

    rows: int
    shards: int
    groups: Ints
    shard_of: NDArray[np.uint8]

    @classmethod
    def drawn(cls, rows: int, shards: int, seed: int, epoch: int, number: int) -> Partition:
        """Of table `number` in an epoch (ROWS: for a whole fit)."""
        size = group_size(rows)
        groups = shuffled((rows + size - 1) // size, key_of(seed, ORDER_DOMAIN, epoch, number))
        return cls(rows, shards, groups, shard_numbers(groups, size, rows, shards))

    def pool(self, shard: int) -> Ints:
        """The rows of a shard: what a task may draw its negatives from."""
        count = len(self.groups)
        mine = self.groups[count * shard // self.shards : count * (shard + 1) // self.shards]
        return rows_of_groups(mine, group_size(self.rows), self.rows)


def row_shards(one: Pass, partition: Partition, records: NDArray[np.int64] | None) -> list[RowShard]:
    """The positives of a pass by the shard of their row, row by row as they lie there."""
    positives = one.positives
    pools = [partition.pool(shard) for shard in range(partition.shards)]
    place = np.empty(partition.rows, np.int32)
    place[np.concatenate(pools)] = np.arange(partition.rows, dtype=np.int32)
    places = place[positives[one.tables[0]]]
    order = np.argsort(places, kind="stable")
    row, column, *other = (positives[name][order] for name in (one.tables[0], *one.column_tables))
    known_row, known = one.known_rows[order], known_of(one.known.indptr, one.known.indices)
    record = np.empty(0, np.int64) if records is None else records[order]
    ends = np.searchsorted(places[order], np.cumsum([0, *map(len, pools)])).tolist()
    cuts = [slice(first, end) for first, end in pairwise(ends)]
    others = other[0] if other else NOTHING
    return [RowShard(row[cut], column[cut], others[cut], record[cut], known_row[cut], known) for cut in cuts]


class SortedBlocks(NamedTuple):
    """A row shard's positives in an epoch, block by block; columns are entry numbers in a three-way pass."""

    offsets: NDArray[np.int64]
    rows: Ints
    columns: Ints

    def block(self, number: int) -> tuple[Ints, Ints]:
        inside = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        return self.rows[inside], self.columns[inside]


def sorted_blocks(own: RowShard, columns: Sequence[Partition], seed: int, epoch: int) -> SortedBlocks:
    """Sort positives by the shards that their columns have in an epoch."""
    active = draw_one_per_run(own.record, key_of(seed, RECORD_DOMAIN, epoch)) if len(own.record) else ALL
    other_shards, shards = columns[1].shard_of if len(columns) > 1 else NO_SHARDS, columns[0].shards
    by_column, by_other = (own.column, columns[0].shard_of), (own.other, other_shards)
    return SortedBlocks(*sort_into_blocks(own.row, *by_column, *by_other, shards, active))
