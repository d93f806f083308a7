"""Columns of a table as texts, numbers, times and records; what cannot be one is an error that names column and row."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.errors import DataError

FORMULA = r"^'*[=+\-@\t\r\n＝＋－＠]"  # what a spreadsheet computes, and what was such a text
NUMBER = r"(?i)^[+-]?(?:\d[\d.,]*(?:e[+-]?\d+)?)?[ %‰*]*$"
CLOCKS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M")
EPOCH_MILLISECONDS = 100_000_000_000  # a larger time counts milliseconds: in seconds it would be the year 5138
DAYS = ("%Y-%m-%d", "%m %d, %Y", "%B %d, %Y")


def text_column(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column as texts: numbers, dates and UTF-8 bytes are written as texts, lists and structs are refused."""
    series = frame[name]
    try:
        if series.dtype.is_nested():
            raise pl.exceptions.InvalidOperationError
        return series.cast(pl.String)
    except pl.exceptions.PolarsError as error:
        raise _wrong_type(series, "texts or numbers") from error


def bad_rows(frame: pl.DataFrame) -> Iterator[tuple[str, str, pl.Series]]:
    """What can be wrong with rows of triplets: the problem, the column, and which rows have it."""
    for name in ("user", "item", "explanation"):
        yield "empty id", name, text_column(frame, name).fill_null("") == ""
    kinds = {"rating": ("not a number", pl.Float64), "record": ("not the number of a record", pl.Int64)}
    for name, (problem, kind) in kinds.items():
        if name in frame.columns and frame[name].dtype == pl.String:
            missing = frame[name].is_null() & (name == "rating")
            yield problem, name, frame[name].cast(kind, strict=False).is_null() & ~missing
    if "polarity" in frame.columns and (frame["polarity"].dtype.is_numeric() or frame["polarity"].dtype == pl.String):
        yield "not a polarity", "polarity", _no_sign(frame["polarity"])
    if "time" in frame.columns and frame["time"].dtype == pl.String:
        yield "not a time", "time", parse_times(frame["time"]).is_null() & frame["time"].is_not_null()


def number_column(frame: pl.DataFrame, name: str) -> NDArray[np.float64]:
    """A column as numbers, NaN where missing."""
    series = frame[name]
    if not (series.dtype.is_numeric() or series.dtype in (pl.String, pl.Boolean, pl.Null)):
        raise _wrong_type(series, "numbers")
    numbers = series.cast(pl.Float64, strict=False)
    _check_rows(series, numbers.is_null() & series.is_not_null(), "not a number", "numbers")
    return numbers.fill_null(np.nan).to_numpy()


def worth_column(frame: pl.DataFrame) -> NDArray[np.float32]:
    """Return the column `worth`, which is never negative; NaN where missing."""
    numbers = number_column(frame, "worth").astype(np.float32)
    bad = pl.Series(~(np.isnan(numbers) | (np.isfinite(numbers) & (numbers >= 0))))
    _check_rows(frame["worth"], bad, "no worth", "numbers of at least 0")
    return numbers


def polarity_column(frame: pl.DataFrame) -> pl.Series:
    """The column `polarity` as signs: -1, 0 or 1, null where missing or empty."""
    series = frame["polarity"]
    if not (series.dtype.is_numeric() or series.dtype in (pl.String, pl.Null)):
        raise _wrong_type(series, "-1, 0 or 1")
    _check_rows(series, _no_sign(series), "not a polarity", "-1, 0 or 1")
    return series.cast(pl.Float64, strict=False).fill_nan(None).cast(pl.Int8)


def _no_sign(series: pl.Series) -> pl.Series:
    """Which rows have a polarity that is none; missing and empty ones are unknown."""
    signs = series.cast(pl.Float64, strict=False).fill_nan(None)
    missing = series.is_null() | (series == "" if series.dtype == pl.String else signs.is_null())
    return ~(missing | signs.is_in([-1.0, 0.0, 1.0]).fill_null(False))


def record_column(frame: pl.DataFrame, name: str = "record") -> NDArray[np.int64]:
    """A column that says which rows make a record: whole numbers, none missing."""
    series = frame[name]
    expected = "a whole number in every row"
    if not (series.dtype.is_integer() or series.dtype == pl.String):
        raise _wrong_type(series, expected)
    numbers = series.cast(pl.Int64, strict=False)
    _check_rows(series, numbers.is_null(), "not the number of a record", expected)
    return numbers.to_numpy()


def seconds(times: pl.Series) -> NDArray[np.int64]:
    """Times as seconds since 1970 (see `parse_times`), missing ones as 0; what is no time is an error."""
    expected = "2026-01-31 or seconds since 1970"
    if times.dtype.is_nested() or times.dtype in (pl.Duration, pl.Time, pl.Binary, pl.Object):
        raise _wrong_type(times, expected)
    found = parse_times(times)
    if times.dtype == pl.String:
        _check_rows(times, found.is_null() & times.is_not_null(), "not a time", expected)
    return found.fill_null(0).to_numpy()


def parse_times(times: pl.Series) -> pl.Series:
    """Whole seconds since 1970 from numbers (seconds, or milliseconds where large) and dates; null: neither."""
    if times.dtype in (pl.Date, pl.Datetime):
        return times.cast(pl.Datetime("us")).dt.epoch("s").alias("time")  # with a zone, polars holds them in UTC
    if times.dtype.is_numeric() or times.dtype in (pl.Boolean, pl.Null):
        numbers = times.cast(pl.Int64, strict=False)
    else:
        texts = text_column(times.to_frame(), times.name)
        numbers = texts.cast(pl.Int64, strict=False)
        if numbers.null_count() > texts.null_count():
            floats = texts.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
            numbers = pl.select(pl.coalesce(numbers, floats, _date_seconds(texts))).to_series()
    large = numbers.abs() > EPOCH_MILLISECONDS
    if large.any():
        numbers = pl.select(pl.when(large).then(numbers // 1000).otherwise(numbers)).to_series()
    return numbers.alias("time")


def _date_seconds(texts: pl.Series) -> pl.Series:
    """Dates and times in words as seconds since 1970, in UTC unless they name an offset; null where they are none."""
    texts = texts.str.strip_chars().str.replace(r"\s*(?:UTC|GMT)$", "Z").str.replace("T", " ", literal=True)
    zoned = (texts.str.to_datetime(f"{form}%#z", strict=False) for form in CLOCKS)
    naive = (texts.str.to_datetime(form, strict=False) for form in CLOCKS)
    days = (texts.str.to_date(form, strict=False).cast(pl.Datetime("us")) for form in DAYS)
    return pl.select(pl.coalesce(each.dt.epoch("s") for each in (*zoned, *naive, *days))).to_series()


def _check_rows(series: pl.Series, bad: pl.Series, problem: str, expected: str) -> None:
    if bad.any():
        row = int(bad.arg_true()[0])
        raise DataError(f"{problem}: {series[row]!r}"[:200], row=row + 1, column=series.name, expected=expected)


def _wrong_type(series: pl.Series, expected: str) -> DataError:
    return DataError(f"a column of type {series.dtype}"[:200], column=series.name, expected=expected)


def for_spreadsheets() -> pl.Expr:
    """Return texts with an apostrophe before what a spreadsheet would compute, as `render.spreadsheet_cell` writes it.

    >>> pl.DataFrame({"a": ["=1+1", "-0.5", "'=1"]}).select(for_spreadsheets())["a"].to_list()
    ["'=1+1", '-0.5', "''=1"]
    """
    texts = pl.col(pl.String)
    computed = texts.str.contains(FORMULA) & ~texts.str.contains(NUMBER)
    return pl.when(computed).then("'" + texts).otherwise(texts).name.keep()


def from_spreadsheets() -> pl.Expr:
    """Return the texts from which `for_spreadsheets` made these."""
    texts = pl.col(pl.String)
    return pl.when(texts.str.contains(f"^'{FORMULA[1:]}")).then(texts.str.slice(1)).otherwise(texts).name.keep()


def to_lines(texts: pl.Series) -> bytes:
    """The texts, each followed by a new line; texts may hold new lines themselves. Null is an empty line."""
    buffer = io.BytesIO()
    texts.to_frame().write_csv(buffer, include_header=False, quote_style="never")
    return buffer.getvalue()


def from_lines(lines: NDArray[np.uint8]) -> pl.Series:
    """The lines of UTF-8 bytes that end with a new line."""
    if not len(lines):
        return pl.Series([], dtype=pl.String)
    return pl.Series(lines.tobytes().decode()[:-1].split("\n"), dtype=pl.String)
