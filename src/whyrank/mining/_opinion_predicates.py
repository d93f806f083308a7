"""Opinions behind copulas: what a subject is."""

from __future__ import annotations

from whyrank.compile import inner
from whyrank.mining import _wordclasses as w
from whyrank.mining._opinion_rows import (
    CLAUSE_ENDS,
    R_BARE,
    R_NOMINAL,
    R_PREDICATE,
    R_VERDICT,
    WISHED,
    about,
    add,
    add_all,
    sign_at,
    turned_sign,
)
from whyrank.mining._phrases import (
    ROOM,
    antecedent,
    antecedent_used,
    before_phrase,
    bits_at,
    denied,
    hypothetical,
    next_head,
    phrase_start,
    subject_head,
    subjects,
    tag_at,
    verb_group,
)
from whyrank.mining._wordclasses import Sentence


@inner
def predicate(x: Sentence, c: int) -> None:
    """Subject, copula, opinion words: the bed and the pillows were not really comfortable, but clean."""
    count = subjects(x, c)
    if count == 0:
        looks = x.bits[c] & w.LINKING and x.bits[c] & w.NOUN and tag_at(x, c - 1) == w.T_O  # it looks great
        x.heads[0], count = c if looks else item_pronoun(x, c), 1
        if x.heads[0] < 0:
            return
    first = x.heads[count - 1]
    turned, could = none_of(x, first) != denied(x, phrase_start(x, first)), False
    k = c - 1
    while tag_at(x, k) in (w.T_R, w.T_NEG, w.T_AUX, w.T_COP):
        turned = turned != (x.tag[k] == w.T_NEG)
        could = could or x.bits[k] & w.COULD != 0
        k -= 1
    better = (bits_at(x, c + 1) | bits_at(x, c + 2) | bits_at(x, c + 3)) & w.COMPARATIVE  # could be a lot better
    if hypothetical(x, c, w.HYP) and not turned and not (could and better):
        return
    complement(x, c, count, turned, could)


@inner
def item_pronoun(x: Sentence, c: int) -> int:
    """The pronoun before a copula that stands for the item itself (it is addictive, this was easy), or -1."""
    k = c - 1
    while tag_at(x, k) in (w.T_R, w.T_NEG, w.T_AUX, w.T_COP):
        k -= 1
    return k if tag_at(x, k) == w.T_O and x.bits[k] & w.ITEM != 0 and antecedent(x, k) < 0 else -1


@inner
def fragment(x: Sentence) -> None:
    """Opinion words that open a sentence without a noun, about the item itself: fun and addictive!"""
    end = 0
    while tag_at(x, end) in (w.T_R, w.T_AND, w.T_COMMA, w.T_BUT) or (tag_at(x, end) == w.T_J and x.sense[end] != 0):
        end += 1
    if tag_at(x, end) not in (w.T_NONE, w.T_P) or (end > 0 and x.bits[end - 1] & w.AFFECT):
        return
    for k in range(end):
        if x.tag[k] == w.T_J and judges(x, k):
            add(x, k, k, k, k, sign_at(x, k, False), R_BARE)


@inner
def none_of(x: Sentence, head: int) -> bool:
    """Whether a subject is negated: no dish was good, not one of our meals, nothing at this place."""
    m = before_phrase(x, phrase_start(x, head))
    while tag_at(x, m) in (w.T_P, w.T_D, w.T_O):
        m -= 1
    return tag_at(x, m) == w.T_NEG


@inner
def complement(x: Sentence, c: int, count: int, turned: bool, could: bool) -> None:
    """The opinion words behind a copula, for all subjects."""
    found, adverb, k = 0, -1, c + 1
    pronoun = x.heads[0] < c and (x.tag[x.heads[0]] == w.T_O or antecedent_used(x, c))
    while found < ROOM:
        t = tag_at(x, k)
        if t == w.T_NEG:
            if bits_at(x, k + 1) & w.TROUBLE:
                return
            turned = turned if bits_at(x, k + 1) & w.ONLY else not turned  # not only clean
        elif t == w.T_R:
            adverb = k if x.sense[k] != 0 and x.bits[k] & w.ADV else adverb
        elif t == w.T_J:
            if modified(x, k) >= 0:
                nominal(x, k, 0 if pronoun else count, turned)
                return
            if governs(x, k, pronoun):
                return
            if tag_at(x, k + 1) == w.T_R and not judges(x, k) and x.sense[k + 1] != 0 and x.bits[k] & w.PARTICIPLE:
                k += 1  # was cooked perfectly
            if turned and bits_at(x, k + 1) & w.AMOUNT:
                return  # not loud enough: neither loud nor quiet
            found += describe(x, k, adverb, count, predicate_sign(x, k, turned, could))
        elif t in (w.T_AND, w.T_COMMA, w.T_BUT):
            if found == 0 or next_head(x, k + 1) >= 0:
                break
            turned = turned and t != w.T_BUT
        elif t == w.T_N and x.bits[k] & w.VERDICT and x.sense[k] != 0 and found == 0:
            add_all(x, count, k, k, -1 if turned else 1, R_PREDICATE)
            return
        elif t not in (w.T_D, w.T_O, w.T_P) or (t != w.T_D and not one_of(x, k)):
            break
        k += 1
    if found == 0 and adverb >= 0 and tag_at(x, k) in CLAUSE_ENDS:
        add_all(x, count, adverb, adverb, -1 if turned else 1, R_PREDICATE)


@inner
def one_of(x: Sentence, k: int) -> bool:
    """Whether a token is part of "one of the", "among the"."""
    if x.tag[k] == w.T_O:
        return bits_at(x, k + 1) & w.OF != 0
    return x.bits[k] & w.OF != 0 and tag_at(x, k + 1) == w.T_D


@inner
def governs(x: Sentence, k: int, pronoun: bool) -> bool:
    """Whether an adjective is about what follows it: happy with it, worth the price, it is frustrating that."""
    after = tag_at(x, k + 1)
    if x.bits[k] & w.AFFECT and after == w.T_P:
        return True
    if after == w.T_TO and tag_at(x, k + 2) in (w.T_D, w.T_N, w.T_P, w.T_O):
        return False  # close to the station
    if bits_at(x, k + 1) & w.OF or (x.bits[k] & w.EASY and after == w.T_TO and tag_at(x, k + 2) == w.T_V):
        return True  # full of holes; easy to clean
    return (pronoun and after in (w.T_TO, w.T_REL)) or (x.bits[k] & w.WORTH and next_head(x, k + 1) >= 0)


@inner
def modified(x: Sentence, k: int) -> int:
    """The noun that an adjective at k stands before, with other modifiers between, or -1; a time is none."""
    k += 1
    while tag_at(x, k) in (w.T_J, w.T_R):
        k += 1
    return k if tag_at(x, k) == w.T_N and not x.bits[k] & w.TIME else -1


@inner
def predicate_sign(x: Sentence, k: int, turned: bool, could: bool) -> int:
    """The sign behind a copula: could be better, could not be better, not too spicy."""
    if could and (x.bits[k] | x.bits[k - 1]) & w.COMPARATIVE:
        return 1 if turned else WISHED
    return sign_at(x, k, turned)


@inner
def judges(x: Sentence, k: int) -> bool:
    """Whether an adjective is an opinion word; forms of verbs of doing are not (delivered, stopped)."""
    return x.sense[k] != 0 and not x.bits[k] & w.DOES


@inner
def describe(x: Sentence, k: int, adverb: int, count: int, sign: int) -> int:
    """Add the adjective at k with the adverb that judges it (well prepared); 1 if it is an opinion, else 0."""
    opinion = judges(x, k)
    judged = adverb >= 0 and adverb == k - 1 and not opinion
    if not opinion and not judged and x.bits[k] & (w.NEUTRAL | w.PARTICIPLE | w.GERUND):
        return 0
    add_all(x, count, adverb if judged else k, k, sign, R_PREDICATE)
    return 1


@inner
def nominal(x: Sentence, k: int, count: int, turned: bool) -> None:
    """A predicate noun that judges, or else its adjectives, are about the subject: a huge plus, a great place."""
    head = next_head(x, k)
    if head >= 0 and x.bits[head] & w.VERDICT and x.sense[head] != 0:
        add_all(x, count, head, head, -1 if turned else 1, R_PREDICATE)
        return
    stands_for_itself = head >= 0 and not x.bits[head] & (w.ROLE | w.VAGUE | w.LIGHT | w.TIME)
    if count == 1 and stands_for_itself and bare_name(x, x.heads[0]):
        x.heads[1], count = head, 2  # Anna was a great host
    while tag_at(x, k) in (w.T_J, w.T_R, w.T_AND, w.T_COMMA):
        if x.tag[k] == w.T_J and x.sense[k] != 0 and not x.bits[k] & w.NEUTRAL:
            add_all(x, count, k, k, sign_at(x, k, turned), R_NOMINAL)
        k += 1


@inner
def bare_name(x: Sentence, head: int) -> bool:
    """Whether a subject is one capitalized word without anything before it, as names of persons are."""
    return x.bits[head] & w.CAPITAL != 0 and tag_at(x, phrase_start(x, head) - 1) in CLAUSE_ENDS


@inner
def idioms(x: Sentence) -> None:
    """Opinions of several words that stand for themselves, about the item: I could not put it down."""
    for k in range(1, len(x.bits)):
        if x.tag[k] != w.T_J or x.sense[k] not in (-1, 1) or not x.bits[k - 1] & w.GLUE:
            continue
        if tag_at(x, k + 1) in (w.T_N, w.T_J) or hypothetical(x, k, w.HYP):
            continue
        told = False
        for i in range(x.size[0]):
            told = told or x.rows[i, 3] == k
        if not told:
            add(x, k, k, k, k, turned_sign(x, k), R_BARE)


@inner
def verdict(x: Sentence, c: int) -> None:
    """The best part is the food; the only downside was the bathroom; my favorite is the pasta."""
    k = c + 1
    if tag_at(x, k) not in (w.T_D, w.T_N) or hypothetical(x, c, w.HYP):
        return
    h = verb_group(x, c)
    if tag_at(x, h) != w.T_J or tag_at(x, h - 1) not in (w.T_D, w.T_R):
        h = subject_head(x, c)
    if h < 0 or not (x.tag[h] == w.T_J or x.bits[h] & (w.TROUBLE | w.VERDICT | w.VAGUE | w.ROLE)):
        return
    named = x.tag[h] == w.T_J or x.bits[h] & (w.TROUBLE | w.VERDICT)
    opinion = h if named and x.sense[h] != 0 else h - 1
    if opinion < 0 or x.sense[opinion] == 0 or x.tag[opinion] not in (w.T_N, w.T_J):
        return
    about(x, opinion, k, turned_sign(x, opinion), R_VERDICT)


@inner
def likewise(x: Sentence, c: int) -> None:
    """The food was great and so was the service."""
    n, h = x.size[0], next_head(x, c + 1)
    inverted = bits_at(x, c - 1) & w.INT and tag_at(x, c - 2) in (w.T_AND, w.T_COMMA, w.T_BUT)
    if h >= 0 and inverted and n > 0 and x.rows[n - 1, 5] == R_PREDICATE and x.rows[n - 1, 3] < c:
        add(x, phrase_start(x, h), h, x.rows[n - 1, 2], x.rows[n - 1, 3], x.rows[n - 1, 4], R_PREDICATE)
