"""What counts as a repetition in a list: reasons of one topic, and reasons of one sense."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.once import OncePer
from whyrank.data.statements import ABSENT, GENERAL, ITSELF

WORDS = Path(__file__).parent / "topics.txt"


@cache
def topic_words() -> tuple[dict[str, str], frozenset[str]]:
    """The topic of each noun that has one of another name, and nouns that say little without the one before them."""
    lines = (line.split(":") for line in WORDS.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    lists = {name: words.split() for name, words in lines}
    empty = frozenset(lists.pop("of"))
    return {word.replace("-", " "): name for name, words in lists.items() for word in words}, empty


def topic_of(aspect: str) -> str:
    """What an aspect is about for a list: its last noun, under one name for words that people use for one thing.

    Args:
        aspect: The name of an aspect, as statements have it.

    Returns:
        The name of its topic.

    Examples:
        >>> topic_of("rooftop bar"), topic_of("cocktail"), topic_of("sound quality"), topic_of("quality")
        ('bar', 'drink', 'music', 'quality')
    """
    named, empty = topic_words()
    words = aspect.split()
    if words[:1] == ["to"]:  # to work: verbs have no kinds
        return aspect
    while len(words) > 1 and " ".join(words) not in named and words[-1] in empty:
        words.pop()
    whole, last = " ".join(words), words[-1] if words else aspect
    return named.get(whole) or named.get(last, last)


def _groups(catalog: Catalog) -> NDArray[np.int32]:
    topics = [topic_of(str(name)) for name in catalog.aspects.ids.to_list()]
    first = {topic: number for number, topic in reversed(list(enumerate(topics)))}
    of_aspect = np.array([*(first[topic] for topic in topics), -1], np.int32)  # the last one is that of aspect -1
    groups = np.full((3, len(catalog.explanations)), -1, np.int32)
    groups[0] = of_aspect[catalog.aspect]
    itself = first.get(ITSELF, -2)
    groups[1] = np.where(groups[0] == itself, -1, groups[0])
    if catalog.senses is not None:
        specific = catalog.senses.is_in([*GENERAL, *ABSENT]).fill_null(True).not_() & pl.Series(catalog.aspect >= 0)
        numbers = catalog.senses.rank("dense").fill_null(0).cast(pl.Int32)
        groups[2] = np.where(specific, numbers, -1)
    return groups


groups_of: OncePer[Catalog, NDArray[np.int32]] = OncePer(_groups)
"""Three rows with a number for each explanation: its topic; the topic as lists count it; its sense. -1 is none.

What the item itself is (easy, delicious) has a topic, for easy contradicts difficult, but may come more than once.

Plain praise and blame (great), and what is missing or too much, say something new about every aspect: no sense.
"""
