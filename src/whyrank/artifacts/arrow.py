"""A look at an Arrow file before polars reads it: a compressed buffer of few bytes may stand for gigabytes."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

TRAILER = 10  # bytes after the footer: its size and the word ARROW1
BLOCK = 24  # bytes of the place of a message in the footer
DICTIONARIES, BATCHES, HEADER, DATA, COMPRESSION = 2, 3, 2, 1, 3  # numbers of fields in Arrow's tables


def holds_compressed(path: Path) -> bool:
    """Whether a batch of rows or a dictionary of an Arrow file is compressed; struct.error where it is damaged."""
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        end = len(data) - TRAILER
        footer = _Table(data, _target(data, end - _number(data, "<i", end)))
        for field in (DICTIONARIES, BATCHES):
            blocks = footer.follow(field)
            count = _number(data, "<I", blocks) if blocks else 0
            for block in range(count):
                message = _number(data, "<q", blocks + 4 + block * BLOCK)
                message += 8 if _number(data, "<I", message) == 0xFFFFFFFF else 4
                batch = _Table(data, _Table(data, _target(data, message)).follow(HEADER))
                if (_Table(data, batch.follow(DATA)) if field == DICTIONARIES else batch).follow(COMPRESSION):
                    return True
    return False


class _Table:
    """A table of FlatBuffers at a place in the data."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self.data, self.at, self.fields = data, at, at - _number(data, "<i", at)

    def follow(self, field: int) -> int:
        """Return where the vector or table in a field begins; 0: there is none."""
        entry = 4 + 2 * field
        offset = _number(self.data, "<H", self.fields + entry) if entry < _number(self.data, "<H", self.fields) else 0
        return _target(self.data, self.at + offset) if offset else 0


def _target(data: mmap.mmap, place: int) -> int:
    return place + _number(data, "<I", place)


def _number(data: mmap.mmap, kind: str, place: int) -> int:
    if place < 0:
        raise struct.error("a place outside of the file")
    return int(struct.unpack_from(kind, data, place)[0])
