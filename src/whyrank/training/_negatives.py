"""Drawing negatives: columns of a pool that a row does not know.

Loops take tuples of arrays apart before they start, and `draw_negative` is inlined into them: a call with arrays or a
look into a tuple counts references, which costs more than a draw (an update: 50 against 41 ns).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.rng import GOLDEN, below, draw

TRIES = 64  # a row that knows this many drawn columns in a row is taken to know them all
NONE = -1
NOWHERE = np.uint64(2**64 - 1)  # no place of a pool
ONE, U58 = np.uint64(1), np.uint64(58)


class Known(NamedTuple):
    """Row -> columns never drawn for it; and 64 bits per row that tell most unknown columns without a search."""

    filters: NDArray[np.uint64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]


@kernel
def filter_bit(column: int) -> np.uint64:
    return ONE << ((np.uint64(column) * GOLDEN) >> U58)


@kernel
def build_filters(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> NDArray[np.uint64]:
    """For every row the bits of the columns it knows."""
    filters = np.zeros(len(indptr) - 1, np.uint64)
    for row in range(len(filters)):
        for entry in range(indptr[row], indptr[row + 1]):
            filters[row] |= filter_bit(indices[entry])
    return filters


@kernel
def holds(indices: NDArray[np.int32], start: int, end: int, column: int) -> bool:
    """Whether the sorted indices[start:end] hold the column."""
    stop = end
    while start < stop:
        middle = (start + stop) >> 1
        if indices[middle] < column:
            start = middle + 1
        else:
            stop = middle
    return start < end and indices[start] == column


@kernel
def redraw(
    place: int,
    bits: np.uint64,
    row: int,
    pool: NDArray[np.int32],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
) -> int:
    """The place in the pool, if the row does not know its column after all; else others; NOWHERE after `TRIES`."""
    start, end = indptr[row], indptr[row + 1]
    for attempt in range(TRIES):
        if not holds(indices, start, end, pool[place]):
            return place
        place = below(draw(bits, attempt), len(pool))
    return NOWHERE  # type: ignore[return-value]


@inlined
def draw_negative(
    bits: np.uint64,
    row: int,
    pool: NDArray[np.int32],
    filters: NDArray[np.uint64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
) -> int:
    """The place in the pool of a column that the row does not know, NOWHERE if none was found."""
    place = below(bits, len(pool))
    if filters[row] & filter_bit(pool[place]):
        place = redraw(place, bits, row, pool, indptr, indices)
    return place


@kernel
def draw_negatives(rows: NDArray[np.int32], pool: NDArray[np.int32], known: Known, key: np.uint64) -> NDArray[np.int32]:
    """One negative for every row of a list."""
    filters, indptr, indices = known
    negatives = np.empty(len(rows), np.int32)
    for position in range(len(rows)):
        place = draw_negative(draw(key, position), rows[position], pool, filters, indptr, indices)
        negatives[position] = pool[place] if place != NOWHERE else NONE
    return negatives


def known_of(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> Known:
    """What rows know, with its filters."""
    return Known(build_filters(indptr, indices), indptr, indices)
