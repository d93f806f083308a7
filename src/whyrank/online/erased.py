"""Who was erased: every writer looks here, so that rows still on their way to the store are dropped.

Clocks decide nothing: erasures have rising numbers, and what is queued remembers the last one that
its process knew. Whatever it did not know may have come later, and drops the row.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Set

import sqlalchemy as sa

from whyrank.online.tables import erased, schema

REMEMBERED = 7 * 86_400  # seconds after which nobody can hold an exposure from before an erasure
LOCK = 7769989


class ErasedMeanwhile(Exception):  # noqa: N818 - an answer of the API, not a failure of it
    """The user was erased between being shown a list and the list being written."""


def mark_erased(connection: sa.Connection, user: str) -> None:
    """Say that exposures of a user must not be written; whoever writes just then is waited for."""
    _lock(connection, "pg_advisory_xact_lock")
    hash_ = _hashed(user, _salt(connection))
    connection.execute(erased.insert(), {"hash": hash_, "time": int(time.time())})
    drop_old_marks(connection, time.time())


def drop_old_marks(connection: sa.Connection, now: float) -> None:
    """Remove the hashes of those erased so long ago that nobody can hold anything of them."""
    connection.execute(erased.delete().where(erased.c.time < now - REMEMBERED))


class ErasedUsers:
    """The erasures that a process knows; it reads those that are new to it."""

    def __init__(self) -> None:
        self.known = 0  # the number of the last erasure that was read
        self._salt = ""
        self._last: dict[str, int] = {}  # of a hashed user, the number of the last erasure

    def read(self, connection: sa.Connection) -> None:
        """Read who was erased since the last time."""
        query = sa.select(erased.c.number, erased.c.hash).where(erased.c.number > self.known)
        for number, hash_ in connection.execute(query.order_by(erased.c.number)):
            self._last[hash_] = self.known = number
        if self._last and not self._salt:
            self._salt = _salt(connection)

    def since(self, connection: sa.Connection, rows: Set[tuple[int, str]]) -> set[tuple[int, str]]:
        """Return those of (last erasure known when it was queued, user) who were erased since.

        Nobody else is erased until the transaction of the connection ends.
        """
        _lock(connection, "pg_advisory_xact_lock_shared")
        self.read(connection)
        if not self._last:
            return set()
        return {(known, user) for known, user in rows if self._last.get(_hashed(user, self._salt), 0) > known}


def _lock(connection: sa.Connection, name: str) -> None:
    """Let writers in together, or an erasure alone; SQLite has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT {name}({LOCK})"))


def _salt(connection: sa.Connection) -> str:
    return str(connection.scalar(sa.select(schema.c.salt)))


def _hashed(user: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}\0{user}".encode()).hexdigest()
