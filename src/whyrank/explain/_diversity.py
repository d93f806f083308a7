"""Greedy choice of reasons that do not repeat or contradict each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.explain._neighbours import shared
from whyrank.index._backing import fits


@kernel
def choose(
    numbers: NDArray[np.int32],
    scores: NDArray[np.float32],
    indptr: NDArray[np.int64],
    words: NDArray[np.int32],
    sentiment: NDArray[np.float32],
    groups: NDArray[np.int32],
    signs: NDArray[np.int8],
    per_aspect: int,
    consistent: bool,
    diversity: float,
    alike: float,
    opposed: float,
    n: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Row by row, take the candidate with the best (1 - diversity) * relevance - diversity * likeness, n times.

    Relevance is the score scaled to 0..1 over the row's candidates; likeness is the largest word overlap with what was
    taken. A candidate is dropped when that overlap reaches `alike`, or when it shares a word with one taken whose
    sentiment lies on the other side of zero, at least `opposed` away, or when the list has no room for it (`fits`).
    """
    rows, candidates = numbers.shape
    chosen = np.full((rows, n), -1, np.int32)
    values = np.full((rows, n), -np.inf, np.float32)
    likeness = np.empty(candidates, np.float64)
    open_ = np.empty(candidates, np.bool_)
    for row in range(rows):
        found = 0
        while found < candidates and numbers[row, found] >= 0:
            found += 1
        high, low = scores[row, 0], scores[row, max(found - 1, 0)]
        span = high - low if high > low else np.float32(1)
        open_[:] = False
        open_[:found] = True
        likeness[:] = 0.0
        for place in range(min(n, found)):
            best, best_value = -1, -np.inf
            for c in range(found):
                if open_[c]:
                    value = (1 - diversity) * (scores[row, c] - low) / span - diversity * likeness[c]
                    if value > best_value:
                        best, best_value = c, value
            if best < 0:
                break
            taken = numbers[row, best]
            chosen[row, place], values[row, place] = taken, scores[row, best]
            open_[best] = False
            own = words[indptr[taken] : indptr[taken + 1]]
            for c in range(found):
                if open_[c] and not fits(
                    chosen[row], place + 1, numbers[row, c], groups, signs, per_aspect, consistent
                ):
                    open_[c] = False
                if open_[c]:
                    other = words[indptr[numbers[row, c]] : indptr[numbers[row, c] + 1]]
                    both = shared(own, other)
                    overlap = both / max(len(own) + len(other) - both, 1)
                    likeness[c] = max(likeness[c], overlap)
                    a, b = sentiment[taken], sentiment[numbers[row, c]]
                    if overlap >= alike or (both > 0 and a * b < 0 and abs(a - b) >= opposed):
                        open_[c] = False
    return chosen, values
