"""What was shown, and what people did with it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from whyrank.atomic import new_file
from whyrank.data.parquet import check_parquet
from whyrank.data.tables import UNREADABLE, first_line
from whyrank.errors import DataError

EXPOSURES: dict[str, type[pl.DataType]] = {
    "exposure": pl.String,
    "time": pl.Int64,
    "user": pl.String,
    "item": pl.String,
    "position": pl.Int32,
    "explanation": pl.String,
    "propensity": pl.Float64,
    "experiment": pl.String,
    "arm": pl.String,
    "model": pl.String,
    "route": pl.String,
}
EVENTS: dict[str, type[pl.DataType]] = {
    "exposure": pl.String,
    "position": pl.Int32,
    "event": pl.String,
    "value": pl.Float64,
    "time": pl.Int64,
    "user": pl.String,
}


@dataclass(frozen=True, eq=False)
class Log:
    """Exposures, one row per shown reason (a list without reasons: position 0), and events that refer to them."""

    exposures: pl.DataFrame
    events: pl.DataFrame

    @classmethod
    def read(cls, path: str | Path) -> Log:
        """Read a folder that `write` wrote."""
        folder = Path(path)
        return cls(_table(folder / "exposures.parquet", EXPOSURES), _table(folder / "events.parquet", EVENTS))

    def write(self, folder: str | Path) -> Path:
        """Write two Parquet files, exposures and events."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("exposures", "events"):
            with new_file(folder / f"{name}.parquet") as aside:
                getattr(self, name).write_parquet(aside)
        return folder

    def digest(self) -> str:
        """A hash of the rows, whatever their order in the files."""
        found = hashlib.sha256()
        for table in (self.exposures, self.events):
            found.update(str(table.height).encode())
            found.update(str(int(table.hash_rows(seed=0).sort().hash(1).sum() or 0)).encode())
        return found.hexdigest()


def _table(file: Path, schema: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    if not file.is_file():
        raise DataError("no such file", path=file, expected="a folder with exposures.parquet and events.parquet")
    try:
        table = pl.read_parquet(check_parquet(file), glob=False)
        missing = [name for name in schema if name not in table.columns]
        if missing:
            raise DataError("missing column", path=file, column=missing[0])
        return table.select(pl.col(name).cast(kind) for name, kind in schema.items())
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {first_line(error)}", path=file) from error
