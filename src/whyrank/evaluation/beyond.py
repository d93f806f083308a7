"""What accuracy does not say: how much of the pool is used, how expected, how personal, how repetitive lists are.

Each is NaN where there was nothing to measure.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.evaluation.metrics import discounts
from whyrank.training._metrics import hits as find_hits
from whyrank.training._metrics import overlaps

SAMPLE = 20_000
POWER = 0.5  # how the propensity to be said is taken to grow with popularity
COMPARED = 1_000_000  # pairs of reasons whose words are compared, about


def coverage(ranked: NDArray[np.int32], pool: int) -> float:
    """The share of the pool that is in at least one list."""
    shown = np.unique(ranked[ranked >= 0])
    return len(shown) / max(pool, 1)


def novelty(ranked: NDArray[np.int32], popularity: NDArray[np.int64]) -> float:
    """Mean surprise of what is shown, in bits: -log2 of the share of training triplets that hold it."""
    shown = ranked[ranked >= 0]
    share = np.maximum(popularity, 0.5) / max(popularity.sum(), 1)
    return float(-np.log2(share[shown]).mean()) if len(shown) else math.nan


def personalization(ranked: NDArray[np.int32], users: NDArray[np.int32], seed: int = 0) -> float:
    """One minus the mean overlap of the lists of two different users, over a seeded sample of pairs of lists.

    The overlap is what they share of the longer one; two empty lists are no pair.
    """
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, len(ranked), (2, SAMPLE)) if len(ranked) else np.empty((2, 0), np.int64)
    longest = np.maximum(*((ranked >= 0).sum(1)[rows] for rows in (left, right)))
    differ = (users[left] != users[right]) & (longest > 0)
    if not differ.any():
        return math.nan
    shared = overlaps(ranked, left[differ], right[differ])
    return float(1 - (shared / longest[differ]).mean())


def redundancy(ranked: NDArray[np.int32], words: list[frozenset[str]], seed: int = 0) -> float:
    """Mean word overlap (Jaccard) of two reasons in one list, over a seeded sample of lists, fewer of long ones."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(ranked))[: min(1000, max(10, COMPARED // max(ranked.shape[1], 1) ** 2))]
    values: list[float] = []
    for row in ranked[rows]:
        bags = [words[number] for number in row if number >= 0]
        for place, bag in enumerate(bags):
            values.extend(len(bag & other) / max(len(bag | other), 1) for other in bags[:place])
    return float(np.mean(values)) if values else math.nan


def propensity_ndcg(
    lists: NDArray[np.int32], relevant: CSR, popularity: NDArray[np.int64], power: float = POWER
) -> float:
    """NDCG that counts a relevant explanation by the inverse of its propensity to be said.

    The propensity is taken to grow as (popularity + 1)^power. Gains are added up over all test pairs and divided by
    what the best possible lists would gain (self-normalized), so that rare explanations count as if all were said
    alike often.
    """
    weight = (popularity + 1.0) ** -power
    gains = discounts(lists.shape[1])
    hits = find_hits(lists, relevant.indptr, relevant.indices)
    reached = float(((hits * np.where(lists >= 0, weight[lists], 0.0)) @ gains).sum())
    record = relevant.rows_of_entries()
    order = np.lexsort((-weight[relevant.indices], record))
    place = np.arange(len(order)) - relevant.indptr[record]
    counted = place < lists.shape[1]
    best = float((weight[relevant.indices[order]][counted] * gains[place[counted]]).sum())
    return reached / best if best else math.nan
