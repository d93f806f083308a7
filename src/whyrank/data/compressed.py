"""Compressed files: how large they grow is looked at before they are read; what is whole of a damaged one is kept."""

from __future__ import annotations

import gzip
import mmap
import zlib
from collections.abc import Iterator
from pathlib import Path

from whyrank.data.problems import Problems
from whyrank.errors import DataError, ParameterError

EXPANSION = 100.0  # texts grow about ten times, tables of ids thirty times
SMALL = 64 << 20  # bytes that any file may grow to
PIECE = 1 << 20
DEFLATE = 1032  # times that gzip can make a file larger at most
BLOCK = 128 << 10  # bytes of a block of Zstandard at most


def check_expansion(path: Path, most: float = EXPANSION) -> Path:
    """Refuse a file that grows to more than `most` times its size (64 MB are free) when decompressed."""
    limit = largest_size(path, most)
    if (path.suffix.lower() == ".gz" and _gzip_grows(path, limit)) or (
        path.suffix.lower() == ".zst" and _zstd_size(path, limit) > limit
    ):
        raise too_large(path, most)
    return path


def largest_size(path: Path, most: float) -> float:
    """Return the number of bytes that a file may grow to."""
    if not most >= 1:
        raise ParameterError(f"max_expansion is {most!r}; use a number of at least 1")
    return max(SMALL, most * path.stat().st_size)


def too_large(path: Path, most: float) -> DataError:
    """Return the error about a file that grows to more than it may."""
    return DataError(
        f"grows to more than {int(largest_size(path, most)) >> 20:,} MB when decompressed",
        path=path,
        expected=f"at most {most:g} times its {path.stat().st_size:,} bytes; for data you trust raise --max-expansion",
    )


def _gzip_grows(path: Path, limit: float) -> bool:
    """Whether more comes out of a gzip file than allowed; damage is for its reader to report."""
    if path.stat().st_size * DEFLATE <= limit:
        return False
    total = 0
    try:
        for piece in _pieces(path):
            total += len(piece)
            if total > limit:
                return True
    except (EOFError, OSError, zlib.error):
        pass
    return False


def _zstd_size(path: Path, limit: float) -> int:
    """At most so many bytes come out of a Zstandard file, by the headers of its blocks (RFC 8878); 0 if it is none."""
    total = at = 0
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while at + 8 <= len(data) and total <= limit:
            magic = int.from_bytes(data[at : at + 4], "little")
            if magic & 0xFFFFFFF0 == 0x184D2A50:  # a frame to skip
                at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
                continue
            if magic != 0xFD2FB528:
                break
            about = data[at + 4]
            single = about >> 5 & 1
            at += 5 + (1 - single) + (0, 1, 2, 4)[about & 3] + ((single, 2, 4, 8)[about >> 6])
            last = False
            while not last and at + 3 <= len(data) and total <= limit:
                head = int.from_bytes(data[at : at + 3], "little")
                last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
                total += BLOCK if kind == 2 else size  # raw and repeated blocks say how long they become
                at += 3 + (1 if kind == 1 else size)
            at += 4 if about & 4 else 0  # a checksum
    return total


def careful_lines(path: Path, problems: Problems) -> Iterator[str]:
    """The lines of a plain or gzip file, undecodable bytes as U+FFFD; whole lines before a damaged place are kept."""
    number, rest = 0, b""
    try:
        for piece in _pieces(path):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                number += 1
                yield _decoded(line)
    except (EOFError, OSError, zlib.error) as error:
        reason = str(error) or type(error).__name__
        damage = DataError(f"cut short or damaged: {reason}"[:160], path=path, row=number + 1, expected="a whole file")
        problems.add(damage)
        return
    if rest:
        yield _decoded(rest)


def _pieces(path: Path) -> Iterator[bytes]:
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        while piece := file.read1(PIECE):
            yield piece


def _decoded(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
