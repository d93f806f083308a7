"""The loop over epochs on a cluster: states on disk, going on from the last one, and what happens when data is lost."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from whyrank.cluster.loss import ClusterLoss
from whyrank.cluster.session import LOSSES, Lost
from whyrank.cluster.solver import ClusterSolver, Job
from whyrank.cluster.store import Store
from whyrank.errors import ArtifactError, TrainingError
from whyrank.training import Epoch, Monitor, Run
from whyrank.training.checkpoint import require_reachable
from whyrank.training.loop import LARGEST

MANIFEST = "manifest"


@dataclass(frozen=True)
class State:
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


def train(job: Job, run: Run) -> State:
    """Learn the tables as the local engine does; the state after the last epoch is in the data's store.

    Every `checkpoint_seconds`, and at the end, all tables are written and then named by a manifest. `run.resume` goes
    on from the last manifest, on whatever cluster.
    """
    training = _Training(job, run.monitors)
    done = training.last() if run.resume else None
    if done is None:
        job.data.store.remove(MANIFEST)
    return training.from_state(done)


class _Training:
    def __init__(self, job: Job, monitors: Sequence[Monitor]) -> None:
        self.cluster, self.settings, self.shards, self.monitors = job.cluster, job.settings, job.shards, monitors
        self.store, self.tables = job.data.store, job.tables
        self.solver = ClusterSolver(job)
        self.loss = ClusterLoss(job) if monitors else None
        self.mark = fingerprint(job)

    def last(self) -> State | None:
        """The state that the manifest names, if there is one."""
        found = self.store.read_document(f"{MANIFEST}/training")
        if found is None:
            return None
        if found["fingerprint"] != self.mark:
            raise ArtifactError(f"{self.store.url}: belongs to other data or settings; remove it or leave out --resume")
        require_reachable(self.store.url, int(found["epoch"]), self.settings.epochs)
        return State(self.store, int(found["epoch"]), self.shards)

    def from_state(self, state: State | None) -> State:
        began = saved = time.monotonic()
        first = done = self._take_up(state)
        last, losses = self.settings.epochs, 0
        for monitor in self.monitors:
            monitor.on_start(done, last)
        stop = False
        while (done < last and not stop) or state is None or state.epoch < done:
            try:
                if done < last and not stop:
                    epoch_began = time.monotonic()
                    updates, trouble = self.solver.epoch(done + 1)
                    self._require_sound(done + 1, not trouble)
                    done, losses, now = done + 1, 0, time.monotonic()
                    stop = self._report(done, updates / max(now - epoch_began, 1e-9), now - began, done - first)
                if done == last or stop or time.monotonic() - saved >= self.settings.checkpoint_seconds:
                    state, saved = self._save(done), time.monotonic()
            except Lost:
                losses += 1
                if losses > LOSSES:
                    raise
                state = self.last()
                done = self._take_up(state)
        return state

    def _take_up(self, state: State | None) -> int:
        if state is None:
            self.solver.start()
            return 0
        for table in self.tables:
            names = [state.name(table, shard) for shard in range(self.shards)]
            self.solver.values[table] = [self.cluster.submit(read_values, self.store, name) for name in names]
        self.solver.epoch_cut = 0
        return state.epoch

    def _save(self, epoch: int) -> State:
        """Write all tables in their own order, then the manifest; then older states can go."""
        self.solver.lay_out(0)
        state = State(self.store, epoch, self.shards)
        largest = self.cluster.gather(
            [
                self.cluster.submit(write_values, self.store, state.name(table, shard), values)
                for table, shards in self.solver.values.items()
                for shard, values in enumerate(shards)
            ]
        )
        self._require_sound(epoch, max(largest, default=0.0) <= LARGEST)
        self.store.write_document(f"{MANIFEST}/training", {"epoch": epoch, "fingerprint": self.mark})
        for folder in self.store.folders("state-"):
            if folder != state.folder:
                with contextlib.suppress(OSError):  # a task of an epoch that was lost may still write there
                    self.store.remove(folder)
        return state

    def _report(self, done: int, speed: float, seconds: float, mine: int) -> bool:
        last = self.settings.epochs
        loss = self.loss.mean(self.solver) if self.loss else float("nan")
        report = Epoch(done, last, loss, speed, seconds, seconds / max(mine, 1) * (last - done))
        return any([monitor.on_epoch(report, None) for monitor in self.monitors])  # noqa: C419 - ask all

    def _require_sound(self, epoch: int, sound: bool) -> None:
        if not sound:
            rate = self.settings.learning_rate
            raise TrainingError(
                f"values out of range in epoch {epoch}: lower learning_rate, for example from {rate:g} to {rate / 10:g}"
            )


def fingerprint(job: Job) -> str:
    """A hash of all that decides the result; the cluster does not."""
    chosen = asdict(job.settings) | {"shards": job.shards, "data": job.data.digest}
    for name in ("threads", "checkpoint_seconds", *(["epochs"] if job.settings.schedule == "constant" else [])):
        del chosen[name]
    chosen["tables"] = {name: (table.rows, table.factors, table.bias) for name, table in job.tables.items()}
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()


def read_values(store: Store, name: str) -> NDArray[np.float32]:
    return store.read(name)["values"]


def write_values(store: Store, name: str, values: NDArray[np.float32]) -> float:
    """Write a shard; the largest value in it (infinite for what is no number)."""
    store.write(name, {"values": values})
    largest = float(np.abs(values).max(initial=0))
    return largest if largest == largest else float("inf")
