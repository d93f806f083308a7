"""Lists without near-duplicates and contradictions, by one parameter between relevance and diversity."""

from __future__ import annotations

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.once import OncePer
from whyrank.explain._diversity import choose
from whyrank.explain.options import Options
from whyrank.explain.topics import groups_of
from whyrank.explain.words import word_rows
from whyrank.index.form import Floats, Numbers

ALIKE = 0.6  # word overlap from which two reasons say the same
OPPOSED = 0.5  # distance of sentiments from which two reasons on one subject contradict each other
_words_of: OncePer[Catalog, CSR] = OncePer(lambda catalog: word_rows(catalog))


def diversify(catalog: Catalog, numbers: Numbers, scores: Floats, n: int, options: Options) -> tuple[Numbers, Floats]:
    """Choose `n` of the ranked candidates of every row; rows are shorter (-1) where the rest repeats or contradicts."""
    words, limits = _words_of(catalog), (options.per_aspect, options.consistent)
    of_pool = (words.indptr, words.indices, catalog.sentiment, groups_of(catalog), catalog.signs)
    return choose(numbers, scores, *of_pool, *limits, options.diversity, ALIKE, OPPOSED, n)
