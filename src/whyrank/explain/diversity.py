"""Lists without near-duplicates and contradictions, by one parameter between relevance and diversity."""

from __future__ import annotations

import numpy as np

from whyrank.compile import kernel
from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.once import OncePer
from whyrank.explain._neighbours import shared
from whyrank.explain.options import Options
from whyrank.explain.words import word_rows
from whyrank.index._grounded import ListRules, fits
from whyrank.index.form import Floats, Numbers

ALIKE = 0.6  # word overlap from which two reasons say the same
OPPOSED = 0.5  # distance of sentiments from which two reasons on one subject contradict each other
_words_of: OncePer[Catalog, CSR] = OncePer(lambda catalog: word_rows(catalog))


def diversify(
    catalog: Catalog, numbers: Numbers, scores: Floats, n: int, rules: ListRules, options: Options
) -> tuple[Numbers, Floats]:
    """Choose `n` of the ranked candidates of every row; rows are shorter (-1) where the rest repeats or contradicts."""
    return _choose(numbers, scores, _words_of(catalog), catalog.sentiment, rules, float(options.diversity), n)


@kernel
def _choose(
    numbers: Numbers,
    scores: Floats,
    words_of: CSR,
    sentiment: Floats,
    rules: ListRules,
    diversity: float,
    n: int,
) -> tuple[Numbers, Floats]:
    """Row by row, take the candidate with the best (1 - diversity) * relevance - diversity * likeness, n times.

    Relevance is the score scaled to 0..1 over the row's candidates; likeness is the largest word overlap with what was
    taken. A candidate is dropped when that overlap reaches ALIKE, or when it shares a word with one taken whose
    sentiment lies on the other side of zero, at least OPPOSED away, or when the list has no room for it (`fits`).
    """
    rows, candidates = numbers.shape
    indptr, words, _ = words_of
    chosen = np.full((rows, n), -1, np.int32)
    values = np.full((rows, n), -np.inf, np.float32)
    likeness = np.empty(candidates, np.float64)
    open_ = np.empty(candidates, np.bool_)
    for row in range(rows):
        found = 0
        while found < candidates and numbers[row, found] >= 0:
            found += 1
        high, low = scores[row, 0], scores[row, max(found - 1, 0)]
        span = high - low if high > low else np.float32(1)
        open_[:] = False
        open_[:found] = True
        likeness[:] = 0.0
        for place in range(min(n, found)):
            best, best_value = -1, -np.inf
            for c in range(found):
                if open_[c]:
                    value = (1 - diversity) * (scores[row, c] - low) / span - diversity * likeness[c]
                    if value > best_value:
                        best, best_value = c, value
            if best < 0:
                break
            taken = numbers[row, best]
            chosen[row, place], values[row, place] = taken, scores[row, best]
            open_[best] = False
            own = words[indptr[taken] : indptr[taken + 1]]
            for c in range(found):
                if open_[c] and not fits(chosen[row], place + 1, numbers[row, c], rules):
                    open_[c] = False
                if open_[c]:
                    other = words[indptr[numbers[row, c]] : indptr[numbers[row, c] + 1]]
                    both = shared(own, other)
                    overlap = both / max(len(own) + len(other) - both, 1)
                    likeness[c] = max(likeness[c], overlap)
                    a, b = sentiment[taken], sentiment[numbers[row, c]]
                    if overlap >= ALIKE or (both > 0 and a * b < 0 and abs(a - b) >= OPPOSED):
                        open_[c] = False
    return chosen, values
