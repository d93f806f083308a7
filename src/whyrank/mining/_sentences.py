"""Cut UTF-8 text into sentences and give each a 64-bit key that depends only on its set of word shingles."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whyrank.compile import kernel

# Classes of bytes, in an order that lets one comparison ask for two. Bytes of multi-byte characters are LETTER:
# punctuation beyond ASCII is mapped to ASCII beforehand.
LETTER, DIGIT, SPACE, HYPHEN, APOSTROPHE, AMPERSAND, BOUNDARY = 0, 1, 2, 3, 4, 5, 6

# Why a sentence is not kept; the order of the counts that `split_sentences` returns.
KEPT, SHORT, LONG, PERSONAL, GARBLED, REPEATED, FOREIGN = 0, 1, 2, 3, 4, 5, 6
CAUSES = 7
EXAMPLES = 5  # examples remembered per cause

FNV_START, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
AND = np.uint64(0x89B986FFFF968049)  # the hash of `and`

Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]
Split = tuple[
    Hashes,
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.bool_],
]


@njit(nogil=True, inline="always")
def mix(h: np.uint64) -> np.uint64:
    """A bijection of 64 bits that spreads every input bit over the output."""
    h ^= h >> np.uint64(30)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(27)
    h *= np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel
def hash_word(word: Bytes) -> np.uint64:
    """The hash of one word given in lower case, as `scan_sentence` computes it."""
    h = FNV_START
    for c in word:
        h = (h ^ np.uint64(c)) * FNV_PRIME
    return mix(h)


@kernel
def word_table(hashes: Hashes) -> Hashes:
    """An open-addressing table of word hashes, at most a quarter full; 0 marks a free slot."""
    slots = 8
    while slots < 4 * len(hashes):
        slots *= 2
    table = np.zeros(slots, np.uint64)
    for h in hashes:
        slot = h & np.uint64(slots - 1)
        while table[slot] != 0:
            slot = (slot + np.uint64(1)) & np.uint64(slots - 1)
        table[slot] = h
    return table


@njit(nogil=True, inline="always")
def in_table(table: Hashes, h: np.uint64) -> bool:
    last = np.uint64(len(table) - 1)
    slot = h & last
    while table[slot] != 0:
        if table[slot] == h:
            return True
        slot = (slot + np.uint64(1)) & last
    return False


@njit(nogil=True, inline="always")
def joins(text: Bytes, p: int, end: int, kind: int, classes: Bytes) -> bool:
    """Whether the byte at p, neither letter nor digit, continues a word: don't, B&B, 3.5, 1,000, 7:30."""
    if p == 0 or p >= end - 1:
        return False
    before, after = classes[text[p - 1]], classes[text[p + 1]]
    if APOSTROPHE <= kind <= AMPERSAND:
        return before <= DIGIT and after <= DIGIT
    return kind == BOUNDARY and before == DIGIT and after == DIGIT and text[p] != 10


@njit(nogil=True, inline="always")
def breaks(text: Bytes, p: int, end: int, kind: int, classes: Bytes, dashes: bool) -> bool:
    """Whether a sentence ends at p: a boundary byte or, with `dashes`, a spaced dash or a gap of three spaces."""
    if kind == BOUNDARY:
        return True
    if not dashes or p >= end - 1:
        return False
    after = classes[text[p + 1]]
    if kind == HYPHEN:
        return SPACE <= after <= HYPHEN or p == 0 or classes[text[p - 1]] == SPACE
    return kind == SPACE and after == SPACE and p + 2 < end and classes[text[p + 2]] == SPACE


@kernel
def scan_sentence(
    text: Bytes,
    p: int,
    end: int,
    classes: Bytes,
    dashes: bool,
    personal: Hashes,
    words: Hashes,
    places: NDArray[np.int64],
) -> tuple[int, bool, int]:
    """Hash the words from byte p to the end of the sentence into `words`, their first and last bytes into `places`.

    Returns the number of words, whether one is personal, and the byte after the sentence. The part of a word before
    an apostrophe is looked up as well, so that `I'm` is personal because `I` is. ASCII letters count as lower case.
    """
    count, found = 0, False
    while p < end:
        kind = classes[text[p]]
        if kind > DIGIT:
            if kind == AMPERSAND:  # alone: the word `and`
                words[count] = AND
                places[2 * count], places[2 * count + 1] = p, p + 1
                count += 1
            elif breaks(text, p, end, kind, classes, dashes):
                return count, found, p + 1
            p += 1
            continue
        places[2 * count] = p
        h = FNV_START
        while p < end:
            c = text[p]
            kind = classes[c]
            if kind > DIGIT:
                if not joins(text, p, end, kind, classes):
                    break
                if kind == APOSTROPHE and in_table(personal, mix(h)):
                    found = True
            h = (h ^ (np.uint64(c) | (np.uint64(32) if 65 <= c <= 90 else np.uint64(0)))) * FNV_PRIME
            p += 1
        words[count] = mix(h)
        places[2 * count + 1] = p
        found = found or in_table(personal, words[count])
        count += 1
    return count, found, p


@kernel
def shingle_set(words: Hashes, first: int, count: int, size: int, out: Hashes) -> int:
    """The distinct shingles of `size` words, sorted, into `out`, and how many; a shorter sentence is one shingle."""
    n = max(1, count - first - size + 1)
    for s in range(n):
        h = np.uint64(0x9E3779B97F4A7C15)
        for w in range(first + s, min(first + s + size, count)):
            h = mix((h * np.uint64(0x2545F4914F6CDD1D)) ^ words[w])
        out[s] = h
    if n > 48:
        out[:n] = np.sort(out[:n])
    else:
        for i in range(1, n):  # insertion sort: sentences are short
            h, j = out[i], i - 1
            while j >= 0 and out[j] > h:
                out[j + 1] = out[j]
                j -= 1
            out[j + 1] = h
    kept = 1
    for i in range(1, n):
        if out[i] != out[kept - 1]:
            out[kept] = out[i]
            kept += 1
    return kept


@njit(nogil=True, inline="always")
def set_key(shingles: Hashes, count: int) -> np.uint64:
    """The key of a set of shingles; never 0."""
    total = np.uint64(count)
    for i in range(count):
        total += mix(shingles[i] ^ np.uint64(0xD6E8FEB86659FD93))
    return mix(total) | np.uint64(1)


@kernel
def split_sentences(
    text: Bytes,
    ends: NDArray[np.int64],
    classes: Bytes,
    personal: Hashes,
    openers: Hashes,
    articles: Hashes,
    english: Hashes,
    dashes: bool,
    min_words: int,
    max_words: int,
    size: int,
    english_share: float,
    english_words: int,
) -> Split:
    """Cut reviews (review r ends at byte ends[r]) into sentences and keep those worth counting, once per review.

    Leading openers are cut off. A leading article stays in the sentence but not in its key or its number of words.
    Returns per kept sentence its key, first byte, length, review and number of shingles; then the counts by cause,
    example places by cause, and which reviews are not in English.
    """
    room = len(text) // 2 + len(ends) + 1  # a kept sentence has a word and a boundary: at least two bytes
    keys, starts = np.empty(room, np.uint64), np.empty(room, np.int64)
    lengths, reviews, sizes = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    counts, examples = np.zeros(CAUSES, np.int64), np.zeros((CAUSES, EXAMPLES, 2), np.int64)
    foreign = np.zeros(len(ends), np.bool_)
    longest, previous = 0, 0
    for r in range(len(ends)):
        longest, previous = max(longest, ends[r] - previous), ends[r]
    words, places = np.empty(longest + 1, np.uint64), np.empty(2 * longest + 2, np.int64)
    shingles = np.empty(longest + 1, np.uint64)
    slots = 8  # of a hash table of the keys of one review, for all reviews in turn
    while slots < longest + 2:
        slots *= 2
    said, said_in = np.empty(slots, np.uint64), np.full(slots, -1, np.int64)
    n, p = 0, 0
    for r in range(len(ends)):
        end, first_kept = ends[r], n  # a new line stands between reviews: nothing looks across it
        known, total = 0, 0
        while p < end:
            count, is_personal, p = scan_sentence(text, p, end, classes, dashes, personal, words, places)
            if count == 0:
                continue
            for w in range(count):
                known += in_table(english, words[w])
            total += count
            first = 0
            while first < count - 1 and in_table(openers, words[first]):
                first += 1
            begin, finish = places[2 * first], places[2 * count - 1]
            lead = first + (first < count - 1 and in_table(articles, words[first]))
            cause = KEPT
            if count - lead < min_words:
                cause = SHORT
            elif max_words > 0 and count - lead > max_words:
                cause = LONG
            elif is_personal:
                cause = PERSONAL
            else:
                for q in range(begin, finish - 2):
                    if text[q] == 0xEF and text[q + 1] == 0xBF and text[q + 2] == 0xBD:
                        cause = GARBLED
            if cause == KEPT:
                distinct = shingle_set(words, lead, count, size, shingles)
                key = set_key(shingles, distinct)
                slot = key & np.uint64(slots - 1)
                while said_in[slot] == r and said[slot] != key:
                    slot = (slot + np.uint64(1)) & np.uint64(slots - 1)
                if said_in[slot] == r:
                    cause = REPEATED
                else:
                    said[slot], said_in[slot] = key, r
                    keys[n], starts[n], lengths[n] = key, begin, finish - begin
                    reviews[n], sizes[n] = r, distinct
                    n += 1
            if cause != KEPT:
                if counts[cause] < EXAMPLES:
                    examples[cause, counts[cause], 0], examples[cause, counts[cause], 1] = begin, finish
                counts[cause] += 1
        p = end
        if total >= english_words and known < english_share * total:
            foreign[r] = True
            for k in range(first_kept, min(n, first_kept + EXAMPLES)):
                if counts[FOREIGN] + k - first_kept < EXAMPLES:
                    examples[FOREIGN, counts[FOREIGN] + k - first_kept, 0] = starts[k]
                    examples[FOREIGN, counts[FOREIGN] + k - first_kept, 1] = starts[k] + lengths[k]
            counts[FOREIGN] += n - first_kept
            n = first_kept
    counts[KEPT] = n
    return keys[:n], starts[:n], lengths[:n], reviews[:n], sizes[:n], counts, examples, foreign


@kernel
def sentence_shingles(
    text: Bytes,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    classes: Bytes,
    articles: Hashes,
    size: int,
) -> tuple[NDArray[np.int64], Hashes]:
    """The sorted shingle sets of kept sentences, one after the other: (indptr, shingles)."""
    indptr = np.zeros(len(starts) + 1, np.int64)
    room, longest = 0, 0
    for s in range(len(starts)):
        room += lengths[s]  # an ampersand is a word of one byte; what is not used takes no memory
        longest = max(longest, lengths[s])
    out, nobody = np.empty(room, np.uint64), np.zeros(8, np.uint64)
    words, places = np.empty(longest + 1, np.uint64), np.empty(2 * longest + 2, np.int64)
    shingles = np.empty(longest + 1, np.uint64)
    n = 0
    for s in range(len(starts)):
        count, _, _ = scan_sentence(text, starts[s], starts[s] + lengths[s], classes, False, nobody, words, places)
        lead = int(count > 1 and in_table(articles, words[0]))
        distinct = shingle_set(words, lead, count, size, shingles)
        out[n : n + distinct] = shingles[:distinct]
        n += distinct
        indptr[s + 1] = n
    return indptr, out[:n]


@kernel
def set_keys(indptr: NDArray[np.int64], shingles: Hashes) -> Hashes:
    """The key of each shingle set of `sentence_shingles`."""
    keys = np.empty(len(indptr) - 1, np.uint64)
    for s in range(len(keys)):
        keys[s] = set_key(shingles[indptr[s] : indptr[s + 1]], indptr[s + 1] - indptr[s])
    return keys


@kernel
def gather_lines(text: Bytes, starts: NDArray[np.int64], lengths: NDArray[np.int32]) -> Bytes:
    """The sentences, each followed by a new line."""
    out = np.empty(lengths.sum() + len(lengths), np.uint8)
    p = 0
    for s in range(len(starts)):
        out[p : p + lengths[s]] = text[starts[s] : starts[s] + lengths[s]]
        p += lengths[s]
        out[p] = 10
        p += 1
    return out
