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

COLUMNS = ("event", "exposure", "position", "value", "user", "item", "explanation", "model")


def add(store: Store, given: Sequence[Mapping[str, object]]) -> tuple[int, int]:
    """Store events; those whose key is there already count once. Returns how many were stored and how many not.

    An event of an exposure that has no key gets one made of the exposure, the position and the kind of event: a second
    click on the same reason of the same list is a repetition.

    Raises:
        ParameterError: a position is beyond the end of its list; nothing is stored. Exposures that are not in the store
            are not checked, as they may be written later than what was done with them.
    """
    rows = [_row(event) for event in given]
    keys = [row["key"] for row in rows if row["key"] is not None]
    with store.writing() as connection:
        if store.engine.dialect.name == "postgresql":  # SQLite has one writer at a time anyway
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(7769988)"))
        _check_positions(connection, rows)
        known = set(connection.scalars(sa.select(events.c.key).where(events.c.key.in_(keys)))) if keys else set()
        fresh = []
        for row in rows:
            if row["key"] is None or row["key"] not in known:
                fresh.append(row)
                known.add(row["key"])
        if fresh:
            connection.execute(events.insert(), fresh)
    return len(fresh), len(rows) - len(fresh)


def _check_positions(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise where a position is not in the list that the store has."""
    placed = [row for row in rows if row["exposure"] is not None and row["position"] is not None]
    ids = {row["exposure"] for row in placed}
    query = sa.select(exposures.c.id, exposures.c.slate).where(exposures.c.id.in_(ids))
    lengths = {id_: len(json.loads(slate)) for id_, slate in connection.execute(query)} if ids else {}
    for row in placed:
        length = lengths.get(row["exposure"], row["position"])
        if row["position"] > length:
            where = f"position {row['position']} of exposure {row['exposure']}"
            raise ParameterError(f"{where} is beyond the end of its list; use 1 to {length}")


def counts(store: Store) -> list[dict[str, object]]:
    """Events by model and kind; the model of an event that names none is the one of its exposure."""
    model = sa.func.coalesce(events.c.model, exposures.c.served)
    joined = events.outerjoin(exposures, events.c.exposure == exposures.c.id)
    query = sa.select(model, events.c.event, sa.func.count()).select_from(joined).group_by(model, events.c.event)
    table: dict[str, dict[str, int]] = {}
    with store.reading() as connection:
        for name, event, count in connection.execute(query):
            table.setdefault(name or "", dict.fromkeys(KINDS, 0))[event] = count
    return [{"model": name or None, **found} for name, found in sorted(table.items())]


def _row(event: Mapping[str, object]) -> dict[str, object]:
    """An event as its table has it."""
    row: dict[str, object] = {name: event.get(name) for name in COLUMNS}
    row["value"] = 1.0 if row["value"] is None else row["value"]
    key = event.get("key")
    if key is None and row["exposure"] is not None:
        key = f"{row['exposure']} {row['position']} {row['event']}"
    return {**row, "key": key, "time": int(time.time())}
