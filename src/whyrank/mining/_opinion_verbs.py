"""Opinions in verbs: what is liked, what things do and how."""

from __future__ import annotations

from whyrank.compile import inner
from whyrank.mining import _wordclasses as w
from whyrank.mining._opinion_predicates import item_pronoun
from whyrank.mining._opinion_rows import NEGATIVE, POSITIVE, R_ADVERB, R_DOES, R_VERB, about, add, add_all, add_noun
from whyrank.mining._phrases import (
    antecedent,
    antecedent_used,
    bits_at,
    hypothetical,
    negated,
    subjects,
    tag_at,
    verb_group,
)
from whyrank.mining._wordclasses import Sentence


@inner
def verb(x: Sentence, v: int) -> None:
    """Verbs of opinion with their objects, what things do (the screen froze), how they do it (works well)."""
    c = x.bits[v]
    if c & (w.LOVE | w.LIKE | w.MISS):
        liked(x, v)
    elif c & w.TRY:
        advised(x, v)
    elif hypothetical(x, v, w.HYP):
        return
    elif c & w.WORKS and (negated(x, v) or bits_at(x, v - 1) & w.STOPS):
        count = doers(x, v - 1 if bits_at(x, v - 1) & w.STOPS else v)
        add_all(x, count, v, v, NEGATIVE, R_DOES)
    elif c & w.DOES and x.sense[v] != 0:
        does(x, v)
    else:
        manner(x, v)


@inner
def does(x: Sentence, v: int) -> None:
    """The screen froze, it keeps crashing, the battery lasts only an hour."""
    first = v - 1 if x.bits[v] & w.GERUND else v
    if first < v and not bits_at(x, first) & w.FIND:
        return  # waves crashing
    sign = -1 if negated(x, v) else 1
    if x.sense[v] > 0 and (bits_at(x, v + 1) | bits_at(x, v - 1)) & w.ONLY:
        sign = -sign
    add_all(x, doers(x, first), v, v, sign, R_DOES)


@inner
def doers(x: Sentence, v: int) -> int:
    """The subjects of a verb, or the pronoun that stands for the item, into `heads`; their number."""
    count = subjects(x, v)
    if count == 0:
        x.heads[0] = item_pronoun(x, v)
        count = 1 if x.heads[0] >= 0 else 0
    return count


@inner
def liked(x: Sentence, v: int) -> None:
    """Loved the rooftop bar, the pool and the breakfast."""
    c, before = x.bits[v], bits_at(x, v - 1)
    recommends = c & w.ADVISES == w.ADVISES and before & (w.HYP | w.INT)  # would recommend; would love is a wish
    if hypothetical(x, v, w.HYP) and not recommends:
        return
    sign = -1 if negated(x, v) and not never_enough(x, v) else 1
    k = v + 2 if bits_at(x, v + 1) & w.OF else v + 1
    while tag_at(x, k) in (w.T_R, w.T_TO) or (tag_at(x, k) == w.T_V and k == v + 2 and x.tag[v + 1] == w.T_TO):
        k += 1
    if tag_at(x, k) == w.T_V and x.bits[k] & w.GERUND:
        k += 1
    if tag_at(x, k) == w.T_O and x.bits[k] & w.THIRD:
        h = antecedent(x, k)
        if h >= 0 and h != verb_group(x, v):  # my dog loves it
            add_noun(x, h, v, sign, R_VERB)
    else:
        about(x, v, k, sign, R_VERB)


@inner
def never_enough(x: Sentence, v: int) -> bool:
    """I can not recommend this enough."""
    for k in range(v + 1, len(x.bits)):
        if x.bits[k] & w.AMOUNT and x.tag[k] != w.T_N:
            return tag_at(x, k + 1) != w.T_N
    return False


@inner
def advised(x: Sentence, v: int) -> None:
    """Try the soup; you have to try the soup."""
    before = bits_at(x, v - 1)
    asked = v == 0 or x.tag[v - 1] in (w.T_COMMA, w.T_AND, w.T_BUT, w.T_R) or before & (w.HYP | w.AUX)
    asked = asked or (x.tag[v - 1] == w.T_O and not before & (w.FIRST | w.THIRD))  # be sure you try
    must = before & w.TO and bits_at(x, v - 2) & w.AUX
    if (asked or must) and tag_at(x, v + 1) == w.T_D:
        about(x, v, v + 1, POSITIVE, R_VERB)


@inner
def manner(x: Sentence, v: int) -> None:
    """Works great, cooked perfectly, boots up quickly."""
    k, end = v + 1, v
    if tag_at(x, k) == w.T_P and tag_at(x, k + 1) in (w.T_R, w.T_J) and x.sense[k + 1] != 0:
        end = k
        k += 1
    while k < v + 3 and tag_at(x, k) == w.T_R and x.sense[k] == 0:
        k += 1
    if tag_at(x, k) not in (w.T_R, w.T_J) or x.sense[k] == 0:
        return
    if x.tag[k] == w.T_J and tag_at(x, k + 1) in (w.T_N, w.T_J):
        return
    sign = NEGATIVE if bits_at(x, k - 1) & w.TOO else -1 if negated(x, v) else 1
    count = 0 if x.bits[v] & w.ACTS and antecedent_used(x, v) else subjects(x, v)
    add_all(x, count, k, k, sign, R_ADVERB)
    if count == 0 and x.bits[v] & w.ACTS:
        add(x, v, end, k, k, sign, R_ADVERB)
