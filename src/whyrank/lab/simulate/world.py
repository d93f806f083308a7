"""The planted truth: what users care for, what items offer, and what is then said."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.lab.simulate.draw import CHUNK, Integers
from whyrank.lab.simulate.pool import aspect_weights

Floats = NDArray[np.float32]
GROUPS = 24  # kinds of people (families, business travellers, ...), and as many kinds of items


class World(NamedTuple):
    """What the records are drawn from."""

    preference: Floats  # user x aspect, rows sum to 1
    generosity: Floats  # user
    group: NDArray[np.int8]  # user
    profile: Floats  # item x aspect, rows sum to 1
    quality: Floats  # item x aspect, 0 is ordinary
    affinity: Floats  # group x item


def build_world(users: int, items: int, aspects: int, rng: np.random.Generator) -> World:
    """Draw tastes, profiles and qualities; people and items of a kind resemble each other."""
    base = aspect_weights(aspects)
    tastes = rng.dirichlet(4.0 * base, size=GROUPS)
    group = rng.integers(GROUPS, size=users, dtype=np.int8)
    # The pickier a user, the fewer aspects matter to them.
    preference = _leanings(rng, tastes, group, rng.uniform(0.8, 2.0, size=users), base)
    segments = rng.dirichlet(4.0 * base, size=GROUPS)
    segment = rng.integers(GROUPS, size=items, dtype=np.int8)
    profile = _leanings(rng, segments, segment, rng.uniform(0.6, 1.2, size=items), base)
    quality = rng.normal(0.0, 0.6, size=(items, 1)) + rng.normal(0.0, 0.7, size=(items, aspects))
    generosity = rng.normal(0.0, 0.5, size=users)
    # Not a matrix product: BLAS may round differently with another number of threads.
    affinity = np.einsum("ga,ia->gi", (tastes / np.sqrt(base)).astype(np.float32), profile)
    return World(preference, generosity.astype(np.float32), group, profile, quality.astype(np.float32), affinity)


def _leanings(
    rng: np.random.Generator,
    centres: NDArray[np.float64],
    group: NDArray[np.int8],
    pickiness: NDArray[np.float64],
    base: NDArray[np.float64],
) -> Floats:
    """Weights over aspects, one row each: log-normal around the kind's centre, and some of what all share."""
    drawn = np.empty((len(group), centres.shape[1]), np.float32)
    logs, common = np.log(centres + 1e-3).astype(np.float32), (0.05 * base).astype(np.float32)
    for start in range(0, len(group), CHUNK):
        rows = drawn[start : start + CHUNK]  # a view
        rng.standard_normal(dtype=np.float32, out=rows)
        rows *= pickiness[start : start + CHUNK, None].astype(np.float32)
        rows += logs[group[start : start + CHUNK]]
        np.exp(rows, out=rows)
        rows *= 0.95 / rows.sum(axis=1, keepdims=True)
        rows += common
    return drawn


def draw_cells(rng: np.random.Generator, user: Integers, item: Integers, world: World) -> Integers:
    """Draw what is said: an aspect that matters to the user and marks the item, praised where the item is good."""
    steps = world.preference[user]
    steps *= world.profile[item]
    np.cumsum(steps, axis=1, out=steps)
    target = rng.random(len(user), dtype=np.float32) * steps[:, -1]
    aspect = np.minimum((steps <= target[:, None]).sum(axis=1), steps.shape[1] - 1)
    pleasure = 2.5 * (world.quality[item, aspect] + world.generosity[user] + 0.4)
    praised = rng.random(len(user)) < 1.0 / (1.0 + np.exp(-pleasure))
    return np.asarray(2 * aspect + praised, np.int64)
