"""A look at the counts in a Parquet file before polars trusts them: on wrong ones it asks for all memory and aborts."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

from whyrank.errors import DataError

LIMIT = 1 << 31  # counts and sizes in the header of a page are below
CRC = 4  # the one field there that is neither


def check_parquet(path: Path) -> Path:
    """The path of a file whose pages hold as many rows as it announces."""
    try:
        with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
            footer = _Headers(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little")).struct()
            groups = footer.get(4, [])
            if footer[3] != sum(group[3] for group in groups):
                raise ValueError("its rows are not those of its groups")
            for group in groups:
                for column in group[1]:
                    _check_pages(data, column[3], group[3])
    except (OSError, ValueError) as error:
        raise DataError(f"not a readable Parquet file: {error}", path=path) from error
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError("not a readable Parquet file: a damaged header", path=path) from error
    return path


def _check_pages(data: mmap.mmap, column: dict[int, Any], rows: int) -> None:
    """Pages follow each other until they hold all values of a column, at least one for each row."""
    headers, values = _Headers(data, column.get(11) or column[9]), 0
    while values < column[5]:
        page = headers.struct()
        about: dict[int, Any] = page.get(5) or page.get(8) or {}  # of values; a dictionary has neither
        counts = [value for part in (page, page.get(7, {}), about) for number, value in part.items() if number != CRC]
        if not all(0 <= count < LIMIT for count in counts if isinstance(count, int)):
            raise ValueError("a page with impossible counts")
        values += about[1] if about else 0
        headers.at += page[3]
    if values != column[5] or values < rows:
        raise ValueError("its pages do not hold its rows")


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
