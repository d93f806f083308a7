"""The best of what is backed about an item, chosen for a list: one call for what would take five."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.index._backing import backed_of, fits
from whyrank.index._heap import entry_of, offer, settle
from whyrank.index._topn import find, take
from whyrank.simd import dot

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]
Longs = NDArray[np.int64]
MORE = 4  # times as many are looked at where lists are not full


@kernel
def grounded_lists(
    keys: Floats, shape: Longs, base: Floats, ranks: Numbers, by_rank: Numbers, queries: Floats, largest: float,
    rows: Longs, bonus_indptr: Longs, bonus: Numbers, values: Floats, items: Numbers, indptr: Longs, indices: Numbers,
    supporting: Numbers, opposing: Numbers, standing: Floats, backing: float, support: int,
    distinctive: float, allowed: NDArray[np.bool_], groups: Numbers, signs: NDArray[np.int8], per_aspect: int,
    consistent: bool, wanted: int,
    scores: Floats, numbers: Numbers, first: int, last: int,
) -> bool:  # fmt: skip
    """Lists for `rows` first..last: `backed`, `search_given` for the `wanted` best (then for more, while lists are not
    full), and `first_of_aspects`, with the same results. Without a bonus, `bonus_indptr` is empty.

    Returns whether queries and bonuses are finite, no larger than `largest`, and bonuses in order; otherwise lists are
    not to be used.
    """
    n, room, pool = scores.shape[1], 0, len(base)
    for place in range(first, last):
        item = items[rows[place]]
        room = max(room, indptr[item + 1] - indptr[item] if item >= 0 else 0)
    found, entries = np.empty(room, np.int32), np.empty(room, np.uint64)
    query, sizes = np.zeros((1, keys.shape[1]), np.float32), np.zeros(1, np.int64)
    best, best_scores = np.empty((1, wanted), np.int32), np.empty((1, wanted), np.float32)
    heap = np.zeros((1, wanted), np.uint64)
    for place in range(first, last):
        row = rows[place]
        low = int(bonus_indptr[row]) if len(bonus_indptr) else 0
        high = int(bonus_indptr[row + 1]) if len(bonus_indptr) else 0
        norm, before = 0.0, -1
        for j in range(queries.shape[1]):
            norm += np.float64(queries[row, j]) ** 2
        for at in range(low, high):
            if not (before < bonus[at] < pool and 0 <= values[at] <= largest):
                return False
            before = bonus[at]
        if not np.sqrt(norm) <= largest:
            return False
        count = 0
        if items[row] >= 0:
            count = backed_of(
                items[row], indptr, indices, supporting, opposing, standing, backing, support, distinctive, allowed,
                found, 0,
            )  # fmt: skip
        take(queries, row, shape, query, 0)
        known = 0
        for at in range(count):
            e = found[at]
            score = base[e] + dot(query, 0, keys, e * keys.shape[1], keys.shape[1])
            added = find(bonus, low, high, e)
            if added >= 0:
                score += values[added]
            if score > -np.inf:
                entries[known] = entry_of(score, ranks[e])
                known += 1
        taken = 0
        while True:
            sizes[0], heap[0], looked = 0, 0, heap.shape[1]
            for at in range(known):
                offer(heap, sizes, 0, entries[at])
            settle(heap, sizes, 0, by_rank, best_scores, best, 0)
            taken = 0
            for at in range(min(known, looked)):
                if taken == n:
                    break
                if fits(numbers[row], taken, best[0, at], groups, signs, per_aspect, consistent):
                    numbers[row, taken], scores[row, taken] = best[0, at], best_scores[0, at]
                    taken += 1
            if taken == n or known <= looked:
                break
            looked = min(MORE * looked, known)
            best, best_scores = np.empty((1, looked), np.int32), np.empty((1, looked), np.float32)
            heap = np.empty((1, looked), np.uint64)
        for at in range(taken, n):
            numbers[row, at], scores[row, at] = -1, -np.inf
    return True
