"""The parallel solver: strata of tasks, no two of which write the same row of any table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.rng import key_of
from whyrank.thread_pool import ThreadPool
from whyrank.training._pairwise import BlockPositives
from whyrank.training.passes import Counts, Pass
from whyrank.training.settings import FactorSettings
from whyrank.training.shards import ROWS, Partition, default_shards, row_shards, sorted_blocks
from whyrank.training.storage import Storage

TASK_DOMAIN = 3
Task = Callable[[], Counts]


class Columns(NamedTuple):
    """The column tables of a pass that lie alike in a stage.

    Row shard a meets the shard of theirs that lies `now` behind it, and in the next stage the one `then` behind.
    """

    tables: tuple[str, ...]
    cut: Partition
    now: int
    then: int


class Stage(NamedTuple):
    """Tasks that may run at the same time: a stratum of each of some passes that share no table."""

    tasks: list[Task]
    columns: list[Columns]
    passes: list[int]
    last: bool  # of these passes


class BlockSolver:
    """Runs epochs over `storage` in place.

    In a stratum, task a takes row shard a and in every column table the shard that lies the stratum's offset behind a.
    A two-way pass has a stratum for every offset, a three-way pass one for every two of them. `own` are the row shards
    whose tasks are run here; None: all.
    """

    def __init__(
        self,
        storage: Storage,
        passes: Sequence[Pass],
        settings: FactorSettings,
        threads: ThreadPool,
        records: NDArray[np.int64] | None = None,
        own: range | None = None,
    ) -> None:
        self.storage, self.passes, self.settings, self.threads = storage, passes, settings, threads
        self.shards = settings.shards or default_shards(storage.tables, passes, passes[0].triplets)
        self.own = range(self.shards) if own is None else own
        by_record = records if settings.epoch_unit == "records" else None
        shards = [row_shards(one, self.rows_of(one.tables[0]), by_record) for one in passes]
        self.rows = [found[self.own.start : self.own.stop] for found in shards]
        self.groups = independent(passes)

    def epoch(self, number: int) -> Counts:
        """One epoch; the number of pair updates and of scores out of range."""
        updates = trouble = 0
        for stage in self.stages(number):
            done, bad = self.run(stage)
            updates, trouble = updates + done, trouble + bad
        return updates, trouble

    def run(self, stage: Stage) -> Counts:
        """Run the tasks of a stage; updates, and scores out of range."""
        found = self.threads.run(stage.tasks)
        return sum(done for done, _ in found), sum(bad for _, bad in found)

    def gather(self) -> None:
        """Everything is in the storage already."""

    def stages(self, epoch: int) -> Iterator[Stage]:
        """The stages of an epoch, each to be run before the next one is asked for."""
        names = list(dict.fromkeys(name for one in self.passes for name in one.column_tables))
        drawn = self.threads.run([partial(self._partition, name, epoch) for name in names])
        partitions = dict(zip(names, drawn, strict=True))
        for group in self.groups:
            columns = [[partitions[name] for name in self.passes[index].column_tables] for index in group]
            strata = [list(product(range(self.shards), repeat=len(cuts))) for cuts in columns]
            tasks = [self._strata(index, epoch, cuts) for index, cuts in zip(group, columns, strict=True)]
            length = max(map(len, strata))
            for at in range(length):
                lying = [
                    Columns(tables, cut, now, then)
                    for index, cuts, offsets in zip(group, columns, strata, strict=True)
                    for tables, cut, now, then in zip(
                        _alike(self.passes[index]), cuts, offsets[min(at, len(offsets) - 1)],
                        offsets[min(at + 1, len(offsets) - 1)], strict=True,
                    )
                ]  # fmt: skip
                now = [task for stratum in tasks for task in next(stratum, [])]
                yield Stage(now, lying, group, at + 1 == length)

    def rows_of(self, table: str) -> Partition:
        """The cut of a table's rows, which is the same in a whole fit."""
        return self._partition(table, ROWS)

    def _partition(self, table: str, epoch: int) -> Partition:
        number = list(self.storage.tables).index(table)
        return Partition.drawn(self.storage.tables[table].rows, self.shards, self.settings.seed, epoch, number)

    def _strata(self, index: int, epoch: int, columns: Sequence[Partition]) -> Iterator[list[Task]]:
        one, rows, seed = self.passes[index], self.rows[index], self.settings.seed
        blocks = self.threads.run([partial(sorted_blocks, own, columns, seed, epoch) for own in rows])
        pools = [columns[-1].pool(shard) for shard in range(self.shards)]
        tables = [self.storage.whole(name) for name in one.tables]
        layout = self.storage.layout(any(self.storage.tables[n].bias for n in one.bias_tables))
        rates = one.rates(self.passes, self.settings, epoch)
        for stratum, offsets in enumerate(product(range(self.shards), repeat=len(columns))):
            tasks: list[Task] = []
            for a, own, sorted_ in zip(self.own, rows, blocks, strict=True):
                number, pool = block_of(a, offsets, self.shards)
                block = BlockPositives(*sorted_.block(number), pools[pool])
                key = key_of(seed, TASK_DOMAIN, epoch, index, stratum, a)
                tasks.append(partial(one.update, tables, own, block, layout, rates, key))
            yield tasks


def _alike(one: Pass) -> list[tuple[str, ...]]:
    """The column tables of a pass; a further table of explanations lies as the first one does."""
    count = len(one.column_tables)
    return [*((name,) for name in one.column_tables[:-1]), one.tables[count:]]


def block_of(a: int, offsets: Sequence[int], shards: int) -> tuple[int, int]:
    """The block of row shard `a` in a stratum, and the shard of the last column table that it has."""
    number = last = 0
    for offset in offsets:
        last = (a + offset) % shards
        number = number * shards + last
    return number, last


def independent(passes: Sequence[Pass]) -> list[list[int]]:
    """Group neighbouring passes that share no table: their strata run at the same time."""
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
