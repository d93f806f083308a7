"""Reasons as answers have them: structs that are made quickly and written as JSON without a look at their names."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from whyrank.ranking.explain import Explained
from whyrank.ranking.reasons import rows_of


class EvidenceDocument(msgspec.Struct, gc=False):
    """`schemas.EvidenceOut`."""

    item: int
    similar_items: int | None
    user: int
    supporting: int
    opposing: int
    agreeing: int
    mentions: int
    user_aspect: int
    latest: int | None


class ReasonDocument(msgspec.Struct, gc=False):
    """`schemas.ReasonOut`."""

    rank: int
    explanation: str
    text: str
    sentence: str
    score: float
    parts: msgspec.Struct
    evidence: EvidenceDocument
    aspect: str | None
    polarity: int
    quotes: list[dict[str, object]]
    fallback: str | None
    propensity: float | UnsetType
    sentiment: float | None
    other_rank: int | None = None


def reason_documents(found: Explained, sentiments: list[float | None]) -> list[list[ReasonDocument]]:
    """Reasons pair by pair."""
    made: list[list[ReasonDocument]] = [[] for _ in found.users]
    parts_of = _parts(tuple(found.parts))
    for each, sentiment in zip(rows_of(found), sentiments, strict=True):
        row, rank, (id_, text, aspect, polarity), sentence, score, parts, counts, quotes, fallback, chance = each
        said = EvidenceDocument(*counts)
        about = (aspect, polarity, quotes, fallback, UNSET if chance is None else chance, sentiment)
        made[row].append(ReasonDocument(rank, id_, text, sentence, score, parts_of(*parts), said, *about))
    return made


@cache
def _parts(names: tuple[str, ...]) -> Any:
    """A struct for the parts of scores, which have the same names for all reasons of a model."""
    fields = {f"part{number}": name for number, name in enumerate(names)}  # names need not be identifiers
    return msgspec.defstruct("Parts", [(field, float) for field in fields], rename=fields, gc=False)
