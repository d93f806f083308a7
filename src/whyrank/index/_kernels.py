"""Exact top n of `base[e] + query . key[e]` plus a sparse bonus, over a pool in groups of 32 explanations.

Every group has an upper bound that no score in it exceeds: its highest base, plus upper bounds of the user's and of the
item's part of the query, plus a margin for rounding. The group with the highest bound is scored first, then all whose
bound reaches the n-th best score found so far.

Only base + `dot` (+ bonus) in float32 is ever compared with another score. Whatever else is computed here is at least
as high: margins are larger than the rounding errors of both ways to add up the products.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.index._heap import empty_into, entry_of, offer, score_of
from whyrank.simd import BLOCK, dot, fetch_row, highest_sum, lowest_bit, reaching, sum_products

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]
Longs = NDArray[np.int64]

LOWEST = np.float32(-3e38)  # below every score, and above what may not be ranked
TINY = 1e-33  # above the sum of all products that are too small for float32


class Keys(NamedTuple):
    """What scores are made of, by explanation."""

    rows: Floats  # padded with zeros to a multiple of 8 columns
    ranks: Numbers  # who wins among equals: the lower
    by_rank: Numbers
    columns: int  # of queries that are multiplied with keys
    split: int  # columns before it are the user's part, the others the item's


class Groups(NamedTuple):
    """The pool in the order in which it is searched; `explanations` are -1 where the last group is not full."""

    explanations: Numbers
    keys: NDArray[np.float32]  # group x column x 32
    leaders: Numbers  # the lowest rank of each group
    norms: Floats  # part x group: the largest norm in the columns of the user's and of the item's part


class Base(NamedTuple):
    """What scores begin from; -inf: not ranked."""

    values: Floats  # by explanation
    starts: Floats  # by position in groups
    tops: Floats  # the highest of each group


class Batch(NamedTuple):
    """Queries, which `rows` of them are to be answered, and what belongs to each."""

    queries: Floats
    rows: Longs
    norms: Floats  # row x part, rounded up
    margins: Floats  # what makes a sum of products at least as high as the score's
    slots: Numbers  # part x row: where the part's upper bounds are; -1: its norm serves
    bonus: tuple[Longs, Numbers, Floats]


class Lists(NamedTuple):
    """The answer: a row for each query, best first, -inf and -1 where there are fewer."""

    scores: Floats
    numbers: Numbers


class PartBounds(NamedTuple):
    """Upper bounds of users' or of items' parts of queries."""

    slot_of: Numbers  # by user or item number; -1: none
    uses: Numbers  # by user or item number
    parts: Floats  # by slot: what the bounds were computed from
    bounds: Floats  # slot x group


@kernel
def measure(
    queries: Floats, columns: int, split: int, rounding: float, norms: Floats, margins: Floats
) -> tuple[bool, float]:
    """Write norms and margins of queries (NaN: not finite).

    Returns whether all agree from `columns` on, and the largest norm of a part; NaN: some query is not finite.
    """
    same, largest = True, 0.0
    for row in range(len(queries)):
        whole, broken = 0.0, 0.0
        for part in range(2):
            first, last, total = part * split, columns if part else split, 0.0
            for j in range(first, last):
                total += np.float64(queries[row, j]) ** 2
            norms[row, part] = np.sqrt(total) * (1.0 + 1e-6)
            largest = max(largest, np.float64(norms[row, part]))
            whole += total
        for j in range(columns, queries.shape[1]):
            same = same and queries[row, j] == queries[0, j]
            broken += queries[row, j] - queries[row, j]
        margins[row] = np.sqrt(whole) * rounding + (TINY if whole > 0.0 else 0.0) + (whole - whole) + broken
    for row in range(len(queries)):
        if margins[row] != margins[row]:
            largest = np.nan
    return same, largest


@kernel
def rising(indptr: Longs, values: Numbers, limit: int) -> bool:
    """Tell whether rows follow each other, and whether each rises strictly within 0..limit-1."""
    if indptr[0] != 0 or indptr[-1] != len(values):
        return False
    for row in range(len(indptr) - 1):
        if indptr[row + 1] < indptr[row] or indptr[row + 1] > len(values):
            return False
        last = -1
        for at in range(indptr[row], indptr[row + 1]):
            if values[at] <= last or values[at] >= limit:
                return False
            last = values[at]
    return True


@kernel
def largest_value(values: Floats) -> float:
    """Return the largest of some numbers, 0 if there are none; NaN if one is below 0 or not finite."""
    largest = 0.0
    for value in values:
        if not (value >= 0 and value < np.inf):
            return np.nan
        largest = max(largest, np.float64(value))
    return largest


@inlined
def find(values: Numbers, low: int, high: int, value: int) -> int:
    """Return the position of a value in a sorted stretch, -1 if it is not there."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low if low < end and values[low] == value else -1


@inlined
def _add_bounds(bounds: Floats, slot: int, norm: np.float32, norms: Floats, part: int, sums: Floats) -> None:
    """Add the upper bounds of one part of a query to those of all groups."""
    if slot >= 0:
        for group in range(norms.shape[1]):
            sums[group] += bounds[slot, group]
    else:
        for group in range(norms.shape[1]):
            sums[group] += norm * norms[part, group]


@inlined
def _highest_group(sums: Floats, floor: np.float32, groups: Numbers) -> int:
    """List the group whose bound is highest, if it reaches a score; return how many that are."""
    count, limit = 0, floor
    for start in range(0, len(sums), BLOCK):
        mask = reaching(sums, start, limit)
        while mask != 0:
            group = start + lowest_bit(mask)
            mask &= mask - np.uint32(1)
            if count == 0 or sums[group] > limit:
                groups[0], limit, count = group, sums[group], 1
    return count


@inlined
def _groups_reaching(sums: Floats, floor: np.float32, groups: Numbers) -> int:
    """List all groups whose bounds reach a score; return how many there are."""
    count = 0
    for start in range(0, len(sums), BLOCK):
        mask = reaching(sums, start, floor)
        while mask != 0:
            groups[count] = start + lowest_bit(mask)
            mask &= mask - np.uint32(1)
            count += 1
    return count


@kernel
def search(
    pool: Keys, groups: Groups, base: Base, batch: Batch, bounds: tuple[Floats, Floats], lists: Lists, first: int,
    last: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill the lists of the batch's rows first..last from the whole pool.

    `bounds` are the upper bounds of users' and items' parts, by slot. Returns how many queries have bounds of both
    parts, how many groups were scored for these, and for the others.
    """
    # Taken apart once: handing on a tuple of arrays costs a count of references for each of them.
    keys, ranks, by_rank, columns, _ = pool
    explanations, grouped, leaders, group_norms = groups
    values, starts, tops = base
    queries, rows, norms, margins, slots, (indptr, bonus, added) = batch
    users, items = bounds
    width, known, for_known, for_others = keys.shape[1], 0, 0, 0
    heap, query = np.zeros(lists.scores.shape[1], np.uint64), np.zeros(width, np.float32)
    sums = np.full(-(-len(tops) // BLOCK) * BLOCK, np.float32(-np.inf))
    todo, ratings = np.empty(len(tops), np.int32), np.empty(BLOCK, np.float32)
    for place in range(first, last):
        row, visited = rows[place], 0
        low, high, limit, margin = indptr[row], indptr[row + 1], LOWEST, margins[row]
        if place + 1 < last:  # what the next query needs is on its way meanwhile
            fetch_row(users, slots[0, rows[place + 1]])
            fetch_row(items, slots[1, rows[place + 1]])
        for j in range(columns):
            query[j] = queries[row, j]
        for at in range(low, high):
            e = bonus[at]
            score = values[e] + dot(query, 0, keys, e * width, width) + added[at]
            if score >= limit:
                offer(heap, entry_of(score, ranks[e]))
        for group in range(len(tops)):
            sums[group] = margin
        _add_bounds(users, slots[0, row], norms[row, 0], group_norms, 0, sums)
        _add_bounds(items, slots[1, row], norms[row, 1], group_norms, 1, sums)
        for group in range(len(tops)):
            sums[group] += tops[group]
        for turn in range(2):
            if heap[0]:
                limit = max(limit, score_of(heap[0]))
            if turn == 0:
                count = _highest_group(sums, limit, todo)
            else:
                count = _groups_reaching(sums, limit, todo)
            for at in range(count):
                group = todo[at]
                if sums[group] < limit or (sums[group] == limit and heap[0] > entry_of(limit, leaders[group])):
                    continue
                sum_products(grouped, group * columns * BLOCK, columns, query, margin, ratings)
                for lane in range(BLOCK):
                    ratings[lane] += starts[group * BLOCK + lane]
                mask = reaching(ratings, 0, limit)
                while mask != 0:
                    e = explanations[group * BLOCK + lowest_bit(mask)]
                    mask &= mask - np.uint32(1)
                    score = values[e] + dot(query, 0, keys, e * width, width)
                    if score >= limit and (low == high or find(bonus, low, high, e) < 0):
                        offer(heap, entry_of(score, ranks[e]))
                if heap[0]:
                    limit = max(limit, score_of(heap[0]))
                sums[group] = -np.inf
                visited += 1
        empty_into(heap, by_rank, lists.scores, lists.numbers, row)
        if slots[0, row] >= 0 and slots[1, row] >= 0:
            known, for_known = known + 1, for_known + visited
        else:
            for_others += visited
    return known, for_known, for_others


@kernel
def scores_of(pool: Keys, values: Floats, queries: Floats, given: Numbers) -> Floats:
    """Return the scores of the explanations given for each query (queries x k), with the bits of the search."""
    keys, width = pool.rows, pool.rows.shape[1]
    query, scores = np.zeros(width, np.float32), np.empty(given.shape, np.float32)
    for row in range(len(queries)):
        for j in range(pool.columns):
            query[j] = queries[row, j]
        for at in range(given.shape[1]):
            e = given[row, at]
            scores[row, at] = values[e] + dot(query, 0, keys, e * width, width)
    return scores


@kernel
def highest_bounds(norms: Floats, margins: Floats, tops: Floats, group_norms: Floats) -> Floats:
    """Return for each query what no score exceeds, from norms alone."""
    result = np.full(len(norms), np.float32(-np.inf))
    for row in range(len(norms)):
        for group in range(len(tops)):
            reach = margins[row] + norms[row, 0] * group_norms[0, group] + norms[row, 1] * group_norms[1, group]
            result[row] = max(result[row], reach + tops[group])
    return result


@kernel
def look_up(
    side: PartBounds, numbers: Numbers, queries: Floats, rows: Longs, column: int, often: float, count: int,
    slots: Numbers,
) -> int:  # fmt: skip
    """Write the slot of each row's part, which begins at a column; parts that came `often` get the next slots.

    A user or item whose part has changed is counted anew. Returns how many slots are taken; there must be room.
    """
    slot_of, uses, parts, _ = side
    for row in rows:
        if numbers[row] >= 0:
            uses[numbers[row]] += 1
    for row in rows:
        number, slots[row] = numbers[row], -1
        if number < 0 or uses[number] < often:
            continue
        if slot_of[number] < 0:
            slot_of[number] = count
            for j in range(parts.shape[1]):
                parts[count, j] = queries[row, column + j]
            count += 1
        slot, differs = slot_of[number], False
        for j in range(parts.shape[1]):
            differs |= parts[slot, j] != queries[row, column + j]
        if differs:
            slot_of[number], uses[number] = -1, 0
        else:
            slots[row] = slot
    return count


@kernel
def compute_bounds(
    keys: NDArray[np.float32], column: int, parts: Floats, bounds: Floats, begin: int, first: int, last: int
) -> None:
    """Write the upper bounds of slots begin+first..begin+last: in each group the highest sum of products."""
    columns, width = keys.shape[1], parts.shape[1]
    for slot in range(begin + first, begin + last):
        for group in range(bounds.shape[1]):
            at = (group * columns + column) * BLOCK
            bounds[slot, group] = highest_sum(keys, at, width, parts, slot * width)
