"""The pool of explanations: a small grammar turns aspects into distinct sentences with a known sentiment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.lab.simulate import aspects
from whyrank.lab.simulate.draw import spread

DOMAINS = {"hotel": aspects.HOTEL, "movie": aspects.MOVIE, "restaurant": aspects.RESTAURANT}
# People write about a stay or a meal in the past tense, about a film in the present.
TENSES = {
    "hotel": (("was", "were"), ("is", "are")),
    "movie": (("is", "are"), ("was", "were")),
    "restaurant": (("was", "were"), ("is", "are")),
}
GENERAL = {
    True: "great~, good, excellent!, fantastic!, amazing!",
    False: "poor, bad, disappointing, terrible!, awful!",
}
GENERAL_COST, OTHER_TENSE_COST, PAIR_COST, TAIL_COST = 0.6, 0.7, 0.8, 0.7
NOUN_COSTS = (0.0, 0.2, 0.4)


class Aspect(NamedTuple):
    name: str
    nouns: tuple[tuple[str, bool], ...]  # text, is it plural
    adjectives: dict[bool, tuple[tuple[str, str], ...]]  # praise? -> word, grade ("", "!" or "~")
    tails: dict[bool, tuple[tuple[str, bool], ...]]  # praise? -> text, does it belong to the noun


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


class Modifier(NamedTuple):
    text: str
    shift: float
    before_noun: bool


GRADABLE = {
    True: (
        Modifier("very", 0.2, True),
        Modifier("really", 0.15, True),
        Modifier("extremely", 0.3, True),
        Modifier("quite", -0.15, False),
        Modifier("so", 0.2, False),
    ),
    False: (
        Modifier("very", 0.2, True),
        Modifier("really", 0.15, True),
        Modifier("extremely", 0.3, True),
        Modifier("a bit", -0.25, False),
        Modifier("rather", -0.1, False),
    ),
}
EXTREME = {
    True: (Modifier("absolutely", 0.1, True), Modifier("truly", 0.05, True), Modifier("simply", 0.05, False)),
    False: (Modifier("absolutely", 0.1, True), Modifier("truly", 0.05, True), Modifier("just", 0.0, False)),
}
BASE = {"": 0.6, "~": 0.6, "!": 0.9}


@cache
def parse_aspects(domain: str) -> tuple[Aspect, ...]:
    """The aspects of a domain, most important first."""
    lines: list[str] = []
    for line in DOMAINS[domain].strip().splitlines():
        if line.startswith(" "):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return tuple(_parse_aspect(line) for line in lines)


def _parse_aspect(line: str) -> Aspect:
    name, nouns, praise, blame, tails = ([part.strip() for part in field.split(",")] for field in line.split("|"))
    return Aspect(
        name[0],
        tuple((noun.rstrip("*"), noun.endswith("*")) for noun in nouns),
        {True: _adjectives(praise), False: _adjectives(blame)},
        {True: _tails(tails, "-"), False: _tails(tails, "+")},
    )


def _adjectives(words: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((word.rstrip("!~"), word[-1] if word[-1] in "!~" else "") for word in words)


def _tails(tails: list[str], other_side: str) -> tuple[tuple[str, bool], ...]:
    return tuple((tail.lstrip("^+-"), "^" in tail) for tail in tails if not tail.startswith(other_side))


def _phrases(aspect: Aspect, positive: bool) -> Iterator[AspectPhrase]:
    """Every adjective phrase of one side: plain, modified, paired, and for blame the negated praise."""
    sign = 1.0 if positive else -1.0
    own = aspect.adjectives[positive]
    known = {word for word, _ in own}
    words = [] if aspect.name.endswith("=") else GENERAL[positive].split(", ")
    general = tuple(pair for pair in _adjectives(words) if pair[0] not in known)
    for word, grade in own + general:
        cost = 0.0 if word in known else GENERAL_COST
        yield AspectPhrase(word, sign * BASE[grade], cost, True)
        gradable = GRADABLE if grade == "" else EXTREME if grade == "!" else {}
        for modifier in gradable.get(positive, ()):
            if word not in known and modifier.text in ("a bit", "extremely"):
                continue  # nobody says "a bit poor" or "extremely good"
            strength = min(1.0, BASE[grade] + modifier.shift)
            yield AspectPhrase(f"{modifier.text} {word}", sign * strength, cost + 1.0, modifier.before_noun)
    plain = [word for word, grade in own if grade != "!"]
    for place, first in enumerate(plain):
        for second in plain[place + 1 :]:
            yield AspectPhrase(f"{first} and {second}", sign * 0.75, PAIR_COST, True)
            for modifier in GRADABLE[positive][:3] if (first, "") in own else ():
                text = f"{modifier.text} {first} and {second}"
                yield AspectPhrase(text, sign * min(1.0, 0.75 + modifier.shift), PAIR_COST + 1.5, True)
    if not positive:
        for word, grade in aspect.adjectives[True]:
            if grade == "":
                yield AspectPhrase(f"not {word}", -0.5, 1.0, False)
                yield AspectPhrase(f"not very {word}", -0.4, 1.2, False)


def sentences(domain: str, aspect: Aspect, positive: bool, max_cost: float) -> Iterator[PoolSentence]:
    """Every sentence of praise (or blame) about an aspect that is at most `max_cost` elaborate."""
    for phrase in _phrases(aspect, positive):
        for (noun, plural), noun_cost in zip(aspect.nouns, NOUN_COSTS, strict=False):
            cost = phrase.cost + noun_cost
            if cost > max_cost:
                continue
            bodies = [(f"{phrase.text} {noun}", cost, True)] if phrase.before_noun else []
            for tense, verbs in enumerate(TENSES[domain]):
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
    """How often people mention each aspect: a gentle long tail."""
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
    """All candidate sentences, cell by cell (blame, then praise, of each aspect), no text twice."""
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
