"""Cut UTF-8 text into words and marks, with a 64-bit hash for each word in lower case."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel

LETTER, DIGIT, APOSTROPHE, HYPHEN, MARK, BREAK, SPACE = 0, 1, 2, 3, 4, 5, 6
FNV_START, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
Bytes = NDArray[np.uint8]
Tokens = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]


@kernel
def hash_bytes(text: Bytes, start: int, stop: int) -> np.uint64:
    """The hash of a word; ASCII letters count as lower case."""
    h = FNV_START
    for p in range(start, stop):
        c = np.uint64(text[p])
        if np.uint64(65) <= c <= np.uint64(90):
            c |= np.uint64(32)
        h = (h ^ c) * FNV_PRIME
    return h


@kernel
def contraction(text: Bytes, start: int, stop: int) -> int:
    """Where the ending of a contraction begins (do|n't, it|'s, we|'ve, could|nt), or `stop`."""
    modal = stop - start > 4 and text[stop - 4] | 32 == 108 and text[stop - 3] | 32 == 100  # no other words end in ldnt
    if modal and text[stop - 2] | 32 == 110 and text[stop - 1] | 32 == 116:
        return stop - 2
    for p in range(max(start + 1, stop - 3), stop):
        if text[p] == 39:
            after = text[p + 1] | 32 if p + 1 < stop else 0
            if after == 116 and stop - p == 2 and p - 1 > start and text[p - 1] | 32 == 110:
                return p - 1
            if stop - p == 2 and (after == 115 or after == 100 or after == 109):
                return p
            if stop - p == 3:
                return p
    return stop


@kernel
def tokenize(text: Bytes, ends: NDArray[np.int64], classes: Bytes) -> Tokens:
    """The tokens of reviews (review r ends at byte ends[r]): hash, first byte, length, review, capitals.

    Capitals: 0 none, 1 the first letter, 2 the second one, too. A word is letters and digits, with apostrophes and
    hyphens inside. Contractions are two tokens. Other marks are tokens of one byte; blanks are none.
    """
    room = len(text) + 1
    hashes, starts = np.empty(room, np.uint64), np.empty(room, np.int64)
    lengths, reviews = np.empty(room, np.int32), np.empty(room, np.int32)
    capital = np.zeros(room, np.uint8)
    n, p = 0, 0
    for r in range(len(ends)):
        end = ends[r]
        while p < end:
            kind = classes[text[p]]
            if kind in (SPACE, APOSTROPHE):
                p += 1
                continue
            first = p
            if kind > DIGIT:
                p += 1
                hashes[n] = hash_bytes(text, first, p)
                starts[n], lengths[n], reviews[n] = first, 1, r
                n += 1
                continue
            while p < end:
                kind = classes[text[p]]
                if kind > DIGIT:
                    inner = kind in (APOSTROPHE, HYPHEN) or (kind in (MARK, BREAK) and classes[text[p - 1]] == DIGIT)
                    if not inner or p + 1 >= end or classes[text[p + 1]] > DIGIT:
                        break
                    if kind >= MARK and (
                        classes[text[p + 1]] != DIGIT or text[p] == 10 or text[p] == 33 or text[p] == 63
                    ):
                        break
                p += 1
            cut = contraction(text, first, p)
            upper = 65 <= text[first] <= 90
            shouted = upper and cut - first > 1 and 65 <= text[first + 1] <= 90
            hashes[n] = hash_bytes(text, first, cut)
            starts[n], lengths[n], reviews[n], capital[n] = first, cut - first, r, 2 if shouted else int(upper)
            n += 1
            if cut < p:
                hashes[n] = hash_bytes(text, cut, p)
                starts[n], lengths[n], reviews[n] = cut, p - cut, r
                n += 1
        p = end
    return hashes[:n].copy(), starts[:n].copy(), lengths[:n].copy(), reviews[:n].copy(), capital[:n].copy()


@kernel
def cut_sentences(ending: NDArray[np.bool_], reviews: NDArray[np.int32], longest: int) -> NDArray[np.int64]:
    """Where sentences begin: after a mark that ends one, with a new review, and after `longest` tokens."""
    cuts = np.empty(len(ending) + 2, np.int64)
    cuts[0] = 0
    n, last = 1, 0
    for i in range(1, len(ending)):
        if ending[i - 1] or reviews[i] != reviews[i - 1] or i - last >= longest:
            cuts[n] = i
            n += 1
            last = i
    cuts[n] = len(ending)
    return cuts[: n + 1].copy()


@kernel
def gather_lines(text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32]) -> NDArray[np.uint8]:
    """The sentences, each followed by a new line."""
    out = np.empty(lengths.sum() + len(lengths), np.uint8)
    p = 0
    for s in range(len(starts)):
        out[p : p + lengths[s]] = text[starts[s] : starts[s] + lengths[s]]
        p += lengths[s]
        out[p] = 10
        p += 1
    return out
