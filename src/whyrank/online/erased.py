"""Who was erased: what every writer looks at, so that rows which were still on their way to the store are dropped."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import sqlalchemy as sa

from whyrank.online.exposure import Exposure, new_id
from whyrank.online.tables import erased, events, salted, schema

KEPT = 7 * 86_400  # seconds after which nobody can hold an exposure from before an erasure any more
LOCK = 7769989


def mark_erased(connection: sa.Connection, user: str) -> None:
    """Say that exposures of a user from before now must not be written; whoever writes now is waited for."""
    _lock(connection, "pg_advisory_xact_lock")
    now = time.time()
    row = {"hash": _hashed(user, _salt(connection)), "mark": new_id(), "time": int(now)}
    connection.execute(erased.insert(), row)
    drop_old_marks(connection, now)


def drop_old_marks(connection: sa.Connection, now: float) -> None:
    """Remove the hashes of those who were erased so long ago that nobody can hold anything of them."""
    connection.execute(erased.delete().where(erased.c.time < now - KEPT))


class ErasedMeanwhile(Exception):  # noqa: N818 - an answer of the API, not a failure of it
    """The user was erased between being shown a list and the list being written."""


class ErasedUsers:
    """The erasures that a writer knows; it reads those that are new to it."""

    def __init__(self) -> None:
        self.known = 0  # the number of the last erasure that was read
        self._salt = ""
        self._last: dict[str, tuple[int, str]] = {}  # of a hashed user the number and the mark of the last erasure

    def read(self, connection: sa.Connection) -> None:
        """Read what was erased since the last time."""
        query = sa.select(erased.c.number, erased.c.hash, erased.c.mark).where(erased.c.number > self.known)
        for number, hash_, mark in connection.execute(query.order_by(erased.c.number)):
            self.known, self._last[hash_] = number, (number, mark)
        if self._last and not self._salt:
            self._salt = _salt(connection)

    def left(self, connection: sa.Connection, rows: Sequence[tuple[int, Exposure]]) -> list[Exposure]:
        """Return the rows that may be written; events of the others go. No erasure happens until the transaction ends.

        Each row comes with what was `known` when it was queued. An erasure that was known then is older than the row,
        whatever clocks say. Whether another one is, follows from the id and the mark, which rise with time.
        """
        _lock(connection, "pg_advisory_xact_lock_shared")
        self.read(connection)
        gone = {row.id for known, row in rows if self._is_gone(known, row)} if self._last else set()
        if gone:
            connection.execute(events.delete().where(events.c.exposure.in_(gone)))
        return [row for _, row in rows if row.id not in gone]

    def _is_gone(self, known: int, row: Exposure) -> bool:
        number, mark = self._last.get(_hashed(row.user, self._salt), (0, ""))
        return number > known and row.id < mark


def _lock(connection: sa.Connection, name: str) -> None:
    """Writers together, or an erasure alone, in PostgreSQL; SQLite has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT {name}({LOCK})"))


def _salt(connection: sa.Connection) -> str:
    return str(connection.scalar(sa.select(schema.c.salt)))


def _hashed(user: str, salt: str) -> str:
    return salted(hashlib.sha256(f"whyrank\0{user}".encode()).hexdigest(), salt)
