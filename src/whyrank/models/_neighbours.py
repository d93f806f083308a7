"""What neighbours say, weighted by how alike they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.explain._neighbours import jaccard


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
