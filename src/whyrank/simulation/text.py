"""A small grammar that turns aspects into distinct sentences with a known sentiment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from whyrank.simulation import aspects

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
