"""Opinions in noun phrases: attributes, what is missing, what follows a noun or an adjective without a verb."""

from __future__ import annotations

from whyrank.compile import inner
from whyrank.mining import _wordclasses as w
from whyrank.mining._opinion_rows import (
    CLAUSE_ENDS,
    NEGATIVE,
    R_AFFECT,
    R_ATTRIBUTE,
    R_BARE,
    R_NO,
    R_NOMINAL,
    R_TO,
    R_VERDICT,
    R_WORTH,
    add,
    add_noun,
    concern,
    sign_at,
    turned_sign,
)
from whyrank.mining._phrases import (
    REACH,
    ROOM,
    before_phrase,
    bits_at,
    denied,
    elsewhere,
    hypothetical,
    inner_head,
    negated,
    next_conjunct,
    next_head,
    no_aspect,
    phrase_start,
    tag_at,
    verb_group,
)
from whyrank.mining._wordclasses import Sentence


@inner
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


@inner
def judged_from(x: Sentence, j: int) -> int:
    """Where an attributive opinion with its head at j begins: at j, or at its adverb (well prepared); or -1."""
    if x.tag[j] == w.T_J and bits_at(x, j - 1) & w.TOO:
        return j  # too many stairs
    of_price = x.bits[j] & w.LEVEL and bits_at(x, j + 1) & w.PAID and tag_at(x, j + 2) != w.T_N  # low prices
    if x.tag[j] != w.T_J or (x.bits[j] & w.NEUTRAL and x.sense[j] != 0 and not of_price):
        return -1
    if x.sense[j] != 0:
        return j
    judged = tag_at(x, j - 1) == w.T_R and x.sense[j - 1] != 0 and x.bits[j - 1] & w.ADV
    return j - 1 if judged and x.bits[j] & w.PARTICIPLE and not x.bits[j] & w.IMPLIES else -1


@inner
def modifiers(x: Sentence, first: int, a: int, edge: int, head: int) -> None:
    """Opinions from the adjectives between first and a; edge is the last token before all modifiers."""
    if hypothetical(x, first, w.WISH) or bits_at(x, edge) & w.THAN or no_aspect(x, head) or handled(x, edge):
        return
    turned = negated(x, edge + 1) or (tag_at(x, edge) == w.T_D and negated(x, edge))
    start, own = x.size[0], phrase_start(x, head) if head >= a + 2 else a
    for j in range(a - 1, first - 1, -1):
        start_of = judged_from(x, j)
        if start_of < 0 or claimed(x, j) or (x.bits[j] & w.COMPARATIVE and of_another(x, edge)):
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


@inner
def claimed(x: Sentence, opinion: int) -> bool:
    """Whether a predicate noun has given this adjective to the subject."""
    for i in range(x.size[0]):  # noqa: SIM110 - numba compiles a loop faster than a generator
        if x.rows[i, 3] == opinion and x.rows[i, 5] in (R_NOMINAL, R_VERDICT):
            return True
    return False


@inner
def had_elsewhere(x: Sentence, edge: int) -> bool:
    """Whether the object of the verb at the edge is another item's: I have had better, there are better places."""
    k = edge
    while tag_at(x, k) in (w.T_V, w.T_AUX, w.T_COP, w.T_R, w.T_D):
        k -= 1
    return k < edge and tag_at(x, k) == w.T_O and not x.bits[k] & w.THIRD


@inner
def handled(x: Sentence, edge: int) -> bool:
    """Whether the writer, or who follows the advice, does something with it: I used fresh basil, add cold water."""
    k = edge
    while tag_at(x, k) in (w.T_N, w.T_J, w.T_R, w.T_D, w.T_P, w.T_AND, w.T_COMMA) and k > edge - REACH:
        k -= 1
    if tag_at(x, k) != w.T_V or x.bits[k] & w.USES != w.USES:
        return False
    m = verb_group(x, k)
    return tag_at(x, m) in (w.T_NONE, w.T_AND, w.T_COMMA, w.T_V) or bits_at(x, m) & w.FIRST != 0


@inner
def of_another(x: Sentence, edge: int) -> bool:
    """Whether a comparison is about another item, by its subject: Spotify has better playlists."""
    k = edge
    while tag_at(x, k) in (w.T_V, w.T_AUX, w.T_R, w.T_D):
        k -= 1
    if k == edge or tag_at(x, k) != w.T_N:
        return False
    named = x.bits[k] & w.CAPITAL and tag_at(x, phrase_start(x, k) - 1) != w.T_D
    return named != 0 or elsewhere(x, k) or x.bits[k] & w.ELSEWHERE != 0


@inner
def absent(x: Sentence, no: int, head: int) -> None:
    """No parking, there was no heating."""
    known = w.TIME | w.LIGHT | w.TROUBLE | w.VERDICT | w.VAGUE | w.FIRST
    had = no == 0 or x.tag[no - 1] in (w.T_COP, w.T_AUX, w.T_P, w.T_V, w.T_COMMA, w.T_AND, w.T_BUT)
    if had and not x.bits[head] & known and not hypothetical(x, no, w.HYP):
        add(x, no + 1, head, no, no, NEGATIVE, R_NO)


@inner
def bare(x: Sentence, a: int, head: int) -> None:
    """Opinion words right behind a noun phrase without a verb: food great, I found the bed hard."""
    m = before_phrase(x, a)
    found = tag_at(x, m) == w.T_V and x.bits[m] & w.FIND
    if not found and tag_at(x, m) not in (w.T_NONE, w.T_COMMA, w.T_AND, w.T_BUT):
        return
    k = head + 1
    if bits_at(x, k) & w.DASH:
        k += 1
    turned = denied(x, a)
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


@inner
def trouble(x: Sentence, i: int) -> None:
    """Problems with the heating; heating problems."""
    if tag_at(x, i + 1) == w.T_P:
        concern(x, i, i + 2, R_AFFECT)
    if tag_at(x, i - 1) == w.T_N and not hypothetical(x, i, w.HYP):
        a = phrase_start(x, i)
        add(x, a, i - 1, i, i, -1 if negated(x, a) else 1, R_AFFECT)


@inner
def worth(x: Sentence, i: int) -> None:
    """Worth the price, not worth the money."""
    h = next_head(x, i + 1)
    if h >= 0 and not x.bits[h] & w.GERUND and not no_aspect(x, h) and not hypothetical(x, i, w.HYP):
        add_noun(x, h, i, -1 if negated(x, i) else 1, R_WORTH)


@inner
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
