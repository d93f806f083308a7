"""Which entries of ranked lists are relevant."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel


@kernel
def hits(ranked: NDArray[np.int32], indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Row by row, whether each ranked number is among the row's sorted relevant numbers; -1 never is."""
    found = np.zeros(ranked.shape, np.bool_)
    for row in range(ranked.shape[0]):
        relevant = indices[indptr[row] : indptr[row + 1]]
        for place in range(ranked.shape[1]):
            number = ranked[row, place]
            at = np.searchsorted(relevant, number)
            found[row, place] = at < len(relevant) and relevant[at] == number
    return found


@kernel
def overlaps(lists: NDArray[np.int32], left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many numbers two lists share, for pairs of rows; -1 is no number."""
    shared = np.zeros(len(left), np.int64)
    for pair in range(len(left)):
        for a in lists[left[pair]]:
            for b in lists[right[pair]]:
                if a == b and a >= 0:
                    shared[pair] += 1
    return shared
