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
Columns = Mapping[str, type[pl.DataType]]
EXPOSURES: Columns = {
    "exposure": pl.String,
    "time": pl.Int64,  # Unix seconds, UTC
    "user": pl.String,
    "item": pl.String,
    "position": pl.Int32,  # from 1; 0: a list without reasons, which has one row
    "explanation": pl.String,  # null in a list without reasons
    "propensity": pl.Float64,  # of showing it here, given those above it; 1 without exploration
    "experiment": pl.String,
    "arm": pl.String,
    "model": pl.String,  # digest
    "route": pl.String,
    "asked": pl.Int32,  # reasons asked for; null: taken for the longest list of the route
}
EVENTS: Columns = {
    "exposure": pl.String,
    "position": pl.Int32,  # null: of the list as a whole
    "event": pl.String,
    "value": pl.Float64,
    "time": pl.Int64,
    "user": pl.String,
}
TABLES = {"exposures": EXPOSURES, "events": EVENTS}
MAY_LACK: Mapping[str, Mapping[str, float | None]] = {  # columns, and what stands for them
    "exposures": {"experiment": None, "arm": None, "asked": None},
    "events": {"value": 1.0, "position": None},
}
MAY_BE_NULL = {"exposures": {"explanation", "experiment", "arm", "asked"}, "events": {"position"}}
WRONG = {  # rows that cannot be, by the column to blame, and what is expected
    "exposures": (
        ("position", pl.col("position") < 0, "0 or more"),
        (
            "explanation",
            (pl.col("position") == 0) != pl.col("explanation").is_null(),
            "null where position is 0, and only there",
        ),
        (
            "propensity",
            ~((pl.col("propensity") > 0) & (pl.col("propensity") <= 1)),
            "a number above 0 and at most 1",
        ),
        ("asked", pl.col("asked") < pl.col("position"), "no list longer than was asked for"),
        (
            "position",
            ~pl.struct("exposure", "position").is_first_distinct(),
            "each position once in an exposure",
        ),
    ),
    "events": (
        ("event", ~pl.col("event").is_in(KINDS), f"one of {', '.join(KINDS)}"),
        ("value", ~pl.col("value").is_finite(), "a finite number"),
    ),
}
FORMAT = "whyrank-log-1"
MARKER = Marker("log.json", r"log\.json|(exposures|events)\.(parquet|jsonl)")


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """Exposures, one row per shown reason, and events. Both are checked and sorted.

    Args:
        exposures: columns of `EXPOSURES`; `experiment`, `arm` and `asked` may be missing.
        events: columns of `EVENTS`; `value` and `position` may be missing.

    Raises:
        DataError: a column is missing or holds what it must not; names table, row and column.

    >>> shown = {"exposure": ["x"], "time": [0], "user": ["ann"], "item": ["inn"], "position": [1],
    ...          "explanation": ["quiet"], "propensity": [1.0], "model": ["d1"], "route": ["explain"]}
    >>> done = {"exposure": ["x"], "event": ["clicked"], "time": [9], "user": ["ann"]}
    >>> Log(pl.DataFrame(shown), pl.DataFrame(done))
    Log(1 list, 1 reason, 1 event)
    """

    exposures: pl.DataFrame
    events: pl.DataFrame

    def __post_init__(self) -> None:
        exposures, events = (_checked(getattr(self, name), name) for name in TABLES)
        unknown = ~pl.col("exposure").is_in(exposures["exposure"].unique().implode())
        _refuse(events, "events", "exposure", unknown, "an exposure of the log")
        object.__setattr__(self, "exposures", exposures.sort("exposure", "position"))
        object.__setattr__(self, "events", events.sort(*EVENTS, nulls_last=True))

    def __repr__(self) -> str:
        reasons = int((self.exposures["position"] > 0).sum())
        sizes = {"list": self.lists, "reason": reasons, "event": len(self.events)}
        return f"Log({', '.join(f'{n:,} {name}' + 's' * (n != 1) for name, n in sizes.items())})"

    @cached_property
    def lists(self) -> int:
        """How many lists were shown."""
        return self.exposures["exposure"].n_unique()

    @classmethod
    def read(
        cls,
        source: str | Path,
        *,
        since: int | None = None,
        until: int | None = None,
        experiment: str | None = None,
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

            return cls(*read_store(str(source), since, until, experiment))
        whole = cls(*(_read_table(Path(source), name) for name in TABLES))
        return whole.between(since, until, experiment)

    def between(self, since: int | None = None, until: int | None = None, experiment: str | None = None) -> Log:
        """Take the part of the log that `read` would give."""
        early = pl.lit(True) if until is None else pl.col("time") < until
        wanted = early if since is None else early & (pl.col("time") >= since)
        if experiment is not None:
            wanted &= pl.col("experiment").eq_missing(pl.lit(experiment))
        return self._part(wanted, early)

    def of_route(self, route: str | None) -> Log:
        """Take the lists of one route; all of them where none is given."""
        return self if route is None else self._part(pl.col("route") == route)

    def _part(self, wanted: pl.Expr, done: pl.Expr | None = None) -> Log:
        """Take some exposures, and their events."""
        shown = self.exposures.filter(wanted)
        events = self.events if done is None else self.events.filter(done)
        return Log(shown, events.join(shown, on="exposure", how="semi"))

    def write(self, folder: str | Path) -> Path:
        """Write a folder with exposures.parquet and events.parquet that `read` reads."""
        with new_folder(folder, MARKER) as aside:
            for name in TABLES:
                getattr(self, name).write_parquet(aside / f"{name}.parquet")
            about = {"format": FORMAT, "lists": self.lists, "events": len(self.events)}
            text = json.dumps(about | {"digest": self.digest()}, indent=2)
            (aside / MARKER.file).write_text(text + "\n", encoding="utf-8")
        return Path(folder)

    def digest(self) -> str:
        """Return SHA-256 of both tables, whatever the order of the rows that the log was made of."""
        hasher = hashlib.sha256()
        for column in (*self.exposures, *self.events):
            hasher.update(column.name.encode())
            hasher.update(column.is_null().to_numpy().tobytes())
            if column.dtype == pl.String:
                feed_ids(hasher, column.fill_null(""))
            else:
                hasher.update(column.fill_null(0).to_numpy().tobytes())
        return hasher.hexdigest()


def _checked(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """Take the columns of a table of the log, in order and with their types."""
    columns, kinds = [], TABLES[name]
    for column, kind in kinds.items():
        if column in table.columns:
            columns.append(_typed(table[column], kind, name))
            continue
        if column not in MAY_LACK[name]:
            expected = ", ".join(kinds)
            raise DataError(f"{name} have no such column", column=column, expected=expected)
        value = MAY_LACK[name][column]
        columns.append(pl.repeat(value, len(table), dtype=kind(), eager=True).alias(column))
    found = pl.DataFrame(columns)
    for column, wrong, expected in WRONG[name]:
        _refuse(found, name, column, wrong, expected)
    return found


def _typed(column: pl.Series, kind: type[pl.DataType], table: str) -> pl.Series:
    try:
        found = column.cast(kind)
    except pl.exceptions.PolarsError as error:
        problem = f"{table}: {first_line(error)}"
        raise DataError(problem, column=column.name, expected=str(kind)) from error
    if found.null_count() and column.name not in MAY_BE_NULL[table]:
        row = int(found.is_null().arg_true()[0]) + 1
        problem, expected = f"{table}: missing value", "a value in every row"
        raise DataError(problem, row=row, column=column.name, expected=expected)
    return found


def _refuse(table: pl.DataFrame, name: str, column: str, wrong: pl.Expr, expected: str) -> None:
    """Raise where a row is wrong."""
    found = table.select(wrong.alias("wrong"))["wrong"].arg_true()
    if len(found):
        row = int(found[0])
        problem = f"{name}: {table[column][row]!r}"
        raise DataError(problem, row=row + 1, column=column, expected=expected)


def _read_table(folder: Path, name: str) -> pl.DataFrame:
    """Read a table of a folder, from Parquet or JSON lines."""
    if not folder.is_dir():
        hint = "give a folder with a log, or a store"
        raise ParameterError(f"{folder}: no such folder; {hint}")
    parquet, lines = (inside(folder, f"{name}.{suffix}") for suffix in ("parquet", "jsonl"))
    try:
        if parquet.is_file():
            return read_parquet(parquet)
        if lines.is_file():
            empty, kinds = not lines.stat().st_size, TABLES[name]
            return pl.DataFrame(schema=kinds) if empty else pl.read_ndjson(lines, schema_overrides=kinds)
    except UNREADABLE as error:
        path = parquet if parquet.is_file() else lines
        raise DataError(f"cannot be read: {first_line(error)}", path=path) from error
    expected = "a folder that Log.write wrote"
    raise DataError(f"no {name}.parquet or {name}.jsonl", path=folder, expected=expected)
