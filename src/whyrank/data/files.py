"""Reading and writing triplets, whatever file or folder they are in."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

import polars as pl

from whyrank.data.extra import is_extra, read_extra, write_extra
from whyrank.data.problems import OnError, Problems
from whyrank.data.split import is_split, read_split
from whyrank.data.tables import Columns, read_table, write_table
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError

COLUMNS = (
    "record",
    "user",
    "item",
    "explanation",
    "text",
    "aspect",
    "polarity",
    "rating",
    "time",
    "sentence",
    "source",
)
log = logging.getLogger("whyrank")


def read(
    path: str | Path,
    *,
    columns: Columns | None = None,
    on_error: OnError | Problems = "raise",
    number: int = 1,
) -> Triplets:
    """Read triplets from a data file, a folder of Parquet files, an EXTRA, mined or split folder (its training part).

    A file is CSV, TSV, JSON lines or Parquet, maybe compressed (.gz, .zst), with columns user, item, explanation and
    optionally text, aspect, polarity, rating, time, sentence, source. `columns` renames them, as in
    `columns={"user": "reviewerID"}`; integers are for files without a header: `columns={"user": 0, "item": 1,
    "explanation": 2}`. `on_error="skip"` skips bad rows and logs how many.
    `number` picks one of a split folder's repetitions.
    """
    path = Path(path)
    problems = on_error if isinstance(on_error, Problems) else Problems(on_error)
    if not path.exists():
        raise DataError("no such file or folder", path=path)
    if path.is_dir():
        triplets = _read_folder(path, columns, problems, number)
    else:
        triplets = _read_file(path, columns, problems)
    if problems.skipped and problems is not on_error:
        log.warning("%s: %s", path, problems.summary())
    return triplets


def write(triplets: Triplets, path: str | Path, form: Literal["auto", "extra", "extra-text"] = "auto") -> Path:
    """Write a file by its suffix (.csv, .tsv, .jsonl, .parquet, maybe .gz or .zst), otherwise an EXTRA folder."""
    path = Path(path)
    if form == "auto" and path.suffix:
        return write_table(triplets.frame(), path)
    return write_extra(triplets, path, "text" if form == "extra-text" else "both")


def _read_folder(folder: Path, columns: Columns | None, problems: Problems, number: int) -> Triplets:
    if is_split(folder):
        return read_split(folder, number).train
    if is_extra(folder):
        return read_extra(folder, problems)
    if (folder / "triplets.parquet").is_file():
        return _read_file(folder / "triplets.parquet", None, problems)
    if is_parquet_folder(folder):
        return _read_parts(folder, columns, problems)
    raise DataError("no data in this folder", path=folder, expected="IDs.pickle, IDs.txt, split.json or .parquet files")


def is_parquet_folder(path: Path) -> bool:
    """Whether a data set is in several files."""
    known = path.is_dir() and (is_split(path) or is_extra(path) or (path / "triplets.parquet").is_file())
    return path.is_dir() and not known and bool(parquet_files(path))


def parquet_files(folder: Path) -> list[Path]:
    """The files of a data set in several files, in the order in which their rows count."""
    return sorted(file for file in folder.glob("*.parquet") if file.is_file())


def _read_parts(folder: Path, columns: Columns | None, problems: Problems) -> Triplets:
    tables = [read_rows(file, columns, problems) for file in parquet_files(folder)]
    return _interned(pl.concat(tables, how="diagonal_relaxed"), folder)


def _read_file(path: Path, columns: Columns | None, problems: Problems) -> Triplets:
    return _interned(read_rows(path, columns, problems), path)


def read_rows(path: Path, columns: Columns | None, problems: Problems) -> pl.DataFrame:
    """The rows of one file, not yet interned."""
    table = read_table(path, COLUMNS, columns, problems)
    for name in ("user", "item", "explanation"):
        if name not in table.columns:
            source = (columns or {}).get(name, name)
            raise DataError(
                "missing column",
                path=path,
                column=str(source),
                expected="user, item, explanation (or columns=)",
            )
    if problems.on_error == "skip":
        empty = table.select(user=_empty("user"), item=_empty("item"), explanation=_empty("explanation"))
        bad = empty.select(any=pl.any_horizontal(pl.all()))["any"]
        for row in bad.arg_true().to_list():
            problems.add(DataError("empty id", path=path, row=row + 1))
        table = table.filter(~bad)
    return table


def _interned(table: pl.DataFrame, path: Path) -> Triplets:
    try:
        return Triplets.from_frame(table)
    except DataError as error:
        raise DataError(
            error.problem, path=path, row=error.row, column=error.column, expected=error.expected
        ) from error


def _empty(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.String).fill_null("") == ""
