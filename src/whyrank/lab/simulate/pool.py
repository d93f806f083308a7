"""The pool of explanations: a small grammar turns aspects into distinct sentences with a known sentiment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.lab.simulate.draw import spread
from whyrank.lab.simulate.phrases import Aspect, graded, modifiers, parse_aspects, phrases

GENERAL_COST, OTHER_TENSE_COST, PAIR_COST, TAIL_COST = 0.6, 0.7, 0.8, 0.7
NOUN_COSTS = (0.0, 0.2, 0.4)
STRENGTH = {"": 0.6, "~": 0.6, "!": 0.9}  # of an adjective, by its grade


class AspectPhrase(NamedTuple):
    """An adjective phrase; `cost` says how elaborate it is, plain wording being the most frequent."""

    text: str
    sentiment: float
    cost: float
    before_noun: bool


class PoolSentence(NamedTuple):
    text: str
    sentiment: float
    cost: float


def _phrases(aspect: Aspect, positive: bool) -> Iterator[AspectPhrase]:
    """Make every adjective phrase of one side: plain, modified, paired, and for blame the negated praise."""
    sign = 1.0 if positive else -1.0
    own = aspect.adjectives[positive]
    known = {word for word, _ in own}
    words = [] if aspect.name.endswith("=") else phrases()["general"]["praise" if positive else "blame"]
    general = tuple(pair for pair in graded(words) if pair[0] not in known)
    for word, grade in own + general:
        cost = 0.0 if word in known else GENERAL_COST
        yield AspectPhrase(word, sign * STRENGTH[grade], cost, True)
        for modifier in modifiers(grade, positive):
            if word not in known and modifier.text in ("a bit", "extremely"):
                continue  # nobody says "a bit poor" or "extremely good"
            strength = min(1.0, STRENGTH[grade] + modifier.shift)
            yield AspectPhrase(f"{modifier.text} {word}", sign * strength, cost + 1.0, modifier.before_noun)
    plain = [word for word, grade in own if grade != "!"]
    for place, first in enumerate(plain):
        for second in plain[place + 1 :]:
            yield AspectPhrase(f"{first} and {second}", sign * 0.75, PAIR_COST, True)
            for modifier in modifiers("", positive)[:3] if (first, "") in own else ():
                text = f"{modifier.text} {first} and {second}"
                yield AspectPhrase(text, sign * min(1.0, 0.75 + modifier.shift), PAIR_COST + 1.5, True)
    if not positive:
        for word, grade in aspect.adjectives[True]:
            if grade == "":
                yield AspectPhrase(f"not {word}", -0.5, 1.0, False)
                yield AspectPhrase(f"not very {word}", -0.4, 1.2, False)


def sentences(domain: str, aspect: Aspect, positive: bool, max_cost: float) -> Iterator[PoolSentence]:
    """Make every sentence of praise (or blame) about an aspect that is at most `max_cost` elaborate."""
    for phrase in _phrases(aspect, positive):
        for (noun, plural), noun_cost in zip(aspect.nouns, NOUN_COSTS, strict=False):
            cost = phrase.cost + noun_cost
            if cost > max_cost:
                continue
            bodies = [(f"{phrase.text} {noun}", cost, True)] if phrase.before_noun else []
            for tense, verbs in enumerate(phrases()[domain]["verbs"]):
                clause = f"the {noun} {verbs[plural]} {phrase.text}"
                bodies.append((clause, cost + tense * OTHER_TENSE_COST, False))
            for body, body_cost, before_noun in bodies:
                if body_cost > max_cost:
                    continue
                text = body[0].upper() + body[1:]
                yield PoolSentence(text, phrase.sentiment, body_cost)
                for tail, of_noun in aspect.tails[positive] if body_cost + TAIL_COST <= max_cost else ():
                    if before_noun or not of_noun:
                        yield PoolSentence(f"{text} {tail}", phrase.sentiment, body_cost + TAIL_COST)


PRAISE_SHARE = 0.6
COSTS = (1.3, 2.0, 3.0, 9.0)  # ever more elaborate sentences, until there are enough


class SimulatedPool(NamedTuple):
    """One entry per explanation, by number."""

    texts: list[str]
    aspect: NDArray[np.int64]
    positive: NDArray[np.bool_]
    sentiment: NDArray[np.float32]  # -1 to 1
    weight: NDArray[np.float64]  # popularity within its cell, that is aspect and side; sums to 1 there
    aspects: tuple[str, ...]  # names

    @property
    def cell(self) -> NDArray[np.int64]:
        """Aspect and side as one number: 2 * aspect + (1 if praise)."""
        return 2 * self.aspect + self.positive


def aspect_weights(aspects: int) -> NDArray[np.float64]:
    """Weigh aspects by how often people mention them: a gentle long tail."""
    weights = (1.0 + np.arange(aspects)) ** -0.35
    return weights / weights.sum()


def build_pool(domain: str, explanations: int, rng: np.random.Generator) -> SimulatedPool:
    """Draw distinct sentences, plain ones first, and give each cell a Zipf law of popularity."""
    names = tuple(aspect.name.rstrip("=") for aspect in parse_aspects(domain))[: max(1, explanations // 12)]
    cells = _cells(domain, len(names), explanations)
    weights = np.repeat(aspect_weights(len(names)), 2) * np.tile([1 - PRAISE_SHARE, PRAISE_SHARE], len(names))
    sizes = spread(rng, explanations, weights, np.array([len(cell) for cell in cells]))
    chosen: list[PoolSentence] = []
    zipf: list[NDArray[np.float64]] = []
    for cell, size in zip(cells, sizes, strict=True):
        cost = np.array([sentence.cost for sentence in cell])
        drawn = np.argsort(cost - 0.5 * rng.gumbel(size=len(cell)), kind="stable")[:size]
        drawn = drawn[np.argsort(cost[drawn] + rng.normal(0.0, 0.3, size=size), kind="stable")]
        chosen.extend(cell[place] for place in drawn)
        law = 1.0 / (1.0 + np.arange(size))
        zipf.append(law / law.sum())
    cell_of = np.repeat(np.arange(len(cells)), sizes)
    order = rng.permutation(explanations)  # so that an id tells nothing
    return SimulatedPool(
        [chosen[place].text for place in order],
        cell_of[order] // 2,
        cell_of[order] % 2 == 1,
        np.array([sentence.sentiment for sentence in chosen], np.float32)[order],
        np.concatenate(zipf)[order],
        names,
    )


def _cells(domain: str, aspects: int, explanations: int) -> list[list[PoolSentence]]:
    """Make all candidate sentences, cell by cell (blame, then praise, of each aspect), no text twice."""
    for max_cost in COSTS:
        seen: set[str] = set()
        cells: list[list[PoolSentence]] = []
        for aspect in parse_aspects(domain)[:aspects]:
            for positive in (False, True):
                found = {each.text: each for each in sentences(domain, aspect, positive, max_cost)}
                cells.append([sentence for text, sentence in found.items() if text not in seen])
                seen.update(found)
        if len(seen) >= explanations * (1 if max_cost == COSTS[-1] else 3):
            return cells
    raise ParameterError(f"explanations is {explanations:,}; the {domain} sentences number only {len(seen):,}")
