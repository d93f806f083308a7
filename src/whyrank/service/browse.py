"""Looking around: who and what a model knows, by search and one by one."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.explain.diversity import ALIKE
from whyrank.explain.evidence import similar_items
from whyrank.service.items import Document, item_aspects
from whyrank.service.shelf import Loaded

TOP = 20  # how many users, items and near-duplicates of an explanation are listed
SAID = 1000  # how many of a user's or an item's explanations are listed
Numbers = NDArray[np.int64]


def search(texts: list[pl.Series], query: str, weight: NDArray[np.integer]) -> Numbers:
    """Numbers that match in any of the texts: exactly, then at the start, then anywhere; the weightiest first."""
    order = np.arange(len(weight))
    if not query:
        return np.lexsort((order, -weight))
    literal = pl.select(pl.lit(query).str.escape_regex()).item()
    place = np.full(len(weight), 3, np.int8)
    for series in texts:
        for level, pattern in ((2, f"(?i){literal}"), (1, f"(?i)^{literal}"), (0, f"^{literal}$")):
            hit = series.str.contains(pattern).fill_null(False).to_numpy()
            place[hit] = np.minimum(place[hit], level)
            if not hit.any():
                break
    found = np.flatnonzero(place < 3)
    return found[np.lexsort((found, -weight[found], place[found]))]


def users(loaded: Loaded, query: str, limit: int, offset: int) -> Document:
    catalog = loaded.model.catalog_
    found = search([catalog.users.ids], query, catalog.user_items.sizes())
    return {
        "total": len(found),
        "users": [_user(catalog, at) for at in found[offset : offset + limit].tolist()],
    }


def items(loaded: Loaded, query: str, limit: int, offset: int) -> Document:
    catalog = loaded.model.catalog_
    texts = [catalog.items.ids] + ([] if loaded.titles is None else [loaded.titles])
    found = search(texts, query, catalog.item_popularity)
    return {
        "total": len(found),
        "items": [_item(loaded, at) for at in found[offset : offset + limit].tolist()],
    }


def explanations(
    loaded: Loaded, query: str, limit: int, offset: int, sort: str, polarity: str, aspect: str
) -> Document:
    catalog = loaded.model.catalog_
    texts = [catalog.explanations.ids] + ([] if catalog.texts is None else [catalog.texts])
    found = search(texts, query, catalog.popularity)
    if aspect:
        found = found[catalog.aspect[found] == catalog.aspects.number(aspect)]
    sentiment = loaded.sentiment
    if polarity != "any" or sort in ("positive", "negative"):
        sentiment = catalog.sentiment
    if polarity != "any" and sentiment is not None:
        found = found[sentiment[found] > 0 if polarity == "positive" else sentiment[found] < 0]
    if sort == "text":
        found = found[catalog.text_of(found).arg_sort().to_numpy()]
    elif sort == "frequency":
        found = found[np.argsort(-catalog.popularity[found], kind="stable")]  # wherever the query stands in the text
    elif sentiment is not None:
        found = found[np.argsort(-sentiment[found] if sort == "positive" else sentiment[found], kind="stable")]
    page = [_explanation(loaded, at) for at in found[offset : offset + limit].tolist()]
    return {"total": len(found), "explanations": page}


def user(loaded: Loaded, id_: str, limit: int, offset: int) -> Document:
    """What a user said before. Triplets are not stored: an item lists what this user and others say."""
    catalog = loaded.model.catalog_
    number = catalog.users.number(id_)
    said = catalog.user_explanations.row(number)
    history = []
    for item in catalog.user_items.row(number)[offset : offset + limit].tolist():
        both = np.intersect1d(said, catalog.item_explanations.row(item), assume_unique=True)
        history.append(
            {
                "item": catalog.items.ids[item],
                "title": _title(loaded, item),
                "explanations": _texts(loaded, both),
            }
        )
    return {
        **_user(catalog, number),
        "history": history,
        "said": _said(loaded, catalog.user_explanations, number),
    }


def item(loaded: Loaded, id_: str) -> Document:
    """What people say about an item: explanation by explanation, aspect by aspect, and compared with similar items."""
    catalog = loaded.model.catalog_
    number = catalog.items.number(id_)
    alike = similar_items(catalog, np.array([number], np.int32))[0]
    alike = alike[alike >= 0]
    similar = [{"id": catalog.items.ids[at], "title": _title(loaded, at)} for at in alike.tolist()]
    return {
        **_item(loaded, number),
        "aspects": item_aspects(loaded, number, alike),
        "said": _said(loaded, catalog.item_explanations, number),
        "similar": similar,
    }


def explanation(loaded: Loaded, id_: str) -> Document:
    catalog = loaded.model.catalog_
    number = catalog.explanations.number(id_)
    by_user, by_item = _who(catalog.user_explanations, number), _who(catalog.item_explanations, number)
    told = [{"id": catalog.users.ids[row], "count": count} for row, count in by_user[:TOP]]
    of = [{"id": catalog.items.ids[row], "title": _title(loaded, row), "count": count} for row, count in by_item[:TOP]]
    return {
        **_explanation(loaded, number),
        "share": float(catalog.popularity[number] / max(1, catalog.popularity.sum())),
        "near_duplicates": near_duplicates(loaded, number),
        "users": {"total": len(by_user), "top": told},
        "items": {"total": len(by_item), "top": of},
    }


def near_duplicates(loaded: Loaded, number: int) -> list[Document]:
    """Explanations that share most of their words with this one, the most alike first."""
    catalog, words = loaded.model.catalog_, loaded.words
    own = words.row(number)
    common = np.bincount(words.rows_of_entries()[np.isin(words.indices, own)], minlength=words.rows)
    overlap = common / np.maximum(words.sizes() + len(own) - common, 1)
    overlap[number] = 0
    found = np.flatnonzero(overlap >= ALIKE)
    found = found[np.lexsort((found, -catalog.popularity[found], -overlap[found]))][:TOP]
    ids, texts = catalog.explanations.terms(found).to_list(), catalog.text_of(found).to_list()
    return [
        {"id": id_, "text": text, "frequency": int(catalog.popularity[at]), "overlap": float(overlap[at])}
        for at, id_, text in zip(found.tolist(), ids, texts, strict=True)
    ]


def _user(catalog: Catalog, number: int) -> Document:
    return {
        "id": catalog.users.ids[number],
        "items": _size(catalog.user_items, number),
        "explanations": _size(catalog.user_explanations, number),
    }


def _item(loaded: Loaded, number: int) -> Document:
    catalog = loaded.model.catalog_
    return {
        "id": catalog.items.ids[number],
        "title": _title(loaded, number),
        "users": int(catalog.item_popularity[number]),
        "explanations": _size(catalog.item_explanations, number),
    }


def _explanation(loaded: Loaded, number: int) -> Document:
    only = np.array([number], np.int32)
    return {
        **_texts(loaded, only)[0],
        "frequency": int(loaded.model.catalog_.popularity[number]),
        "aspect": None if loaded.aspects is None else loaded.aspects[number],
    }


def _said(loaded: Loaded, relation: CSR, row: int) -> list[Document]:
    """The explanations of a row of a relation, the most frequent first."""
    entries = slice(relation.indptr[row], relation.indptr[row + 1])
    numbers, counts = relation.indices[entries], relation.counts[entries]
    order = np.lexsort((numbers, -counts))[:SAID]
    texts = _texts(loaded, numbers[order])
    return [{**text, "count": count} for text, count in zip(texts, counts[order].tolist(), strict=True)]


def _texts(loaded: Loaded, explanations: NDArray[np.int32]) -> list[Document]:
    catalog = loaded.model.catalog_
    ids, texts = catalog.explanations.terms(explanations).to_list(), catalog.text_of(explanations).to_list()
    rows = zip(ids, texts, loaded.sentiments(explanations), strict=True)
    return [{"id": id_, "text": text, "sentiment": sentiment} for id_, text, sentiment in rows]


def _who(relation: CSR, explanation: int) -> list[tuple[int, int]]:
    """Rows of a relation that hold an explanation and how often, the most often first."""
    entries = np.flatnonzero(relation.indices == explanation)
    rows = np.searchsorted(relation.indptr, entries, side="right") - 1
    counts = relation.counts[entries]
    order = np.lexsort((rows, -counts))
    return list(zip(rows[order].tolist(), counts[order].tolist(), strict=True))


def _size(relation: CSR, row: int) -> int:
    return int(relation.indptr[row + 1] - relation.indptr[row])


def _title(loaded: Loaded, item: int) -> str | None:
    return None if loaded.titles is None else loaded.titles[item]
