"""The log as a store holds it, read into tables."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import sqlalchemy as sa

from whyrank.online.log import EVENTS, EXPOSURES
from whyrank.online.store import Store
from whyrank.online.tables import events, exposures

ROWS = 50_000  # in memory as Python objects at once
SLATE = pl.List(pl.Struct({"i": pl.String, "e": pl.String, "p": pl.Float64}))
LISTS = ("id", "time", "user", "experiment", "arm", "model", "route", "slate")


def read_store(
    store: Store, since: int | None, until: int | None, experiment: str | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Exposures and events of a store; events whose exposure is not among them are left out."""
    wanted = []
    if since is not None:
        wanted.append(exposures.c.time >= since)
    if until is not None:
        wanted.append(exposures.c.time < until)
    if experiment is not None:
        wanted.append(exposures.c.experiment == experiment)
    with store.reading() as connection:  # one state of the database for both
        columns = [exposures.c[name] for name in LISTS]
        lists = _table(connection, sa.select(*columns).where(*wanted), {name: _kind(name) for name in LISTS})
        query = sa.select(*(events.c[name] for name in EVENTS)).where(events.c.exposure.is_not(None))
        if since is not None:
            query = query.where(events.c.time >= since)
        if until is not None:
            query = query.where(events.c.time < until)
        found = _table(connection, query, dict(EVENTS))
    people = lists.select(pl.col("id").alias("exposure"), pl.col("user").alias("shown_to"))
    found = found.join(people, on="exposure", how="inner").with_columns(pl.coalesce("user", "shown_to").alias("user"))
    return exploded(lists), found.select(*EVENTS)


def exploded(lists: pl.DataFrame) -> pl.DataFrame:
    """One row per shown reason from one row per list."""
    slates = lists.rename({"id": "exposure"}).with_columns(pl.col("slate").str.json_decode(SLATE))
    rows = slates.with_columns(position=pl.int_ranges(1, pl.col("slate").list.len() + 1, dtype=pl.Int32))
    rows = (
        rows.explode("slate", "position").unnest("slate").rename({"i": "item", "e": "explanation", "p": "propensity"})
    )
    position = pl.when(pl.col("explanation").is_null()).then(pl.lit(0, pl.Int32)).otherwise("position")
    return rows.with_columns(position.alias("position")).select(*EXPOSURES)


def _kind(name: str) -> type[pl.DataType]:
    return pl.Int64 if name == "time" else pl.String


def _table(connection: sa.Connection, query: sa.Select[Any], kinds: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    """The rows of a query, a part at a time."""
    rows = connection.execution_options(yield_per=ROWS).execute(query)
    parts = [pl.DataFrame([tuple(row) for row in part], kinds, orient="row") for part in rows.partitions(ROWS)]
    return pl.concat([pl.DataFrame(schema=kinds), *parts])


def latest(store: Store, experiment: str, arm: str | None, event: str | None, limit: int) -> list[dict[str, Any]]:
    """The latest lists of an experiment with their events, as plain data."""
    wanted = [exposures.c.experiment == experiment]
    if arm is not None:
        wanted.append(exposures.c.arm == arm)
    if event is not None:
        wanted.append(exposures.c.id.in_(sa.select(events.c.exposure).where(events.c.event == event)))
    query = sa.select(exposures).where(*wanted).order_by(exposures.c.id.desc()).limit(limit)
    with store.reading() as connection:
        rows = list(connection.execute(query))
        ids = [row.id for row in rows]
        done: dict[str, list[dict[str, Any]]] = {id_: [] for id_ in ids}
        chosen = (events.c.exposure, events.c.event, events.c.position, events.c.value, events.c.time)
        for exposure, *rest in connection.execute(sa.select(*chosen).where(events.c.exposure.in_(ids))):
            done[exposure].append(dict(zip(("event", "position", "value", "time"), rest, strict=True)))
    head = ("time", "user", "arm", "model", "route")
    return [
        {"exposure": row.id, **{name: getattr(row, name) for name in head}, "slate": named(row.slate)}
        | {"events": done[row.id]}
        for row in rows
    ]


def named(slate: str) -> list[dict[str, object]]:
    """A stored slate under its full names."""
    return [{"item": one["i"], "explanation": one["e"], "propensity": one["p"]} for one in json.loads(slate)]
