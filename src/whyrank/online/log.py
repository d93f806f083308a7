"""The log: what was shown to whom, and what people did with it, as two tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from whyrank.atomic import Marker, new_folder
from whyrank.data.parquet import read_parquet
from whyrank.data.tables import UNREADABLE, first_line, inside
from whyrank.data.vocabulary import feed_ids
from whyrank.errors import DataError, ParameterError

KINDS = ("shown", "clicked", "dismissed", "helpful", "converted")
EXPOSURES: Mapping[str, type[pl.DataType]] = {
    "exposure": pl.String,
    "time": pl.Int64,  # Unix seconds, UTC
    "user": pl.String,
    "item": pl.String,
    "position": pl.Int32,  # from 1; 0: a list without reasons, which has one row
    "explanation": pl.String,  # null in a list without reasons
    "propensity": pl.Float64,  # of showing it at this position, given those above it; 1 without exploration
    "experiment": pl.String,
    "arm": pl.String,
    "model": pl.String,  # digest
    "route": pl.String,
    "asked": pl.Int32,  # reasons that were asked for; null: not known, taken for the longest list of the route
}
EVENTS: Mapping[str, type[pl.DataType]] = {
    "exposure": pl.String,
    "position": pl.Int32,  # null: of the list as a whole
    "event": pl.String,
    "value": pl.Float64,
    "time": pl.Int64,
    "user": pl.String,
}
OPTIONAL = {"explanation", "experiment", "arm", "asked", "position of events"}
NAMES = ("exposures", "events")
FORMAT = "whyrank-log-1"
MARKER = Marker("log.json", r"log\.json|(exposures|events)\.(parquet|jsonl)")


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """Exposures, one row per shown reason, and events. Both are checked and sorted when a log is made.

    Args:
        exposures: columns of `EXPOSURES`; `experiment`, `arm` and `asked` may be missing.
        events: columns of `EVENTS`; `value` and `position` may be missing.

    Raises:
        DataError: a column is missing or holds what it must not; names table, row and column.

    >>> shown = {"exposure": ["x"], "time": [0], "user": ["ann"], "item": ["inn"], "position": [1],
    ...          "explanation": ["quiet"], "propensity": [1.0], "model": ["d1"], "route": ["explain"]}
    >>> Log(pl.DataFrame(shown), pl.DataFrame({"exposure": ["x"], "event": ["clicked"], "time": [9], "user": ["ann"]}))
    Log(1 list, 1 reason, 1 event)
    """

    exposures: pl.DataFrame
    events: pl.DataFrame

    def __post_init__(self) -> None:
        exposures = _typed(self.exposures, EXPOSURES, "exposures", {"experiment": None, "arm": None, "asked": None})
        events = _typed(self.events, EVENTS, "events", {"value": 1.0, "position": None})
        _check_exposures(exposures)
        _check_events(events, exposures)
        object.__setattr__(self, "exposures", exposures.sort("exposure", "position"))
        object.__setattr__(self, "events", events.sort(*EVENTS, nulls_last=True))

    def __repr__(self) -> str:
        sizes = ((self.lists, "list"), ((self.exposures["position"] > 0).sum(), "reason"), (len(self.events), "event"))
        return f"Log({', '.join(f'{count:,} {name}' + 's' * (count != 1) for count, name in sizes)})"

    @cached_property
    def lists(self) -> int:
        """How many lists were shown."""
        return self.exposures["exposure"].n_unique()

    @classmethod
    def read(
        cls, source: str | Path, *, since: int | None = None, until: int | None = None, experiment: str | None = None
    ) -> Log:
        """Read a log from a store or a folder.

        Args:
            source: a store (the path of a SQLite file, or a URL), or a folder with exposures and
                events as .parquet or .jsonl.
            since: only lists that were shown at this time (Unix seconds) or later.
            until: only lists that were shown, and events that happened, before this time.
            experiment: only lists of this experiment.

        Raises:
            DataError: a file is missing or holds what it must not.
            ParameterError: the store cannot be used.
        """
        if "://" in str(source) or Path(source).is_file():
            from whyrank.online.reading import read_store
            from whyrank.online.store import Store

            store = Store(str(source)).create()
            try:
                return cls(*read_store(store, since, until, experiment))
            finally:
                store.close()
        exposures, events = (_read_table(Path(source), name) for name in NAMES)
        whole = cls(exposures, events)
        return whole.between(since, until, experiment)

    def between(self, since: int | None = None, until: int | None = None, experiment: str | None = None) -> Log:
        """The part of the log as `read` would give it."""
        wanted, early = pl.lit(True), pl.lit(True)
        if since is not None:
            wanted &= pl.col("time") >= since
        if until is not None:
            wanted &= pl.col("time") < until
            early = pl.col("time") < until
        if experiment is not None:
            wanted &= pl.col("experiment").eq_missing(pl.lit(experiment))
        exposures = self.exposures.filter(wanted)
        return Log(exposures, self.events.filter(early).join(exposures, on="exposure", how="semi"))

    def of_route(self, route: str | None) -> Log:
        """The lists of one route; all of them where none is given."""
        if route is None:
            return self
        exposures = self.exposures.filter(pl.col("route") == route)
        return Log(exposures, self.events.join(exposures, on="exposure", how="semi"))

    def write(self, folder: str | Path) -> Path:
        """Write a folder with exposures.parquet and events.parquet that `read` reads."""
        with new_folder(folder, MARKER) as aside:
            for name in NAMES:
                getattr(self, name).write_parquet(aside / f"{name}.parquet")
            about = {"format": FORMAT, "lists": self.lists, "events": len(self.events), "digest": self.digest()}
            (aside / MARKER.file).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        return Path(folder)

    def digest(self) -> str:
        """SHA-256 of both tables; the order of the rows that a log was made of does not matter."""
        hasher = hashlib.sha256()
        for table in (self.exposures, self.events):
            for column in table:
                hasher.update(column.name.encode())
                hasher.update(column.is_null().to_numpy().tobytes())
                if column.dtype == pl.String:
                    feed_ids(hasher, column.fill_null(""))
                else:
                    hasher.update(column.fill_null(0).to_numpy().tobytes())
        return hasher.hexdigest()


def _typed(
    table: pl.DataFrame, kinds: Mapping[str, type[pl.DataType]], name: str, defaults: Mapping[str, float | None]
) -> pl.DataFrame:
    """The columns of a table of the log, in order and with their types."""
    columns = []
    for column, kind in kinds.items():
        if column not in table.columns:
            if column not in defaults:
                raise DataError(f"{name} have no such column", column=column, expected=", ".join(kinds))
            columns.append(pl.repeat(defaults[column], len(table), dtype=kind(), eager=True).alias(column))
            continue
        try:
            found = table[column].cast(kind)
        except pl.exceptions.PolarsError as error:
            raise DataError(f"{name}: {first_line(error)}", column=column, expected=str(kind)) from error
        optional = column in OPTIONAL or f"{column} of {name}" in OPTIONAL
        if found.null_count() and not optional:
            row = int(found.is_null().arg_true()[0]) + 1
            raise DataError(f"{name}: missing value", row=row, column=column, expected="a value in every row")
        columns.append(found)
    return pl.DataFrame(columns)


def _check_exposures(table: pl.DataFrame) -> None:
    _refuse(table, "exposures", "position", pl.col("position") < 0, "0 or more")
    empty = (pl.col("position") == 0) != pl.col("explanation").is_null()
    _refuse(table, "exposures", "explanation", empty, "null where position is 0, and only there")
    impossible = ~((pl.col("propensity") > 0) & (pl.col("propensity") <= 1))
    _refuse(table, "exposures", "propensity", impossible, "a number above 0 and at most 1")
    _refuse(table, "exposures", "asked", pl.col("asked") < pl.col("position"), "no list longer than was asked for")
    repeated = ~pl.struct("exposure", "position").is_first_distinct()
    _refuse(table, "exposures", "position", repeated, "each position once in an exposure")


def _check_events(table: pl.DataFrame, exposures: pl.DataFrame) -> None:
    _refuse(table, "events", "event", ~pl.col("event").is_in(KINDS), f"one of {', '.join(KINDS)}")
    _refuse(table, "events", "value", ~pl.col("value").is_finite(), "a finite number")
    unknown = ~pl.col("exposure").is_in(exposures["exposure"].unique().implode())
    _refuse(table, "events", "exposure", unknown, "an exposure of the log")


def _refuse(table: pl.DataFrame, name: str, column: str, wrong: pl.Expr, expected: str) -> None:
    """Raise where a row is wrong."""
    found = table.select(wrong.alias("wrong"))["wrong"].arg_true()
    if len(found):
        row = int(found[0])
        raise DataError(f"{name}: {table[column][row]!r}", row=row + 1, column=column, expected=expected)


def _read_table(folder: Path, name: str) -> pl.DataFrame:
    """A table of a folder, from Parquet or JSON lines."""
    if not folder.is_dir():
        raise ParameterError(f"{folder}: no such folder; give a folder with a log, or the URL of a store")
    kinds = EXPOSURES if name == "exposures" else EVENTS
    for suffix in ("parquet", "jsonl"):
        path = inside(folder, f"{name}.{suffix}")
        if not path.is_file():
            continue
        try:
            if suffix == "parquet":
                return read_parquet(path)
            return pl.read_ndjson(path, schema_overrides=kinds) if path.stat().st_size else pl.DataFrame(schema=kinds)
        except UNREADABLE as error:
            raise DataError(f"cannot be read: {first_line(error)}", path=path) from error
    raise DataError(f"no {name}.parquet or {name}.jsonl", path=folder, expected="a folder that Log.write wrote")
