"""Factor models on a cluster: states in a store, going on from the last one, and what happens when data is lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from whyrank.cluster.loss import ClusterLoss
from whyrank.cluster.partitions import OWN_ORDER
from whyrank.cluster.session import LOSSES, Lost
from whyrank.cluster.solver import ClusterJob, ClusterSolver
from whyrank.cluster.store import Store
from whyrank.errors import ArtifactError
from whyrank.training import Run
from whyrank.training.checkpoint import Arrays, Checkpoint, fingerprint, require_reachable
from whyrank.training.factors import LARGEST, diverged
from whyrank.training.loop import Trained, Trainer, run_epochs

MANIFEST = "manifest"
Done = TypeVar("Done")


@dataclass(frozen=True)
class ClusterState:
    """All tables after an epoch, in the store: part n of a table holds its rows from bounds[n] on."""

    store: Store
    epoch: int
    shards: int

    @property
    def folder(self) -> str:
        return f"state-{self.epoch:06d}"

    def name(self, table: str, shard: int) -> str:
        return f"{self.folder}/{table}-{shard:03d}"

    def part(self, table: str, shard: int) -> NDArray[np.float32]:
        """Padded rows."""
        return self.store.read(self.name(table, shard))["values"]


def train(job: ClusterJob, run: Run) -> ClusterState:
    """Learn the tables as one machine does; the state after the last epoch is in the data's store.

    Every `checkpoint_seconds`, and at the end, all tables are written and then named by a manifest. `run.resume` goes
    on from the last manifest, on whatever cluster.
    """
    trainer = ClusterTrainer(job, bool(run.monitors), run.resume)
    run_epochs(trainer, run, InStore(trainer))
    return trainer.saved or trainer.save()


class ClusterTrainer(Trainer):
    """Learns tables that are on other machines; after a loss it goes back to the last state in the store."""

    def __init__(self, job: ClusterJob, measured: bool, resume: bool) -> None:
        self.cluster, self.settings, self.shards = job.cluster, job.settings, job.shards
        self.store, self.tables, self.of, self.done = job.data.store, job.tables, job.settings.epochs, 0
        self.updates = 0
        tables = {name: (table.rows, table.factors, table.bias) for name, table in job.tables.items()}
        self.mark = fingerprint(replace(job.settings, shards=job.shards).decides(), job.data.digest, tables)
        self.saved: ClusterState | None = None
        if not resume:
            self.store.remove(MANIFEST)
        self.solver = ClusterSolver(job)
        self.loss = ClusterLoss(job) if measured else None
        self._take_up()

    def epoch(self) -> Trained:
        return self._recovering(self.done + 1, self._report)

    def _report(self) -> Trained:
        return Trained(self.loss.mean(self.solver) if self.loss else float("nan"), self.updates)

    def state(self) -> Arrays:
        return {}  # is in the store

    def restore(self, arrays: Arrays) -> None:
        """Was taken up from the store."""

    def save(self) -> ClusterState:
        """Write all tables in their own order, then the manifest; then older states can go."""
        self.saved = self._recovering(self.done, self._write)
        return self.saved

    def _recovering(self, epoch: int, work: Callable[[], Done]) -> Done:
        """Learn up to an epoch and do something then; what is lost is learned again from the last state."""
        for left in range(LOSSES, -1, -1):
            try:
                while self.done < epoch:
                    self.updates, trouble = self.solver.epoch(self.done + 1)
                    self.done += 1
                    if trouble:
                        raise diverged(self.done, self.settings)
                return work()
            except Lost:
                if not left:
                    raise
                self._take_up()
        raise AssertionError

    def _take_up(self) -> None:
        """Go on from the state that the manifest names, or from the start."""
        found = self.store.read_document(f"{MANIFEST}/training")
        if found is None:
            self.solver.start()
            self.done = 0
            return
        if found["fingerprint"] != self.mark:
            raise ArtifactError(f"{self.store.url}: belongs to other data or settings; remove it or leave out --resume")
        self.done = int(found["epoch"])
        require_reachable(self.store.url, self.done, self.of)
        self.saved = ClusterState(self.store, self.done, self.shards)
        for table in self.tables:
            names = [self.saved.name(table, shard) for shard in range(self.shards)]
            self.solver.set_table(table, [self.cluster.submit(read_values, self.store, name) for name in names])

    def _write(self) -> ClusterState:
        for name in self.tables:
            self.solver.lay_out(name, OWN_ORDER)
        state = ClusterState(self.store, self.done, self.shards)
        largest = self.cluster.gather(
            [
                self.cluster.submit(write_values, self.store, state.name(table, shard), values)
                for table, shards in self.solver.values.items()
                for shard, values in enumerate(shards)
            ]
        )
        if not max(largest, default=0.0) <= LARGEST:
            raise diverged(self.done, self.settings)
        self.store.write_document(f"{MANIFEST}/training", {"epoch": self.done, "fingerprint": self.mark})
        for folder in self.store.folders("state-"):
            if folder != state.folder:
                with contextlib.suppress(OSError):  # a task of an epoch that was lost may still write there
                    self.store.remove(folder)
        return state


class InStore(Checkpoint):
    """In place of a file: the trainer's own states in the store."""

    def __init__(self, trainer: ClusterTrainer) -> None:
        super().__init__(Run())
        self.trainer = trainer

    def save(self, name: str, state: object) -> None:
        self.trainer.save()


def read_values(store: Store, name: str) -> NDArray[np.float32]:
    return store.read(name)["values"]


def write_values(store: Store, name: str, values: NDArray[np.float32]) -> float:
    """Write a shard; the largest value in it (infinite for what is no number)."""
    store.write(name, {"values": values})
    largest = float(np.abs(values).max(initial=0))
    return largest if largest == largest else float("inf")
