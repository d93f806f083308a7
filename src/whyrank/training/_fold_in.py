"""Factors for new rows while the columns stay as they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.rng import draw, shuffled
from whyrank.training._negatives import NOWHERE, Known, draw_negative
from whyrank.training._vectors import choose_tail, dot, fused, load, sigmoid_of_minus, store


@kernel
def fold_in_rows(
    rows: NDArray[np.float32],
    column_table: NDArray[np.float32],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    pool: NDArray[np.int32],
    known: Known,
    masks: NDArray[np.float32],
    blocks: tuple[int, ...],
    epochs: int,
    rate: np.float32,
    decay: np.float32,
    key: np.uint64,
) -> None:
    """Fit each of `rows` in place by its part of Algorithm 1; its positives are columns[starts[row] : starts[row + 1]].

    A row's draws depend on the key and its positives alone: a row comes out the same in any company.
    """
    factors, bias = load(masks, 0, blocks), load(masks, 1, blocks)
    filters, indptr, indices = known
    for row in range(len(rows)):
        positives = columns[starts[row] : starts[row + 1]]
        p = load(rows, row, blocks)
        for epoch in range(epochs):
            epoch_key = draw(key, epoch)
            for k in shuffled(len(positives), epoch_key):
                place = draw_negative(draw(epoch_key, k), row, pool, filters, indptr, indices)
                if place == NOWHERE:
                    continue
                difference = load(column_table, positives[k], blocks) - load(column_table, pool[place], blocks)
                r = dot(choose_tail(factors, p, bias), difference)
                p = choose_tail(factors, fused(difference, rate * sigmoid_of_minus(r), p * decay), p)
        store(rows, row, p)
