"""Parts of queries, each kept once with its ceilings: what no explanation of a group scores above in its columns.

A part is known by its bits. A table of places, a power of two of them, says where each part stands: the first free or
equal one from the place its bits point to.
"""

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.index._topn import QUERY_OFFSET, encode
from whyrank.simd import ABREAST, BLOCK, fetch_row, highest, rate_highest

Bits = NDArray[np.uint32]
Numbers = NDArray[np.int32]
Rows = NDArray[np.int64]

MIX = np.uint64(0x9E3779B97F4A7C15)
AHEAD = 16  # queries whose parts are looked up together
UNKNOWN = -1


@inlined
def waiting(number: int) -> int:
    """What stands for a part that is known but has no ceilings, and back."""
    return UNKNOWN - 1 - number


@inlined
def _home(queries: Bits, row: int, first: int, width: int, places: Numbers) -> int:
    """The place that the bits of a part point to: of the columns of a query from `first` on."""
    mixed, other = np.uint64(0), MIX
    for j in range(0, width - 1, 2):
        mixed = (mixed ^ np.uint64(queries[row, first + j])) * MIX
        other = (other ^ np.uint64(queries[row, first + j + 1])) * MIX
    if width % 2 == 1:
        mixed = (mixed ^ np.uint64(queries[row, first + width - 1])) * MIX
    mixed ^= (other >> np.uint64(29)) ^ (other << np.uint64(17))
    return int(np.int64((mixed * MIX) >> np.uint64(33)) & (len(places) - 1))


@inlined
def _place(queries: Bits, row: int, first: int, parts: Bits, places: Numbers, home: int) -> int:
    """Where such a part stands, or would: the first free or equal place from its home on."""
    at = home
    while places[at] >= 0:
        slot, differ = places[at], np.uint32(0)
        for j in range(parts.shape[1]):
            differ |= queries[row, first + j] ^ parts[slot, j]
        if differ == 0:
            break
        at = (at + 1) & (len(places) - 1)
    return at


@kernel
def find(
    queries: Bits, rows: Rows, column: int, parts: Bits, places: Numbers, tables: Numbers, slots: Numbers, side: int,
    first: int, last: int,
) -> tuple[int, int]:  # fmt: skip
    """Write to `slots` the row of ceilings that each query's part of a side has, or what there is in its place.

    `UNKNOWN`, or the part's number below that (`waiting`). Returns how many of either kind there are.
    """
    unknown, known, homes = 0, 0, np.empty(AHEAD, np.int64)
    for start in range(first, last, AHEAD):
        count = min(AHEAD, last - start)
        for k in range(count):
            homes[k] = _home(queries, rows[start + k], column, parts.shape[1], places)
        for k in range(count):  # what stands there is on its way while others are looked at
            fetch_row(parts, max(places[homes[k]], 0))
        for k in range(count):
            row = rows[start + k]
            part = places[_place(queries, row, column, parts, places, homes[k])]
            if part < 0:
                slots[row, side] = UNKNOWN
                unknown += 1
            elif tables[part] < 0:
                slots[row, side] = waiting(part)
                known += 1
            else:
                slots[row, side] = tables[part]
    return unknown, known


@kernel
def enter(
    queries: Bits, rows: Rows, column: int, parts: Bits, places: Numbers, slots: Numbers, side: int, count: int
) -> int:
    """Give those that are not known a place; returns how many parts there are then."""
    for row in rows:
        if slots[row, side] == UNKNOWN:
            home = _home(queries, row, column, parts.shape[1], places)
            at = _place(queries, row, column, parts, places, home)
            if places[at] < 0:
                for j in range(parts.shape[1]):
                    parts[count, j] = queries[row, column + j]
                places[at] = count
                count += 1
            slots[row, side] = waiting(places[at])
    return count


@kernel
def note(
    rows: Rows, slots: Numbers, side: int, uses: Numbers, tables: Numbers, often: float, known: int, wanted: Rows
) -> int:
    """Count each waiting part once for every query that has it, and give what comes often a row of ceilings.

    Lists the parts that got one, after the `known` ones; returns how many. `slots` become rows, or -1.
    """
    count = 0
    for row in rows:
        if slots[row, side] < 0:
            part = waiting(slots[row, side])
            uses[part] += 1
            if uses[part] >= often and tables[part] < 0:
                tables[part] = known + count
                wanted[count] = part
                count += 1
    for row in rows:
        if slots[row, side] < 0:
            slots[row, side] = tables[waiting(slots[row, side])]
    return count


@kernel
def settle(parts: Bits, count: int, places: Numbers) -> None:
    """Write the places of parts that are known to differ into an empty table."""
    for slot in range(count):
        home = _home(parts, slot, 0, parts.shape[1], places)
        places[_place(parts, slot, 0, parts, places, home)] = slot


@kernel
def offsets(codes: NDArray[np.int8], second: int) -> NDArray[np.int16]:
    """Side x position: what takes the offset of a query's unsigned codes back, modulo 2 ** 16."""
    blocks, pairs = codes.shape[:2]
    starts = np.empty((2, blocks * BLOCK), np.int16)
    for block in range(blocks):
        for lane in range(BLOCK):
            for side in range(2):
                total = 0
                for pair in range(second if side else 0, pairs if side else second):
                    total += codes[block, pair, 2 * lane] + codes[block, pair, 2 * lane + 1]
                starts[side, block * BLOCK + lane] = np.int16(-QUERY_OFFSET * total)
    return starts


@kernel
def lift(
    parts: NDArray[np.float32], wanted: Rows, codes: NDArray[np.int8], starts: NDArray[np.int16], side: int, pair: int,
    scale: float, reach: float, largest: float, norms: NDArray[np.float32], gaps: NDArray[np.float32],
    ceilings: NDArray[np.float32], known: int, first: int, last: int,
) -> None:  # fmt: skip
    """Find the ceilings of the wanted parts first..last, several abreast, for the rows that follow the known ones."""
    width, groups = parts.shape[1], ceilings.shape[1]
    span = len(codes) // groups
    part = np.zeros((ABREAST, width + width % 2), np.float32)
    part_codes, errors = np.empty((ABREAST, part.shape[1] // 2), np.int32), np.empty((ABREAST, 3))
    level, rows = np.full(ABREAST, side), np.arange(ABREAST)
    steps, peaks = np.empty(ABREAST), np.empty((ABREAST, BLOCK), np.int16)
    for start in range(first, last, ABREAST):
        for k in range(ABREAST):
            slot, norm, tallest = wanted[min(start + k, last - 1)], 0.0, 0.0
            for j in range(width):
                value = np.float64(parts[slot, j])
                part[k, j] = parts[slot, j]
                norm += value * value
                tallest = max(tallest, abs(value))
            steps[k] = max(scale * max(np.sqrt(norm) / reach, tallest / largest, 1e-30), 1e-300)
            encode(part, k, scale, steps[k], part_codes, errors)
        for group in range(groups):
            peaks[:] = -32768
            for block in range(group * span, (group + 1) * span):
                rate_highest(codes, block, pair, part_codes, starts, level, rows, 0, peaks, 0)
            for k in range(ABREAST):
                top = steps[k] * highest(peaks, k * BLOCK)
                top += errors[k, 0] * norms[group] + errors[k, 1] * gaps[group]
                ceilings[known + min(start + k, last - 1), group] = np.float32(top + abs(top) * 2.0**-22)
