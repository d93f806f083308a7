"""Cards: which statements are worth showing of an item, and the words of its reviews that tell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.statements import GENERAL, ITSELF
from whyrank.mining.counting import Asked
from whyrank.mining.matcher import KINDS

Floats = NDArray[np.float32]
SAME = 0.7  # F1 of two groups of people from which they are one reason
OFFERED = 8  # statements of an item that may be shown


class CountedStatement(NamedTuple):
    """A statement of an item with what was counted."""

    asked: Asked
    kind: str
    chances: Floats  # of each review, that it says so
    people: frozenset[str]  # users
    by_rule: int  # users of whom a rule found it
    statements: int  # users who say it about any item
    aspects: float  # share of reviews that say anything about the aspect
    against: int  # users who say the opposite


def seen(each: CountedStatement, reviews: int, said: float, general: frozenset[str]) -> Floats:
    """Return what the choice looks at."""
    p = each.chances
    n = len(each.people)
    words = [word for word in (*each.asked.says, *each.asked.about) if word.isalpha()]
    telling = [word for word in words if word not in general]
    sure = p[p > said]
    kind = "itself" if each.kind == "opinion" and each.asked.aspect == ITSELF else each.kind
    return np.array(
        [
            np.log1p(n),
            n / max(reviews, 1),
            each.by_rule / max(n, 1),
            sure.mean() if len(sure) else 0.0,
            p.max(initial=0.0),
            (p.sum() - n) / np.sqrt(max(reviews, 1)),
            *(float(kind == name) for name in KINDS),
            np.log1p(each.statements),
            np.log(max(each.aspects, 1e-6)),
            len(telling),
            len(words),
            each.against / max(n, 1),
            np.log1p(each.by_rule),
            (p > 0.5).sum() / max(n, 1),
        ],
        np.float32,
    )


def showable(each: CountedStatement, general: frozenset[str]) -> bool:
    """Tell whether a statement may be a reason at all: praise, by two people, that says something."""
    if each.asked.sign < 0 or len(each.people) < 2 or each.kind == "noun":
        return False
    if each.against * 2 > len(each.people):
        return False
    words = {*each.asked.says, *each.asked.about}
    return bool(words - general) and not (each.asked.aspect == ITSELF and each.asked.sense in GENERAL)


def chosen(counted: Sequence[CountedStatement], worth: Floats) -> list[int]:
    """Choose statements in order of worth, different in people and words."""
    taken: list[int] = []
    for k in np.argsort(-worth, kind="stable").tolist():
        if worth[k] <= 0 or len(taken) == OFFERED:
            break
        if not any(alike(counted[k], counted[other]) for other in taken):
            taken.append(k)
    return taken


def alike(one: CountedStatement, other: CountedStatement) -> bool:
    """Tell whether two statements would be one reason twice."""
    shared = 2 * len(one.people & other.people) / max(len(one.people) + len(other.people), 1)
    words = {*one.asked.about, *one.asked.says} & {*other.asked.about, *other.asked.says}
    return shared > SAME or bool(words) or (one.asked.aspect == other.asked.aspect != ITSELF)
