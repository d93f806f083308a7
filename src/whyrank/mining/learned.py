"""What a pool has learned of the reviews, so that later ones are read as the first were: it travels with the pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.mining.counting import Cut, Meaning
from whyrank.mining.lexicon import Lexicon
from whyrank.mining.mentions import Sentences

REFERENCE = 400  # clauses that stand for what is usual
LEAST = 4  # words of such a clause


@dataclass(frozen=True)
class LearnedWords:
    """Words with their weights, words of the item's kind, names, what is usual, and signs that ratings decided."""

    weights: dict[str, float]
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    person: str
    centre: tuple[float, ...]
    reference: tuple[tuple[str, ...], ...]  # clauses of the reviews, their words that say something
    signs: dict[str, int] = field(default_factory=dict)  # "aspect|sense"

    def lexicon(self, vocabulary: Sequence[str]) -> Lexicon:
        """Return what was learned for the words of new reviews; words that are new are rare ones."""
        weight = np.array([self.weights.get(word, 1.0) for word in vocabulary], np.float32)
        known = frozenset(self.names)
        names = np.array([word in known for word in vocabulary], np.bool_)
        return Lexicon(weight, frozenset(self.kinds), names, self.person)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return dict(vars(self))

    @classmethod
    def of(cls, told: dict[str, Any]) -> LearnedWords:
        """Read what `as_dict` gave."""
        reference = tuple(tuple(map(str, each)) for each in told["reference"])
        weights = {str(word): float(value) for word, value in told["weights"].items()}
        signs = {str(key): int(sign) for key, sign in told["signs"].items()}
        kinds, names = (tuple(map(str, told[name])) for name in ("kinds", "names"))
        return cls(weights, kinds, names, str(told["person"]), tuple(map(float, told["centre"])), reference, signs)


def learn_usual(
    given: Sentences, cut: Cut, says: NDArray[np.bool_], copies: pl.Series, meaning: Meaning
) -> tuple[tuple[float, ...], tuple[tuple[str, ...], ...]]:
    """Return the mean of all words that say something, and clauses that stand for what is usual.

    These are of the reviews whose texts have the smallest digests, so that no order decides.
    """
    counts = np.bincount(given.word[says], minlength=len(meaning.vocabulary)) * meaning.lexicon.weight.astype(
        np.float64
    )
    order = np.argsort(np.array(meaning.vocabulary), kind="stable")  # sums do not depend on the order of the reviews
    total = (meaning.vectors[order].astype(np.float64) * counts[order, None]).sum(axis=0)
    centre = np.round(total / max(counts.sum(), 1e-9), 3)
    long = np.flatnonzero(cut.last - cut.first >= LEAST)
    table = pl.DataFrame({"clause": long, "review": cut.review[long]})
    table = table.with_columns(copy=copies.gather(table["review"])).sort("copy", "clause").unique("copy", keep="first")
    picked = table.sort("copy")["clause"].head(REFERENCE).to_list()
    reference = []
    for k in picked:
        places = np.arange(cut.first[k], cut.last[k])
        reference.append(tuple(meaning.vocabulary[word] for word in given.word[places[says[places]]]))
    return tuple(centre.tolist()), tuple(reference)
