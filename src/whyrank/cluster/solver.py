"""The engine's epoch as tasks of a cluster: what `training.blocks` does in place, on shards that travel."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise as neighbours
from itertools import product

import numpy as np
from numpy.typing import NDArray

from whyrank.cluster.dataset import Dataset
from whyrank.cluster.partitions import Cut, reshard
from whyrank.cluster.positives import Columns, read_part, sort_pass
from whyrank.cluster.session import Cluster, Reference
from whyrank.cluster.store import Arrays
from whyrank.kernels.negatives import Known
from whyrank.kernels.pairwise import Rates, pairwise_task
from whyrank.kernels.rng import key_of
from whyrank.kernels.triple import Entries, TripleRates, triple_task
from whyrank.training.blocks import TASK_DOMAIN, pairwise_rates, triple_rates
from whyrank.training.passes import PairwisePass, Pass, Settings, Table
from whyrank.training.shards import default_shards
from whyrank.training.storage import blocks_of, masks_of, start_rows

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Job:
    """What is trained, from what, how and where."""

    cluster: Cluster
    data: Dataset
    tables: dict[str, Table]
    passes: tuple[Pass, ...]
    settings: Settings

    @property
    def shards(self) -> int:
        return self.settings.shards or default_shards(self.tables, self.passes, self.data.triplets)


@dataclass(frozen=True)
class Block:
    """One task of a pass: which block of the row shard's positives, against which shard of the columns' table."""

    number: int
    columns: Cut
    column_shard: int
    width: int
    bias: bool
    rates: tuple[np.float32, ...]
    key: int


class ClusterSolver:
    """Runs epochs over tables of which this process has references only.

    Tasks follow each other by the shards they need, without barriers: a slow machine holds up only what waits for it.
    """

    def __init__(self, job: Job) -> None:
        self.cluster, self.tables, self.passes, self.settings = job.cluster, job.tables, job.passes, job.settings
        self.shards = job.shards
        self.width = next(iter(self.tables.values())).factors
        self.follows = _follows(self.passes)
        self.takes = [Columns.of(one) for one in self.passes]
        self.parts = {
            take: [self.cluster.submit(read_part, job.data, take, number) for number in range(job.data.parts)]
            for take in dict.fromkeys(self.takes)
        }
        self.values: dict[str, list[Reference]] = {}
        self.epoch_cut = 0  # the epoch by whose cuts the tables lie

    def cut(self, table: str, epoch: int) -> Cut:
        """How a table is cut; the second table of explanations of a three-way pass lies as the first one does."""
        number = list(self.tables).index(self.follows.get(table, table))
        return Cut(self.tables[table].rows, self.shards, self.settings.seed, epoch, number)

    def start(self) -> None:
        """Tables as every fit starts them."""
        for number, (name, table) in enumerate(self.tables.items()):
            limits = np.cumsum([0, *self.cut(name, 0).sizes()]).tolist()
            self.values[name] = [
                self.cluster.submit(started, table, number, first, end, self.settings.seed, self.settings.factor_range)
                for first, end in neighbours(limits)
            ]
        self.epoch_cut = 0

    def lay_out(self, epoch: int) -> None:
        """Bring all tables into the cut of an epoch; 0 is their own order."""
        for name, shards in self.values.items():
            self.values[name] = reshard(self.cluster, shards, self.cut(name, self.epoch_cut), self.cut(name, epoch))
        self.epoch_cut = epoch

    def epoch(self, number: int) -> tuple[int, int]:
        """One epoch; the number of pair updates and of scores out of range."""
        self.lay_out(number)
        counts: list[Reference] = []
        for index, one in enumerate(self.passes):
            counts += self._pairwise(index, number) if isinstance(one, PairwisePass) else self._triple(index, number)
        updates, trouble = np.sum(self.cluster.gather(counts), axis=0).tolist()
        return updates, trouble

    def _work(self, index: int, epoch: int) -> list[Reference]:
        cuts = tuple(self.cut(name, epoch) for name in self.passes[index].tables[: 1 + len(self.takes[index].columns)])
        by_record = self.settings.epoch_unit == "records"
        return sort_pass(self.cluster, self.parts[self.takes[index]], self.takes[index], cuts, by_record)

    def _pairwise(self, index: int, epoch: int) -> list[Reference]:
        one, work, shards = self.passes[index], self._work(index, epoch), self.shards
        rates = pairwise_rates(self.passes, one, self.settings, epoch)
        rows, columns = (self.values[name] for name in one.tables)
        bias, cut, counts = self.tables[one.tables[1]].bias, self.cut(one.tables[1], epoch), []
        for stratum, a in product(range(shards), range(shards)):
            c = (a + stratum) % shards
            key = int(key_of(self.settings.seed, TASK_DOMAIN, epoch, index, stratum, a))
            block = Block(c, cut, c, self.width, bias, rates, key)
            rows[a], columns[c], count = self.cluster.submit_many(3, pairwise, rows[a], columns[c], work[a], block)
            counts.append(count)
        return counts

    def _triple(self, index: int, epoch: int) -> list[Reference]:
        one, work, shards = self.passes[index], self._work(index, epoch), self.shards
        rates = triple_rates(self.passes, one, self.settings, epoch)
        users, items, *explanations = (self.values[name] for name in one.tables)
        cut, counts = self.cut(one.tables[2], epoch), []
        for stratum, a in product(range(shards * shards), range(shards)):
            b, c = (a + stratum // shards) % shards, (a + stratum % shards) % shards
            key = int(key_of(self.settings.seed, TASK_DOMAIN, epoch, index, stratum, a))
            block = Block(b * shards + c, cut, c, self.width, False, rates, key)
            lists = [(users, a), (items, b), *((table, c) for table in explanations)]
            found = self.cluster.submit_many(
                len(lists) + 1, triple, work[a], block, *(table[shard] for table, shard in lists)
            )
            for (table, shard), reference in zip(lists, found, strict=False):
                table[shard] = reference
            counts.append(found[-1])
        return counts


def _follows(passes: tuple[Pass, ...]) -> dict[str, str]:
    return {
        second: one.explanations[0]
        for one in passes
        if not isinstance(one, PairwisePass)
        for second in one.explanations[1:]
    }


# -- what machines do --------------------------------------------------------------------------------------------------


def started(table: Table, number: int, first: int, end: int, seed: int, factor_range: float) -> Floats:
    """Rows first ... end - 1 of a table at the start of a training."""
    rows = np.zeros((end - first, 8 * len(blocks_of(table.factors))), np.float32)
    start_rows(rows, table, number, first, seed, factor_range)
    return rows


def pairwise(rows: Floats, columns: Floats, work: Arrays, block: Block) -> tuple[Floats, Floats, tuple[int, int]]:
    """The engine's task of a two-way pass; the shards as they are afterwards, updates and trouble."""
    rows, columns = rows.copy(), columns.copy()  # what is shared is never written to
    inside = _inside(work, block)
    pool = block.columns.pool(block.column_shard)
    counts = pairwise_task(
        rows, columns, work["rows"][inside], work["columns"][inside], pool, np.arange(len(pool), dtype=np.int32),
        _known(work), masks_of(block.width, block.bias), blocks_of(block.width), Rates(*block.rates),
        np.uint64(block.key),
    )  # fmt: skip
    return rows, columns, counts


def triple(work: Arrays, block: Block, *shards: Floats) -> tuple[Floats | tuple[int, int], ...]:
    """The engine's task of a three-way pass: users, items and one (CD) or two (PITF) tables of explanations."""
    users, items, by_user, *rest = (shard.copy() for shard in shards)
    by_item = rest[0] if rest else by_user
    pool = block.columns.pool(block.column_shard)
    entries = Entries(work["user"], work["item"], work["explanation"], work["record"])
    counts = triple_task(
        users, items, by_user, by_item, not rest, work["chosen"][_inside(work, block)], entries, pool,
        np.arange(len(pool), dtype=np.int32), _known(work), masks_of(block.width, False), blocks_of(block.width),
        TripleRates(*block.rates), np.uint64(block.key),
    )  # fmt: skip
    return users, items, by_user, *rest, counts


def _inside(work: Arrays, block: Block) -> slice:
    return slice(int(work["offsets"][block.number]), int(work["offsets"][block.number + 1]))


def _known(work: Arrays) -> Known:
    return Known(work["filters"], work["indptr"], work["indices"])
