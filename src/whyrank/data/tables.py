"""Tables in files: CSV, TSV, JSON lines and Parquet, plain or compressed; quick when clean, careful when not."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import polars as pl

from whyrank.atomic import new_file
from whyrank.data.parquet import check_parquet
from whyrank.data.problems import Problems
from whyrank.errors import DataError

FORMS = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
FORMS |= {".parquet": "parquet", ".pq": "parquet"}
COMPRESSIONS: dict[str, Literal["gzip", "zstd"]] = {".gz": "gzip", ".zst": "zstd"}
Columns = Mapping[str, str | int]
# What polars raises on a file that it cannot read; on some damaged ones it panics.
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
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


def read_table(path: str | Path, wanted: Sequence[str], columns: Columns | None, problems: Problems) -> pl.DataFrame:
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
        return _read_parquet(path, mapping)
    try:
        table = _read_quickly(path, form, mapping, positions)
    except (*UNREADABLE, UnicodeDecodeError):
        table = _read_carefully(path, form, mapping, positions, problems)
    return table


def write_table(frame: pl.DataFrame, path: str | Path) -> Path:
    """Write a table; the form and the compression follow the name."""
    path = Path(path)
    form, compression = form_of(path)
    with new_file(path) as aside:
        if form == "parquet":
            frame.write_parquet(aside)
        elif form == "jsonl":
            frame.write_ndjson(aside, compression=compression or "uncompressed", check_extension=False)
        else:
            frame.write_csv(
                aside,
                separator="\t" if form == "tsv" else ",",
                compression=compression or "uncompressed",
                check_extension=False,
            )
    return path


def _read_parquet(path: Path, mapping: Mapping[str, str | int]) -> pl.DataFrame:
    try:
        names = pl.read_parquet_schema(check_parquet(path))
        sources = {name: source for name, source in mapping.items() if source in names}
        table = pl.read_parquet(path, columns=[str(source) for source in sources.values()])
    except UNREADABLE as error:
        raise DataError(f"not a readable Parquet file: {first_line(error)}", path=path) from error
    return table.select(pl.col(str(source)).alias(name) for name, source in sources.items())


def _read_quickly(path: Path, form: str, mapping: Mapping[str, str | int], positions: bool) -> pl.DataFrame:
    if form == "jsonl":
        schema = {str(source): pl.String for source in mapping.values()}
        table = pl.read_ndjson(path, schema=schema)
    else:
        separator = "\t" if form == "tsv" else ","
        quote = None if form == "tsv" else '"'
        table = pl.read_csv(
            path,
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
    lines = _lines(path)
    rows = _json_rows(path, lines, problems) if form == "jsonl" else _csv_rows(path, form, lines, positions, problems)
    kept: dict[str, list[str | None]] = {name: [] for name in mapping}
    for row in rows:
        for name, source in mapping.items():
            kept[name].append(row.get(str(source)))
    found = {name: values for name, values in kept.items() if any(value is not None for value in values)}
    return pl.DataFrame(found, schema=dict.fromkeys(found, pl.String))


def _lines(path: Path) -> list[str]:
    """The lines of a file that may be compressed, undecodable bytes as U+FFFD."""
    try:
        table = pl.read_csv(
            path,
            has_header=False,
            separator="\0",
            quote_char=None,
            infer_schema=False,
            encoding="utf8-lossy",
            truncate_ragged_lines=True,
            new_columns=["line"],
        )
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {first_line(error)}", path=path) from error
    return [line or "" for line in table["line"].to_list()]


def _json_rows(path: Path, lines: list[str], problems: Problems) -> Iterator[dict[str, str | None]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            problems.add(
                DataError(f"broken JSON: {first_line(error)}", path=path, row=number, expected="one object a line")
            )
            continue
        if "\ufffd" in line:
            problems.add(DataError("undecodable bytes", path=path, row=number, expected="UTF-8"))
        elif not isinstance(value, dict):
            problems.add(DataError("not a JSON object", path=path, row=number, expected="one object a line"))
        else:
            yield {key: _as_text(entry) for key, entry in value.items()}


def _csv_rows(
    path: Path, form: str, lines: list[str], positions: bool, problems: Problems
) -> Iterator[dict[str, str | None]]:
    quoting: Literal[0, 3] = csv.QUOTE_NONE if form == "tsv" else csv.QUOTE_MINIMAL
    reader = csv.reader(iter(f"{line}\n" for line in lines), delimiter="\t" if form == "tsv" else ",", quoting=quoting)
    header: list[str] | None = None
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problems.add(DataError(f"broken row: {first_line(error)}", path=path, row=reader.line_num))
            continue
        if header is None:
            header = [str(number) for number in range(len(fields))] if positions else fields
            if not positions:
                continue
        if not fields:
            continue
        if len(fields) != len(header):
            expected = f"{len(header)} columns"
            problems.add(
                DataError(
                    f"wrong number of columns: {len(fields)}",
                    path=path,
                    row=reader.line_num,
                    expected=expected,
                )
            )
        elif any("\ufffd" in field for field in fields):
            problems.add(DataError("undecodable bytes", path=path, row=reader.line_num, expected="UTF-8"))
        else:
            yield dict(zip(header, fields, strict=True))


def _as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def first_line(error: BaseException) -> str:
    """The first line of another library's message, short enough for one of ours."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:120]
