"""Ranked lists as columns, and whose part of each score is how large: one call for what would take NumPy ten."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]
Rows = NDArray[np.int64]


@kernel
def listed(numbers: Numbers, scores: Floats, row: Rows, rank: Numbers, found: Numbers, values: Floats) -> int:
    """Row, rank from 1, number and score of everything in lists (a row each) that end with -1; returns how many.

    Into arrays that have room: to hand over an array that a kernel made takes as long as ten that it is given.
    """
    at = 0
    for r in range(numbers.shape[0]):
        for c in range(numbers.shape[1]):
            if numbers[r, c] >= 0:
                row[at], rank[at], found[at], values[at] = r, c + 1, numbers[r, c], scores[r, c]
                at += 1
    return at


@kernel
def parts_of(
    queries: Floats, keys: Floats, row: Rows, explanations: Numbers, widths: NDArray[np.int64],
    into: NDArray[np.int64], scores: Floats, parts: Floats, rest: Floats,
) -> bool:  # fmt: skip
    """parts[b, k] = what block b of the columns adds to the dot product of query row[k] and key explanations[k].

    Rows of `parts` after those of the blocks hold other parts. Row b is then added to row `into[b]`, unless that is b
    itself. `rest` is what all of them leave of scores; returns
    whether that is more than rounding.
    """
    largest, most = np.float32(0), np.float32(0)
    for at in range(len(row)):
        start = 0
        for block in range(len(widths)):
            total = np.float32(0)
            for j in range(start, start + widths[block]):
                total += queries[row[at], j] * keys[explanations[at], j]
            parts[block, at] = total
            start += widths[block]
        left = scores[at]
        for part in range(len(parts)):
            left -= parts[part, at]
        for part in range(len(parts)):
            if into[part] != part:
                parts[into[part], at] += parts[part, at]
        rest[at] = left
        largest, most = max(largest, abs(left)), max(most, abs(scores[at]))
    return bool(largest > 1e-4 * (1 + most))


@kernel
def bonus_parts(
    indptr: NDArray[np.int64], bonus: Numbers, values: Floats, row: Rows, explanations: Numbers, part: Floats
) -> None:
    """part[k] = what a bonus adds to an explanation of a row, 0 where it has none."""
    for at in range(len(row)):
        low, end = indptr[row[at]], indptr[row[at] + 1]
        high = end
        while low < high:
            middle = (low + high) // 2
            if bonus[middle] < explanations[at]:
                low = middle + 1
            else:
                high = middle
        part[at] = values[low] if low < end and bonus[low] == explanations[at] else np.float32(0)
