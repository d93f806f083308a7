"""Noun phrases of statements: "comfortable bed" as "the comfortable beds", with what agrees with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from whyrank.data.statements import ITSELF


class Words(NamedTuple):
    """What the noun phrases of a language need to know; English has lists of exceptions, not a grammar."""

    the: str
    plural: frozenset[str]  # nouns of which an item has several: beds, rooms, walls
    irregular: Mapping[str, str]
    singular: frozenset[str]  # nouns that end in s all the same
    uncountable: frozenset[str]  # nouns without plural and article: breakfast, staff
    collective: frozenset[str]  # nouns in the singular of which one speaks as "they": staff
    attributive: frozenset[str]  # adjectives that stand before a noun only: "the free parking"


class Phrase(NamedTuple):
    """A statement's parts for a sentence; None where a part cannot be made."""

    topic: str | None = None  # beds, breakfast, the location
    phrase: str | None = None  # the comfortable beds; of plain praise and blame: the beds
    noun: str | None = None  # the walls
    adjective: str | None = None  # thin, where it can follow the noun: "found the walls thin"
    lack: str | None = None  # no hot water, plenty of space
    does: str | None = None  # works well
    words: str | None = None  # anything else, to be quoted
    itself: str | None = None  # fun: what the item itself is
    several: bool = False  # whether "are" follows, and "them" stands for it
    plain: bool = False  # praises or blames without saying why


DEGREES = ("too", "not", "so", "very", "quite", "rather", "really", "extremely", "a bit")


def phrase_of(text: str, aspect: str, words: Words, *, plain: bool = False) -> Phrase:
    """The parts of a statement about an aspect; `plain` ones (great food) are spoken of without their adjective.

    Only nouns of a list become plural: an item has several rooms, but not several screens or locations.
    """
    text = " ".join(text.split()).rstrip(".!")
    if aspect == ITSELF:  # fun game, easy to learn
        return Phrase(itself=text if " to " in text else " ".join(text.split()[:-1]) or text)
    if text.startswith("worth the "):
        return Phrase(itself=text)
    if aspect.startswith("to "):  # works well
        verb = text.split(" ", 1)[0]
        return Phrase(does=text) if verb.endswith("s") and verb != text else Phrase(words=text)
    of_aspect = aspect.split()
    topic, several = _topic(aspect, words)
    if text.split(" ", 1)[0] == "no":
        return Phrase(topic=topic, lack=text, several=several)
    given = text.split()
    before = given[: len(given) - len(of_aspect)]
    ending = given[len(before) :]
    lowered = [word.lower() for word in ending]
    if not of_aspect or not _same(lowered, of_aspect, words):
        return Phrase(topic=topic, words=text, several=several)
    if lowered != ending:  # acronyms: the AI
        topic, several = _topic(" ".join(ending), words)
    if before[-1:] == ["of"] or before in (["too", "many"], ["too", "much"]):  # plenty of space
        return Phrase(topic=topic, lack=f"a {text}" if before[0] == "lack" else text, several=several)
    if is_plural(ending[-1], words):
        nouns = " ".join(ending)
        topic, several = nouns if several else f"{words.the} {nouns}", True
    else:
        plural = several and ending[-1] not in words.collective
        nouns = plural_of(" ".join(ending), words) if plural else " ".join(ending)
    adjective, noun = " ".join(before), f"{words.the} {nouns}"
    if plain or not adjective:
        return Phrase(topic=topic, phrase=noun, noun=noun, several=several, plain=plain)
    degree = adjective.startswith(DEGREES) and " " in adjective  # "the too small rooms" is not English
    return Phrase(
        topic=topic,
        phrase=None if degree else f"{words.the} {adjective} {nouns}",
        noun=noun,
        adjective=None if adjective in words.attributive else adjective,
        words=text if degree else None,
        several=several,
    )


def _same(written: list[str], aspect: list[str], words: Words) -> bool:
    """Whether the nouns of a text are those of its aspect, in the singular or in the plural: cookies, cookie."""
    if written[:-1] != aspect[:-1] and [singular_of(w, words) for w in written[:-1]] != aspect[:-1]:
        return False
    one, many = singular_of(written[-1], words), plural_of(aspect[-1], words)
    return written[-1] in (aspect[-1], many) or one == singular_of(aspect[-1], words)


def _topic(aspect: str, words: Words) -> tuple[str, bool]:
    """How an aspect is spoken of, and whether as several things."""
    last = aspect.split()[-1] if aspect.split() else aspect
    if is_plural(last, words):
        return aspect, True
    if aspect in words.collective or last in words.collective:
        return aspect, True
    if aspect in words.uncountable or last in words.uncountable:
        return aspect, False
    if aspect in words.plural or last in words.plural:
        return plural_of(aspect, words), True
    return f"{words.the} {aspect}", False


def is_plural(noun: str, words: Words) -> bool:
    """Whether a word is the plural of another one."""
    if noun in words.irregular.values():
        return True
    ending = noun.endswith("s") and not noun.endswith(("ss", "us", "is"))
    return ending and noun not in words.singular and noun not in words.uncountable and len(noun) > 3


def singular_of(noun: str, words: Words) -> str:
    """A noun without its plural ending."""
    for one, many in words.irregular.items():
        if noun == many:
            return one
    if not is_plural(noun, words):
        return noun
    if noun.endswith("ies") and len(noun) > 4:
        return noun[:-3] + "y"
    if noun.endswith(("ches", "shes", "xes", "sses", "zes")):
        return noun[:-2]
    return noun[:-1]


def plural_of(noun: str, words: Words) -> str:
    """A noun, maybe of several words, in the plural."""
    *first, last = noun.split(" ")
    if last in words.irregular:
        last = words.irregular[last]
    elif not is_plural(last, words):
        if last.endswith("y") and last[-2:-1] not in "aeiou":
            last = last[:-1] + "ies"
        else:
            last += "es" if last.endswith(("s", "x", "z", "ch", "sh")) else "s"
    return " ".join([*first, last])
