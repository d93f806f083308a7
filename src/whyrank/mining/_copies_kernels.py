"""Runs of words of texts as hashes, for the search for copies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel

RUN = 5  # words
SKETCH = 8  # smallest hashes that stand for a text
FNV_START, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
MIX = np.uint64(0x9E3779B97F4A7C15)
NONE = np.uint64(0xFFFFFFFFFFFFFFFF)
Hashes = NDArray[np.uint64]


@kernel
def word_hashes(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> tuple[Hashes, NDArray[np.int64]]:
    """Hash the words of texts (text t ends at byte ends[t]); also return where the words of each text begin.

    A word is a run of ASCII letters, digits and bytes of other scripts; ASCII letters count as lower case.
    """
    words, starts = np.empty(len(text) // 2 + 1, np.uint64), np.zeros(len(ends) + 1, np.int64)
    count, place = 0, 0
    for row in range(len(ends)):
        h, inside = FNV_START, False
        while place <= ends[row]:
            c = text[place] if place < ends[row] else np.uint8(32)
            if np.uint8(65) <= c <= np.uint8(90):
                c |= np.uint8(32)
            if np.uint8(97) <= c <= np.uint8(122) or np.uint8(48) <= c <= np.uint8(57) or c >= np.uint8(128):
                h, inside = (h ^ np.uint64(c)) * FNV_PRIME, True
            elif inside:
                words[count] = h
                count += 1
                h, inside = FNV_START, False
            place += 1
        place = ends[row]
        starts[row + 1] = count
    return words[:count].copy(), starts


@kernel
def run_hashes(words: Hashes) -> Hashes:
    """Return the sorted distinct hashes of all runs of five words of one text."""
    runs = np.empty(max(len(words) - RUN + 1, 0), np.uint64)
    for first in range(len(runs)):
        h = FNV_START
        for place in range(first, first + RUN):
            h = (h ^ words[place]) * MIX
            h ^= h >> np.uint64(29)
        runs[first] = h
    return np.unique(runs)


@kernel
def sketches(words: Hashes, starts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the smallest hashes of runs of each text, in a row of `SKETCH`; NONE where there are fewer."""
    found = np.full((len(starts) - 1, SKETCH), NONE, np.uint64)
    for row in range(len(starts) - 1):
        runs = run_hashes(words[starts[row] : starts[row + 1]])
        least = min(len(runs), SKETCH)
        found[row, :least] = runs[:least]
    return found


@kernel
def shared_runs(one: Hashes, other: Hashes) -> int:
    """Count the hashes that two sorted arrays share."""
    a, b, shared = 0, 0, 0
    while a < len(one) and b < len(other):
        if one[a] == other[b]:
            a, b, shared = a + 1, b + 1, shared + 1
        elif one[a] < other[b]:
            a += 1
        else:
            b += 1
    return shared
