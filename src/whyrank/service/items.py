"""An item's own page: what people praise and criticize about it, aspect by aspect, and how that compares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.service.shelf import Loaded

STATEMENTS = 5  # of one aspect that are listed
ASPECTS = 30  # of one item that are listed
Numbers = NDArray[np.int32]
Document = dict[str, Any]


def item_aspects(loaded: Loaded, item: int, similar: Numbers) -> list[Document]:
    """Aspects of an item, the most mentioned first: people for and against, here and for similar items, with quotes.

    Empty where the data do not say what explanations are about.
    """
    catalog = loaded.model.catalog_
    people = catalog.people
    entries = slice(people.item_aspects.indptr[item], people.item_aspects.indptr[item + 1])
    aspects, mentions = people.item_aspects.indices[entries], people.item_aspects.counts[entries]
    praising, blaming = people.praising[entries], people.blaming[entries]
    elsewhere = _votes(catalog, similar)
    order = np.lexsort((aspects, -mentions))[:ASPECTS]
    return [
        {
            "aspect": catalog.aspects.ids[int(aspects[at])],
            "mentions": int(mentions[at]),
            "praising": int(praising[at]),
            "blaming": int(blaming[at]),
            "similar_praising": int(elsewhere[0, aspects[at]]),
            "similar_blaming": int(elsewhere[1, aspects[at]]),
            "statements": _statements(loaded, item, int(aspects[at])),
        }
        for at in order.tolist()
    ]


def aspects(loaded: Loaded) -> list[Document]:
    """Aspects of the whole pool, the most frequent first, with how much of what is said about them is praise."""
    catalog = loaded.model.catalog_
    about, often = catalog.aspect, catalog.popularity
    size, known = len(catalog.aspects), about >= 0
    counts = np.bincount(about[known], minlength=size)
    sides = [
        np.bincount(about[known & side], often[known & side], size).astype(np.int64)
        for side in (known, catalog.signs > 0, catalog.signs < 0)
    ]
    order = np.lexsort((np.arange(size), -sides[0]))
    names = ("aspect", "explanations", "frequency", "praise", "criticism")
    rows = zip(
        catalog.aspects.ids.gather(order).to_list(), *(each[order].tolist() for each in (counts, *sides)), strict=True
    )
    return [dict(zip(names, row, strict=True)) for row in rows if row[1]]


def _votes(catalog: Catalog, items: Numbers) -> NDArray[np.int64]:
    """People who praise and who criticize each aspect, over all of these items."""
    people, votes = catalog.people, np.zeros((2, len(catalog.aspects)), np.int64)
    for item in items.tolist():
        entries = slice(people.item_aspects.indptr[item], people.item_aspects.indptr[item + 1])
        about = people.item_aspects.indices[entries]
        votes[0, about] += people.praising[entries]
        votes[1, about] += people.blaming[entries]
    return votes


def _statements(loaded: Loaded, item: int, aspect: int) -> list[Document]:
    """What people say about one aspect of an item, the most often first, each with what somebody wrote."""
    catalog = loaded.model.catalog_
    relation, people = catalog.item_explanations, catalog.people
    start = int(relation.indptr[item])
    entries = start + np.flatnonzero(catalog.aspect[relation.indices[start : relation.indptr[item + 1]]] == aspect)
    entries = entries[np.lexsort((entries, -people.supporting[entries]))][:STATEMENTS]
    numbers = relation.indices[entries]
    return [
        {
            "id": catalog.ids_listed[number],
            "text": catalog.texts_listed[number],
            "polarity": int(catalog.signs[number]),
            "people": int(people.supporting[entry]),
            "quotes": _quotes(catalog, int(entry)),
        }
        for entry, number in zip(entries.tolist(), numbers.tolist(), strict=True)
    ]


def _quotes(catalog: Catalog, entry: int) -> list[Document]:
    """What people wrote; never who."""
    people = catalog.people
    first, end = people.quote_starts[entry], people.quote_starts[entry + 1]
    rows = people.quotes.slice(int(first), int(end - first)).select("text", "source", "time")
    return [{**row, "time": row["time"] or None} for row in rows.iter_rows(named=True)]
