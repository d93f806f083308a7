"""The best n of a stream, a row each: the higher score wins, among equals the lower rank.

An entry is one number that is larger the better it is: the score's bits, turned so that they rise with it, above the
rank's, turned so that they fall. A row of few entries is kept in order, with zeros at its end while it is not full: an
entry finds its place without a branch that could be guessed wrongly. A longer row is a heap with the worst on top.
"""

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined

Entries = NDArray[np.uint64]
Sizes = NDArray[np.int64]
Numbers = NDArray[np.int32]
FEW = 32  # entries of a row that is kept in order
SOME = 64  # entries that are compared each with each
SIGN, ALL = np.uint32(1 << 31), np.uint32(0xFFFFFFFF)


@inlined
def entry_of(score: np.float32, rank: int) -> np.uint64:
    bits = np.float32(score).view(np.uint32)  # never minus zero: scores are sums that begin with zero
    turned = bits ^ (ALL if bits & SIGN else SIGN)
    return (np.uint64(turned) << np.uint64(32)) | np.uint64(ALL ^ np.uint32(rank))


@inlined
def score_of(entry: np.uint64) -> np.float32:
    turned = np.uint32(entry >> np.uint64(32))
    return np.uint32(turned ^ (SIGN if turned & SIGN else ALL)).view(np.float32)


@inlined
def rank_of(entry: np.uint64) -> np.int32:
    return np.int32(ALL ^ np.uint32(entry & np.uint64(ALL)))


@inlined
def _sink(heap: Entries, row: int, size: int, entry: np.uint64) -> None:
    """Put an entry in place of the worst, moving worse ones up."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        child += child + 1 < size and heap[row, child + 1] < heap[row, child]
        if heap[row, child] > entry:
            break
        heap[row, hole] = heap[row, child]
        hole = child
    heap[row, hole] = entry


@inlined
def _rise(heap: Entries, row: int, size: int, entry: np.uint64) -> None:
    """Put an entry at the end of a heap, moving better ones down."""
    hole = size
    while hole > 0 and heap[row, (hole - 1) // 2] > entry:
        heap[row, hole] = heap[row, (hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[row, hole] = entry


@inlined
def _insert(heap: Entries, row: int, entry: np.uint64) -> None:
    """Put an entry in its place in order, moving worse ones on."""
    for at in range(heap.shape[1] - 1, 0, -1):
        heap[row, at] = max(heap[row, at], min(heap[row, at - 1], entry))
    heap[row, 0] = max(heap[row, 0], entry)


@inlined
def offer(heap: Entries, sizes: Sizes, row: int, entry: np.uint64) -> None:
    """Keep what is among the best n of its row."""
    size, n = sizes[row], heap.shape[1]
    if size < n or entry >= heap[row, n - 1 if n <= FEW else 0]:
        if n <= FEW:
            _insert(heap, row, entry)
        elif size == n:
            _sink(heap, row, size, entry)
        else:
            _rise(heap, row, size, entry)
        sizes[row] = min(size + 1, n)


@inlined
def offer_all(heap: Entries, sizes: Sizes, row: int, entries: Entries, count: int) -> None:
    """Keep what is among the best n of its row of `count` entries; there is room for n more after them.

    Some at a time for a row in order: each goes where as many are better as stand before it.
    """
    size, n = sizes[row], heap.shape[1]
    if count > 2 and n <= FEW and size + count <= SOME:
        for at in range(size):
            entries[count + at] = heap[row, at]
        for at in range(size + count):
            better = 0
            for other in range(size + count):
                better += entries[other] > entries[at]
            if better < n:
                heap[row, better] = entries[at]
        sizes[row] = min(size + count, n)
    else:
        for at in range(count):
            offer(heap, sizes, row, entries[at])


@inlined
def worst(heap: Entries, row: int) -> tuple[np.float32, np.int32]:
    """Score and rank of the worst of a full row."""
    n = heap.shape[1]
    entry = heap[row, n - 1 if n <= FEW else 0]
    return score_of(entry), rank_of(entry)


@inlined
def settle(
    heap: Entries, sizes: Sizes, row: int, by_rank: Numbers, scores: NDArray[np.float32], numbers: Numbers, to: int
) -> None:
    """Empty a row into row `to` of two tables, best first: scores, and who has these ranks.

    -inf and -1 where it holds fewer than they have columns.
    """
    n = heap.shape[1]
    for column in range(sizes[row], n):
        scores[to, column], numbers[to, column] = -np.inf, -1
    for size in range(sizes[row] - 1, -1, -1):
        at = size if n <= FEW else 0
        scores[to, size], numbers[to, size] = score_of(heap[row, at]), by_rank[rank_of(heap[row, at])]
        if n <= FEW:
            heap[row, at] = 0
        else:
            _sink(heap, row, size, heap[row, size])
    sizes[row] = 0
