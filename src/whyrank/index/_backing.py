"""How many people stand behind what is said about an item, and which of it is backed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel


@kernel
def backed(
    items: NDArray[np.int32],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    supporting: NDArray[np.int32],
    opposing: NDArray[np.int32],
    standing: NDArray[np.float32],
    worth: NDArray[np.float32],
    backing: float,
    support: int,
    distinctive: float,
    allowed: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """For each item (-1: none) its explanations that are allowed (empty: all) and that enough people support.

    Enough are `support` people, and more than `backing` times those who say the opposite. What stands behind the share
    `distinctive` of the items is left out, and so is what has a worth of -inf. The last array is the worth of each.
    """
    room = 0
    for item in items:
        if item >= 0:
            room += indptr[item + 1] - indptr[item]
    starts, stops = np.empty(len(items), np.int64), np.empty(len(items), np.int64)
    found = np.empty(room, np.int64)
    at = 0
    for row in range(len(items)):
        starts[row] = at
        if items[row] >= 0:
            at = backed_of(
                items[row], indptr, indices, supporting, opposing, standing, worth, backing, support, distinctive,
                allowed, found, at,
            )  # fmt: skip
        stops[row] = at
    return starts, stops, indices[found[:at]], worth[found[:at]] if len(worth) else worth


@inlined
def backed_of(
    item: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    supporting: NDArray[np.int32],
    opposing: NDArray[np.int32],
    standing: NDArray[np.float32],
    worth: NDArray[np.float32],
    backing: float,
    support: int,
    distinctive: float,
    allowed: NDArray[np.bool_],
    found: NDArray[np.int64],
    at: int,
) -> int:
    """Write the entries of one item that are backed to `found` from `at` on; return where they end."""
    for entry in range(indptr[item], indptr[item + 1]):
        e = indices[entry]
        if (len(allowed) and not allowed[e]) or standing[entry] > distinctive:
            continue
        if len(worth) and worth[entry] == -np.inf:
            continue
        if supporting[entry] >= support and supporting[entry] > backing * opposing[entry]:
            found[at] = entry
            at += 1
    return at


@kernel
def first_of_aspects(
    numbers: NDArray[np.int32],
    scores: NDArray[np.float32],
    groups: NDArray[np.int32],
    signs: NDArray[np.int8],
    per_aspect: int,
    consistent: bool,
    n: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Row by row the first `n` candidates of which at most `per_aspect` (0: any number) share a topic, none a sense.

    `groups` are the topic of every explanation, the topic as it is counted, and the sense; -1 is none. If
    `consistent`, what says the opposite of one above it about the same topic is left out.
    """
    rows, candidates = numbers.shape
    chosen = np.full((rows, n), -1, np.int32)
    values = np.full((rows, n), -np.inf, np.float32)
    for row in range(rows):
        taken = 0
        for c in range(candidates):
            if taken == n or numbers[row, c] < 0:
                break
            if fits(chosen[row], taken, numbers[row, c], groups, signs, per_aspect, consistent):
                chosen[row, taken], values[row, taken] = numbers[row, c], scores[row, c]
                taken += 1
    return chosen, values


@kernel
def fits(
    chosen: NDArray[np.int32],
    taken: int,
    candidate: int,
    groups: NDArray[np.int32],
    signs: NDArray[np.int8],
    per_aspect: int,
    consistent: bool,
) -> bool:
    """Whether a list may have one more: its topic has room, none has its sense, and none says the opposite."""
    topic, counted, sense = groups[0, candidate], groups[1, candidate], groups[2, candidate]
    if topic < 0:
        return True
    same = 0
    for place in range(taken):
        other = chosen[place]
        if per_aspect > 0 and sense >= 0 and groups[2, other] == sense:
            return False
        if groups[0, other] == topic and consistent and signs[other] * signs[candidate] < 0:
            return False
        same += 1 if counted >= 0 and groups[1, other] == counted else 0
    return per_aspect == 0 or same < per_aspect
