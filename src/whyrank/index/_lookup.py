"""Rows of tables, and counts of (row, column) entries of a relation, by number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel


@kernel
def place_of(indptr: NDArray[np.int64], indices: NDArray[np.int32], row: int, column: int) -> int:
    """Where (row, column) stands among the entries of a relation, -1 where it does not."""
    low, high = indptr[row], indptr[row + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low if low < end and indices[low] == column else -1


@kernel
def count_at(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], counts: NDArray[np.int32], row: int, column: int
) -> int:
    """The count of one entry, 0 where there is none."""
    place = place_of(indptr, indices, row, column)
    return counts[place] if place >= 0 else 0


@kernel
def values_at(
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    row: NDArray[np.int64],
    column: NDArray[np.int32],
    found: NDArray[np.float32],
) -> None:
    """Write the values of entries of a sparse table, 0 where there is none."""
    for at in range(len(row)):
        place = place_of(indptr, columns, row[at], column[at])
        found[at] = values[place] if place >= 0 else np.float32(0)


@kernel
def weighed_sides(
    left: NDArray[np.float32],
    left_rows: NDArray[np.int32],
    right: NDArray[np.float32],
    right_rows: NDArray[np.int32],
    left_weight: np.float32,
    right_weight: np.float32,
) -> NDArray[np.float32]:
    """Rows of two tables side by side, each times its weight (zeros for -1), and both weights behind them.

    One call for what takes NumPy ten: half of what ranking costs for a single pair is the number of calls.
    """
    width, count = left.shape[1], len(left_rows)
    made = np.zeros((count, width + right.shape[1] + 2), np.float32)
    for at in range(count):
        if left_rows[at] >= 0:
            for j in range(width):
                made[at, j] = left_weight * left[left_rows[at], j]
        if right_rows[at] >= 0:
            for j in range(right.shape[1]):
                made[at, width + j] = right_weight * right[right_rows[at], j]
        made[at, -2], made[at, -1] = left_weight, right_weight
    return made
