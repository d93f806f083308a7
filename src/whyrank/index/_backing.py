"""How many people stand behind what is said about an item, and which of it is backed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.index._lookup import count_at, place_of


@kernel
def backed(
    items: NDArray[np.int32],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    supporting: NDArray[np.int32],
    aspect: NDArray[np.int32],
    signs: NDArray[np.int8],
    aspect_indptr: NDArray[np.int64],
    aspect_indices: NDArray[np.int32],
    praising: NDArray[np.int32],
    blaming: NDArray[np.int32],
    people: NDArray[np.int64],
    standing: NDArray[np.float32],
    backing: float,
    support: int,
    distinctive: float,
    allowed: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """For each item (-1: none) its explanations that are allowed (empty: all) and that enough people support.

    Enough are `support` people (one for items with fewer than five times as many), and more than `backing` times those
    who say the opposite about the same aspect. What stands behind the share `distinctive` of the items is left out.
    """
    room = 0
    for item in items:
        if item >= 0:
            room += indptr[item + 1] - indptr[item]
    starts, stops = np.empty(len(items), np.int64), np.empty(len(items), np.int64)
    found = np.empty(room, np.int32)
    at = 0
    for row in range(len(items)):
        starts[row] = at
        if items[row] >= 0:
            at = backed_of(
                items[row], indptr, indices, supporting, aspect, signs, aspect_indptr, aspect_indices, praising,
                blaming, people, standing, backing, support, distinctive, allowed, found, at,
            )  # fmt: skip
        stops[row] = at
    return starts, stops, found[:at]


@inlined
def backed_of(
    item: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    supporting: NDArray[np.int32],
    aspect: NDArray[np.int32],
    signs: NDArray[np.int8],
    aspect_indptr: NDArray[np.int64],
    aspect_indices: NDArray[np.int32],
    praising: NDArray[np.int32],
    blaming: NDArray[np.int32],
    people: NDArray[np.int64],
    standing: NDArray[np.float32],
    backing: float,
    support: int,
    distinctive: float,
    allowed: NDArray[np.bool_],
    found: NDArray[np.int32],
    at: int,
) -> int:
    """Write what is backed of one item to `found` from `at` on; returns where it ends."""
    for entry in range(indptr[item], indptr[item + 1]):
        e = indices[entry]
        if (len(allowed) and not allowed[e]) or standing[entry] > distinctive:
            continue
        if supporting[entry] < support and people[item] >= 5 * support:
            continue
        against = 0
        if aspect[e] >= 0 and signs[e] != 0:
            place = place_of(aspect_indptr, aspect_indices, item, aspect[e])
            if place >= 0:
                against = blaming[place] if signs[e] > 0 else praising[place]
        if supporting[entry] > backing * against:
            found[at] = e
            at += 1
    return at


@kernel
def counts_of_people(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    row: NDArray[np.int64],
    explanations: NDArray[np.int32],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    counts: NDArray[np.int32],
    supporting: NDArray[np.int32],
    user_indptr: NDArray[np.int64],
    user_indices: NDArray[np.int32],
    user_counts: NDArray[np.int32],
    aspect: NDArray[np.int32],
    signs: NDArray[np.int8],
    aspect_indptr: NDArray[np.int64],
    aspect_indices: NDArray[np.int32],
    mentions: NDArray[np.int32],
    praising: NDArray[np.int32],
    blaming: NDArray[np.int32],
    own_indptr: NDArray[np.int64],
    own_indices: NDArray[np.int32],
    own_counts: NDArray[np.int32],
    seen_indptr: NDArray[np.int64],
    latest: NDArray[np.int64],
    found: NDArray[np.int32],
    entries: NDArray[np.int64],
    times: NDArray[np.int64],
) -> None:
    """Eight counts of each explanation of a pair (`row`: which user and item) into `found`; where item and explanation
    stand among the entries of their relation; and when that was last said (0: unknown, as where `latest` is empty).

    In this order: records of the item, records of the user, people who say it about the item, who say the opposite
    about its aspect, who say as much about its aspect, who mention its aspect, items of which the user mentions it,
    items of the user. Unknown users and items (-1) have none. One call for what would take NumPy fifty.
    """
    for at in range(len(row)):
        found[:, at], entries[at], times[at] = 0, -1, 0
        user, item, e = users[row[at]], items[row[at]], explanations[at]
        a = aspect[e]
        if item >= 0:
            entry = place_of(indptr, indices, item, e)
            entries[at] = entry
            if entry >= 0:
                found[0, at], found[2, at] = counts[entry], supporting[entry]
                if len(latest):
                    times[at] = latest[entry]
            place = place_of(aspect_indptr, aspect_indices, item, a) if a >= 0 else -1
            if place >= 0:
                found[5, at] = mentions[place]
                if signs[e] > 0:
                    found[3, at], found[4, at] = blaming[place], praising[place]
                elif signs[e] < 0:
                    found[3, at], found[4, at] = praising[place], blaming[place]
        if user >= 0:
            found[1, at] = count_at(user_indptr, user_indices, user_counts, user, e)
            found[7, at] = seen_indptr[user + 1] - seen_indptr[user]
            if a >= 0:
                found[6, at] = count_at(own_indptr, own_indices, own_counts, user, a)


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
