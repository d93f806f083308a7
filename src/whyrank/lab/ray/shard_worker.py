"""One machine of a fit: it owns some row shards with their positives, and runs the blocks of one machine on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.lab.ray.dataset import Dataset, bounds
from whyrank.lab.ray.fit_workers import FitWorker
from whyrank.lab.ray.positives import own_shards
from whyrank.lab.ray.ring import Ring
from whyrank.lab.ray.store import StateStore
from whyrank.thread_pool import ThreadPool
from whyrank.training.blocks import BlockSolver
from whyrank.training.passes import Ints, Pass, Table
from whyrank.training.settings import FactorSettings
from whyrank.training.shards import ROWS, Partition
from whyrank.training.storage import LANES, Storage, blocks_of, start_rows

Floats = NDArray[np.float32]
STARTED = 1 << 16  # rows that are started together


@dataclass(frozen=True, eq=False)
class FactorJob:
    """What is trained, from what and how; `settings` name the number of shards."""

    data: Dataset
    tables: dict[str, Table]
    passes: tuple[Pass, ...]
    settings: FactorSettings

    @property
    def shards(self) -> int:
        assert self.settings.shards is not None
        return self.settings.shards


@dataclass(frozen=True)
class ClusterState:
    """All tables after an epoch, in the store: each machine has written its rows of every part of a table."""

    store: StateStore
    folder: str
    machines: int

    def write(self, table: str, part: int, machine: int, rows: NDArray[np.integer], values: Floats) -> None:
        arrays = {"rows": rows.astype(np.int32), "values": values}
        self.store.write(f"{self.folder}/{table}-{part:03d}-{machine:03d}", arrays)

    def part(self, table: str, part: int, rows: int) -> Floats:
        """Padded rows of a part of a table with so many rows, in order."""
        first, end = bounds(rows, self.machines)[part : part + 2]
        found = [self.store.read(f"{self.folder}/{table}-{part:03d}-{n:03d}") for n in range(self.machines)]
        values = np.empty((end - first, found[0]["values"].shape[1]), np.float32)
        for piece in found:
            values[piece["rows"] - first] = piece["values"]
        return values


class ShardWorker(FitWorker):
    """The row shards of machine `me`. Of tables whose rows never travel it has only its own rows."""

    def __init__(self, job: FactorJob, me: int, host: str, secret: bytes, threads: int) -> None:
        super().__init__(me, host, secret)
        self.job, self.me, self.threads = job, me, ThreadPool(threads)
        self.rows: dict[str, Ints] = {}  # of which tables only some rows are here, and which

    def prepare(self, owners: NDArray[np.int16], watched: dict[str, Ints]) -> None:
        """Read the positives of the row shards that are this machine's.

        `watched` are rows that epochs report as they are afterwards.
        """
        job, settings = self.job, self.job.settings
        travels = {name for one in job.passes for name in one.tables[1:]}
        cuts = {
            name: Partition.drawn(table.rows, job.shards, settings.seed, ROWS, number)
            for number, (name, table) in enumerate(job.tables.items())
            if any(name == one.tables[0] for one in job.passes)
        }
        mine = np.flatnonzero(owners == self.me).tolist()
        self.rows = {n: np.concatenate([cut.pool(a) for a in mine]) for n, cut in cuts.items() if n not in travels}
        sizes = {name: len(self.rows.get(name, range(table.rows))) for name, table in job.tables.items()}
        self.storage = Storage({n: replace(t, rows=sizes[n], bias_start=None) for n, t in job.tables.items()})
        self.ring = Ring(self.storage, job.passes, owners, self.peers, cuts)
        by_record = settings.epoch_unit == "records"
        shards = [
            own_shards(job.data, one, cuts[one.tables[0]], self.ring.own, by_record, self.rows.get(one.tables[0]))
            for one in job.passes
        ]
        travel = self.ring if owners.max() else None
        self.solver = BlockSolver(self.storage, job.passes, settings, self.threads, rows=shards, travel=travel)
        self.order = {name: np.argsort(rows) for name, rows in self.rows.items()}
        self.wanted = watched

    def begin(self, state: ClusterState | None) -> None:
        """Tables as every fit starts them, or as a state has them."""
        for number, (name, table) in enumerate(self.job.tables.items()):
            limits = bounds(table.rows, state.machines) if state else [*range(0, table.rows, STARTED), table.rows]
            for part, (first, end) in enumerate(pairwise(limits)):
                if state:
                    values = state.part(name, part, table.rows)
                else:
                    values = np.zeros((end - first, LANES * len(blocks_of(table.factors))), np.float32)
                    start_rows(values, table, number, first, self.job.settings.seed, self.job.settings.factor_range)
                numbers = np.arange(first, end, dtype=np.int32)
                here, found = self._here(name, numbers)
                self.storage.whole(name)[here] = values[found]
            if name not in self.rows:
                self.ring.where[name] = None

    def epoch(self, number: int) -> tuple[int, int, dict[str, tuple[Any, Floats]]]:
        """Learn; the number of updates, of scores out of range, and the watched rows that are here."""
        updates, trouble = self.leaving(lambda: self.solver.epoch(number))
        return updates, trouble, {name: self._watched(name, rows) for name, rows in self.wanted.items()}

    def write(self, state: ClusterState) -> float:
        """Write what is here; the largest value of it (infinite for what is no number)."""
        largest = 0.0
        for name, table in self.job.tables.items():
            for part, (first, end) in enumerate(pairwise(bounds(table.rows, state.machines))):
                numbers = np.arange(first, end, dtype=np.int32)
                here, found = self._held(name, numbers)
                values = self.storage.whole(name)[here]
                state.write(name, part, self.me, numbers[found], values)
                biggest = float(np.abs(values).max(initial=0))
                largest = max(largest, biggest if biggest == biggest else float("inf"))
        return largest

    def close(self) -> None:
        super().close()
        self.threads.__exit__(None, None, None)

    def _watched(self, name: str, rows: Ints) -> tuple[Any, Floats]:
        here, found = self._held(name, rows)
        return found, self.storage.whole(name)[here]

    def _here(self, name: str, numbers: Ints) -> tuple[Any, Any]:
        """Places in this machine's table of those of some rows that it has room for; and which they are."""
        if name not in self.rows:
            return numbers, slice(None)
        rows, order = self.rows[name], self.order[name]
        at = np.minimum(np.searchsorted(rows, numbers, sorter=order), max(len(rows) - 1, 0))
        found = np.flatnonzero(rows[order[at]] == numbers) if len(rows) else np.empty(0, np.int64)
        return order[at[found]], found

    def _held(self, name: str, numbers: Ints) -> tuple[Any, Any]:
        """As `_here`, of the rows whose values are on this machine and on no other."""
        if name in self.rows:
            return self._here(name, numbers)
        where = self.ring.where[name]
        held = np.full(len(numbers), self.me == 0) if where is None else where[numbers] == self.me
        found = np.flatnonzero(held)
        return numbers[found], found
