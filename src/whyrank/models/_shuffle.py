"""Random lists without repeats, one for every pair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.rng import GOLDEN, below, draw, mix


@kernel
def random_lists(seed: int, users: NDArray[np.int32], items: NDArray[np.int32], pool: int, n: int) -> NDArray[np.int32]:
    """The first `n` of a Fisher-Yates shuffle of 0..pool-1 for every pair; a longer list starts with the shorter."""
    deck = np.arange(pool).astype(np.int32)
    swaps = np.empty(n, np.int64)
    lists = np.empty((len(users), n), np.int32)
    for row in range(len(users)):
        key = mix(mix(np.uint64(seed) * GOLDEN + np.uint64(users[row] + 1)) + np.uint64(items[row] + 1))
        for place in range(n):
            swaps[place] = place + below(draw(key, place), pool - place)
            deck[place], deck[swaps[place]] = deck[swaps[place]], deck[place]
            lists[row, place] = deck[place]
        for place in range(n - 1, -1, -1):  # undo, so that the next list starts from the same deck
            deck[place], deck[swaps[place]] = deck[swaps[place]], deck[place]
    return lists
