"""Opinions about aspects, found in sentences of word classes by rules: attributive, predicative, verbs, negation.

Every token comes with the classes that its word can have (bits) and the polarity of its sense (0 where it has none).
`find_opinions` decides on one part of speech per token, joins nouns to noun phrases, and pairs opinion words with them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.kernels import kernel

# Classes that a word can have.
NOUN, ADJ, VERB, ADV = 1 << 0, 1 << 1, 1 << 2, 1 << 3
DET, POSS, PRON, PREP = 1 << 4, 1 << 5, 1 << 6, 1 << 7
COP, AUX, NEG, AND = 1 << 8, 1 << 9, 1 << 10, 1 << 11
BUT, COMMA, END, INT = 1 << 12, 1 << 13, 1 << 14, 1 << 15
LOVE, LIKE, MISS, AFFECT = 1 << 16, 1 << 17, 1 << 18, 1 << 19
TROUBLE, VERDICT, DOES, FIND = 1 << 20, 1 << 21, 1 << 22, 1 << 23
LIGHT, HYP, REL, TO = 1 << 24, 1 << 25, 1 << 26, 1 << 27
PARTICIPLE, GERUND, TIME, FIRST = 1 << 28, 1 << 29, 1 << 30, 1 << 31
NO, COMPARATIVE, TOO, NEUTRAL = 1 << 32, 1 << 33, 1 << 34, 1 << 35
GLUE, QUOTE, ENOUGH, THAN = 1 << 36, 1 << 37, 1 << 38, 1 << 39
ALIKE, APOSTROPHE_S, LINKING, VAGUE = 1 << 40, 1 << 41, 1 << 42, 1 << 43
OTHERS = 1 << 44
OF, CONTAINER, DASH, TRY = 1 << 45, 1 << 46, 1 << 47, 1 << 48
WORKS, STOPS, CAPITAL, EASY = 1 << 49, 1 << 50, 1 << 51, 1 << 52
ROLE, IMPLIES, COULD, ACTS = 1 << 53, 1 << 54, 1 << 55, 1 << 56
WISH, IF, ITEM = 1 << 57, 1 << 58, 1 << 59

# Parts of speech after a look at the neighbours.
T_NONE, T_N, T_J, T_V, T_R, T_D, T_P, T_O, T_COP, T_AUX, T_NEG, T_AND, T_BUT, T_COMMA, T_REL, T_TO, T_S = range(17)

# Which rule found an opinion.
R_ATTRIBUTE, R_PREDICATE, R_VERB, R_NO, R_BARE, R_AFFECT, R_TO, R_DOES, R_ADVERB, R_MISSING, R_WORTH = range(11)

ROOM = 8  # conjuncts of one opinion
Ints = NDArray[np.int32]


@kernel
def resolve(bits: NDArray[np.int64], sense: NDArray[np.int8], s: int, e: int, tag: NDArray[np.int8]) -> None:
    """One part of speech for every token from s to e, from left to right."""
    for i in range(s, e):
        c = bits[i]
        before = tag[i - 1] if i > s else T_NONE
        after = bits[i + 1] if i + 1 < e else END
        t = T_NONE
        if c & END:
            t = T_NONE
        elif c & COMMA:
            t = T_COMMA
        elif c & AND:
            t = T_AND
        elif c & BUT:
            t = T_BUT
        elif c & GLUE:
            t = T_R
        elif c & APOSTROPHE_S:
            if before == T_O or before == T_NONE or before == T_REL or before == T_D:
                t = T_COP
            elif after & (DET | INT | NEG | POSS | GERUND):
                t = T_COP
            elif after & ADJ and not (i + 2 < e and bits[i + 2] & NOUN and not bits[i + 2] & ADJ):
                t = T_COP
            else:
                t = T_S
        elif c & NEG:
            t = T_NEG
        elif c & COP:
            noun = c & NOUN and (
                before == T_D or before == T_J or before == T_P or (before == T_N and after & (COP | AUX))
            )
            if noun and not (before == T_P and bits[i - 1] & TO):
                t = T_N
            elif c & LINKING:
                good = after & (ADJ | INT | NEG) and not after & (DET | POSS)
                t = T_COP if good else T_V
            else:
                t = T_COP
        elif c & AUX:
            t = T_AUX
        elif c & REL and not c & DET:
            t = T_REL
        elif c & REL and c & DET and before == T_N and (after & (COP | AUX | VERB | PRON)) and not after & NOUN:
            t = T_REL
        elif c & TO:
            t = T_TO
        elif c & LIKE:
            verb = i > s and (
                bits[i - 1] & (FIRST | NEG | AUX) or (before == T_R and i > s + 1 and bits[i - 2] & FIRST)
            )
            t = T_V if verb else T_P
        elif c & PREP and c & INT and after & (ADJ | ADV) and not after & (DET | PRON):
            t = T_R
        elif c & PREP and not (c & ADJ and before in (T_COP, T_R)):
            t = T_P
        elif c & PRON and not (c & DET and after & (NOUN | ADJ)):
            t = T_O
        elif c & (DET | POSS):
            t = T_D
            if c & DET and c & REL and (after & COP or after & AUX):
                t = T_O
        elif c & INT and not (c & (ADJ | NOUN) and not after & (ADJ | ADV | INT | PARTICIPLE)):
            t = T_R
        else:
            t = content(bits, sense, s, e, i, tag)
        tag[i] = t


@kernel
def content(bits: NDArray[np.int64], sense: NDArray[np.int8], s: int, e: int, i: int, tag: NDArray[np.int8]) -> int:
    """The part of speech of a content word."""
    c = bits[i]
    before = tag[i - 1] if i > s else T_NONE
    after = bits[i + 1] if i + 1 < e else END
    if c & CAPITAL and after & CAPITAL and after & NOUN and i > s:
        return T_N  # part of a name
    nominal = before == T_D or before == T_J or before == T_P or before == T_S
    if c & ADV and not c & ADJ and not c & NOUN:
        return T_R
    if c & NOUN and c & VERB:
        if c & LOVE and before in (T_NONE, T_COMMA, T_BUT, T_AND, T_R) and not after & (COP | PREP | AND | END | COMMA):
            return T_V
        if nominal or (before == T_NEG and bits[i - 1] & NO):
            return T_J if c & ADJ and after & NOUN and not after & VERB else T_N
        if (
            before == T_O
            or before == T_AUX
            or before == T_TO
            or before == T_REL
            or (before == T_NEG and not bits[i - 1] & NO)
        ):
            return T_V
        if before == T_R and i > s + 1 and tag[i - 2] in (T_O, T_AUX):
            return T_V
        if before == T_N and after & (DET | POSS | ADV | INT | PRON) and not after & (COP | NOUN):
            return T_V
        if before == T_N and c & (DOES | LINKING):
            return T_V
        if before == T_N and after & ADJ and not after & NOUN:
            return T_V
        return T_J if c & ADJ and after & NOUN else T_N
    if c & PARTICIPLE or c & GERUND:
        if before == T_COP or before == T_R or before == T_NEG:
            return T_J if sense[i] != 0 or c & ADJ or before == T_R or before == T_COP else T_V
        if c & GERUND and before == T_J and i > s + 1 and tag[i - 2] in (T_COP, T_R):
            return T_V
        if c & GERUND and nominal and not after & NOUN:
            return T_N if not c & ADJ else T_J
        if sense[i] != 0 and (after & (NOUN | AND | COMMA | END) or c & ADJ):
            return T_J
        if nominal and after & (NOUN | ADJ):
            return T_J if c & PARTICIPLE else T_N
        if c & GERUND and after & NOUN and not after & VERB and before in (T_NONE, T_AND, T_COMMA):
            return T_N
        return T_J if c & ADJ else T_V
    if c & ADJ and c & NOUN:
        if after & NOUN or before == T_COP or before == T_R or (sense[i] != 0 and before != T_D and before != T_P):
            return T_J
        return T_N if nominal or before == T_N or before == T_AND else T_J
    if c & ADJ:
        return T_J
    if c & VERB:
        return T_V if not nominal or c & LOVE else T_N
    return T_N


@kernel
def phrase_start(bits: NDArray[np.int64], tag: NDArray[np.int8], s: int, head: int) -> int:
    """Where the noun phrase with this head begins: nouns that stand together."""
    a = head
    while a > s and (tag[a - 1] == T_N or tag[a - 1] == T_S) and not bits[a - 1] & TIME:
        a -= 1
    if tag[a] == T_S:
        a += 1
    return a


@kernel
def before_phrase(tag: NDArray[np.int8], s: int, a: int) -> int:
    """The last token before a noun phrase that begins at a, its modifiers and its determiner included."""
    m = a - 1
    while m >= s and (tag[m] == T_J or (tag[m] == T_R and tag[m + 1] == T_J)):
        m -= 1
    while m >= s and tag[m] == T_D:
        m -= 1
    return m


@kernel
def is_head(tag: NDArray[np.int8], i: int, e: int) -> bool:
    """Whether a token is the last noun of a noun phrase."""
    return tag[i] == T_N and not (i + 1 < e and (tag[i + 1] == T_N or tag[i + 1] == T_S))


@kernel
def next_head(bits: NDArray[np.int64], tag: NDArray[np.int8], i: int, e: int) -> int:
    """The head of the noun phrase that begins at i (determiners and modifiers first), or -1."""
    k, seen = i, 0
    while k < e and seen < 6 and (tag[k] in (T_D, T_J, T_R) or bits[k] & FIRST and tag[k] == T_D):
        k += 1
        seen += 1
    if k >= e or tag[k] != T_N:
        return -1
    while k + 1 < e and (tag[k + 1] == T_N or (tag[k + 1] == T_S and k + 2 < e)):
        k += 1
        if tag[k] == T_S:
            while k + 1 < e and tag[k + 1] in (T_J, T_R):
                k += 1
    if bits[k] & LIGHT and k + 2 < e and bits[k + 1] & PREP and tag[k + 1] == T_P:
        deeper = next_head(bits, tag, k + 2, e)
        if deeper >= 0:
            return deeper
    return k if tag[k] == T_N else -1


@kernel
def whole_phrase(bits: NDArray[np.int64], tag: NDArray[np.int8], head: int, e: int) -> int:
    """The head of a noun phrase that holds another one: selection of wines, quality of the food."""
    if bits[head] & CONTAINER and head + 2 < e and bits[head + 1] & OF:
        deeper = next_head(bits, tag, head + 2, e)
        if deeper >= 0:
            return deeper
    return head


@kernel
def negated(bits: NDArray[np.int64], tag: NDArray[np.int8], s: int, i: int) -> bool:
    """Whether a negation reaches the token at i: before it with nothing but adverbs, articles and auxiliaries between."""
    k, steps = i - 1, 0
    flips = False
    while k >= s and steps < 6:
        if tag[k] == T_NEG:
            if bits[k] & NO and i - k > 3:
                return flips
            if k + 1 < i and bits[k + 1] & INT and bits[k + 1] & LIGHT:  # not only
                return flips
            flips = not flips
        elif (
            tag[k] not in (T_R, T_D, T_AUX, T_COP)
            and not (tag[k] == T_J and steps < 3)
            and not (tag[k] == T_V and bits[k] & (AUX | VERB) and steps >= 1)
        ):
            break
        k -= 1
        steps += 1
    return flips


@kernel
def hypothetical(bits: NDArray[np.int64], tag: NDArray[np.int8], s: int, i: int, kinds: int = HYP) -> bool:
    """Whether what stands at i is only wished for or imagined: would be better, if it were clean."""
    k = i - 1
    while k >= s and tag[k] != T_BUT:
        if bits[k] & kinds and not (k + 1 < i and tag[k + 1] == T_NEG):
            return True
        if tag[k] == T_COMMA and not bits[k] & HYP and i - k > 4:
            return False
        k -= 1
    return False


@kernel
def subjects(bits: NDArray[np.int64], tag: NDArray[np.int8], s: int, c: int, heads: Ints) -> int:
    """The heads of the noun phrases that a verb at c is said about, into `heads`; their number."""
    k, best, steps = c - 1, -1, 0
    while k >= s and tag[k] in (T_R, T_AUX, T_NEG, T_COP):
        k -= 1
    if k >= s and tag[k] in (T_O, T_REL) and bits[k] & FIRST == 0:
        if tag[k] == T_REL or bits[k] & REL:  # the soup, which was cold
            k -= 1
            if k >= s and tag[k] == T_COMMA:
                k -= 1
            if k < s or tag[k] != T_N:
                return 0
            heads[0] = k
            return 1
        if k == s or tag[k - 1] != T_P:
            return 0
        k -= 2
    while k >= s and steps < 14:
        t = tag[k]
        if t == T_N:
            m = before_phrase(tag, s, phrase_start(bits, tag, s, k))
            if m < s or tag[m] != T_P:
                best = k
                break
            part = m > s and tag[m - 1] == T_N and bits[m] & OF and bits[m - 1] & (LIGHT | CONTAINER)
            if best < 0:
                best = k
            if part:
                break
            k = m - 1
        elif t in (T_BUT, T_COP) or (t == T_AND and best >= 0) or (t == T_J and best >= 0):
            break
        elif t == T_COMMA and best < 0 and steps > 0:
            break
        else:
            k -= 1
        steps += 1
    if best < 0 or (bits[best] & (VAGUE | TIME) and tag[best - 1 if best > s else best] != T_N):
        return 0
    heads[0] = best
    found = 1
    k = phrase_start(bits, tag, s, best) - 1
    anded = False
    while found < ROOM:
        while k >= s and tag[k] in (T_J, T_D, T_R):
            k -= 1
        joined = False
        while k >= s and tag[k] in (T_AND, T_COMMA):
            anded = anded or tag[k] == T_AND
            joined = True
            k -= 1
        if not joined or not anded or k < s or tag[k] != T_N:
            break
        a = phrase_start(bits, tag, s, k)
        m = before_phrase(tag, s, a)
        if m >= s and tag[m] in (T_P, T_V, T_COP):
            break
        heads[found] = k
        found += 1
        k = a - 1
    return found


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
    out = np.empty((256, 7), np.int32)
    n = 0
    heads, others = np.empty(ROOM, np.int32), np.empty(ROOM, np.int32)
    for number in range(len(sentences) - 1):
        s, e = sentences[number], sentences[number + 1]
        if e - s < 2:
            continue
        resolve(bits, sense, s, e, tag)
        if n + 40 * (e - s) + 64 > len(out):
            bigger = np.empty((2 * len(out) + 40 * (e - s) + 64, 7), np.int32)
            bigger[:n] = out[:n]
            out = bigger
        first = n
        for i in range(s, e):
            t, c = tag[i], bits[i]
            if is_head(tag, i, e):
                n = attributes(bits, sense, tag, s, e, i, number, out, n)
            if t == T_COP:
                n = predicate(bits, sense, tag, s, e, i, number, out, n, heads, others)
            elif t == T_V:
                n = verb(bits, sense, tag, s, e, i, number, out, n, heads)
            if c & (AFFECT | TROUBLE) and i + 2 < e and tag[i + 1] == T_P:
                n = affect(bits, tag, s, e, i, i + 2, number, out, n)
            elif c & (TROUBLE | VERDICT) and t == T_N and sense[i] != 0 and i + 2 < e and tag[i + 1] == T_COP:
                if tag[i + 2] in (T_D, T_N) and i > s and tag[i - 1] in (T_D, T_J, T_R):
                    n = affect(bits, tag, s, e, i, i + 2, number, out, n)
            if c & TROUBLE and t == T_N and i > s and tag[i - 1] == T_N and not hypothetical(bits, tag, s, i):
                sign = -1 if negated(bits, tag, s, phrase_start(bits, tag, s, i)) else 1
                n = emit(out, n, number, phrase_start(bits, tag, s, i), i - 1, i, i, sign, R_AFFECT)
            if c & IMPLIES and i > s and tag[i - 1] in (T_R, T_J) and sense[i - 1] != 0:
                sign = -1 if negated(bits, tag, s, i - 1) else 1
                n = emit(out, n, number, i, i, i - 1, i - 1, sign, R_ADVERB)
            if t == T_J and sense[i] != 0 and i + 2 < e and tag[i + 1] == T_TO and c & EASY:
                n = infinitive(bits, tag, s, e, i, number, out, n)
        n = unique(out, first, n)
    return out[:n].copy(), tag


@kernel
def emit(out: Ints, n: int, number: int, a0: int, a1: int, o0: int, o1: int, sign: int, rule: int) -> int:
    """Add a row."""
    if a1 == o1:
        return n
    out[n, 0], out[n, 1], out[n, 2], out[n, 3], out[n, 4], out[n, 5], out[n, 6] = number, a0, a1, o0, o1, sign, rule
    return n + 1


@kernel
def unique(out: Ints, first: int, n: int) -> int:
    """Drop what was found twice for the same heads; the first finding stays."""
    kept = first
    for i in range(first, n):
        again = False
        for j in range(first, kept):
            if out[j, 2] == out[i, 2] and out[j, 4] == out[i, 4]:
                again = True
                break
        if not again:
            out[kept] = out[i]
            kept += 1
    return kept


@kernel
def attributes(
    bits: NDArray[np.int64],
    sense: NDArray[np.int8],
    tag: NDArray[np.int8],
    s: int,
    e: int,
    head: int,
    number: int,
    out: Ints,
    n: int,
) -> int:
    """Opinion words before a noun phrase (comfortable bed; friendly and helpful staff; no hot water), or right behind it."""
    a = phrase_start(bits, tag, s, head)
    first, whole = n, whole_phrase(bits, tag, head, e)
    if bits[whole] & (VAGUE | TIME) and a == head:
        return n
    j, steps = a - 1, 0
    while j >= s and steps < 8:
        t = tag[j]
        if t == T_J:
            if sense[j] != 0 and not bits[j] & NEUTRAL:
                too = j > s and bits[j - 1] & TOO
                sign = 2 if too else 1
                n = emit(out, n, number, a, whole, j, j, sign, R_ATTRIBUTE)
        elif t in (T_AND, T_COMMA) and n > first and j > s and (tag[j - 1] == T_J) and sense[j - 1] != 0:
            pass
        elif t == T_R:
            pass
        else:
            break
        j -= 1
        steps += 1
    if n > first:
        turned = negated(bits, tag, s, j + 1) or (j >= s and tag[j] == T_D and negated(bits, tag, s, j))
        skip = hypothetical(bits, tag, s, j + 1, WISH)
        if (
            j >= s and tag[j] == T_NEG and bits[j] & NO and j == a - 2 and not skip
        ):  # no hot water: a name, or no hot food
            n = emit(out, n, number, a, head, j, j, 2, R_NO)
        than = j >= s and bits[j] & THAN
        if skip or than:
            return first
        for k in range(first, n):
            if turned and out[k, 5] == 1:
                out[k, 5] = -1
        # great food and service: the second noun shares the word when it has none of its own
        last, k = n, whole + 1
        while k + 1 < e and tag[k] in (T_AND, T_COMMA) and not bits[k] & DASH and n < last + ROOM * 4:
            start = k + 2 if tag[k] == T_COMMA and tag[k + 1] == T_AND else k + 1
            if start >= e or tag[start] != T_N:
                break
            h = start
            while h + 1 < e and tag[h + 1] == T_N:
                h += 1
            if h + 1 < e and (tag[h + 1] in (T_COP, T_V, T_AUX, T_S) or (tag[h + 1] == T_J)):
                break
            for m in range(first, last):
                n = emit(out, n, number, start, h, out[m, 3], out[m, 4], out[m, 5], R_ATTRIBUTE)
            k = h + 1
        return n
    if j >= s and tag[j] == T_NEG and bits[j] & NO and not bits[head] & (TIME | LIGHT | TROUBLE | VERDICT):
        if not hypothetical(bits, tag, s, j):
            n = emit(out, n, number, j + 1, head, j, j, 2, R_NO)
        return n
    return bare(bits, sense, tag, s, e, a, head, number, out, n)


@kernel
def bare(
    bits: NDArray[np.int64],
    sense: NDArray[np.int8],
    tag: NDArray[np.int8],
    s: int,
    e: int,
    a: int,
    head: int,
    number: int,
    out: Ints,
    n: int,
) -> int:
    """Opinion words right behind a noun phrase without a verb: food great, I found the bed hard."""
    m = before_phrase(tag, s, a)
    if m >= s and tag[m] == T_P:
        return n
    found = m >= s and tag[m] == T_V and bits[m] & FIND
    k = head + 1
    turned = False
    if k < e and bits[k] & DASH:
        k += 1
    while k < e and tag[k] in (T_R, T_NEG):
        turned = turned != (tag[k] == T_NEG)
        k += 1
    steps = 0
    while k < e and steps < 4 and tag[k] == T_J and sense[k] != 0:
        ends = (
            k + 1 >= e
            or tag[k + 1] in (T_AND, T_COMMA, T_BUT, T_P, T_TO, T_NEG)
            or (bits[k + 1] & END)
            or (found and tag[k + 1] in (T_R, T_O))
        )
        if not ends or hypothetical(bits, tag, s, k):
            break
        opening = m < s or tag[m] in (T_COMMA, T_AND, T_BUT)
        if not (opening or found):
            break
        too = bits[k - 1] & TOO
        n = emit(out, n, number, a, head, k, k, 2 if too else (-1 if turned else 1), R_BARE)
        k += 1
        while k < e and tag[k] in (T_AND, T_COMMA, T_R):
            k += 1
        if next_head(bits, tag, k, e) >= 0:
            break
        steps += 1
    return n


@kernel
def predicate(
    bits: NDArray[np.int64],
    sense: NDArray[np.int8],
    tag: NDArray[np.int8],
    s: int,
    e: int,
    c: int,
    number: int,
    out: Ints,
    n: int,
    heads: Ints,
    words: Ints,
) -> int:
    """Subject, copula, opinion words: the bed and the pillows were not really comfortable, but clean."""
    count = subjects(bits, tag, s, c, heads)
    if count == 0:
        if not (bits[c] & LINKING and bits[c] & NOUN) or c == s or tag[c - 1] != T_O:
            return n
        heads[0] = c
        count = 1
    wanting = False
    if hypothetical(bits, tag, s, c):
        m = c - 1
        while m > s and tag[m] in (T_AUX, T_COP, T_R) and not bits[m] & COULD:
            m -= 1
        wanting = (
            bits[m] & COULD and c + 1 < e and (bits[c + 1] & COMPARATIVE or (c + 2 < e and bits[c + 2] & COMPARATIVE))
        )
        ever = wanting or c > s and tag[c - 1] == T_NEG
        if not ever and not (c >= s + 2 and negated(bits, tag, s, c)):
            return n
    turned = False
    k = c - 1
    while k >= s and tag[k] in (T_R, T_NEG, T_AUX, T_COP):
        turned = turned != (tag[k] == T_NEG)
        k -= 1
    modal = turned and hypothetical(bits, tag, s, c)
    k, found, loose = c + 1, 0, True
    adverb = -1
    while k < e and found < ROOM:
        t = tag[k]
        if t == T_NEG:
            if bits[k] & NO and k + 1 < e and tag[k + 1] == T_N and bits[k + 1] & TROUBLE:
                break
            turned = not turned
        elif t == T_R:
            if sense[k] != 0:
                adverb = k
        elif t == T_D:
            pass
        elif t == T_J:
            role = k + 1 < e and tag[k + 1] == T_N and bits[k + 1] & (ROLE | VAGUE) and sense[k] != 0
            if k + 1 < e and tag[k + 1] == T_N and not (bits[k + 1] & TIME) and not bits[k] & VERDICT and not role:
                break  # an attribute of another noun phrase
            opinion = sense[k] != 0
            if not opinion and k + 1 < e and tag[k + 1] == T_R and sense[k + 1] != 0 and bits[k] & PARTICIPLE:
                k += 1
                opinion = True
            if bits[k] & AFFECT:
                break
            if opinion or (adverb == k - 1 and adverb >= 0) or not bits[k] & (NEUTRAL | PARTICIPLE | GERUND):
                sign = -1 if turned else 1
                if wanting:
                    sign = 2
                elif modal and bits[k] & COMPARATIVE:
                    sign = 1
                elif bits[k - 1] & TOO:
                    sign = 2 if not turned else 1
                for h in range(count):
                    a = phrase_start(bits, tag, s, heads[h]) if heads[h] != c else c
                    o0 = adverb if adverb == k - 1 and adverb >= 0 and not opinion else k
                    n = emit(out, n, number, a, heads[h], o0, k, sign, R_PREDICATE)
                found += 1
            if role:
                break
        elif t in (T_AND, T_COMMA):
            if found == 0:
                break
        elif t == T_BUT:
            if found == 0:
                break
            turned = False
        elif t == T_N and bits[k] & VERDICT and sense[k] != 0 and found == 0:
            for h in range(count):
                a = phrase_start(bits, tag, s, heads[h]) if heads[h] != c else c
                n = emit(out, n, number, a, heads[h], k, k, -1 if turned else 1, R_PREDICATE)
            break
        else:
            if t == T_N and adverb >= 0 and found == 0 and bits[k] & ADJ:
                pass
            break
        if t in (T_AND, T_COMMA) and next_head(bits, tag, k + 1, e) >= 0:
            break
        k += 1
    if found == 0 and adverb >= 0 and (k >= e or tag[k] in (T_COMMA, T_AND, T_BUT, T_P) or bits[k] & END):
        for h in range(count):
            a = phrase_start(bits, tag, s, heads[h]) if heads[h] != c else c
            n = emit(out, n, number, a, heads[h], adverb, adverb, -1 if turned else 1, R_PREDICATE)
    return n


@kernel
def verb(
    bits: NDArray[np.int64],
    sense: NDArray[np.int8],
    tag: NDArray[np.int8],
    s: int,
    e: int,
    v: int,
    number: int,
    out: Ints,
    n: int,
    heads: Ints,
) -> int:
    """Verbs of opinion with their objects (loved the bar), what things do (the screen froze), how they do it (works well)."""
    c = bits[v]
    if c & (LOVE | LIKE | MISS):
        if c & LIKE and v > s and bits[v - 1] & HYP:
            return n
        wished = hypothetical(bits, tag, s, v)
        if wished and not (v > s and bits[v - 1] & (HYP | INT) and sense[v] > 0 and c & LOVE):
            return n
        sign = -1 if negated(bits, tag, s, v) else 1
        k = v + 1
        while k < e and tag[k] in (T_R, T_TO) or (k < e and tag[k] == T_V and k == v + 2 and tag[v + 1] == T_TO):
            k += 1
        if k < e and tag[k] == T_V and bits[k] & GERUND:
            k += 1
        for _ in range(ROOM):
            h = next_head(bits, tag, k, e)
            if h < 0:
                break
            n = emit(out, n, number, phrase_start(bits, tag, k, h), h, v, v, sign, R_VERB)
            k = h + 1
            if k < e and tag[k] == T_COMMA:
                k += 1
            if k < e and tag[k] == T_AND:
                k += 1
            if k == h + 1:
                break
            nxt = next_head(bits, tag, k, e)
            if nxt >= 0 and nxt + 1 < e and tag[nxt + 1] in (T_COP, T_V, T_AUX):
                break
        return n
    if c & TRY:
        asks = v == s or tag[v - 1] in (T_COMMA, T_AND, T_BUT, T_R) or bits[v - 1] & (HYP | AUX) or (tag[v - 1] == T_TO)
        h = next_head(bits, tag, v + 1, e)
        if (
            asks
            and h >= 0
            and (v + 1 < e and tag[v + 1] == T_D)
            and not (v > s and bits[v - 1] & TO and not bits[v - 2] & AUX)
        ):
            n = emit(out, n, number, phrase_start(bits, tag, v, h), h, v, v, 1, R_VERB)
        return n
    if hypothetical(bits, tag, s, v):
        return n
    fails = c & WORKS and (negated(bits, tag, s, v) or (v > s and bits[v - 1] & STOPS))
    if fails:
        count = subjects(bits, tag, s, v - 1 if bits[v - 1] & STOPS else v, heads)
        for h in range(count):
            n = emit(out, n, number, phrase_start(bits, tag, s, heads[h]), heads[h], v, v, 2, R_DOES)
        return n
    if c & DOES and sense[v] != 0:
        count = subjects(bits, tag, s, v, heads)
        sign = -1 if negated(bits, tag, s, v) else 1
        for h in range(count):
            n = emit(out, n, number, phrase_start(bits, tag, s, heads[h]), heads[h], v, v, sign, R_DOES)
        return n
    # works great, cooked perfectly
    k = v + 1
    if k < e and tag[k] == T_D and bits[k] & POSS:
        return n
    a1 = v
    if k + 1 < e and tag[k] == T_P and sense[k + 1] != 0 and tag[k + 1] in (T_R, T_J):
        a1 = k
        k += 1
    while k < e and k < v + 3 and tag[k] == T_R and sense[k] == 0:
        k += 1
    if k < e and tag[k] in (T_R, T_J) and sense[k] != 0 and bits[k] & (ADV | ADJ):
        if k + 1 < e and tag[k + 1] in (T_N, T_J) and tag[k] == T_J:
            return n
        count = subjects(bits, tag, s, v, heads)
        sign = -1 if negated(bits, tag, s, v) else 1
        for h in range(count):
            n = emit(out, n, number, phrase_start(bits, tag, s, heads[h]), heads[h], k, k, sign, R_ADVERB)
        if count == 0 and bits[v] & ACTS:
            n = emit(out, n, number, v, a1, k, k, sign, R_ADVERB)
    return n


@kernel
def infinitive(
    bits: NDArray[np.int64], tag: NDArray[np.int8], s: int, e: int, i: int, number: int, out: Ints, n: int
) -> int:
    """Easy to use: what is done is the aspect; easy to get a table: the object is."""
    if hypothetical(bits, tag, s, i):
        return n
    sign = 2 if i > s and bits[i - 1] & TOO else -1 if negated(bits, tag, s, i) else 1
    v = i + 2
    h = next_head(bits, tag, v + 1, e)
    if h >= 0 and tag[v + 1] in (T_D, T_N, T_J):
        return emit(out, n, number, phrase_start(bits, tag, v, h), h, i, i, sign, R_TO)
    if v + 1 < e and bits[v + 1] & PREP and (v + 2 >= e or bits[v + 2] & (END | COMMA | AND | BUT)):
        return emit(out, n, number, v, v + 1, i, i, sign, R_TO)
    return emit(out, n, number, v, v, i, i, sign, R_TO)


@kernel
def affect(
    bits: NDArray[np.int64], tag: NDArray[np.int8], s: int, e: int, i: int, k: int, number: int, out: Ints, n: int
) -> int:
    """Happy with the room, disappointed by the food, problems with the heating."""
    if hypothetical(bits, tag, s, i):
        return n
    sign = -1 if negated(bits, tag, s, i) else 1
    for _ in range(ROOM):
        h = next_head(bits, tag, k, e)
        if h < 0 or bits[h] & (VAGUE | TIME):
            break
        n = emit(out, n, number, phrase_start(bits, tag, k, h), h, i, i, sign, R_AFFECT)
        k = h + 1
        if k < e and tag[k] == T_COMMA:
            k += 1
        if k < e and tag[k] == T_AND:
            k += 1
        if k == h + 1:
            break
    return n
