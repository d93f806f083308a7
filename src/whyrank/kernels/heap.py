"""The best n of a stream, one heap a row with the worst on top: the higher score wins, among equals the lower rank."""

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels import inlined

Floats = NDArray[np.float32]
Numbers = NDArray[np.int32]


@inlined
def _sink(scores: Floats, ranks: Numbers, row: int, size: int, hole: int, score: float, rank: int) -> None:
    """Put an entry into the hole of the heap of a row, moving worse ones up."""
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            scores[row, other] < scores[row, child]
            or (scores[row, other] == scores[row, child] and ranks[row, other] > ranks[row, child])
        ):
            child = other
        if scores[row, child] > score or (scores[row, child] == score and ranks[row, child] < rank):
            break
        scores[row, hole], ranks[row, hole] = scores[row, child], ranks[row, child]
        hole = child
    scores[row, hole], ranks[row, hole] = score, rank


@inlined
def offer(scores: Floats, ranks: Numbers, sizes: NDArray[np.int64], row: int, score: float, rank: int) -> None:
    """Keep an entry if it is among the best n of its row. -inf is never kept."""
    size = sizes[row]
    if size == scores.shape[1]:
        if score > scores[row, 0] or (score == scores[row, 0] and rank < ranks[row, 0]):
            _sink(scores, ranks, row, size, 0, score, rank)
        return
    if score == -np.inf:
        return
    hole = size
    while hole > 0:
        parent = (hole - 1) // 2
        if scores[row, parent] < score or (scores[row, parent] == score and ranks[row, parent] > rank):
            break
        scores[row, hole], ranks[row, hole] = scores[row, parent], ranks[row, parent]
        hole = parent
    scores[row, hole], ranks[row, hole] = score, rank
    sizes[row] = size + 1


@inlined
def settle(scores: Floats, ranks: Numbers, sizes: NDArray[np.int64], row: int) -> None:
    """Turn the heap of a row into a list, best first."""
    for size in range(sizes[row] - 1, 0, -1):
        score, rank = scores[row, size], ranks[row, size]
        scores[row, size], ranks[row, size] = scores[row, 0], ranks[row, 0]
        _sink(scores, ranks, row, size, 0, score, rank)


@inlined
def threshold_of(scores: Floats, sizes: NDArray[np.int64], row: int, floor: float) -> float:
    """What a score has to reach to matter."""
    return max(floor, scores[row, 0]) if sizes[row] == scores.shape[1] else floor
