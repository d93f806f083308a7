"""What the results of an experiment come from: who saw which arm, and what they did."""

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
ANEW = 3600.0  # seconds after which all is read again: for what is too old, or came very late
LISTS = {"exposure": pl.String, "user": pl.String, "time": pl.Int64, "experiment": pl.String, "arm": pl.String}
EVENTS = {"exposure": pl.String, "event": pl.String, "value": pl.Float64, "time": pl.Int64}


class Visits(NamedTuple):
    """Lists as far as results need them, one row each, and events."""

    lists: pl.DataFrame  # columns `LISTS`
    events: pl.DataFrame  # columns `EVENTS`

    @classmethod
    def of(cls, log: Log) -> Visits:
        """Take the lists and events of a log."""
        return cls(log.exposures.unique("exposure").select(*LISTS), log.events.select(*EVENTS))

    def until(self, time: int) -> Visits:
        """Take what had happened before a time."""
        return Visits(*(each.filter(pl.col("time") < time) for each in self))


class Followed:
    """The visits of an experiment, and those of four weeks before it.

    Every poll reads what is new since the last one. After an erasure, and once an hour, it reads
    everything again.
    """

    def __init__(self, store: Store, experiment: Experiment) -> None:
        self._store, self._experiment = store, experiment
        self._visits: Visits
        self._begin(0)

    def poll(self) -> Visits:
        """Return all that the store holds now."""
        with self._store.reading() as connection:  # one state of the database
            erasures = connection.scalar(sa.select(sa.func.max(erased.c.number))) or 0
            if erasures != self._erasures or time.monotonic() - self._began > ANEW:
                self._begin(erasures)
            known: Visits = self._visits
            lists = self._new_lists(connection).join(known.lists, on="exposure", how="anti")
            done = self._new_events(connection)
        self._visits = Visits(pl.concat([known.lists, lists]), pl.concat([known.events, done]))
        return self._visits

    def _begin(self, erasures: int) -> None:
        self._erasures, self._began, self._newest, self._number = erasures, time.monotonic(), "", 0
        self._visits = Visits(pl.DataFrame(schema=LISTS), pl.DataFrame(schema=EVENTS))

    def _new_lists(self, connection: sa.Connection) -> pl.DataFrame:
        """Read lists with newer ids, which rise with time, and those that may have come late."""
        start = self._experiment.created
        earlier = (exposures.c.time < start) & (exposures.c.time >= start - HISTORY)
        query = sa.select(exposures.c.id, *(exposures.c[name] for name in list(LISTS)[1:]))
        query = query.where((exposures.c.experiment == self._experiment.name) | earlier)
        if self._newest:
            edge = int(self._newest[:12], 16) - 1000 * LATE
            query = query.where(exposures.c.id >= f"{edge:012x}")
        found = read_rows(connection, query, LISTS)
        self._newest = max(self._newest, str(found["exposure"].max() or ""))
        return found

    def _new_events(self, connection: sa.Connection) -> pl.DataFrame:
        """Read events with larger numbers, which rise in the order in which they are stored."""
        query = sa.select(events.c.number, *(events.c[name] for name in EVENTS)).where(
            events.c.number > self._number,
            events.c.exposure.is_not(None),
            events.c.time >= self._experiment.created - HISTORY,
        )
        found = read_rows(connection, query, {"number": pl.Int64, **EVENTS})
        self._number = max(self._number, int(found["number"].max() or 0))  # type: ignore[arg-type]
        return found.drop("number")
