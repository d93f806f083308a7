"""Statements as parts of sentences: which kind each is of, its noun phrase, and what agrees with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from whyrank.data.statements import ITSELF


class Words(NamedTuple):
    """What the phrases of a language need to know; English has lists of exceptions, not a grammar."""

    the: str
    itself: str  # what stands for the item: it
    irregular: Mapping[str, str]  # singulars and their plurals
    plural: frozenset[str]  # nouns of which an item has several: beds, rooms, walls
    uncountable: frozenset[str]  # nouns without plural and article: breakfast, staff
    collective: frozenset[str]  # nouns in the singular of which one speaks as "they": staff
    persons: frozenset[str]  # nouns that "it" never stands for: host, waiter
    attributive: frozenset[str]  # adjectives that stand before a noun only: "the free parking"
    general: frozenset[str]  # adjectives that praise or blame without saying why: great
    near: frozenset[str]  # first words of what is near: close, next, within
    clausal: frozenset[str]  # words of whole clauses, which are quoted
    empty: frozenset[str]  # words that say nothing of their own


class Phrase(NamedTuple):
    """A statement's parts for a sentence; None where a part cannot be made."""

    kind: str = "said"  # which sentences speak of it
    topic: str | None = None  # beds, breakfast, the location
    noun: str | None = None  # the beds
    phrase: str | None = None  # the comfortable beds
    adjective: str | None = None  # comfortable, where it can follow the noun
    found: str | None = None  # comfortable, where it can follow "find it"
    subject: str | None = None  # who does what the statement says: it, the heater
    statement: str | None = None  # good for families, leaves hair soft, no elevator
    several: bool = False  # whether "are" follows
    person: bool = False  # whether "it" cannot stand for it


DEGREES = ("too ", "not ", "so ", "very ", "quite ", "rather ", "really ", "extremely ", "a bit ")


def phrase_of(text: str, aspect: str | None, sense: str | None, words: Words) -> Phrase:
    """Find the kind of a statement and its parts.

    The kind follows from aspect and sense. A text that has not the form of its kind, because somebody edited it, is
    quoted as it stands.

    Args:
        text: What the statement says.
        aspect: What it is about; None: nothing is known but the text.
        sense: What it says about the aspect; None: unknown.
        words: Those of the language.

    >>> from whyrank.wording.templates import default_templates
    >>> phrase_of("comfortable bed", "bed", "comfortable", default_templates().words)[1:5]
    ('beds', 'the beds', 'the comfortable beds', 'comfortable')
    """
    text, sense = " ".join(text.split()).strip(" .!,;:-"), sense or ""
    if aspect is None or not aspect.strip() or not text:
        return Phrase(statement=text)
    kind = _kind(text, aspect, sense, words)
    if kind == "itself" and text.removeprefix(sense).count(" ") == 1 and text.startswith(f"{sense} "):
        text = sense  # of "fun game" what it says about the item
    if kind == "opinion":
        return _opinion(text, aspect, words)
    if kind == "words":
        return Phrase(kind, statement=text)
    first, space, rest = text.partition(" ")
    if first[1:].islower():  # one somebody began with a capital stands within a sentence
        text = first.lower() + space + rest
    last = text.rpartition(" ")[2]
    if last in words.plural and (first == "no" or kind == "effect"):
        text = plural_of(text, words.irregular)  # no towels, removes stains
    if last in words.uncountable and kind == "fact":
        text = text.replace(f" a {last}", f" {last}").replace(f" an {last}", f" {last}")  # has parking
    return Phrase(
        kind,
        found=_found(text),
        subject=_subject(text, aspect, words),
        statement=text,
        several=kind == "lack" and is_plural(text.rpartition(" ")[2], words),
    )


def _found(adjective: str) -> str | None:
    """What people find something: nobody finds it not sticky."""
    return None if adjective.startswith(("not ", "never ")) else adjective


def _subject(text: str, aspect: str, words: Words) -> str:
    """Tell who leaves hair soft, and who works well: the item, unless the text does not name its aspect."""
    named = {singular_of(word, words.irregular) for word in text.lower().split()}
    if aspect == ITSELF or aspect.startswith("to ") or singular_of(aspect.split()[-1], words.irregular) in named:
        return words.itself
    return f"{words.the} {aspect}"


def _kind(text: str, aspect: str, sense: str, words: Words) -> str:
    first, *rest = text.lower().split()
    verbal = (bool(rest) or sense == first) and (first == "has" or singular_of(first, words.irregular) != first)
    if sense.startswith('"'):
        return "words"
    if verbal and (aspect.startswith("to ") or first in ("does", *sense.split()[:1])):
        return "effect"
    if verbal and sense == "there":
        return "fact"
    if words.clausal & {first, *rest} or sense == "there":
        return "words"
    if aspect == ITSELF and sense.startswith("for "):
        return "use" if "for" in (first, *rest) else "words"
    if aspect == ITSELF and sense.startswith("near "):
        return "near" if first in words.near or first[0].isdigit() else "words"
    if first == "no" and rest:
        return "lack"
    if aspect == ITSELF and verbal:
        return "effect"
    if aspect == ITSELF or (first, *rest[:1]) == ("worth", "the"):
        return "itself"
    return "words" if aspect.startswith("to ") else "opinion"


def _opinion(text: str, aspect: str, words: Words) -> Phrase:
    """Divide an adjective and a noun. Only nouns of a list become plural: an item has several rooms, not locations."""
    given, of_aspect = text.split(), aspect.split()
    ending = given[max(0, len(given) - len(of_aspect)) :]
    before = given[: len(given) - len(ending)]
    lowered = [word.lower() for word in ending]
    if not _same(lowered, of_aspect, words):
        return Phrase("words", statement=text)
    name = " ".join(ending) if lowered != ending and before else aspect  # acronyms: the AI
    topic, several = _topic(name, words)
    if before[-1:] == ["of"] or before in (["too", "many"], ["too", "much"]):  # there is plenty of space
        lacking = before[0] == "lack"
        many = not lacking and is_plural(lowered[-1], words)
        return Phrase("lack", statement=f"a {text}" if lacking else text, several=many)
    if is_plural(ending[-1], words):
        nouns = " ".join(ending)
        topic, several = nouns if several else f"{words.the} {nouns}", True
    else:
        plural = several and lowered[-1] not in words.collective
        nouns = plural_of(name, words.irregular) if plural else name
    person = not words.persons.isdisjoint((lowered[-1], singular_of(lowered[-1], words.irregular)))
    adjective, noun = " ".join(before), f"{words.the} {nouns}"
    if not adjective or adjective.lower() in words.general:
        return Phrase("whole", topic, noun, noun, several=several, person=person)
    degree = adjective.lower().startswith(DEGREES) or " to " in adjective  # "the too small rooms" is not English
    phrase = None if degree else f"{words.the} {adjective} {nouns}"
    after = None if adjective in words.attributive else adjective
    found = None if after is None else _found(after)
    return Phrase("opinion", topic, noun, phrase, after, found, several=several, person=person)


def _same(written: list[str], aspect: list[str], words: Words) -> bool:
    """Whether the nouns of a text are those of its aspect, in the singular or in the plural: cookies, cookie."""

    def singular(nouns: list[str]) -> list[str]:
        return [singular_of(noun, words.irregular) for noun in nouns]

    return bool(aspect) and (written == aspect or singular(written) == singular(aspect))


def _topic(aspect: str, words: Words) -> tuple[str, bool]:
    """How an aspect is spoken of, and whether as several things."""
    last = aspect.rpartition(" ")[2]
    if is_plural(last, words) or not words.collective.isdisjoint((aspect, last)):
        return aspect, True
    if not words.uncountable.isdisjoint((aspect, last)):
        return aspect, False
    if aspect in words.plural:  # an item has several rooms, but one living room
        return plural_of(aspect, words.irregular), True
    return f"{words.the} {aspect}", False


def is_plural(noun: str, words: Words) -> bool:
    """Whether a word is the plural of another one."""
    return noun not in words.uncountable and singular_of(noun, words.irregular) != noun


def singular_of(noun: str, irregular: Mapping[str, str]) -> str:
    """Take a noun's plural ending away.

    Args:
        noun: A single word in lower case.
        irregular: Singulars and their plurals where endings do not tell; equal ones have no other form.

    >>> [singular_of(noun, {"knife": "knives", "news": "news"}) for noun in ("dishes", "knives", "news", "glass")]
    ['dish', 'knife', 'news', 'glass']
    """
    if noun in irregular:
        return noun
    for one, many in irregular.items():
        if many == noun:
            return one
    if not noun.endswith("s") or noun.endswith(("ss", "us", "is")) or len(noun) <= 3:
        return noun
    if noun.endswith("ies") and len(noun) > 4:
        return noun[:-3] + "y"
    return noun[:-2] if noun.endswith(("ches", "shes", "xes", "sses", "zzes")) else noun[:-1]


def plural_of(noun: str, irregular: Mapping[str, str]) -> str:
    """Put a noun, maybe of several words, in the plural.

    >>> plural_of("side dish", {}), plural_of("knife", {"knife": "knives"}), plural_of("beds", {})
    ('side dishes', 'knives', 'beds')
    """
    before, space, last = noun.rpartition(" ")
    if last in irregular:
        last = irregular[last]
    elif singular_of(last, irregular) == last:
        if last.endswith("y") and last[-2:-1] not in "aeiou":
            last = last[:-1] + "ies"
        else:
            last += "es" if last.endswith(("s", "x", "z", "ch", "sh")) else "s"
    return before + space + last
