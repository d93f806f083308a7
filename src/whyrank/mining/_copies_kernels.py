"""Runs of words of texts as hashes, for the search for copies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inner, kernel

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


@inner
def run_hash(words: Hashes, first: int) -> np.uint64:
    """Hash a run of five words."""
    h = FNV_START
    for place in range(first, first + RUN):
        h = (h ^ words[place]) * MIX
        h ^= h >> np.uint64(29)
    return h


@kernel
def hash_runs(words: Hashes, runs: Hashes) -> None:
    """Hash all runs of five words of one text."""
    for first in range(len(runs)):
        runs[first] = run_hash(words, first)


def run_hashes(words: Hashes) -> Hashes:
    """Return the sorted distinct hashes of all runs of five words of one text."""
    runs = np.empty(max(len(words) - RUN + 1, 0), np.uint64)
    hash_runs(words, runs)
    return np.unique(runs)


def sketches(words: Hashes, starts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the smallest hashes of runs of each text, in a row of `SKETCH`; NONE where there are fewer."""
    found = np.full((len(starts) - 1, SKETCH), NONE, np.uint64)
    keep_smallest(words, starts, found)
    return found


@kernel
def keep_smallest(words: Hashes, starts: NDArray[np.int64], found: NDArray[np.uint64]) -> None:
    """Keep the smallest distinct hashes of runs of each text, in order."""
    for row in range(len(starts) - 1):
        for first in range(starts[row], starts[row + 1] - RUN + 1):
            h = run_hash(words, first)
            place = SKETCH
            while place > 0 and found[row, place - 1] > h:
                place -= 1
            if place == SKETCH or (place > 0 and found[row, place - 1] == h):
                continue
            for later in range(SKETCH - 1, place, -1):
                found[row, later] = found[row, later - 1]
            found[row, place] = h


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
