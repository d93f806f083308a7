"""Reviews out of files, a few thousand at a time: JSON lines, CSV, TSV and Parquet, plain or compressed."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from whyrank.data.parquet import check_parquet
from whyrank.data.problems import Problems
from whyrank.data.tables import UNREADABLE, first_line, form_of
from whyrank.errors import DataError
from whyrank.mining.lines import to_lines

Sources = str | Path | pl.DataFrame | Sequence[str | Path | pl.DataFrame]

CHUNK = 2000  # reviews that are looked at together
# Names of the fields in well-known sets of reviews (Amazon 2014, 2018 and 2023, Yelp, Google, Goodreads), best first.
FIELDS = {
    "user": ("user", "user_id", "reviewerID", "userId", "reviewer_id", "customer_id", "author_id", "author"),
    "item": (
        "item",
        "item_id",
        "asin",
        "business_id",
        "parent_asin",
        "product_id",
        "hotel_id",
        "book_id",
        "gmap_id",
        "itemId",
    ),
    "text": ("text", "reviewText", "review_text", "review_body", "review", "body", "content", "comment"),
    "title": ("title", "summary", "review_title", "review_headline", "headline"),
    "rating": ("rating", "overall", "stars", "star_rating", "score"),
    "source": ("review_id", "reviewId", "id"),
    "time": ("time", "unixReviewTime", "timestamp", "date", "review_date", "reviewTime", "date_added"),
}
REQUIRED = ("user", "item", "text")
EPOCH_MILLISECONDS = 100_000_000_000  # a larger time counts milliseconds: in seconds it would be the year 5138


@dataclass
class Reading:
    """What is counted while reviews are read."""

    problems: Problems
    reviews: int = 0  # rows of the sources
    rejected: dict[str, int] = field(default_factory=dict)  # by cause

    def reject(self, cause: str, count: int) -> None:
        if count:
            self.rejected[cause] = self.rejected.get(cause, 0) + count


def read_reviews(sources: Sources, columns: Mapping[str, str] | None, reading: Reading) -> Iterator[pl.DataFrame]:
    """Tables of reviews: user, item, title, text, rating and time (missing ones null), in the order of the sources.

    `columns` maps our names to the source's: `columns={"user": "reviewer"}`. Other names are found by themselves.
    """
    unknown = set(columns or ()) - set(FIELDS)
    if unknown:
        raise DataError(f"columns names {min(unknown)!r}", expected=f"a mapping from some of {', '.join(FIELDS)}")
    for source in [sources] if isinstance(sources, str | Path | pl.DataFrame) else list(sources):
        path = None if isinstance(source, pl.DataFrame) else Path(source)
        mapping: dict[str, str] | None = None
        row = 1
        for table in _tables(source, columns, reading):
            if mapping is None:
                mapping = find_fields(table.columns, columns, path)
            yield _reviews(table, mapping, path, row, reading)
            row += table.height


def find_fields(names: Sequence[str], columns: Mapping[str, str] | None, path: Path | None) -> dict[str, str]:
    """Which of the source's fields is which of ours."""
    found = {}
    for ours, theirs in FIELDS.items():
        if columns and ours in columns:
            if columns[ours] not in names:
                raise DataError("no such field", path=path, column=columns[ours], expected=f"one of {', '.join(names)}")
            found[ours] = columns[ours]
        else:
            known = [name for name in theirs if name in names]
            found |= {ours: known[0]} if known else {}
    for ours in REQUIRED:
        if ours not in found:
            expected = f"columns={{{ours!r}: ...}} with one of {', '.join(names)}"
            raise DataError(f"no field for the {ours} of a review", path=path, expected=expected)
    return found


def _tables(
    source: str | Path | pl.DataFrame, columns: Mapping[str, str] | None, reading: Reading
) -> Iterator[pl.DataFrame]:
    if isinstance(source, pl.DataFrame):
        return source.iter_slices(CHUNK)
    path = Path(source)
    if not path.is_file():
        raise DataError("no such file", path=path)
    form, _ = form_of(path)
    if form == "jsonl":
        return _json_tables(path, columns, reading)
    if form == "parquet":
        return _batches(path, pl.scan_parquet(check_parquet(path)))
    return _csv_tables(path, "\t" if form == "tsv" else ",", reading)


def _batches(path: Path, frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    try:
        yield from frame.collect_batches(chunk_size=CHUNK)
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {first_line(error)}", path=path) from error


def _lines(path: Path) -> Iterator[pl.Series]:
    """The lines of a file, undecodable bytes as U+FFFD; a separator that no text holds keeps them whole."""
    frame = pl.scan_csv(
        path,
        has_header=False,
        separator="\0",
        quote_char=None,
        schema={"line": pl.String},
        encoding="utf8-lossy",
        truncate_ragged_lines=True,
    )
    return (batch["line"] for batch in _batches(path, frame))


def _json_tables(path: Path, columns: Mapping[str, str] | None, reading: Reading) -> Iterator[pl.DataFrame]:
    schema: dict[str, type[pl.String]] | None = None
    row = 1
    for lines in _lines(path):
        if schema is None:
            names = _json_names(lines.head(100))
            schema = dict.fromkeys(find_fields(names, columns, path).values(), pl.String)
        try:
            table = pl.read_ndjson(to_lines(lines), schema=schema)
        except pl.exceptions.PolarsError:
            table = _json_carefully(path, lines, row, schema, reading)
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


def _json_carefully(
    path: Path, lines: pl.Series, row: int, schema: Mapping[str, type[pl.String]], reading: Reading
) -> pl.DataFrame:
    """Line by line, so that each bad one is named or skipped."""
    kept: dict[str, list[str | None]] = {name: [] for name in schema}
    for number, line in enumerate(lines, row):
        if line is None or not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = f"broken JSON: {first_line(error)}"
            value = None
        else:
            problem = "not a JSON object"
        if not isinstance(value, dict):
            reading.reviews += 1
            reading.reject(problem.split(":")[0], 1)
            reading.problems.add(DataError(problem, path=path, row=number, expected="one object a line"))
            continue
        for name, values in kept.items():
            entry = value.get(name)
            text = entry if entry is None or isinstance(entry, str) else json.dumps(entry)
            values.append(None if text is None else text.encode("utf-8", "replace").decode())
    return pl.DataFrame(kept, schema=dict(schema))


def _csv_tables(path: Path, separator: str, reading: Reading) -> Iterator[pl.DataFrame]:
    careless = reading.problems.on_error == "skip"
    frame = pl.scan_csv(
        path,
        separator=separator,
        quote_char=None if separator == "\t" else '"',
        infer_schema=False,
        encoding="utf8-lossy",
        ignore_errors=careless,
        truncate_ragged_lines=careless,
    )
    try:
        yield from frame.collect_batches(chunk_size=CHUNK)
    except UNREADABLE as error:
        row = _first_bad_row(path, separator)
        expected = "as many fields in each row as in the header" if row else None
        raise DataError(f"cannot be read: {first_line(error)}", path=path, row=row, expected=expected) from error


def _first_bad_row(path: Path, separator: str) -> int | None:
    texts = (f"{line or ''}\n" for lines in _lines(path) for line in lines)
    rows: Iterable[list[str]] = csv.reader(texts, csv.excel_tab if separator == "\t" else csv.excel)
    width = None
    try:
        for number, fields in enumerate(rows):
            width = len(fields) if width is None else width
            if len(fields) > width:
                return number
    except (csv.Error, DataError):
        pass
    return None


def _reviews(
    table: pl.DataFrame, mapping: Mapping[str, str], path: Path | None, row: int, reading: Reading
) -> pl.DataFrame:
    """Our columns in our types; rows without user, item or text are counted and left out."""
    texts = [pl.col(mapping[name]).cast(pl.String).alias(name) for name in REQUIRED]
    title = pl.col(mapping["title"]).cast(pl.String).fill_null("") if "title" in mapping else pl.lit("")
    rating = pl.col(mapping["rating"]) if "rating" in mapping else pl.lit(None)
    time = pl.lit(parse_times(table[mapping["time"]])) if "time" in mapping else pl.lit(None, pl.Int64)
    source = pl.col(mapping["source"]).cast(pl.String) if "source" in mapping else pl.lit(None, pl.String)
    rows = pl.int_range(row, row + table.height).cast(pl.String)
    reviews = table.select(
        *texts,
        source=pl.coalesce(source, rows),
        title=title,
        rating=rating.cast(pl.String).cast(pl.Float32, strict=False),
        time=time,
    )
    reading.reviews += reviews.height
    good = pl.repeat(True, reviews.height, eager=True)
    for name in REQUIRED:
        missing = (reviews[name].fill_null("").str.strip_chars() == "") & good
        if missing.any():
            reading.reject(f"no {name}", int(missing.sum()))
            if name != "text":  # an empty text is no mistake
                for at in missing.arg_true():
                    reading.problems.add(DataError(f"no {name}", path=path, row=row + at, column=mapping[name]))
            good &= ~missing
    return reviews if good.all() else reviews.filter(good)


def parse_times(times: pl.Series) -> pl.Series:
    """Seconds since 1970 from numbers (seconds or milliseconds) and dates; what is neither is null."""
    if times.dtype.is_temporal():
        return times.cast(pl.Datetime("us")).dt.epoch("s").alias("time")
    numbers = times.cast(pl.String).cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
    if numbers.null_count() > times.null_count():
        text = times.cast(pl.String).str.slice(0, 19).str.replace("T", " ", literal=True)
        dates = (text.str.to_datetime(form, strict=False) for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"))
        days = (
            text.str.to_date(form, strict=False).cast(pl.Datetime("us"))
            for form in ("%Y-%m-%d", "%m %d, %Y", "%B %d, %Y")
        )
        numbers = pl.select(pl.coalesce(numbers, *(date.dt.epoch("s") for date in (*dates, *days)))).to_series()
    large = numbers.abs() > EPOCH_MILLISECONDS
    return pl.select(pl.when(large).then(numbers // 1000).otherwise(numbers).alias("time")).to_series()
