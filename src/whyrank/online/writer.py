"""Exposures on their way to the store: answers do not wait, one commit serves all that came meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, Protocol

import sqlalchemy as sa

from whyrank.online.erased import ErasedMeanwhile
from whyrank.online.store import Store, first_line
from whyrank.online.tables import events, exposures

QUEUED = 100_000  # exposures that wait at most; more are refused
BATCH = 1000  # rows of one transaction
TOGETHER = 80  # rows of one statement; SQLite takes 999 values at least
GATHER = 0.1  # seconds in which further exposures may join those that nobody waits for
AGAIN = 1.0  # seconds until a store that failed is tried again
IDLE = 1.0  # seconds after which a writer without work reads who was erased
# A lock, a full disk, no server: a later try may succeed.
PASSING = (sa.exc.OperationalError, sa.exc.TimeoutError, sa.exc.InterfaceError)
RANDOM_BYTES, DRAWN = 10, 256  # of an id, and ids whose random numbers are drawn at once
_drawn: list[str] = []
_ahead = 0  # nanoseconds by which the wall clock is ahead of the steady one, at most until now


class Exposure(NamedTuple):
    """A list of reasons as it was shown to somebody, with the columns of its table."""

    id: str
    time: int
    user: str
    route: str
    served: str
    model: str
    experiment: str | None
    arm: str | None
    options: str
    slate: str
    asked: int | None = None


def new_id() -> str:
    """Return an id that nobody else has and nobody can guess; later ones of a process are larger.

    Its time follows the wall clock, but not backwards: who reads the latest lists misses none.
    """
    global _ahead
    try:
        drawn = _drawn.pop()
    except IndexError:  # each draw takes the system as long as many numbers of one draw
        block, size = os.urandom(DRAWN * RANDOM_BYTES).hex(), 2 * RANDOM_BYTES
        _drawn.extend(block[at : at + size] for at in range(size, len(block), size))
        drawn = block[:size]
    steady = time.monotonic_ns()
    _ahead = max(_ahead, time.time_ns() - steady)
    return f"{(_ahead + steady) // 1_000_000:012x}{drawn}"


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_drawn.clear)  # two processes must not use the same numbers


class QueueFull(Exception):  # noqa: N818 - an answer of the API, not a failure of it
    """More exposures wait for the store than may."""


class Counts(Protocol):
    """Where a writer reports what it does."""

    def exposures_written(self, count: int) -> None: ...
    def exposures_failed(self, count: int) -> None: ...
    def exposures_queued(self, count: int) -> None: ...


class Put(NamedTuple):
    """Exposures of one answer, and who waits for them."""

    exposures: Sequence[Exposure]
    future: Future[None] | None
    known: int  # the last erasure that was known when they were queued

    def tell(self, error: Exception | None = None) -> None:
        """Say what came of it; whoever got tired of waiting has cancelled the future."""
        if self.future is None or not self.future.set_running_or_notify_cancel():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class Writer:
    """A thread that writes exposures in batches. A batch that is written again doubles nothing.

    `put` returns at once. With `durable=True` its future is done when the exposures are on disk,
    and fails where they could not be written. Others are tried again until the store works; those
    that were only queued when a process is killed are lost. Those of a user who was erased after
    they were shown are dropped; whoever waits for them is told.
    """

    def __init__(self, store: Store, counts: Counts, say: Callable[[str], None] = lambda text: None) -> None:
        self._store, self._counts, self._say = store, counts, say
        self._queue: deque[Put] = deque()
        self._queued = self._urgent = 0  # exposures, and puts that somebody waits for
        self._ending = self._busy = False
        self._wake = threading.Condition()
        with store.reading() as connection:  # what is put from now on is newer than these erasures
            store.erased.read(connection)
        self._thread = threading.Thread(target=self._run, name="exposures", daemon=True)
        self._thread.start()

    def put(self, given: Sequence[Exposure], *, durable: bool = False) -> Future[None] | None:
        """Queue exposures, which are written all or none; raises QueueFull where many wait."""
        if not given:
            return None
        future: Future[None] | None = Future() if durable else None
        with self._wake:
            if self._queued + len(given) > QUEUED or self._ending:
                self._counts.exposures_failed(len(given))
                raise QueueFull
            self._add(Put(given, future, self._store.erased.known))
        return future

    def flush(self) -> None:
        """Wait until all that was put before is written; raises what the store raises."""
        marker: Future[None] = Future()
        with self._wake:
            if not self._queue and not self._busy:
                return
            self._add(Put((), marker, 0))
        marker.result()

    def close(self, seconds: float = 10.0) -> None:
        """Write what is queued, if the store takes it in time, and end the thread."""
        with self._wake:
            self._ending = True
            self._wake.notify()
        self._thread.join(seconds)

    def _add(self, put: Put) -> None:
        first = not self._queue
        self._queue.append(put)
        self._queued += len(put.exposures)
        self._urgent += put.future is not None
        if first or put.future is not None:
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._queue and not self._ending:
                    self._wake.wait(IDLE)
                if self._queue and not self._urgent and not self._ending:
                    self._wake.wait(GATHER)
                batch = self._take()
                self._busy = bool(batch)
                self._counts.exposures_queued(self._queued)
            if batch:
                self._write(batch)
                with self._wake:
                    self._busy = False
            elif self._ending:
                return
            else:
                with suppress(Exception), self._store.reading() as connection:  # a write tells why
                    self._store.erased.read(connection)

    def _take(self) -> list[Put]:
        """Take the next batch off the queue."""
        batch: list[Put] = []
        rows = 0
        while self._queue and rows < BATCH:
            batch.append(self._queue.popleft())
            rows += len(batch[-1].exposures)
        self._queued -= rows
        self._urgent -= sum(put.future is not None for put in batch)
        return batch

    def _write(self, batch: list[Put]) -> None:
        try:
            gone = self._store_rows(batch)
        except Exception as error:  # whatever it is, the thread must go on
            self._failed(batch, error)
            return
        self._counts.exposures_written(sum(len(put.exposures) for put in batch) - len(gone))
        for put in batch:
            whole = not gone or gone.isdisjoint(each.id for each in put.exposures)
            put.tell(None if whole else ErasedMeanwhile())

    def _store_rows(self, batch: list[Put]) -> set[str]:
        """Write exposures but for those whose users were erased meanwhile; return their ids."""
        rows = [(put.known, each) for put in batch for each in put.exposures]
        if not rows:
            return set()
        with self._store.writing() as connection:
            erased = self._store.erased.since(connection, {(known, row.user) for known, row in rows})
            gone = {row.id for known, row in rows if (known, row.user) in erased}
            if gone:
                connection.execute(events.delete().where(events.c.exposure.in_(gone)))
            self._insert(connection, [row for _, row in rows if row.id not in gone])
        return gone

    def _insert(self, connection: sa.Connection, rows: list[Exposure]) -> None:
        """Insert many rows by one statement: with one each, threads change for every row."""
        columns = ", ".join(f'"{name}"' for name in Exposure._fields)
        mark = "?" if connection.dialect.name == "sqlite" else "%s"
        places = f"({', '.join([mark] * len(Exposure._fields))})"
        for start in range(0, len(rows), TOGETHER):
            some = rows[start : start + TOGETHER]
            values = ", ".join([places] * len(some))
            statement = f"INSERT INTO {exposures.name} ({columns}) VALUES {values}"
            connection.exec_driver_sql(f"{statement} ON CONFLICT (id) DO NOTHING", tuple(chain.from_iterable(some)))

    def _failed(self, batch: list[Put], error: Exception) -> None:
        """Tell those who wait; put the others back where a later try may succeed."""
        self._say(first_line(getattr(error, "orig", None) or error))
        with self._wake:
            again = isinstance(error, PASSING) and not self._ending
            left = [put for put in batch if again and put.future is None]
            lost = [put for put in batch if not again or put.future is not None]
            self._queue.extendleft(reversed(left))
            self._queued += sum(len(put.exposures) for put in left)
        self._counts.exposures_failed(sum(len(put.exposures) for put in lost))
        for put in lost:
            put.tell(error)
        with self._wake:
            if left and not self._urgent and not self._ending:
                self._wake.wait(AGAIN)
