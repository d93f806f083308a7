"""Cutting tables into shards and sorting positives into blocks, once an epoch.

Rows are shuffled in groups of neighbours. Positives are kept sorted by row, so a group's positives lie side by side; a
task that owns a shard of groups walks them in random order, and a block has a row's positives together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels import kernel


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


class Sorting(NamedTuple):
    """A pass's entries sorted by row, and the epoch's shards of what they hold.

    `starts` says where the entries of a group of rows start. An empty `others` means a two-way pass, an empty `active`
    that all entries take part.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    column_shards: NDArray[np.uint8]
    others: NDArray[np.int32]
    other_shards: NDArray[np.uint8]
    shards: int
    active: NDArray[np.bool_]


@kernel
def block_of(
    entry: int,
    columns: NDArray[np.int32],
    column_shards: NDArray[np.uint8],
    others: NDArray[np.int32],
    other_shards: NDArray[np.uint8],
    shards: int,
) -> int:
    """The block of an entry among those of its row shard: its column's shard, in three-way passes with the other's."""
    block = int(column_shards[columns[entry]])
    if len(others):
        block = block * shards + int(other_shards[others[entry]])
    return block


# Tuples are taken apart before the loops: reading their arrays inside costs ten times the work (reference counts).


@kernel
def count_blocks(counts: NDArray[np.int64], groups: NDArray[np.int32], work: Sorting) -> None:
    """Count a row shard's entries in each of its blocks."""
    starts, _, columns, column_shards, others, other_shards, shards, active = work
    for group in groups:
        for entry in range(starts[group], starts[group + 1]):
            if len(active) == 0 or active[entry]:
                counts[block_of(entry, columns, column_shards, others, other_shards, shards)] += 1


@kernel
def fill_blocks(
    places: NDArray[np.int64],
    block_rows: NDArray[np.int32],
    block_columns: NDArray[np.int32],
    groups: NDArray[np.int32],
    work: Sorting,
) -> None:
    """Write a row shard's entries to their blocks, which go on at `places`; three-way passes write entry numbers."""
    starts, rows, columns, column_shards, others, other_shards, shards, active = work
    for group in groups:
        for entry in range(starts[group], starts[group + 1]):
            if len(active) == 0 or active[entry]:
                block = block_of(entry, columns, column_shards, others, other_shards, shards)
                place = places[block]
                places[block] = place + 1
                block_rows[place] = rows[entry]
                block_columns[place] = entry if len(others) else columns[entry]


# What a machine needs that has some shards only.


@kernel
def locate(
    rows: NDArray[np.int32], order: NDArray[np.int32], size: int, total: int, shards: int
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The shard of each of some rows and its place there; `order` holds the place of every group among all."""
    count = len(order)
    short = count * size - total  # what the table's last group lacks
    gap = int(order[count - 1]) if short else count
    shard_of, place_in = np.empty(len(rows), np.uint8), np.empty(len(rows), np.int32)
    for k in range(len(rows)):
        place = int(order[rows[k] // size])
        shard = ((place + 1) * shards - 1) // count
        first = count * shard // shards
        inside = (place - first) * size + int(rows[k]) % size
        if first <= gap < place:
            inside -= short
        shard_of[k], place_in[k] = shard, inside
    return shard_of, place_in


@kernel
def run_positions(rows: NDArray[np.int32], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where entries with their rows side by side go, if those of row r go to starts[r] and on."""
    positions = np.empty(len(rows), np.int64)
    at = np.int64(0)
    for k in range(len(rows)):
        at = starts[rows[k]] if k == 0 or rows[k] != rows[k - 1] else at + 1
        positions[k] = at
    return positions
