"""Counts alone, in Profile's form, and what lies between them and what Profile learns: for data with few records."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from whyrank.data.triplets import Triplets
from whyrank.models.profile_records import reason_records
from whyrank.training._metrics import hits
from whyrank.training._softmax import RecordLists
from whyrank.training.checkpoint import Arrays
from whyrank.training.softmax import START

Floats = NDArray[np.float64]

MIXTURES = (0.0, 0.25, 0.5, 0.75, 1.0)  # shares of what was learned
FOLDS = 5
USER, ITEM = 0, 1  # sides
RECORDS = 400  # by which the strengths of mentions are chosen
# Strength of one mention, and power of popularity by which it is divided: as COUNTS does; at last nearly POP.
NEXT_TO_NONE = (1e-4, 0.0)
MENTIONS = ((0.1, 0.5), (0.3, 1.0), (0.01, 1.0), NEXT_TO_NONE)


def counts_alone(popularity: NDArray[np.int64], factors: int, theta: NDArray[np.float64] | None = None) -> Arrays:
    """What Profile learns, as if it had learned nothing but popularity and the strengths of mentions."""
    pool = len(popularity)
    widths = {"keys": 2 * factors, "first": factors, "second": factors}
    vectors: Arrays = {name: np.zeros((pool, width), np.float32) for name, width in widths.items()}
    share = np.log((popularity + 0.5) / max(popularity.sum(), 1))
    return vectors | {"bias": share.astype(np.float32), "theta": np.array(START) if theta is None else theta}


def mixture(counts: Arrays, learned: Arrays, shares: NDArray[np.float64]) -> Arrays:
    """Between counts alone (0) and what was learned (1), by a share for users and one for items."""
    found, d = dict(learned), learned["first"].shape[1]
    found["keys"] = (np.repeat(shares, d) * learned["keys"]).astype(np.float32)
    found["bias"] = ((1 - shares[ITEM]) * counts["bias"] + shares[ITEM] * learned["bias"]).astype(np.float32)
    of_theta = np.repeat(shares, 3)
    found["theta"] = (1 - of_theta) * counts["theta"] + of_theta * learned["theta"]
    return found


def best_counts(learn: Triplets, factors: int) -> Arrays:
    """Counts alone, with the strengths by which records are predicted best when each is left out of its own counts.

    The few settings of both sides are compared together: with few records, the best of many is the luckiest.
    """
    records = np.sort(np.random.default_rng(0).permutation(learn.records)[:RECORDS])
    share, lists = np.log((learn.popularity + 0.5) / max(learn.popularity.sum(), 1)), reason_records(learn).of(records)
    said, about = _counts_without(lists, len(share))
    # Popularity alone is the simplest; where records cannot tell whether mentions matter, they count.
    choices, bias = [(NEXT_TO_NONE, NEXT_TO_NONE), *itertools.product(MENTIONS, repeat=2)], share.astype(np.float32)
    gains = [_gained(bias + _added(said, share, *user) + _added(about, share, *item), lists) for user, item in choices]
    picked = choices[simplest_best(np.array(gains))]
    theta = [number for strength, power in picked for number in (np.log(strength), power, 0.0)]
    return counts_alone(learn.popularity, factors, np.array(theta))


def simplest_best(gains: Floats) -> int:
    """The row that is best on average; the first one, the simplest, unless the best wins by its standard error."""
    best = int(np.argmax(gains.mean(1)))
    lead = gains[best] - gains[0]
    return best if lead.mean() > lead.std() / np.sqrt(len(lead)) else 0


def _counts_without(lists: RecordLists, pool: int) -> list[NDArray[np.float32]]:
    """What users and what items of some records have otherwise, as tables with a line for each record."""
    row, sides = np.repeat(np.arange(len(lists.places) - 1), np.diff(lists.places)), []
    for side in (USER, ITEM):
        inside, counts = row % 2 == side, np.zeros((len(lists.indptr) - 1, pool), np.float32)
        counts[row[inside] // 2, lists.numbers[inside]] = lists.counts[inside]
        sides.append(counts)
    return sides


def _gained(scores: NDArray[np.float32], lists: RecordLists, k: int = 10) -> Floats:
    """DCG of every line's k best."""
    k = min(k, scores.shape[1])
    best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
    ranked = np.take_along_axis(best, order, 1).astype(np.int32)
    return (hits(ranked, lists.indptr, lists.targets) / np.log2(np.arange(2, k + 2))).sum(1)


def _added(
    counts: NDArray[np.float32], share: NDArray[np.float64], strength: float, power: float
) -> NDArray[np.float32]:
    return np.log1p(counts * (strength * np.exp(-power * share)).astype(np.float32))
