"""Rows that are alike: Jaccard index over their column sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel


@kernel
def shared(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    """How many numbers two sorted arrays without repeats share."""
    i = j = count = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            count += 1
            i += 1
            j += 1
        elif a[i] < b[j]:
            i += 1
        else:
            j += 1
    return count


@kernel
def jaccard(a: NDArray[np.int32], b: NDArray[np.int32]) -> float:
    """|A n B| / |A u B| of two sorted arrays without repeats."""
    both = shared(a, b)
    return both / max(len(a) + len(b) - both, 1)


@kernel
def neighbours(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    inverse_indptr: NDArray[np.int64],
    inverse_indices: NDArray[np.int32],
    rows: NDArray[np.int32],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The k most similar other rows of each given row, best first; ties go to the lower number; -1 where fewer."""
    found = np.full((len(rows), k), -1, np.int32)
    values = np.zeros((len(rows), k), np.float32)
    common = np.zeros(len(indptr) - 1, np.int32)
    touched = np.empty(len(indptr) - 1, np.int32)
    for at in range(len(rows)):
        own = rows[at]
        count = 0
        for entry in range(indptr[own], indptr[own + 1]):
            column = indices[entry]
            for place in range(inverse_indptr[column], inverse_indptr[column + 1]):
                other = inverse_indices[place]
                if common[other] == 0:
                    touched[count] = other
                    count += 1
                common[other] += 1
        size = indptr[own + 1] - indptr[own]
        for place in range(count):
            other = touched[place]
            if other != own:
                union = size + indptr[other + 1] - indptr[other] - common[other]
                _insert(found[at], values[at], other, np.float32(common[other] / union))
            common[other] = 0
    return found, values


@kernel
def _insert(numbers: NDArray[np.int32], values: NDArray[np.float32], number: int, value: np.float32) -> None:
    """Put a number into its place among the best so far, if it belongs there."""
    place = len(numbers)
    while place > 0:
        held = numbers[place - 1]
        if held >= 0 and (values[place - 1] > value or (values[place - 1] == value and held < number)):
            break
        place -= 1
    if place < len(numbers):
        numbers[place + 1 :] = numbers[place:-1].copy()
        values[place + 1 :] = values[place:-1].copy()
        numbers[place], values[place] = number, value


@kernel
def weighted_sets(
    rows: NDArray[np.int32],
    companions_of: NDArray[np.int32],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    companion_indptr: NDArray[np.int64],
    companion_indices: NDArray[np.int32],
    least: NDArray[np.float32],
    pool: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """For each (row, group): every column of every companion of the group, weighted by the companions' similarity.

    The companions of a group are rows too; those whose Jaccard index with the row is 0, or below the row's `least`,
    do not count. Answers a sparse matrix with one line per pair, columns rising.
    """
    starts = np.zeros(len(rows) + 1, np.int64)
    room = np.int64(0)
    for at in range(len(rows)):
        if rows[at] >= 0 and companions_of[at] >= 0:
            for entry in range(companion_indptr[companions_of[at]], companion_indptr[companions_of[at] + 1]):
                other = companion_indices[entry]
                room += indptr[other + 1] - indptr[other]
    columns = np.empty(room, np.int32)
    weights = np.empty(room, np.float32)
    sums = np.zeros(pool, np.float64)
    used = 0
    for at in range(len(rows)):
        own, begin = rows[at], used
        if own >= 0 and companions_of[at] >= 0:
            mine = indices[indptr[own] : indptr[own + 1]]
            for entry in range(companion_indptr[companions_of[at]], companion_indptr[companions_of[at] + 1]):
                other = companion_indices[entry]
                if other == own:
                    continue
                theirs = indices[indptr[other] : indptr[other + 1]]
                similarity = jaccard(mine, theirs)
                if similarity > 0 and np.float32(similarity) >= least[own]:
                    for column in theirs:
                        if sums[column] == 0:
                            columns[used] = column
                            used += 1
                        sums[column] += similarity
        columns[begin:used].sort()
        for place in range(begin, used):
            weights[place] = sums[columns[place]]
            sums[columns[place]] = 0
        starts[at + 1] = used
    return starts, columns[:used], weights[:used]
