"""The log as a store holds it, read into tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl
import sqlalchemy as sa

from whyrank.online.log import EVENTS, EXPOSURES
from whyrank.online.store import Store
from whyrank.online.tables import events, exposures

ROWS = 50_000  # in memory as Python objects at once
SLATE = pl.List(pl.Struct({"i": pl.String, "e": pl.String, "p": pl.Float64}))
LISTS = ("id", "time", "user", "served", "experiment", "arm", "model", "route", "slate", "asked")


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
        shown = read_lists(connection, wanted)
        query = sa.select(*(events.c[name] for name in EVENTS)).where(events.c.exposure.is_not(None))
        if since is not None:
            query = query.where(events.c.time >= since)
        if until is not None:
            query = query.where(events.c.time < until)
        found = read_rows(connection, query, dict(EVENTS))
    people = shown.select("exposure", pl.col("user").alias("shown_to")).unique("exposure")
    found = found.join(people, on="exposure", how="inner").with_columns(pl.coalesce("user", "shown_to").alias("user"))
    return shown.select(*EXPOSURES), found.select(*EVENTS)


def read_lists(connection: sa.Connection, wanted: Sequence[sa.ColumnElement[bool]]) -> pl.DataFrame:
    """One row per shown reason of the wanted lists: the columns of `EXPOSURES`, and `served`."""
    columns = [exposures.c[name] for name in LISTS]
    lists = read_rows(connection, sa.select(*columns).where(*wanted), {name: _kind(name) for name in LISTS})
    slates = lists.rename({"id": "exposure"}).with_columns(pl.col("slate").str.json_decode(SLATE))
    rows = slates.with_columns(position=pl.int_ranges(1, pl.col("slate").list.len() + 1, dtype=pl.Int32))
    rows = (
        rows.explode("slate", "position").unnest("slate").rename({"i": "item", "e": "explanation", "p": "propensity"})
    )
    position = pl.when(pl.col("explanation").is_null()).then(pl.lit(0, pl.Int32)).otherwise("position")
    return rows.with_columns(position.alias("position"))


def _kind(name: str) -> type[pl.DataType]:
    return pl.Int64 if name in ("time", "asked") else pl.String


def read_rows(connection: sa.Connection, query: sa.Select[Any], kinds: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    """The rows of a query, a part at a time."""
    rows = connection.execution_options(yield_per=ROWS).execute(query)
    parts = [pl.DataFrame([tuple(row) for row in part], kinds, orient="row") for part in rows.partitions(ROWS)]
    return pl.concat([pl.DataFrame(schema=kinds), *parts])


def latest(
    store: Store,
    experiment: str,
    arm: str | None = None,
    event: str | None = None,
    explanation: str | None = None,
    before: str | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """The latest lists of an experiment, or those before one of them, with their events, as plain data."""
    wanted = [exposures.c.experiment == experiment]
    if arm is not None:
        wanted.append(exposures.c.arm == arm)
    if event is not None:
        wanted.append(exposures.c.id.in_(sa.select(events.c.exposure).where(events.c.event == event)))
    if explanation is not None:
        find = sa.func.strpos if store.engine.dialect.name == "postgresql" else sa.func.instr  # LIKE ignores case
        wanted.append(find(exposures.c.slate, f'"e":{json.dumps(explanation, ensure_ascii=False)},') > 0)
    if before is not None:
        wanted.append(exposures.c.id < before)
    query = sa.select(exposures).where(*wanted).order_by(exposures.c.id.desc()).limit(limit)
    with store.reading() as connection:
        rows = list(connection.execute(query))
        ids = [row.id for row in rows]
        done: dict[str, list[dict[str, Any]]] = {id_: [] for id_ in ids}
        chosen = (events.c.exposure, events.c.event, events.c.position, events.c.value, events.c.time)
        for exposure, *rest in connection.execute(sa.select(*chosen).where(events.c.exposure.in_(ids))):
            done[exposure].append(dict(zip(("event", "position", "value", "time"), rest, strict=True)))
    head = ("time", "user", "arm", "served", "model", "route")
    return [
        {"exposure": row.id, **{name: getattr(row, name) for name in head}, "slate": named(row.slate)}
        | {"events": done[row.id]}
        for row in rows
    ]


def named(slate: str) -> list[dict[str, object]]:
    """A stored slate under its full names."""
    return [{"item": one["i"], "explanation": one["e"], "propensity": one["p"]} for one in json.loads(slate)]
