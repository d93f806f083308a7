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
    """An id that says nothing of who had its place: it is drawn at random."""
    return TOMBSTONE + secrets.token_hex(8)


def erase(store: Store, user: str) -> dict[str, int]:
    """Erase a user from the store, in one transaction; how many rows of each kind that were.

    Exposures and events go; exposures that other processes have shown but not written yet are dropped when they come.
    Cases of studies stay, under a tombstone, since participants have judged them.
    """
    shown = sa.select(exposures.c.id).where(exposures.c.user == user)
    with store.writing() as connection:
        mark_erased(connection, user)
        theirs = sa.or_(events.c.user == user, events.c.exposure.in_(shown))
        done = connection.execute(events.delete().where(theirs)).rowcount
        lists = connection.execute(exposures.delete().where(exposures.c.user == user)).rowcount
        renamed = cases.update().where(cases.c.user == user).values(user=tombstone())
        found = {"exposures": lists, "events": done, "study_cases": connection.execute(renamed).rowcount}
    with store.reading() as connection:  # what this process shows from now on is newer
        store.erased.read(connection)
    store.tidy()
    return found


def retain(store: Store, days: int, now: float | None = None) -> dict[str, int]:
    """Erase exposures and events that are older than a number of days; how many that were.

    Events of an exposure that goes go with it. Hashes of erased users go after a week, whatever the number of days.
    """
    if days < 1:
        raise ParameterError(f"days is {days}; use at least 1")
    today = time.time() if now is None else now
    before = int(today) - days * DAY
    old = sa.select(exposures.c.id).where(exposures.c.time < before)
    with store.writing() as connection:
        expired = sa.or_(events.c.time < before, events.c.exposure.in_(old))
        done = connection.execute(events.delete().where(expired)).rowcount
        lists = connection.execute(exposures.delete().where(exposures.c.time < before)).rowcount
        drop_old_marks(connection, today)
    store.tidy()
    return {"exposures": lists, "events": done}


def export(store: Store, user: str) -> dict[str, Any]:
    """Everything that the store holds of a user, as plain data."""
    shown = sa.select(exposures).where(exposures.c.user == user).order_by(exposures.c.time, exposures.c.id)
    ids = sa.select(exposures.c.id).where(exposures.c.user == user)
    done = sa.select(events).where(sa.or_(events.c.user == user, events.c.exposure.in_(ids)))
    with store.reading() as connection:
        lists = [dict(row._mapping) for row in connection.execute(shown)]
        acts = [dict(row._mapping) for row in connection.execute(done.order_by(events.c.time, events.c.number))]
        judged = connection.execute(sa.select(cases).where(cases.c.user == user)).all()
    for each in lists:
        each["slate"] = named(each["slate"])
        each["options"] = json.loads(each["options"])
    for each in acts:
        del each["number"]
    studies = [{"study": row.study, "case": row.number, "item": row.item, "said": row.truth} for row in judged]
    return {"user": user, "exposures": lists, "events": acts, "study_cases": studies}
