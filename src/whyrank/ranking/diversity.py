"""Lists without near-duplicates and contradictions, by one parameter between relevance and diversity."""

from __future__ import annotations

import weakref

import numpy as np

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.errors import MissingExtra
from whyrank.kernels.diversity import choose
from whyrank.ranking.form import Floats, Numbers
from whyrank.ranking.words import word_rows

ALIKE = 0.6  # word overlap from which two reasons say the same
OPPOSED = 0.5  # distance of sentiments from which two reasons on one subject contradict each other
_cache: weakref.WeakKeyDictionary[Catalog, tuple[CSR, Floats]] = weakref.WeakKeyDictionary()


def diversify(catalog: Catalog, numbers: Numbers, scores: Floats, n: int, diversity: float) -> tuple[Numbers, Floats]:
    """Choose `n` of the ranked candidates of every row; rows are shorter (-1) where the rest repeats or contradicts."""
    if catalog not in _cache:
        _cache[catalog] = word_rows(catalog), _sentiment(catalog)
    words, sentiment = _cache[catalog]
    return choose(numbers, scores, words.indptr, words.indices, sentiment, diversity, ALIKE, OPPOSED, n)


def _sentiment(catalog: Catalog) -> Floats:
    """Sentiments, or zeros (no contradictions are seen) without ratings and without the extra that reads words."""
    try:
        return catalog.sentiment
    except MissingExtra:
        return np.zeros(len(catalog.explanations), np.float32)
