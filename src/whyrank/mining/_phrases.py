"""Noun phrases, subjects and scopes in a tagged sentence."""

from __future__ import annotations

from whyrank.compile import inner
from whyrank.mining import _wordclasses as w
from whyrank.mining._wordclasses import Sentence

ROOM = 8  # conjuncts of a subject or an object
NEGATION = 6  # tokens between a negation and what it turns
REACH = 18  # tokens between a pronoun and the noun it stands for


@inner
def tag_at(x: Sentence, i: int) -> int:
    """The tag at a place, none outside of the sentence."""
    return x.tag[i] if 0 <= i < len(x.tag) else w.T_NONE


@inner
def bits_at(x: Sentence, i: int) -> int:
    """The classes at a place; outside of the sentence those of its end."""
    return x.bits[i] if 0 <= i < len(x.bits) else w.END


@inner
def phrase_start(x: Sentence, head: int) -> int:
    """Where the noun phrase with this head begins: nouns that stand together."""
    a = head
    while a > 0 and x.tag[a - 1] in (w.T_N, w.T_S) and not x.bits[a - 1] & w.TIME:
        a -= 1
    return a + 1 if x.tag[a] == w.T_S else a


@inner
def before_phrase(x: Sentence, a: int) -> int:
    """The last token before a noun phrase whose nouns begin at a: before its modifiers and its determiner."""
    m = a - 1
    while m >= 0 and (x.tag[m] == w.T_J or (x.tag[m] == w.T_R and (x.tag[m + 1] == w.T_J or x.bits[m] & w.GLUE))):
        m -= 1
    while m >= 0 and x.tag[m] == w.T_D:
        m -= 1
    return m


@inner
def is_head(x: Sentence, i: int) -> bool:
    """Whether a token is the last noun of a noun phrase."""
    return x.tag[i] == w.T_N and tag_at(x, i + 1) not in (w.T_N, w.T_S)


@inner
def next_head(x: Sentence, i: int) -> int:
    """The head of the noun phrase that begins at i (determiners and modifiers first), or -1."""
    k = i
    while tag_at(x, k) in (w.T_D, w.T_J, w.T_R) and k < i + 6:
        k += 1
    if tag_at(x, k) != w.T_N:
        return -1
    while True:
        j = k + 1
        if tag_at(x, j) == w.T_S:  # the chef 's special menu
            j += 1
            while tag_at(x, j) in (w.T_J, w.T_R):
                j += 1
        if tag_at(x, j) != w.T_N:
            return k
        k = j


@inner
def inner_head(x: Sentence, head: int, kinds: int) -> int:
    """The head of what a noun of these kinds holds (selection of wines, a lot of space), or the head itself."""
    if x.bits[head] & kinds and bits_at(x, head + 1) & w.OF:
        deeper = next_head(x, head + 2)
        if deeper >= 0:
            return deeper
    return head


@inner
def object_head(x: Sentence, i: int) -> int:
    """The head of an object that begins at i, or -1: that of the inner phrase in "some kind of pasta"."""
    h = next_head(x, i)
    return inner_head(x, h, w.LIGHT | w.CONTAINER) if h >= 0 else -1


@inner
def next_conjunct(x: Sentence, head: int) -> int:
    """Where the next noun phrase of a list begins behind a head; -1 at its end or where a new clause begins."""
    k = head + 1
    if tag_at(x, k) == w.T_COMMA:
        k += 1
    if tag_at(x, k) == w.T_AND:
        k += 1
    if k == head + 1:
        return -1
    h = next_head(x, k)
    return -1 if h < 0 or tag_at(x, h + 1) in (w.T_COP, w.T_V, w.T_AUX, w.T_NEG) else k


@inner
def elsewhere(x: Sentence, head: int) -> bool:
    """Whether a noun phrase is about another item: the hotel next door, other places, my previous phone."""
    k = head + 1
    while bits_at(x, k) & w.GLUE:
        k += 1
    if bits_at(x, k) & w.ELSEWHERE or x.bits[head] & w.ELSEWHERE:
        return True
    first = before_phrase(x, phrase_start(x, head)) + 1
    seen = 0
    for k in range(first, head):
        seen |= x.bits[k]
    return seen & w.ELSEWHERE != 0


@inner
def no_aspect(x: Sentence, head: int) -> bool:
    """Whether a noun phrase says nothing that could have a quality: a time, a thing, another item."""
    vague = x.bits[head] & (w.VAGUE | w.TIME) and tag_at(x, head - 1) != w.T_N
    return vague or elsewhere(x, head)


@inner
def negated(x: Sentence, i: int) -> bool:
    """Whether a negation reaches the token at i: nothing but adverbs, articles, auxiliaries and verbs between."""
    flips = False
    for k in range(i - 1, max(-1, i - 1 - NEGATION), -1):
        t, c = x.tag[k], x.bits[k]
        if t == w.T_NEG:
            if (c & w.NO and i - k > 3) or (k + 1 < i and x.bits[k + 1] & w.ONLY):
                return flips
            flips = not flips
        elif t == w.T_V and c & w.MISS:
            return not flips
        elif t == w.T_V and c & (w.LOVE | w.LIKE):
            break  # did not like the loud music
        elif t == w.T_J:
            if i - 1 - k >= 3:
                break
        elif t not in (w.T_R, w.T_D, w.T_AUX, w.T_COP) and not (t == w.T_V and k < i - 1):
            break
    return flips


@inner
def denied(x: Sentence, a: int) -> bool:
    """Whether somebody does not find what is said about the noun phrase from a on: I don't think the sound is clear."""
    m = before_phrase(x, a)
    return tag_at(x, m) == w.T_V and x.bits[m] & w.FIND != 0 and negated(x, m)


@inner
def hypothetical(x: Sentence, i: int, kinds: int) -> bool:
    """Whether what stands at i is only wished for or imagined: would be better, if it were clean."""
    for k in range(i - 1, -1, -1):
        if x.bits[k] & kinds and tag_at(x, k - 1) != w.T_NEG:
            sure = (bits_at(x, k + 1) | bits_at(x, k + 2)) & w.LOVE  # would highly recommend
            if k + 1 == i or (x.tag[k + 1] != w.T_NEG and not sure):
                return True
        if x.tag[k] in (w.T_BUT, w.T_COMMA):
            return False
    return False


@inner
def antecedent(x: Sentence, pronoun: int) -> int:
    """The noun that a pronoun stands for, or -1: the subject of the clause before it, or else its object."""
    many = x.bits[pronoun] & w.PLURAL
    found, spare = -1, -1
    for k in range(pronoun - 1, max(-1, pronoun - REACH), -1):
        if x.tag[k] == w.T_O and found >= 0:
            break
        if x.tag[k] != w.T_N or not is_head(x, k) or (x.bits[k] & w.PLURAL) != many or no_aspect(x, k):
            continue
        if tag_at(x, before_phrase(x, phrase_start(x, k))) == w.T_P:
            spare = k if spare < 0 else spare
        elif tag_at(x, k + 1) in (w.T_V, w.T_COP, w.T_AUX, w.T_R):
            return k
        elif found < 0:
            found = k
    return found if found >= 0 else spare


@inner
def clause_owner(x: Sentence, i: int) -> int:
    """The noun that a relative clause with its verb around i describes (the pasta I had), or -1."""
    k = i
    while k >= 0 and x.tag[k] in (w.T_V, w.T_R, w.T_AUX, w.T_COP, w.T_NEG, w.T_TO):
        k -= 1
    verbs = i - k
    if k > 0 and x.tag[k] == w.T_O and x.tag[k - 1] == w.T_REL:
        k -= 1
    if verbs == 0 or k < 1 or x.tag[k] not in (w.T_REL, w.T_O):
        return -1
    k -= 1
    if x.tag[k] == w.T_COMMA:
        if x.tag[k + 1] != w.T_REL:
            return -1
        k -= 1
    return k if k >= 0 and x.tag[k] == w.T_N else -1


@inner
def new_clause(x: Sentence, owner: int, head: int) -> bool:
    """Whether words behind a noun are no relative clause: for the price I think the sound (is great)."""
    adverbial = tag_at(x, before_phrase(x, phrase_start(x, owner))) == w.T_P
    return adverbial and x.tag[owner + 1] == w.T_O and not no_aspect(x, head)


@inner
def main_head(x: Sentence, head: int) -> int:
    """The head that a noun phrase belongs to: over prepositions (the food at this place) and relative clauses."""
    h = head
    for _ in range(3):
        m = before_phrase(x, phrase_start(x, h))
        if tag_at(x, m) == w.T_V:
            owner = clause_owner(x, m)
            return owner if owner >= 0 and not new_clause(x, owner, h) else h
        if tag_at(x, m) != w.T_P or m == 0:
            return h
        if x.tag[m - 1] == w.T_N:
            if x.bits[m] & w.OF and x.bits[m - 1] & (w.LIGHT | w.CONTAINER):
                return h
            h = m - 1
        elif x.tag[m - 1] == w.T_V:
            owner = clause_owner(x, m - 1)
            return owner if owner >= 0 else h
        else:
            return h
    return h


@inner
def verb_group(x: Sentence, verb: int) -> int:
    """The last token before a verb, its auxiliaries, adverbs and negations."""
    k = verb - 1
    while k >= 0 and x.tag[k] in (w.T_R, w.T_AUX, w.T_NEG, w.T_COP, w.T_TO):
        k -= 1
    return k


@inner
def antecedent_used(x: Sentence, verb: int) -> bool:
    """Whether the subject of a verb is a pronoun that stands for a noun."""
    k = verb_group(x, verb)
    return tag_at(x, k) == w.T_O and x.bits[k] & w.THIRD != 0


@inner
def earlier_verb(x: Sentence, k: int) -> int:
    """The verb that shares its subject with the one behind a conjunction at k (is small and looks old), or -1."""
    for i in range(k - 1, max(-1, k - REACH), -1):
        if x.tag[i] in (w.T_COP, w.T_V):
            return i
        if x.tag[i] in (w.T_REL, w.T_O):
            return -1
    return -1


@inner
def before_aside(x: Sentence, comma: int) -> int:
    """The noun before a parenthesis that ends at a comma (the soup, which was cold, came late), or -1."""
    for k in range(comma - 1, max(0, comma - REACH), -1):
        if x.tag[k] == w.T_COMMA:
            aside = x.tag[k + 1] in (w.T_REL, w.T_BUT, w.T_P, w.T_R, w.T_J, w.T_V)
            return k - 1 if aside and x.tag[k - 1] == w.T_N else -1
    return -1


@inner
def subject_head(x: Sentence, verb: int) -> int:
    """The head of the last noun phrase that a verb is said about, or -1."""
    k = verb_group(x, verb)
    if tag_at(x, k) in (w.T_AND, w.T_BUT) and k > 0:
        verb = earlier_verb(x, k)
        k = verb_group(x, verb) if verb >= 0 else -1
    if k < 0:
        return -1
    t = x.tag[k]
    if t == w.T_REL:
        k -= 2 if tag_at(x, k - 1) in (w.T_COMMA, w.T_BUT) else 1
        return k if tag_at(x, k) == w.T_N else -1
    if t == w.T_COMMA:
        return before_aside(x, k)
    if t == w.T_O and not x.bits[k] & w.THIRD:
        owner = clause_owner(x, verb - 1)  # the pasta I had was
        return owner if owner >= 0 else clause_owner(x, k - 1)
    if t == w.T_O:
        return antecedent(x, k)
    if t in (w.T_V, w.T_P):  # the room we stayed in was
        return clause_owner(x, k if t == w.T_V else k - 1)
    if t == w.T_J and tag_at(x, k - 1) == w.T_N and x.bits[k] & w.PARTICIPLE:
        k -= 1  # the dish served was
    return main_head(x, k) if x.tag[k] == w.T_N else -1


@inner
def subjects(x: Sentence, verb: int) -> int:
    """The heads of the noun phrases that a verb is said about, into `heads`; their number."""
    head = subject_head(x, verb)
    if head < 0 or no_aspect(x, head):
        return 0
    x.heads[0] = head
    found, anded = 1, False
    k = phrase_start(x, head) - 1
    while found < ROOM:
        while k >= 0 and x.tag[k] in (w.T_J, w.T_D, w.T_R):
            k -= 1
        joined = False
        while k >= 0 and x.tag[k] in (w.T_AND, w.T_COMMA):
            anded = anded or x.tag[k] == w.T_AND
            joined = True
            k -= 1
        if not joined or not anded or k < 0 or x.tag[k] != w.T_N:
            break
        a = phrase_start(x, k)
        before = tag_at(x, before_phrase(x, a))
        if before == w.T_V:  # I love the design and the screen is great
            return 1
        judged = tag_at(x, a - 1) == w.T_J and x.sense[a - 1] != 0  # great food and the prices are low
        if judged or before in (w.T_P, w.T_COP):
            break
        x.heads[found] = k
        found += 1
        k = a - 1
    return found
