"""Accuracy by popularity and by how much is known: one number per stratum, from ranked lists alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.evaluation.metrics import discounts
from whyrank.training._metrics import hits as find_hits

Lists = NDArray[np.int32]
Values = NDArray[np.float64]
POPULARITY = ("head", "middle", "tail")
KNOWN = ("0", "1-2", "3-5", "6-10", "11+")  # how many training records (triplets of an explanation) there are
EDGES = (1, 3, 6, 11)


def popularity_strata(popularity: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 (head), 1 or 2 (tail) per explanation: each stratum holds about a third of all training triplets."""
    order = np.argsort(-popularity, kind="stable")
    before = np.cumsum(popularity[order]) - popularity[order]
    strata = np.empty(len(popularity), np.int64)
    strata[order] = np.minimum(3 * before // max(int(popularity.sum()), 1), 2)
    strata[popularity == 0] = 2
    return strata


def known_strata(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the place in `KNOWN` per count."""
    return np.searchsorted(np.array(EDGES), counts, side="right").astype(np.int64)


def by_explanation(lists: Lists, relevant: CSR, strata: NDArray[np.int64], count: int) -> list[float | None]:
    """Textbook NDCG where only the explanations of one stratum are looked for; None where none is relevant.

    The lists stay as they are: a stratum's figure says how well its explanations are found among all others.
    """
    hits = find_hits(lists, relevant.indptr, relevant.indices)
    of_shown = np.where(lists >= 0, strata[lists], -1)
    of_relevant, record = strata[relevant.indices], relevant.rows_of_entries()
    gains = discounts(lists.shape[1])
    ideal = np.concatenate([[0.0], np.cumsum(gains)])
    figures: list[float | None] = []
    for stratum in range(count):
        sizes = np.bincount(record[of_relevant == stratum], minlength=len(lists))
        asked = sizes > 0
        reached = (hits & (of_shown == stratum)) @ gains
        best = ideal[np.minimum(sizes, lists.shape[1])]
        figures.append(float((reached[asked] / best[asked]).mean()) if asked.any() else None)
    return figures


def by_pair(values: Values, strata: NDArray[np.int64], count: int) -> list[float | None]:
    """Return the mean of each stratum of test pairs; None where it is empty."""
    return [float(values[strata == s].mean()) if (strata == s).any() else None for s in range(count)]


def records_of(train: Triplets) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training records per user and per item."""
    users = np.bincount(train.record_user, minlength=len(train.users))
    return users, np.bincount(train.record_item, minlength=len(train.items))
