"""One part of speech for every token of a sentence, from the classes of its word and of its neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inner
from whyrank.mining import _wordclasses as w

OPENING = (w.T_NONE, w.T_COMMA, w.T_BUT, w.T_AND, w.T_R)  # before a verb in the imperative


@inner
def tag_sentence(bits: NDArray[np.int64], sense: NDArray[np.int8], tag: NDArray[np.int8]) -> None:
    """Tag the tokens of one sentence from left to right."""
    for i in range(len(bits)):
        before = tag[i - 1] if i > 0 else w.T_NONE
        last = bits[i - 1] if i > 0 else 0
        after = bits[i + 1] if i + 1 < len(bits) else w.END
        then = bits[i + 2] if i + 2 < len(bits) else w.END
        t = tag_mark(bits[i])
        if t < 0:
            t = tag_function_word(bits[i], before, last, after, then, tag[i - 2] if i > 1 else w.T_NONE)
        if t < 0:
            further = tag[i - 2] if i > 1 else w.T_NONE
            t = tag_content_word(bits[i], sense[i], before, further, last, after, then, i == 0)
        tag[i] = t


@inner
def tag_mark(c: int) -> int:
    """The tag of punctuation, conjunctions and negations; -1 for other words."""
    if c & w.END:
        return w.T_NONE
    if c & w.COMMA:
        return w.T_COMMA
    if c & w.AND:
        return w.T_AND
    if c & w.BUT:
        return w.T_BUT
    if c & (w.GLUE | w.MARK):
        return w.T_R
    if c & w.NEG:
        return w.T_NEG
    return -1


@inner
def tag_function_word(c: int, before: int, last: int, after: int, then: int, further: int) -> int:
    """The tag of a function word; -1 for content words, also for function words that are used as such."""
    if c & w.APOSTROPHE_S:
        return tag_s(before, after, then)
    if c & w.COP:
        return tag_copula(c, before, last, after, then)
    if c & w.AUX:
        return w.T_N if c & w.VERDICT and before in (w.T_D, w.T_J) else w.T_AUX  # a must
    if c & w.REL:
        clause = after & w.DOES or (after & (w.COP | w.AUX | w.VERB | w.PRON) and not after & w.NOUN)
        if not c & w.DET or (before == w.T_N and clause):
            return w.T_REL
        if after & (w.COP | w.AUX):
            return w.T_O
    if c & w.TO:
        return w.T_TO
    if c & w.LIKE:
        verb = last & (w.FIRST | w.NEG | w.AUX) or (before == w.T_R and further in (w.T_O, w.T_NONE, w.T_AUX))
        return w.T_V if verb else w.T_P
    if c & w.PREP and not (c & w.ADJ and before in (w.T_COP, w.T_R)):
        return w.T_R if c & w.INT and after & (w.ADJ | w.ADV) and not after & (w.DET | w.PRON) else w.T_P
    if c & w.PRON and not (c & w.DET and after & (w.NOUN | w.ADJ | w.ADV | w.DET | w.POSS | w.INT | w.PARTICIPLE)):
        return w.T_R if c & w.INT and before == w.T_N else w.T_O  # the staff there
    if c & w.DET and c & w.INT and after & (w.ADJ | w.ADV) and not after & w.NOUN:
        return w.T_R  # most friendly
    if c & w.DET and last & w.CAPITAL and before == w.T_N and not after & (w.NOUN | w.ADJ):
        return w.T_N  # Windows 7
    if c & (w.DET | w.POSS):
        return w.T_D
    if c & w.INT and not (c & (w.ADJ | w.NOUN) and not after & (w.ADJ | w.ADV | w.INT | w.PARTICIPLE | w.GLUE)):
        return w.T_R
    return -1


@inner
def tag_s(before: int, after: int, then: int) -> int:
    """'s is a copula behind a pronoun or before what only a copula takes, else a possessive."""
    if before in (w.T_O, w.T_NONE, w.T_REL, w.T_D):
        return w.T_COP
    if after & w.GERUND and then & (w.COP | w.AUX):
        return w.T_S  # the author's writing is
    if after & (w.DET | w.INT | w.NEG | w.POSS | w.GERUND):
        return w.T_COP
    noun = then & w.NOUN and not then & w.ADJ
    return w.T_COP if after & w.ADJ and not noun else w.T_S


@inner
def tag_copula(c: int, before: int, last: int, after: int, then: int) -> int:
    """Forms of be, and linking verbs (looks, tastes), which are nouns or plain verbs elsewhere."""
    if not c & w.LINKING:
        return w.T_COP
    named = before in (w.T_D, w.T_J, w.T_S) or (c & w.NOUN and before == w.T_P)
    if named or (c & w.NOUN and before == w.T_N and after & (w.COP | w.AUX)):
        return w.T_N
    if c & w.NOUN and after & (w.COP | w.AUX) and not last & w.TO:
        return w.T_N
    if after & w.TO and then & w.COP:
        return w.T_AUX  # seems to be
    if after & w.ADJ and then & w.NOUN and not (after & w.INT or then & w.ADJ):
        return w.T_V  # got good service
    return w.T_COP if after & (w.ADJ | w.INT | w.NEG) and not after & (w.DET | w.POSS) else w.T_V


@inner
def tag_content_word(
    c: int, sense: int, before: int, further: int, last: int, after: int, then: int, opens: bool
) -> int:
    """Noun, adjective, verb or adverb."""
    listed = sense != 0 and before in (w.T_COMMA, w.T_AND)
    if c & w.CAPITAL and after & w.CAPITAL and after & w.NOUN and not opens and not listed:
        return w.T_N  # part of a name
    if c & w.ADV and not c & (w.ADJ | w.NOUN):
        return w.T_R
    object_follows = after & (w.DET | w.POSS | w.PRON | w.ADJ | w.NOUN | w.INT) and not after & (w.COP | w.PREP)
    if c & w.LOVE and object_follows and before not in (w.T_COP, w.T_D, w.T_P, w.T_J):
        return w.T_V
    if before == w.T_TO and c & w.VERB and not after & w.NOUN:
        return w.T_V  # easy to clean
    behind_subject = before in (w.T_N, w.T_O, w.T_REL, w.T_AUX) or (before == w.T_R and further == w.T_N)
    behind_subject = behind_subject or (before == w.T_NEG and further in (w.T_AUX, w.T_N, w.T_O))
    if c & w.DOES and behind_subject and not after & w.TIME:
        return w.T_V
    if c & w.DOES and c & w.GERUND and last & w.FIND:
        return w.T_V  # keeps crashing
    if c & w.USES == w.USES and before in OPENING and not after & (w.COP | w.AUX | w.PREP):
        return w.T_V
    is_said = after & w.COP and (not after & w.LINKING or then & (w.ADJ | w.INT))
    if c & w.ADJ and not c & w.INT and before == w.T_D and is_said and (sense in (0, 2) or after & w.LINKING):
        return w.T_N  # the flat was; the remote feels cheap
    if c & w.NOUN and c & w.VERB:
        return tag_noun_or_verb(c, before, further, last, after)
    if c & (w.PARTICIPLE | w.GERUND):
        return tag_participle(c, sense, before, further, after)
    nominal = before in (w.T_D, w.T_J, w.T_P, w.T_S)
    if c & w.ADJ and c & w.NOUN:
        if after & w.NOUN or before in (w.T_COP, w.T_R) or (sense != 0 and before not in (w.T_D, w.T_P)):
            return w.T_J
        return w.T_N if nominal or before in (w.T_N, w.T_AND) else w.T_J
    if c & w.ADJ:
        return w.T_J
    if c & w.VERB:
        return w.T_V if not nominal or c & w.LOVE else w.T_N
    return w.T_N


@inner
def tag_noun_or_verb(c: int, before: int, further: int, last: int, after: int) -> int:
    """A word that can be both: a verb behind pronouns and auxiliaries, and between a noun and an object."""
    modifies = c & w.ADJ and after & w.NOUN
    if before in (w.T_D, w.T_J, w.T_P, w.T_S) or (before == w.T_NEG and last & w.NO):
        return w.T_J if modifies and not after & w.VERB else w.T_N
    if before in (w.T_O, w.T_AUX, w.T_TO, w.T_REL, w.T_NEG) or (before == w.T_R and further in (w.T_O, w.T_AUX)):
        return w.T_V
    if before == w.T_N and after & (w.DET | w.POSS | w.ADV | w.INT | w.PRON) and not after & (w.COP | w.NOUN):
        return w.T_V
    if before == w.T_N and (c & (w.DOES | w.LINKING) or (after & w.ADJ and not after & w.NOUN)):
        return w.T_V
    if before in OPENING and c & w.TRY and after & (w.DET | w.POSS):
        return w.T_V
    return w.T_J if modifies else w.T_N


@inner
def tag_participle(c: int, sense: int, before: int, further: int, after: int) -> int:
    """Forms in -ed and -ing: adjectives behind copulas and before nouns, else verbs."""
    nominal = before in (w.T_D, w.T_J, w.T_P, w.T_S)
    if c & w.GERUND and before in (w.T_N, *OPENING) and after & w.COP and not after & w.LINKING:
        return w.T_N  # noise cancelling is; charging is
    if before in (w.T_COP, w.T_R):
        return w.T_J
    if before == w.T_NEG:
        return w.T_J if sense != 0 or c & w.ADJ else w.T_V
    if c & w.GERUND and before == w.T_J and further in (w.T_COP, w.T_R):
        return w.T_V
    if c & w.GERUND and nominal and not after & w.NOUN:
        return w.T_J if c & w.ADJ else w.T_N
    if sense != 0 and (after & (w.NOUN | w.AND | w.COMMA | w.END) or c & w.ADJ):
        return w.T_J
    if nominal and after & (w.NOUN | w.ADJ):
        return w.T_J if c & w.PARTICIPLE else w.T_N
    if c & w.GERUND and after & w.NOUN and not after & w.VERB and before in (w.T_NONE, w.T_AND, w.T_COMMA):
        return w.T_N
    return w.T_J if c & w.ADJ else w.T_V
