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
