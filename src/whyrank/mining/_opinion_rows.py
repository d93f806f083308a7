"""Opinions found in a sentence: how rules add them, with their sign."""

from __future__ import annotations

from typing import cast

import numpy as np

from whyrank.compile import inner
from whyrank.mining import _wordclasses as w
from whyrank.mining._phrases import (
    ROOM,
    bits_at,
    hypothetical,
    negated,
    next_conjunct,
    no_aspect,
    object_head,
    phrase_start,
)
from whyrank.mining._wordclasses import Sentence

ROWS = 256  # opinions of one sentence
CLAUSE_ENDS = (w.T_NONE, w.T_AND, w.T_COMMA, w.T_BUT, w.T_P, w.T_TO, w.T_NEG)

# Which rule found an opinion. NumPy integers, for numba compiles a function anew for every plain one it is given.
R_ATTRIBUTE, R_PREDICATE, R_VERB, R_NO, R_BARE, R_AFFECT = cast("tuple[int, ...]", tuple(np.arange(6)))
R_TO, R_DOES, R_ADVERB, R_NOMINAL, R_WORTH, R_VERDICT = cast("tuple[int, ...]", tuple(np.arange(6, 12)))

# Signs of opinions that have one whatever their word says.
POSITIVE, NEGATIVE, WISHED = cast("tuple[int, ...]", (np.int64(-2), np.int64(2), np.int64(3)))


@inner
def add(x: Sentence, a0: int, a1: int, o0: int, o1: int, sign: int, rule: int) -> None:
    """Add an opinion unless there is one with the same heads."""
    n = x.size[0]
    if (a1 == o1 and x.tag[a1] != w.T_J) or n == ROWS:
        return
    for i in range(n):
        if x.rows[i, 1] == a1 and x.rows[i, 3] == o1:
            return
    x.rows[n, 0], x.rows[n, 1], x.rows[n, 2], x.rows[n, 3], x.rows[n, 4], x.rows[n, 5] = a0, a1, o0, o1, sign, rule
    x.size[0] = n + 1


@inner
def add_noun(x: Sentence, head: int, opinion: int, sign: int, rule: int) -> None:
    """Add an opinion of one word about a noun phrase."""
    add(x, phrase_start(x, head), head, opinion, opinion, sign, rule)


@inner
def add_all(x: Sentence, count: int, o0: int, o1: int, sign: int, rule: int) -> None:
    """Add an opinion about every subject in `heads`."""
    for i in range(count):
        head = x.heads[i]
        add(x, phrase_start(x, head) if x.tag[head] == w.T_N else head, head, o0, o1, sign, rule)


@inner
def sign_at(x: Sentence, i: int, turned: bool) -> int:
    """The sign of an opinion word that is negated or not: less friendly, too small, not too spicy."""
    before = bits_at(x, i - 1)
    if before & w.TOO and turned:
        return -1 if x.sense[i] in (-1, 1) else POSITIVE  # not too bad, not too spicy
    if before & w.TOO:
        return NEGATIVE
    return -1 if turned != (before & w.LESS != 0) else 1


@inner
def turned_sign(x: Sentence, i: int) -> int:
    """The sign of an opinion word, turned by a negation before it unless it compares (never had better)."""
    return sign_at(x, i, negated(x, i) and not x.bits[i] & w.COMPARATIVE)


@inner
def about(x: Sentence, opinion: int, k: int, sign: int, rule: int) -> None:
    """An opinion about each noun phrase of the list that begins at k."""
    for n in range(ROOM):
        h = object_head(x, k)
        if h < 0 or no_aspect(x, h) or (rule == R_ATTRIBUTE and n > 0 and x.sense[k] != 0):
            return  # plenty of space and great sound
        add_noun(x, h, opinion, sign, rule)
        k = next_conjunct(x, h)
        if k < 0:
            return


@inner
def concern(x: Sentence, i: int, k: int, rule: int) -> None:
    """Happy with the room, problems with the heating, plenty of space, lack of light."""
    if not hypothetical(x, i, w.HYP) or (x.bits[i] & w.COMPARATIVE and negated(x, i)):
        about(x, i, k, turned_sign(x, i), rule)
