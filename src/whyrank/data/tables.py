"""Tables in files: CSV, TSV, JSON lines and Parquet, plain or compressed; quick when clean, careful when not."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Literal

import polars as pl

from whyrank.atomic import new_file
from whyrank.data.columns import for_spreadsheets, from_spreadsheets, to_lines
from whyrank.data.compressed import EXPANSION, careful_lines, check_expansion, largest_size, too_large
from whyrank.data.parquet import check_parquet, read_parquet, text_size
from whyrank.data.problems import Problems
from whyrank.errors import DataError

FORMS = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
FORMS |= {".parquet": "parquet", ".pq": "parquet"}
COMPRESSIONS: dict[str, Literal["gzip", "zstd"]] = {".gz": "gzip", ".zst": "zstd"}
Columns = Mapping[str, str | int]
# What polars raises on a file that it cannot read; on some damaged ones it panics.
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
LINES = 100_000  # of a file in memory at once
NAMED = 100  # lines of a JSON file in which all of its fields occur
LONGEST = 1000  # lines of one row
BOM = "\ufeff"  # which some programs put before UTF-8
BLANKS = re.compile(r'((?:^|,)"(?:[^"]|"")*+")[ \t]*(?=,|$)')  # after a quoted field
SURROGATE = re.compile("[\ud800-\udfff]")
csv.field_size_limit(1 << 27)


def form_of(path: Path) -> tuple[str, Literal["gzip", "zstd"] | None]:
    """The form and the compression that a file name promises: `reviews.jsonl.gz` -> ("jsonl", "gzip")."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    inner = suffixes[-2:-1] if compression else suffixes[-1:]
    if not inner or inner[0] not in FORMS:
        raise DataError(
            "unknown kind of file",
            path=path,
            expected=".csv, .tsv, .jsonl or .parquet, maybe with .gz or .zst",
        )
    return FORMS[inner[0]], compression


def inside(folder: Path, name: str) -> Path:
    """A file of a folder that may come from anybody: a link that leads out of the folder is not followed."""
    if (folder / name).resolve() != folder.resolve() / name:
        raise DataError("is a link that leads elsewhere", path=folder / name, expected="a file of the folder")
    return folder / name


def as_table(given: object) -> pl.DataFrame:
    """A table of whatever polars makes one of: columns by name, rows, a table of Arrow or pandas."""
    if isinstance(given, pl.DataFrame):
        return given
    if isinstance(given, pl.LazyFrame):
        return given.collect()
    try:
        if hasattr(given, "columns") and hasattr(given, "iloc"):  # pandas, which polars takes with pyarrow only
            given = {str(name): given[name].tolist() for name in given.columns}  # type: ignore[index]
        return pl.DataFrame(given)  # type: ignore[arg-type]  # it says itself what it cannot take
    except (TypeError, ValueError, ImportError, pl.exceptions.PolarsError) as error:
        wanted = "a DataFrame, or what polars makes one of"
        raise DataError(f"{type(given).__name__} is not a table: {first_line(error)}", expected=wanted) from error


def read_table(
    path: str | Path,
    wanted: Sequence[str],
    columns: Columns | None,
    problems: Problems,
    max_expansion: float = EXPANSION,
) -> pl.DataFrame:
    """The wanted columns that the file has, under our names, as text unless the file is typed.

    `columns` maps our names to the file's; integers say that the file has no header and count its columns from 0.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError("no such file", path=path)
    if path.stat().st_size == 0:
        raise DataError("the file is empty", path=path)
    form, _ = form_of(path)
    unknown = [name for name in columns or () if name not in wanted]
    if unknown:
        raise DataError(f"columns names {unknown[0]!r}", path=path, expected=f"some of {', '.join(wanted)}")
    mapping = {name: (columns or {}).get(name, name) for name in wanted}
    positions = any(isinstance(source, int) for source in mapping.values())
    if positions:
        mapping = {name: source for name, source in mapping.items() if isinstance(source, int)}
    if form == "parquet":
        return _read_parquet(path, mapping, max_expansion)
    check_expansion(path, max_expansion)
    try:
        table = _read_quickly(path, form, mapping, positions)
        if form != "jsonl":
            return table.with_columns(from_spreadsheets())
        if not holds_nul(table):
            return table
    except (*UNREADABLE, UnicodeDecodeError):
        pass
    table = _read_carefully(path, form, mapping, positions, problems)
    return table if form == "jsonl" else table.with_columns(from_spreadsheets())


def columns_of(path: Path) -> list[str]:
    """The names of a file's columns, for messages; empty where they cannot be read."""
    try:
        form, _ = form_of(path)
        if form == "parquet":
            return list(pl.scan_parquet(path, glob=False).collect_schema())
        if form == "jsonl":
            return pl.read_ndjson(path, n_rows=1).columns
        return pl.read_csv(path, separator="\t" if form == "tsv" else ",", n_rows=1, infer_schema=False).columns
    except (*UNREADABLE, DataError, OSError, UnicodeDecodeError):
        return []


def holds_nul(table: pl.DataFrame) -> bool:
    """Whether a column of texts has a NUL, which polars puts in the place of half a character in JSON."""
    return any(table[name].str.contains("\0", literal=True).any() for name in table.columns)


def write_table(frame: pl.DataFrame, path: str | Path) -> Path:
    """Write a table; the form and the compression follow the name. In CSV and TSV, no text is a formula."""
    path = Path(path)
    form, compression = form_of(path)
    with new_file(path) as aside:
        if form == "parquet":
            frame.write_parquet(aside)
        elif form == "jsonl":
            frame.write_ndjson(aside, compression=compression or "uncompressed", check_extension=False)
        else:
            frame.with_columns(for_spreadsheets()).write_csv(
                aside,
                separator="\t" if form == "tsv" else ",",
                compression=compression or "uncompressed",
                check_extension=False,
            )
    return path


def _read_parquet(path: Path, mapping: Mapping[str, str | int], most: float) -> pl.DataFrame:
    try:
        names = pl.scan_parquet(path, glob=False).collect_schema()
        sources = {name: source for name, source in mapping.items() if source in names}
        table = read_parquet(path, [str(source) for source in sources.values()], most)
    except UNREADABLE as error:
        raise DataError(f"not a readable Parquet file: {first_line(error)}", path=path) from error
    return table.select(pl.col(str(source)).alias(name) for name, source in sources.items())


def _read_quickly(path: Path, form: str, mapping: Mapping[str, str | int], positions: bool) -> pl.DataFrame:
    if form == "jsonl":
        schema = {str(source): pl.String for source in mapping.values()}
        with path.open("rb") as file:  # in a path, polars would take brackets for a pattern
            table = pl.read_ndjson(file, schema=schema)
    else:
        separator = "\t" if form == "tsv" else ","
        quote = None if form == "tsv" else '"'
        table = pl.read_csv(
            path,
            glob=False,
            separator=separator,
            quote_char=quote,
            infer_schema=False,
            has_header=not positions,
            encoding="utf8",
        )
        if positions:
            table = table.rename({old: str(number) for number, old in enumerate(table.columns)})
    found = {name: str(source) for name, source in mapping.items() if str(source) in table.columns}
    if form == "jsonl":  # a column that no line has is not a column
        found = {name: source for name, source in found.items() if table[source].null_count() < len(table)}
    return table.select(pl.col(source).alias(name) for name, source in found.items())


def _read_carefully(
    path: Path, form: str, mapping: Mapping[str, str | int], positions: bool, problems: Problems
) -> pl.DataFrame:
    """Row by row, so that each bad one can be named or skipped."""
    if form == "jsonl":
        wanted = {str(source) for source in mapping.values()}
        rows = json_rows(lines_of(path, problems), 1, path, wanted, problems)
    else:
        rows = csv_rows(path, form, positions, problems)
    kept: dict[str, list[str | None]] = {name: [] for name in mapping}
    for row in rows:
        for name, source in mapping.items():
            kept[name].append(row.get(str(source)))
    found = {name: values for name, values in kept.items() if any(value is not None for value in values)}
    return pl.DataFrame(found, schema=dict.fromkeys(found, pl.String))


def table_batches(
    path: Path,
    pick: Callable[[Sequence[str]], Iterable[str]],
    problems: Problems,
    size: int,
    max_expansion: float = EXPANSION,
) -> Iterator[pl.DataFrame]:
    """A file's rows, `size` at a time, as texts unless the file is typed; bytes that are no UTF-8 become U+FFFD.

    `pick` is given the names of the columns and says which are wanted; it raises where something is missing.
    """
    if not path.is_file():
        raise DataError("no such file", path=path)
    form, _ = form_of(path)
    if form != "parquet":
        check_expansion(path, max_expansion)
    if form == "jsonl":
        yield from _json_batches(path, pick, problems, size)
    elif form != "parquet" and problems.on_error == "skip":  # polars stops at a bad row
        rows = csv_rows(path, form, False, problems)
        while some := list(islice(rows, size)):
            texts = pl.DataFrame(some, schema=dict.fromkeys(some[0], pl.String)).select(*pick([*some[0]]))
            yield texts.with_columns(from_spreadsheets())
    else:
        try:
            if form == "parquet":
                frame = pl.scan_parquet(check_parquet(path, max_expansion), glob=False)
            else:
                frame = _scan_csv(path, form)
            total = 0
            for batch in frame.select(*pick(frame.collect_schema().names())).collect_batches(chunk_size=size):
                total += text_size(batch)
                if form == "parquet" and total > largest_size(path, max_expansion):
                    raise too_large(path, max_expansion)
                yield batch if form == "parquet" else batch.with_columns(from_spreadsheets())
        except UNREADABLE as error:
            if form != "parquet":
                deque(csv_rows(path, form, False, problems), 0)  # raises where the bad row is
            raise DataError(f"cannot be read: {first_line(error)}", path=path) from error


def _scan_csv(path: Path, form: str) -> pl.LazyFrame:
    separator, quote = ("\t", None) if form == "tsv" else (",", '"')
    return pl.scan_csv(
        path, glob=False, separator=separator, quote_char=quote, infer_schema=False, encoding="utf8-lossy"
    )


def _json_batches(
    path: Path, pick: Callable[[Sequence[str]], Iterable[str]], problems: Problems, size: int
) -> Iterator[pl.DataFrame]:
    """By polars where a batch is clean, line by line where it is not."""
    schema: dict[str, type[pl.String]] | None = None
    row = 1
    for lines in line_batches(path, problems, size):
        if schema is None:
            schema = dict.fromkeys(pick(_json_names(lines.head(NAMED))), pl.String)
        try:
            table = pl.read_ndjson(to_lines(lines), schema=schema)
            careful = holds_nul(table)
        except pl.exceptions.PolarsError:
            careful = True
        if careful:
            rows = json_rows(lines, row, path, set(schema), problems, lossy=True)
            table = pl.DataFrame([{name: found.get(name) for name in schema} for found in rows], schema=schema)
        row += lines.len()
        yield table


def _json_names(lines: pl.Series) -> list[str]:
    names: dict[str, None] = {}
    for line in lines.drop_nulls():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            names |= dict.fromkeys(value)
    return list(names)


def line_batches(path: Path, problems: Problems, size: int = LINES) -> Iterator[pl.Series]:
    """The lines of a file that may be compressed, `size` at a time; from where polars stops, one by one."""
    done = 0
    try:
        for batch in pl.scan_lines(path, glob=False).collect_batches(chunk_size=size, maintain_order=True):
            yield batch["line"] if done else batch["line"].str.strip_prefix(BOM)
            done += batch.height
        return
    except UNREADABLE as error:
        lines = _lossy_lines(path, error) if form_of(path)[1] == "zstd" else careful_lines(path, problems)
    rest = islice(lines, done, None)
    while some := list(islice(rest, size)):
        yield pl.Series("line", some, pl.String) if done else pl.Series("line", some, pl.String).str.strip_prefix(BOM)
        done += len(some)


def _lossy_lines(path: Path, error: BaseException) -> Iterator[str]:
    """Lines with undecodable bytes as U+FFFD; a line with a NUL, after which polars cuts it off, ends in one."""
    frame = pl.scan_csv(
        path,
        glob=False,
        has_header=False,
        separator="\0",
        quote_char=None,
        schema={"line": pl.String, "rest": pl.String},
        encoding="utf8-lossy",
        truncate_ragged_lines=True,
    )
    try:
        for batch in frame.collect_batches(maintain_order=True):
            for line, rest in batch.iter_rows():
                yield line or "" if rest is None else f"{line or ''}\ufffd"
    except UNREADABLE:
        raise DataError(f"cannot be read: {first_line(error)}", path=path) from error


def lines_of(path: Path, problems: Problems) -> Iterator[str]:
    """The lines of a file, one by one."""
    return (line or "" for batch in line_batches(path, problems) for line in batch.to_list())


def json_rows(
    lines: Iterable[str | None], first: int, path: Path, wanted: set[str], problems: Problems, lossy: bool = False
) -> Iterator[dict[str, str | None]]:
    """The wanted fields of lines of JSON, the first of which has the number `first`; bad ones are named or skipped.

    Bytes that are no UTF-8 make a line bad, or become U+FFFD (`lossy`).
    """
    for number, line in enumerate(lines, first):
        if not line or not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = f"broken JSON: {first_line(error)}"
            problems.add(DataError(problem, path=path, row=number, expected="one object a line"))
            continue
        if not isinstance(value, dict):
            problems.add(DataError("not a JSON object", path=path, row=number, expected="one object a line"))
            continue
        row = {name: _as_text(entry) for name, entry in value.items() if name in wanted}
        if lossy:
            yield {name: text and text.encode("utf-8", "replace").decode() for name, text in row.items()}
        elif "\ufffd" in line or any(SURROGATE.search(text) for text in row.values() if text):
            problems.add(DataError("undecodable bytes", path=path, row=number, expected="UTF-8"))
        else:
            yield row


def csv_rows(path: Path, form: str, positions: bool, problems: Problems) -> Iterator[dict[str, str | None]]:
    """The rows of a CSV or TSV file one by one, by header (or by place); bad ones are named or skipped."""
    header: list[str] | None = None
    for number, fields in csv_records(lines_of(path, problems), form):
        if isinstance(fields, csv.Error):
            error = DataError(f"broken row: {first_line(fields)}", path=path, row=number, expected="quotes that close")
            if header is None:
                raise error
            problems.add(error)
            continue
        if header is None:
            header = [str(place) for place in range(len(fields))] if positions else fields
            if not positions:
                continue
        if len(fields) != len(header):
            problem, expected = f"wrong number of columns: {len(fields)}", f"{len(header)} columns"
            problems.add(DataError(problem, path=path, row=number, expected=expected))
        elif any("\ufffd" in field for field in fields):
            problems.add(DataError("undecodable bytes", path=path, row=number, expected="UTF-8"))
        else:
            yield dict(zip(header, fields, strict=True))


def csv_records(lines: Iterator[str], form: str) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """The fields of every row that is not empty, and the number of its first line.

    Only the line in which a quote opens that never closes, or not in LONGEST lines, is broken: the next row begins
    after it.
    """
    again: deque[str] = deque()  # lines after a broken one
    number = 0
    while (line := again.popleft() if again else next(lines, None)) is not None:
        number += 1
        if form == "tsv" or '"' not in line:
            if line:
                yield number, line.split("\t" if form == "tsv" else ",")
            continue
        taken = [line]

        def more(taken: list[str] = taken) -> Iterator[str]:
            yield f"{taken[0]}\n"
            while len(taken) < LONGEST and (line := again.popleft() if again else next(lines, None)) is not None:
                taken.append(line)
                yield f"{line}\n"

        try:
            yield number, next(csv.reader(more(), strict=True))
            number += len(taken) - 1
            continue
        except csv.Error as error:
            again.extendleft(reversed(taken[1:]))
            del taken[1:]
            problem = error
        try:
            yield number, next(csv.reader(_without_blanks(more()), strict=True))
            number += len(taken) - 1
        except csv.Error:
            yield number, problem
            again.extendleft(reversed(taken[1:]))


def _without_blanks(lines: Iterator[str]) -> Iterator[str]:
    """The lines of a row whose quoted fields may be followed by blanks, without these: some programs align columns."""
    text, quoted = "", False
    for line in lines:
        text += line
        quoted ^= line.count('"') % 2 == 1
        if not quoted:
            break
    yield BLANKS.sub(r"\1", text)


def _as_text(value: object) -> str | None:
    """A value of JSON as polars writes it: whole numbers without a point, whatever stands in other lines."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else format(Decimal(repr(value)), "f").removesuffix(".0")
    return json.dumps(value, ensure_ascii=False)


def first_line(error: BaseException) -> str:
    """The first line of another library's message, short enough for one of ours."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:120]
