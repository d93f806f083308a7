"""Exact top n of `base[e] + query . key[e]` over a pool that is laid out in blocks of 32 explanations.

Three sieves, each with a bound that no score can exceed, float rounding included:
1. blocks are walked by falling bound `base + |query| |key|` (a norm per part) until one is below the n-th best, or
   equal to it with nothing that would win a tie;
2. within a block 8-bit codes rate every explanation: its score, off by a known error at most;
3. only what is left gets its float32 score, which is the only thing ever compared with another score.

Ratings are made for several queries at once and for a stretch of blocks before any is looked at. In the first stretch
the n-th best rating so far says how far to go on, and what is rated as high is scored first: the rest of the stretch
and all that follows then meets the score of a real n-th.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.index._heap import FEW, Entries, Sizes, entry_of, offer, offer_all, settle, worst
from whyrank.simd import ABREAST, BLOCK, count_reaching, dot, lowest_bit, raise_peaks, rate, rate_one, reaching

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]

TILE = 16  # queries that walk the blocks side by side, so that blocks are read from memory once
STEP = 8  # blocks that a whole tile walks before the next: few enough to stay in the nearest cache
STRETCH = 64  # blocks rated before any explanation is scored
GLANCE = 4  # blocks rated before the first threshold; then four times as many, and so on
NEVER = 32768  # above every rating
QUERY_CODE, QUERY_OFFSET = 63, 64  # largest code of a query, and what makes it unsigned: 2 x 127 x 127 fits 16 bits


class SearchPool(NamedTuple):
    """What is searched. Blocks hold explanations in `explanations`, -1 where the last block is not full."""

    keys: NDArray[np.float32]  # explanations x width, padded with zeros
    shape: NDArray[np.int64]  # columns of queries that are searched, of the first part, and where the second begins
    base: NDArray[np.float32]  # what the score begins from; -inf: never ranked
    ranks: NDArray[np.int32]  # who wins among equals: the lower
    explanations: NDArray[np.int32]
    leaders: NDArray[np.int32]  # per block: the lowest rank
    codes: NDArray[np.int8]  # block x pair of columns x (explanation, side of the pair)
    scale: float  # key = scale * code, about
    allowances: NDArray[np.float32]  # per block: largest norm of codes, largest norm of what rounding lost
    starts: NDArray[np.int16]  # level x position: base - centre in units of the level's step, rounded up
    steps: NDArray[np.float64]  # per level
    centres: NDArray[np.float64]  # per level
    margins: NDArray[np.float64]  # per level: how far bases were rounded up, and float32 scores may be below, at most
    rounding: float  # times the norm of a query: how far the float32 dot product can be above the true one
    order: NDArray[np.int32]  # cell x block: by falling bound, then by leader
    bounds: NDArray[np.float32]  # cell x block: in that order


class Batch(NamedTuple):
    """What is asked. A job is a cell and a range of `rows`, which numbers the queries cell by cell."""

    queries: NDArray[np.float32]
    rows: NDArray[np.int64]
    jobs: NDArray[np.int64]
    levels: NDArray[np.int64]
    norms: NDArray[np.float64]
    floors: NDArray[np.float32]  # scores below are not wanted
    bonus_indptr: NDArray[np.int64]
    bonus_explanations: NDArray[np.int32]
    bonus_values: NDArray[np.float32]


class Best(NamedTuple):
    """What was found, a row a query, best first."""

    scores: NDArray[np.float32]
    numbers: NDArray[np.int32]
    by_rank: NDArray[np.int32]  # explanations, from who wins every tie to who wins none


@inlined
def find(values: Numbers, low: int, high: int, value: int) -> int:
    """Position of a value in a sorted stretch, -1 if it is not there."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low if low < end and values[low] == value else -1


@inlined
def take(queries: Floats, row: int, shape: NDArray[np.int64], query: Floats, k: int) -> None:
    """Copy a query to where its columns stand against those of the keys."""
    columns, split, second = shape
    for j in range(split):
        query[k, j] = queries[row, j]
    for j in range(columns - split):
        query[k, second + j] = queries[row, split + j]


@inlined
def encode(query: Floats, k: int, scale: float, step: float, codes: Numbers, errors: NDArray[np.float64]) -> None:
    """Write the codes of a query, two columns twice in one int32, and how far its ratings can be off."""
    lost, length, factor = 0.0, 0.0, scale / step
    for pair in range(codes.shape[1]):
        packed = 0
        for side in range(2):
            exact = query[k, 2 * pair + side] * factor
            code = np.rint(min(max(exact, -QUERY_CODE), QUERY_CODE))
            lost += (exact - code) ** 2
            length += exact * exact
            packed |= (int(code) + QUERY_OFFSET) << (8 * side)
        codes[k, pair] = packed | packed << 16
    errors[k, 0] = step * np.sqrt(lost)
    errors[k, 1] = step * np.sqrt(length)


@inlined
def _rate(
    codes: NDArray[np.int8], starts: NDArray[np.int16], order: Numbers, cell: int, begin: int, first: int, last: int,
    query_codes: Numbers, levels: NDArray[np.int64], rows: NDArray[np.int64], count: int, reach: NDArray[np.int64],
    ratings: NDArray[np.int16],
) -> None:  # fmt: skip
    """Rate blocks first..last of a cell's order, of which `begin` is the first in `ratings`, for the queries `rows`.

    Queries are rated abreast, as far as the furthest of them reaches. After the last of `count` there must be more in
    `rows`: queries that may be rated, too.
    """
    for start in range(first, last, STEP):
        for at in range(0, count, ABREAST):
            furthest = 0
            for j in range(ABREAST):
                furthest = max(furthest, reach[rows[at + j]])
            for place in range(start, min(start + STEP, last, furthest)):
                block = order[cell, place]
                if count - at == 1:
                    rate_one(codes, block, 0, query_codes, starts, levels, rows, at, ratings, place - begin)
                else:
                    rate(codes, block, 0, query_codes, starts, levels, rows, at, ratings, place - begin)


@inlined
def nth_rating(ratings: NDArray[np.int16], k: int, first: int, last: int, peaks: NDArray[np.int16], n: int) -> int:
    """About the n-th best rating of a query when blocks first..last come to those that made its peaks so far.

    The peaks of the 32 lanes belong to 32 explanations, so n of them are rated as high. Above 0, or `NEVER`: ratings
    near the lowest start may stand for an explanation that is not allowed, or is far below what its start says.
    """
    for place in range(first, last):
        raise_peaks(ratings, k * ratings.shape[1] + place * BLOCK, peaks, k * BLOCK)
    reached = 0
    for bit in range(14, 5, -1):
        if count_reaching(peaks, k * BLOCK, np.int16(reached | (1 << bit))) >= n:
            reached |= 1 << bit
    return reached if reached > 0 else NEVER


@inlined
def gather(
    ratings: NDArray[np.int16], k: int, order: Numbers, cell: int, first: int, last: int, limit: int, above: int,
    explanations: Numbers, found: Numbers,
) -> int:  # fmt: skip
    """Write to `found` the explanations of blocks first..last that are rated limit..above-1; returns how many."""
    lowest, highest = np.int16(min(max(limit, -32768), 32767)), np.int16(min(above, 32767))
    count, at = 0, k * ratings.shape[1]
    for place in range(first, last):
        mask = reaching(ratings, at + (place - first) * BLOCK, lowest)
        if above < NEVER:
            mask &= ~reaching(ratings, at + (place - first) * BLOCK, highest)
        while mask != 0:
            e = explanations[order[cell, place] * BLOCK + lowest_bit(mask)]
            mask &= mask - np.uint32(1)
            found[count] = e
            count += e >= 0
    return count


@inlined
def _count_reaching(bounds: Floats, cell: int, first: int, last: int, threshold: float) -> int:
    """How many of the falling bounds first..last of a cell reach the threshold; -inf never does."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if bounds[cell, middle] >= threshold and bounds[cell, middle] > -np.inf:
            low = middle + 1
        else:
            high = middle
    return low - first


@inlined
def excluded_of(indptr: NDArray[np.int64], values: Floats, row: int) -> int:
    """How many explanations a query must not have: those with a bonus of -inf, which it has alone if at all.

    Ratings do not know of them, so that many more must be rated as high before the n-th best is sure.
    """
    low, high = indptr[row], indptr[row + 1]
    return high - low if low < high and values[low] == -np.inf else 0


@inlined
def judge(
    keys: Floats, base: Floats, tie_ranks: Numbers, query: Floats, k: int, found: Numbers, count: int,
    entries: Entries, bonus: Numbers, low: int, high: int, floor: float, heap: Entries, sizes: Sizes,
) -> None:  # fmt: skip
    """Score what was found in float32 and keep the best; what has a bonus was kept before. -inf is never kept."""
    width, good = keys.shape[1], 0
    for at in range(count):
        e = found[at]
        score = base[e] + dot(query, k * width, keys, e * width, width)
        entries[good] = entry_of(score, tie_ranks[e])
        good += score >= floor and score > -np.inf and (low == high or find(bonus, low, high, e) < 0)
    offer_all(heap, sizes, k, entries, good)


@inlined
def try_bonuses(
    keys: Floats, base: Floats, tie_ranks: Numbers, query: Floats, k: int, bonus: Numbers, values: Floats, low: int,
    high: int, floor: float, heap: Entries, sizes: Sizes,
) -> None:  # fmt: skip
    """Score what has a bonus before everything else."""
    width = keys.shape[1]
    for at in range(low, high):
        e = bonus[at]
        score = base[e] + dot(query, k * width, keys, e * width, width) + values[at]
        if score >= floor and score > -np.inf:
            offer(heap, sizes, k, entry_of(score, tie_ranks[e]))


@kernel
def search(pool: SearchPool, batch: Batch, best: Best, first_job: int, last_job: int) -> tuple[int, int]:
    """Do some jobs. Returns how many blocks were visited and how many explanations were scored."""
    # Taken apart once: a tuple of arrays handed on costs a count of references for each of them at every call.
    keys, shape, base, tie_ranks, explanations, leaders, codes, scale, allowances, starts = pool[:10]
    steps, centres, margins, rounding, order, bounds = pool[10:]
    queries, rows, jobs, levels, norms, floors, indptr, bonus, values = batch
    scores, numbers, by_rank = best
    width, blocks, n = keys.shape[1], order.shape[1], scores.shape[1]
    visited, scored, tile = 0, 0, min(TILE, len(rows))
    heap, sizes = np.zeros((tile, n), np.uint64), np.zeros(tile, np.int64)
    query, query_codes = np.zeros((tile, width), np.float32), np.empty((tile, codes.shape[1]), np.int32)
    errors, most, peaks = np.empty((tile, 3)), np.empty(2), np.empty((tile, BLOCK), np.int16)
    ratings, nth = np.empty((tile, STRETCH * BLOCK), np.int16), np.empty(tile, np.int64)
    found, entries = np.empty(STRETCH * BLOCK + 1, np.int32), np.empty(STRETCH * BLOCK + 1 + FEW, np.uint64)
    floor, level, reach = np.empty(tile, np.float32), np.empty(tile, np.int64), np.empty(tile, np.int64)
    going, rating = np.empty(tile, np.int64), np.empty(tile + ABREAST, np.int64)
    for job in range(first_job, last_job):
        cell, begin, count = jobs[job, 0], jobs[job, 1], jobs[job, 2] - jobs[job, 1]
        for k in range(count):
            row, going[k], nth[k] = rows[begin + k], k, NEVER
            level[k], floor[k] = levels[row], floors[row]
            take(queries, row, shape, query, k)
            for lane in range(BLOCK):
                peaks[k, lane] = -32768
            encode(query, k, scale, steps[level[k]], query_codes, errors)
            errors[k, 2] = norms[row] * rounding
            low, high = indptr[row], indptr[row + 1]
            if low < high:
                try_bonuses(keys, base, tie_ranks, query, k, bonus, values, low, high, floor[k], heap, sizes)
            scored += high - low
        # Where ratings cannot tell an n-th best, or all they say is known, scores come soon.
        stretch = STRETCH if n <= BLOCK and norms[rows[begin]] > 0.0 else STEP
        left, start, stop = count, 0, min(stretch, blocks)
        while left > 0 and start < blocks:
            rated, most[0], most[1] = start, 0.0, 0.0
            for at in range(left):
                k = going[at]
                if sizes[k] == n:
                    lowest, tie = worst(heap, k)
                    floor[k] = max(floor[k], lowest)
                reach[k] = start + _count_reaching(bounds, cell, start, stop, floor[k])
                if sizes[k] == n and bounds[cell, start] == lowest and tie < leaders[order[cell, start]]:
                    reach[k] = start  # every tie would be lost, here and in all later blocks
            while True:
                further, furthest = 0, rated
                for at in range(left):
                    rating[further] = going[at]
                    further += reach[going[at]] > rated
                    furthest = max(furthest, reach[going[at]])
                if further == 0:
                    break
                rating[further : further + ABREAST] = rating[further - 1]
                ahead = min(furthest, max(GLANCE, 4 * rated)) if start == 0 else furthest
                for place in range(rated, ahead):
                    block = order[cell, place]
                    most[0], most[1] = max(most[0], allowances[block, 0]), max(most[1], allowances[block, 1])
                _rate(
                    codes, starts, order, cell, start, rated, ahead, query_codes, level, rating, further, reach, ratings
                )
                for at in range(further if start == 0 and n <= BLOCK else 0):
                    k = rating[at]
                    count_of_best = n + excluded_of(indptr, values, rows[begin + k])
                    nth[k] = nth_rating(ratings, k, rated, min(ahead, reach[k]), peaks, count_of_best)
                    if nth[k] < NEVER:
                        # One step for the rounding up of the start.
                        error = errors[k, 0] * most[0] + errors[k, 1] * most[1] + 2.0 * errors[k, 2]
                        sure = centres[level[k]] - margins[level[k]] + (nth[k] - 1.01) * steps[level[k]] - error
                        floor[k] = max(floor[k], np.float32(sure - abs(sure) * 2.0**-22))
                        reach[k] = _count_reaching(bounds, cell, 0, stop, floor[k])
                rated = ahead
            still = 0
            for at in range(left):
                k = going[at]
                low, high, above = indptr[rows[begin + k]], indptr[rows[begin + k] + 1], NEVER
                for part in range(0 if nth[k] < NEVER else 1, 2):
                    limit = nth[k]
                    if part == 1:
                        error = errors[k, 0] * most[0] + errors[k, 1] * most[1] + errors[k, 2]
                        lowest_rating = np.floor((floor[k] - centres[level[k]] - error) / steps[level[k]] - 0.01)
                        limit = int(min(max(lowest_rating, -32768.0), 32767.0))
                    kept = gather(ratings, k, order, cell, start, reach[k], limit, above, explanations, found)
                    judge(
                        keys, base, tie_ranks, query, k, found, kept, entries, bonus, low, high, floor[k], heap, sizes
                    )  # fmt: skip
                    if sizes[k] == n:
                        floor[k] = max(floor[k], worst(heap, k)[0])
                    scored, above = scored + kept, nth[k]
                visited, nth[k], going[still] = visited + reach[k] - start, NEVER, k
                still += reach[k] == stop
            left, start, stop = still, stop, min(stop + stretch, blocks)
        for k in range(count):
            settle(heap, sizes, k, by_rank, scores, numbers, rows[begin + k])
    return visited, scored


@kernel
def search_given(
    keys: Floats, shape: NDArray[np.int64], base: Floats, ranks: Numbers, by_rank: Numbers, queries: Floats,
    rows: NDArray[np.int64], floors: Floats, indptr: NDArray[np.int64], bonus: Numbers, values: Floats,
    starts: NDArray[np.int64], stops: NDArray[np.int64], given: Numbers, scores: Floats, numbers: Numbers,
    first: int, last: int,
) -> None:  # fmt: skip
    """Rank for `rows` first..last only the explanations given for each; a bonus counts for those given.

    Without floors and without a bonus, `floors` and `indptr` are empty.
    """
    width, n = keys.shape[1], scores.shape[1]
    query, heap, sizes = np.zeros((1, width), np.float32), np.zeros((1, n), np.uint64), np.zeros(1, np.int64)
    for place in range(first, last):
        row = rows[place]
        take(queries, row, shape, query, 0)
        low = int(indptr[row]) if len(indptr) else 0
        high = int(indptr[row + 1]) if len(indptr) else 0
        floor = floors[row] if len(floors) else np.float32(-np.inf)
        for at in range(starts[row], stops[row]):
            e = given[at]
            score = base[e] + dot(query, 0, keys, e * width, width)
            found = find(bonus, low, high, e)
            if found >= 0:
                score += values[found]
            if score >= floor and score > -np.inf:
                offer(heap, sizes, 0, entry_of(score, ranks[e]))
        settle(heap, sizes, 0, by_rank, scores, numbers, row)


@kernel
def score_given(queries: Floats, keys: Floats, shape: NDArray[np.int64], base: Floats, given: Numbers) -> Floats:
    """Scores of the explanations given for each query (queries x k), bit for bit as the search has them."""
    width = keys.shape[1]
    query, scores = np.zeros((1, width), np.float32), np.empty(given.shape, np.float32)
    for row in range(len(queries)):
        take(queries, row, shape, query, 0)
        for at in range(given.shape[1]):
            e = given[row, at]
            scores[row, at] = base[e] + dot(query, 0, keys, e * width, width)
    return scores
