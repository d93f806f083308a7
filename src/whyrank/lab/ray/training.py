"""Factor models on a cluster: a worker on every machine, states in a store, and what happens when a machine is lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ArtifactError
from whyrank.lab.ray.fit_workers import FitWorkers, InStore
from whyrank.lab.ray.loss import ClusterLoss
from whyrank.lab.ray.session import Cluster, Machine
from whyrank.lab.ray.shard_worker import ClusterState, FactorJob, ShardWorker
from whyrank.training import Run
from whyrank.training.checkpoint import Arrays, fingerprint, require_reachable
from whyrank.training.factors import LARGEST, diverged
from whyrank.training.loop import Trained, Trainer, run_epochs

MANIFEST = "manifest"
FORMAT = 2  # of states in a store
Done = TypeVar("Done")


def train(cluster: Cluster, job: FactorJob, run: Run) -> ClusterState:
    """Learn the tables as one machine does; the state after the last epoch is in the data's store.

    Every `checkpoint_seconds`, and at the end, all tables are written and then named by a manifest. `run.resume` goes
    on from the last manifest, on whatever cluster.
    """
    trainer = ClusterTrainer(cluster, job, run)
    try:
        run_epochs(trainer, run, InStore(trainer.save))
        return trainer.saved or trainer.save()
    finally:
        trainer.workers.dismiss()


def owners_of(machines: list[Machine], threads: int | None, shards: int) -> NDArray[np.int16]:
    """The machine of every row shard: neighbouring ones together, as many as its threads can do."""
    cores = np.cumsum([0, *(threads or machine.cpus for machine in machines)])
    cuts = np.rint(cores * shards / cores[-1]).astype(np.int64)
    return np.repeat(np.arange(len(machines)), np.diff(cuts)).astype(np.int16)


class ClusterTrainer(Trainer):
    """Learns tables that are on other machines; after a loss all begin again from the last state in the store."""

    def __init__(self, cluster: Cluster, job: FactorJob, run: Run) -> None:
        self.store = job.data.store.claimed()
        self.job = job = replace(job, data=replace(job.data, store=self.store))
        self.workers, self.threads = FitWorkers(cluster, run.threads), run.threads
        self.of, self.done, self.updates = job.settings.epochs, 0, 0
        tables = {name: (table.rows, table.factors, table.bias) for name, table in job.tables.items()}
        passes = [(type(each).__name__, each.tables, getattr(each, "weight", None)) for each in job.passes]
        self.mark = fingerprint(FORMAT, job.settings.decides(), job.data.digest, tables, passes)
        self.saved: ClusterState | None = None
        if not run.resume:
            self.store.remove(MANIFEST)
        self._manifest()  # what does not fit is an error before anything is started
        self.loss = ClusterLoss(cluster, job) if run.monitors else None
        self._recovering(lambda: None)

    def epoch(self) -> Trained:
        return self._recovering(self._report, self.done + 1)

    def _report(self) -> Trained:
        return Trained(self.loss.mean() if self.loss else float("nan"), self.updates)

    def state(self) -> Arrays:
        return {}  # is in the store

    def restore(self, arrays: Arrays) -> None:
        """Was taken up from the store."""

    def save(self) -> ClusterState:
        """Write all tables, then the manifest; then older states can go."""
        self.saved = self._recovering(self._write, self.done)
        return self.saved

    def sent_bytes(self) -> int:
        """What the workers have sent to each other."""
        return sum(self.workers.all("sent_bytes"))

    def _recovering(self, work: Callable[[], Done], epoch: int = 0) -> Done:
        """Learn up to an epoch and do something then; what is lost is learned again from the last state."""

        def learn() -> Done:
            while self.done < epoch:
                self._learn()
            return work()

        return self.workers.recovering(learn, self._assemble)

    def _assemble(self) -> None:
        """A worker on every machine of the cluster as it is now, with the state that the manifest names."""
        machines = self.workers.cluster.machines(self.threads or 1)
        # With few shards not every machine has one.
        taken, owners = np.unique(owners_of(machines, self.threads, self.job.shards), return_inverse=True)
        self.workers.start([machines[number] for number in taken.tolist()], ShardWorker, self.job)
        self.workers.all("prepare", owners.astype(np.int16), self.loss.rows if self.loss else {})
        found, self.done, self.saved = self._manifest(), 0, None
        if found is not None:
            self.done = int(found["epoch"])
            self.saved = ClusterState(self.store, str(found["folder"]), int(found["machines"]))
        self.workers.all("begin", self.saved)

    def _manifest(self) -> dict[str, Any] | None:
        """What names the last state; None: there is none."""
        found = self.store.read_document(f"{MANIFEST}/training")
        if found is not None:
            if found["fingerprint"] != self.mark:
                raise ArtifactError(
                    f"{self.store.url}: belongs to other data or settings; remove it or leave out --resume"
                )
            require_reachable(self.store.url, int(found["epoch"]), self.of)
        return found

    def _learn(self) -> None:
        found = self.workers.all("epoch", self.done + 1)
        updates, trouble, watched = zip(*found, strict=True)
        self.done, self.updates = self.done + 1, sum(updates)
        if sum(trouble):
            raise diverged(self.done, self.job.settings)
        if self.loss:
            self.loss.take(watched)

    def _write(self) -> ClusterState:
        # Workers that were given up have other folders, even if one is just about to write.
        store = self.workers.store
        state = ClusterState(store, f"state-{self.done:06d}-{store.start}", self.workers.count)
        largest = self.workers.all("write", state)
        if not max(largest) <= LARGEST:
            raise diverged(self.done, self.job.settings)
        about = {"epoch": self.done, "fingerprint": self.mark, "machines": state.machines, "folder": state.folder}
        store.write_document(f"{MANIFEST}/training", about)
        for folder in self.store.folders("state-"):
            if folder != state.folder:
                with contextlib.suppress(OSError):  # a worker that was lost may still write there
                    self.store.remove(folder)
        return state
