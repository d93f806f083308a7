"""Counts alone, in Profile's form, and what lies between them and what Profile learns: for data with few records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.models.profile_records import reason_records
from whyrank.training._metrics import hits
from whyrank.training.checkpoint import Arrays
from whyrank.training.softmax import START

MIXTURES = (0.0, 0.25, 0.5, 0.75, 1.0)  # shares of what was learned
FOLDS = 5
RECORDS = 400  # by which strengths of counts are chosen
STRENGTHS = (1e-4, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)  # of one mention
POWERS = (0.0, 0.5, 1.0)  # of popularity, by which it is divided


def counts_alone(popularity: NDArray[np.int64], factors: int, theta: NDArray[np.float64] | None = None) -> Arrays:
    """What Profile learns, as if it had learned nothing but popularity and the strengths of mentions."""
    pool = len(popularity)
    widths = {"keys": 2 * factors, "first": factors, "second": factors}
    vectors: Arrays = {name: np.zeros((pool, width), np.float32) for name, width in widths.items()}
    share = np.log((popularity + 0.5) / max(popularity.sum(), 1))
    return vectors | {"bias": share.astype(np.float32), "theta": np.array(START) if theta is None else theta}


def mixture(counts: Arrays, learned: Arrays, share: float) -> Arrays:
    """Between counts alone (0) and what was learned (1)."""
    if share == 1:
        return learned
    found = dict(learned) | {"keys": (share * learned["keys"]).astype(np.float32)}
    for name in ("bias", "theta"):
        between = (1 - share) * counts[name] + share * learned[name]
        found[name] = between.astype(learned[name].dtype)
    return found


def best_counts(learn: Triplets, factors: int) -> Arrays:
    """Counts alone, with the strengths by which records are predicted best when each is left out of its own counts.

    Strengths of the user's mentions, of those about the item and of the user's again are chosen in turn.
    """
    chosen = np.sort(np.random.default_rng(0).permutation(learn.records)[:RECORDS])
    lists, pool = reason_records(learn).of(chosen), len(learn.explanations)
    sides = []
    for side in (0, 1):
        sizes = np.diff(lists.places)[side::2]
        inside = np.repeat(np.arange(len(lists.places) - 1) % 2 == side, np.diff(lists.places))
        counts = np.zeros((len(chosen), pool), np.float32)
        counts[np.repeat(np.arange(len(chosen)), sizes), lists.numbers[inside]] = lists.counts[inside]
        sides.append(counts)
    share = np.log((learn.popularity + 0.5) / max(learn.popularity.sum(), 1))
    settings = [(strength, power) for strength in STRENGTHS for power in POWERS]
    picked, added = [(0.03, 0.5)] * 2, [_added(counts, share, 0.03, 0.5) for counts in sides]
    for side in (0, 1, 0):
        rest = share.astype(np.float32) + added[1 - side]
        tries = [_added(sides[side], share, *each) for each in settings]
        best = int(np.argmax([_quality(rest + each, lists.indptr, lists.targets) for each in tries]))
        picked[side], added[side] = settings[best], tries[best]
    theta = [number for strength, power in picked for number in (np.log(strength), power, 0.0)]
    return counts_alone(learn.popularity, factors, np.array(theta))


def _added(
    counts: NDArray[np.float32], share: NDArray[np.float64], strength: float, power: float
) -> NDArray[np.float32]:
    return np.log1p(counts * (strength * np.exp(-power * share)).astype(np.float32))


def _quality(scores: NDArray[np.float32], indptr: NDArray[np.int64], targets: NDArray[np.int32], k: int = 10) -> float:
    """Mean DCG of the k best."""
    k = min(k, scores.shape[1])
    best = np.argpartition(-scores, k - 1, axis=1)[:, :k] if k < scores.shape[1] else np.argsort(-scores, axis=1)
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
    ranked = np.take_along_axis(best, order, 1).astype(np.int32)
    return float((hits(ranked, indptr, targets) / np.log2(np.arange(2, k + 2))).sum(1).mean())
