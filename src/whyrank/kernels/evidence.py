"""What a user has said and what was said of an item, as additions to scores."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels import kernel


@kernel
def _amount(count: int, scale: float, row_scale: float, logs: bool) -> float:
    value = count * scale * row_scale
    return math.log1p(value) if logs else value


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
    user_scale: NDArray[np.float64],
    item_scale: NDArray[np.float64],
    user_row_scale: NDArray[np.float64],
    item_row_scale: NDArray[np.float64],
    logs: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Per pair, over E_u and E_i: n_ue x scale_e x scale_u plus the same for the item; with `logs`, log(1 + each).

    Answers a sparse matrix with one line per pair, explanations rising; -1 for a user or an item adds nothing.
    """
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
        while a < a_end or b < b_end:
            mine = user_indices[a] if a < a_end else np.int32(2**31 - 1)
            theirs = item_indices[b] if b < b_end else np.int32(2**31 - 1)
            e = min(mine, theirs)
            value = 0.0
            if mine == e:
                value += _amount(user_counts[a], user_scale[e], user_row_scale[u], logs)
                a += 1
            if theirs == e:
                value += _amount(item_counts[b], item_scale[e], item_row_scale[i], logs)
                b += 1
            explanations[used] = e
            values[used] = value
            used += 1
        indptr[at + 1] = used
    return indptr, explanations[:used], values[:used]
