"""The workers of a fit: one on each machine, which know each other, and what is done when one of them is lost."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from whyrank.lab.ray.peers import Address, Peers
from whyrank.lab.ray.session import LOSSES, Cluster, Handle, Lost, Machine
from whyrank.lab.ray.store import StateStore
from whyrank.training import Run
from whyrank.training.checkpoint import Checkpoint

Done = TypeVar("Done")


class FitWorker:
    """What every worker has: the connections to the others, which it leaves when something goes wrong."""

    def __init__(self, me: int, host: str, secret: bytes) -> None:
        self.peers = Peers(me, host, secret)

    def address(self) -> Address:
        return self.peers.address

    def meet(self, addresses: list[Address]) -> None:
        self.peers.meet(addresses)

    def leaving(self, work: Callable[[], Done]) -> Done:
        """What work gives; where it fails, the others need not wait."""
        try:
            return work()
        except BaseException:
            self.peers.close()
            raise

    def sent_bytes(self) -> int:
        """Since the start."""
        return self.peers.sent_bytes

    def close(self) -> None:
        """Leave the others."""
        self.peers.close()


class FitWorkers:
    """Objects of one kind on machines of a cluster, with so many `threads` each; None: as many as it has cores."""

    def __init__(self, cluster: Cluster, threads: int | None) -> None:
        self.cluster, self.threads = cluster, threads
        self._handles: list[Handle] = []
        self.store: StateStore  # as the workers that were started last may write to it

    @property
    def count(self) -> int:
        return len(self._handles)

    def start(self, machines: Sequence[Machine], kind: Callable[..., object], job: Any) -> None:
        """A worker on each machine, made of the job, its number, host, secret and threads; and let them meet.

        Earlier workers may live on machines that do not answer. They know neither this secret nor this claim. Where
        another run has claimed the store meanwhile, this one ends.
        """
        secret, self.store = secrets.token_bytes(32), job.data.store.started()
        job = replace(job, data=replace(job.data, store=self.store))
        for number, machine in enumerate(machines):
            threads = self.threads or machine.cpus
            handle = self.cluster.start(machine, threads, kind, job, number, machine.host, secret, threads)
            self._handles.append(handle)
        self.all("meet", self.all("address"))

    def all(self, method: str, *arguments: object) -> list[Any]:
        """What a method gives, by worker."""
        return self.cluster.gather([self.cluster.call(handle, method, *arguments) for handle in self._handles])

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
