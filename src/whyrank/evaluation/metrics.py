"""Ranking metrics, each one number per list. Every name is one definition.

A list of length k is compared with the set of relevant ones. `ndcg_paper` divides by the DCG of a list of k hits (the
paper's Z), `ndcg` by the DCG of the best possible list, as textbooks do. `precision` divides by k even where a list is
shorter.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.training._metrics import hits as find_hits

Hits = NDArray[np.bool_]
Sizes = NDArray[np.int64]
Values = NDArray[np.float64]


def ndcg_paper(hits: Hits, relevant: Sizes) -> Values:
    """DCG divided by the DCG of a full list of hits, whatever the number of relevant ones."""
    gains = discounts(hits.shape[1])
    return hits @ gains / gains.sum()


def ndcg(hits: Hits, relevant: Sizes) -> Values:
    """DCG divided by the DCG of a list that starts with all relevant ones."""
    gains = discounts(hits.shape[1])
    ideal = np.concatenate([[0.0], np.cumsum(gains)])[np.minimum(relevant, hits.shape[1])]
    return _ratio(hits @ gains, ideal)


def precision(hits: Hits, relevant: Sizes) -> Values:
    """The share of the k places that hold a relevant one."""
    return hits.sum(1) / hits.shape[1]


def recall(hits: Hits, relevant: Sizes) -> Values:
    """The share of the relevant ones that are in the list."""
    return _ratio(hits.sum(1), relevant)


def f1(hits: Hits, relevant: Sizes) -> Values:
    """The harmonic mean of precision and recall of the list."""
    found = hits.sum(1)
    return _ratio((2 * found).astype(np.float64), hits.shape[1] + relevant)


def hit(hits: Hits, relevant: Sizes) -> Values:
    """1 where the list holds a relevant one."""
    return np.asarray(hits.any(1), np.float64)


def mrr(hits: Hits, relevant: Sizes) -> Values:
    """One over the place of the first relevant one, 0 where there is none."""
    places: Sizes = hits.argmax(1) + 1
    return _ratio(hit(hits, relevant), places)


def map(hits: Hits, relevant: Sizes) -> Values:
    """Average precision: the mean, over all relevant ones, of the precision at the place of each (0 if not listed)."""
    so_far = np.cumsum(hits, 1) / np.arange(1, hits.shape[1] + 1)
    return _ratio((so_far * hits).sum(1), relevant)


METRICS: dict[str, Callable[[Hits, Sizes], Values]] = {
    metric.__name__: metric for metric in (ndcg_paper, ndcg, precision, recall, f1, hit, mrr, map)
}


def per_list(ranked: NDArray[np.int32], relevant: CSR) -> dict[str, Values]:
    """All metrics of every list; row m of `ranked` is judged by row m of `relevant`."""
    found = find_hits(ranked, relevant.indptr, relevant.indices)
    sizes = relevant.sizes()
    return {name: metric(found, sizes) for name, metric in METRICS.items()}


def discounts(k: int) -> Values:
    """What a hit counts at each of so many places."""
    return 1.0 / np.log2(np.arange(2, k + 2))


def _ratio(above: Values | Sizes, below: Values | Sizes) -> Values:
    """Element-wise division, 0 where there is nothing relevant."""
    return np.divide(above, below, out=np.zeros(len(above)), where=below > 0)
