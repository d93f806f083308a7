"""Features of words for the parser: rows of hashed tables, the same on every machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

# Rows for: word, word hashed anew, suffixes of three and two, prefix of four, shape.
TABLES = (20_000, 20_000, 6_000, 2_000, 4_000, 1_000)
KINDS = "wvstpc"
FIRST_ROWS = (0, *accumulate(TABLES))
REPEATED = re.compile(r"(.)\1{2,}")
DIGIT = re.compile(r"\d")


def rows_of_words(words: Sequence[str]) -> NDArray[np.int32]:
    """Return the rows of words, one column for each table."""
    return np.array([rows_of(word) for word in words], np.int32).reshape(-1, len(TABLES))


@lru_cache(maxsize=100_000)
def rows_of(word: str) -> tuple[int, ...]:
    """Return the row of a word in each table, where all tables stand in one."""
    plain = REPEATED.sub(r"\1\1", DIGIT.sub("0", word.lower().replace("’", "'")))
    parts = (plain, plain, plain[-3:], plain[-2:], plain[:4], shape_of(word))
    hashes = [crc32((kind + part).encode()) for kind, part in zip(KINDS, parts, strict=True)]
    return tuple(first + number % size for first, number, size in zip(FIRST_ROWS[:-1], hashes, TABLES, strict=True))


def shape_of(word: str) -> str:
    """Return the kinds of a word's characters, runs cut to two.

    >>> [shape_of(word) for word in ("Great", "wi-fi", "U.S.", "10:30")]
    ['Xxx', 'xx-xx', 'X.X.', '00:00']
    """
    kinds = ["X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word]
    return REPEATED.sub(r"\1\1", "".join(kinds))[:10]
