"""Exposures on their way to the store: answers do not wait for it, and one commit serves all that came meanwhile."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from whyrank.online.erased import ErasedMeanwhile, ErasedUsers
from whyrank.online.exposure import Exposure
from whyrank.online.store import Store, first_line
from whyrank.online.tables import exposures

QUEUED = 100_000  # exposures that wait at most; more are refused
BATCH = 1000  # rows of one transaction
TOGETHER = 80  # rows of one statement; SQLite takes 999 values at least
PLACES = f"({', '.join('?' * len(Exposure._fields))})"
GATHER = 0.1  # seconds in which further exposures may join those that nobody waits for
AGAIN = 1.0  # seconds until a store that failed is tried again
IDLE = 1.0  # seconds after which a writer without work reads what was erased
PASSING = (sa.exc.OperationalError, sa.exc.TimeoutError, sa.exc.InterfaceError)  # a lock, a full disk, no server


class QueueFull(Exception):  # noqa: N818 - an answer of the API, not a failure of it
    """More exposures wait for the store than may."""


class Counts(Protocol):
    """Where a writer reports what it does."""

    def exposures_written(self, count: int) -> None: ...
    def exposures_failed(self, count: int) -> None: ...
    def exposures_queued(self, count: int) -> None: ...


class Writer:
    """A thread that writes exposures in batches. Ids are unique, so a batch that is written again doubles nothing.

    `put` returns at once. With `durable=True` its future is done when the exposure is on disk, and fails where it could
    not be written. Other exposures are tried again until the store works; those that were only queued when a process is
    killed are lost. Those of a user who was erased after they were shown are dropped; whoever waits for them is told.
    """

    def __init__(self, store: Store, counts: Counts, say: Callable[[str], None] = lambda text: None) -> None:
        self._store, self._counts, self._say = store, counts, say
        on_postgres = store.engine.dialect.name == "postgresql"
        insert = postgresql.insert(exposures) if on_postgres else sqlite.insert(exposures)
        self._insert = insert.on_conflict_do_nothing(index_elements=["id"])
        self._statement = None if on_postgres else str(self._insert.compile(dialect=store.engine.dialect))
        self._erased = ErasedUsers()
        self._queue: deque[Put] = deque()
        self._queued = self._urgent = 0  # exposures, and of the puts those that somebody waits for
        self._ending = self._busy = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="exposures", daemon=True)
        self._thread.start()

    def put(self, given: Sequence[Exposure], *, durable: bool = False) -> Future[None] | None:
        """Queue exposures, which are written all or none; raises QueueFull where too many wait already."""
        if not given:
            return None
        future: Future[None] | None = Future() if durable else None
        with self._wake:
            if self._queued + len(given) > QUEUED or self._ending:
                self._counts.exposures_failed(len(given))
                raise QueueFull
            self._add(Put(given, future, self._erased.known))
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
        idle = True
        while True:
            if idle:
                self._read_erased()
            with self._wake:
                idle = not self._queue and not self._ending and not self._wake.wait(IDLE)
                if not self._queue:
                    if self._ending:
                        return
                    continue
                if not self._urgent and not self._ending:
                    self._wake.wait(GATHER)
                batch = self._taken()
                self._busy = True
                self._counts.exposures_queued(self._queued)
            self._write(batch)
            with self._wake:
                self._busy = False

    def _taken(self) -> list[Put]:
        """The next puts, taken off the queue."""
        batch: list[Put] = []
        rows = 0
        while self._queue and rows < BATCH:
            batch.append(self._queue.popleft())
            rows += len(batch[-1].exposures)
        self._queued -= rows
        self._urgent -= sum(put.future is not None for put in batch)
        return batch

    def _read_erased(self) -> None:
        """Know erasures soon: exposures that are queued from then on are newer than these."""
        with suppress(Exception), self._store.reading() as connection:  # whoever writes finds out what is wrong
            self._erased.read(connection)

    def _write(self, batch: list[Put]) -> None:
        rows = [(put.known, each) for put in batch for each in put.exposures]
        left: list[Exposure] = []
        try:
            if rows:
                with self._store.writing() as connection:
                    left = self._erased.left(connection, rows)
                    if left:
                        self._add_rows(connection, left)
        except Exception as error:  # whatever it is, the thread must go on
            self._failed(batch, error)
            return
        self._counts.exposures_written(len(left))
        there = {each.id for each in left} if len(left) < len(rows) else None
        for put in batch:
            whole = there is None or all(each.id in there for each in put.exposures)
            put.tell(None if whole else ErasedMeanwhile())

    def _add_rows(self, connection: sa.Connection, rows: list[Exposure]) -> None:
        """In SQLite many rows by one statement: with one each, the interpreter's lock changes hands for every row."""
        if self._statement is None:
            connection.execute(self._insert, [each._asdict() for each in rows])
            return
        for start in range(0, len(rows), TOGETHER):
            some = rows[start : start + TOGETHER]
            statement = self._statement.replace(PLACES, ", ".join([PLACES] * len(some)))
            connection.exec_driver_sql(statement, tuple(chain.from_iterable(some)))

    def _failed(self, batch: list[Put], error: Exception) -> None:
        """Tell those who wait; put the others back where a later try may succeed."""
        self._say(first_line(getattr(error, "orig", None) or error))
        lost = [put for put in batch if put.future is not None]
        left = [put for put in batch if put.future is None]
        with self._wake:
            if not isinstance(error, PASSING) or self._ending:
                lost, left = batch, []
            self._queue.extendleft(reversed(left))
            self._queued += sum(len(put.exposures) for put in left)
        self._counts.exposures_failed(sum(len(put.exposures) for put in lost))
        for put in lost:
            put.tell(error)
        with self._wake:
            if left and not self._urgent and not self._ending:
                self._wake.wait(AGAIN)


class Put(NamedTuple):
    """Exposures of one answer, and who waits for them."""

    exposures: Sequence[Exposure]
    future: Future[None] | None
    known: int  # the last erasure that was known when they were queued

    def tell(self, error: Exception | None = None) -> None:
        """Say what came of it, once; whoever got tired of waiting has cancelled the future, which takes no result."""
        if self.future is None or not self.future.set_running_or_notify_cancel():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)
