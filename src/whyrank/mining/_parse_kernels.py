"""Kernels of the parser. All sums are of whole numbers, so that their order does not matter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inner, kernel

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
LIMIT = 127  # of all numbers that are multiplied
NOTHING = -(2**30)  # the score of what may not be


@kernel
def add_embeddings(table: NDArray[np.int8], rows: Ints, sums: Floats) -> None:
    """Add the rows of each word, within the limit."""
    for word in range(len(rows)):
        for j in range(table.shape[1]):
            total = 0
            for row in rows[word]:
                total += table[row, j]
            sums[word, j] = min(max(total, -LIMIT), LIMIT)


@kernel
def apply_first_layer(
    vectors: Floats, products: Floats, types: Ints, sentences: Ints, norm: Floats, out: Floats
) -> None:
    """Apply the first layer to words whose types have been multiplied with its three matrices."""
    width = vectors.shape[1]
    total = np.empty(width, np.float32)
    for s in range(len(sentences) - 1):
        for i in range(sentences[s], sentences[s + 1]):
            for j in range(width):
                total[j] = products[types[i], width + j]
            if i > sentences[s]:
                for j in range(width):
                    total[j] += products[types[i - 1], j]
            if i + 1 < sentences[s + 1]:
                for j in range(width):
                    total[j] += products[types[i + 1], 2 * width + j]
            add_normalized(vectors[types[i]], total, norm, out[i])


@kernel
def gather_windows(x: Floats, sentences: Ints, first: int, reach: int, out: Floats) -> None:
    """Write each word's neighbours side by side, zeros beyond its sentence."""
    width = x.shape[1]
    s = 0
    last = len(sentences) - 1
    while s + 1 < last:  # the sentence of the first row
        middle = (s + last) // 2
        if sentences[middle] <= first:
            s = middle
        else:
            last = middle
    for row in range(len(out)):
        i = first + row
        while i >= sentences[s + 1]:
            s += 1
        for k in range(2 * reach + 1):
            j = i + k - reach
            inside = sentences[s] <= j < sentences[s + 1]
            for column in range(width):
                out[row, k * width + column] = x[j, column] if inside else 0.0


@kernel
def add_layer(x: Floats, y: Floats, norm: Floats, out: Floats) -> None:
    """Add what a layer found to what flows past it."""
    for i in range(len(x)):
        add_normalized(x[i], y[i], norm, out[i])


@inner
def add_normalized(x: Floats, y: Floats, norm: Floats, out: Floats) -> None:
    """Write x + relu(y normalized, times norm[0], plus norm[1]), rounded and within the limit."""
    total, squares = np.int64(0), np.int64(0)
    for j in range(len(y)):
        value = np.int64(np.int32(y[j]))
        total += value
        squares += value * value
    n = len(y)
    mean = np.float32(total / n)
    scale = np.float32(1 / np.sqrt((n * squares - total * total) / (n * n) + norm[2, 0]))
    limit, zero = np.float32(LIMIT), np.float32(0)
    for j in range(len(y)):
        found = (y[j] - mean) * scale * norm[0, j] + norm[1, j]
        out[j] = min(np.rint(x[j] + max(found, zero)), limit)


@kernel
def round_roles(sums: Floats, bias: Ints, out: NDArray[np.int16]) -> None:
    """Add the bias, divide by 64, round, and stay within the limit."""
    for i in range(len(sums)):
        for j in range(len(bias)):
            whole = (np.int32(sums[i, j]) + bias[j] + 32) >> 6
            out[i, j] = min(max(whole, -LIMIT), LIMIT)


@kernel
def choose_columns(scores: Floats, bias: Ints, out: NDArray[np.int8]) -> None:
    """Choose the best column of every row."""
    for i in range(len(scores)):
        best = 0
        for j in range(1, len(bias)):
            if np.int32(scores[i, j]) + bias[j] > np.int32(scores[i, best]) + bias[best]:
                best = j
        out[i] = best


@kernel
def add_pairs(roles: NDArray[np.int16], heads: Ints, root: NDArray[np.int8], out: Floats) -> None:
    """Add what each word and its head say of the label between them, not less than 0."""
    width = root.shape[1]
    for i in range(len(heads)):
        for j in range(width):
            above = roles[heads[i], 3 * width + j] if heads[i] != i else np.int16(root[1, j])
            out[i, j] = min(max(roles[i, 2 * width + j] + above, 0), LIMIT)


@kernel
def choose_heads(
    roles: NDArray[np.int16], sentences: Ints, root: NDArray[np.int8], distance: Ints, heads: Ints
) -> None:
    """Choose the head of every word: trees, of which a sentence may have several."""
    longest = 0
    for s in range(len(sentences) - 1):
        longest = max(longest, sentences[s + 1] - sentences[s])
    scores = np.empty((longest, longest), np.int32)
    mark = np.empty(longest, np.int32)
    for s in range(len(sentences) - 1):
        first, n = sentences[s], sentences[s + 1] - sentences[s]
        score_arcs(roles[first : first + n], root, distance, scores)
        own = heads[first : first + n]
        for i in range(n):
            own[i] = 0
            for j in range(1, n):
                if scores[i, j] > scores[i, own[i]]:
                    own[i] = j
        break_cycles(scores, own, mark)
        own += first


@inner
def score_arcs(roles: NDArray[np.int16], root: NDArray[np.int8], distance: Ints, scores: NDArray[np.int32]) -> None:
    """Score every word as the head of every other one; a word as its own head is a root."""
    width, n, far = root.shape[1], len(roles), len(distance) // 2 - 1
    for i in range(n):
        for j in range(n):
            total = np.int32(0)
            if i == j:
                for k in range(width):
                    total += np.int32(roles[i, k]) * np.int32(root[0, k])
                scores[i, j] = total + distance[-1]
            else:
                for k in range(width):
                    total += np.int32(roles[i, k]) * np.int32(roles[j, width + k])
                scores[i, j] = total + distance[min(max(j - i, -far), far) + far]


@inner
def break_cycles(scores: NDArray[np.int32], heads: Ints, mark: Ints) -> None:
    """Break every cycle where another head, outside of what hangs on the cycle, costs least."""
    n = len(heads)
    start = 0
    while start < n:
        inside = find_cycle(heads, start, mark[:n])
        if inside < 0:
            start += 1
            continue
        mark_below(heads, inside, mark[:n])
        word, least = inside, NOTHING
        best_word, best_head = inside, inside
        while True:
            for j in range(n):
                if mark[j] == 0 or j == word:
                    change = scores[word, j] - scores[word, heads[word]]
                    if change > least:
                        least, best_word, best_head = change, word, j
            word = heads[word]
            if word == inside:
                break
        heads[best_word] = best_head


@inner
def find_cycle(heads: Ints, start: int, mark: Ints) -> int:
    """Return a word of the cycle above a word; -1 where there is none."""
    mark[:] = 0
    i = start
    while heads[i] != i:
        if mark[i]:
            return i
        mark[i] = 1
        i = heads[i]
    return -1


@inner
def mark_below(heads: Ints, inside: int, mark: Ints) -> None:
    """Mark all words that hang on a cycle, and those in it."""
    for start in range(len(heads)):
        i, steps = start, 0
        while heads[i] != i and i != inside and steps <= len(heads):
            i = heads[i]
            steps += 1
        mark[start] = i == inside
