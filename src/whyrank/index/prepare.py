"""A search that is ready for the users and items of a model before anybody asks."""

from __future__ import annotations

import numpy as np

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.index.form import Numbers, Scorer, constant_and_parts
from whyrank.index.search import Search

SAMPLE = 8192  # pairs of the training data that show what will be asked
EFFORT = 1 << 30  # users and items, times explanations, that are looked at beforehand: a fraction of a second


def prepared(model: Scorer, catalog: Catalog) -> Search:
    """The search over a model's keys, laid out for pairs like those it was fitted on.

    Where it takes a moment only, all users and items are made known to it; where it would not, those become known that
    come often.
    """
    constant, parts = constant_and_parts(model.blocks())
    search = Search(model.keys(), catalog.ranks, constant=constant, parts=parts)
    if len(catalog.user_items.indices) == 0:
        return search
    search.prepare(model.queries(*_some_pairs(catalog.user_items)))
    users, items = len(catalog.users), len(catalog.items)
    if search.by_parts and (users + items) * len(search) <= EFFORT:
        everyone = np.arange(max(users, items), dtype=np.int32)
        search.warm_up(model.queries(everyone % users, everyone % items))
    return search


def _some_pairs(relation: CSR) -> tuple[Numbers, Numbers]:
    """Pairs from all over a relation."""
    count = len(relation.indices)
    some = np.linspace(0, count - 1, min(SAMPLE, count)).astype(np.int64)
    users = np.searchsorted(relation.indptr, some, side="right") - 1
    return users.astype(np.int32), relation.indices[some].astype(np.int32)
