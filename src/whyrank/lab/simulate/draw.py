"""Random draws with exact counts: everything occurs, nothing twice, and the total is right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
REDRAWS, UNIFORM_REDRAWS = 10, 10
CHUNK = 1 << 17


def spread(
    rng: np.random.Generator, total: int, weights: NDArray[np.floating], caps: NDArray[np.integer] | int
) -> Integers:
    """Split `total` into counts about proportional to weights, each at least 1 and at most its cap."""
    limits = np.broadcast_to(np.asarray(caps, np.int64), weights.shape)
    counts = np.ones(len(weights), np.int64)
    while (left := total - int(counts.sum())) > 0:
        room = np.where(counts < limits, weights, 0.0).astype(np.float64)
        counts += rng.multinomial(left, room / room.sum())
        np.minimum(counts, limits, out=counts)
    return counts


def urn(weights: NDArray[np.float64]) -> NDArray[np.int32]:
    """Numbers repeated in proportion to their weights, so that a weighted draw needs no search."""
    cumulative = np.cumsum(weights)
    balls = max(1 << 16, 16 * len(weights))
    drawn = np.searchsorted(cumulative, (np.arange(balls) + 0.5) * (cumulative[-1] / balls), side="right")
    return np.minimum(drawn, len(weights) - 1).astype(np.int32)


def repeats(keys: Integers) -> NDArray[np.bool_]:
    """True where the same key stands earlier in the array."""
    order = np.argsort(keys, kind="stable")
    repeated = np.zeros(len(keys), np.bool_)
    repeated[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return repeated


def make_distinct(
    rng: np.random.Generator,
    owner: Integers,
    value: Integers,
    width: int,
    redraw: Callable[[Integers], Integers],
) -> None:
    """Change `value` in place until no owner has one twice; `owner` is sorted, values are below `width`.

    Repeats are redrawn from their own law, then uniformly; the last ones are dealt from what is unused.
    """
    suspects = np.arange(len(owner))
    for attempt in range(REDRAWS + UNIFORM_REDRAWS):
        repeated = suspects[repeats(owner[suspects] * width + value[suspects])]
        if not len(repeated):
            return
        value[repeated] = redraw(repeated) if attempt < REDRAWS else rng.integers(width, size=len(repeated))
        touched = np.zeros(owner[-1] + 1, np.bool_)
        touched[owner[repeated]] = True
        suspects = np.flatnonzero(touched[owner])
    for each in np.unique(owner[suspects]):
        start, stop = np.searchsorted(owner, [each, each + 1])
        mine = value[start:stop]  # a view
        again = repeats(mine)
        mine[again] = rng.permutation(np.setdiff1d(np.arange(width), mine))[: again.sum()]


def cover(rng: np.random.Generator, value: Integers, kind: Integers) -> None:
    """Change `value` in place so that every number below len(kind) occurs: like replaces like, where it can.

    Only values that also stand elsewhere are replaced, so nothing is lost; what comes in is new everywhere,
    so an owner's values stay distinct.
    """
    missing = np.flatnonzero(np.bincount(value, minlength=len(kind)) == 0)
    if not len(missing):
        return
    shuffled = rng.permutation(len(value))
    spare = shuffled[repeats(value[shuffled])]
    place_key = _ranked(kind[value[spare]], len(value))
    _, new, old = np.intersect1d(_ranked(kind[missing], len(value)), place_key, return_indices=True)
    value[spare[old]] = missing[new]
    unmatched, unused = np.delete(missing, new), np.delete(spare, old)
    value[unused[: len(unmatched)]] = unmatched


def _ranked(kind: Integers, width: int) -> Integers:
    """Return a distinct key per entry: its kind, and how many of the kind stand before it."""
    order = np.argsort(kind, kind="stable")
    ordered = kind[order]
    keys = np.empty(len(kind), np.int64)
    keys[order] = ordered * width + np.arange(len(kind)) - np.searchsorted(ordered, ordered)
    return keys
