"""Runs functions and objects of this package on a Ray cluster: results and plain errors come back."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from whyrank.errors import ClusterError, MissingExtra, WhyrankError

Reference = Any  # ray.ObjectRef
Handle = Any  # ray.actor.ActorHandle
RETRIES = 5  # of a task whose worker or node died; what a task raises itself is not tried again
ANSWER_SECONDS = 10.0  # for a machine to accept a connection
SILENT_SECONDS = 60.0  # after which a process that does not answer is given up
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # Ray's own name, which counts on every system


class Lost(ClusterError):  # noqa: N818 - as the other errors
    """A machine, or what it held, is gone; what was saved leads to the same result."""


@contextmanager
def connect(address: str) -> Iterator[Cluster]:
    """Join the cluster at an address (host:port, or ray:// for a client), or start one of this machine for "local".

    The one that is started listens on loopback only.
    """
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}
    for name, value in (quiet | (LOOPBACK_ONLY if address == "local" else {})).items():
        os.environ.setdefault(name, value)
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
        if address == "local":
            _require_loopback(ray)
    except (ConnectionError, RuntimeError, ValueError, AssertionError) as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({_first_line(error)}); start one, or use --ray local"
        ) from None
    try:
        yield Cluster(ray)
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Raise unless somebody listens: Ray itself tries for minutes to reach a machine that is not there."""
    host, colon, port = address.rpartition(":")
    if not colon or "/" in host:  # local, auto, or a client's URL
        return
    try:
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        raise ClusterError(f"no Ray cluster answers at {address} ({error}); start one, or use --ray local") from None


def _require_loopback(ray: Any) -> None:
    """Raise if others can reach the cluster that was started: who imports Ray before decides where it listens."""
    host = ray.util.get_node_ip_address()
    if not host.startswith("127.") and host != "::1":
        ray.shutdown()
        raise ClusterError(
            f"Ray was imported before and listens at {host}, for everybody; "
            f"set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before it is, or start a cluster and give its address"
        )


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
        """Start a task; return a reference to its result."""
        return self._remote.options(name=function.__name__).remote(function, *arguments)

    def put(self, value: object) -> Reference:
        """Share a value that many tasks read: it is sent once to each machine."""
        with plain_errors(self._ray):
            return self._ray.put(value)

    def gather(self, references: Sequence[Reference]) -> list[Any]:
        """Wait for results; errors of whyrank are raised as they were there, others as ClusterError."""
        with plain_errors(self._ray):
            return list(self._ray.get(list(references)))

    def first(self, references: Sequence[Reference], seconds: float | None = None) -> tuple[list[Any], list[Any]]:
        """Wait until a task has ended, or for so long; return those that have, and those that have not."""
        with plain_errors(self._ray):
            done, waiting = self._ray.wait(list(references), timeout=seconds, fetch_local=False)
            return list(done), list(waiting)

    def gather_telling(self, references: Sequence[Reference], tell: Callable[[int, int], None] | None) -> list[Any]:
        """Gather results, and tell how many of how many are there; the first error ends it."""
        waiting = list(references)
        while waiting:
            done, waiting = self.first(waiting)
            self.gather(done)
            if tell:
                tell(len(references) - len(waiting), len(references))
        return self.gather(references)

    # -- objects that live on a machine --------------------------------------------------------------------------------

    def start(self, machine: Machine, cpus: float, kind: Callable[..., object], *arguments: Any) -> Handle:
        """Make an object in a process of its own on a machine; it lives until it is dismissed or lost."""
        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        options = {"num_cpus": cpus, "max_restarts": 0, "scheduling_strategy": affinity(machine.id, soft=False)}
        resident = self._ray.remote(concurrency_groups={"signs": 1})(Resident)
        return resident.options(**options).remote(kind, *arguments)

    def call(self, handle: Handle, method: str, *arguments: Any, returns: int = 1) -> Any:
        """Start a method of such an object; return a reference to its result, or to each of so many results."""
        return handle.call.options(num_returns=returns).remote(method, *arguments)

    def answer(self, handles: Sequence[Handle], seconds: float) -> bool:
        """Tell whether all of these objects give a sign of life, whatever they are working on."""
        # Asked by another process: what this one asks would wait behind its calls.
        ask = self._ray.remote(num_cpus=0, max_retries=0)(_ask_for_signs)
        done, _ = self.first([ask.remote(list(handles))], seconds)
        self.gather(done)
        return bool(done)

    def dismiss(self, handle: Handle) -> None:
        """End such an object."""
        with plain_errors(self._ray):
            self._ray.kill(handle)

    # -- machines ------------------------------------------------------------------------------------------------------

    @property
    def cpus(self) -> int:
        """Count the cores of all machines."""
        return max(sum(machine.cpus for machine in self.nodes()), 1)

    def machines(self, cpus: int = 1) -> list[Machine]:
        """List the machines that answer and have so many cores; raise if none has."""
        found = self.nodes()
        if not found:
            raise ClusterError("no machine of the cluster is left; --resume goes on elsewhere from what was saved")
        most = max(machine.cpus for machine in found)
        if cpus > most:  # Ray would wait for such a machine for ever
            raise ClusterError(
                f"{cpus} threads of one machine are asked for, and none of the cluster has more than {most} cores; "
                "use fewer --threads"
            )
        return sorted((machine for machine in found if machine.cpus >= cpus), key=lambda each: each[1:])

    def nodes(self) -> list[Machine]:
        """List all machines that answer."""
        with plain_errors(self._ray):
            nodes = [node for node in self._ray.nodes() if node["Alive"]]
        return [Machine(n["NodeID"], n["NodeManagerAddress"], int(n["Resources"].get("CPU", 0))) for n in nodes]


class Resident:
    """An object of this package in a process of its own on some machine."""

    def __init__(self, kind: Callable[..., object], *arguments: Any) -> None:
        self.object = run(kind, *arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        return run(getattr(self.object, method), *arguments)

    def sign(self) -> int:
        """Answer at once, in a thread of its own."""
        return os.getpid()


def _ask_for_signs(handles: list[Handle]) -> None:
    import ray

    ray.get([handle.sign.options(concurrency_group="signs").remote() for handle in handles])


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker; say where when a disk is full."""
    try:
        return function(*arguments)
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, OSError) and cause.errno in DISK_FULL:
                import ray

                address: Callable[[], str] = ray.util.get_node_ip_address
                place = f"{socket.gethostname()} ({address()})"
                raise ClusterError(
                    f"the disk is full on {place}: {error}; free some space and give the same command again"
                ) from None
            cause = cause.__cause__
        raise


@contextmanager
def plain_errors(ray: Any) -> Iterator[None]:
    """Turn Ray's errors into ours."""
    errors = ray.exceptions
    try:
        yield
    except errors.RayTaskError as error:
        if isinstance(error.cause, WhyrankError):
            raise error.cause from None
        raise
    except (errors.OutOfDiskError, errors.ObjectStoreFullError) as error:
        raise ClusterError(f"a node cannot store objects, its disk is full; free some ({_first_line(error)})") from None
    except errors.RayError as error:
        raise Lost(f"a machine, or what it held, was lost ({_first_line(error)})") from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
