"""Evidence: who says a reason about the item, who says the opposite, and who says it elsewhere.

What is counted is declared once, in the fields of `Evidence`. Columns, tables, JSON, schemas and the page follow from
them. To add a count: its field here with its line in `_count`, and in `data/people.py` what has to be known for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.once import OncePer
from whyrank.explain._neighbours import neighbours
from whyrank.index._lookup import count_at, counts_over, place_of
from whyrank.index.form import Numbers

LIKE = 20  # how many items count as "like" an item
UNKNOWN = np.iinfo(np.int64).min  # in columns of what may be unknown


class Count(NamedTuple):
    """A field of `Evidence`: what it counts, what tables call it, and whether it may be unknown."""

    name: str
    help: str
    label: str
    optional: bool

    @property
    def type(self) -> Any:
        """The type of its values."""
        return int | None if self.optional else int


def count(help: str, label: str, *, optional: bool = False) -> Any:
    """Declare a count: a whole number of 64 bits."""
    return field(metadata={"help": help, "label": label, "optional": optional})


@dataclass(frozen=True, slots=True)
class Evidence:
    """The counts behind a reason, of people unless they say otherwise.

    What the opposite of a statement is follows from its aspect, sense and polarity: see `whyrank.data.statements`.

    >>> [each.name for each in Evidence.declared()][:3]
    ['supporting', 'opposing', 'mixed']
    """

    supporting: int = count("People who say it about this item, and never the opposite.", "say so")
    opposing: int = count("People who say the opposite about this item, and never this.", "say the opposite")
    mixed: int = count("People who say both this and the opposite about this item.", "say both")
    praise: int = count("People who say something good about its aspect of this item.", "praise")
    complaints: int = count("People who say something bad about its aspect of this item.", "complaints")
    mentions: int = count("People who mention its aspect of this item at all.", "mention it")
    detail: int = count(
        "Of plain praise or blame: people who say the detail that the sentence may tell beside it.", "detail"
    )
    user_says: int = count("Items about which this user says it.", "user says it")
    user_mentions: int = count("Items of which this user mentions its aspect.", "user mentions it")
    similar_items: int | None = count(
        "Records of the items most like this one that say it; null unless asked for.", "similar items", optional=True
    )
    latest: int | None = count(
        "When it was last said about this item, in seconds since 1970; null where no times are known.",
        "latest",
        optional=True,
    )

    @classmethod
    @cache
    def declared(cls) -> tuple[Count, ...]:
        """The fields, in their order."""
        return tuple(Count(each.name, **each.metadata) for each in fields(cls))

    def shown(self) -> list[str]:
        """Write how many people say it, the opposite, or both, as a card has it.

        >>> Evidence(12, 2, 0, 14, 3, 20, 0, 0, 0, None, None).shown()
        ['12 say so', '2 say the opposite']
        """
        sides = Evidence.declared()[:3]
        return [
            f"{getattr(self, side.name):,} {side.label}"
            for side in sides
            if getattr(self, side.name) or side is sides[0]
        ]

    def as_dict(self) -> dict[str, int | None]:
        """All counts by name."""
        return {name: getattr(self, name) for name in Evidence.__slots__}


@dataclass(frozen=True, eq=False)
class EvidenceColumns:
    """Evidence of many (user, item, explanation) at once."""

    table: NDArray[np.void]  # a row for each, with the fields of `Evidence`
    entries: NDArray[np.int64]  # where (item, explanation) is in its relation, -1 where nobody says it

    def column(self, name: str) -> NDArray[np.int64]:
        """Return one count of every row; what may be unknown is UNKNOWN there."""
        values: NDArray[np.int64] = self.table[name]
        return values

    def objects(self) -> list[Evidence]:
        """Return the rows as objects."""
        unknown = {UNKNOWN: None}
        return [Evidence(*(unknown.get(value, value) for value in row)) for row in self.table.tolist()]

    def frame(self) -> pl.DataFrame:
        """Return the rows as a table; null is unknown."""
        columns = {}
        for each in Evidence.declared():
            values = pl.Series(each.name, np.ascontiguousarray(self.table[each.name]))
            columns[each.name] = values.replace(UNKNOWN, None) if each.optional else values
        return pl.DataFrame(columns)


DTYPE = np.dtype([(each.name, np.int64) for each in Evidence.declared()])


class Counted(NamedTuple):
    """What a catalog knows of explanations, items and users, as the kernel takes it."""

    aspect: Numbers
    position: Numbers
    said: CSR  # item -> explanations
    supporting: Numbers
    mixed: Numbers
    detail_people: Numbers
    times: NDArray[np.int64]
    opposing: CSR  # item -> positions
    aspects: CSR  # item -> aspects
    praising: Numbers
    blaming: Numbers
    by_user: CSR  # user -> explanations
    aspects_by_user: CSR
    items_by_user: NDArray[np.int64]


def _counted(catalog: Catalog) -> Counted:
    people = catalog.people
    return Counted(
        catalog.aspect,
        catalog.position,
        catalog.item_explanations,
        people.supporting,
        people.mixed,
        catalog.details.people,
        people.latest,
        people.opposing,
        people.item_aspects,
        people.praising,
        people.blaming,
        catalog.user_explanations,
        people.user_aspects,
        catalog.user_items.sizes(),
    )


_counted_of: OncePer[Catalog, Counted] = OncePer(_counted)


def evidence(
    catalog: Catalog,
    users: Numbers,
    items: Numbers,
    row: NDArray[np.int64],
    explanations: Numbers,
    *,
    similar: bool = False,
) -> EvidenceColumns:
    """Count the evidence of explanations of pairs.

    Args:
        catalog: What the model was fitted to.
        users: The users of the pairs by number; of unknown ones (-1) nothing is known.
        items: The items of the pairs by number, likewise.
        row: Which pair each explanation belongs to.
        explanations: The explanations by number.
        similar: Whether to count similar items, too, which takes longest.
    """
    found = EvidenceColumns(np.empty(len(row), DTYPE), np.empty(len(row), np.int64))
    _count(users, items, row, explanations, _counted_of(catalog), found.table, found.entries)
    if similar:
        found.table["similar_items"] = _of_similar_items(catalog, items[row], explanations)
    return found


@kernel
def _people(relation: CSR, row: int, column: int) -> int:
    return count_at(relation.indptr, relation.indices, relation.counts, row, column)


@kernel
def _count(
    users: Numbers,
    items: Numbers,
    row: NDArray[np.int64],
    explanations: Numbers,
    known: Counted,
    found: NDArray[np.void],
    entries: NDArray[np.int64],
) -> None:
    """Write the counts of each explanation of a pair to `found`, and its entry in the relation to `entries`."""
    for at in range(len(row)):
        count, user, item, e = found[at], users[row[at]], items[row[at]], explanations[at]
        aspect, position = known.aspect[e], known.position[e]
        count.supporting = count.opposing = count.mixed = count.praise = count.complaints = count.mentions = 0
        count.detail = count.user_says = count.user_mentions = 0
        count.similar_items = count.latest = UNKNOWN
        entries[at] = -1
        if item >= 0:
            entry = place_of(known.said.indptr, known.said.indices, item, e)
            entries[at] = entry
            if entry >= 0:
                count.supporting, count.mixed = known.supporting[entry], known.mixed[entry]
                count.detail = known.detail_people[entry] if len(known.detail_people) else 0
                if len(known.times) and known.times[entry] != 0:
                    count.latest = known.times[entry]
            if position >= 0:
                count.opposing = _people(known.opposing, item, position)
            place = place_of(known.aspects.indptr, known.aspects.indices, item, aspect) if aspect >= 0 else -1
            if place >= 0:
                count.mentions = known.aspects.counts[place]
                count.praise, count.complaints = known.praising[place], known.blaming[place]
        if user >= 0:
            count.user_says = min(_people(known.by_user, user, e), known.items_by_user[user])
            count.user_mentions = _people(known.aspects_by_user, user, aspect) if aspect >= 0 else 0


def similar_items(catalog: Catalog, items: Numbers) -> Numbers:
    """Find the items most like each item, by Jaccard over what people say about them; -1 where there are fewer."""
    inverse, known = _said_of_items(catalog)
    fresh = np.array([item for item in items.tolist() if item >= 0 and item not in known], np.int32)
    if len(fresh):
        said = catalog.item_explanations
        found, _ = neighbours(said.indptr, said.indices, inverse.indptr, inverse.indices, fresh, LIKE)
        known.update(zip(fresh.tolist(), found, strict=True))
    nobody = np.full(LIKE, -1, np.int32)
    return np.array([known.get(item, nobody) for item in items.tolist()], np.int32).reshape(-1, LIKE)


def _inverse(catalog: Catalog) -> tuple[CSR, dict[int, Numbers]]:
    """Explanation -> items, and the similar items that were found so far."""
    said = catalog.item_explanations
    return CSR.from_pairs(said.indices, said.rows_of_entries(), len(catalog.explanations), said.rows), {}


_said_of_items: OncePer[Catalog, tuple[CSR, dict[int, Numbers]]] = OncePer(_inverse)


def _of_similar_items(catalog: Catalog, items: Numbers, explanations: Numbers) -> Numbers:
    distinct, group_of = np.unique(items, return_inverse=True)
    groups = similar_items(catalog, distinct)
    return counts_over(*catalog.item_explanations, groups, group_of, explanations)
