"""What the search of `topn` prepares: norms, 8-bit codes, blocks and their bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.index._heap import entry_of, rank_of, score_of
from whyrank.simd import BLOCK, highest_reach

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Rows = NDArray[np.int64]


@inlined
def _measure(queries: Floats, row: int, first: int, last: int) -> tuple[float, float]:
    """Sum of squares and largest size of some columns; four sums side by side."""
    a, b, c, d, largest = 0.0, 0.0, 0.0, 0.0, np.float32(0)
    whole = first + (last - first) // 4 * 4
    for j in range(first, whole, 4):
        a += np.float64(queries[row, j]) ** 2
        b += np.float64(queries[row, j + 1]) ** 2
        c += np.float64(queries[row, j + 2]) ** 2
        d += np.float64(queries[row, j + 3]) ** 2
    for j in range(whole, last):
        a += np.float64(queries[row, j]) ** 2
    for j in range(first, last):
        largest = max(largest, abs(queries[row, j]))
    return (a + b) + (c + d), np.float64(largest)


@kernel
def measure(queries: Floats, columns: int, split: int) -> tuple[Doubles, bool]:
    """Per query: norm of the columns before `split`, of those from it on, of both, and the largest column.

    A query that holds NaN or infinity gets NaN as its norm of both. And whether all agree from `columns` on.
    """
    result, same = np.empty((len(queries), 4)), True
    for row in range(len(queries)):
        first, highest = _measure(queries, row, 0, split)
        second, other = _measure(queries, row, split, columns)
        both, broken = first + second, 0.0
        for j in range(columns, queries.shape[1]):
            same = same and queries[row, j] == queries[0, j]
            broken += queries[row, j] - queries[row, j]
        result[row, 0], result[row, 1] = np.sqrt(first), np.sqrt(second)
        result[row, 2], result[row, 3] = np.sqrt(both) + (both - both) + broken, max(highest, other)
    return result, same


@kernel
def levels(measures: Doubles, rows: NDArray[np.int64], by_norm: float, by_column: float, least: float) -> Rows:
    """Per query how many half doublings its step needs, which is `least` or more."""
    result = np.empty(len(rows), np.int64)
    for at in range(len(rows)):
        step = max(measures[rows[at], 2] * by_norm, measures[rows[at], 3] * by_column, least)
        result[at] = int(np.ceil(2.0 * np.log2(step) + 1e-9))
    return result


@kernel
def encode(
    keys: Floats, norms: Doubles, scale: float, longest: float, second: int, codes: NDArray[np.int8],
    code_norms: Doubles, code_gaps: Doubles,
) -> None:  # fmt: skip
    """Write the codes of every key (key / scale) and, for its columns before `second` and from it on, norms.

    Of the codes, and of what rounding lost. Keys longer than `longest` are shortened to it, which is lost as well.
    """
    for e in range(len(keys)):
        factor = min(1.0, longest / norms[e]) / scale if norms[e] > 0.0 else 0.0
        for part in range(2):
            norm, gap = 0.0, 0.0
            for j in range(second if part else 0, codes.shape[1] if part else second):
                code = np.rint(keys[e, j] * factor)
                norm += code * code
                gap += (keys[e, j] / scale - code) ** 2
                codes[e, j] = np.int8(code)
            code_norms[part, e], code_gaps[part, e] = np.sqrt(norm), np.sqrt(gap)


@kernel
def pack(codes: NDArray[np.int8], explanations: NDArray[np.int32]) -> NDArray[np.int8]:
    """Codes in blocks: block x pair of columns x (explanation, side of the pair); 0 where there is none."""
    pairs, blocks = codes.shape[1] // 2, len(explanations) // BLOCK
    packed = np.zeros((blocks, pairs, 2 * BLOCK), np.int8)
    for position in range(len(explanations)):
        e, block, lane = explanations[position], position // BLOCK, position % BLOCK
        if e >= 0:
            for pair in range(pairs):
                packed[block, pair, 2 * lane] = codes[e, 2 * pair]
                packed[block, pair, 2 * lane + 1] = codes[e, 2 * pair + 1]
    return packed


@kernel
def bound(base: Floats, norms: Floats, lengths: Floats) -> Floats:
    """Per cell and block the largest `base + lengths . norms`, whose terms are already rounded up."""
    bounds = np.empty((len(lengths), len(base) // BLOCK), np.float32)
    for block in range(bounds.shape[1]):
        for cell in range(len(lengths)):
            bounds[cell, block] = highest_reach(base, norms, block * BLOCK, lengths[cell, 0], lengths[cell, 1])
    return bounds


@kernel
def walks(bounds: Floats, places: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Numbers that rise, cell by cell, as bounds of blocks fall and, among equal ones, as their places rise."""
    keys = np.empty(bounds.shape, np.uint64)
    for cell in range(len(bounds)):
        for block in range(bounds.shape[1]):
            keys[cell, block] = ~entry_of(bounds[cell, block], places[block])
    return keys


@kernel
def walked(keys: NDArray[np.uint64], by_place: NDArray[np.int32], order: NDArray[np.int32], bounds: Floats) -> None:
    """Write blocks and bounds in the order of such numbers."""
    for cell in range(len(keys)):
        for at in range(keys.shape[1]):
            order[cell, at] = by_place[rank_of(~keys[cell, at])]
            bounds[cell, at] = score_of(~keys[cell, at])


@kernel
def begin(
    base: Floats, step: float, centre: float, codes: NDArray[np.int8], offset: int, starts: NDArray[np.int16]
) -> None:
    """Write base in units of `step` above `centre`, rounded up; what is far below stays at the lowest start.

    Less what the `offset` of a query's unsigned codes adds to the score, modulo 2 ** 16.
    """
    for block in range(len(codes)):
        for lane in range(BLOCK):
            position, extra = block * BLOCK + lane, 0
            for pair in range(codes.shape[1]):
                extra += codes[block, pair, 2 * lane] + codes[block, pair, 2 * lane + 1]
            value = np.ceil((np.float64(base[position]) - centre) / step)
            starts[position] = np.int16(int(min(max(value, -16384.0), 16383.0)) - offset * extra)


@kernel
def bases(keys: Floats, columns: int, constants: Floats) -> Floats:
    """Per explanation the float32 sum of constants times the last columns of its key, from left to right."""
    result = np.zeros(len(keys), np.float32)
    for e in range(len(keys)):
        for j in range(len(constants)):
            result[e] += constants[j] * keys[e, columns + j]
    return result


@kernel
def ascending(starts: NDArray[np.int64], stops: NDArray[np.int64], values: NDArray[np.int32], limit: int) -> bool:
    """Whether every row is a stretch of `values` that rises strictly and stays within 0..limit-1."""
    for row in range(len(starts)):
        if starts[row] < 0 or stops[row] > len(values):
            return False
        last = -1
        for at in range(starts[row], stops[row]):
            if values[at] <= last or values[at] >= limit:
                return False
            last = values[at]
    return True


@kernel
def check_given(
    queries: Floats,
    columns: int,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    given: NDArray[np.int32],
    indptr: NDArray[np.int64],
    bonus: NDArray[np.int32],
    values: Floats,
    pool: int,
) -> tuple[bool, bool, float, float]:
    """Whether a search among given explanations is well-formed, and whether queries agree from `columns` on.

    And the largest norm of a query (before `columns`) and the largest bonus. `indptr` is empty without a bonus.
    """
    count, alike, longest, largest = len(queries), True, 0.0, np.float32(0)
    fine = len(starts) == count and len(stops) == count and ascending(starts, stops, given, pool)
    for row in range(count):
        norm, _ = _measure(queries, row, 0, columns)
        for j in range(columns, queries.shape[1]):
            alike = alike and queries[row, j] == queries[0, j]
            fine = fine and np.isfinite(queries[row, j])
        fine = fine and np.isfinite(norm)
        longest = max(longest, norm)
    if len(indptr):
        fine = fine and len(indptr) == count + 1 and len(bonus) == len(values)
        fine = fine and indptr[0] == 0 and indptr[-1] == len(bonus)
        fine = fine and ascending(indptr[:-1], indptr[1:], bonus, pool)
        for value in values:
            fine = fine and value >= 0 and np.isfinite(value)
            largest = max(largest, value)
    return fine, alike, np.sqrt(longest), np.float64(largest)
