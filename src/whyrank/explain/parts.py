"""Long tables that are made part by part: in constant memory, resumable, nothing half-written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import polars as pl

from whyrank.atomic import new_file, sole_writer
from whyrank.data.columns import for_spreadsheets, from_spreadsheets
from whyrank.data.compressed import check_expansion
from whyrank.data.parquet import check_parquet
from whyrank.data.tables import UNREADABLE, first_line, form_of
from whyrank.errors import DataError, ParameterError

Progress = Callable[[int, int], None]


class Made(NamedTuple):
    """All parts of a table as one, how many rows of the source they come from, and how many of those were there."""

    table: pl.LazyFrame
    total: int
    resumed: int


class Parts:
    """A folder beside an output, with what is done of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def scan(self, path: Path, columns: Sequence[str]) -> pl.LazyFrame:
        """Return a file's rows, with its columns of ids as texts and whatever other columns it has.

        Parquet is read in place; other forms become Parquet, whose slices are cheap.
        """
        try:
            source = (
                pl.scan_parquet(check_parquet(path), glob=False)
                if _form(path) == "parquet"
                else self._stage(path, columns)
            )
            types = source.collect_schema()
        except UNREADABLE as error:
            raise DataError(f"cannot be read: {first_line(error)}", path=path) from error
        for name in columns:
            kind = types.get(name)
            if kind is None or kind.is_nested() or kind in (pl.Duration, pl.Object):
                problem = "missing column" if kind is None else f"a column of type {kind}"
                wanted = "columns" if len(columns) > 1 else "a column"
                raise DataError(problem, path=path, column=name, expected=f"ids in {wanted} {' and '.join(columns)}")
        return source.with_columns(pl.col(*columns).cast(pl.String))

    def make(
        self,
        source: pl.LazyFrame,
        path: Path | None,
        rows: int,
        make: Callable[[pl.DataFrame, int], pl.DataFrame],
        progress: Progress | None = None,
    ) -> Made:
        """Make a table of every `rows` rows of the source (from `path`), except where an earlier run has done so.

        `make` is given the rows and the number of the first one.
        """
        total = int(collected(source.select(pl.len()), path).item())
        if not total:
            raise DataError("no rows", path=path, expected="at least one row")
        resumed = done = 0
        for number, start in enumerate(range(0, total, rows)):
            part, size = self.folder / f"part-{number:06d}.arrow", min(rows, total - start)
            if part.is_file():
                resumed += size
            else:
                made = make(collected(source.slice(start, rows), path), start)
                with new_file(part) as aside:
                    made.write_ipc(aside, compression="uncompressed")
            done += size
            if progress:
                progress(done, total)
        return Made(pl.scan_ipc(sorted(self.folder.glob("part-*.arrow")), glob=False), total, resumed)

    def _stage(self, path: Path, columns: Sequence[str]) -> pl.LazyFrame:
        staged, form = self.folder / "source.parquet", _form(path)
        if not staged.is_file():
            check_expansion(path)
            with new_file(staged) as aside, path.open("rb") as file:
                if form == "jsonl":
                    ids = dict.fromkeys(columns, pl.String)
                    lazy = pl.scan_ndjson(file, schema_overrides=ids, infer_schema_length=None)
                else:
                    quote, separator = (None, "\t") if form == "tsv" else ('"', ",")
                    lazy = pl.scan_csv(file, separator=separator, quote_char=quote, infer_schema=False)
                    lazy = lazy.with_columns(from_spreadsheets())
                try:
                    lazy.sink_parquet(aside)
                except UNREADABLE as error:
                    if getattr(error, "errno", None) or "(os error" in str(error):
                        raise  # it is the disk, not the file
                    raise DataError(f"cannot be read: {first_line(error)}", path=path) from error
        return pl.scan_parquet(staged, glob=False)


@contextmanager
def parts_of(output: Path, fingerprint: str) -> Iterator[Parts]:
    """Parts for an output that nobody else writes; those of a run with another fingerprint are thrown away.

    They go when the block ends well, or when what they come from cannot be read. After anything else the same call goes
    on where it stopped.
    """
    folder = output.parent / f".{output.name}.parts"
    marker = folder / "run.json"
    with sole_writer(output):
        if not (marker.is_file() and marker.read_text(encoding="utf-8") == fingerprint):
            shutil.rmtree(folder, ignore_errors=True)
            with new_file(marker) as aside:
                aside.write_text(fingerprint, encoding="utf-8")
        try:
            yield Parts(folder)
        except DataError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


def check_paths(output: Path, source: Path | None, *, lists: bool) -> None:
    """Refuse outputs that cannot be written and sources that cannot be read, before anything is done.

    `lists` says whether a column will hold lists, which CSV cannot.
    """
    form, compression = form_of(output)
    if compression is not None:
        raise ParameterError(f"{output}: is written uncompressed, or as Parquet; use .parquet, .csv, .tsv or .jsonl")
    if lists and form in ("csv", "tsv"):
        raise ParameterError(f"{output}: quotes are lists, which a table of text cannot hold; use .parquet or .jsonl")
    if source is None:
        return
    if not source.is_file():
        raise DataError("no such file", path=source)
    if output.exists() and output.samefile(source):
        raise ParameterError(f"{output}: is the file that is read, which would be lost; name another output")


def check_columns(source: pl.LazyFrame, output: Path) -> None:
    """Refuse columns that the output cannot hold, before anything is done."""
    nested = [name for name, kind in source.collect_schema().items() if kind.is_nested()]
    if nested and _form(output) in ("csv", "tsv"):
        problem = f"the column {nested[0]!r} of pairs holds lists, which a table of text cannot"
        raise ParameterError(f"{output}: {problem}; use .parquet or .jsonl, or leave it out")


def sink(table: pl.LazyFrame, output: Path) -> None:
    """Write a table as its name says: .parquet, .csv, .tsv (where no text is a formula) or .jsonl."""
    form = _form(output)
    with new_file(output) as aside:
        if form == "parquet":
            table.sink_parquet(aside)
        elif form == "jsonl":
            table.sink_ndjson(aside)
        else:
            table.with_columns(for_spreadsheets()).sink_csv(aside, separator="\t" if form == "tsv" else ",")


def collected(rows: pl.LazyFrame, path: Path | None) -> pl.DataFrame:
    """Rows of a file, whose damage shows only when they are read."""
    try:
        return rows.collect()
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {first_line(error)}", path=path) from error


def _form(path: Path) -> str:
    return form_of(path)[0]
