"""Evidence: who says it about this item or the opposite, about items like it, and this user before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.once import OncePer
from whyrank.explain._neighbours import neighbours
from whyrank.index._backing import counts_of_people
from whyrank.index._lookup import counts_over
from whyrank.index.form import Numbers

LIKE = 20  # how many items count as "like" an item


@dataclass(frozen=True, slots=True)
class Evidence:
    """Who says an explanation, and who says the opposite. `item`, `similar_items` and `user` count records."""

    item: int  # of this item
    similar_items: int | None  # of the items most like it, by what people say about them; None: not counted
    user: int  # of this user
    supporting: int  # people who say it about this item
    opposing: int  # people who say the opposite about the same aspect of this item
    agreeing: int  # people who say as much, good or bad, about the same aspect of this item
    mentions: int  # people who mention the aspect of this item at all
    user_aspect: int  # items of which this user mentions the aspect
    latest: int | None  # when it was last said about this item; None: unknown

    def as_dict(self) -> dict[str, int | None]:
        return {name: getattr(self, name) for name in Evidence.__slots__}


COUNTS = ("item", "user", "supporting", "opposing", "agreeing", "mentions", "user_aspect", "user_items")


@dataclass(frozen=True, eq=False)
class EvidenceColumns:
    """Evidence of many (user, item, explanation) at once; 0 in `latest` is unknown."""

    counts: NDArray[np.int32]  # a row for each name in `COUNTS`
    similar_items: NDArray[np.int32] | None
    latest: NDArray[np.int64]
    entries: NDArray[np.int64]  # where (item, explanation) stands in the relation, -1 where nobody says it

    def __getattr__(self, name: str) -> NDArray[np.int32]:
        """A row of the counts by its name."""
        if name not in COUNTS:
            raise AttributeError(name)
        return self.counts[COUNTS.index(name)]

    @cached_property
    def listed(self) -> list[list[int]]:
        """The counts as numbers of Python."""
        return self.counts.tolist()

    def rows(self) -> Iterator[tuple[int | None, ...]]:
        """One by one, as the fields of `Evidence`."""
        item, user, *others, _ = self.listed
        similar = repeat(None) if self.similar_items is None else self.similar_items.tolist()
        return zip(item, similar, user, *others, [time or None for time in self.latest.tolist()], strict=False)


def evidence(
    catalog: Catalog,
    users: Numbers,
    items: Numbers,
    row: NDArray[np.int64],
    explanations: Numbers,
    *,
    similar: bool = True,
) -> EvidenceColumns:
    """Counts for explanations of pairs, `row` says of which; unknown users and items (-1) have none."""
    people, size = catalog.people, len(row)
    counts, entries, latest = (
        np.empty((len(COUNTS), size), np.int32),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    given: tuple[Any, ...] = (users, items, row, explanations, *catalog.item_explanations, people.supporting)
    given += (*catalog.user_explanations, catalog.aspect, catalog.signs, *people.item_aspects)
    given += (people.praising, people.blaming, *people.user_aspects, catalog.user_items.indptr, people.latest)
    given += (counts, entries, latest)
    counts_of_people(*given)
    alike = _of_similar_items(catalog, items[row], explanations) if similar else None
    return EvidenceColumns(counts, alike, latest, entries)


def similar_items(catalog: Catalog, items: Numbers) -> NDArray[np.int32]:
    """The items most like each item, by Jaccard over what is said about them; -1 where there are fewer."""
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


def _of_similar_items(catalog: Catalog, items: Numbers, explanations: Numbers) -> NDArray[np.int32]:
    if len(items) and (items == items[0]).all():  # one pair
        distinct, group_of = items[:1], np.zeros(len(items), np.int64)
    else:
        distinct, group_of = np.unique(items, return_inverse=True)
    groups = similar_items(catalog, distinct)
    return counts_over(*catalog.item_explanations, groups, group_of, explanations)
