"""A table in shards on several machines: where each row lies in an epoch, and how shards become the next epoch's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from whyrank.cluster.session import Cluster, Reference
from whyrank.kernels.shards import locate
from whyrank.training.shards import NO_SHARDS, Partition, group_size

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
CACHED = 8  # cuts a worker remembers: those of four tables, before and after
OWN_ORDER = -1  # in place of an epoch's number


@dataclass(frozen=True)
class Cut:
    """How a table is cut: as columns in an epoch, as rows during a fit (`shards.ROWS`), or in its own order.

    It is a few numbers that travel anywhere and stand for arrays that every worker makes for itself.
    """

    rows: int
    shards: int
    seed: int
    epoch: int
    number: int  # of the table that the permutation is drawn for

    @property
    def partition(self) -> Partition:
        return _drawn(self)[0]

    def sizes(self) -> list[int]:
        return [len(self.pool(shard)) for shard in range(self.shards)]

    def pool(self, shard: int) -> Ints:
        """The rows of a shard, in its order."""
        return self.partition.pool(shard)

    def locate(self, rows: Ints) -> tuple[NDArray[np.uint8], Ints]:
        """The shard of each of some rows, and its place there."""
        return locate(rows, _drawn(self)[1], group_size(self.rows), self.rows, self.shards)


@lru_cache(CACHED)
def _drawn(cut: Cut) -> tuple[Partition, Ints]:
    """The partition, and the place of every group of rows in it."""
    if cut.epoch == OWN_ORDER:
        size = group_size(cut.rows)
        groups = np.arange((cut.rows + size - 1) // size, dtype=np.int32)
        partition = Partition(cut.rows, cut.shards, groups, NO_SHARDS)
    else:
        partition = Partition.drawn(cut.rows, cut.shards, cut.seed, cut.epoch, cut.number)
    order = np.empty(len(partition.groups), np.int32)
    order[partition.groups] = np.arange(len(order), dtype=np.int32)
    return partition, order


def bounds(rows: int, shards: int) -> list[int]:
    """Where the shards of a table in its own order start, and the end."""
    size = group_size(rows)
    count = (rows + size - 1) // size
    return [min(count * shard // shards * size, rows) for shard in range(shards + 1)]


def reshard(cluster: Cluster, shards: Sequence[Reference], old: Cut, new: Cut) -> list[Reference]:
    """All rows to where the new cut has them."""
    pieces = [cluster.submit_many(new.shards, scatter, values, old, new, o) for o, values in enumerate(shards)]
    return [cluster.submit(collect, old, new, n, *(piece[n] for piece in pieces)) for n in range(new.shards)]


def scatter(values: Floats, old: Cut, new: Cut, shard: int) -> list[Floats] | Floats:
    """A shard's rows by the new shard they go to, in the order that they will have there."""
    to, place = new.locate(old.pool(shard))
    order = in_order(to, place)
    ends = np.cumsum(np.bincount(to, minlength=new.shards))[:-1]
    pieces = np.split(values[order], ends)
    return pieces if new.shards > 1 else pieces[0]


def in_order(shard: NDArray[np.uint8], place: Ints) -> NDArray[np.int64]:
    """Shard after shard, by place."""
    return np.argsort(shard.astype(np.int64) << 32 | place)


def collect(old: Cut, new: Cut, shard: int, *pieces: Floats) -> Floats:
    """A new shard, from the pieces of all old ones."""
    came_from, _ = old.locate(new.pool(shard))
    values = np.empty((len(came_from), pieces[0].shape[1]), np.float32)
    for number, piece in enumerate(pieces):
        values[came_from == number] = piece
    return values
