"""Cutting tables into shards, and sorting the positives of a shard of rows into blocks, once an epoch.

Rows are shuffled in groups of neighbours. Positives lie row by row, so a block has a row's positives together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel

Ints = NDArray[np.int32]
Bytes = NDArray[np.uint8]


@kernel
def rows_of_groups(groups: NDArray[np.int32], size: int, rows: int) -> NDArray[np.int32]:
    """The rows of some groups of a table; group g holds `size` rows from g * size on, the last one maybe fewer."""
    numbers = np.empty(len(groups) * size, np.int32)
    place = 0
    for group in groups:
        first = int(group) * size
        for number in range(first, min(first + size, rows)):
            numbers[place] = number
            place += 1
    return numbers[:place]


@kernel
def shard_numbers(groups: NDArray[np.int32], size: int, rows: int, shards: int) -> NDArray[np.uint8]:
    """The shard of every row: shard s holds groups[n*s//shards : n*(s+1)//shards]."""
    count = len(groups)
    numbers = np.empty(rows, np.uint8)
    for shard in range(shards):
        for place in range(count * shard // shards, count * (shard + 1) // shards):
            first = int(groups[place]) * size
            numbers[first : first + size] = shard
    return numbers


@kernel
def sort_into_blocks(
    rows: Ints, columns: Ints, column_shards: Bytes, others: Ints, other_shards: Bytes, shards: int,
    active: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], Ints, Ints]:  # fmt: skip
    """Where each block of a row shard's entries starts, and the row and the column of its entries in order.

    A block is the shard of the column, in three-way passes with that of the other column; those get the numbers of
    entries in place of columns. Without `other_shards` a pass is two-way; an empty `active` means that all take part.
    """
    three_way = len(other_shards) > 0
    counts = np.zeros((shards * shards if three_way else shards) + 1, np.int64)
    numbers = np.empty(len(rows), np.int32)
    for entry in range(len(rows)):
        numbers[entry] = -1
        if len(active) == 0 or active[entry]:
            block = int(column_shards[columns[entry]])
            if three_way:
                block = block * shards + int(other_shards[others[entry]])
            numbers[entry] = block
            counts[block + 1] += 1
    offsets = np.cumsum(counts)
    places = offsets[:-1].copy()
    block_rows, block_columns = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int32)
    for entry in range(len(rows)):
        block = numbers[entry]
        if block >= 0:
            place = places[block]
            places[block] = place + 1
            block_rows[place] = rows[entry]
            block_columns[place] = entry if three_way else columns[entry]
    return offsets, block_rows, block_columns
