"""What is learned from the reviews themselves: words of the item's kind, names, how rare words are, signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.mining.language import Language
from whyrank.mining.mentions import ATTR, BE, COMPOUND, DET, NOUN, NSUBJ, Sentences, _bit
from whyrank.mining.patterns import Bits

POINTED = 0.04  # share of a noun's uses behind `this` that a word of the item's kind has
CALLED = 0.02  # share of a noun's uses as what the item is said to be at least
SEEN = 12  # uses of a noun that is judged at all
CAPITALS = 0.75  # share of a word's uses with a capital, not at a sentence's beginning, that makes it a name
NAMED = 2
SMOOTHING = 1e-3  # in the weight of a word: a / (a + its share)


class Lexicon(NamedTuple):
    """What the reviews teach about words, by their number in the vocabulary."""

    weight: NDArray[np.float32]  # 1: hardly ever used; near 0: in every sentence
    kinds: frozenset[str]  # nouns that name the item
    names: NDArray[np.bool_]
    person: str  # what the people behind an item are called


def learn(given: Sentences, bits: Bits, vocabulary: Sequence[str], language: Language) -> Lexicon:
    """Learn the lexicon of reviews."""
    size = len(vocabulary)
    counts = np.bincount(given.word, minlength=size)
    weight = SMOOTHING / (SMOOTHING + counts / max(len(given.word), 1))
    noun = (bits & NOUN) != 0
    inside = np.ones(len(given.word), np.bool_)
    inside[given.starts[:-1][given.starts[:-1] < len(inside)]] = False
    capital = np.bincount(given.word[given.capital & inside], minlength=size)
    within = np.bincount(given.word[inside], minlength=size)
    names = (capital >= NAMED) & (capital >= CAPITALS * np.maximum(within, 1))
    acronyms = language.has("acronyms")
    names &= np.array([word not in acronyms for word in vocabulary], np.bool_)
    return Lexicon(
        weight.astype(np.float32), _kinds(given, bits, noun, vocabulary), names, _person(given, vocabulary, language)
    )


def _kinds(given: Sentences, bits: Bits, noun: NDArray[np.bool_], vocabulary: Sequence[str]) -> frozenset[str]:
    """Find nouns that stand for the item: this hotel, it is a lovely book."""
    size = len(vocabulary)
    numbers = {word: number for number, word in enumerate(vocabulary)}
    heads = noun & (given.label != COMPOUND)
    total = np.bincount(given.word[heads], minlength=size)
    this = np.array([numbers.get(word, -1) for word in ("this", "these")])
    points = np.isin(given.word, this) & (given.label == DET) & heads[given.head]
    pointed = np.bincount(given.word[given.head[points]], minlength=size)
    subject = (given.label == NSUBJ) & ((bits & _bit("thing")) != 0)
    verb = np.zeros(len(given.word), np.bool_)
    verb[given.head[subject]] = True
    verb &= (bits & BE) != 0
    called = np.bincount(given.word[heads & (given.label == ATTR) & verb[given.head]], minlength=size)
    often = total >= SEEN
    plain = np.array([(bit & _bit("vague")) == 0 for bit in _spelled(given, bits, size)], np.bool_)
    found = often & plain & (pointed >= POINTED * total) & (called >= CALLED * total)
    return frozenset(vocabulary[k] for k in np.flatnonzero(found).tolist())


def pointed_at(given: Sentences, vocabulary: Sequence[str]) -> NDArray[np.int32]:
    """Return words behind `this` and `these`."""
    this = np.array([number for number, word in enumerate(vocabulary) if word in ("this", "these")], np.int32)
    found: NDArray[np.int32] = given.head[np.isin(given.word, this) & (given.label == DET)]
    return found


def _spelled(given: Sentences, bits: Bits, size: int) -> Bits:
    found = np.zeros(size, np.uint64)
    found[given.word] = bits
    return found


def _person(given: Sentences, vocabulary: Sequence[str], language: Language) -> str:
    """Find what people call those behind an item most often."""
    people = language.has("person")
    counts = np.bincount(given.word[given.label == NSUBJ], minlength=len(vocabulary))
    return max(
        (word for word in vocabulary if word in people), key=lambda w: (counts[vocabulary.index(w)], w), default="staff"
    )
