"""The log as a store holds it, read into tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import sqlalchemy as sa

from whyrank.online.log import EVENTS, EXPOSURES
from whyrank.online.store import Store
from whyrank.online.tables import events, exposures

ROWS = 50_000  # in memory as Python objects at once
SLATE = pl.List(pl.Struct({"i": pl.String, "e": pl.String, "p": pl.Float64}))
TEXTS = ("id", "user", "served", "experiment", "arm", "model", "route", "slate")
LISTS = dict.fromkeys(TEXTS, pl.String) | {"time": pl.Int64, "asked": pl.Int64}
HEAD = ("time", "user", "arm", "served", "model", "route")


def read_store(
    place: str, since: int | None, until: int | None, experiment: str | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read exposures of a store and their events."""
    lists: list[sa.ColumnElement[bool]] = []
    done: list[sa.ColumnElement[bool]] = [events.c.exposure.is_not(None)]
    for table, wanted in ((exposures, lists), (events, done)):
        wanted += [] if since is None else [table.c.time >= since]
        wanted += [] if until is None else [table.c.time < until]
    if experiment is not None:
        lists.append(exposures.c.experiment == experiment)
    store = Store(place).create()
    try:
        with store.reading() as connection:  # one state of the database for both
            shown = read_lists(connection, lists)
            query = sa.select(*(events.c[name] for name in EVENTS)).where(*done)
            found = read_rows(connection, query, EVENTS)
    finally:
        store.close()
    people = shown.select("exposure", shown_to="user").unique("exposure")
    found = found.join(people, on="exposure", how="inner")
    return shown.select(*EXPOSURES), found.with_columns(user=pl.coalesce("user", "shown_to")).select(*EVENTS)


def read_lists(connection: sa.Connection, wanted: Sequence[sa.ColumnElement[bool]]) -> pl.DataFrame:
    """Read one row per shown reason of the wanted lists: columns of `EXPOSURES`, and `served`."""
    query = sa.select(*(exposures.c[name] for name in LISTS)).where(*wanted)
    lists = read_rows(connection, query, LISTS).rename({"id": "exposure"})
    slates = lists.with_columns(pl.col("slate").str.json_decode(SLATE))
    length = pl.col("slate").list.len() + 1
    rows = slates.with_columns(position=pl.int_ranges(1, length, dtype=pl.Int32))
    rows = rows.explode("slate", "position").unnest("slate")
    rows = rows.rename({"i": "item", "e": "explanation", "p": "propensity"})
    nothing = pl.col("explanation").is_null()
    return rows.with_columns(position=pl.when(nothing).then(0).otherwise("position").cast(pl.Int32))


def read_rows(connection: sa.Connection, query: sa.Select[Any], kinds: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Read the rows of a query, a part at a time."""
    rows = connection.execution_options(yield_per=ROWS).execute(query)
    schema, parts = dict(kinds), rows.partitions(ROWS)
    found = [pl.DataFrame([tuple(row) for row in part], schema, orient="row") for part in parts]
    return pl.concat([pl.DataFrame(schema=schema), *found])


def latest(
    store: Store,
    experiment: str,
    arm: str | None = None,
    event: str | None = None,
    explanation: str | None = None,
    before: str | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Return the latest lists of an experiment, or those before one of them, with their events."""
    wanted = [exposures.c.experiment == experiment]
    if arm is not None:
        wanted.append(exposures.c.arm == arm)
    if event is not None:
        shown = sa.select(events.c.exposure).where(events.c.event == event)
        wanted.append(exposures.c.id.in_(shown))
    if explanation is not None:  # LIKE would ignore case
        on_postgres = store.engine.dialect.name == "postgresql"
        find = sa.func.strpos if on_postgres else sa.func.instr
        written = f'"e":{json.dumps(explanation, ensure_ascii=False)},'
        wanted.append(find(exposures.c.slate, written) > 0)
    if before is not None:
        wanted.append(exposures.c.id < before)
    query = sa.select(exposures).where(*wanted).order_by(exposures.c.id.desc()).limit(limit)
    columns = ("event", "position", "value", "time")
    with store.reading() as connection:
        rows = list(connection.execute(query))
        done: dict[str, list[dict[str, Any]]] = {row.id: [] for row in rows}
        chosen = sa.select(events.c.exposure, *(events.c[name] for name in columns))
        for exposure, *rest in connection.execute(chosen.where(events.c.exposure.in_(done))):
            done[exposure].append(dict(zip(columns, rest, strict=True)))
    return [
        {"exposure": row.id}
        | {name: getattr(row, name) for name in HEAD}
        | {"slate": named(row.slate), "events": done[row.id]}
        for row in rows
    ]


def named(slate: str) -> list[dict[str, object]]:
    """Read a stored slate, with full names."""
    return [{"item": one["i"], "explanation": one["e"], "propensity": one["p"]} for one in json.loads(slate)]
