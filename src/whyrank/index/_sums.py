"""Exact top n where the queries have two parts whose ceilings are known (see `ceilings`).

No score in a group is above its highest base plus the ceilings of both parts. The groups where this sum is highest are
looked at first; few of the others reach the n-th best that is found there.
"""

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.index._heap import FEW, settle, worst
from whyrank.index._topn import (
    NEVER,
    Batch,
    Best,
    SearchPool,
    encode,
    excluded_of,
    gather,
    judge,
    nth_rating,
    take,
    try_bonuses,
)
from whyrank.simd import BLOCK, GROUP, fetch_row, lowest_bit, rate_group, reaching

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]

SEEDS = 6  # blocks that are looked at first, more if they hold fewer than twice n explanations
ROOM = 8  # blocks that are looked at before the n-th best is asked again
LOWEST = np.float32(-3e38)  # below every sum but that of groups where nothing is allowed


@inlined
def _add_up(tops: Floats, one: Floats, a: int, other: Floats, b: int, sums: Floats) -> None:
    """Write what no score of each group is above."""
    for group in range(len(tops)):
        sums[group] = tops[group] + (one[a, group] + other[b, group])


@inlined
def _pick(sums: Floats, least: np.float32, highest: Floats, groups: Numbers) -> int:
    """Take the groups with the highest sums, `least` or more, out of all; returns how many."""
    room, count, limit = len(groups), 0, least
    for at in range(0, len(sums), BLOCK):
        mask = reaching(sums, at, limit)
        while mask != 0:
            group = at + lowest_bit(mask)
            mask &= mask - np.uint32(1)
            if sums[group] < limit:
                continue
            place = min(count, room - 1)
            while place > 0 and highest[place - 1] < sums[group]:
                highest[place], groups[place] = highest[place - 1], groups[place - 1]
                place -= 1
            highest[place], groups[place] = sums[group], group
            count = min(count + 1, room)
            if count == room:
                limit = highest[room - 1]
    for place in range(count):
        sums[groups[place]] = -np.inf
    return count


@inlined
def _list(group: int, span: int, blocks: Numbers, count: int) -> int:
    """Append the blocks of a group; returns how many there are then."""
    for block in range(group * span, (group + 1) * span):
        blocks[0, count] = block
        count += 1
    return count


@kernel
def search_sums(
    pool: SearchPool, batch: Batch, best: Best, tops: Floats, one: Floats, other: Floats, slots: Numbers, first: int,
    last: int,
) -> tuple[int, int]:  # fmt: skip
    """Search for rows first..last. Returns how many blocks were visited and how many explanations were scored."""
    # Taken apart once, as in `search`.
    keys, shape, base, tie_ranks, explanations = pool.keys, pool.shape, pool.base, pool.ranks, pool.explanations
    codes, allowances, starts = pool.codes, pool.allowances, pool.starts
    queries, rows, levels, floors = batch.queries, batch.rows, batch.levels, batch.floors
    indptr, bonus, values = batch.bonus_indptr, batch.bonus_explanations, batch.bonus_values
    width, n, span, visited, scored = keys.shape[1], best.scores.shape[1], len(codes) // len(tops), 0, 0
    seeds = -(-max(SEEDS, -(-2 * n // BLOCK)) // span)
    room = max(seeds * span, ROOM)
    heap, sizes = np.zeros((1, n), np.uint64), np.zeros(1, np.int64)
    query, query_codes = np.zeros((1, width), np.float32), np.empty((1, codes.shape[1]), np.int32)
    errors, peaks = np.empty((1, 3)), np.empty((1, BLOCK), np.int16)
    level, alone = np.empty(1, np.int64), np.zeros(1, np.int64)
    ratings, found = np.empty((1, room * BLOCK), np.int16), np.empty(room * BLOCK + 1, np.int32)
    entries, looked = np.empty(room * BLOCK + 1 + FEW, np.uint64), np.empty((1, room), np.int32)
    sums = np.full(-(-len(tops) // BLOCK) * BLOCK, np.float32(-np.inf))
    highest, picked = np.empty(seeds, np.float32), np.empty(seeds, np.int32)
    for place in range(first, last):
        row = rows[place]
        if place + 1 < last:
            fetch_row(one, slots[rows[place + 1], 0])
            fetch_row(other, slots[rows[place + 1], 1])
        floor, level[0], low, high = floors[row], levels[row], indptr[row], indptr[row + 1]
        step, centre = pool.steps[level[0]], pool.centres[level[0]]
        take(queries, row, shape, query, 0)
        encode(query, 0, pool.scale, step, query_codes, errors)
        errors[0, 2] = batch.norms[row] * pool.rounding
        if low < high:
            try_bonuses(keys, base, tie_ranks, query, 0, bonus, values, low, high, floor, heap, sizes)
            scored += high - low
            if sizes[0] == n:
                floor = max(floor, worst(heap, 0)[0])
        _add_up(tops, one, slots[row, 0], other, slots[row, 1], sums)
        at, mask, begun = 0, np.uint32(0), False
        while True:
            # Sums and scores are both a little off; nothing is looked at twice, nor where nothing is allowed.
            limit, count = LOWEST, 0
            if floor > LOWEST:
                limit = max(np.float32(floor - 2.0 * errors[0, 2] - abs(floor) * 2.0**-20), LOWEST)
            if not begun:
                for k in range(_pick(sums, limit, highest, picked)):
                    count = _list(picked[k], span, looked, count)
            else:
                while count + span <= room and (mask != 0 or at < len(sums)):
                    if mask == 0:
                        mask = reaching(sums, at, limit)
                        at += BLOCK
                        continue
                    group = at - BLOCK + lowest_bit(mask)
                    mask &= mask - np.uint32(1)
                    if sums[group] >= limit:
                        count = _list(group, span, looked, count)
            if count == 0:
                break
            norm, gap, nth, above = np.float32(0), np.float32(0), NEVER, NEVER
            for k in range(count):
                norm = max(norm, allowances[looked[0, k], 0])
                gap = max(gap, allowances[looked[0, k], 1])
            for k in range(0, count, GROUP):
                rate_group(codes, looked[0, k], 0, query_codes, starts, level, alone, 0, ratings, k)
            if not begun and n <= BLOCK:
                for lane in range(BLOCK):
                    peaks[0, lane] = -32768
                nth = nth_rating(ratings, 0, 0, count, peaks, n + excluded_of(indptr, values, row))
            error = errors[0, 0] * norm + errors[0, 1] * gap + errors[0, 2]
            for part in range(0 if nth < NEVER else 1, 2):
                lowest = nth
                if part == 1:
                    lowest = int(min(max(np.floor((floor - centre - error) / step - 0.01), -32768.0), 32767.0))
                kept = gather(ratings, 0, looked, 0, 0, count, lowest, above, explanations, found)
                judge(keys, base, tie_ranks, query, 0, found, kept, entries, bonus, low, high, floor, heap, sizes)
                if sizes[0] == n:
                    floor = max(floor, worst(heap, 0)[0])
                scored, above = scored + kept, nth
            visited, begun = visited + count, True
        settle(heap, sizes, 0, best.by_rank, best.scores, best.numbers, row)
    return visited, scored
