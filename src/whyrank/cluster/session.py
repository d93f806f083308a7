"""A Ray cluster as the rest of this room sees it: plain functions go out, results and plain errors come back."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from whyrank.errors import ClusterError, MissingExtra, WhyrankError

Reference = Any  # ray.ObjectRef
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


class Cluster:
    """Runs functions of this package on some machine. Arguments that are references arrive as what they stand for."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remote = ray.remote(max_retries=RETRIES)(run)

    def submit(self, function: Callable[..., Any], *arguments: Any, cpus: float = 1) -> Reference:
        """Start a task; the answer is a reference to its result."""
        return self._remote.options(name=function.__name__, num_cpus=cpus).remote(function, *arguments)

    def submit_many(self, returns: int, function: Callable[..., Any], *arguments: Any) -> list[Reference]:
        """Start a task that answers a sequence of so many results; one reference for each."""
        references = self._remote.options(name=function.__name__, num_returns=returns).remote(function, *arguments)
        return [references] if returns == 1 else list(references)

    def put(self, value: object) -> Reference:
        """A value that many tasks read, sent once to each machine."""
        return self._ray.put(value)

    def gather(self, references: Sequence[Reference]) -> list[Any]:
        """The results, in order; errors of whyrank as they were raised there, others as ClusterError."""
        errors = self._ray.exceptions
        try:
            return list(self._ray.get(list(references)))
        except errors.RayTaskError as error:
            if isinstance(error.cause, WhyrankError):
                raise error.cause from None
            raise
        except (errors.OutOfDiskError, errors.ObjectStoreFullError) as error:
            raise ClusterError(f"a node cannot spill objects, its disk is full; free some ({_first(error)})") from None
        except (errors.ObjectLostError, errors.WorkerCrashedError, errors.NodeDiedError) as error:
            raise Lost(f"a task or its data were lost ({_first(error)})") from None

    def first(self, references: Sequence[Reference], count: int = 1) -> tuple[list[Reference], list[Reference]]:
        """Which tasks have ended (so many at least), and which have not."""
        done, waiting = self._ray.wait(list(references), num_returns=min(count, len(references)), fetch_local=False)
        return list(done), list(waiting)

    @property
    def cpus(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 1))

    def require_cpus(self, threads: int) -> None:
        """Raise if no machine has so many cores: Ray would wait for one for ever."""
        if threads > self.most_cpus:
            raise ClusterError(
                f"{threads} threads of one machine are asked for, and none of the cluster has more than "
                f"{self.most_cpus} cores; use fewer --threads"
            )

    @property
    def most_cpus(self) -> int:
        """Of any one machine."""
        return max((int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]), default=0)

    @property
    def machines(self) -> int:
        return sum(node["Alive"] for node in self._ray.nodes())


class Lost(ClusterError):  # noqa: N818 - as the other errors
    """Something that only the memory of a dead machine held; the last state on disk leads to the same result."""


def retried(work: Callable[[], Result]) -> Result:
    """What work gives that starts from the store, again when something is lost meanwhile."""
    for _ in range(LOSSES):
        with suppress(Lost):
            return work()
    return work()


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
