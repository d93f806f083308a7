"""Parquet files: their headers are looked at before polars trusts them.

On wrong counts polars asks for all memory and aborts, and a page of few bytes can stand for millions of values. No
library that we have tells what pages become in memory, so the headers are read here.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from whyrank.data.compressed import EXPANSION, largest_size, too_large
from whyrank.errors import DataError

LIMIT = 1 << 31  # counts and sizes in the header of a page are below
CRC = 4  # the one field there that is neither
TEXT, OTHER = 16, 8  # bytes of a value in memory: polars looks at a text through a view of 16 bytes
BYTE_ARRAY = 6  # the type of texts
DICTIONARY, SHARED_PREFIXES = (2, 8), 7  # encodings


def read_parquet(path: Path, columns: Sequence[str] | None = None, most: float = EXPANSION) -> pl.DataFrame:
    """Read the columns of a file that grows to no more than `most` times its size (64 MB are free)."""
    table = pl.read_parquet(check_parquet(path, most), glob=False, columns=columns if columns is None else [*columns])
    if text_size(table) > largest_size(path, most):
        raise too_large(path, most)
    return table


def text_size(table: pl.DataFrame) -> int:
    """Return the number of bytes of all texts: one that is held once may stand in many rows."""
    sizes = table.select(pl.col(pl.String).str.len_bytes().sum(), pl.col(pl.Binary).bin.size().sum().cast(pl.UInt64))
    return sum(sizes.row(0)) if sizes.width else 0


def check_parquet(path: Path, most: float = EXPANSION) -> Path:
    """Refuse a file whose pages do not hold the rows that it announces, or grow to more than they may."""
    limit = largest_size(path, most)
    try:
        with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
            footer = _Headers(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little")).struct()
            groups = footer.get(4, [])
            if footer[3] != sum(group[3] for group in groups):
                raise ValueError("its rows are not those of its groups")
            size = sum(_size_of_pages(data, column[3], group[3]) for group in groups for column in group[1])
    except (OSError, ValueError) as error:
        raise DataError(f"not a readable Parquet file: {error}", path=path) from error
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError("not a readable Parquet file: a damaged header", path=path) from error
    if size > limit:
        raise too_large(path, most)
    return path


def _size_of_pages(data: mmap.mmap, column: dict[int, Any], rows: int) -> int:
    """Return the bytes that a column takes in memory; its pages must hold at least one value for each row."""
    headers, values, size, entry = _Headers(data, column.get(11) or column[9]), 0, 0, 0
    while values < column[5]:
        page = headers.struct()
        about: dict[int, Any] = page.get(5) or page.get(8) or {}  # of values; a dictionary has neither
        counts = [value for part in (page, page.get(7, {}), about) for number, value in part.items() if number != CRC]
        if not all(0 <= count < LIMIT for count in counts if isinstance(count, int)):
            raise ValueError("a page with impossible counts")
        size += page[2]
        if 7 in page:
            entry = page[2] // max(page[7][1], 1)
        elif about:
            values += about[1]
            size += about[1] * _value_size(about[2 if 5 in page else 4], column[1], page[2], entry)
        headers.at += page[3]
    if values != column[5] or values < rows:
        raise ValueError("its pages do not hold its rows")
    return size


def _value_size(encoding: int, kind: int, page: int, entry: int) -> int:
    """Return the bytes that a value takes in memory besides those of its page, at most."""
    held = TEXT if kind == BYTE_ARRAY else OTHER
    if encoding in DICTIONARY:
        return held + entry
    return held + page if encoding == SHARED_PREFIXES else held  # a text may be all of the texts before it


class _Headers:
    """Structs in Thrift's compact form, as dicts of what stands in their numbered fields."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self.data, self.at = data, at

    def struct(self) -> dict[int, Any]:
        fields, number = {}, 0
        while head := self.bytes(1)[0]:
            number = number + (head >> 4) if head >> 4 else self.integer()
            fields[number] = self.value(head & 15)
        return fields

    def value(self, kind: int) -> Any:
        if kind in (4, 5, 6):
            return self.integer()
        if kind in (9, 10):  # lists and sets
            head = self.bytes(1)[0]
            size = head >> 4 if head >> 4 < 15 else self.unsigned()
            return [self.value(3 if head & 15 < 3 else head & 15) for _ in range(size)]  # a bool in a list has a byte
        if kind == 12:
            return self.struct()
        widths = {1: 0, 2: 0, 3: 1, 7: 8}  # bools stand in their types
        return self.bytes(self.unsigned() if kind == 8 else widths[kind])

    def integer(self) -> int:
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)

    def unsigned(self) -> int:
        value = shift = 0
        while (byte := self.bytes(1)[0]) > 127:
            value, shift = value | (byte & 127) << shift, shift + 7
        return value | byte << shift

    def bytes(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if start < 0 or self.at > len(self.data):
            raise ValueError("a header that leads out of it")
        return self.data[start : self.at]
