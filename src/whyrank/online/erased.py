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


class ErasedUsers:
    """The erasures that a writer knows; it reads those that are new to it."""

    def __init__(self) -> None:
        self._last, self._salt = 0, ""
        self._marks: dict[str, str] = {}

    def left(self, connection: sa.Connection, rows: Sequence[Exposure]) -> list[Exposure]:
        """The rows that may be written; events of the others go, too. No erasure happens until the transaction ends."""
        _lock(connection, "pg_advisory_xact_lock_shared")
        query = sa.select(erased.c.number, erased.c.hash, erased.c.mark).where(erased.c.number > self._last)
        for number, hash_, mark in connection.execute(query.order_by(erased.c.number)):
            self._last, self._marks[hash_] = number, mark
        if not self._marks:
            return list(rows)
        self._salt = self._salt or _salt(connection)
        # Ids rise with time.
        gone = {row.id for row in rows if row.id < self._marks.get(_hashed(row.user, self._salt), "")}
        if gone:
            connection.execute(events.delete().where(events.c.exposure.in_(gone)))
        return [row for row in rows if row.id not in gone]


def _lock(connection: sa.Connection, name: str) -> None:
    """Writers together, or an erasure alone, in PostgreSQL; SQLite has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"SELECT {name}({LOCK})"))


def _salt(connection: sa.Connection) -> str:
    return str(connection.scalar(sa.select(schema.c.salt)))


def _hashed(user: str, salt: str) -> str:
    return salted(hashlib.sha256(f"whyrank\0{user}".encode()).hexdigest(), salt)
