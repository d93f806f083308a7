"""One task of a two-way pass: the updates of Algorithm 1 for the positives of one block of rows and columns.

Symbols are the paper's: p is p_u, e and n are o_e and o_e' with their biases in the lane behind the factors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.rng import draw
from whyrank.training._negatives import NONE, NOWHERE, Known, draw_negative
from whyrank.training._vectors import choose_tail, dot, fused, load, prefetch, sigmoid_of_minus, store

AHEAD = 32  # updates whose negatives are drawn and whose rows are asked for together, before they are needed
LIMIT = np.float32(1e4)  # a score difference beyond this is numerical trouble


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


@kernel
def look_ahead(
    negatives: NDArray[np.int32],
    start: int,
    row_table: NDArray[np.float32],
    column_table: NDArray[np.float32],
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    pool: NDArray[np.int32],
    here: NDArray[np.int32],
    known: Known,
    blocks: tuple[int, ...],
    key: np.uint64,
) -> None:
    """Draw the negatives of the next `AHEAD` updates and ask for all rows they touch."""
    filters, indptr, indices = known
    count = len(rows)
    for position in range(start, min(start + AHEAD, count)):
        k = in_two_streams(position, count)
        row = rows[k]
        prefetch(row_table, row, blocks)
        prefetch(column_table, columns[k], blocks)
        place = draw_negative(draw(key, k), row, pool, filters, indptr, indices)
        negative = here[place] if place != NOWHERE else np.int32(NONE)
        prefetch(column_table, negative, blocks)
        negatives[position & (2 * AHEAD - 1)] = negative


@kernel
def pairwise_task(
    row_table: NDArray[np.float32],
    column_table: NDArray[np.float32],
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    pool: NDArray[np.int32],
    here: NDArray[np.int32],
    known: Known,
    masks: NDArray[np.float32],
    blocks: tuple[int, ...],
    rates: Rates,
    key: np.uint64,
) -> tuple[int, int]:
    """Update the tables in place; give the number of updates and of score differences out of range.

    The tables may be shards: `rows`, `columns` and `known`'s rows count within them, `here` says where in the column
    table each column of the pool lies, and the pool and the known columns have the numbers they have among all.
    `masks` has two rows: ones in the factor lanes, and a one in the bias lane if columns have a bias.
    """
    factors, bias = load(masks, 0, blocks), load(masks, 1, blocks)
    negatives = np.empty(2 * AHEAD, np.int32)
    count, updates, trouble = len(rows), 0, 0
    look_ahead(negatives, 0, row_table, column_table, rows, columns, pool, here, known, blocks, key)
    for start in range(0, count, AHEAD):
        look_ahead(negatives, start + AHEAD, row_table, column_table, rows, columns, pool, here, known, blocks, key)
        for position in range(start, min(start + AHEAD, count)):
            k, negative = in_two_streams(position, count), negatives[position & (2 * AHEAD - 1)]
            if negative == NONE:
                continue
            row, column = rows[k], columns[k]
            p, e, n = (
                load(row_table, row, blocks),
                load(column_table, column, blocks),
                load(column_table, negative, blocks),
            )
            difference = e - n
            r = dot(choose_tail(factors, p, bias), difference)
            step = rates.step * sigmoid_of_minus(r)
            p = choose_tail(factors, fused(difference, step, p * rates.row_decay), p)
            moved = choose_tail(factors, p, bias)
            store(row_table, row, p)
            decayed = choose_tail(factors, e * rates.positive_decay, e * rates.bias_decay)
            store(column_table, column, fused(moved, step, decayed))
            store(column_table, negative, fused(moved, -step, n * rates.negative_decay))
            updates += 1
            trouble += not abs(r) < LIMIT
    return updates, trouble
