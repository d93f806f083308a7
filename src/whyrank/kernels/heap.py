"""The best n of a stream, one heap a row with the worst on top: the higher score wins, among equals the lower rank.

An entry is one number that is larger the better it is: the score's bits, turned so that they rise with it, above the
rank's, turned so that they fall. What a row has not filled yet is not looked at.
"""

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels import inlined

Entries = NDArray[np.uint64]
Sizes = NDArray[np.int64]
SIGN, ALL = np.uint32(1 << 31), np.uint32(0xFFFFFFFF)


@inlined
def _entry(score: np.float32, rank: int) -> np.uint64:
    bits = np.float32(score).view(np.uint32)  # never minus zero: scores are sums that begin with zero
    turned = bits ^ (ALL if bits & SIGN else SIGN)
    return (np.uint64(turned) << np.uint64(32)) | np.uint64(ALL ^ np.uint32(rank))


@inlined
def _score_of(entry: np.uint64) -> np.float32:
    turned = np.uint32(entry >> np.uint64(32))
    return np.uint32(turned ^ (SIGN if turned & SIGN else ALL)).view(np.float32)


@inlined
def _rank_of(entry: np.uint64) -> np.int32:
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
def offer(heap: Entries, sizes: Sizes, row: int, score: np.float32, rank: int) -> None:
    """Keep what is among the best n of its row. -inf is never kept."""
    entry, size = _entry(score, rank), sizes[row]
    if size == heap.shape[1]:
        if entry > heap[row, 0]:
            _sink(heap, row, size, entry)
        return
    if score == -np.inf:
        return
    hole = size
    while hole > 0 and heap[row, (hole - 1) // 2] > entry:
        heap[row, hole] = heap[row, (hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[row, hole] = entry
    sizes[row] = size + 1


@inlined
def worst(heap: Entries, row: int) -> tuple[np.float32, np.int32]:
    """Score and rank of the worst that is kept; there must be one."""
    return _score_of(heap[row, 0]), _rank_of(heap[row, 0])


@inlined
def settle(
    heap: Entries, sizes: Sizes, row: int, scores: NDArray[np.float32], ranks: NDArray[np.int32], to: int
) -> None:
    """Empty a heap into row `to` of two tables, best first; -inf and -1 where it holds fewer than they have columns."""
    for column in range(sizes[row], heap.shape[1]):
        scores[to, column], ranks[to, column] = -np.inf, -1
    for size in range(sizes[row] - 1, -1, -1):
        scores[to, size], ranks[to, size] = worst(heap, row)
        _sink(heap, row, size, heap[row, size])
    sizes[row] = 0
