"""What sentences tell beside the counts of a reason."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel


@kernel
def familiar_and_detailed(
    rank: NDArray[np.int32],
    explanations: NDArray[np.int32],
    entries: NDArray[np.int64],
    user_mentions: NDArray[np.int64],
    often: NDArray[np.float64],
    details: NDArray[np.int32],
    senses: NDArray[np.int32],
) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """For each reason whether its user knows the aspect (1: mentioned it, 2: does so often), and the detail to tell.

    `often` says from how many items on a user mentions an aspect often. `details` are explanations by entry (empty:
    none); -1 is nothing to tell. Reasons of one list are together, ranks rising; a list tells each sense once, as a
    reason or as a detail.
    """
    familiar, detailed = np.zeros(len(rank), np.int8), np.full(len(rank), -1, np.int32)
    start = 0
    for at in range(len(rank)):
        if user_mentions[at]:
            familiar[at] = 2 if user_mentions[at] >= often[at] else 1
        if at and rank[at] <= rank[at - 1]:
            start = at
        detail = details[entries[at]] if len(details) and entries[at] >= 0 else np.int32(-1)
        if detail < 0:
            continue
        stop, fresh = at + 1, True
        while stop < len(rank) and rank[stop] > rank[stop - 1]:
            stop += 1
        for other in range(start, stop):
            above = other < at and detailed[other] >= 0 and senses[detailed[other]] == senses[detail]
            if senses[detail] >= 0 and (above or senses[explanations[other]] == senses[detail]):
                fresh = False
        if fresh:
            detailed[at] = detail
    return familiar, detailed
