"""Duties towards people whose behaviour is stored: erase it, let it expire, hand it out."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import sqlalchemy as sa

from whyrank.errors import ParameterError
from whyrank.online.erased import drop_old_marks, mark_erased
from whyrank.online.reading import named
from whyrank.online.store import Store
from whyrank.online.tables import cases, events, exposures

DAY = 86_400
TOMBSTONE = "forgotten-"  # begins the id that takes the place of a user where a row must stay


def tombstone() -> str:
    """Return an id that says nothing of who had its place: it is drawn at random."""
    return TOMBSTONE + secrets.token_hex(8)


def erase(store: Store, user: str) -> dict[str, int]:
    """Erase a user from the store, in one transaction; return how many rows of each kind.

    Exposures and events go; exposures that other processes have shown but not written yet are
    dropped when they come. Cases of studies stay, under a tombstone, since participants have judged
    them.
    """
    with store.writing() as connection:
        mark_erased(connection, user)
        erased = _delete(connection, exposures.c.user == user, events.c.user == user)
        renamed = cases.update().where(cases.c.user == user).values(user=tombstone())
        erased["study_cases"] = connection.execute(renamed).rowcount
    with store.reading() as connection:  # what this process shows from now on is newer
        store.erased.read(connection)
    store.tidy()
    return erased


def retain(store: Store, days: int, now: float | None = None) -> dict[str, int]:
    """Erase exposures and events older than a number of days; return how many that were.

    Events of an exposure that goes go with it. Hashes of erased users go after a week, whatever the
    number of days.
    """
    if days < 1:
        raise ParameterError(f"days is {days}; use at least 1")
    today = time.time() if now is None else now
    before = int(today) - days * DAY
    with store.writing() as connection:
        erased = _delete(connection, exposures.c.time < before, events.c.time < before)
        drop_old_marks(connection, today)
    store.tidy()
    return erased


def _delete(connection: sa.Connection, lists: sa.ColumnElement[bool], done: sa.ColumnElement[bool]) -> dict[str, int]:
    """Delete some exposures with all of their events, and other events."""
    ids = sa.select(exposures.c.id).where(lists)
    theirs = events.delete().where(sa.or_(done, events.c.exposure.in_(ids)))
    count = connection.execute(theirs).rowcount
    return {"exposures": connection.execute(exposures.delete().where(lists)).rowcount, "events": count}


def export(store: Store, user: str) -> dict[str, Any]:
    """Return everything that the store holds of a user, as plain data."""
    shown = sa.select(exposures).where(exposures.c.user == user).order_by(exposures.c.time, exposures.c.id)
    ids = sa.select(exposures.c.id).where(exposures.c.user == user)
    done = sa.select(events).where(sa.or_(events.c.user == user, events.c.exposure.in_(ids)))
    with store.reading() as connection:
        lists = [dict(row._mapping) for row in connection.execute(shown)]
        acts = [dict(row._mapping) for row in connection.execute(done.order_by(events.c.time, events.c.number))]
        judged = connection.execute(sa.select(cases).where(cases.c.user == user)).all()
    for each in lists:
        each |= {"slate": named(each["slate"]), "options": json.loads(each["options"])}
    for each in acts:
        del each["number"]
    studies = [{"study": row.study, "case": row.number, "item": row.item, "said": row.truth} for row in judged]
    return {"user": user, "exposures": lists, "events": acts, "study_cases": studies}
