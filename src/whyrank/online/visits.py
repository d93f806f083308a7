"""What the results of an experiment come from: who saw which arm, and what they did; read once, then followed."""

from __future__ import annotations

import time
from typing import NamedTuple

import polars as pl
import sqlalchemy as sa

from whyrank.online.assignment import Experiment
from whyrank.online.log import Log
from whyrank.online.reading import read_rows
from whyrank.online.store import Store
from whyrank.online.tables import erased, events, exposures

HISTORY = 28 * 86_400  # seconds before an experiment that tell how users behaved anyway
LATE = 120  # seconds by which a list may reach the store after others that were shown later
ANEW = 3600.0  # seconds after which all is read again: what was too old is gone, and what came very late is there
LISTS = {"exposure": pl.String, "user": pl.String, "time": pl.Int64, "experiment": pl.String, "arm": pl.String}
EVENTS = {"exposure": pl.String, "event": pl.String, "value": pl.Float64, "time": pl.Int64}


class Visits(NamedTuple):
    """Lists as far as results need them, one row each, and events."""

    lists: pl.DataFrame  # columns `LISTS`
    events: pl.DataFrame  # columns `EVENTS`

    @classmethod
    def of(cls, log: Log) -> Visits:
        """The lists and events of a log."""
        return cls(log.exposures.unique("exposure").select(*LISTS), log.events.select(*EVENTS))

    def until(self, time: int) -> Visits:
        """What had happened before a time."""
        return Visits(*(each.filter(pl.col("time") < time) for each in self))


class Followed:
    """The visits of an experiment, and those of four weeks before it. Every look reads what is new since the last one.

    After an erasure, and once an hour, everything is read again.
    """

    def __init__(self, store: Store, experiment: Experiment) -> None:
        self._store, self._experiment = store, experiment
        self._begin(0)

    def look(self) -> Visits:
        """All that the store holds now."""
        with self._store.reading() as connection:  # one state of the database
            gone = connection.scalar(sa.select(sa.func.max(erased.c.number))) or 0
            if gone != self._erasures or time.monotonic() - self._began > ANEW:
                self._begin(gone)
            self._read_lists(connection)
            self._read_events(connection)
        return self._visits

    def _begin(self, erasures: int) -> None:
        self._erasures, self._began, self._newest, self._number = erasures, time.monotonic(), "", 0
        self._visits = Visits(pl.DataFrame(schema=LISTS), pl.DataFrame(schema=EVENTS))

    def _read_lists(self, connection: sa.Connection) -> None:
        """Lists with newer ids, which rise with time; those that may have come late are read again."""
        own, start = exposures.c.experiment == self._experiment.name, self._experiment.created
        earlier = (exposures.c.time < start) & (exposures.c.time >= start - HISTORY)
        columns = [exposures.c.id.label("exposure"), *(exposures.c[name] for name in list(LISTS)[1:])]
        query = sa.select(*columns).where(own | earlier)
        if self._newest:
            query = query.where(exposures.c.id >= f"{int(self._newest[:12], 16) - 1000 * LATE:012x}")
        found = read_rows(connection, query, LISTS)
        if len(found):
            self._newest = max(self._newest, str(found["exposure"].max()))
        fresh = found.join(self._visits.lists, on="exposure", how="anti") if len(self._visits.lists) else found
        self._visits = self._visits._replace(lists=pl.concat([self._visits.lists, fresh]))

    def _read_events(self, connection: sa.Connection) -> None:
        """Events with larger numbers, which rise in the order in which they are stored."""
        query = sa.select(events.c.number, *(events.c[name] for name in EVENTS)).where(
            events.c.number > self._number,
            events.c.exposure.is_not(None),
            events.c.time >= self._experiment.created - HISTORY,
        )
        found = read_rows(connection, query, {"number": pl.Int64, **EVENTS})
        if len(found):
            self._number = int(found["number"].max())  # type: ignore[arg-type]
        self._visits = self._visits._replace(events=pl.concat([self._visits.events, found.drop("number")]))
