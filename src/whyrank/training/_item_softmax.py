"""Softmax over what people say about a record's item, the record's own included (see training/_profile.py)."""

from __future__ import annotations

import numpy as np

from whyrank.compile import inlined, kernel
from whyrank.simd import fetch_row
from whyrank.training._profile import AHEAD, Doubles, Floats, Ints, Longs, _add_row, _evidence_of, _score, _theta


@kernel
def item_softmax_step(
    target_indptr: Longs, targets: Ints, numbers: Ints, counts: Floats, places: Longs, x: Floats, keys: Floats,
    bias: Floats, log_share: Doubles, powers: Doubles, theta: Doubles, dx: Floats, coefficients: Floats,
    target_coefficients: Floats, place_of: Ints, dtheta: Doubles,
) -> float:  # fmt: skip
    """As `softmax_step`, but the partition function has the entries of the item's profile and the record's own alone.

    What the record alone says about the item stands in no profile: its gradient, one less than its probability, goes to
    `target_coefficients`, as that of all targets does.
    """
    width, loss, longest = x.shape[1], 0.0, 0
    for k in range(x.shape[0]):
        longest = max(longest, places[2 * k + 2] - places[2 * k])
    seen, where = np.empty(longest, np.int32), np.empty(longest, np.int64)
    amount_a, amount_b, base = np.empty(longest), np.empty(longest), np.empty(longest)
    for k in range(x.shape[0]):
        n, log_a, log_b = _evidence_of(
            k, numbers, counts, places, powers, theta, place_of, seen, where, amount_a, amount_b
        )
        begin, end = target_indptr[k], target_indptr[k + 1]
        z = 0.0
        for c in range(n):
            if c + AHEAD < n:
                fetch_row(keys, seen[c + AHEAD])
            base[c] = 0.0
            if amount_b[c] > 0:
                base[c] = np.exp(min(_score(x, k, keys, seen[c], bias), np.float32(60)))
                z += base[c] * (1 + amount_a[c]) * (1 + amount_b[c])
        for t in range(begin, end):
            a, b = _amounts(place_of[targets[t]], amount_a, amount_b)
            if b == 0:
                z += np.exp(min(_score(x, k, keys, targets[t], bias), np.float32(60))) * (1 + a)
        scale, log_z = (end - begin) / z, np.log(z)
        for c in range(n):
            if amount_b[c] > 0:
                e, a, b = seen[c], amount_a[c], amount_b[c]
                g = np.float32(scale * base[c] * (1 + a) * (1 + b))
                coefficients[where[c]] = g
                _add_row(g, keys, e, 0, dx, k, 0, width)
                _theta(dtheta, scale * base[c] * a * (1 + b), scale * base[c] * b * (1 + a), log_share[e], log_a, log_b)
        for t in range(begin, end):
            e = targets[t]
            score = np.float64(_score(x, k, keys, e, bias))
            a, b = _amounts(place_of[e], amount_a, amount_b)
            chance = scale * np.exp(min(score, 60.0)) * (1 + a) if b == 0 else 0.0
            g = np.float32(chance - 1)
            target_coefficients[t] = g
            _add_row(g, keys, e, 0, dx, k, 0, width)
            _theta(dtheta, (chance - 1) * a / (1 + a), -b / (1 + b), log_share[e], log_a, log_b)
            loss -= score + np.log((1 + a) * (1 + b)) - log_z
        for c in range(n):
            place_of[seen[c]] = 0
    return loss


@inlined
def _amounts(place: int, amount_a: Doubles, amount_b: Doubles) -> tuple[float, float]:
    """Both sides' evidence of an explanation that is at a place, counted from one; none where it is zero."""
    if place > 0:
        return amount_a[place - 1], amount_b[place - 1]
    return 0.0, 0.0
