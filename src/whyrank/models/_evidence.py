"""What a user has said and what was said about an item, as additions to scores."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inlined, kernel
from whyrank.index._lookup import place_of


class Strength(NamedTuple):
    """What n of N mentions add: n x of_explanation[e] x weight / (shift + N)^activity."""

    of_explanation: NDArray[np.float64]
    weight: float = 1.0
    shift: float = 0.0
    activity: float = 0.0


@inlined
def _row_scale(row: int, indptr: NDArray[np.int64], counts: NDArray[np.int32], strength: Strength) -> float:
    total = strength.shift
    for at in range(indptr[row], indptr[row + 1]):
        total += counts[at]
    return strength.weight * total**-strength.activity


@inlined
def _amount(count: int, scale: float, row_scale: float, logs: bool) -> float:
    value = count * scale * row_scale
    return math.log1p(value) if logs else value


@kernel
def evidence_of_sides(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    user_indptr: NDArray[np.int64],
    user_indices: NDArray[np.int32],
    user_counts: NDArray[np.int32],
    item_indptr: NDArray[np.int64],
    item_indices: NDArray[np.int32],
    item_counts: NDArray[np.int32],
    scale_of_user: NDArray[np.float64],
    user_weight: float,
    user_shift: float,
    user_activity: float,
    scale_of_item: NDArray[np.float64],
    item_weight: float,
    item_shift: float,
    item_activity: float,
    logs: bool,
) -> tuple[
    NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]
]:
    """As `merged_evidence`, but apart: the sparse matrix of what the users' mentions add, then that of the items'."""
    of_user = Strength(scale_of_user, user_weight, user_shift, user_activity)
    of_item = Strength(scale_of_item, item_weight, item_shift, item_activity)
    a, mine, user_values = _evidence_of_rows(users, user_indptr, user_indices, user_counts, of_user, logs)
    b, theirs, item_values = _evidence_of_rows(items, item_indptr, item_indices, item_counts, of_item, logs)
    return a, mine, user_values.astype(np.float32), b, theirs, item_values.astype(np.float32)


@kernel
def _evidence_of_rows(
    rows: NDArray[np.int32],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    counts: NDArray[np.int32],
    strength: Strength,
    logs: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """What the mentions of each row (-1: none) add."""
    ends = np.zeros(len(rows) + 1, np.int64)
    for at in range(len(rows)):
        ends[at + 1] = ends[at] + (indptr[rows[at] + 1] - indptr[rows[at]] if rows[at] >= 0 else 0)
    explanations, values = np.empty(ends[-1], np.int32), np.empty(ends[-1])
    for at in range(len(rows)):
        if ends[at] < ends[at + 1]:
            first, scale = indptr[rows[at]], _row_scale(rows[at], indptr, counts, strength)
            for place in range(ends[at + 1] - ends[at]):
                e = indices[first + place]
                explanations[ends[at] + place] = e
                values[ends[at] + place] = _amount(counts[first + place], strength.of_explanation[e], scale, logs)
    return ends, explanations, values


@kernel
def merged_evidence(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    user_indptr: NDArray[np.int64],
    user_indices: NDArray[np.int32],
    user_counts: NDArray[np.int32],
    item_indptr: NDArray[np.int64],
    item_indices: NDArray[np.int32],
    item_counts: NDArray[np.int32],
    scale_of_user: NDArray[np.float64],
    user_weight: float,
    user_shift: float,
    user_activity: float,
    scale_of_item: NDArray[np.float64],
    item_weight: float,
    item_shift: float,
    item_activity: float,
    logs: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Per pair, over E_u and E_i: what the user's mentions add plus what the item's do; with `logs`, log(1 + each).

    Answers a sparse matrix with one line per pair, explanations rising; -1 for a user or an item adds nothing.
    Strengths come field by field: numba takes longer to recognize a named tuple than to do all this for one pair.
    """
    of_user = Strength(scale_of_user, user_weight, user_shift, user_activity)
    of_item = Strength(scale_of_item, item_weight, item_shift, item_activity)
    indptr = np.zeros(len(users) + 1, np.int64)
    for at in range(len(users)):
        u, i = users[at], items[at]
        room = user_indptr[u + 1] - user_indptr[u] if u >= 0 else 0
        room += item_indptr[i + 1] - item_indptr[i] if i >= 0 else 0
        indptr[at + 1] = indptr[at] + room
    explanations = np.empty(indptr[-1], np.int32)
    values = np.empty(indptr[-1], np.float32)
    used = 0
    for at in range(len(users)):
        u, i = users[at], items[at]
        a, a_end = (user_indptr[u], user_indptr[u + 1]) if u >= 0 else (np.int64(0), np.int64(0))
        b, b_end = (item_indptr[i], item_indptr[i + 1]) if i >= 0 else (np.int64(0), np.int64(0))
        user_scale = _row_scale(u, user_indptr, user_counts, of_user) if a < a_end else 0.0
        item_scale = _row_scale(i, item_indptr, item_counts, of_item) if b < b_end else 0.0
        while a < a_end or b < b_end:
            mine = user_indices[a] if a < a_end else np.int32(2**31 - 1)
            theirs = item_indices[b] if b < b_end else np.int32(2**31 - 1)
            e = min(mine, theirs)
            value = 0.0
            if mine == e:
                value += _amount(user_counts[a], of_user.of_explanation[e], user_scale, logs)
                a += 1
            if theirs == e:
                value += _amount(item_counts[b], of_item.of_explanation[e], item_scale, logs)
                b += 1
            explanations[used] = e
            values[used] = value
            used += 1
        indptr[at + 1] = used
    return indptr, explanations[:used], values[:used]


@kernel
def shared_evidence(
    users: NDArray[np.int32],
    user_of: NDArray[np.int64],
    items: NDArray[np.int32],
    item_of: NDArray[np.int64],
    user_indptr: NDArray[np.int64],
    user_indices: NDArray[np.int32],
    user_counts: NDArray[np.int32],
    item_indptr: NDArray[np.int64],
    item_indices: NDArray[np.int32],
    item_counts: NDArray[np.int32],
    scale_of_user: NDArray[np.float64],
    user_weight: float,
    user_shift: float,
    user_activity: float,
    scale_of_item: NDArray[np.float64],
    item_weight: float,
    item_shift: float,
    item_activity: float,
    logs: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """`merged_evidence` of pairs that share users and items: pair k has users[user_of[k]] and items[item_of[k]].

    What a user's and an item's mentions add is made once for all pairs, with the same bits.
    """
    of_user = Strength(scale_of_user, user_weight, user_shift, user_activity)
    of_item = Strength(scale_of_item, item_weight, item_shift, item_activity)
    user_ends, mine, of_mine = _evidence_of_rows(users, user_indptr, user_indices, user_counts, of_user, logs)
    item_ends, theirs, of_theirs = _evidence_of_rows(items, item_indptr, item_indices, item_counts, of_item, logs)
    room = 0
    for at in range(len(user_of)):
        u, i = user_of[at], item_of[at]
        room += user_ends[u + 1] - user_ends[u] + item_ends[i + 1] - item_ends[i]
    indptr, used = np.zeros(len(user_of) + 1, np.int64), 0
    explanations, values = np.empty(room, np.int32), np.empty(room, np.float32)
    for at in range(len(user_of)):
        a, a_end = user_ends[user_of[at]], user_ends[user_of[at] + 1]
        b, b_end = item_ends[item_of[at]], item_ends[item_of[at] + 1]
        while a < a_end:  # what the item has before the user's next one is copied at once: items have far more
            until = b + np.searchsorted(theirs[b:b_end], mine[a])
            explanations[used : used + until - b], values[used : used + until - b] = theirs[b:until], of_theirs[b:until]
            used, b, value = used + until - b, until, of_mine[a]
            if b < b_end and theirs[b] == mine[a]:
                value += of_theirs[b]
                b += 1
            explanations[used], values[used] = mine[a], value
            a, used = a + 1, used + 1
        explanations[used : used + b_end - b], values[used : used + b_end - b] = theirs[b:b_end], of_theirs[b:b_end]
        used += b_end - b
        indptr[at + 1] = used
    return indptr, explanations[:used], values[:used]


@kernel
def evidence_at(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    row: NDArray[np.int64],
    explanations: NDArray[np.int32],
    user_indptr: NDArray[np.int64],
    user_indices: NDArray[np.int32],
    user_counts: NDArray[np.int32],
    item_indptr: NDArray[np.int64],
    item_indices: NDArray[np.int32],
    item_counts: NDArray[np.int32],
    scale_of_user: NDArray[np.float64],
    user_weight: float,
    user_shift: float,
    user_activity: float,
    scale_of_item: NDArray[np.float64],
    item_weight: float,
    item_shift: float,
    item_activity: float,
    logs: bool,
    parts: NDArray[np.float32],
) -> None:
    """What the user's mentions (parts[0]) and the item's (parts[1]) add to explanations of pairs (`row`: which)."""
    of_user = Strength(scale_of_user, user_weight, user_shift, user_activity)
    of_item = Strength(scale_of_item, item_weight, item_shift, item_activity)
    before, user_scale, item_scale = -1, 0.0, 0.0
    for at in range(len(row)):
        u, i, e = users[row[at]], items[row[at]], explanations[at]
        if row[at] != before:
            before = row[at]
            user_scale = _row_scale(u, user_indptr, user_counts, of_user) if u >= 0 else 0.0
            item_scale = _row_scale(i, item_indptr, item_counts, of_item) if i >= 0 else 0.0
        parts[0, at], parts[1, at] = 0.0, 0.0
        mine = place_of(user_indptr, user_indices, u, e) if u >= 0 else -1
        theirs = place_of(item_indptr, item_indices, i, e) if i >= 0 else -1
        if mine >= 0:
            parts[0, at] = _amount(user_counts[mine], of_user.of_explanation[e], user_scale, logs)
        if theirs >= 0:
            parts[1, at] = _amount(item_counts[theirs], of_item.of_explanation[e], item_scale, logs)
