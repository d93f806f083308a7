"""The workers of a fit: one on each machine, which know each other, and what is done when one of them is lost."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from whyrank.cluster.session import LOSSES, Cluster, Handle, Lost, Machine
from whyrank.training import Run
from whyrank.training.checkpoint import Checkpoint

Done = TypeVar("Done")


class FitWorkers:
    """Objects of one kind on machines of a cluster, with so many `threads` each; None: as many as it has cores."""

    def __init__(self, cluster: Cluster, threads: int | None) -> None:
        self.cluster, self.threads = cluster, threads
        self._handles: list[Handle] = []

    @property
    def count(self) -> int:
        return len(self._handles)

    def start(self, machines: Sequence[Machine], kind: Callable[..., object], job: object) -> None:
        """A worker on each machine, made of the job, its number, host, secret and threads; and let them meet."""
        secret = secrets.token_bytes(32)
        for number, machine in enumerate(machines):
            threads = self.threads or machine.cpus
            handle = self.cluster.start(machine, threads, kind, job, number, machine.host, secret, threads)
            self._handles.append(handle)
        self.all("meet", self.all("address"))

    def all(self, method: str, *arguments: object) -> list[Any]:
        """What a method gives, by worker."""
        return self.cluster.gather([self.cluster.call(handle, method, *arguments) for handle in self._handles])

    def first(self, method: str, *arguments: object) -> Any:
        """What a method of the first worker gives."""
        return self.cluster.gather([self.cluster.call(self._handles[0], method, *arguments)])[0]

    def dismiss(self) -> None:
        """End all workers."""
        for handle in self._handles:
            self.cluster.dismiss(handle)
        self._handles = []

    def recovering(self, work: Callable[[], Done], assemble: Callable[[], None]) -> Done:
        """What work gives; where there are no workers, or one is lost meanwhile, all are assembled anew before."""
        for left in range(LOSSES, -1, -1):
            try:
                if not self._handles:
                    assemble()
                return work()
            except Lost:
                self.dismiss()
                if not left:
                    raise
        raise AssertionError


class InStore(Checkpoint):
    """In place of a checkpoint file: states that a trainer itself writes to a store."""

    def __init__(self, write: Callable[[], object]) -> None:
        super().__init__(Run())
        self._write = write

    def save(self, name: str, state: object) -> None:
        self._write()
