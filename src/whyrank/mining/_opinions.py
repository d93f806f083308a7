"""Opinions about aspects, found in sentences of word classes by rules: attributive, predicative, verbs, negation.

Every token comes with the classes that its word can have (bits) and the polarity of its sense (0 where it has none).
`find_opinions` decides on one part of speech per token, joins nouns to noun phrases, and pairs opinion words with them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inner, kernel
from whyrank.mining import _wordclasses as w
from whyrank.mining._opinion_nouns import attributes, infinitive, trouble, worth
from whyrank.mining._opinion_predicates import fragment, idioms, likewise, predicate, verdict
from whyrank.mining._opinion_rows import (
    R_ADVERB,
    R_AFFECT,
    R_ATTRIBUTE,
    R_DOES,
    R_NO,
    R_VERB,
    ROWS,
    add,
    concern,
    turned_sign,
)
from whyrank.mining._opinion_verbs import verb
from whyrank.mining._phrases import ROOM, bits_at, is_head, tag_at
from whyrank.mining._tagging import tag_sentence
from whyrank.mining._wordclasses import ADJ, CAPITAL, END, GLUE, NOUN, PARTICIPLE, T_J, T_N, Sentence

__all__ = [
    "ADJ",
    "CAPITAL",
    "END",
    "GLUE",
    "NOUN",
    "PARTICIPLE",
    "R_AFFECT",
    "R_DOES",
    "R_NO",
    "R_VERB",
    "T_J",
    "T_N",
    "find_opinions",
]


@kernel
def find_opinions(
    bits: NDArray[np.int64], sense: NDArray[np.int8], sentences: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Opinions in sentences (sentence k is tokens sentences[k] to sentences[k + 1]).

    `sense` is the polarity of each word's sense: -1, 1, 2 for one that has a sense but no polarity of its own, 0 for
    none. Returns rows of (sentence, first token of the aspect, its head, first token of the opinion, its head, sign,
    rule) and the part of speech of every token. The sign is -1 where a negation turns the opinion, else 1; 2 and -2
    say that it is negative or positive whatever its word says, 3 that there could be more of it (could be better).
    """
    tag = np.zeros(len(bits), np.int8)
    out = np.empty((ROWS, 7), np.int32)
    rows, heads, size = np.empty((ROWS, 6), np.int64), np.empty(ROOM, np.int64), np.zeros(1, np.int64)
    n = 0
    for number in range(len(sentences) - 1):
        s, e = sentences[number], sentences[number + 1]
        if e - s < 2:
            continue
        size[0] = 0
        x = Sentence(bits[s:e], sense[s:e], tag[s:e], rows, size, heads)
        tag_sentence(x.bits, x.sense, x.tag)
        if not x.bits[e - s - 1] & w.QUESTION:
            apply_rules(x)
        if n + size[0] > len(out):
            out = np.concatenate((out, np.empty((len(out) + ROWS, 7), np.int32)))
        for i in range(size[0]):
            out[n, 0] = number
            for column in range(6):  # places become those of the whole text
                out[n, column + 1] = rows[i, column] + (s if column < 4 else 0)
            n += 1
    return out[:n].copy(), tag


@inner
def apply_rules(x: Sentence) -> None:
    """All rules at every token; attributes last, for a predicate noun gives its adjectives to the subject."""
    for i in range(len(x.bits)):
        t, c = x.tag[i], x.bits[i]
        if t == w.T_COP:
            verdict(x, i)
            predicate(x, i)
            likewise(x, i)
        elif t == w.T_V:
            verb(x, i)
        elif t == w.T_N and c & w.TROUBLE:
            trouble(x, i)
        elif t == w.T_J and c & w.WORTH:
            worth(x, i)
        elif t == w.T_J and x.sense[i] != 0 and c & w.EASY and tag_at(x, i + 1) == w.T_TO:
            infinitive(x, i)
        if c & w.AFFECT and tag_at(x, i + 1) == w.T_P:
            concern(x, i, i + 2, R_AFFECT)
        if c & w.IMPLIES and tag_at(x, i - 1) in (w.T_R, w.T_J) and x.sense[i - 1] != 0:
            add(x, i, i, i - 1, i - 1, turned_sign(x, i - 1), R_ADVERB)
        if c & w.AMOUNT and bits_at(x, i + 1) & w.OF:
            concern(x, i, i + 2, R_ATTRIBUTE)
        elif c & w.AMOUNT and t != w.T_N and tag_at(x, i + 1) == w.T_N and tag_at(x, i - 1) != w.T_J:
            concern(x, i, i + 1, R_ATTRIBUTE)
    for i in range(len(x.bits)):
        if is_head(x, i):
            attributes(x, i)
    if x.size[0] == 0:
        fragment(x)
    idioms(x)
