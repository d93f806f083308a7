"""What the texts of a reason depend on, as a row of numbers: reasons with equal rows are told in the same words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.explain.evidence import EvidenceColumns
from whyrank.explain.topics import groups_of
from whyrank.index._columns import facts_of_reasons
from whyrank.index.form import Numbers

OFTEN, SHARE = 3, 0.3  # "you often mention": so many items, and that share of the user's
COLUMNS = 19
NOTHING = np.empty(0, np.int32)


class Facts(NamedTuple):
    """Everything that a sentence may depend on: the first columns of a row."""

    explanation: int
    rank: int
    supporting: int
    opposing: int
    agreeing: int
    mentions: int
    user: int  # items about which the user says it
    user_aspect: int
    often: int  # 1: the user mentions the aspect often
    detail: int = -1  # what else people say about the aspect of plain praise or blame; -1: nothing
    details: int = 0  # how many people say that about this item


class Shown(NamedTuple):
    """The other columns: what is shown beside the sentence; times and places come in two halves."""

    item: int  # records
    user: int  # records
    similar: int  # -1: not counted
    latest_high: int
    latest_low: int
    entry_high: int  # of quotes; -1: there are none
    entry_low: int
    asker: int  # the user's number, where some of the quotes are the user's own; otherwise -1

    @property
    def latest(self) -> int:
        return _joined(self.latest_high, self.latest_low)

    @property
    def entry(self) -> int:
        return _joined(self.entry_high, self.entry_low)


def facts_of(
    catalog: Catalog,
    users: Numbers,
    row: NDArray[np.int64],
    rank: Numbers,
    explanations: Numbers,
    evidence: EvidenceColumns,
) -> NDArray[np.int32]:
    """A row for each reason; those of one list must stand together."""
    people, facts = catalog.people, np.empty((len(row), COLUMNS), np.int32)
    detail, told = catalog.details or (NOTHING, NOTHING)
    similar = NOTHING if evidence.similar_items is None else evidence.similar_items
    said = (evidence.counts, evidence.entries, evidence.latest, similar, detail, told, groups_of(catalog)[2])
    quotes = (people.quote_starts, people.quote_users)
    facts_of_reasons(users, row, rank, explanations, *said, *quotes, OFTEN, SHARE, facts)
    return facts


def _joined(high: int, low: int) -> int:
    return (high << 32) | (low & 0xFFFFFFFF)
