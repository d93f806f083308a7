"""Statements: explanations with one aspect, one sense of an opinion and one polarity, and the form of their ids."""

from __future__ import annotations

GENERAL = ("great", "bad", "average")  # senses that judge without saying why
ABSENT = ("missing", "excessive")  # senses of what is not there, or too much of it
ITSELF = "it"  # the aspect of what is said about the item itself: fun game, easy to learn
SIGNS = {-1: "-", 0: "0", 1: "+"}


def statement_id(aspect: str, sense: str, polarity: int) -> str:
    """The id of a statement.

    >>> statement_id("bed", "comfortable", 1)
    'bed|comfortable|+'
    """
    return f"{aspect}|{sense}|{SIGNS[polarity]}"


def sense_of_id(explanation: str) -> str | None:
    """The sense in the id of a statement; None: it is not the id of one.

    >>> sense_of_id("bed|comfortable|+"), sense_of_id("prison")
    ('comfortable', None)
    """
    parts = explanation.split("|")
    return parts[1] if len(parts) == 3 and parts[2] in SIGNS.values() else None


def is_general(explanation: str, aspect: str, polarity: int) -> bool:
    """Whether an id is that of a statement which praises or blames its aspect without saying why.

    >>> is_general("bed|great|+", "bed", 1), is_general("bed|comfortable|+", "bed", 1)
    (True, False)
    """
    return any(explanation == statement_id(aspect, sense, polarity) for sense in GENERAL)
