"""Lists of what people say about an item: which of it may be shown, in which order, and what fits a list."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.index._heap import empty_into, entry_of, offer
from whyrank.index._kernels import Keys, Lists
from whyrank.simd import dot

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]
Longs = NDArray[np.int64]
FIRST, MORE = 4, 4  # times as many as a list takes are looked at first, and then while it is not full


class ListRules(NamedTuple):
    """What a list takes of the explanations that are ranked for it."""

    groups: Numbers  # three rows by explanation: topic, topic as it is counted, sense; -1: none
    signs: NDArray[np.int8]  # by explanation
    per_aspect: int  # the most of one topic, of which none share a sense; 0: any number
    consistent: bool  # whether none says the opposite of one above it about the same topic


class ItemRules(NamedTuple):
    """Which explanations of an item may be ranked. Empty arrays: nothing is known, and nothing is left out for it."""

    indptr: Longs
    explanations: Numbers  # they rise in every row
    supporting: Numbers  # by entry, as the next three
    opposing: Numbers
    standing: Floats  # where the item stands among all, from 0: its people say it most often
    worth: Floats  # what is added to scores, -inf: never ranked
    backing: float  # times as many must support it as oppose it
    support: int  # the fewest people
    distinctive: float  # the largest standing
    allowed: NDArray[np.bool_]  # by explanation


@kernel
def item_lists(
    pool: Keys, values: Floats, queries: Floats, asked: tuple[Longs, Numbers, tuple[Longs, Numbers, Floats], Floats],
    rules: tuple[ItemRules, ListRules], lists: Lists, first: int, last: int,
) -> None:  # fmt: skip
    """Fill the lists of rows first..last with the best of what may be ranked for the item of each.

    `asked` are the rows, the items (-1: none) of all queries, their bonuses, and what is added to all scores (may be
    empty).
    """
    keys, ranks, by_rank, columns, _ = pool
    rows, items, (bonus_indptr, bonus, added), boost = asked
    known_of, limits = rules
    indptr, explanations, supporting, opposing, standing, worth, backing, support, distinctive, allowed = known_of
    scores, numbers = lists
    n, width = scores.shape[1], keys.shape[1]
    room = 0
    for place in range(first, last):
        item = items[rows[place]]
        room = max(room, indptr[item + 1] - indptr[item] if item >= 0 else 0)
    entries, query = np.empty(room, np.uint64), np.zeros(width, np.float32)
    for place in range(first, last):
        row, known, taken = rows[place], 0, 0
        item, given, end = items[row], bonus_indptr[row], bonus_indptr[row + 1]
        for j in range(columns):
            query[j] = queries[row, j]
        for entry in range(indptr[item] if item >= 0 else 0, indptr[item + 1] if item >= 0 else 0):
            e = explanations[entry]
            if (len(allowed) and not allowed[e]) or (len(worth) and worth[entry] == -np.inf):
                continue
            if len(supporting) and (
                supporting[entry] < support
                or supporting[entry] <= backing * opposing[entry]
                or standing[entry] > distinctive
            ):
                continue
            score = values[e] + boost[e] if len(boost) else values[e]
            score = score + dot(query, 0, keys, e * width, width)
            while given < end and bonus[given] < e:
                given += 1
            if given < end and bonus[given] == e:
                score += added[given]
            if len(worth):
                score += worth[entry]
            entries[known] = entry_of(score, ranks[e])
            known += 1
        looked = min(FIRST * n if limits.per_aspect > 0 or limits.consistent else n, known)
        while taken < n and looked > 0:
            heap = np.zeros(looked, np.uint64)
            best, best_scores = np.empty((1, looked), np.int32), np.empty((1, looked), np.float32)
            for at in range(known):
                offer(heap, entries[at])
            empty_into(heap, by_rank, best_scores, best, 0)
            taken = 0
            for at in range(looked):
                if taken < n and fits(numbers[row], taken, best[0, at], limits):
                    numbers[row, taken], scores[row, taken] = best[0, at], best_scores[0, at]
                    taken += 1
            if looked == known:
                break
            looked = min(MORE * looked, known)
        for at in range(taken, n):
            numbers[row, at], scores[row, at] = -1, -np.inf


@kernel
def first_that_fit(ranked: Numbers, ranked_scores: Floats, rules: ListRules, n: int) -> tuple[Numbers, Floats]:
    """Return row by row the first `n` candidates that fit a list."""
    rows, candidates = ranked.shape
    chosen, values = np.full((rows, n), -1, np.int32), np.full((rows, n), -np.inf, np.float32)
    for row in range(rows):
        taken = 0
        for c in range(candidates):
            if taken == n or ranked[row, c] < 0:
                break
            if fits(chosen[row], taken, ranked[row, c], rules):
                chosen[row, taken], values[row, taken] = ranked[row, c], ranked_scores[row, c]
                taken += 1
    return chosen, values


@inlined
def fits(chosen: Numbers, taken: int, candidate: int, rules: ListRules) -> bool:
    """Tell whether a list may have one more: its topic has room, none has its sense, and none says the opposite."""
    groups, signs, per_aspect, consistent = rules
    topic, counted, sense = groups[0, candidate], groups[1, candidate], groups[2, candidate]
    fit, same = True, 0
    for place in range(taken if topic >= 0 else 0):
        other = chosen[place]
        if per_aspect > 0 and sense >= 0 and groups[2, other] == sense:
            fit = False
        if groups[0, other] == topic and consistent and signs[other] * signs[candidate] < 0:
            fit = False
        same += 1 if counted >= 0 and groups[1, other] == counted else 0
    return fit and (topic < 0 or per_aspect == 0 or same < per_aspect)
