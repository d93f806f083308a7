# ruff: noqa: SIM102, SIM109, SIM110 (kernels say each condition: it compiles faster)
"""Mentions: what a review says about what, found by rules over its parse, with what denies, wishes or reports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inner, kernel
from whyrank.mining.language import Language
from whyrank.mining.patterns import Bits, Program, SeenWords, compile_rules, is_subject, match

Ints = NDArray[np.int32]
Bytes = NDArray[np.int8]
Flags = NDArray[np.bool_]

# The labels that rules and scopes see; the subjects come first (see patterns.is_subject).
LABELS = (
    *("nsubj", "nsubjpass", "acomp", "attr", "dobj", "amod", "advmod", "neg", "conj", "cc"),
    *("prep", "pobj", "compound", "det", "poss", "aux", "auxpass", "xcomp", "ccomp", "advcl"),
    *("relcl", "acl", "appos", "npadvmod", "nummod", "oprd", "dative", "expl", "mark", "agent"),
    *("pcomp", "prt", "csubj", "dep", "intj", "punct", "ROOT", "case", "quantmod", "predet"),
    *("nmod", "parataxis", "preconj", "meta", "csubjpass"),
)
(NSUBJ, NSUBJPASS, ACOMP, ATTR, DOBJ, AMOD, ADVMOD, NEG, CONJ, CC, PREP, POBJ, COMPOUND, DET, POSS, AUX, AUXPASS) = (
    range(17)
)
XCOMP, CCOMP, ADVCL, RELCL, ACL = 17, 18, 19, 20, 21
OPRD, MARK, PCOMP, CSUBJ, ROOT, PARATAXIS, PRECONJ, NUMMOD, DEP = (
    LABELS.index(each) for each in ("oprd", "mark", "pcomp", "csubj", "ROOT", "parataxis", "preconj", "nummod", "dep")
)
# Classes of words: the first by their tag, the others by lists of the language; `judged` words have a sense or a sign.
TAGGED = {
    "noun": ("NN", "NNS", "NNP", "NNPS"),
    "name": ("NNP", "NNPS"),
    "adj": ("JJ", "JJR", "JJS"),
    "comp": ("JJR", "RBR"),
    "verb": ("VB", "VBD", "VBG", "VBN", "VBP", "VBZ"),
    "base": ("VB",),
    "participle": ("VBN", "VBG"),
    "adv": ("RB", "RBR", "RBS", "RP"),
    "num": ("CD",),
    "det": ("DT", "PDT", "WDT"),
    "pron": ("PRP", "WP", "EX", "DT", "WDT"),
    "prep": ("IN", "TO"),
}
LISTED = [
    "be",
    "linking",
    "negation",
    "nobody",
    "only",
    "too",
    "enough",
    "more",
    "less",
    "modal",
    "condition",
    "unreal",
    "hearsay",
    "others",
    "think",
    "love",
    "advise",
    "hate",
    "missing",
    "have",
    "give",
    "works",
    "shines",
    "trouble",
    "joy",
    "pleased",
    "first",
    "thing",
    "they",
    "which",
    "person",
    "relative",
    "other",
    "than",
    "near",
    "minute",
    "walk",
    "for",
    "to",
    "with",
    "without",
    "worth",
    "find",
    "none",
    "vague",
    "use_for",
    "no_use",
    "but",
    "heard",
    "leaves",
]
DERIVED = ("judged", "implies")
SHARED = {
    "pity": "joy",
    "displeased": "pleased",
    "fails": "shines",
    "plenty": "enough",
    "keep": "find",
    "from": "to",
}  # one class each
CLASSES = {name: number for number, name in enumerate((*TAGGED, *LISTED, *DERIVED))}
CLASSES |= {name: CLASSES[other] for name, other in SHARED.items()}


def _bit(name: str) -> np.uint64:
    return np.uint64(1 << CLASSES[name])


NEGATION, ONLY, TOO, MODAL, CONDITION = (_bit(name) for name in ("negation", "only", "too", "modal", "condition"))
UNREAL, HEARSAY, OTHERS, THINK, FIRST = (_bit(name) for name in ("unreal", "hearsay", "others", "think", "first"))
THING, THEY, WHICH, PERSON, OTHER = (_bit(name) for name in ("thing", "they", "which", "person", "other"))
THAN, MORE, LESS, NOBODY, VERB, NOUN = (_bit(name) for name in ("than", "more", "less", "nobody", "verb", "noun"))
BE, COMP, BASE, LOVE, ADVISE, ADJ = (_bit(name) for name in ("be", "comp", "base", "love", "advise", "adj"))
NONE, BUT, HEARD, HAVE = (_bit(name) for name in ("none", "but", "heard", "have"))
HATE, USE_FOR, FOR, WITHOUT, MISSING = (_bit(name) for name in ("hate", "use_for", "for", "without", "missing"))
FIND, PLEASED, NAME = _bit("find"), _bit("pleased"), _bit("name")
# What is the matter with a mention: it is not counted.
WISHED, REPORTED, ELSEWHERE, ASKED, ADVISED, CONDITIONAL = 1, 2, 4, 8, 16, 32


class Sentences(NamedTuple):
    """The parse of reviews, word by word, in the numbers of `LABELS`."""

    word: Ints  # number of the word in the vocabulary, in lower case
    capital: Flags
    tag: Bytes
    label: Bytes
    head: Ints
    starts: Ints  # of sentences
    reviews: NDArray[np.int64]  # the first sentence of each review, and how many there are


class Mentions(NamedTuple):
    """What was found, a row each."""

    rule: Ints
    aspect: Ints  # the word that heads it; -1: the item itself
    first: Ints  # word of the aspect's phrase
    property: Ints  # the word
    verb: Ints  # of an effect or a use; -1
    turned: Bytes  # -1 where something denies it, 1 otherwise
    strong: Bytes  # 1: a comparative that cannot be had: it could not be better
    excess: Bytes  # too big
    matter: Bytes  # 0, or why it does not count
    clause: Ints


def bits_of(language: Language, vocabulary: Sequence[str], tags: Sequence[str]) -> tuple[Bits, Bits]:
    """Return the classes of words by their spelling, and by their tag."""
    spelled = np.zeros(len(vocabulary), np.uint64)
    numbers = {word: number for number, word in enumerate(vocabulary)}
    for name in (*LISTED, *SHARED):
        for word in language.has(name):
            if word in numbers:
                spelled[numbers[word]] |= _bit(name)
    implied = language.tables["implied"]
    for word, number in numbers.items():
        if language.sign(word) or word in language.senses:
            spelled[number] |= _bit("judged")
        if word in implied:
            spelled[number] |= _bit("implies")
    tagged = np.zeros(len(tags), np.uint64)
    for name, members in TAGGED.items():
        for number, tag in enumerate(tags):
            if tag in members:
                tagged[number] |= _bit(name)
    return spelled, tagged


def program_of(language: Language) -> Program:
    """Compile the rules of a language."""
    return compile_rules(language.rules, CLASSES, LABELS)


@kernel
def seen_by_rules(given: Sentences, bits: Bits) -> SeenWords:
    """Return the parse as rules see it: conjuncts hang where the first one hangs, verbs know their subjects."""
    label, head = given.label.copy(), given.head.copy()
    subject = np.arange(len(label)).astype(np.int32)
    own = np.zeros(len(label), np.bool_)
    for i in range(len(label)):
        if label[i] == NSUBJ or label[i] == NSUBJPASS:
            own[head[i]] = True
    for i in range(len(label)):
        if given.label[i] == CONJ:
            first = given.head[i]
            for _ in range(8):
                if given.label[first] != CONJ:
                    break
                first = given.head[first]
            kind = NOUN | VERB | ADJ
            alike = (bits[i] & kind) & (bits[first] & kind)
            described = given.label[first] == AMOD or given.label[first] == ACOMP
            if (alike or described) and given.label[first] != ROOT:
                label[i], head[i] = given.label[first], given.head[first]
    for i in range(len(label)):
        if own[i]:
            own_subject_is_relative(given, bits, subject, i)
            continue
        on = given.head[i]
        if given.label[i] == CONJ or given.label[i] == XCOMP or given.label[i] == ADVCL or given.label[i] == OPRD:
            subject[i] = on
        elif given.label[i] == RELCL or given.label[i] == ACL:
            subject[i] = ~on
    for i in range(len(label)):  # chains of conjuncts
        for _ in range(4):
            on = subject[i]
            if on < 0 or own[on] or subject[on] == on:
                break
            subject[i] = subject[on]
    return SeenWords(bits, label, head, subject, given.starts)


@inner
def own_subject_is_relative(given: Sentences, bits: Bits, subject: Ints, verb: int) -> None:
    """Give a verb of a relative clause the noun that `which` stands for."""
    if given.label[verb] != RELCL:
        return
    for j in range(max(0, verb - 6), verb):
        if given.head[j] == verb and given.label[j] == NSUBJ and bits[j] & WHICH:
            subject[verb] = ~given.head[verb]


@kernel
def cut_clauses(given: Sentences, bits: Bits, breaks: Flags) -> Ints:
    """Return the clause of every word: clauses end where another verb has a subject of its own, at breaks, at lists."""
    n = len(given.word)
    left, right = np.arange(n), np.arange(n)
    for s in range(len(given.starts) - 1):
        a, b = given.starts[s], given.starts[s + 1]
        for _ in range(6):  # edges of subtrees grow upwards
            for i in range(a, b):
                h = given.head[i]
                left[h], right[h] = min(left[h], left[i]), max(right[h], right[i])
    own = np.zeros(n, np.bool_)
    judged = np.zeros(n, np.bool_)
    for i in range(n):
        if given.label[i] == NSUBJ or given.label[i] == NSUBJPASS:
            own[given.head[i]] = True
        if given.label[i] == AMOD:
            judged[given.head[i]] = True
    cut = np.zeros(n + 1, np.bool_)
    for s in range(len(given.starts) - 1):
        a, b = given.starts[s], given.starts[s + 1]
        cut[a] = True
        for i in range(a, b):
            label = given.label[i]
            starts = False
            if label == CONJ or label == PARATAXIS or label == ADVCL:
                starts = own[i] or (label == CONJ and judged[i] and judged[given.head[i]])
                starts = starts or (label == CONJ and (bits[i] & VERB) != 0 and right[i] - left[i] >= 3)
            elif label == CCOMP:
                starts = own[i] and right[i] < given.head[i]
            if starts:
                at = left[i]
                while at > a and (bits[at - 1] & (NOUN | VERB | ADJ)) == 0 and given.label[at - 1] == CC:
                    at -= 1
                cut[at] = True
                if right[i] + 1 < b:
                    cut[right[i] + 1] = True
            if breaks[given.word[i]] and i > a:
                cut[i] = True
    clause = np.zeros(n, np.int32)
    number = -1
    for i in range(n):
        if cut[i]:
            number += 1
        clause[i] = number
    return clause


@inner
def _denied(given: Sentences, bits: Bits, i: int, span: tuple[int, int]) -> int:
    """Count what denies a word: its own no, not, never; nobody as its subject, no before its subject or its number."""
    count = 0
    for j in range(span[0], span[1]):
        if not bits[j] & NEGATION or (j + 1 < span[1] and bits[j + 1] & ONLY):
            continue
        on, label = given.head[j], given.label[j]
        if on == i and j != i:
            own = label == NEG or label == ADVMOD or label == DET or label == PRECONJ or label == AUX
            count += 1 if own or (_is_subject(label) and bits[j] & NOBODY) else 0
        elif on != j and given.head[on] == i and on != i and (label == DET or label == NEG or label == PRECONJ):
            between = given.label[on]
            count += 1 if _is_subject(between) or between == NUMMOD or between == DET else 0
    return count


@inner
def _is_subject(label: int) -> bool:
    """Tell whether a label is that of a subject."""
    return label == NSUBJ or label == NSUBJPASS


@inner
def _after(given: Sentences, bits: Bits, i: int, span: tuple[int, int], asked: np.uint64) -> bool:
    """Tell whether a child of a word has a class."""
    for j in range(span[0], span[1]):
        if given.head[j] == i and j != i and bits[j] & asked:
            return True
    return False


@inner
def _own_subject(given: Sentences, i: int, span: tuple[int, int]) -> bool:
    """Tell whether a verb has a subject of its own."""
    for j in range(span[0], span[1]):
        if given.head[j] == i and (given.label[j] == NSUBJ or given.label[j] == NSUBJPASS):
            return True
    return False


@inner
def _set_against(given: Sentences, bits: Bits, one: int, other: int) -> bool:
    """Tell whether a but stands between two conjuncts."""
    for j in range(min(one, other) + 1, max(one, other)):
        if bits[j] & BUT and (given.head[j] == one or given.head[j] == other):
            return True
    return False


@inner
def _unreal(given: Sentences, bits: Bits, at: int, span: tuple[int, int]) -> int:
    """Tell what the words below a verb say of it: would, if, apparently, according to."""
    matter = 0
    for j in range(span[0], span[1]):
        if given.head[j] != at or j == at:
            continue
        label, own = given.label[j], bits[j]
        if (label == AUX or label == AUXPASS) and own & MODAL and not bits[at] & ADVISE:
            fact = bits[at] & (THINK | HATE | FIND) and _denied(given, bits, at, span)  # couldn't find, wouldn't say
            matter |= 0 if fact else WISHED
        elif (label == MARK or label == ADVMOD) and own & CONDITION:
            matter |= CONDITIONAL
        elif label == ADVMOD or label == PREP:
            matter |= REPORTED if own & HEARSAY else 0
            matter |= WISHED if own & UNREAL else 0
    return matter


@inner
def _above(given: Sentences, bits: Bits, at: int, begin: int, span: tuple[int, int]) -> int:
    """Tell what the word above a word says of it: hoped, says, than, for."""
    label, head = given.label[at], given.head[at]
    above = bits[head]
    matter = 0
    if label == POBJ:
        matter |= ELSEWHERE if above & THAN else 0
        use = bits[given.head[head]]
        if at != begin and above & FOR and use & (USE_FOR | ADJ | BE) and not use & (PLEASED | NOUN):
            matter |= CONDITIONAL  # good for small rooms
        return matter
    if label == CONJ:
        for j in range(min(at, head), max(at, head)):
            if bits[j] & THAN and given.label[j] == CC and given.head[j] == head:
                matter |= ELSEWHERE  # rather than
        return matter
    if label != CCOMP and label != XCOMP and label != DOBJ and label != ACL and label != PCOMP and label != OPRD:
        if label != PREP:
            return matter
        if above & UNREAL and bits[at] & FOR:
            matter |= WISHED
        if above & HEARSAY and not _after(given, bits, head, span, FIRST):
            matter |= REPORTED
        return matter
    if above & UNREAL or (above & MODAL and label == XCOMP):
        matter |= WISHED
    own = _after(given, bits, head, span, FIRST) or not _own_subject(given, head, span)
    if (above & HEARSAY and not own) or (above & HEARD and label != DOBJ):
        matter |= REPORTED
    return matter


@inner
def _ends(given: Sentences, bits: Bits, at: int, begin: int, span: tuple[int, int]) -> bool:
    """Tell whether what stands above a word says nothing of it."""
    label, head = given.label[at], given.head[at]
    if label == ADVCL or label == RELCL or label == PARATAXIS or label == CSUBJ or (label == ACL and at != begin):
        return True
    if label == CONJ and (_own_subject(given, at, span) or _set_against(given, bits, head, at)):
        return True
    if label == NSUBJ and at != begin:
        return True
    return label == CCOMP and not bits[head] & (THINK | UNREAL | HEARSAY)


@inner
def scope(given: Sentences, bits: Bits, i: int, sentence: int, advised: bool) -> tuple[int, int, int, int]:
    """Climb from a word to the verbs above it: what denies it, what makes it unreal.

    Returns how often it is denied, whether as a comparative that cannot be had, whether it is too much, and what is
    the matter with it.
    """
    span = (given.starts[sentence], given.starts[sentence + 1])
    denied, excess, matter = 0, 0, 0
    at = i
    could = False
    for j in range(span[0], i):
        if given.head[j] == i and given.label[j] == ADVMOD and bits[j] & TOO:
            excess = 1
    for _ in range(8):
        denied += _denied(given, bits, at, span)
        matter |= _unreal(given, bits, at, span)
        could = could or _after(given, bits, at, span, MODAL)
        label, head = given.label[at], given.head[at]
        if head == at:
            matter |= ADVISED if advised else 0
            break
        if (label == POBJ and bits[head] & WITHOUT) or (label == DOBJ and bits[head] & MISSING):
            denied += 1
        if label == AMOD and bits[head] & NOBODY:
            denied += 1
        matter |= _above(given, bits, at, i, span)
        if _ends(given, bits, at, i, span):
            break
        at = head
    if _after(given, bits, i, span, LESS):
        if denied % 2 == 1 and could:
            matter &= ~WISHED  # could not be less comfortable
        else:
            denied += 1
        return denied, 0, excess, matter
    strong = 0
    compared = bits[i] & COMP != 0 or _after(given, bits, i, span, MORE)
    if denied % 2 == 1 and compared:
        never = could or given.label[i] == AMOD  # never slept in a better bed
        for j in range(span[0], span[1]):
            if bits[j] & NEGATION and given.label[j] == DET:
                never = True
        if never:
            strong, matter = 1, matter & ~WISHED
    return denied, strong, excess, matter


@inner
def _elsewhere(given: Sentences, bits: Bits, noun: int, said: int, span: tuple[int, int]) -> bool:
    """Tell whether a noun is of another item: the previous phone, the cable of the old one."""
    for j in range(span[0], span[1]):
        if given.head[j] == noun and j < noun and bits[j] & OTHER and j != said:
            return True
    return False


@inner
def _of_another(given: Sentences, bits: Bits, noun: int, said: int, span: tuple[int, int]) -> bool:
    """Tell whether an aspect is of another item, by its own words, by what has it, by what it is of."""
    if _elsewhere(given, bits, noun, said, span):
        return True
    for _ in range(4):  # a leaky jug and a noisy motor: both are what it had
        if given.label[noun] != CONJ:
            break
        noun = given.head[noun]
    verb = given.head[noun]
    for j in range(span[0], span[1]):
        if given.label[noun] == DOBJ and given.head[j] == verb and given.label[j] == NSUBJ and bits[verb] & HAVE:
            if bits[j] & OTHER or _elsewhere(given, bits, j, said, span):
                return True
        if given.label[j] == POBJ and given.label[given.head[j]] == PREP and given.head[given.head[j]] == noun:
            if _elsewhere(given, bits, j, said, span):
                return True
    return False


@inner
def _phrase(given: Sentences, head: int, start: int) -> int:
    """Return the first word of the compound that a noun heads."""
    first = head
    while (
        first - 1 >= start
        and given.label[first - 1] == COMPOUND
        and given.head[first - 1] >= first
        and given.head[first - 1] <= head
    ):
        first -= 1
    return first


@inner
def _stands_for(given: Sentences, words: SeenWords, plural: Flags, i: int, sentence: int, review: int) -> int:
    """Find what `they` stands for: the last people or several things that were a subject; -1: the item."""
    first = given.starts[max(sentence - 1, review)]
    for j in range(i - 1, first - 1, -1):
        if words.bits[j] & NOUN and (words.bits[j] & PERSON or plural[given.tag[j]]):
            if is_subject(words, j) or words.label[j] == ROOT or words.label[j] == DOBJ or words.label[j] == ATTR:
                return j
    return -1


@inner
def _commands(given: Sentences, words: SeenWords, sentence: int) -> bool:
    """Tell whether a sentence tells the reader to do something."""
    for i in range(given.starts[sentence], given.starts[sentence + 1]):
        bits = words.bits[i]
        if given.label[i] == ROOT and bits & BASE and not bits & (LOVE | HATE | ADVISE | HAVE | BE | USE_FOR):
            for j in range(given.starts[sentence], i):
                if given.head[j] == i and (
                    given.label[j] == NSUBJ or given.label[j] == NSUBJPASS or given.label[j] == AUX
                ):
                    return False
            return True
    return False


class Nodes(NamedTuple):
    """Which node of each rule is what; -1: none."""

    aspect: Ints
    property: Ints
    verb: Ints
    lack: Flags  # the property is the word that denies


@kernel
def read(
    given: Sentences, words: SeenWords, found: Ints, nodes: Nodes, clause: Ints, plural: Flags, question: Flags
) -> Ints:
    """Read what matches say: rows as the fields of Mentions."""
    rows = np.empty((len(found), 10), np.int32)
    sentence, review = 0, 0
    asked, advised = False, False
    last = -1
    n = 0
    for k in range(len(found)):
        rule = found[k, 0]
        anchor = found[k, 1]
        while given.starts[sentence + 1] <= anchor:
            sentence += 1
        while given.reviews[review + 1] <= sentence:
            review += 1
        if sentence != last:
            last = sentence
            advised = _commands(given, words, sentence)
            asked = False
            for j in range(max(given.starts[sentence], given.starts[sentence + 1] - 3), given.starts[sentence + 1]):
                asked = asked or question[given.word[j]]
        node = nodes.aspect[rule]
        head = found[k, 1 + node] if node >= 0 else -1
        said = found[k, 1 + nodes.property[rule]]
        verb = found[k, 1 + nodes.verb[rule]] if nodes.verb[rule] >= 0 else -1
        matter = 0
        if head >= 0:
            bits = words.bits[head]
            span = (given.starts[sentence], given.starts[sentence + 1])
            if _of_another(given, words.bits, head, said, span):
                matter |= ELSEWHERE
            if not bits & NOUN or bits & (THING | WHICH):
                if bits & (FIRST | OTHERS):
                    continue
                head = _stands_for(given, words, plural, head, sentence, given.reviews[review]) if bits & THEY else -1
            elif bits & (OTHER | OTHERS) and not bits & PERSON:
                continue
        begin = said
        less = 0
        if nodes.lack[rule]:
            begin = found[k, 1 + nodes.aspect[rule]]
            less = 1 if given.head[said] == begin or given.head[begin] == said else 0
        denied, strong, excess, why = scope(given, words.bits, begin, sentence, advised)
        matter |= why
        if asked:
            matter |= ASKED
        rows[n, 0] = rule
        rows[n, 1] = head
        rows[n, 2] = _phrase(given, head, given.starts[sentence]) if head >= 0 else -1
        rows[n, 3] = said
        rows[n, 4] = verb
        rows[n, 5] = -1 if (denied - less) % 2 == 1 else 1
        rows[n, 6] = strong
        rows[n, 7] = excess
        rows[n, 8] = matter
        rows[n, 9] = clause[said]
        n += 1
    return rows[:n].copy()


def hang_phrases(given: Sentences, bits: Bits, language: Language, vocabulary: Sequence[str]) -> tuple[Sentences, Bits]:
    """Read phrases of two words as one: far from clean is not clean, used to is a wish, rather than is than."""
    numbers = {word: number for number, word in enumerate(vocabulary)}
    bits, label, head = bits.copy(), given.label.copy(), given.head.copy()
    inside = np.ones(len(given.word), np.bool_)
    inside[given.starts[1:] - 1] = False
    for phrase, name in language.tables["phrases"].items():
        first, second = (numbers.get(word, -1) for word in phrase.split("-"))
        if first < 0 or second < 0:
            continue
        places = np.flatnonzero((given.word[:-1] == first) & (given.word[1:] == second) & inside[:-1])
        if name != "turns":
            bits[places] |= _bit(name)
            bits[places + 1] |= _bit(name)
            continue
        for i in places.tolist():
            said = i + 2
            if inside[i + 1] and said < len(bits) and bits[said] & (ADJ | _bit("participle")) and head[i] != i:
                label[said], head[said] = ACOMP, head[i]
                label[i], head[i] = NEG, said
                label[i + 1], head[i + 1] = DEP, said
                bits[i], bits[i + 1] = NEGATION, 0
    return given._replace(label=label, head=head), bits


def find_mentions(
    given: Sentences,
    bits: Bits,
    program: Program,
    language: Language,
    vocabulary: Sequence[str],
    marks: Mapping[str, Flags],
) -> tuple[Mentions, Ints]:
    """Find the mentions of reviews, and the clause of every word.

    Args:
        given: The parse.
        bits: The classes of its words.
        program: The rules.
        language: What the rules say of their nodes.
        vocabulary: The words.
        marks: Of the vocabulary: `breaks` (words that end clauses), `question` marks; of the tags: `plural`.
    """
    clause = cut_clauses(given, bits, marks["breaks"])
    given, bits = hang_phrases(given, bits, language, vocabulary)
    words = seen_by_rules(given, bits)
    found = match(program, words, 0, len(given.starts) - 1)
    rows = read(given, words, found, nodes_of(language), clause, marks["plural"], marks["question"])
    rule, head, first, said, verb, *rest, own = (np.ascontiguousarray(rows[:, k]) for k in range(10))
    turned, strong, excess, matter = (each.astype(np.int8) for each in rest)
    return Mentions(rule, head, first, said, verb, turned, strong, excess, matter, own), clause


def nodes_of(language: Language) -> Nodes:
    """Return which node of each rule is what."""
    rows = []
    for rule in language.rules:
        names = [line.split(":")[0].split(" = ")[0].strip() for line in rule.lines]
        names = ["" if name.startswith("no ") else name for name in names]
        rows.append([names.index(each) if each in names else -1 for each in (rule.aspect, rule.property, rule.verb)])
    aspect, said, verb = np.array(rows, np.int32).T.copy()
    return Nodes(aspect, said, verb, np.array([rule.kind == "lack" for rule in language.rules]))
