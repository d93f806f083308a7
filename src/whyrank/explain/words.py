"""The words of explanations: what makes two of them alike."""

from __future__ import annotations

import re

import numpy as np

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.once import OncePer

WORD = re.compile(r"[\w']+")
# Words that carry no subject and no judgement; sharing them does not make two explanations alike.
EMPTY = frozenset(
    "a an and are as at be been but by for from had has have in is it its of on or so that the their there they this "  # noqa: SIM905
    "to was were with very really quite all also just too more most much not no".split()
)


def word_sets(catalog: Catalog) -> list[frozenset[str]]:
    """The content words of every explanation, lower case, plural s dropped; all words where nothing else is left."""
    return _word_sets(catalog)


def word_rows(catalog: Catalog) -> CSR:
    """Explanation -> sorted numbers of its content words."""
    bags = word_sets(catalog)
    numbers = {word: number for number, word in enumerate(sorted({word for bag in bags for word in bag}))}
    rows = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
    columns = np.array([numbers[word] for bag in bags for word in bag], np.int64)
    return CSR.from_pairs(rows, columns, len(bags), max(len(numbers), 1))


def content_words(text: str) -> frozenset[str]:
    """The words of a text that carry a subject or a judgement; all of them where nothing else is left."""
    words = [_stem(word) for word in WORD.findall(text.lower())]
    return frozenset(word for word in words if word not in EMPTY) or frozenset(words)


_word_sets: OncePer[Catalog, list[frozenset[str]]] = OncePer(
    lambda catalog: [content_words(text) for text in catalog.texts_listed]
)


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
