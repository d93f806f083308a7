"""The best of what is backed about an item, chosen for a list: one call for what would take five."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.index._backing import backed_of, fits
from whyrank.index._heap import empty_into, entry_of, offer
from whyrank.index._kernels import Batch, Keys, Lists, find
from whyrank.simd import dot

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]
Longs = NDArray[np.int64]
FIRST, MORE = 4, 4  # times as many as a list takes are looked at first, and then while it is not full


class Backed(NamedTuple):
    """What people say about items, which of it is backed, and what a list takes of it, as kernels take it."""

    indptr: Longs
    explanations: Numbers
    supporting: Numbers
    opposing: Numbers
    standing: Floats
    worth: Floats  # what is added to scores, -inf: never shown; empty: nothing at all
    backing: float
    support: int
    distinctive: float
    allowed: NDArray[np.bool_]  # empty: every one
    groups: Numbers
    signs: NDArray[np.int8]
    per_aspect: int
    consistent: bool


@kernel
def grounded_lists(
    pool: Keys, values: Floats, batch: Batch, asked: tuple[Numbers, Floats], rules: Backed, lists: Lists, first: int,
    last: int,
) -> None:  # fmt: skip
    """Fill the lists of the batch's rows first..last with what is backed about the item of each and fits a list.

    `asked` are the items, and what is added to scores (may be empty).
    """
    keys, ranks, by_rank, columns, _ = pool
    queries, rows, _, _, _, _, (bonus_indptr, bonus, added) = batch
    items, boost = asked
    indptr, indices, supporting, opposing, standing, worth, backing, support, distinctive, allowed = rules[:10]
    groups, signs, per_aspect, consistent = rules[10:]
    scores, numbers = lists
    n, room, width = scores.shape[1], 0, keys.shape[1]
    for place in range(first, last):
        item = items[rows[place]]
        room = max(room, indptr[item + 1] - indptr[item] if item >= 0 else 0)
    found, entries, query = np.empty(room, np.int64), np.empty(room, np.uint64), np.zeros(width, np.float32)
    for place in range(first, last):
        row, known, taken = rows[place], 0, 0
        low, high, count = bonus_indptr[row], bonus_indptr[row + 1], 0
        if items[row] >= 0:
            count = backed_of(
                items[row], indptr, indices, supporting, opposing, standing, worth, backing, support, distinctive,
                allowed, found, 0,
            )  # fmt: skip
        for j in range(columns):
            query[j] = queries[row, j]
        for at in range(count):
            e = indices[found[at]]
            start = values[e] + boost[e] if len(boost) else values[e]
            score = start + dot(query, 0, keys, e * width, width)
            place_of_bonus = find(bonus, low, high, e)
            if place_of_bonus >= 0:
                score += added[place_of_bonus]
            if len(worth):
                score += worth[found[at]]
            entries[known] = entry_of(score, ranks[e])
            known += 1
        looked = min(FIRST * n, known)
        while taken < n and looked > 0:
            heap = np.zeros(looked, np.uint64)
            best, best_scores = np.empty((1, looked), np.int32), np.empty((1, looked), np.float32)
            for at in range(known):
                offer(heap, entries[at])
            empty_into(heap, by_rank, best_scores, best, 0)
            taken = 0
            for at in range(looked):
                if taken < n and fits(numbers[row], taken, best[0, at], groups, signs, per_aspect, consistent):
                    numbers[row, taken], scores[row, taken] = best[0, at], best_scores[0, at]
                    taken += 1
            if looked == known:
                break
            looked = min(MORE * looked, known)
        for at in range(taken, n):
            numbers[row, at], scores[row, at] = -1, -np.inf
