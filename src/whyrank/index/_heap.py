"""The best n of a stream: a heap with the lowest on top, which begins with n zeros.

An entry is one number that is larger the better it is: the score's bits, turned so that they rise with it, above the
rank's, turned so that they fall. Zero is below every entry.
"""

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined

Entries = NDArray[np.uint64]
SIGN, ALL = np.uint32(1 << 31), np.uint32(0xFFFFFFFF)


@inlined
def entry_of(score: np.float32, rank: int) -> np.uint64:
    """Return the entry of a score, which is never -0, and a rank."""
    bits = np.float32(score).view(np.uint32)
    turned = bits ^ (ALL if bits & SIGN else SIGN)
    return (np.uint64(turned) << np.uint64(32)) | np.uint64(ALL ^ np.uint32(rank))


@inlined
def score_of(entry: np.uint64) -> np.float32:
    """Return the score of an entry."""
    turned = np.uint32(entry >> np.uint64(32))
    return np.uint32(turned ^ (SIGN if turned & SIGN else ALL)).view(np.float32)


@inlined
def rank_of(entry: np.uint64) -> np.int32:
    """Return the rank of an entry."""
    return np.int32(ALL ^ np.uint32(entry & np.uint64(ALL)))


@inlined
def _sink(heap: Entries, size: int, entry: np.uint64) -> None:
    """Put an entry in place of the lowest of the first `size`."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        child += child + 1 < size and heap[child + 1] < heap[child]
        if heap[child] >= entry:
            break
        heap[hole] = heap[child]
        hole = child
    heap[hole] = entry


@inlined
def offer(heap: Entries, entry: np.uint64) -> None:
    """Keep an entry that is among the best."""
    if entry > heap[0]:
        _sink(heap, len(heap), entry)


@inlined
def empty_into(
    heap: Entries, by_rank: NDArray[np.int32], scores: NDArray[np.float32], numbers: NDArray[np.int32], row: int
) -> None:
    """Write scores, and who has these ranks, to a row of two tables, best first; leave zeros in the heap."""
    for size in range(len(heap) - 1, -1, -1):
        entry = heap[0]
        scores[row, size] = score_of(entry) if entry else np.float32(-np.inf)
        numbers[row, size] = by_rank[rank_of(entry)] if entry else -1
        _sink(heap, size, heap[size])
        heap[size] = 0
