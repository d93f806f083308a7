"""Where functions are run: in this process, in others of this machine, or on a cluster with the same few methods."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from whyrank.errors import WhyrankError
from whyrank.parent import end_with_parent


class WorkerPool(Protocol):
    """`ThisProcess` and `Processes` are such, and `whyrank.lab.ray.session.Cluster`."""

    @property
    def cpus(self) -> int: ...
    def put(self, value: object) -> Any: ...
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any: ...
    def first(self, references: Sequence[Any]) -> tuple[list[Any], list[Any]]: ...
    def gather(self, references: Sequence[Any]) -> list[Any]: ...


class Call(NamedTuple):
    """A function to run, and what the caller knows it by."""

    key: Any
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def results_of(calls: Iterable[Call], pool: WorkerPool) -> Iterator[tuple[Any, Any]]:
    """Run calls, as many at a time as there are processors; the key and the result of each as it ends.

    A call is asked for when there is a processor for it.
    """
    waiting, running = iter(calls), dict[Any, Any]()
    while True:
        while len(running) < pool.cpus and (call := next(waiting, None)) is not None:
            running[pool.submit(call.function, *call.arguments)] = call.key
        if not running:
            return
        for reference in pool.first(list(running))[0]:
            yield running.pop(reference), pool.gather([reference])[0]


class Processes:
    """So many processes of this machine, one thread each."""

    def __init__(self, pool: ProcessPoolExecutor, count: int) -> None:
        self._pool, self.cpus = pool, count

    def put(self, value: object) -> object:
        """Goes out with every call: data that fits beside a model is quickly sent."""
        return value

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._pool.submit(function, *arguments)

    def first(self, references: Sequence[Future[Any]]) -> tuple[list[Future[Any]], list[Future[Any]]]:
        """Wait until a call has ended; return those that have, and those that have not."""
        done, waiting = wait(references, return_when=FIRST_COMPLETED)
        return list(done), [each for each in references if each in waiting]

    def gather(self, references: Sequence[Future[Any]]) -> list[Any]:
        try:
            return [each.result() for each in references]
        except BrokenProcessPool:
            raise WhyrankError("a process ended before its work was done (out of memory?); try fewer --jobs") from None


class ThisProcess:
    """This process: a call is run when it is submitted, with whatever threads it takes."""

    cpus = 1

    def put(self, value: object) -> object:
        return value

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*arguments))
        return done

    def first(self, references: Sequence[Future[Any]]) -> tuple[list[Future[Any]], list[Future[Any]]]:
        return list(references), []

    def gather(self, references: Sequence[Future[Any]]) -> list[Any]:
        return [each.result() for each in references]


@contextmanager
def processes(count: int) -> Iterator[Processes]:
    """Fresh processes that end with this one, however it ends; what has not begun when the block is left never does."""
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_settle)
    try:
        yield Processes(pool, count)
    finally:
        pool.shutdown(cancel_futures=True)


def _settle() -> None:
    """Be gone at once when the user interrupts, and when the process that asked is no more."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()
