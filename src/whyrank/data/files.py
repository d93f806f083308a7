"""Reading and writing triplets, whatever file or folder they are in."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from whyrank.data.columns import bad_rows
from whyrank.data.compressed import EXPANSION
from whyrank.data.foreign import lowered, read_foreign, trimmed
from whyrank.data.problems import OnError, Problems, located
from whyrank.data.ratings import Range, checked_range
from whyrank.data.split import is_split, read_split
from whyrank.data.tables import Columns, columns_of, read_table, write_table
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError, ParameterError
from whyrank.plugins import extra_folders, reader_of

COLUMNS = (
    *("user", "item", "explanation", "text", "aspect", "polarity", "sense", "opposite"),
    *("rating", "time", "sentence", "source", "worth", "copy_group"),
)
log = logging.getLogger("whyrank")


def read(
    path: str | Path,
    *,
    columns: Columns | None = None,
    on_error: OnError | Problems = "raise",
    number: int = 1,
    rating_range: Range | None = None,
    max_expansion: float = EXPANSION,
    trim: bool = False,
    lower: bool = False,
) -> Triplets:
    """Read triplets from a data file, a folder of Parquet files, an EXTRA, mined or split folder (its training part).

    A file is CSV, TSV, JSON lines or Parquet, maybe compressed (.gz, .zst), with columns user, item, explanation and
    optionally text, aspect, polarity, sense, opposite, rating, time, sentence, source, worth, copy_group. Files of
    other projects are recognized: RecBole's atomic files (.inter, with a column of type token_seq), StaR's
    dataset_vC.csv, and MovieLens' tags.dat.

    Args:
        path: The file or folder.
        columns: Names of the file's columns, as in `{"user": "reviewerID"}`; numbers for files without a header, as in
            `{"user": 0, "item": 1, "explanation": 2}`. A record is a (user, item) pair unless a column says which rows
            make one: `{"record": "review_id"}`.
        on_error: "skip" leaves bad rows out and logs how many.
        number: Which of a split folder's repetitions.
        rating_range: The lowest and the highest rating; recognized from the ratings unless given. Others are unknown.
        max_expansion: A compressed file that grows more than this many times is refused.
        trim: Whether to remove blanks around ids.
        lower: Whether to put explanations in lower case, so that the tags Rock and rock are one.

    Returns:
        The triplets.

    Raises:
        DataError: The file cannot be read; the message names the file, the row and the column.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "said.csv"
        ...     _ = path.write_text("user,item,explanation\\nann,inn,quiet room\\nbob,inn,quiet room\\n")
        ...     read(path)
        Triplets(2 users, 1 item, 1 explanation, 2 records, 2 triplets)
    """
    path = Path(path)
    problems = on_error if isinstance(on_error, Problems) else Problems(on_error)
    if not path.exists():
        raise DataError("no such file or folder", path=path)
    how = HowToRead(columns, problems, checked_range(rating_range), max_expansion, trim, lower)
    triplets = _read_folder(path, how, number) if path.is_dir() else _read_file(path, how)
    if problems.skipped and problems is not on_error:
        log.warning("%s: %s", path, problems.summary())
    return triplets


def write(triplets: Triplets, path: str | Path, form: Literal["auto", "extra", "extra-text"] = "auto") -> Path:
    """Write triplets to a file or to an EXTRA folder.

    Args:
        triplets: What to write.
        path: A name that ends in .csv, .tsv, .jsonl or .parquet (maybe with .gz or .zst) is a file; any other name is
            an EXTRA folder.
        form: "extra" writes an EXTRA folder whatever the name is; "extra-text" writes one in text form only.

    Returns:
        The path.

    Examples:
        >>> import tempfile
        >>> import whyrank as wr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write(wr.simulate("small", users=20, items=5, records=60), Path(folder) / "said.parquet")
        ...     path.name
        'said.parquet'
    """
    path = Path(path)
    if form == "auto" and path.suffix:
        return write_table(triplets.frame(), path)
    folder: Path = extra_folders().write_extra(triplets, path, "text" if form == "extra-text" else "both")
    return folder


class HowToRead(NamedTuple):
    """How files are read."""

    columns: Columns | None
    problems: Problems
    rating_range: Range | None = None
    max_expansion: float = EXPANSION
    trim: bool = False
    lower: bool = False


def _read_folder(folder: Path, how: HowToRead, number: int) -> Triplets:
    if is_split(folder):
        if how.rating_range is not None:
            raise ParameterError(f"{folder}: is split already; rating_range is for the data that are split")
        return read_split(folder, number).train
    if reader := reader_of(folder):
        triplets: Triplets = reader.read_extra(folder, how.problems, how.rating_range)
        return triplets
    if (folder / "dataset_vC.csv").is_file():  # StaR's, with paraphrases merged
        return _read_file(folder / "dataset_vC.csv", how)
    if (folder / "triplets.parquet").is_file():
        return _read_file(folder / "triplets.parquet", how._replace(columns=None))
    if is_parquet_folder(folder):
        tables = [
            read_rows(file, how.columns, how.problems, how.max_expansion, how.trim, how.lower)
            for file in parquet_files(folder)
        ]
        return _interned(pl.concat(tables, how="diagonal_relaxed"), folder, how)
    raise DataError(
        "no data in this folder",
        path=folder,
        expected="IDs.pickle, IDs.txt, split.json, dataset_vC.csv or .parquet files",
    )


def is_parquet_folder(path: Path) -> bool:
    """Whether a data set is in several files."""
    known = path.is_dir() and (is_split(path) or reader_of(path) is not None or (path / "triplets.parquet").is_file())
    return path.is_dir() and not known and bool(parquet_files(path))


def parquet_files(folder: Path) -> list[Path]:
    """The files of a data set in several files, in the order in which their rows count."""
    return sorted(file for file in folder.glob("*.parquet") if file.is_file())


def _read_file(path: Path, how: HowToRead) -> Triplets:
    return _interned(read_rows(path, how.columns, how.problems, how.max_expansion, how.trim, how.lower), path, how)


def read_rows(
    path: Path,
    columns: Columns | None,
    problems: Problems,
    max_expansion: float = EXPANSION,
    trim: bool = False,
    lower: bool = False,
) -> pl.DataFrame:
    """The rows of one file, not yet interned; a column `record` only where `columns` names one."""
    wanted = (*COLUMNS, "record") if "record" in (columns or ()) else COLUMNS
    table = read_foreign(path, columns, problems, max_expansion)
    if table is None:
        table = read_table(path, wanted, columns, problems, max_expansion)
    if trim:
        table = trimmed(table)
    if lower:
        table = lowered(table)
    for name in ("user", "item", "explanation", *wanted[len(COLUMNS) :]):
        if name not in table.columns:
            source = (columns or {}).get(name, name)
            raise DataError(
                "missing column",
                path=path,
                column=str(source),
                expected=f"user, item, explanation (or columns={{{name!r}: ...}}); {_found(path)}",
            )
    if problems.on_error == "skip":
        left_out = pl.repeat(False, table.height, eager=True)
        with located(path):
            for problem, column, bad in bad_rows(table):
                for row in (bad & ~left_out).arg_true().to_list():
                    problems.add(DataError(problem, path=path, row=row + 1, column=column))
                left_out |= bad
        table = table.filter(~left_out)
    return table


def _found(path: Path) -> str:
    """What a file has instead."""
    names = columns_of(path)
    return f"the file has {', '.join(names[:20])}" if names else "its columns could not be read"


def _interned(table: pl.DataFrame, path: Path, how: HowToRead) -> Triplets:
    record = "record" if "record" in table.columns else None
    try:
        with located(path):
            return Triplets.from_frame(table, record=record, rating_range=how.rating_range)
    except DataError as error:
        error.skippable = error.row is not None
        raise
