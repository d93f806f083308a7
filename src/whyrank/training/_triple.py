"""One task of a three-way pass: CD's or PITF's updates for the triplets of one block of users, items and explanations.

Symbols are the paper's: p is p_u, q is q_i, e and n are o_e and o_e' (on PITF's item side: f and m). As in Algorithm
1, the user's row moves first, then the item's with the user's new row, then the explanations' with both new rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.rng import draw
from whyrank.training._negatives import NONE, NOWHERE, Known, draw_negative
from whyrank.training._pairwise import AHEAD, LIMIT, BlockPositives, RowLayout
from whyrank.training._vectors import choose_tail, dot, fused, load, prefetch, sigmoid_of_minus, store


class TripleRates(NamedTuple):
    """As `pairwise.Rates`, for the roles of a three-way pass."""

    step: np.float32
    user_decay: np.float32
    item_decay: np.float32
    positive_decay: np.float32
    negative_decay: np.float32


class Entries(NamedTuple):
    """Triplets in columns; `record` is the row of `known` whose explanations are never drawn as negatives."""

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    explanation: NDArray[np.int32]
    record: NDArray[np.int32]


@kernel
def triple_task(
    tables: tuple[NDArray[np.float32], ...], is_cd: bool, entries: Entries, block: BlockPositives, known: Known,
    layout: RowLayout, rates: TripleRates, key: np.uint64,
) -> tuple[int, int]:  # fmt: skip
    """Update the tables in place for a block's entries; give the number of updates and of scores out of range.

    Tables are those of users, items, explanations by user and by item; CD reads and writes its explanations in the
    third alone. The second row of the masks is zero: no bias takes part.
    """
    user_table, item_table, by_user, by_item = tables
    (masks, blocks), (_, chosen, pool) = layout, block
    factors, zero = load(masks, 0, blocks), load(masks, 1, blocks)
    users, items, explanations, records = entries
    filters, indptr, indices = known
    negatives = np.empty(AHEAD, np.int32)
    count, updates, trouble = len(chosen), 0, 0
    for start in range(0, count, AHEAD):
        end = min(start + AHEAD, count)
        for position in range(start, end):
            k = chosen[position]
            place = draw_negative(draw(key, position), records[k], pool, filters, indptr, indices)
            negative = pool[place] if place != NOWHERE else np.int32(NONE)
            negatives[position - start] = negative
            prefetch(user_table, users[k], blocks)
            prefetch(item_table, items[k], blocks)
            prefetch(by_user, explanations[k], blocks)
            prefetch(by_user, negative, blocks)
            if not is_cd:
                prefetch(by_item, explanations[k], blocks)
                prefetch(by_item, negative, blocks)
        for position in range(start, end):
            k, negative = chosen[position], negatives[position - start]
            if negative == NONE:
                continue
            user, item, explanation = users[k], items[k], explanations[k]
            whole_p, whole_q = load(user_table, user, blocks), load(item_table, item, blocks)
            p, q = choose_tail(factors, whole_p, zero), choose_tail(factors, whole_q, zero)
            e, n = load(by_user, explanation, blocks), load(by_user, negative, blocks)
            d = e - n
            if is_cd:
                r = dot(p * q, d)
                step = rates.step * sigmoid_of_minus(r)
                p = fused(q * d, step, p * rates.user_decay)
                q = fused(p * d, step, q * rates.item_decay)
                toward = p * q
            else:
                f, m = load(by_item, explanation, blocks), load(by_item, negative, blocks)
                c = f - m
                r = dot(p, d) + dot(q, c)
                step = rates.step * sigmoid_of_minus(r)
                p = fused(d, step, p * rates.user_decay)
                q = fused(c, step, q * rates.item_decay)
                toward = p
                store(by_item, explanation, fused(q, step, f * rates.positive_decay))
                store(by_item, negative, fused(q, -step, m * rates.negative_decay))
            store(user_table, user, choose_tail(factors, p, whole_p))
            store(item_table, item, choose_tail(factors, q, whole_q))
            store(by_user, explanation, fused(toward, step, e * rates.positive_decay))
            store(by_user, negative, fused(toward, -step, n * rates.negative_decay))
            updates += 1
            trouble += not abs(r) < LIMIT
    return updates, trouble
