"""Evidence: who has said it, of this item, of items like it, and this user before."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.kernels.lookup import counts_at, counts_over
from whyrank.kernels.neighbours import neighbours
from whyrank.ranking.form import Numbers

LIKE = 20  # how many items count as "like" an item
_cache: weakref.WeakKeyDictionary[Catalog, tuple[CSR, dict[int, Numbers]]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Evidence:
    """How many training records hold the explanation."""

    item: int  # of this item
    similar_items: int  # of the items most like it, by what is said of them
    user: int  # of this user


class EvidenceColumns(NamedTuple):
    """Evidence of many (user, item, explanation) at once."""

    item: NDArray[np.int32]
    similar_items: NDArray[np.int32]
    user: NDArray[np.int32]

    def one(self, at: int) -> Evidence:
        return Evidence(int(self.item[at]), int(self.similar_items[at]), int(self.user[at]))


def evidence(
    catalog: Catalog, users: Numbers, items: Numbers, explanations: Numbers, *, similar: bool = True
) -> EvidenceColumns:
    """Counts for aligned arrays of numbers; unknown users and items (-1) have none."""
    return EvidenceColumns(
        counts_at(*catalog.item_explanations, items, explanations),
        _of_similar_items(catalog, items, explanations) if similar else np.zeros(len(items), np.int32),
        counts_at(*catalog.user_explanations, users, explanations),
    )


def similar_items(catalog: Catalog, items: Numbers) -> NDArray[np.int32]:
    """The items most like each item, by Jaccard over what is said of them; -1 where there are fewer."""
    if catalog not in _cache:
        said = catalog.item_explanations
        by_explanation = CSR.from_pairs(said.indices, said.rows_of_entries(), len(catalog.explanations), said.rows)
        _cache[catalog] = by_explanation, {}
    inverse, known = _cache[catalog]
    fresh = np.array([item for item in items.tolist() if item >= 0 and item not in known], np.int32)
    if len(fresh):
        said = catalog.item_explanations
        found, _ = neighbours(said.indptr, said.indices, inverse.indptr, inverse.indices, fresh, LIKE)
        known.update(zip(fresh.tolist(), found, strict=True))
    nobody = np.full(LIKE, -1, np.int32)
    return np.array([known.get(item, nobody) for item in items.tolist()], np.int32).reshape(-1, LIKE)


def _of_similar_items(catalog: Catalog, items: Numbers, explanations: Numbers) -> NDArray[np.int32]:
    distinct, group_of = np.unique(items, return_inverse=True)
    groups = similar_items(catalog, distinct)
    return counts_over(*catalog.item_explanations, groups, group_of, explanations)
