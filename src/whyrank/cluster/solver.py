"""The epochs of a factor model as tasks of a cluster: what `training.blocks` does in place, on shards that travel."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise as neighbours
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.cluster.dataset import Dataset
from whyrank.cluster.partitions import OWN_ORDER, Cut, reshard
from whyrank.cluster.positives import Columns, read_part, row_shards, sort_shard
from whyrank.cluster.session import Cluster, Reference
from whyrank.kernels.negatives import Known
from whyrank.kernels.rng import key_of
from whyrank.kernels.triple import Entries
from whyrank.training.blocks import TASK_DOMAIN, block_of
from whyrank.training.passes import BlockOfPositives, Lanes, Pass, Table
from whyrank.training.settings import FactorSettings
from whyrank.training.shards import ROWS, SortedBlocks, default_shards
from whyrank.training.storage import blocks_of, masks_of, start_rows

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ClusterJob:
    """What is trained, from what, how and where."""

    cluster: Cluster
    data: Dataset
    tables: dict[str, Table]
    passes: tuple[Pass, ...]
    settings: FactorSettings

    @property
    def shards(self) -> int:
        return self.settings.shards or default_shards(self.tables, self.passes, self.data.triplets)


@dataclass(frozen=True)
class BlockTask:
    """One task of a pass: which block of a row shard's positives, and which shard negatives are drawn from."""

    one: Pass
    number: int
    columns: Cut
    shard: int
    lanes: Lanes
    rates: tuple[Any, ...]
    key: int


class ClusterSolver:
    """Runs epochs over tables of which this process has references only.

    Tasks follow each other by the shards they need, without barriers: a slow machine holds up only what waits for it.
    """

    def __init__(self, job: ClusterJob) -> None:
        self.cluster, self.tables, self.passes, self.settings = job.cluster, job.tables, job.passes, job.settings
        self.shards, self.width = job.shards, next(iter(job.tables.values())).factors
        # A further table of explanations lies as the first one does.
        self.follows = {
            name: one.column_tables[-1] for one in job.passes for name in one.tables[1 + len(one.column_tables) :]
        }
        by_record, parts = job.settings.epoch_unit == "records", dict[Columns, list[Reference]]()
        self.rows: list[list[Reference]] = []
        for one in job.passes:
            take = Columns.of(one)
            if take not in parts:
                parts[take] = [job.cluster.submit(read_part, job.data, take, part) for part in range(job.data.parts)]
            self.rows.append(row_shards(job.cluster, parts[take], take, self.cut(one.tables[0], ROWS), by_record))
        self.values: dict[str, list[Reference]] = {}
        self.cuts: dict[str, Cut] = {}  # as the tables lie

    def cut(self, table: str, epoch: int) -> Cut:
        number = list(self.tables).index(self.follows.get(table, table))
        return Cut(self.tables[table].rows, self.shards, self.settings.seed, epoch, number)

    def start(self) -> None:
        """Tables as every fit starts them."""
        for number, (name, table) in enumerate(self.tables.items()):
            limits = np.cumsum([0, *self.cut(name, OWN_ORDER).sizes()]).tolist()
            shards = [
                self.cluster.submit(started, table, number, first, end, self.settings.seed, self.settings.factor_range)
                for first, end in neighbours(limits)
            ]
            self.set_table(name, shards)

    def set_table(self, name: str, shards: list[Reference]) -> None:
        """Take a table in its own order."""
        self.values[name], self.cuts[name] = shards, self.cut(name, OWN_ORDER)

    def lay_out(self, name: str, epoch: int) -> None:
        """Bring a table into a cut."""
        cut = self.cut(name, epoch)
        if cut != self.cuts[name]:
            self.values[name] = reshard(self.cluster, self.values[name], self.cuts[name], cut)
            self.cuts[name] = cut

    def epoch(self, number: int) -> tuple[int, int]:
        """One epoch; the number of pair updates and of scores out of range."""
        counts = [count for index in range(len(self.passes)) for count in self._pass(index, number)]
        updates, trouble = np.sum(self.cluster.gather(counts), axis=0).tolist()
        return updates, trouble

    def _pass(self, index: int, epoch: int) -> list[Reference]:
        one, shards, seed = self.passes[index], self.shards, self.settings.seed
        for name in one.tables:
            self.lay_out(name, ROWS if name == one.tables[0] else epoch)
        cuts = tuple(self.cuts[name] for name in one.column_tables)
        work = [self.cluster.submit(sort_shard, own, cuts, seed, epoch) for own in self.rows[index]]
        biased = any(self.tables[name].bias for name in one.bias_tables)
        lanes = Lanes(masks_of(self.width, biased), blocks_of(self.width))
        rates, counts = tuple(one.rates(self.passes, self.settings, epoch)), []
        for stratum, offsets in enumerate(product(range(shards), repeat=len(cuts))):
            for a in range(shards):
                number, shard = block_of(a, offsets, shards)
                key = int(key_of(seed, TASK_DOMAIN, epoch, index, stratum, a))
                task = BlockTask(one, number, cuts[-1], shard, lanes, rates, key)
                places = [a, *((a + offset) % shards for offset in offsets)]
                places += [shard] * (len(one.tables) - len(places))
                given = [self.values[name][place] for name, place in zip(one.tables, places, strict=True)]
                *found, count = self.cluster.submit_many(len(given) + 1, learn_block, task, work[a], *given)
                for name, place, reference in zip(one.tables, places, found, strict=True):
                    self.values[name][place] = reference
                counts.append(count)
        return counts


# -- what machines do --------------------------------------------------------------------------------------------------


def started(table: Table, number: int, first: int, end: int, seed: int, factor_range: float) -> Floats:
    """Rows first ... end - 1 of a table at the start of a training."""
    rows = np.zeros((end - first, 8 * len(blocks_of(table.factors))), np.float32)
    start_rows(rows, table, number, first, seed, factor_range)
    return rows


def learn_block(
    task: BlockTask, work: tuple[SortedBlocks, Entries, Known], *shards: Floats
) -> tuple[Floats | tuple[int, int], ...]:
    """The update of a block; the shards as they are afterwards, the numbers of updates and of scores out of range."""
    tables = [shard.copy() for shard in shards]  # what is shared is never written to
    blocks, entries, known = work
    pool = task.columns.pool(task.shard)
    here = np.arange(len(pool), dtype=np.int32)
    block = BlockOfPositives(*blocks.block(task.number), entries, known, pool, here)
    return *tables, task.one.update(tables, block, task.lanes, task.rates, task.key)
