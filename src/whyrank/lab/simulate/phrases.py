"""What simulated people say, as phrases.toml has it: aspects with their words, and templates of sentences."""

from __future__ import annotations

import tomllib
from functools import cache
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Aspect(NamedTuple):
    name: str
    nouns: tuple[tuple[str, bool], ...]  # text, is it plural
    adjectives: dict[bool, tuple[tuple[str, str], ...]]  # praise? -> word, grade ("", "!" or "~")
    tails: dict[bool, tuple[tuple[str, bool], ...]]  # praise? -> text, does it belong to the noun


class Modifier(NamedTuple):
    text: str
    shift: float
    before_noun: bool


class Phrasebook(NamedTuple):
    texts: list[str]
    weights: NDArray[np.float64]  # every template weighs the same, however many fillings it has


@cache
def phrases() -> dict[str, Any]:
    """Read phrases.toml; its domains are hotel, movie and restaurant."""
    return tomllib.loads((Path(__file__).parent / "phrases.toml").read_text(encoding="utf-8"))


@cache
def parse_aspects(domain: str) -> tuple[Aspect, ...]:
    """Parse the aspects of a domain, most important first."""
    lines: list[str] = []
    for line in phrases()[domain]["aspects"].splitlines():
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
        {True: graded(praise), False: graded(blame)},
        {True: _tails(tails, "-"), False: _tails(tails, "+")},
    )


def graded(words: list[str]) -> tuple[tuple[str, str], ...]:
    """Adjectives with their grade."""
    return tuple((word.rstrip("!~"), word[-1] if word[-1] in "!~" else "") for word in words)


def _tails(tails: list[str], other_side: str) -> tuple[tuple[str, bool], ...]:
    return tuple((tail.lstrip("^+-"), "^" in tail) for tail in tails if not tail.startswith(other_side))


@cache
def modifiers(grade: str, positive: bool) -> tuple[Modifier, ...]:
    """List what may stand before an adjective of a grade."""
    kind = {"": "gradable", "!": "extreme"}.get(grade)
    table = phrases()[kind]["praise" if positive else "blame"] if kind else {}
    return tuple(Modifier(text, **about) for text, about in table.items())


@cache
def expand(templates: str) -> Phrasebook:
    """Fill the slots of templates, one a line, in every way."""
    slots = phrases()["slots"]
    texts: list[str] = []
    weights: list[float] = []
    for template in templates.splitlines():
        names = [name for _, name, _, _ in Formatter().parse(template) if name]
        fillings = product(*(slots[name] for name in names))
        filled = [template.format(**dict(zip(names, values, strict=True))) for values in fillings]
        texts += [text[0].upper() + text[1:] for text in filled]
        weights += [1 / len(filled)] * len(filled)
    return Phrasebook(texts, np.array(weights))
