"""A Ray cluster as the rest of this room sees it: plain functions go out, results and plain errors come back."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from whyrank.errors import ClusterError, MissingExtra, WhyrankError

Reference = Any  # ray.ObjectRef
Handle = Any  # ray.actor.ActorHandle
Result = TypeVar("Result")
LOSSES = 5  # how often in a row something may be lost
RETRIES = 5  # of a task whose worker or node died; what a task raises itself is not tried again
WAIT = 10.0  # seconds for a machine to answer
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def connect(address: str) -> Iterator[Cluster]:
    """The cluster at an address (host:port, or ray:// for a client), or one of this machine's own for "local"."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # the first error of a run is raised, that is enough
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "--ray") from None
    if ray.is_initialized():
        yield Cluster(ray)
        return
    _require_answer(address)
    dashboard = False if address == "local" else None
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=dashboard)
    except (ConnectionError, RuntimeError, ValueError, AssertionError) as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise ClusterError(
            f"no Ray cluster answers at {address} ({reason[0]}); start one, or use --ray local"
        ) from None
    try:
        yield Cluster(ray)
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Ray itself tries for minutes to reach a machine that is not there."""
    host, colon, port = address.rpartition(":")
    if not colon or "/" in host:  # local, auto, or a client's URL
        return
    try:
        socket.create_connection((host, int(port)), WAIT).close()
    except (OSError, ValueError) as error:
        raise ClusterError(f"no Ray cluster answers at {address} ({error}); start one, or use --ray local") from None


class Machine(NamedTuple):
    """A node of the cluster, the address by which others reach it, and its cores."""

    id: str
    host: str
    cpus: int


class Cluster:
    """Runs functions of this package on some machine. Arguments that are references arrive as what they stand for."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remote = ray.remote(max_retries=RETRIES)(run)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Reference:
        """Start a task; the answer is a reference to its result."""
        return self._remote.options(name=function.__name__).remote(function, *arguments)

    def submit_many(self, returns: int, function: Callable[..., Any], *arguments: Any) -> list[Reference]:
        """Start a task that answers a sequence of so many results; one reference for each."""
        if returns == 1:  # which Ray would not take out of the sequence
            return [self.submit(only, function, *arguments)]
        return list(self._remote.options(name=function.__name__, num_returns=returns).remote(function, *arguments))

    def put(self, value: object) -> Reference:
        """A value that many tasks read, sent once to each machine."""
        return self._ray.put(value)

    def start(self, machine: Machine, cpus: float, kind: Callable[..., object], *arguments: Any) -> Handle:
        """An object that lives on a machine, until it is dismissed or lost."""
        place = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(machine.id, soft=False)
        options = {"num_cpus": cpus, "scheduling_strategy": place, "max_restarts": 0}
        return self._ray.remote(Resident).options(**options).remote(kind, *arguments)

    def call(self, handle: Handle, method: str, *arguments: Any) -> Reference:
        """Start a method of such an object; the answer is a reference to its result."""
        return handle.call.remote(method, *arguments)

    def dismiss(self, handle: Handle) -> None:
        """End such an object."""
        self._ray.kill(handle)

    def on_each(self, function: Callable[..., Any], *arguments: Any) -> list[tuple[Machine, Any]]:
        """What a function gives on every machine, however busy it is; one that is lost meanwhile is left out."""
        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy

        def asked() -> list[tuple[Machine, Any]]:
            machines, found = self.machines(), []
            for machine in machines:
                options = {"num_cpus": 0, "scheduling_strategy": affinity(machine.id, soft=False)}
                found.append(self._remote.options(name=function.__name__, **options).remote(function, *arguments))
            return list(zip(machines, self.gather(found), strict=True))

        return retried(asked)

    def gather(self, references: Sequence[Reference]) -> list[Any]:
        """The results, in order; errors of whyrank as they were raised there, others as ClusterError.

        Of several errors the one that is the cause: who only lost another machine comes last.
        """
        try:
            return self._results(list(references))
        except Lost as lost:  # others may wait for what is lost, for ever: only what ends soon may say more
            ended, _ = self._ray.wait(list(references), num_returns=len(references), timeout=10)
            for reference in ended:
                with suppress(Lost):
                    self._results([reference])
            raise lost from None

    def _results(self, references: list[Reference]) -> list[Any]:
        errors = self._ray.exceptions
        try:
            return list(self._ray.get(references))
        except errors.RayTaskError as error:
            if isinstance(error.cause, WhyrankError):
                raise error.cause from None
            raise
        except (errors.OutOfDiskError, errors.ObjectStoreFullError) as error:
            raise ClusterError(f"a node cannot spill objects, its disk is full; free some ({_first(error)})") from None
        except (
            *(errors.ObjectLostError, errors.WorkerCrashedError, errors.NodeDiedError),
            *(errors.RayActorError, errors.ActorUnschedulableError, errors.TaskUnschedulableError),
        ) as error:
            raise Lost(f"a machine, or what it held, was lost ({_first(error)})") from None

    def first(self, references: Sequence[Reference], count: int = 1) -> tuple[list[Reference], list[Reference]]:
        """Which tasks have ended (so many at least), and which have not."""
        done, waiting = self._ray.wait(list(references), num_returns=min(count, len(references)), fetch_local=False)
        return list(done), list(waiting)

    def gather_telling(self, references: Sequence[Reference], tell: Callable[[int, int], None] | None) -> list[Any]:
        """As `gather`; `tell` hears how many of how many are done, and the first error ends it."""
        waiting = list(references)
        while waiting:
            done, waiting = self.first(waiting)
            self.gather(done)
            if tell:
                tell(len(references) - len(waiting), len(references))
        return self.gather(references)

    @property
    def cpus(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 1))

    def require_cpus(self, threads: int) -> None:
        """Raise if no machine has so many cores: Ray would wait for one for ever."""
        most = max((machine.cpus for machine in self.machines()), default=0)
        if threads > most:
            raise ClusterError(
                f"{threads} threads of one machine are asked for, and none of the cluster has more than "
                f"{most} cores; use fewer --threads"
            )

    def machines(self, cpus: int = 1) -> list[Machine]:
        """Those that answer and have so many cores."""
        found = [
            Machine(node["NodeID"], node["NodeManagerAddress"], int(node["Resources"].get("CPU", 0)))
            for node in self._ray.nodes()
            if node["Alive"]
        ]
        return sorted((machine for machine in found if machine.cpus >= cpus), key=lambda each: each[1:])


class Resident:
    """An object of this package in a process of its own on some machine."""

    def __init__(self, kind: Callable[..., object], *arguments: Any) -> None:
        self.object = run(kind, *arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        return run(getattr(self.object, method), *arguments)


class Lost(ClusterError):  # noqa: N818 - as the other errors
    """Something that only the memory of a dead machine held; the last state on disk leads to the same result."""


def retried(work: Callable[[], Result]) -> Result:
    """What work gives that starts from the store, again when something is lost meanwhile."""
    for _ in range(LOSSES):
        with suppress(Lost):
            return work()
    return work()


def only(function: Callable[..., Sequence[Any]], *arguments: Any) -> Any:
    """The one result of a function that gives several."""
    (found,) = function(*arguments)
    return found


def here() -> Cluster:
    """The cluster that this process, a worker, is part of."""
    import ray

    return Cluster(ray)


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a worker does: call a function, and say where when a disk is full."""
    try:
        return function(*arguments)
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, OSError) and cause.errno in DISK_FULL:
                raise ClusterError(
                    f"the disk is full on {_place()}: {error}; free some space and give the same command again"
                ) from None
            cause = cause.__cause__
        raise


def _place() -> str:
    """This machine's name and Ray address."""
    import ray

    node_address: Callable[[], str] = ray.util.get_node_ip_address
    return f"{socket.gethostname()} ({node_address()})"


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
