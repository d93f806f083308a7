"""The parallel solver: strata of tasks, no two of which write the same row of any table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from whyrank.crew import Crew
from whyrank.kernels.pairwise import Rates, pairwise_task
from whyrank.kernels.rng import key_of
from whyrank.kernels.triple import TripleRates, triple_task
from whyrank.training.passes import PairwisePass, Pass, Settings, sharing, sharing_bias
from whyrank.training.shards import Layout, Partition, default_shards, draw_partitions
from whyrank.training.storage import Storage

TASK_DOMAIN = 3
Task = Callable[[], tuple[int, int]]
Partitions = dict[str, Partition]


class BlockSolver:
    """Runs epochs over `storage` in place.

    In stratum s of a two-way pass, task a takes row shard a and column shard a + s. In stratum (s, t) of a three-way
    pass it takes user shard a, item shard a + s and explanation shard a + t. All modulo the number of shards.
    """

    def __init__(self, storage: Storage, passes: tuple[Pass, ...], settings: Settings, crew: Crew) -> None:
        self.storage, self.passes, self.settings, self.crew = storage, passes, settings, crew
        self.shards = settings.shards or default_shards(storage.tables, passes, passes[0].triplets)
        self.layouts = [Layout.of(one, storage.tables) for one in passes]
        self.groups = _independent(passes)

    def epoch(self, number: int, active: NDArray[np.bool_]) -> tuple[int, int]:
        """One epoch over the active triplets; the number of pair updates and of scores out of range."""
        partitions = draw_partitions(self.crew, self.storage.tables, self.shards, self.settings.seed, number)
        for layout in self.layouts:
            layout.sort(self.crew, partitions, active)
        updates = trouble = 0
        for group in self.groups:
            strata = [self._strata(index, number, partitions) for index in group]
            for stage in range(max(map(len, strata))):
                tasks = [task for one in strata for task in (one[stage] if stage < len(one) else ())]
                for done, bad in self.crew.run(tasks):
                    updates, trouble = updates + done, trouble + bad
        return updates, trouble

    def _strata(self, index: int, epoch: int, partitions: Partitions) -> list[list[Task]]:
        make = self._pairwise if isinstance(self.passes[index], PairwisePass) else self._triple
        return make(index, epoch, partitions)

    def _pairwise(self, index: int, epoch: int, partitions: Partitions) -> list[list[Task]]:
        one, layout, shards = self.passes[index], self.layouts[index], self.shards
        assert isinstance(one, PairwisePass)
        rows, columns = self.storage.whole(one.rows), self.storage.whole(one.columns)
        pools = [partitions[one.columns].pool(shard) for shard in range(shards)]
        masks = self.storage.masks(self.storage.tables[one.columns].bias)
        rates = pairwise_rates(self.passes, one, self.settings, epoch)

        def task(stratum: int, a: int) -> Task:
            c = (a + stratum) % shards
            block = layout.block(a * shards + c)
            key = key_of(self.settings.seed, TASK_DOMAIN, epoch, index, stratum, a)
            return partial(
                pairwise_task, rows, columns, layout.block_rows[block], layout.block_columns[block],
                pools[c], pools[c], layout.known, masks, self.storage.blocks, rates, key,
            )  # fmt: skip

        return [[task(stratum, a) for a in range(shards)] for stratum in range(shards)]

    def _triple(self, index: int, epoch: int, partitions: Partitions) -> list[list[Task]]:
        one, layout, shards = self.passes[index], self.layouts[index], self.shards
        assert not isinstance(one, PairwisePass)
        names = one.users, one.items, one.explanations[0], one.explanations[-1]
        pools = [partitions[names[2]].pool(shard) for shard in range(shards)]
        users, items, by_user, by_item = (self.storage.whole(name) for name in names)
        rates = triple_rates(self.passes, one, self.settings, epoch)

        def task(stratum: int, a: int) -> Task:
            b, c = (a + stratum // shards) % shards, (a + stratum % shards) % shards
            block = layout.block((a * shards + b) * shards + c)
            key = key_of(self.settings.seed, TASK_DOMAIN, epoch, index, stratum, a)
            return partial(
                triple_task, users, items, by_user, by_item, one.form == "cd", layout.block_columns[block],
                layout.entries, pools[c], pools[c], layout.known, self.storage.masks(False), self.storage.blocks,
                rates, key,
            )  # fmt: skip

        return [[task(stratum, a) for a in range(shards)] for stratum in range(shards * shards)]


def pairwise_rates(passes: tuple[Pass, ...], one: Pass, settings: Settings, epoch: int) -> Rates:
    """The rates of a two-way pass in an epoch."""
    keep_row, keep_positive = (_keep(settings, epoch, sharing(passes, name)) for name in one.tables)
    keep_bias = _keep(settings, epoch, sharing_bias(passes, one.tables[1]))
    return Rates(_step(one, settings, epoch), keep_row, keep_positive, keep_bias, _keep(settings, epoch))


def triple_rates(passes: tuple[Pass, ...], one: Pass, settings: Settings, epoch: int) -> TripleRates:
    """The rates of a three-way pass in an epoch."""
    keep_user, keep_item, keep_positive = (_keep(settings, epoch, sharing(passes, name)) for name in one.tables[:3])
    return TripleRates(_step(one, settings, epoch), keep_user, keep_item, keep_positive, _keep(settings, epoch))


def _step(one: Pass, settings: Settings, epoch: int) -> np.float32:
    return np.float32(float(settings.rate(epoch)) * one.weight)


def _keep(settings: Settings, epoch: int, passes: int = 1) -> np.float32:
    """What regularization leaves of values that so many passes share."""
    return np.float32(1 - float(settings.rate(epoch)) * settings.regularization / passes)


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
