"""Exact top n of `base[e] + query . key[e]` over a pool that is laid out in blocks of 32 explanations.

Three sieves, each with a bound that no score can exceed, float rounding included:
1. blocks are walked by falling bound `base + |query| |key|` (a norm per part) until one is below the n-th best, or
   equal to it with nothing that would win a tie;
2. within a block 8-bit codes give every explanation a score that is too high by a known error at most;
3. only what is left gets its float32 score, which is the only thing ever compared with another score.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels import inlined, kernel
from whyrank.kernels.heap import Entries, Sizes, offer, settle, worst
from whyrank.kernels.lanes import BLOCK, count_reaching, dot, lowest_bit, passing, raise_peaks

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]

TILE = 16  # queries that walk the blocks side by side, so that blocks are read from memory once
STEP = 8  # blocks between two looks at the threshold: few enough to stay in the nearest cache for a whole tile
GLANCE = 4  # blocks looked at for a first threshold
SAMPLE = 8  # one in so many of the blocks ahead is looked at for it
QUERY_CODE = 63  # largest code of a query: 2 x 255 x 63 fits the 16 bits of a pair


class Pool(NamedTuple):
    """What is searched. Blocks hold explanations in `explanations`, -1 where the last block is not full."""

    keys: NDArray[np.float32]  # explanations x width, padded with zeros
    base: NDArray[np.float32]  # what the score begins from; -inf: never ranked
    ranks: NDArray[np.int32]  # who wins among equals: the lower
    explanations: NDArray[np.int32]
    leaders: NDArray[np.int32]  # per block: the lowest rank
    codes: NDArray[np.uint8]  # block x pair of columns x (explanation, side of the pair)
    scale: float  # key = scale * (code - 128), about
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
    ranks: NDArray[np.int32]


@inlined
def _find(values: Numbers, low: int, high: int, value: int) -> int:
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
def _encode(
    query: Floats, k: int, scale: float, step: float, codes: NDArray[np.int16], errors: NDArray[np.float64]
) -> int:
    """Write the codes of a query, two columns in one int16, and how far a score by codes can be off.

    Returns what the unsigned codes of the keys add to every score: 128 times the sum of the query's codes.
    """
    lost, length, total, factor = 0.0, 0.0, 0, scale / step
    for pair in range(codes.shape[1] // 16):
        packed = 0
        for side in range(2):
            exact = query[k, 2 * pair + side] * factor
            code = int(np.rint(min(max(exact, -QUERY_CODE), QUERY_CODE)))
            lost += (exact - code) ** 2
            length += exact * exact
            total += code
            packed |= (code & 255) << (8 * side)
        for lane in range(16):
            codes[k, 16 * pair + lane] = np.int16(packed)
    errors[k, 0] = step * np.sqrt(lost)
    errors[k, 1] = step * np.sqrt(length)
    return 128 * total


@inlined
def _sieve(
    codes: NDArray[np.uint8], starts: NDArray[np.int16], level: int, order: Numbers, cell: int, first: int, last: int,
    query_codes: NDArray[np.int8], k: int, shift: int, allowances: Floats, errors: NDArray[np.float64],
    threshold: float, step: float, explanations: Numbers, found: Numbers,
) -> int:  # fmt: skip
    """Write to `found` what could reach the threshold in blocks first..last of a cell's order; returns how many."""
    count, pairs, inverse, small = 0, codes.shape[1], 1.0 / step, np.int16(shift)
    for place in range(first, last):
        block = order[cell, place]
        error = errors[k, 0] * allowances[block, 0] + errors[k, 1] * allowances[block, 1] + errors[k, 2]
        limit = np.floor((threshold - error) * inverse - 0.01)
        if limit > 32767.0:
            continue
        limit = np.int16(max(limit, -32768.0))
        mask = passing(codes, block, query_codes, k, starts, level, pairs, small, limit)
        while mask != 0:
            e = explanations[block * BLOCK + lowest_bit(mask)]
            mask &= mask - np.uint32(1)
            found[count] = e
            count += e >= 0
    return count


@inlined
def _reached(peaks: NDArray[np.int16], n: int) -> int:
    """The largest number from 0 on that at least n peaks reach, 0 also if there is none: bit by bit."""
    reached = 0
    for bit in range(14, -1, -1):
        if count_reaching(peaks, np.int16(reached | (1 << bit))) >= n:
            reached |= 1 << bit
    return reached


@inlined
def _look_ahead(
    codes: NDArray[np.uint8], starts: NDArray[np.int16], level: int, order: Numbers, cell: int, first: int, last: int,
    query_codes: NDArray[np.int8], k: int, shift: int, allowances: Floats, errors: NDArray[np.float64],
    step: float, n: int, peaks: NDArray[np.int16],
) -> float:  # fmt: skip
    """A score above the level's centre that n explanations of blocks first..last reach, -inf if none is sure.

    The peaks of the 32 lanes belong to 32 explanations, so the n-th highest less the largest error will do. Peaks
    near the lowest start may stand for an explanation that is not allowed, or is far below what its start says.
    """
    error, pairs, small = 0.0, codes.shape[1], np.int16(shift)
    for lane in range(BLOCK):
        peaks[lane] = -32768
    for place in range(first, last):
        block = order[cell, place]
        error = max(error, errors[k, 0] * allowances[block, 0] + errors[k, 1] * allowances[block, 1])
        raise_peaks(codes, block, query_codes, k, starts, level, pairs, small, peaks)
    nth = _reached(peaks, n)
    # Less one step for the rounding up of the start.
    return (nth - 1.01) * step - error - 2.0 * errors[k, 2] if nth > 0 else -np.inf


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
def _judge(
    keys: Floats, base: Floats, tie_ranks: Numbers, query: Floats, k: int, found: Numbers, count: int,
    values: Floats, bonus: Numbers, low: int, high: int, floor: float, heap: Entries, sizes: Sizes,
) -> None:  # fmt: skip
    """Score what was found in float32 and keep the best; what has a bonus was kept before."""
    width = keys.shape[1]
    for at in range(count):
        e = found[at]
        values[at] = base[e] + dot(query, k * width, keys, e * width, width)
    for at in range(count):
        if values[at] >= floor and (low == high or _find(bonus, low, high, found[at]) < 0):
            offer(heap, sizes, k, values[at], tie_ranks[found[at]])


@inlined
def _first_floor(
    codes: NDArray[np.uint8], starts: NDArray[np.int16], level: int, order: Numbers, bounds: Floats, cell: int,
    query_codes: NDArray[np.int8], k: int, shift: int, allowances: Floats, errors: NDArray[np.float64],
    step: float, centre: float, floor: float, n: int, peaks: NDArray[np.int16],
) -> float:  # fmt: skip
    """A floor to begin with: from a glance at the first blocks, then, if many still reach it, from a part of those."""
    blocks = order.shape[1]
    ahead = min(GLANCE, blocks)
    for _ in range(2):
        reached = centre + _look_ahead(
            codes,
            starts,
            level,
            order,
            cell,
            0,
            ahead,
            query_codes,
            k,
            shift,
            allowances,
            errors,
            step,
            n,
            peaks,
        )
        floor = max(floor, float(np.float32(reached - abs(reached) * 2.0**-22)))
        reaching = _count_reaching(bounds, cell, 0, blocks, floor)
        if reaching // SAMPLE <= ahead:
            break
        ahead = reaching // SAMPLE
    return floor


@inlined
def _try_bonuses(
    keys: Floats, base: Floats, tie_ranks: Numbers, query: Floats, k: int, bonus: Numbers, values: Floats, low: int,
    high: int, floor: float, heap: Entries, sizes: Sizes,
) -> None:  # fmt: skip
    """Score what has a bonus before everything else."""
    width = keys.shape[1]
    for at in range(low, high):
        e = bonus[at]
        score = base[e] + dot(query, k * width, keys, e * width, width) + values[at]
        if score >= floor:
            offer(heap, sizes, k, score, tie_ranks[e])


@kernel
def search(pool: Pool, batch: Batch, best: Best, first_job: int, last_job: int) -> tuple[int, int]:
    """Do some jobs. Returns how many blocks were visited and how many explanations were scored."""
    # Taken apart once: a tuple of arrays handed on costs a count of references for each of them at every call.
    keys, base, tie_ranks, explanations, leaders, codes, scale, allowances, starts = pool[:9]
    steps, centres, margins, rounding, order, bounds = pool[9:]
    queries, rows, jobs, levels, norms, floors, indptr, bonus, values = batch
    scores, ranks = best
    width, blocks, n = keys.shape[1], order.shape[1], scores.shape[1]
    heap, sizes = np.empty((min(TILE, len(rows)), n), np.uint64), np.zeros(TILE, np.int64)
    columns, visited, scored = min(queries.shape[1], width), 0, 0
    query, errors = np.zeros((TILE, width), np.float32), np.zeros((TILE, 3))
    twins = np.zeros((TILE, codes.shape[1] * 16), np.int16)
    query_codes, peaks = twins.view(np.int8), np.zeros(BLOCK, np.int16)
    found, exact = np.zeros(STEP * BLOCK + 1, np.int32), np.zeros(STEP * BLOCK, np.float32)
    floor, shifts, going = np.zeros(TILE, np.float32), np.zeros(TILE, np.int64), np.zeros(TILE, np.bool_)
    for job in range(first_job, last_job):
        cell, begin, count = jobs[job, 0], jobs[job, 1], jobs[job, 2] - jobs[job, 1]
        for k in range(count):
            row = rows[begin + k]
            level, going[k], floor[k] = levels[row], True, floors[row]
            for j in range(columns):
                query[k, j] = queries[row, j]
            shifts[k] = _encode(query, k, scale, steps[level], twins, errors)
            errors[k, 2] = norms[row] * rounding
            low, high = indptr[row], indptr[row + 1]
            if low < high:
                _try_bonuses(keys, base, tie_ranks, query, k, bonus, values, low, high, floor[k], heap, sizes)
            scored += high - low
            if n <= BLOCK:
                floor[k] = _first_floor(
                    codes, starts, level, order, bounds, cell, query_codes, k, shifts[k], allowances, errors,
                    steps[level], centres[level] - margins[level], floor[k], n, peaks,
                )  # fmt: skip
        for start in range(0, blocks, STEP):
            stop, left = min(start + STEP, blocks), 0
            for k in range(count):
                if not going[k]:
                    continue
                row = rows[begin + k]
                level, threshold, tie = levels[row], floor[k], np.int32(-1)
                if sizes[k] == n:
                    lowest, tie = worst(heap, k)
                    threshold = max(threshold, lowest)
                reaching = _count_reaching(bounds, cell, start, stop, threshold)
                if 0 <= tie < leaders[order[cell, start]] and bounds[cell, start] == lowest:
                    reaching = 0  # every tie would be lost, here and in all later blocks
                kept = _sieve(
                    codes, starts, level, order, cell, start, start + reaching, query_codes, k, shifts[k],
                    allowances, errors, threshold - centres[level], steps[level], explanations, found,
                )  # fmt: skip
                if kept > 0:
                    _judge(
                        keys, base, tie_ranks, query, k, found, kept, exact, bonus, indptr[row], indptr[row + 1],
                        threshold, heap, sizes,
                    )  # fmt: skip
                visited, scored, going[k] = visited + reaching, scored + kept, start + reaching == stop
                left += going[k]
            if left == 0:
                break
        for k in range(count):
            settle(heap, sizes, k, scores, ranks, rows[begin + k])
    return visited, scored


@kernel
def search_given(
    keys: Floats, base: Floats, ranks: Numbers, batch: Batch, best: Best, starts: NDArray[np.int64],
    stops: NDArray[np.int64], given: Numbers, first: int, last: int,
) -> None:  # fmt: skip
    """Rank for `rows` first..last only the explanations given for each; a bonus counts for those given."""
    width, n = keys.shape[1], best.scores.shape[1]
    query, heap, sizes = np.zeros((1, width), np.float32), np.empty((1, n), np.uint64), np.zeros(1, np.int64)
    columns = min(batch.queries.shape[1], width)
    for place in range(first, last):
        row = batch.rows[place]
        query[0, :columns] = batch.queries[row, :columns]
        low, high = batch.bonus_indptr[row], batch.bonus_indptr[row + 1]
        for at in range(starts[row], stops[row]):
            e = given[at]
            score = base[e] + dot(query, 0, keys, e * width, width)
            found = _find(batch.bonus_explanations, low, high, e)
            if found >= 0:
                score += batch.bonus_values[found]
            if score >= batch.floors[row]:
                offer(heap, sizes, 0, score, ranks[e])
        settle(heap, sizes, 0, best.scores, best.ranks, row)


@kernel
def score_given(queries: Floats, keys: Floats, base: Floats, given: Numbers) -> Floats:
    """Scores of the explanations given for each query (queries x k), bit for bit as the search has them."""
    width, columns = keys.shape[1], min(queries.shape[1], keys.shape[1])
    query, scores = np.zeros((1, width), np.float32), np.empty(given.shape, np.float32)
    for row in range(len(queries)):
        query[0, :columns] = queries[row, :columns]
        for at in range(given.shape[1]):
            e = given[row, at]
            scores[row, at] = base[e] + dot(query, 0, keys, e * width, width)
    return scores
