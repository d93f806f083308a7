"""The matcher: how likely a clause says what a statement says, by a logistic function of features of both.

`matcher.json` holds the weights that ship; `lab/points` learns them from annotated reviews.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import inner, kernel
from whyrank.errors import DataError
from whyrank.mining.vectors import SCALE

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

FEATURES = (
    "mean",  # of the likeness of each word of the statement and its best word in the clause
    "mean_telling",  # the same over words that are not generic
    "best",
    "worst",
    "covered",  # share of the statement's words that the clause has, softly
    "reverse",  # mean over the words of the clause
    "whole",  # cosine of statement and clause
    "whole_rank",  # in standard deviations over clauses of any item
    "best_rank",
    "aspect",
    "property",
    "both",  # the smaller of the two
    "product",
    "same_aspect",  # the very word
    "same_property",
    "same_word",
    "mention",  # the best mention of the clause: likeness of aspects times likeness of properties
    "mention_aspect",  # a mention of this aspect with this sign
    "mention_same",  # a mention of this aspect, sense and sign
    "mention_against",  # a mention of this aspect with the other sign
    "sign",  # of the clause times that of the statement
    "sign_around",  # of the sentence
    "negated",
    "unreal",  # wished, asked, reported
    "opposite",  # the clause clearly has the other sign
    "rating",  # in standard deviations within the item, times the sign
    "rating_only",  # where the clause has the other sign
    "length",
    "rareness",  # mean weight of the clause's words
    "person",
    "general",  # a statement that praises or blames an aspect as a whole
    "general_sign",
    "itself",  # a statement about the item itself
    "itself_property",
)
KINDS = ("aspect", "use", "nearness", "lack", "fact", "itself", "effect", "opinion")
SEEN = (  # of a statement, by the choice of what is worth showing
    *("people", "share", "by_rule", "chance", "best", "expected"),
    *(f"is_{kind}" for kind in KINDS),
    *("statements", "aspects", "telling", "words", "against", "rule_people", "sure"),
)
SIGN, MENTION_ASPECT, MENTION_SAME, GENERAL = (
    FEATURES.index(name) for name in ("sign", "mention_aspect", "mention_same", "general")
)
COVERS = (0.35, 0.75)  # likeness at which a word begins to count as covered, and does
AGAINST = -0.2
CAP = 6.0  # of standard deviations
COUNT = len(FEATURES)
NEAR = 44  # of 127: likeness of words below which a clause does not mean a statement
SAME, ABOUT = FEATURES.index("mention_same"), FEATURES.index("mention_aspect")
FOUND = np.float32(2.2)  # log-odds at least of what a rule has found: nine in ten of its mentions are right
UNLIKELY = -20.0  # log-odds of what was not looked at


class Clauses(NamedTuple):
    """The clauses of an item: words by number in the vocabulary."""

    starts: Ints  # of its content words in `words`
    words: Ints
    weights: Floats  # of `words`: how rare they are
    vectors: Floats  # clauses x dimensions, whole numbers
    sign: Floats
    around: Floats  # the sign of its sentence
    negated: Flags
    unreal: Flags
    person: Flags
    rating: Floats  # of the review, in standard deviations; 0 unknown
    mention_starts: Ints
    mentions: (
        Ints  # rows: aspect, sense (numbers of names), aspect's word, property's word (of the vocabulary, -1), sign
    )


class Queries(NamedTuple):
    """Statements: words by row of the table of likenesses."""

    starts: Ints
    rows: Ints
    vocabulary: Ints  # of `rows`: the number in the vocabulary, -1 where no review has it
    weights: Floats
    role: Ints  # 0: of the aspect, 1: of the property
    generic: Flags
    vectors: Floats
    sign: Ints
    aspect: Ints  # number of its name
    sense: Ints
    general: Flags
    itself: Flags


@inner
def _pair(q: Queries, s: int, c: Clauses, k: int, table: NDArray[np.int8], out: Floats) -> None:
    """Fill the features of a statement and a clause but those that compare with the item's other clauses."""
    out[:] = 0.0
    first, last = c.starts[k], c.starts[k + 1]
    a, b = q.starts[s], q.starts[s + 1]
    total, telling = 0.0, 0.0
    worst, best = 1.0, 0.0
    aspect, said = -1.0, -1.0
    for j in range(a, b):
        top = 0.0
        exact = False
        for i in range(first, last):
            like = table[q.rows[j], c.words[i]] / 127.0
            if c.words[i] == q.vocabulary[j]:
                like, exact = 1.0, True
            top = max(top, like)
        weight = q.weights[j]
        total += weight
        out[0] += weight * top
        soft = min(max((top - COVERS[0]) / (COVERS[1] - COVERS[0]), 0.0), 1.0)
        out[4] += weight * soft
        best, worst = max(best, top), min(worst, top)
        if not q.generic[j]:
            telling += weight
            out[1] += weight * top
            if exact:
                out[15] = 1.0
        if q.role[j] == 0:
            aspect = max(aspect, top)
            out[13] = max(out[13], 1.0 if exact else 0.0)
        else:
            said = max(said, top)
            out[14] = max(out[14], 1.0 if exact else 0.0)
    if total > 0:
        out[0] /= total
        out[4] /= total
    out[1] = out[1] / telling if telling > 0 else out[0]
    out[2], out[3] = best, worst
    mass = 0.0
    for i in range(first, last):
        top = 0.0
        for j in range(a, b):
            like = table[q.rows[j], c.words[i]] / 127.0
            if c.words[i] == q.vocabulary[j]:
                like = 1.0
            top = max(top, like)
        mass += c.weights[i]
        out[5] += c.weights[i] * top
    if mass > 0:
        out[5] /= mass
        out[28] = mass / (last - first)
    if aspect < 0:
        aspect = said
    if said < 0:
        said = aspect
    out[9], out[10], out[11], out[12] = aspect, said, min(aspect, said), aspect * said
    sign = float(q.sign[s])
    for m in range(c.mention_starts[k], c.mention_starts[k + 1]):
        about = 0.0
        same = c.mentions[m, 0] == q.aspect[s]
        if same:
            about = 1.0
        means = 1.0 if c.mentions[m, 1] == q.sense[s] else 0.0
        for j in range(a, b):
            if q.role[j] == 0 and c.mentions[m, 2] >= 0:
                about = max(about, table[q.rows[j], c.mentions[m, 2]] / 127.0)
            elif q.role[j] == 1 and c.mentions[m, 3] >= 0:
                means = max(means, table[q.rows[j], c.mentions[m, 3]] / 127.0)
        if q.general[s]:
            means = 1.0 if c.mentions[m, 4] * sign > 0 else 0.0
        out[16] = max(out[16], about * means)
        if same and c.mentions[m, 4] * sign > 0:
            out[17] = 1.0
            if c.mentions[m, 1] == q.sense[s]:
                out[18] = 1.0
        if same and c.mentions[m, 4] * sign < 0:
            out[19] = 1.0
    out[20], out[21] = sign * c.sign[k], sign * c.around[k]
    out[22] = 1.0 if c.negated[k] else 0.0
    out[23] = 1.0 if c.unreal[k] else 0.0
    against = out[20] < AGAINST
    out[24] = 1.0 if against else 0.0
    out[25] = sign * c.rating[k]
    out[26] = out[25] if out[20] < 0 else 0.0
    out[27] = math.log(1.0 + (last - first))
    out[29] = 1.0 if c.person[k] else 0.0
    out[30] = 1.0 if q.general[s] else 0.0
    out[31] = max(out[20], 0.0) if q.general[s] else 0.0
    out[32] = 1.0 if q.itself[s] else 0.0
    out[33] = said if q.itself[s] else 0.0


class Alike(NamedTuple):
    """How alike statements and clauses of an item are."""

    table: NDArray[np.int8]  # words of statements and those of the reviews
    usual: Floats  # of each statement: mean and deviation of `whole` and of `best` over clauses of any item
    wholes: Floats  # statements x clauses: their cosine


def _alike(q: Queries, c: Clauses, table: NDArray[np.int8], usual: Floats) -> Alike:
    return Alike(table, usual, np.dot(q.vectors, c.vectors.T) / np.float32(SCALE * SCALE))


def features(q: Queries, c: Clauses, table: NDArray[np.int8], usual: Floats) -> Floats:
    """Return the features of all statements and clauses of an item: statements x clauses x features.

    Args:
        q: The statements.
        c: The clauses.
        table: How alike the words of statements and those of the reviews are.
        usual: Of each statement: mean and standard deviation of `whole` and of `best` over clauses of any item.
    """
    found = np.zeros((len(q.sign), len(c.sign), COUNT), np.float32)
    _fill_features(q, c, _alike(q, c, table, usual), found)
    return found


@kernel
def _fill_features(q: Queries, c: Clauses, alike: Alike, found: Floats) -> None:
    """Fill the features of all statements and clauses."""
    for s in range(len(q.sign)):
        for k in range(len(c.sign)):
            _pair(q, s, c, k, alike.table, found[s, k])
            _rank(alike, s, k, found[s, k])


@inner
def _rank(alike: Alike, s: int, k: int, out: Floats) -> None:
    """Fill the features that compare a pair with what is usual."""
    whole, usual = alike.wholes[s, k], alike.usual
    out[6] = whole
    out[7] = min(max((whole - usual[s, 0]) / usual[s, 1], -CAP), CAP)
    out[8] = min(max((out[2] - usual[s, 2]) / usual[s, 3], -CAP), CAP)


def best_of_reviews(
    q: Queries, c: Clauses, table: NDArray[np.int8], usual: Floats, weights: Floats, review: Ints, reviews: int
) -> tuple[Floats, Ints]:
    """Return for every statement and review the highest log-odds of a clause, and which clause that is (-1: none).

    Args:
        q: The statements.
        c: The clauses.
        table: How alike words are.
        usual: As `features` takes it.
        weights: Of the features; the last is the constant.
        review: Of every clause, from 0.
        reviews: How many there are.
    """
    best = np.full((len(q.sign), reviews), UNLIKELY, np.float32)
    which = np.full((len(q.sign), reviews), -1, np.int32)
    out = np.zeros(COUNT, np.float32)
    _fill_best(q, c, _alike(q, c, table, usual), weights, review, out, (best, which))
    return best, which


@kernel
def _fill_best(
    q: Queries, c: Clauses, alike: Alike, weights: Floats, review: Ints, out: Floats, found: tuple[Floats, Ints]
) -> None:
    """Fill the highest log-odds of each statement and review, and their clauses; `out` is room for features."""
    best, which = found
    for s in range(len(q.sign)):
        for k in range(len(c.sign)):
            if not _near(q, s, c, k, alike.table):
                continue
            _pair(q, s, c, k, alike.table, out)
            if gated(out):
                continue
            _rank(alike, s, k, out)
            score = weights[COUNT]
            for j in range(COUNT):
                score += weights[j] * out[j]
            if out[SAME] > 0.0 or (q.general[s] and out[ABOUT] > 0.0):
                score = max(score, FOUND)
            if score > best[s, review[k]]:
                best[s, review[k]], which[s, review[k]] = score, k


@kernel
def gated(out: Floats) -> bool:
    """Tell whether a clause cannot say a statement, however near: praise without a word of praise, or the contrary."""
    praises = out[SIGN] > 0 or out[MENTION_ASPECT] > 0
    return (out[GENERAL] > 0 and not praises) or (out[SIGN] < AGAINST and not out[MENTION_SAME])


@inner
def _near(q: Queries, s: int, c: Clauses, k: int, table: NDArray[np.int8]) -> bool:
    """Tell whether a clause has any word like one of the statement's, so that it is worth a closer look."""
    for j in range(q.starts[s], q.starts[s + 1]):
        for i in range(c.starts[k], c.starts[k + 1]):
            if table[q.rows[j], c.words[i]] >= NEAR:
                return True
    return False


class Matcher(NamedTuple):
    """What was learned: of clauses that say a statement, and of statements that are worth showing."""

    weights: Floats  # of the features, then the constant
    shown: Floats  # of what cards.py sees of a statement: log-odds that an editor shows it, then the constant
    right: Floats  # that its number is right
    said: float  # log-odds from which a review counts
    learned_from: str


@cache
def matcher_of(file: Path) -> Matcher:
    """Read what was learned.

    Raises:
        DataError: The file holds something else.
    """
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        weights = np.array([told["matcher"][name] for name in (*FEATURES, "constant")], np.float32)
        shown, right = (
            np.array([told[name][fact] for fact in (*SEEN, "constant")], np.float32) for name in ("shown", "right")
        )
        if not np.isfinite([*weights, *shown, *right]).all() or not -10 < float(told["said"]) < 10:
            raise ValueError("numbers out of range")
        return Matcher(weights, shown, right, float(told["said"]), str(told["learned_from"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"no matcher: {error}", path=file, expected="a file that lab/points wrote") from error
