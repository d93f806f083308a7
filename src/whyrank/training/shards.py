"""An epoch's random partition: every table cut into shards, every pass's positives sorted into blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from whyrank.crew import Crew
from whyrank.kernels.negatives import Known, build_filters
from whyrank.kernels.rng import key_of, shuffled
from whyrank.kernels.shards import Sorting, count_blocks, fill_blocks, rows_of_groups, shard_numbers
from whyrank.kernels.triple import Entries
from whyrank.training.passes import Ints, PairwisePass, Pass, Table, positives

NOTHING = np.empty(0, np.int32)
NO_SHARDS = np.empty(0, np.uint8)
ORDER_DOMAIN = 2
GROUPED_ROWS = 1 << 16  # tables from this size on are shuffled in groups of neighbours, which are read together
GROUP = 16
ROWS_PER_SHARD = 64
TRIPLETS_PER_SHARD = 1 << 20
FEW, MANY = 4, 16


def default_shards(tables: Mapping[str, Table], passes: tuple[Pass, ...], triplets: int) -> int:
    """Four shards, fewer for small tables, more for many triplets; never a look at the machine.

    Small shards leave few negatives to draw from, and every shard more makes an epoch read the large tables once more.
    Three-way passes have shards**2 strata and stay at four.
    """
    smallest = min(tables[name].rows for one in passes for name in one.tables)
    most = MANY if all(isinstance(one, PairwisePass) for one in passes) else FEW
    shards = 1
    while shards < most and smallest >= 2 * shards * ROWS_PER_SHARD:
        if shards >= FEW and triplets <= shards * TRIPLETS_PER_SHARD:
            break
        shards *= 2
    return shards


def group_size(rows: int) -> int:
    """How many neighbouring rows of a table stay together when it is shuffled."""
    return GROUP if rows >= GROUPED_ROWS else 1


@dataclass
class Partition:
    """One table in one epoch: its groups of rows in random order, cut into equal shards."""

    rows: int
    shards: int
    groups: Ints
    shard_of: NDArray[np.uint8]

    @classmethod
    def drawn(cls, rows: int, shards: int, key: np.uint64) -> Partition:
        size = group_size(rows)
        groups = shuffled((rows + size - 1) // size, key)
        return cls(rows, shards, groups, shard_numbers(groups, size, rows, shards))

    def groups_of(self, shard: int) -> Ints:
        count = len(self.groups)
        return self.groups[count * shard // self.shards : count * (shard + 1) // self.shards]

    def pool(self, shard: int) -> Ints:
        """The rows of a shard: what a task may draw its negatives from."""
        return rows_of_groups(self.groups_of(shard), group_size(self.rows), self.rows)


@dataclass
class Layout:
    """A pass's positives sorted by row, once; and the room in which they are sorted into blocks, every epoch.

    `others` is empty for a two-way pass; `columns` and `others` are the items and explanations of a three-way one.
    """

    pass_: Pass
    starts: NDArray[np.int64]  # of every group of rows
    rows: Ints
    source: NDArray[np.int64]  # triplet of every entry
    columns: Ints
    others: Ints
    entries: Entries
    known: Known
    block_rows: Ints
    block_columns: Ints  # of a two-way pass; entry numbers of a three-way one
    offsets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    @classmethod
    def of(cls, one: Pass, tables: Mapping[str, Table]) -> Layout:
        numbers = list(positives(one).values())
        source = np.argsort(numbers[0], kind="stable")
        rows, columns = numbers[0][source], numbers[1][source]
        indptr = np.zeros(tables[one.tables[0]].rows + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=len(indptr) - 1), out=indptr[1:])
        others, entries = NOTHING, Entries(NOTHING, NOTHING, NOTHING, NOTHING)
        if not isinstance(one, PairwisePass):
            others = numbers[2][source]
            entries = Entries(rows, columns, others, one.record_explanations.rows_of_entries()[source])
        known = Known(build_filters(one.known.indptr, one.known.indices), one.known.indptr, one.known.indices)
        starts = np.append(indptr[: -1 : group_size(len(indptr) - 1)], indptr[-1])
        room = np.empty((2, len(source)), np.int32)
        return cls(one, starts, rows, source, columns, others, entries, known, room[0], room[1])

    def sort(self, crew: Crew, partitions: Mapping[str, Partition], active: NDArray[np.bool_]) -> None:
        """Sort the entries whose triplet is active (all, if `active` is empty) into blocks of this epoch's shards."""
        names = self.pass_.tables
        own = partitions[names[0]]
        shards = own.shards
        blocks = shards if isinstance(self.pass_, PairwisePass) else shards * shards
        other_shards = partitions[names[2]].shard_of if len(names) > 2 else NO_SHARDS
        work = Sorting(
            self.starts, self.rows, self.columns, partitions[names[1]].shard_of, self.others, other_shards, shards,
            active[self.source] if len(active) else active,
        )  # fmt: skip
        counts = np.zeros((shards, blocks), np.int64)
        crew.run([partial(count_blocks, counts[a], own.groups_of(a), work) for a in range(shards)])
        self.offsets = np.concatenate([[0], np.cumsum(counts)])
        places = self.offsets[:-1].reshape(shards, blocks).copy()
        room = self.block_rows, self.block_columns
        crew.run([partial(fill_blocks, places[a], *room, own.groups_of(a), work) for a in range(shards)])

    def block(self, number: int) -> slice:
        return slice(int(self.offsets[number]), int(self.offsets[number + 1]))


def draw_partitions(
    crew: Crew, tables: Mapping[str, Table], shards: int, seed: int, epoch: int
) -> dict[str, Partition]:
    """A fresh partition of every table; it depends on the seed and the epoch's number only."""
    tasks: list[Callable[[], Partition]] = [
        partial(Partition.drawn, table.rows, shards, key_of(seed, ORDER_DOMAIN, epoch, number))
        for number, table in enumerate(tables.values())
    ]
    return dict(zip(tables, crew.run(tasks), strict=True))
