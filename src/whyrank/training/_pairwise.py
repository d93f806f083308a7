"""Two-way passes: the updates of Algorithm 1 for the positives of one block of rows and columns, and for new rows.

Symbols are the paper's: p is p_u, e and n are o_e and o_e' with their biases in the lane behind the factors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inner, kernel
from whyrank.rng import draw, shuffled
from whyrank.training._negatives import NONE, NOWHERE, Known, draw_negative
from whyrank.training._vectors import choose_tail, dot, fused, load, prefetch, sigmoid_of_minus, store

AHEAD = 32  # updates whose negatives are drawn and whose rows are asked for together, before they are needed
LIMIT = np.float32(1e4)  # a score difference beyond this is numerical trouble


class BlockPositives(NamedTuple):
    """The positives of a row shard whose columns are in one shard of each column table, and the pool of negatives.

    `columns` are numbers of columns in a two-way pass, and places in entries in a three-way one.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    pool: NDArray[np.int32]


class RowLayout(NamedTuple):
    """How rows lie in vectors: `masks` has ones where the factors are, and a one where a bias is that takes part."""

    masks: NDArray[np.float32]
    blocks: tuple[int, ...]


class Rates(NamedTuple):
    """Learning rate times weight, and what regularization leaves of the values in each role (1 - rate * lambda).

    A positive's factors may learn in other passes too, which share lambda; its bias has a share of its own.
    """

    step: np.float32
    row_decay: np.float32
    positive_decay: np.float32
    bias_decay: np.float32
    negative_decay: np.float32


@kernel
def in_two_streams(position: int, count: int) -> int:
    """Visit a list's halves in turn: neighbours in time then rarely share a row and need not wait for each other."""
    return (position >> 1) + (position & 1) * ((count + 1) >> 1)


@inner
def descend(p: Any, difference: Any, masks: tuple[Any, Any], step: np.float32, decay: np.float32) -> Any:
    """Move a row p by its part of the gradient of -ln sigma(r), r = p . difference: p, its rate x sigma(-r), r."""
    factors, bias = masks
    r = dot(choose_tail(factors, p, bias), difference)
    pull = step * sigmoid_of_minus(r)
    return choose_tail(factors, fused(difference, pull, p * decay), p), pull, r


@kernel
def look_ahead(
    negatives: NDArray[np.int32], start: int, row_table: NDArray[np.float32], column_table: NDArray[np.float32],
    block: BlockPositives, known: Known, layout: RowLayout, key: np.uint64,
) -> None:  # fmt: skip
    """Draw the negatives of the next `AHEAD` updates and ask for all rows they touch."""
    (filters, indptr, indices), (rows, columns, pool), blocks = known, block, layout.blocks
    count = len(rows)
    for position in range(start, min(start + AHEAD, count)):
        k = in_two_streams(position, count)
        row = rows[k]
        prefetch(row_table, row, blocks)
        prefetch(column_table, columns[k], blocks)
        place = draw_negative(draw(key, k), row, pool, filters, indptr, indices)
        negative = pool[place] if place != NOWHERE else np.int32(NONE)
        prefetch(column_table, negative, blocks)
        negatives[position & (2 * AHEAD - 1)] = negative


@kernel
def pairwise_task(
    row_table: NDArray[np.float32], column_table: NDArray[np.float32], block: BlockPositives, known: Known,
    layout: RowLayout, rates: Rates, key: np.uint64,
) -> tuple[int, int]:  # fmt: skip
    """Update the tables in place; give the number of updates and of score differences out of range.

    The row table may be a shard: `block.rows` and the rows of `known` count within it.
    """
    masks, blocks = layout
    factors, bias = load(masks, 0, blocks), load(masks, 1, blocks)
    rows, columns, _ = block
    negatives = np.empty(2 * AHEAD, np.int32)
    count, updates, trouble = len(rows), 0, 0
    look_ahead(negatives, 0, row_table, column_table, block, known, layout, key)
    for start in range(0, count, AHEAD):
        look_ahead(negatives, start + AHEAD, row_table, column_table, block, known, layout, key)
        for position in range(start, min(start + AHEAD, count)):
            k, negative = in_two_streams(position, count), negatives[position & (2 * AHEAD - 1)]
            if negative == NONE:
                continue
            row, column = rows[k], columns[k]
            e, n = load(column_table, column, blocks), load(column_table, negative, blocks)
            p, step, r = descend(load(row_table, row, blocks), e - n, (factors, bias), rates.step, rates.row_decay)
            moved = choose_tail(factors, p, bias)
            store(row_table, row, p)
            decayed = choose_tail(factors, e * rates.positive_decay, e * rates.bias_decay)
            store(column_table, column, fused(moved, step, decayed))
            store(column_table, negative, fused(moved, -step, n * rates.negative_decay))
            updates += 1
            trouble += not abs(r) < LIMIT
    return updates, trouble


@kernel
def fold_in_rows(
    rows: NDArray[np.float32], column_table: NDArray[np.float32], starts: NDArray[np.int64],
    columns: NDArray[np.int32], known: Known, layout: RowLayout, rates: Rates, keys: NDArray[np.uint64],
) -> None:  # fmt: skip
    """Fit `rows` in place while columns stay, an epoch for each key; positives are columns[starts[r] : starts[r + 1]].

    A row's draws depend on the keys and its positives alone: a row comes out the same in any company.
    """
    (masks, blocks), (filters, indptr, indices) = layout, known
    factors, bias = load(masks, 0, blocks), load(masks, 1, blocks)
    pool = np.arange(len(column_table)).astype(np.int32)
    for row in range(len(rows)):
        positives = columns[starts[row] : starts[row + 1]]
        p = load(rows, row, blocks)
        for key in keys:
            for k in shuffled(len(positives), key):
                place = draw_negative(draw(key, k), row, pool, filters, indptr, indices)
                if place != NOWHERE:
                    difference = load(column_table, positives[k], blocks) - load(column_table, pool[place], blocks)
                    p, _, _ = descend(p, difference, (factors, bias), rates.step, rates.row_decay)
        store(rows, row, p)
