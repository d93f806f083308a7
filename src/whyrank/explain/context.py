"""What a request knows beyond the user: what is searched for, and what was chosen just now; as additions to scores."""

from __future__ import annotations

import re
import weakref
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.explain.words import content_words, word_sets
from whyrank.index.form import Floats

FIRST = 100.0  # added to what answers a query in full: more than scores differ, little enough for float32 to tell them
MOST = 2.0  # added to explanations of an aspect that was chosen, and at most to those of chosen items
STEADY = 10.0  # imaginary mentions that are spread as those of all items
PHRASES = re.compile(r"[,;\n]")
Index = dict[str, NDArray[np.int32]]
_indexes: weakref.WeakKeyDictionary[Catalog, Index] = weakref.WeakKeyDictionary()
_vectors: weakref.WeakKeyDictionary[Catalog, Floats] = weakref.WeakKeyDictionary()


def answers(catalog: Catalog, query: Sequence[str], by: str = "words") -> Floats:
    """How well each explanation answers a query, from 0 to 1.

    A query is cut into phrases at commas, semicolons and line ends; the phrase that an explanation answers best counts.
    By words: the share of the phrase's content words (small words and a plural s aside) that are in the explanation's
    text, its aspect or its id. By vectors: the cosine of the angle between both texts, if above 0.
    """
    phrases = [phrase.strip() for text in query for phrase in PHRASES.split(text) if phrase.strip()]
    best = np.zeros(len(catalog.explanations), np.float32)
    if by == "vectors" and phrases:
        cosines = _encoded(catalog) @ _vectors_of(phrases, cache=False).T
        return np.clip(cosines.max(1), 0, 1).astype(np.float32)
    index = _index(catalog)
    for phrase in phrases:
        words = content_words(phrase)
        found = np.zeros(len(best), np.float32)
        for word in words:
            found[index.get(word, [])] += 1
        np.maximum(best, found / max(len(words), 1), out=best)
    return best


def affinity(catalog: Catalog, items: Sequence[str], aspects: Sequence[str]) -> Floats:
    """What the choice of some items and aspects adds to each explanation's score, from 0 to 2.

    2 for every explanation of a chosen aspect. For chosen items: how many times as often, in powers of two, people
    mention the explanation's aspect (without aspects: say the explanation) about them as about all items. Items that
    are unknown say nothing; an aspect that is unknown raises UnknownId.
    """
    pool = len(catalog.explanations)
    group = np.where(catalog.aspect >= 0, catalog.aspect, len(catalog.aspects) + np.arange(pool))
    added = np.zeros(len(catalog.aspects) + pool, np.float32)
    numbers = catalog.items.numbers(list(items), missing="negative")
    known = np.unique(numbers[numbers >= 0])
    if len(known):
        said, size = catalog.item_explanations.take(known), len(added)
        mine = np.bincount(group[said.indices], said.counts, minlength=size)
        usual = np.bincount(group, catalog.popularity, minlength=size) / max(int(catalog.popularity.sum()), 1)
        share = (mine + STEADY * usual) / (mine.sum() + STEADY)
        times = np.divide(share, usual, out=np.ones(size), where=usual > 0)
        added = np.clip(np.log2(times), 0, MOST).astype(np.float32)
    if aspects:
        added[catalog.aspects.numbers(list(aspects))] = MOST
    return added[group]


def _index(catalog: Catalog) -> Index:
    """Word -> explanations that have it in their text, aspect or id."""
    if catalog not in _indexes:
        places: defaultdict[str, list[int]] = defaultdict(list)
        names = catalog.aspects_listed
        about = zip(word_sets(catalog), catalog.ids_listed, catalog.aspect.tolist(), strict=True)
        for number, (words, id_, aspect) in enumerate(about):
            sense = content_words(id_.replace("|", " ")) if aspect >= 0 else frozenset()
            for word in words | sense | content_words(names[aspect] or ""):
                places[word].append(number)
        _indexes[catalog] = {word: np.array(found, np.int32) for word, found in places.items()}
    return _indexes[catalog]


def _encoded(catalog: Catalog) -> Floats:
    """A vector of length 1 for every explanation's text; stored on disk, so made once."""
    if catalog not in _vectors:
        _vectors[catalog] = _vectors_of(catalog.texts_listed, cache=True)
    return _vectors[catalog]


def _vectors_of(texts: Sequence[str], cache: bool) -> Floats:
    """Of an extra; what people search for is not stored on disk."""
    from whyrank.text.encoder import Encoder, unit_vectors

    return unit_vectors(Encoder.find("minilm", pooling="mean", cache=cache)(texts))
