"""Counting: the clauses of an item, the statements that are asked of them, and who says what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.data.statements import GENERAL, ITSELF
from whyrank.mining.language import Language
from whyrank.mining.lexicon import Lexicon
from whyrank.mining.matcher import Clauses, Queries
from whyrank.mining.mentions import Sentences, _bit
from whyrank.mining.patterns import Bits
from whyrank.mining.vectors import likeness, vectors_of, whole

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

ALIKE = 0.9  # likeness of words of one general class
CONTENT = _bit("noun") | _bit("verb") | _bit("adj") | _bit("adv") | _bit("num")
EMPTY = _bit("be") | _bit("thing") | _bit("they") | _bit("first") | _bit("modal") | _bit("negation")
NOT = _bit("negation")
UNREAL = _bit("modal") | _bit("condition")
WORDINGS = 12  # words of a sense that stand for it
LEAST_SPREAD = 1e-3  # as a variance
REACH = 4  # words over which a negation turns what follows


class Cut(NamedTuple):
    """All clauses of a corpus."""

    first: Ints  # word
    last: Ints  # behind it
    sentence: Ints
    review: Ints
    sign: Floats
    around: Floats
    negated: NDArray[np.bool_]
    unreal: NDArray[np.bool_]
    person: NDArray[np.bool_]


@kernel
def _signs(
    word: Ints, bits: Bits, values: Floats, first: Ints, last: Ints, only: np.uint64
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the sign of every clause, whether it denies, whether it is unreal."""
    sign = np.zeros(len(first), np.float32)
    negated, unreal = np.zeros(len(first), np.bool_), np.zeros(len(first), np.bool_)
    for k in range(len(first)):
        total, count, denied = 0.0, 0, -100
        for i in range(first[k], last[k]):
            if bits[i] & NOT and not (i + 1 < last[k] and bits[i + 1] & only):
                denied = i
                negated[k] = True
                if values[word[i]] == 0.0:
                    continue
            if bits[i] & UNREAL:
                unreal[k] = True
            value = values[word[i]]
            if value != 0.0 and bits[i] & CONTENT:
                total += -value if i - denied <= REACH and i != denied else value
                count += 1
        if count:
            sign[k] = total / count
    return sign, negated, unreal


def cut(given: Sentences, bits: Bits, clause: Ints, values: Floats) -> Cut:
    """Return the clauses of a corpus with what can be seen of each alone."""
    first = np.flatnonzero(np.diff(clause, prepend=-1)).astype(np.int32)
    last = np.append(first[1:], len(clause)).astype(np.int32)
    sentence = (np.searchsorted(given.starts, first, side="right") - 1).astype(np.int32)
    review = (np.searchsorted(given.reviews, sentence, side="right") - 1).astype(np.int32)
    sign, negated, unreal = _signs(given.word, bits, values, first, last, _bit("only"))
    sums = np.bincount(sentence, sign, len(given.starts)) / np.maximum(
        np.bincount(sentence, minlength=len(given.starts)), 1
    )
    person = np.zeros(len(first), np.bool_)
    person[clause[(bits & _bit("person")) != 0]] = True
    return Cut(first, last, sentence, review, sign, sums[sentence].astype(np.float32), negated, unreal, person)


def content(given: Sentences, bits: Bits) -> NDArray[np.bool_]:
    """Tell which words say something."""
    found: NDArray[np.bool_] = ((bits & CONTENT) != 0) & ((bits & EMPTY) == 0)
    return found


class Meaning:
    """Words of a corpus by number: their weights, their vectors, and what is usual."""

    def __init__(self, language: Language, lexicon: Lexicon, vocabulary: Sequence[str]) -> None:
        self.language, self.lexicon = language, lexicon
        self.vocabulary = vocabulary
        self.numbers = {word: number for number, word in enumerate(vocabulary)}
        self.vectors = vectors_of(vocabulary)
        self.known: dict[str, Floats] = {}  # vectors of words that no review has
        self.wordings: dict[str, list[int]] = {}  # of a sense: the most frequent words of the reviews that have it
        for word, sense in language.senses.items():
            if word in self.numbers and word != sense:
                self.wordings.setdefault(sense, []).append(self.numbers[word])
        for words in self.wordings.values():
            words.sort(key=lambda number: (float(lexicon.weight[number]), vocabulary[number]))
            del words[WORDINGS:]
        alike = language.tables["alike"]
        names = {name: number for number, name in enumerate(sorted(set(alike.values())))}
        self.class_of = {word: names[name] for word, name in alike.items()} | names
        self.classes = np.array([self.class_of.get(word, -1) for word in vocabulary], np.int32)
        self.usual_best: dict[str, NDArray[np.int8]] = {}
        self.reference: list[NDArray[np.int32]] = []
        self.reference_vectors = np.zeros((0, self.vectors.shape[1]), np.float32)

    def vector(self, word: str) -> Floats:
        """Return the vector of any word."""
        number = self.numbers.get(word)
        if number is not None:
            own: Floats = self.vectors[number]
            return own
        if word not in self.known:
            self.known[word] = vectors_of([word])[0]
        return self.known[word]

    def weight(self, word: str) -> float:
        """Return how rare a word is: 1 hardly ever used, near 0 in every sentence."""
        number = self.numbers.get(word)
        return float(self.lexicon.weight[number]) if number is not None else 1.0

    def alike(self, words: Sequence[str], others: Ints) -> NDArray[np.int8]:
        """Return how alike words of statements and words of the reviews are, of 127."""
        if not words:
            return np.zeros((0, len(others)), np.int8)
        every: list[Floats] = []
        starts: list[int] = []
        for word in words:
            starts.append(len(every))
            every += [self.vector(word), *(self.vectors[number] for number in self.wordings.get(word, ()))]
        like = likeness(np.stack(every), self.vectors[others])
        found: NDArray[np.int8] = np.clip(np.rint(np.maximum.reduceat(like, starts, axis=0) * 127), 0, 127).astype(
            np.int8
        )
        for row, word in enumerate(words):
            name = self.class_of.get(word)
            if name is not None:
                found[row, self.classes[others] == name] = round(ALIKE * 127)
        return found

    def refer(self, clauses: Sequence[NDArray[np.int32]], centre: Floats) -> None:
        """Take clauses of any item as what is usual."""
        self.reference = [each for each in clauses if len(each)]
        weights = self.lexicon.weight.astype(np.float64)
        sums = [(weights[each, None] * (self.vectors[each] - centre)).sum(axis=0) for each in self.reference]
        self.reference_vectors = whole(np.array(sums, np.float32).reshape(-1, self.vectors.shape[1]))

    def usual(self, words: Sequence[str], starts: Ints, vectors: Floats) -> Floats:
        """Return mean and deviation of whole and best likeness of statements over the clauses of any item."""
        new = [word for word in dict.fromkeys(words) if word not in self.usual_best]
        if new and self.reference:
            places, number = np.unique(np.concatenate(self.reference), return_inverse=True)
            like = self.alike(new, places.astype(np.int32))[:, number.ravel()]
            first = np.cumsum([0, *(len(each) for each in self.reference)])[:-1]
            self.usual_best |= dict(zip(new, np.maximum.reduceat(like, first, axis=1), strict=True))
        found = np.tile(np.array([0.0, 1.0, 0.0, 1.0], np.float32), (len(vectors), 1))
        if not self.reference:
            return found
        whole_likeness = likeness(vectors, self.reference_vectors).astype(np.float64)
        best = np.zeros((len(vectors), len(self.reference)), np.float64)
        for row in range(len(vectors)):
            own = words[starts[row] : starts[row + 1]]
            if own:
                best[row] = np.max([self.usual_best[word] for word in own], axis=0) / 127.0
        for place, values in ((0, whole_likeness), (2, best)):
            found[:, place] = values.mean(axis=1)
            found[:, place + 1] = np.sqrt(np.maximum(values.var(axis=1), LEAST_SPREAD))
        return found


class Asked(NamedTuple):
    """A statement as it is asked: the words of its aspect and of its property, by name."""

    aspect: str
    sense: str
    sign: int
    about: tuple[str, ...]
    says: tuple[str, ...]


SMALL = frozenset(
    [
        "for",
        "near",
        "to",
        "the",
        "a",
        "an",
        "of",
        "and",
        "in",
        "on",
        "with",
        "is",
        "are",
        "it",
        "not",
        "very",
        "too",
        "there",
        "missing",
    ]
)


def asked(aspect: str, sense: str, sign: int) -> Asked:
    """Return a statement as it is asked of clauses."""
    about = () if aspect == ITSELF else tuple(aspect.split())
    says = () if sense in GENERAL else tuple(word for word in sense.split() if word not in SMALL)
    if sense == "missing":
        says = ("no",)
    return Asked(aspect, sense, sign, about, says)


class Mentioned(NamedTuple):
    """The mentions of a corpus by clause."""

    starts: NDArray[np.int64]  # of each clause in `rows`
    rows: Ints  # aspect, sense (numbers of `names`), aspect's word, property's word (of the vocabulary, -1), sign
    names: dict[str, int]

    @classmethod
    def of(cls, table: pl.DataFrame, clauses: int) -> Mentioned:
        """Sort mentions by clause: clause, place, aspect, sense, head, said, sign."""
        own = table.filter(pl.col("sign") != 0).sort("clause", "place")
        every = pl.concat([own["aspect"], own["sense"]]).unique().sort()
        names = {name: number for number, name in enumerate(every)}
        numbers = [own[name].replace_strict(names, return_dtype=pl.Int32).to_numpy() for name in ("aspect", "sense")]
        rest = [own[name].cast(pl.Int32).to_numpy() for name in ("head", "said", "sign")]
        rows = np.stack([*numbers, *rest], axis=1) if own.height else np.zeros((0, 5), np.int32)
        counts = np.bincount(own["clause"].to_numpy(), minlength=clauses)
        return cls(np.concatenate([[0], np.cumsum(counts)]), np.ascontiguousarray(rows, np.int32), names)


class Parsed(NamedTuple):
    """A corpus as everything that follows sees it."""

    given: Sentences
    start: Ints  # of every word: its first character in the review's text
    end: Ints
    bits: Bits
    cut: Cut
    telling: NDArray[np.int64]  # the words that say something
    table: pl.DataFrame  # the mentions
    said: Mentioned
    meaning: Meaning
    centre: Floats  # the mean of all words
    score: Floats  # of every review: its rating in standard deviations; 0 unknown
    fit: Floats  # of every clause: how well it stands alone


def queries(statements: Sequence[Asked], parsed: Parsed, local: dict[int, int]) -> tuple[Queries, list[str]]:
    """Return statements as the matcher takes them, and their words by row.

    Args:
        statements: The statements.
        parsed: The corpus.
        local: The number of a word among those of the item.
    """
    meaning, centre, names = parsed.meaning, parsed.centre, parsed.said.names
    starts, rows, places, weights, role, generic = [0], [], [], [], [], []
    known: dict[str, int] = {}
    wholes = np.zeros((len(statements), len(centre)), np.float64)
    general = meaning.language.has("general") | meaning.language.has("vague")
    spelled: list[str] = []
    for k, each in enumerate(statements):
        for part, words in enumerate((each.about, each.says)):
            for word in words:
                rows.append(known.setdefault(word, len(known)))
                places.append(local.get(meaning.numbers.get(word, -1), -1))
                weights.append(meaning.weight(word))
                role.append(part)
                generic.append(word in general)
                spelled.append(word)
                wholes[k] += weights[-1] * (meaning.vector(word) - centre)
        starts.append(len(rows))
    made = Queries(
        np.array(starts, np.int32),
        np.array(rows, np.int32),
        np.array(places, np.int32),
        np.array(weights, np.float32),
        np.array(role, np.int32),
        np.array(generic, np.bool_),
        whole(wholes.astype(np.float32)),
        np.array([each.sign for each in statements], np.int32),
        np.array([names.get(each.aspect, -1) for each in statements], np.int32),
        np.array([names.get(each.sense, -1) for each in statements], np.int32),
        np.array([each.sense in GENERAL for each in statements], np.bool_),
        np.array([each.aspect == ITSELF for each in statements], np.bool_),
    )
    return made, spelled


class Asking(NamedTuple):
    """What a kernel needs to ask an item's statements of its clauses."""

    queries: Queries
    clauses: Clauses
    table: NDArray[np.int8]
    usual: Floats


def ask(statements: Sequence[Asked], picked: Ints, parsed: Parsed) -> Asking:
    """Make ready some statements and the clauses of an item, which are picked in ascending order."""
    clauses = clauses_of(picked, parsed)
    words = np.concatenate([clauses.words, clauses.mentions[:, 2:4].ravel()])
    places = np.unique(words[words >= 0]).astype(np.int32)
    local = {int(word): number for number, word in enumerate(places)}
    asked_of, spelled = queries(statements, parsed, local)
    mentions = clauses.mentions.copy()
    own = mentions[:, 2:4]
    mentions[:, 2:4] = np.where(own >= 0, np.searchsorted(places, np.maximum(own, 0)), -1)
    clauses = clauses._replace(words=np.searchsorted(places, clauses.words).astype(np.int32), mentions=mentions)
    usual = parsed.meaning.usual(spelled, asked_of.starts, asked_of.vectors)
    return Asking(asked_of, clauses, parsed.meaning.alike(list(dict.fromkeys(spelled)), places), usual)


def clauses_of(picked: Ints, parsed: Parsed) -> Clauses:
    """Return some clauses as the matcher takes them."""
    cut, meaning = parsed.cut, parsed.meaning
    edges = np.searchsorted(parsed.telling, (cut.first[picked], cut.last[picked]))
    places, starts = _spans(edges[0], edges[1])
    words = parsed.given.word[parsed.telling[places]]
    weights = meaning.lexicon.weight[words]
    weighted = weights[:, None].astype(np.float64) * (meaning.vectors[words] - parsed.centre)
    sums = np.zeros((len(picked), meaning.vectors.shape[1]), np.float64)
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        sums[filled] = np.add.reduceat(weighted, starts[filled], axis=0)
    mentions, mention_starts = _spans(parsed.said.starts[picked], parsed.said.starts[picked + 1])
    return Clauses(
        starts.astype(np.int32),
        words,
        weights,
        whole(sums.astype(np.float32)),
        cut.sign[picked],
        cut.around[picked],
        cut.negated[picked],
        cut.unreal[picked],
        cut.person[picked],
        parsed.score[cut.review[picked]],
        mention_starts.astype(np.int32),
        parsed.said.rows[mentions],
    )


def _spans(first: NDArray[np.int64], last: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers from each first to each last, one after the other, and where each span starts."""
    starts = np.concatenate([[0], np.cumsum(last - first)])
    return np.arange(starts[-1]) + np.repeat(first - starts[:-1], last - first), starts
