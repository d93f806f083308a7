"""What people did with the reasons they were shown: the signal to learn from online."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from whyrank.service.store import Store, feedback, now

EVENTS = ("shown", "clicked", "dismissed", "helpful")


def add(store: Store, events: Sequence[dict[str, object]]) -> tuple[int, int]:
    """Store events; those whose key is there already count once. Returns how many were stored and how many not."""
    keys = [event["key"] for event in events if event["key"] is not None]
    at, stored = now(), 0
    with store.writing() as connection:
        if store.engine.dialect.name == "postgresql":  # SQLite has one writer at a time anyway
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(7769988)"))
        known = set(connection.scalars(sa.select(feedback.c.key).where(feedback.c.key.in_(keys)))) if keys else set()
        fresh = []
        for event in events:
            if event["key"] is None or event["key"] not in known:
                fresh.append({**event, "at": at})
                known.add(event["key"])
        stored = len(fresh)
        if fresh:
            connection.execute(feedback.insert(), fresh)
    return stored, len(events) - stored


def counts(store: Store) -> list[dict[str, object]]:
    """Events by model and kind."""
    query = sa.select(feedback.c.model, feedback.c.event, sa.func.count()).group_by(feedback.c.model, feedback.c.event)
    table: dict[str, dict[str, int]] = {}
    with store.reading() as connection:
        for model, event, count in connection.execute(query):
            table.setdefault(model or "", dict.fromkeys(EVENTS, 0))[event] = count
    return [{"model": model or None, **events} for model, events in sorted(table.items())]
