"""Ranked lists as columns, and whose part of each score is how large: one call for what would take NumPy ten."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]
Rows = NDArray[np.int64]


@kernel
def listed(numbers: Numbers, scores: Floats, row: Rows, rank: Numbers, found: Numbers, values: Floats) -> int:
    """Row, rank from 1, number and score of everything in lists (a row each) that end with -1; returns how many.

    Into arrays that have room: to hand over an array that a kernel made takes as long as ten that it is given.
    """
    at = 0
    for r in range(numbers.shape[0]):
        for c in range(numbers.shape[1]):
            if numbers[r, c] >= 0:
                row[at], rank[at], found[at], values[at] = r, c + 1, numbers[r, c], scores[r, c]
                at += 1
    return at


@kernel
def first_of_lists(rank: Numbers, own: Numbers, told: Numbers) -> NDArray[np.bool_]:
    """Whether what is told beside each reason (-1: nothing) is no reason's own sense and not told above, in its list.

    Reasons of one list stand together, and ranks rise within it.
    """
    fresh = np.ones(len(rank), np.bool_)
    start = 0
    for at in range(len(rank)):
        if at and rank[at] <= rank[at - 1]:
            start = at
        stop = at + 1
        while stop < len(rank) and rank[stop] > rank[stop - 1]:
            stop += 1
        for other in range(start, stop):
            if told[at] >= 0 and (own[other] == told[at] or (other < at and told[other] == told[at])):
                fresh[at] = False
    return fresh


@kernel
def facts_of_reasons(
    users: Numbers, row: Rows, rank: Numbers, explanations: Numbers, counts: Numbers, entries: Rows, latest: Rows,
    similar: Numbers, detail: Numbers, people: Numbers, senses: Numbers, quote_starts: Rows, quote_users: Numbers,
    often: int, share: float, facts: Numbers,
) -> None:  # fmt: skip
    """Everything that the texts of each reason depend on, as a row of numbers in the order of `reasons.Facts`.

    `detail` and `people` are what is told beside plain praise and blame, by entry (empty: nothing), each sense once a
    list; a user who mentions an aspect of `often` items, and of that `share` of them, mentions it often. Quotes are
    known by their entry, and by the user where some are the user's own.
    """
    told, own = np.full(len(row), -1, np.int32), np.empty(len(row), np.int32)
    for at in range(len(row)):
        own[at] = senses[explanations[at]]
        if len(detail) and entries[at] >= 0 and detail[entries[at]] >= 0:
            told[at] = senses[detail[entries[at]]]
    fresh = first_of_lists(rank, own, told) if len(detail) else np.zeros(len(row), np.bool_)
    for at in range(len(row)):
        entry, user = entries[at], users[row[at]]
        facts[at, 0], facts[at, 1] = explanations[at], rank[at]
        facts[at, 2:6] = counts[2:6, at]
        facts[at, 6] = min(counts[1, at], counts[7, at])  # several records of one item are one item
        facts[at, 7] = counts[6, at]
        facts[at, 8] = counts[6, at] >= max(often, share * counts[7, at])
        tells = fresh[at] and entry >= 0
        facts[at, 9] = detail[entry] if tells else -1
        facts[at, 10] = people[entry] if tells else 0
        facts[at, 11], facts[at, 12] = counts[0, at], counts[1, at]
        facts[at, 13] = similar[at] if len(similar) else -1
        facts[at, 14], facts[at, 15] = latest[at] >> 32, latest[at]
        facts[at, 16:] = -1
        if len(quote_users) and entry >= 0 and quote_starts[entry] < quote_starts[entry + 1]:
            facts[at, 16], facts[at, 17] = entry >> 32, entry
            for place in range(quote_starts[entry], quote_starts[entry + 1]):
                if quote_users[place] == user:
                    facts[at, 18] = user


@kernel
def parts_of(
    queries: Floats, keys: Floats, row: Rows, explanations: Numbers, widths: NDArray[np.int64],
    into: NDArray[np.int64], scores: Floats, parts: Floats, rest: Floats,
) -> bool:  # fmt: skip
    """parts[b, k] = what block b of the columns adds to the dot product of query row[k] and key explanations[k].

    Rows of `parts` after those of the blocks hold other parts. Row b is then added to row `into[b]`, unless that is b
    itself. `rest` is what all of them leave of scores; returns
    whether that is more than rounding.
    """
    largest, most = np.float32(0), np.float32(0)
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
def bonus_parts(
    indptr: NDArray[np.int64], bonus: Numbers, values: Floats, row: Rows, explanations: Numbers, part: Floats
) -> None:
    """part[k] = what a bonus adds to an explanation of a row, 0 where it has none."""
    for at in range(len(row)):
        low, end = indptr[row[at]], indptr[row[at] + 1]
        high = end
        while low < high:
            middle = (low + high) // 2
            if bonus[middle] < explanations[at]:
                low = middle + 1
            else:
                high = middle
        part[at] = values[low] if low < end and bonus[low] == explanations[at] else np.float32(0)
