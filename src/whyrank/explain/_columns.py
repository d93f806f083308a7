"""Columns of reasons: whose part of each score is how large, and which rows are equal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.rng import mix

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]
Rows = NDArray[np.int64]


@kernel
def parts_of(
    queries: Floats, keys: Floats, row: Rows, explanations: Numbers, shape: tuple[Rows, Rows], scores: Floats,
    parts: Floats, rest: Floats,
) -> bool:  # fmt: skip
    """Write what block b of the columns adds to the dot product of query row[k] and key explanations[k] to parts[b, k].

    `shape` are the widths of blocks and, for each row of `parts`, the row that it is added to. Rows after those of the
    blocks hold other parts. `rest` is what all of them leave of scores; returns whether that is more than rounding.
    """
    (widths, into), largest, most = shape, np.float32(0), np.float32(0)
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
def distinct_rows(table: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """Return the first of all rows that are equal, and for each row the place of its first among these."""
    count, size = 0, 16
    while size < 2 * len(table):
        size *= 2
    slots, first, place = np.full(size, -1, np.int64), np.empty(len(table), np.int64), np.empty(len(table), np.int64)
    for row in range(len(table)):
        key = np.uint64(0)
        for value in table[row]:
            key = mix(key + np.uint64(value))
        slot = np.int64(key & np.uint64(size - 1))
        while slots[slot] >= 0 and not np.array_equal(table[first[slots[slot]]], table[row]):
            slot = (slot + 1) % size
        if slots[slot] < 0:
            slots[slot], first[count] = count, row
            count += 1
        place[row] = slots[slot]
    return first[:count], place


@kernel
def first_quotes(entries: Rows, askers: Numbers, starts: Rows, users: Numbers) -> Rows:
    """Return the first quote of each entry by somebody else than who asks, or the first of all; -1: there is none."""
    found = np.full(len(entries), -1, np.int64)
    for at in range(len(entries)):
        if entries[at] >= 0 and starts[entries[at]] < starts[entries[at] + 1]:
            found[at] = starts[entries[at]]
            for place in range(starts[entries[at]], starts[entries[at] + 1]):
                if users[place] != askers[at]:
                    found[at] = place
                    break
    return found
