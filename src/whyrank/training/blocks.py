"""The parallel solver: strata of tasks, no two of which write the same row of any table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels.rng import key_of
from whyrank.thread_pool import ThreadPool
from whyrank.training.passes import BlockOfPositives, Counts, Lanes, Pass
from whyrank.training.settings import FactorSettings
from whyrank.training.shards import ROWS, Partition, default_shards, row_shards, sorted_blocks
from whyrank.training.storage import Storage

TASK_DOMAIN = 3
Task = Callable[[], Counts]


class BlockSolver:
    """Runs epochs over `storage` in place.

    In a stratum, task a takes row shard a and in every column table the shard that lies the stratum's offset behind a.
    A two-way pass has a stratum for every offset, a three-way pass one for every two of them.
    """

    def __init__(
        self,
        storage: Storage,
        passes: Sequence[Pass],
        settings: FactorSettings,
        threads: ThreadPool,
        records: NDArray[np.int64] | None = None,
    ) -> None:
        self.storage, self.passes, self.settings, self.threads = storage, passes, settings, threads
        self.shards = settings.shards or default_shards(storage.tables, passes, passes[0].triplets)
        by_record = records if settings.epoch_unit == "records" else None
        self.rows = [row_shards(one, self._partition(one.tables[0], ROWS), by_record) for one in passes]
        self.groups = _independent(passes)

    def epoch(self, number: int) -> Counts:
        """One epoch; the number of pair updates and of scores out of range."""
        names = list(dict.fromkeys(name for one in self.passes for name in one.column_tables))
        drawn = self.threads.run([partial(self._partition, name, number) for name in names])
        partitions = dict(zip(names, drawn, strict=True))
        updates = trouble = 0
        for group in self.groups:
            strata = [list(self._strata(index, number, partitions)) for index in group]
            for stage in range(max(map(len, strata))):
                tasks = [task for one in strata for task in (one[stage] if stage < len(one) else ())]
                for done, bad in self.threads.run(tasks):
                    updates, trouble = updates + done, trouble + bad
        return updates, trouble

    def _partition(self, table: str, epoch: int) -> Partition:
        number = list(self.storage.tables).index(table)
        return Partition.drawn(self.storage.tables[table].rows, self.shards, self.settings.seed, epoch, number)

    def _strata(self, index: int, epoch: int, partitions: dict[str, Partition]) -> Iterator[list[Task]]:
        one, rows, seed = self.passes[index], self.rows[index], self.settings.seed
        columns = [partitions[name] for name in one.column_tables]
        blocks = self.threads.run([partial(sorted_blocks, own, columns, seed, epoch) for own in rows])
        pools = [columns[-1].pool(shard) for shard in range(self.shards)]
        tables = [self.storage.whole(name) for name in one.tables]
        lanes = Lanes(
            self.storage.masks(any(self.storage.tables[n].bias for n in one.bias_tables)), self.storage.blocks
        )
        rates = one.rates(self.passes, self.settings, epoch)
        for stratum, offsets in enumerate(product(range(self.shards), repeat=len(columns))):
            tasks: list[Task] = []
            for a, own in enumerate(rows):
                number, pool = block_of(a, offsets, self.shards)
                block = BlockOfPositives(*blocks[a].block(number), own.entries, own.known, pools[pool], pools[pool])
                key = key_of(seed, TASK_DOMAIN, epoch, index, stratum, a)
                tasks.append(partial(one.update, tables, block, lanes, rates, key))
            yield tasks


def block_of(a: int, offsets: Sequence[int], shards: int) -> tuple[int, int]:
    """The block of row shard `a` in a stratum, and the shard of the last column table that it has."""
    number = last = 0
    for offset in offsets:
        last = (a + offset) % shards
        number = number * shards + last
    return number, last


def _independent(passes: Sequence[Pass]) -> list[list[int]]:
    """Neighbouring passes that share no table, together: their strata run at the same time."""
    groups: list[list[int]] = []
    used: set[str] = set()
    for index, one in enumerate(passes):
        if groups and used.isdisjoint(one.tables):
            groups[-1].append(index)
            used |= set(one.tables)
        else:
            groups.append([index])
            used = set(one.tables)
    return groups
