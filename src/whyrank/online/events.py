"""What people did with the reasons they were shown: stored events."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from whyrank.errors import ParameterError
from whyrank.online.log import KINDS
from whyrank.online.store import Store
from whyrank.online.tables import events, exposures

COLUMNS = ("event", "exposure", "position", "user", "item", "explanation", "model")


def add(store: Store, given: Sequence[Mapping[str, object]]) -> tuple[int, int]:
    """Store events once; return how many were stored and how many were there already.

    An event of an exposure that has no key gets one made of the exposure, the position and the kind
    of event: a second click on the same reason of the same list is a repetition.

    Raises:
        ParameterError: a position is beyond the end of its list; nothing is stored. Exposures that
            are not in the store are not checked, as they may be written later than their events.
    """
    rows = [_row(event) for event in given]
    keys = [row["key"] for row in rows if row["key"] is not None]
    with store.writing() as connection:
        if store.engine.dialect.name == "postgresql":  # SQLite has one writer at a time anyway
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(7769988)"))
        _check_positions(connection, rows)
        known = set(connection.scalars(sa.select(events.c.key).where(events.c.key.in_(keys))))
        fresh: dict[object, dict[str, Any]] = {}
        for at, row in enumerate(rows):
            if row["key"] not in known:
                fresh.setdefault(row["key"] or at, row)  # those without a key are all different
        if fresh:
            connection.execute(events.insert(), list(fresh.values()))
    return len(fresh), len(rows) - len(fresh)


def _row(event: Mapping[str, object]) -> dict[str, Any]:
    """Make the row of an event."""
    row: dict[str, Any] = {name: event.get(name) for name in COLUMNS}
    value, key = event.get("value"), event.get("key")
    if key is None and row["exposure"] is not None:
        key = f"{row['exposure']} {row['position']} {row['event']}"
    return row | {"value": 1.0 if value is None else value, "key": key, "time": int(time.time())}


def _check_positions(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise where a position is not in the list that the store has."""
    placed = [row for row in rows if row["exposure"] is not None and row["position"] is not None]
    query = sa.select(exposures.c.id, exposures.c.slate)
    query = query.where(exposures.c.id.in_({row["exposure"] for row in placed}))
    lengths = {id_: len(json.loads(slate)) for id_, slate in connection.execute(query)}
    for row in placed:
        length = lengths.get(row["exposure"], row["position"])
        if row["position"] > length:
            where = f"position {row['position']} of exposure {row['exposure']}"
            raise ParameterError(f"{where} is beyond the end of its list; use 1 to {length}")


def counts(store: Store) -> list[dict[str, object]]:
    """Count events by model and kind; an event that names no model has that of its exposure."""
    model = sa.func.coalesce(events.c.model, exposures.c.served)
    joined = events.outerjoin(exposures, events.c.exposure == exposures.c.id)
    query = sa.select(model, events.c.event, sa.func.count()).select_from(joined)
    table: dict[str, dict[str, int]] = {}
    with store.reading() as connection:
        for name, event, count in connection.execute(query.group_by(model, events.c.event)):
            table.setdefault(name or "", dict.fromkeys(KINDS, 0))[event] = count
    return [{"model": name or None, **found} for name, found in sorted(table.items())]
