"""What the rules find in texts, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from whyrank.mining.corpus import Corpus
from whyrank.mining.language import Language, language_of
from whyrank.mining.lexicon import Lexicon
from whyrank.mining.mentions import bits_of, find_mentions, program_of
from whyrank.mining.opinions import LONGEST, Names
from whyrank.mining.parse import TAGS
from whyrank.mining.rules import MiningRules
from whyrank.mining.said import marks_of


class Found(NamedTuple):
    """A mention under the words of its text."""

    rule: str
    aspect: str  # the word, one of it; "it": the item itself
    word: str  # that says it
    names: frozenset[str]  # of the aspect: its word, its phrase, its name
    says: frozenset[str]  # the word, one of it, its sense, the words of the sense
    sign: int
    matter: int  # 0: it counts
    named: bool  # whether statements are made of it: not of the shop, not of what is vague


def read_texts(texts: Sequence[str], *extra: Path) -> list[list[Found]]:
    """Return the mentions of every text, those that do not count as well."""
    language = language_of("en", *extra)
    blank = {"user": "", "item": "", "title": "", "rating": None, "time": None, "source": ""}
    table = pl.DataFrame({"text": list(texts)}).with_columns(**{name: pl.lit(each) for name, each in blank.items()})
    corpus = Corpus()
    corpus.read(table, MiningRules(), language.has("common"), 1)
    given, _, _ = corpus.sentences()
    vocabulary = list(corpus.vocabulary)
    spelled, tagged = bits_of(language, vocabulary, TAGS)
    marks = marks_of(vocabulary)
    bits = spelled[given.word] | tagged[given.tag]
    found, _ = find_mentions(given, bits, program_of(language), language, vocabulary, marks)
    names = Names(language, _plain(len(vocabulary)), vocabulary)
    every: list[list[Found]] = [[] for _ in texts]
    for k in range(len(found.rule)):
        head, said, verb = int(found.aspect[k]), int(found.property[k]), int(found.verb[k])
        phrase = given.word[max(found.first[k], head - LONGEST + 1) : head + 1].tolist() if head >= 0 else []
        key = [found.rule[k], *([-1] * (LONGEST - len(phrase))), *phrase, -1, given.word[said]]
        key += [bool(marks["plural"][given.tag[said]]), given.word[verb] if verb >= 0 else -1]
        key += [found.turned[k], found.strong[k], found.excess[k]]
        told = names.said([int(each) for each in key])
        word = vocabulary[given.word[said]]
        own = (language.rules[found.rule[k]].sign or language.sign(word)) * (1 if found.strong[k] else found.turned[k])
        aspect = names.singular(vocabulary[given.word[head]]) if head >= 0 else "it"
        spoken = " ".join(vocabulary[each] for each in phrase)
        review = int(np.searchsorted(given.reviews, np.searchsorted(given.starts, said, side="right") - 1, "right")) - 1
        every[review].append(
            Found(
                language.rules[found.rule[k]].id,
                aspect,
                word,
                frozenset((aspect, spoken, told.aspect)) - {""},
                frozenset((*lemmas(word), names.singular(word), told.sense, *told.sense.split())) - {""},
                int(np.sign(told.weight if told.aspect else own)),
                int(found.matter[k]),
                bool(told.aspect),
            )
        )
    return every


def lemmas(word: str) -> set[str]:
    """Return what a word may be a form of: liked is of like."""
    cut = {word[: -len(end)] for end in ("s", "d", "es", "ed", "ing") if word.endswith(end)}
    return {word} | cut | {each + "e" for each in cut} | {each[:-1] + "y" for each in cut if each.endswith("i")}


def language() -> Language:
    """Return English."""
    return language_of("en")


def _plain(size: int) -> Lexicon:
    """Return what nothing was learned from."""
    return Lexicon(np.ones(size, np.float32), frozenset(), np.zeros(size, np.bool_), "staff")
