"""Opinions about aspects, found in sentences of word classes by rules: attributive, predicative, verbs, negation.

Every token comes with the classes that its word can have (bits) and the polarity of its sense (0 where it has none).
`find_opinions` decides on one part of speech per token, joins nouns to noun phrases, and pairs opinion words with them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels import kernel
from whyrank.kernels import wordclasses as w
from whyrank.kernels.phrases import (
    ROOM,
    antecedent,
    antecedent_used,
    before_phrase,
    bits_at,
    hypothetical,
    inner_head,
    is_head,
    negated,
    next_conjunct,
    next_head,
    no_aspect,
    object_head,
    phrase_start,
    subject_head,
    subjects,
    tag_at,
    verb_group,
)
from whyrank.kernels.tagging import tag_sentence
from whyrank.kernels.wordclasses import ADJ, CAPITAL, END, GLUE, NOUN, PARTICIPLE, T_J, T_N, Sentence

__all__ = ["ADJ", "CAPITAL", "END", "GLUE", "NOUN", "PARTICIPLE", "T_J", "T_N", "find_opinions"]

# Which rule found an opinion.
R_ATTRIBUTE, R_PREDICATE, R_VERB, R_NO, R_BARE, R_AFFECT, R_TO, R_DOES, R_ADVERB, R_NOMINAL, R_WORTH, R_VERDICT = range(
    12
)

POSITIVE, NEGATIVE = -2, 2  # signs of opinions that have one whatever their word says
MOST = 256  # opinions of one sentence
CLAUSE_ENDS = (w.T_NONE, w.T_AND, w.T_COMMA, w.T_BUT, w.T_P, w.T_TO, w.T_NEG)


@kernel
def find_opinions(
    bits: NDArray[np.int64], sense: NDArray[np.int8], sentences: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Opinions in sentences (sentence k is tokens sentences[k] to sentences[k + 1]).

    `sense` is the polarity of each word's sense: -1, 1, 2 for one that has a sense but no polarity of its own, 0 for
    none. Returns rows of (sentence, first token of the aspect, its head, first token of the opinion, its head, sign, rule)
    and the part of speech of every token. The sign is -1 where a negation turns the opinion, else 1; 2 and -2 say that it
    is negative or positive whatever its word says.
    """
    tag = np.zeros(len(bits), np.int8)
    out = np.empty((MOST, 7), np.int32)
    rows, heads, size = np.empty((MOST, 6), np.int32), np.empty(ROOM, np.int32), np.zeros(1, np.int32)
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
            bigger = np.empty((2 * len(out) + MOST, 7), np.int32)
            bigger[:n] = out[:n]
            out = bigger
        for i in range(size[0]):
            out[n, 0] = number
            out[n, 1:5] = rows[i, :4] + s
            out[n, 5:] = rows[i, 4:]
            n += 1
    return out[:n].copy(), tag


@kernel
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
        elif c & w.AMOUNT and tag_at(x, i + 1) == w.T_N and tag_at(x, i - 1) != w.T_J:
            concern(x, i, i + 1, R_ATTRIBUTE)
    for i in range(len(x.bits)):
        if is_head(x, i):
            attributes(x, i)
    if x.size[0] == 0:
        fragment(x)


@kernel
def add(x: Sentence, a0: int, a1: int, o0: int, o1: int, sign: int, rule: int) -> None:
    """Add an opinion unless there is one with the same heads."""
    n = x.size[0]
    if (a1 == o1 and x.tag[a1] != w.T_J) or n == MOST:
        return
    for i in range(n):
        if x.rows[i, 1] == a1 and x.rows[i, 3] == o1:
            return
    x.rows[n, 0], x.rows[n, 1], x.rows[n, 2], x.rows[n, 3], x.rows[n, 4], x.rows[n, 5] = a0, a1, o0, o1, sign, rule
    x.size[0] = n + 1


@kernel
def add_noun(x: Sentence, head: int, opinion: int, sign: int, rule: int) -> None:
    """Add an opinion of one word about a noun phrase."""
    add(x, phrase_start(x, head), head, opinion, opinion, sign, rule)


@kernel
def add_all(x: Sentence, count: int, o0: int, o1: int, sign: int, rule: int) -> None:
    """Add an opinion about every subject in `heads`."""
    for i in range(count):
        head = x.heads[i]
        add(x, phrase_start(x, head) if x.tag[head] == w.T_N else head, head, o0, o1, sign, rule)


@kernel
def sign_at(x: Sentence, i: int, turned: bool) -> int:
    """The sign of an opinion word that is negated or not: less friendly, too small, not too spicy."""
    before = bits_at(x, i - 1)
    if before & w.TOO and turned:
        return -1 if x.sense[i] in (-1, 1) else POSITIVE  # not too bad, not too spicy
    if before & w.TOO:
        return NEGATIVE
    return -1 if turned != (before & w.LESS != 0) else 1


@kernel
def turned_sign(x: Sentence, i: int) -> int:
    """The sign of an opinion word, turned by a negation before it unless it compares (never had better)."""
    return sign_at(x, i, negated(x, i) and not x.bits[i] & w.COMPARATIVE)


@kernel
def claimed(x: Sentence, opinion: int) -> bool:
    """Whether a predicate noun has given this adjective to the subject."""
    for i in range(x.size[0]):
        if x.rows[i, 3] == opinion and x.rows[i, 5] in (R_NOMINAL, R_VERDICT):
            return True
    return False


@kernel
def attributes(x: Sentence, head: int) -> None:
    """Opinion words before a noun phrase: comfortable bed; friendly and helpful staff; no hot water."""
    a = phrase_start(x, head)
    whole = inner_head(x, head, w.CONTAINER)
    if (x.bits[whole] & (w.VAGUE | w.TIME) and a == head) or (x.bits[head] & w.VERDICT and x.sense[head] != 0):
        return
    first, j = a, a - 1
    while j >= 0 and j >= a - ROOM:
        t = x.tag[j]
        if t == w.T_J:
            if judged_from(x, j) >= 0:
                first = j
        elif t in (w.T_AND, w.T_COMMA):
            if x.tag[j + 1] not in (w.T_J, w.T_R) or tag_at(x, j - 1) != w.T_J or x.sense[j - 1] == 0:
                break
        elif t != w.T_R:
            break
        j -= 1
    if first < a:
        modifiers(x, first, a, j, whole)
    elif tag_at(x, j) == w.T_NEG and x.bits[j] & w.NO:
        absent(x, j, head)
    else:
        bare(x, a, head)


@kernel
def judged_from(x: Sentence, j: int) -> int:
    """Where an attributive opinion with its head at j begins: at j, or at its adverb (well prepared); -1 if it is none."""
    if x.tag[j] != w.T_J or x.bits[j] & w.NEUTRAL and x.sense[j] != 0:
        return -1
    if x.sense[j] != 0:
        return j
    judged = tag_at(x, j - 1) == w.T_R and x.sense[j - 1] != 0 and x.bits[j - 1] & w.ADV
    return j - 1 if judged and x.bits[j] & w.PARTICIPLE and not x.bits[j] & w.IMPLIES else -1


@kernel
def modifiers(x: Sentence, first: int, a: int, edge: int, head: int) -> None:
    """Opinions from the adjectives between first and a; edge is the last token before all modifiers."""
    if hypothetical(x, first, w.WISH) or bits_at(x, edge) & w.THAN or no_aspect(x, head):
        return
    turned = negated(x, edge + 1) or (tag_at(x, edge) == w.T_D and negated(x, edge))
    start, own = x.size[0], phrase_start(x, head) if head >= a + 2 else a
    for j in range(a - 1, first - 1, -1):
        start_of = judged_from(x, j)
        if start_of < 0 or claimed(x, j):
            continue
        sign = sign_at(x, j, turned and not x.bits[j] & w.COMPARATIVE)  # never had better pizza
        if x.bits[j] & w.COMPARATIVE and not turned and had_elsewhere(x, edge):
            sign = NEGATIVE
        add(x, own, head, start_of, j, sign, R_ATTRIBUTE)
    # great food and service: the second noun shares the words when it has none of its own
    last, k = x.size[0], head
    while x.size[0] > start:
        k = next_conjunct(x, k)
        if k < 0 or x.tag[k] != w.T_N or x.bits[k - 1] & w.DASH:
            break
        k = next_head(x, k)
        if tag_at(x, k + 1) == w.T_J or x.bits[k] & w.LIGHT:
            break
        for i in range(start, last):
            add(x, phrase_start(x, k), k, x.rows[i, 2], x.rows[i, 3], x.rows[i, 4], R_ATTRIBUTE)


@kernel
def had_elsewhere(x: Sentence, edge: int) -> bool:
    """Whether the object of the verb at the edge is another item's: I have had better, there are better places."""
    k = edge
    while tag_at(x, k) in (w.T_V, w.T_AUX, w.T_COP, w.T_R, w.T_D):
        k -= 1
    return k < edge and tag_at(x, k) == w.T_O and not x.bits[k] & w.THIRD


@kernel
def absent(x: Sentence, no: int, head: int) -> None:
    """No parking, there was no heating."""
    known = w.TIME | w.LIGHT | w.TROUBLE | w.VERDICT | w.VAGUE | w.FIRST
    had = no == 0 or x.tag[no - 1] in (w.T_COP, w.T_AUX, w.T_P, w.T_V, w.T_COMMA, w.T_AND, w.T_BUT)
    if had and not x.bits[head] & known and not hypothetical(x, no, w.HYP):
        add(x, no + 1, head, no, no, NEGATIVE, R_NO)


@kernel
def bare(x: Sentence, a: int, head: int) -> None:
    """Opinion words right behind a noun phrase without a verb: food great, I found the bed hard."""
    m = before_phrase(x, a)
    found = tag_at(x, m) == w.T_V and x.bits[m] & w.FIND
    if not found and tag_at(x, m) not in (w.T_NONE, w.T_COMMA, w.T_AND, w.T_BUT):
        return
    k = head + 1
    if bits_at(x, k) & w.DASH:
        k += 1
    turned = False
    while tag_at(x, k) in (w.T_R, w.T_NEG):
        turned = turned != (x.tag[k] == w.T_NEG)
        k += 1
    for _ in range(ROOM):
        if tag_at(x, k) != w.T_J or x.sense[k] == 0 or hypothetical(x, k, w.HYP):
            break
        after = tag_at(x, k + 1)
        if after not in CLAUSE_ENDS and not (found and after in (w.T_R, w.T_O)):
            break
        add(x, a, head, k, k, sign_at(x, k, turned), R_BARE)
        k += 1
        while tag_at(x, k) in (w.T_AND, w.T_COMMA, w.T_R):
            k += 1
        if next_head(x, k) >= 0:
            break


@kernel
def predicate(x: Sentence, c: int) -> None:
    """Subject, copula, opinion words: the bed and the pillows were not really comfortable, but clean."""
    count = subjects(x, c)
    if count == 0:
        if x.bits[c] & w.LINKING and x.bits[c] & w.NOUN and tag_at(x, c - 1) == w.T_O:
            x.heads[0] = c  # it looks great
        else:
            x.heads[0] = item_pronoun(x, c)
        if x.heads[0] < 0:
            return
        count = 1
    turned, could = none_of(x, x.heads[count - 1]), False
    k = c - 1
    while tag_at(x, k) in (w.T_R, w.T_NEG, w.T_AUX, w.T_COP):
        turned = turned != (x.tag[k] == w.T_NEG)
        could = could or x.bits[k] & w.COULD != 0
        k -= 1
    better = (bits_at(x, c + 1) | bits_at(x, c + 2) | bits_at(x, c + 3)) & w.COMPARATIVE  # could be a lot better
    if hypothetical(x, c, w.HYP) and not turned and not (could and better):
        return
    complement(x, c, count, turned, could)


@kernel
def item_pronoun(x: Sentence, c: int) -> int:
    """The pronoun before a copula that stands for the item itself (it is addictive, this was easy), or -1."""
    k = c - 1
    while tag_at(x, k) in (w.T_R, w.T_NEG, w.T_AUX, w.T_COP):
        k -= 1
    alone = tag_at(x, k) == w.T_O and x.bits[k] & (w.ITEM) != 0
    return k if alone and antecedent(x, k) < 0 else -1


@kernel
def fragment(x: Sentence) -> None:
    """Opinion words that are a whole sentence, about the item itself: fun and addictive!"""
    for k in range(len(x.bits)):
        if x.tag[k] not in (w.T_J, w.T_R, w.T_AND, w.T_COMMA, w.T_BUT, w.T_NONE) or (
            x.tag[k] == w.T_J and x.sense[k] == 0
        ):
            return
    for k in range(len(x.bits)):
        if x.tag[k] == w.T_J and judges(x, k):
            add(x, k, k, k, k, sign_at(x, k, False), R_BARE)


@kernel
def none_of(x: Sentence, head: int) -> bool:
    """Whether a subject is negated: no dish was good, not one of our meals, nothing at this place."""
    m = before_phrase(x, phrase_start(x, head))
    while tag_at(x, m) in (w.T_P, w.T_D, w.T_O):
        m -= 1
    return tag_at(x, m) == w.T_NEG


@kernel
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
            if (x.bits[k] & w.AFFECT and tag_at(x, k + 1) == w.T_P) or (
                x.bits[k] & w.WORTH and next_head(x, k + 1) >= 0
            ):
                return
            noun = modified(x, k)
            if noun >= 0 and not x.bits[noun] & w.TIME:
                if not pronoun:
                    nominal(x, k, count, turned)
                return
            if pronoun and tag_at(x, k + 1) in (w.T_TO, w.T_REL):
                return  # it is frustrating that
            if tag_at(x, k + 1) == w.T_R and not judges(x, k) and x.sense[k + 1] != 0 and x.bits[k] & w.PARTICIPLE:
                k += 1  # was cooked perfectly
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


@kernel
def one_of(x: Sentence, k: int) -> bool:
    """Whether a token is part of "one of the", "among the"."""
    if x.tag[k] == w.T_O:
        return bits_at(x, k + 1) & w.OF != 0
    return x.bits[k] & w.OF != 0 and tag_at(x, k + 1) == w.T_D


@kernel
def modified(x: Sentence, k: int) -> int:
    """The noun that an adjective at k stands before, with other modifiers between, or -1."""
    k += 1
    while tag_at(x, k) in (w.T_J, w.T_R):
        k += 1
    return k if tag_at(x, k) == w.T_N else -1


@kernel
def predicate_sign(x: Sentence, k: int, turned: bool, could: bool) -> int:
    """The sign behind a copula: could be better, could not be better, not too spicy."""
    if could and (x.bits[k] | x.bits[k - 1]) & w.COMPARATIVE:
        return 1 if turned else NEGATIVE
    return sign_at(x, k, turned)


@kernel
def judges(x: Sentence, k: int) -> bool:
    """Whether an adjective is an opinion word; forms of verbs of doing are not (delivered, stopped)."""
    return x.sense[k] != 0 and not x.bits[k] & w.DOES


@kernel
def describe(x: Sentence, k: int, adverb: int, count: int, sign: int) -> int:
    """Add the adjective at k with the adverb that judges it (well prepared); 1 if it is an opinion, else 0."""
    opinion = judges(x, k)
    judged = adverb >= 0 and adverb == k - 1 and not opinion
    if not opinion and not judged and x.bits[k] & (w.NEUTRAL | w.PARTICIPLE | w.GERUND):
        return 0
    add_all(x, count, adverb if judged else k, k, sign, R_PREDICATE)
    return 1


@kernel
def nominal(x: Sentence, k: int, count: int, turned: bool) -> None:
    """A predicate noun that judges, or else its adjectives, are about the subject: a huge plus, a great place."""
    head = next_head(x, k)
    if x.bits[head] & w.VERDICT and x.sense[head] != 0:
        add_all(x, count, head, head, -1 if turned else 1, R_PREDICATE)
        return
    while tag_at(x, k) in (w.T_J, w.T_R, w.T_AND, w.T_COMMA):
        if x.tag[k] == w.T_J and x.sense[k] != 0 and not x.bits[k] & w.NEUTRAL:
            add_all(x, count, k, k, sign_at(x, k, turned), R_NOMINAL)
        k += 1


@kernel
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


@kernel
def likewise(x: Sentence, c: int) -> None:
    """The food was great and so was the service."""
    n, h = x.size[0], next_head(x, c + 1)
    inverted = bits_at(x, c - 1) & w.INT and tag_at(x, c - 2) in (w.T_AND, w.T_COMMA, w.T_BUT)
    if h >= 0 and inverted and n > 0 and x.rows[n - 1, 5] == R_PREDICATE and x.rows[n - 1, 3] < c:
        add(x, phrase_start(x, h), h, x.rows[n - 1, 2], x.rows[n - 1, 3], x.rows[n - 1, 4], R_PREDICATE)


@kernel
def about(x: Sentence, opinion: int, k: int, sign: int, rule: int) -> None:
    """An opinion about each noun phrase of the list that begins at k."""
    for _ in range(ROOM):
        h = object_head(x, k)
        if h < 0 or no_aspect(x, h):
            return
        add_noun(x, h, opinion, sign, rule)
        k = next_conjunct(x, h)
        if k < 0:
            return


@kernel
def concern(x: Sentence, i: int, k: int, rule: int) -> None:
    """Happy with the room, problems with the heating, plenty of space, lack of light."""
    if not hypothetical(x, i, w.HYP) or (x.bits[i] & w.COMPARATIVE and negated(x, i)):
        about(x, i, k, turned_sign(x, i), rule)


@kernel
def trouble(x: Sentence, i: int) -> None:
    """Problems with the heating; heating problems."""
    if tag_at(x, i + 1) == w.T_P:
        concern(x, i, i + 2, R_AFFECT)
    if tag_at(x, i - 1) == w.T_N and not hypothetical(x, i, w.HYP):
        a = phrase_start(x, i)
        add(x, a, i - 1, i, i, -1 if negated(x, a) else 1, R_AFFECT)


@kernel
def worth(x: Sentence, i: int) -> None:
    """Worth the price, not worth the money."""
    h = next_head(x, i + 1)
    if h >= 0 and not x.bits[h] & w.GERUND and not no_aspect(x, h) and not hypothetical(x, i, w.HYP):
        add_noun(x, h, i, -1 if negated(x, i) else 1, R_WORTH)


@kernel
def infinitive(x: Sentence, i: int) -> None:
    """Easy to use: what is done is the aspect; easy to get a table: the object is."""
    v = i + 2
    if v >= len(x.bits) or hypothetical(x, i, w.HYP):
        return
    sign = turned_sign(x, i)
    k = i - 1
    while tag_at(x, k) in (w.T_J, w.T_R, w.T_COMMA, w.T_AND):
        k -= 1
    h = next_head(x, v + 1) if tag_at(x, v + 1) in (w.T_D, w.T_N, w.T_J) else -1
    if h >= 0 and not (tag_at(x, k) == w.T_D and x.tag[v + 1] != w.T_D):  # an easy to use phone
        add_noun(x, h, i, sign, R_TO)
    elif bits_at(x, v + 1) & w.PREP and bits_at(x, v + 2) & (w.END | w.COMMA | w.AND | w.BUT):
        add(x, v, v + 1, i, i, sign, R_TO)
    else:
        add(x, v, v, i, i, sign, R_TO)


@kernel
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
        add_all(x, subjects(x, v - 1 if bits_at(x, v - 1) & w.STOPS else v), v, v, NEGATIVE, R_DOES)
    elif c & w.DOES and x.sense[v] != 0:
        add_all(x, subjects(x, v), v, v, -1 if negated(x, v) else 1, R_DOES)
    else:
        manner(x, v)


@kernel
def liked(x: Sentence, v: int) -> None:
    """Loved the rooftop bar, the pool and the breakfast."""
    c, before = x.bits[v], bits_at(x, v - 1)
    recommends = c & w.LOVE and x.sense[v] > 0 and before & (w.HYP | w.INT)  # would recommend
    if hypothetical(x, v, w.HYP) and not recommends:
        return
    sign = -1 if negated(x, v) else 1
    k = v + 1
    while tag_at(x, k) in (w.T_R, w.T_TO) or (tag_at(x, k) == w.T_V and k == v + 2 and x.tag[v + 1] == w.T_TO):
        k += 1
    if tag_at(x, k) == w.T_V and x.bits[k] & w.GERUND:
        k += 1
    if tag_at(x, k) == w.T_O and x.bits[k] & w.THIRD:
        h = antecedent(x, k)
        if h >= 0:
            add_noun(x, h, v, sign, R_VERB)
    else:
        about(x, v, k, sign, R_VERB)


@kernel
def advised(x: Sentence, v: int) -> None:
    """Try the soup; you have to try the soup."""
    before = bits_at(x, v - 1)
    asked = v == 0 or x.tag[v - 1] in (w.T_COMMA, w.T_AND, w.T_BUT, w.T_R) or before & (w.HYP | w.AUX)
    asked = asked or (x.tag[v - 1] == w.T_O and not before & (w.FIRST | w.THIRD))  # be sure you try
    must = before & w.TO and bits_at(x, v - 2) & w.AUX
    if (asked or must) and tag_at(x, v + 1) == w.T_D:
        about(x, v, v + 1, 1, R_VERB)


@kernel
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
    sign = -1 if negated(x, v) else 1
    count = 0 if x.bits[v] & w.ACTS and antecedent_used(x, v) else subjects(x, v)
    add_all(x, count, k, k, sign, R_ADVERB)
    if count == 0 and x.bits[v] & w.ACTS:
        add(x, v, end, k, k, sign, R_ADVERB)
