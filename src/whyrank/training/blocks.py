"""The parallel solver: strata of tasks, no two of which write the same row of any table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product, zip_longest
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from whyrank.rng import key_of
from whyrank.thread_pool import ThreadPool
from whyrank.training.passes import BlockOfPositives, Counts, Pass, RowLayout
from whyrank.training.settings import FactorSettings
from whyrank.training.shards import ROWS, Partition, RowShard, default_shards, row_shards, sorted_blocks
from whyrank.training.storage import Storage

TASK_DOMAIN = 3
Task = Callable[[], Counts]
Offsets = Sequence[tuple[int, ...]]  # of every stratum: how far behind a row shard its shard of each column table lies


class Travel(Protocol):
    """What brings columns to this machine, and takes them on, where several machines share the row shards."""

    own: range  # the row shards of this machine

    def gather(self, epoch: int, index: int, columns: Sequence[Partition]) -> Callable[[], None]:
        """Start to bring the columns of a pass to where its first stratum needs them; the answer waits for them."""
        ...

    def carried(self, work: Task, index: int, strata: Offsets, stratum: int, a: int) -> Task:
        """A task that waits for the columns it needs from elsewhere, and sends on those that others need next."""
        ...


class BlockSolver:
    """Runs epochs over `storage` in place.

    In a stratum, task a takes row shard a and in every column table the shard that lies the stratum's offset behind a.
    A two-way pass has a stratum for every offset, a three-way pass one for every two of them. One machine of several
    is given the row shards that it owns (`rows`, with their rows as they are numbered in its storage) and `travel`.
    """

    def __init__(
        self,
        storage: Storage,
        passes: Sequence[Pass],
        settings: FactorSettings,
        threads: ThreadPool,
        records: NDArray[np.int64] | None = None,
        *,
        rows: Sequence[Sequence[RowShard]] = (),
        travel: Travel | None = None,
    ) -> None:
        self.storage, self.passes, self.settings, self.threads = storage, passes, settings, threads
        self.shards = settings.shards or default_shards(storage.tables, passes, passes[0].triplets)
        by_record = records if settings.epoch_unit == "records" else None
        self.rows = rows or [row_shards(one, self._partition(one.tables[0], ROWS), by_record) for one in passes]
        self.groups = _independent(passes)
        self.travel, self.own = travel, travel.own if travel else range(self.shards)

    def epoch(self, number: int) -> Counts:
        """One epoch; the number of pair updates and of scores out of range."""
        names = list(dict.fromkeys(name for one in self.passes for name in one.column_tables))
        drawn = self.threads.run([partial(self._partition, name, number) for name in names])
        partitions = dict(zip(names, drawn, strict=True))
        updates = trouble = 0
        for group in self.groups:
            columns = [[partitions[name] for name in self.passes[index].column_tables] for index in group]
            waiting = [self.travel.gather(number, *each) for each in zip(group, columns, strict=True) if self.travel]
            strata = [list(self._strata(index, number, own)) for index, own in zip(group, columns, strict=True)]
            for arrive in waiting:
                arrive()
            for stage in zip_longest(*strata, fillvalue=[]):
                # First tasks first: other machines wait for their columns, and the last tasks for those of others.
                tasks = [task for same in zip_longest(*stage) for task in same if task]
                for done, bad in self.threads.run(tasks):
                    updates, trouble = updates + done, trouble + bad
        return updates, trouble

    def _partition(self, table: str, epoch: int) -> Partition:
        number = list(self.storage.tables).index(table)
        return Partition.drawn(self.storage.tables[table].rows, self.shards, self.settings.seed, epoch, number)

    def _strata(self, index: int, epoch: int, columns: Sequence[Partition]) -> Iterator[list[Task]]:
        one, rows, seed = self.passes[index], self.rows[index], self.settings.seed
        blocks = self.threads.run([partial(sorted_blocks, own, columns, seed, epoch) for own in rows])
        pools = [columns[-1].pool(shard) for shard in range(self.shards)]
        tables = [self.storage.whole(name) for name in one.tables]
        lanes = RowLayout(
            self.storage.masks(any(self.storage.tables[n].bias for n in one.bias_tables)), self.storage.blocks
        )
        rates = one.rates(self.passes, self.settings, epoch)
        strata = list(product(range(self.shards), repeat=len(columns)))
        for stratum, offsets in enumerate(strata):
            tasks: list[Task] = []
            for a, own, sorted_ in zip(self.own, rows, blocks, strict=True):
                number, pool = block_of(a, offsets, self.shards)
                block = BlockOfPositives(*sorted_.block(number), own.entries, own.known, pools[pool], pools[pool])
                key = key_of(seed, TASK_DOMAIN, epoch, index, stratum, a)
                work: Task = partial(one.update, tables, block, lanes, rates, key)
                tasks.append(self.travel.carried(work, index, strata, stratum, a) if self.travel else work)
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
