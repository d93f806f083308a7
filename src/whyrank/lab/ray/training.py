"""Training of factor models on several machines: each runs the blocks of its row shards, and hands columns on.

Every machine has all tables, and of a fit's row shards some neighbouring ones, in the ring of which a shard of columns
moves on by one from stratum to stratum. What leaves a machine goes through Ray's object store, as rows and values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ClusterError, ParameterError
from whyrank.lab.ray import session
from whyrank.lab.ray.session import Cluster, Handle, Lost, Machine, Reference
from whyrank.models import Model
from whyrank.models.factors import FactorModel
from whyrank.thread_pool import ThreadPool
from whyrank.training.blocks import BlockSolver, Stage, independent
from whyrank.training.passes import Counts, Ints, Pass
from whyrank.training.settings import FactorSettings
from whyrank.training.shards import default_shards
from whyrank.training.storage import Storage, Table
from whyrank.version import __version__

Floats = NDArray[np.float32]
LOSSES = 5  # how often in a row machines may be lost


class TableRows(NamedTuple):
    """Some rows of a table, on their way to another machine."""

    table: str
    rows: Ints
    values: Floats


@dataclass(frozen=True, eq=False)
class Task:
    """What is trained, from what and how; `settings` name the number of shards."""

    tables: dict[str, Table]
    passes: tuple[Pass, ...]
    settings: FactorSettings
    records: NDArray[np.int64] | None
    reported: dict[str, Ints]  # rows that are wanted after every epoch

    @property
    def travelling(self) -> set[str]:
        """Tables whose rows several machines change."""
        return {name for one in self.passes for name in one.tables[1:]}


@contextmanager
def solver_on(cluster: Cluster, model: Model, threads: int | None = None) -> Iterator[Callable[..., ClusterSolver]]:
    """Yield what `Run.solver` takes, for a model's fit on the machines of a cluster.

    Args:
        cluster: as `session.connect` gives it.
        model: what is fitted; it must train in blocks.
        threads: of each machine; None: all of its cores.

    Raises:
        ParameterError: The model trains on one machine.
        ClusterError: No machine has so many cores.
    """
    require_blocks(model)
    cluster.machines(threads or 1)
    started: list[ClusterSolver] = []

    def solver(*arguments: Any) -> ClusterSolver:
        started.append(ClusterSolver(cluster, threads, *arguments))
        return started[-1]

    try:
        yield solver
    finally:
        for each in started:
            each.dismiss()


def require_blocks(model: Model) -> None:
    """Raise unless a model trains in blocks, which machines can share."""
    if not isinstance(model, FactorModel) or model.solver != "blocks":
        raise ParameterError(
            f"{model.id} with these settings trains on one machine; leave out --ray, or fit bper, pitf, cd "
            "or a joint form"
        )


def owners_of(machines: Sequence[Machine], threads: int | None, shards: int) -> NDArray[np.int64]:
    """Give every row shard to a machine: neighbouring ones together, as many as its threads can do."""
    cores = np.cumsum([0, *(threads or machine.cpus for machine in machines)])
    cuts = np.rint(cores * shards / cores[-1]).astype(np.int64)
    return np.repeat(np.arange(len(machines)), np.diff(cuts))


class ClusterSolver:
    """Runs epochs on all machines; `storage` has what was learned when `gather` was called last.

    When a machine is lost, all that are left begin again from there.
    """

    def __init__(
        self,
        cluster: Cluster,
        threads: int | None,
        storage: Storage,
        passes: Sequence[Pass],
        settings: FactorSettings,
        records: NDArray[np.int64] | None,
        reported: Mapping[str, Ints],
    ) -> None:
        self.cluster, self.threads, self.storage = cluster, threads, storage
        shards = settings.shards or default_shards(storage.tables, passes, passes[0].triplets)
        tables = {name: replace(table, bias_start=None) for name, table in storage.tables.items()}
        task = Task(tables, tuple(passes), replace(settings, shards=shards), records, dict(reported))
        self.shards, self.reported, self._task = shards, task.reported, cluster.put(task)
        columns = [[len(passes[index].column_tables) for index in group] for group in independent(passes)]
        self._stages = sum(shards ** max(counts) for counts in columns)
        self.saved = self.done = -1  # epochs that are in the storage, and that the workers have done
        self._before: dict[str, Floats] = {}  # reported rows of the storage, as they were after the saved epoch
        self._workers: list[Handle] = []

    def epoch(self, number: int) -> Counts:
        """Run an epoch, and bring the reported rows to the storage."""
        if self.saved < 0:
            self._note_saved(number - 1)
        return self._recovering(number, lambda: self._counts)

    def gather(self) -> None:
        """Bring all tables to the storage."""
        if self.done > self.saved:
            self._recovering(self.done, lambda: self._take(self._all("held")))
            self._note_saved(self.done)

    def dismiss(self) -> None:
        """End all workers."""
        for worker in self._workers:
            with suppress(ClusterError):
                self.cluster.dismiss(worker)
        self._workers = []

    def _note_saved(self, epoch: int) -> None:
        self.saved = self.done = epoch
        self._before = {name: self.storage.whole(name)[rows] for name, rows in self.reported.items()}

    def _recovering(self, epoch: int, work: Callable[[], Any]) -> Any:
        """Learn up to an epoch and do something then; what is lost is learned again from what was gathered."""
        for left in range(LOSSES, -1, -1):
            try:
                if not self._workers:
                    self._start()
                while self.done < epoch:
                    self._learn(self.done + 1)
                return work()
            except Lost:
                self.dismiss()
                if not left:
                    raise
        raise AssertionError

    def _start(self) -> None:
        """Start a worker on every machine as the cluster is now, with the tables of the last epoch gathered."""
        for name, rows in self.reported.items():
            self.storage.whole(name)[rows] = self._before[name]
        self.done = self.saved
        machines = self.cluster.machines(self.threads or 1)
        # With few shards not every machine has one.
        taken, owners = np.unique(owners_of(machines, self.threads, self.shards), return_inverse=True)
        machines, values = [machines[number] for number in taken.tolist()], self.cluster.put(self.storage.values)
        for me, machine in enumerate(machines):
            threads = self.threads or machine.cpus
            self._workers.append(
                self.cluster.start(machine, threads, ShardWorker, self._task, values, owners, me, threads)
            )
        for machine, version in zip(machines, self._all("version"), strict=True):
            if version != __version__:
                raise ClusterError(
                    f"{machine.host} has whyrank {version}, not {__version__}; install the same everywhere"
                )

    def _learn(self, epoch: int) -> None:
        """Submit all stages of an epoch, each with what those before it hand on, then wait for them."""
        count = len(self._workers)
        inbox: list[list[Reference]] = [[] for _ in range(count)]
        counts: list[Reference] = []
        for _ in range(self._stages):
            found = [
                self.cluster.call(worker, "stage", epoch, *inbox[me], returns=1 + count)
                for me, worker in enumerate(self._workers)
            ]
            counts += [references[0] for references in found]
            inbox = [[found[other][1 + me] for other in range(count) if other != me] for me in range(count)]
        ends = [self.cluster.call(worker, "finish", *inbox[me]) for me, worker in enumerate(self._workers)]
        found = self._wait([*counts, *ends])
        self._counts = tuple(np.sum(found[: len(counts)], axis=0).tolist())
        self._take(found[len(counts) :])
        self.done = epoch

    def _take(self, pieces: Sequence[Sequence[TableRows]]) -> None:
        for piece in pieces:
            put_rows(self.storage, piece)

    def _all(self, method: str) -> list[Any]:
        return self._wait([self.cluster.call(worker, method) for worker in self._workers])

    def _wait(self, references: list[Reference]) -> list[Any]:
        """Wait for results for as long as all workers give signs of life."""
        waiting = references
        while waiting:
            done, waiting = self.cluster.first(waiting, session.SILENT_SECONDS)
            self.cluster.gather(done)
            if not done and not self.cluster.answer(self._workers, session.SILENT_SECONDS):
                raise Lost(f"a machine has not answered for {session.SILENT_SECONDS:.0f} seconds")
        return self.cluster.gather(references)


class ShardWorker:
    """The row shards of one machine, and the columns that they need now."""

    def __init__(self, task: Task, values: Floats, owners: NDArray[np.int64], me: int, threads: int) -> None:
        task = deepcopy(task)  # arrays of the object store are read-only, and kernels compiled for others
        self.task, self.owners, self.me = task, owners, me
        self.storage = Storage(task.tables)
        self.storage.values[:] = values
        own = np.flatnonzero(owners == me)
        own_range = range(int(own[0]), int(own[-1]) + 1)
        self.solver = BlockSolver(
            self.storage, task.passes, task.settings, ThreadPool(threads), task.records, own_range
        )
        self.rows = {
            name: np.concatenate([self.solver.rows_of(name).pool(shard) for shard in own_range])
            for name in {one.tables[0] for one in task.passes}
        }
        self.reported = {name: rows[np.isin(rows, self._own(name))] for name, rows in task.reported.items()}
        self.stages: Iterator[Stage] = iter(())

    def version(self) -> str:
        return __version__

    def stage(self, epoch: int, *arrived: list[TableRows]) -> list[Any]:
        """Run the next stage of an epoch; its counts, and for every machine the rows that it needs next."""
        for rows in arrived:
            put_rows(self.storage, rows)
        stage = next(self.stages, None)
        if stage is None:
            self.stages = self.solver.stages(epoch)
            stage = next(self.stages)
        counts = self.solver.run(stage)
        return [counts, *(self._leaving(stage, machine) for machine in range(int(self.owners[-1]) + 1))]

    def finish(self, *arrived: list[TableRows]) -> list[TableRows]:
        """End an epoch; the rows to report that are this machine's."""
        for rows in arrived:
            put_rows(self.storage, rows)
        assert next(self.stages, None) is None
        return [self._rows(name, rows) for name, rows in self.reported.items()]

    def held(self) -> list[TableRows]:
        """Return all rows that are this machine's."""
        return [self._rows(name, self._own(name)) for name in self.task.tables]

    def _own(self, name: str) -> Ints:
        """TableRows that only this machine has, or of what all have, those that the first one speaks for."""
        if name in self.rows and name not in self.task.travelling:
            return self.rows[name]
        return np.arange(self.task.tables[name].rows if self.me == 0 else 0, dtype=np.int32)

    def _leaving(self, stage: Stage, machine: int) -> list[TableRows]:
        """Pick what a machine needs of this one: for the next stage, or after the last one whatever was changed."""
        if machine == self.me:
            return []
        leaving: list[TableRows] = []
        for columns in stage.columns:
            mine = self._machines(columns.now) == self.me
            if not stage.last:
                mine &= self._machines(columns.then) == machine
            pools = [columns.cut.pool(shard) for shard in np.flatnonzero(mine).tolist()]
            if pools:
                leaving += [self._rows(name, np.concatenate(pools)) for name in columns.tables]
        if stage.last:
            names = {self.task.passes[index].tables[0] for index in stage.passes} & self.task.travelling
            leaving += [self._rows(name, self.rows[name]) for name in sorted(names)]
        return leaving

    def _machines(self, offset: int) -> NDArray[np.int64]:
        """Name the machine that has each shard of columns which lies so far behind its row shard."""
        return self.owners[(np.arange(len(self.owners)) - offset) % len(self.owners)]

    def _rows(self, name: str, rows: Ints) -> TableRows:
        return TableRows(name, rows, self.storage.whole(name)[rows])


def put_rows(storage: Storage, rows: Sequence[TableRows]) -> None:
    """Copy rows that have arrived to where they belong."""
    for each in rows:
        storage.whole(each.table)[each.rows] = each.values
