"""Classes that a word can have (bits), parts of speech after a look at its neighbours (tags), a sentence of both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Parts of speech and function words.
NOUN, ADJ, VERB, ADV = 1 << 0, 1 << 1, 1 << 2, 1 << 3
DET, POSS, PRON, PREP = 1 << 4, 1 << 5, 1 << 6, 1 << 7
COP, AUX, NEG, AND = 1 << 8, 1 << 9, 1 << 10, 1 << 11
BUT, REL, TO, INT = 1 << 12, 1 << 13, 1 << 14, 1 << 15
PARTICIPLE, GERUND, COMPARATIVE, PLURAL = 1 << 16, 1 << 17, 1 << 18, 1 << 19
LINKING, FIRST, THIRD, APOSTROPHE_S = 1 << 20, 1 << 21, 1 << 22, 1 << 23
OF, NO, TOO, THAN = 1 << 24, 1 << 25, 1 << 26, 1 << 27
AMOUNT, ONLY, COULD, CAPITAL = 1 << 28, 1 << 29, 1 << 30, 1 << 31
# Punctuation, and tokens of a phrase whose last token stands for it (GLUE).
COMMA, DASH, END, QUESTION = 1 << 32, 1 << 33, 1 << 34, 1 << 35
GLUE, MARK = 1 << 36, 1 << 37
# Roles in the rules.
LOVE, LIKE, MISS, TRY = 1 << 38, 1 << 39, 1 << 40, 1 << 41
AFFECT, TROUBLE, VERDICT, WORTH = 1 << 42, 1 << 43, 1 << 44, 1 << 45
DOES, WORKS, STOPS, ACTS = 1 << 46, 1 << 47, 1 << 48, 1 << 49
FIND, HYP, WISH, EASY = 1 << 50, 1 << 51, 1 << 52, 1 << 53
LIGHT, CONTAINER, VAGUE, ROLE = 1 << 54, 1 << 55, 1 << 56, 1 << 57
TIME, NEUTRAL, IMPLIES, ELSEWHERE, LESS = 1 << 58, 1 << 59, 1 << 60, 1 << 61, 1 << 62
ITEM = -(1 << 63)  # the last bit: a pronoun that can stand for the item
ADVISES = LOVE | TRY  # love and try at once: recommend
USES = STOPS | FIND  # both at once: what somebody does with things (use, add, mix)
PAID, LEVEL = EASY, WORKS  # of a noun: what is paid; of an adjective: how much that is (high, low)

# Tags: none, noun, adjective, verb, adverb, determiner, preposition, pronoun, copula, auxiliary, negation, and, but,
# comma, relative pronoun, to, possessive s.
T_NONE, T_N, T_J, T_V, T_R, T_D, T_P, T_O, T_COP, T_AUX, T_NEG, T_AND, T_BUT, T_COMMA, T_REL, T_TO, T_S = range(17)


class Sentence(NamedTuple):
    """The tokens of a sentence, and the opinions found in it."""

    bits: NDArray[np.int64]
    sense: NDArray[np.int8]  # polarity of the word's sense: -1, 1, 2: a sense without a polarity of its own, 0: none
    tag: NDArray[np.int8]
    rows: NDArray[np.int64]  # aspect: first token, head; opinion: first token, head; sign; rule
    size: NDArray[np.int64]  # its one entry: how many rows there are
    heads: NDArray[np.int64]  # room for the heads of subjects
