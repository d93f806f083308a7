"""All pairs of sets with a Jaccard similarity of at least t, exactly, and groups of such sets around centers."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whyrank.compile import kernel

Ints = NDArray[np.int64]
Tokens = NDArray[np.uint64]

SLACK = 1e-9  # a share that is t on paper must not fall below t by rounding


@njit(nogil=True, inline="always")
def least(share: float, n: int) -> int:
    """The least whole number that is at least share * n."""
    return int(np.ceil(share * n - SLACK))


@kernel
def overlap(tokens: Tokens, a: int, a_end: int, b: int, b_end: int, needed: int) -> int:
    """The number of common tokens of two sorted runs, or less than `needed` as soon as it cannot be reached."""
    common = 0
    while a < a_end and b < b_end:
        if common + min(a_end - a, b_end - b) < needed:
            return common
        if tokens[a] == tokens[b]:
            common += 1
            a += 1
            b += 1
        elif tokens[a] < tokens[b]:
            a += 1
        else:
            b += 1
    return common


@kernel
def rarest_first(indptr: Ints, hashes: Tokens) -> Tokens:
    """Number the hashes so that rarer ones come first, and sort each row by these numbers.

    A number holds how often the hash's bucket is used (20 bits) above the hash itself (44 bits). The buckets are few
    enough to stay in the cache: the order need not be exact, only the same for all rows.
    """
    slots = 1024
    while slots < len(hashes) and slots < 1 << 21:
        slots *= 2
    used, last = np.zeros(slots, np.int32), np.uint64(slots - 1)
    for h in hashes:
        used[h & last] += 1
    tokens = np.empty(len(hashes), np.uint64)
    for row in range(len(indptr) - 1):
        start, end = indptr[row], indptr[row + 1]
        for p in range(start, end):
            often = np.uint64(min(used[hashes[p] & last], (1 << 20) - 1))
            token = (often << np.uint64(44)) | (hashes[p] >> np.uint64(20))
            q = p
            while q > start and tokens[q - 1] > token:
                tokens[q] = tokens[q - 1]
                q -= 1
            tokens[q] = token
    return tokens


@kernel
def near_pairs(indptr: Ints, tokens: Tokens, t: float) -> tuple[Ints, Ints]:
    """Pairs of rows whose token sets have a Jaccard similarity >= t. Rows come in ascending order of size.

    Tokens are numbered from rare to frequent and sorted within a row. Two sets that are similar enough share a token
    among the first few of each (prefix filter): so each row is compared only with the rows under its rarest tokens.
    """
    rows = len(indptr) - 1
    slots = 1024
    while slots < 4 * rows and slots < 1 << 26:
        slots *= 2
    last, spread = np.uint64(slots - 1), np.uint64(0x9E3779B97F4A7C15)
    head = np.full(slots, -1, np.int64)  # slot of a token -> its newest entry; entries of a slot form a chain
    entry_row, entry_next = np.empty(1024, np.int64), np.empty(1024, np.int64)
    left, right = np.empty(1024, np.int64), np.empty(1024, np.int64)
    seen = np.full(rows, -1, np.int64)
    entries, pairs = 0, 0
    for x in range(rows):
        start, end = indptr[x], indptr[x + 1]
        n = end - start
        smallest = least(t, n)
        for p in range(start, start + n - smallest + 1):
            entry = head[((tokens[p] * spread) >> np.uint64(32)) & last]
            while entry >= 0:
                y = entry_row[entry]
                m = indptr[y + 1] - indptr[y]
                if m < smallest:  # chains run from large sets to small ones
                    break
                entry = entry_next[entry]
                if seen[y] == x:
                    continue
                seen[y] = x
                needed = least(t / (1.0 + t), n + m)
                if overlap(tokens, start, end, indptr[y], indptr[y + 1], needed) >= needed:
                    if pairs == len(left):
                        left, right = np.append(left, left), np.append(right, right)
                    left[pairs], right[pairs] = y, x
                    pairs += 1
        for p in range(start, start + n - least(2.0 * t / (1.0 + t), n) + 1):
            slot = ((tokens[p] * spread) >> np.uint64(32)) & last
            if entries == len(entry_row):
                entry_row, entry_next = np.append(entry_row, entry_row), np.append(entry_next, entry_next)
            entry_row[entries], entry_next[entries] = x, head[slot]
            head[slot] = entries
            entries += 1
    return left[:pairs].copy(), right[:pairs].copy()


@kernel
def star_groups(indptr: Ints, neighbours: Ints, order: Ints) -> Ints:
    """The center of every row: rows in `order` become centers unless taken, and take their free neighbours."""
    center = np.full(len(order), -1, np.int64)
    for row in order:
        if center[row] >= 0:
            continue
        center[row] = row
        for k in range(indptr[row], indptr[row + 1]):
            if center[neighbours[k]] < 0:
                center[neighbours[k]] = row
    return center
