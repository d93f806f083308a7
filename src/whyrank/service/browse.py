"""Looking around: who and what a model knows, by search and one by one, and what people say about an item."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.errors import UnknownId
from whyrank.explain.diversity import ALIKE
from whyrank.explain.evidence import similar_items
from whyrank.service.messages import QuoteOut
from whyrank.service.messages_catalog import (
    AspectOut,
    CountedItem,
    CountedItems,
    CountedUser,
    CountedUsers,
    ExplanationAnswer,
    ExplanationOut,
    ExplanationsAnswer,
    HistoryOut,
    ItemAnswer,
    ItemAspect,
    ItemName,
    ItemOut,
    ItemsAnswer,
    ItemStatement,
    NearDuplicate,
    PoolParameters,
    SaidOut,
    StatementAnswer,
    TextOut,
    UserAnswer,
    UserOut,
    UsersAnswer,
)
from whyrank.service.registry import ServedModel

TOP = 20  # how many users, items and near-duplicates of an explanation are listed
SAID = 1000  # how many of a user's or an item's explanations are listed
STATEMENTS = 5  # of one aspect that are listed
ASPECTS = 30  # of one item that are listed
Numbers = NDArray[np.int64]
Items = NDArray[np.int32]


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


def users(served: ServedModel, query: str, limit: int, offset: int) -> UsersAnswer:
    catalog = served.model.catalog_
    found = search([catalog.users.ids], query, catalog.user_items.sizes())
    page = [UserOut(**_user(catalog, at)) for at in found[offset : offset + limit].tolist()]
    return UsersAnswer(total=len(found), users=page)


def items(served: ServedModel, query: str, limit: int, offset: int) -> ItemsAnswer:
    catalog = served.model.catalog_
    texts = [catalog.items.ids] + ([] if served.titles is None else [served.titles])
    found = search(texts, query, catalog.item_popularity)
    page = [ItemOut(**_item(served, at)) for at in found[offset : offset + limit].tolist()]
    return ItemsAnswer(total=len(found), items=page)


def explanations(served: ServedModel, asked: PoolParameters) -> ExplanationsAnswer:
    """Find a page of the pool."""
    sort, polarity, aspect = asked.sort, asked.polarity, asked.aspect
    catalog = served.model.catalog_
    texts = [catalog.explanations.ids] + ([] if catalog.texts is None else [catalog.texts])
    found = search(texts, asked.query, catalog.popularity)
    if aspect:
        found = found[catalog.aspect[found] == catalog.aspects.number(aspect)]
    sentiment = served.sentiment
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
    page = [
        ExplanationOut(**_explanation(served, at)) for at in found[asked.offset : asked.offset + asked.limit].tolist()
    ]
    return ExplanationsAnswer(total=len(found), explanations=page)


def user(served: ServedModel, id_: str, limit: int, offset: int) -> UserAnswer:
    """What a user said before. Triplets are not stored: an item lists what this user and others say."""
    catalog = served.model.catalog_
    number = catalog.users.number(id_)
    said = catalog.user_explanations.row(number)
    history = []
    for item in catalog.user_items.row(number)[offset : offset + limit].tolist():
        both = np.intersect1d(said, catalog.item_explanations.row(item), assume_unique=True)
        texts = [TextOut(**each) for each in _texts(served, both)]
        history.append(HistoryOut(item=catalog.items.ids[item], title=_title(served, item), explanations=texts))
    return UserAnswer(**_user(catalog, number), history=history, said=_said(served, catalog.user_explanations, number))


def item(served: ServedModel, id_: str) -> ItemAnswer:
    """What people say about an item: explanation by explanation, aspect by aspect, and compared with similar items."""
    catalog = served.model.catalog_
    number = catalog.items.number(id_)
    alike = similar_items(catalog, np.array([number], np.int32))[0]
    alike = alike[alike >= 0]
    return ItemAnswer(
        **_item(served, number),
        aspects=item_aspects(served, number, alike),
        said=_said(served, catalog.item_explanations, number),
        similar=[ItemName(id=catalog.items.ids[at], title=_title(served, at)) for at in alike.tolist()],
    )


def statement(served: ServedModel, item: str, id_: str) -> StatementAnswer:
    """What is behind a statement about an item; raises UnknownId where nobody says it there."""
    catalog = served.model.catalog_
    number, explanation = catalog.items.number(item), catalog.explanations.number(id_)
    relation = catalog.item_explanations
    own = relation.row(number)
    at = np.flatnonzero(own == explanation)
    if not len(at):
        raise UnknownId("explanation", id_, [catalog.ids_listed[each] for each in own[:3].tolist()])
    entry = int(relation.indptr[number] + at[0])
    return StatementAnswer(
        **_statement(catalog, entry),
        item=item,
        title=_title(served, number),
        opposing=int(catalog.opposing[entry]),
        mixed=int(catalog.people.mixed[entry]),
    )


def explanation(served: ServedModel, id_: str) -> ExplanationAnswer:
    catalog = served.model.catalog_
    number = catalog.explanations.number(id_)
    by_user, by_item = _who(catalog.user_explanations, number), _who(catalog.item_explanations, number)
    users = [CountedUser(id=catalog.users.ids[row], count=count) for row, count in by_user[:TOP]]
    items = [
        CountedItem(id=catalog.items.ids[row], title=_title(served, row), count=count) for row, count in by_item[:TOP]
    ]
    return ExplanationAnswer(
        **_explanation(served, number),
        share=float(catalog.popularity[number] / max(1, catalog.popularity.sum())),
        near_duplicates=near_duplicates(served, number),
        users=CountedUsers(total=len(by_user), top=users),
        items=CountedItems(total=len(by_item), top=items),
    )


def near_duplicates(served: ServedModel, number: int) -> list[NearDuplicate]:
    """Explanations that share most of their words with this one, the most alike first."""
    catalog, words = served.model.catalog_, served.words
    own = words.row(number)
    common = np.bincount(words.rows_of_entries()[np.isin(words.indices, own)], minlength=words.rows)
    overlap = common / np.maximum(words.sizes() + len(own) - common, 1)
    overlap[number] = 0
    found = np.flatnonzero(overlap >= ALIKE)
    found = found[np.lexsort((found, -catalog.popularity[found], -overlap[found]))][:TOP]
    ids, texts = catalog.explanations.terms(found).to_list(), catalog.text_of(found).to_list()
    return [
        NearDuplicate(id=id_, text=text, frequency=int(catalog.popularity[at]), overlap=float(overlap[at]))
        for at, id_, text in zip(found.tolist(), ids, texts, strict=True)
    ]


def item_aspects(served: ServedModel, item: int, similar: Items) -> list[ItemAspect]:
    """Aspects of an item, the most mentioned first: people for and against, here and for similar items, with quotes.

    Empty where the data do not say what explanations are about.
    """
    catalog = served.model.catalog_
    people = catalog.people
    entries = slice(people.item_aspects.indptr[item], people.item_aspects.indptr[item + 1])
    aspects, mentions = people.item_aspects.indices[entries], people.item_aspects.counts[entries]
    praising, blaming = people.praising[entries], people.blaming[entries]
    elsewhere = _votes(catalog, similar)
    order = np.lexsort((aspects, -mentions))[:ASPECTS]
    return [
        ItemAspect(
            aspect=catalog.aspects.ids[int(aspects[at])],
            mentions=int(mentions[at]),
            praising=int(praising[at]),
            blaming=int(blaming[at]),
            similar_praising=int(elsewhere[0, aspects[at]]),
            similar_blaming=int(elsewhere[1, aspects[at]]),
            statements=_statements(served, item, int(aspects[at])),
        )
        for at in order.tolist()
    ]


def aspects(served: ServedModel) -> list[AspectOut]:
    """Aspects of the whole pool, the most frequent first, with how much of what is said about them is praise."""
    catalog = served.model.catalog_
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
    return [AspectOut(**dict(zip(names, row, strict=True))) for row in rows if row[1]]


def _votes(catalog: Catalog, items: Items) -> NDArray[np.int64]:
    """People who praise and who criticize each aspect, over all of these items."""
    people, votes = catalog.people, np.zeros((2, len(catalog.aspects)), np.int64)
    for item in items.tolist():
        entries = slice(people.item_aspects.indptr[item], people.item_aspects.indptr[item + 1])
        about = people.item_aspects.indices[entries]
        votes[0, about] += people.praising[entries]
        votes[1, about] += people.blaming[entries]
    return votes


def _statements(served: ServedModel, item: int, aspect: int) -> list[ItemStatement]:
    """What people say about one aspect of an item, the most often first, each with what somebody wrote."""
    catalog = served.model.catalog_
    relation, people = catalog.item_explanations, catalog.people
    start = int(relation.indptr[item])
    entries = start + np.flatnonzero(catalog.aspect[relation.indices[start : relation.indptr[item + 1]]] == aspect)
    entries = entries[np.lexsort((entries, -people.supporting[entries]))][:STATEMENTS]
    return [ItemStatement(**_statement(catalog, entry)) for entry in entries.tolist()]


def _statement(catalog: Catalog, entry: int) -> dict[str, Any]:
    """What an entry of item x explanation says, and what people wrote."""
    number = int(catalog.item_explanations.indices[entry])
    return {
        "id": catalog.ids_listed[number],
        "text": catalog.texts_listed[number],
        "polarity": int(catalog.signs[number]),
        "people": int(catalog.people.supporting[entry]),
        "quotes": _quotes(catalog, entry),
    }


def _quotes(catalog: Catalog, entry: int) -> list[QuoteOut]:
    """What people wrote; never who."""
    people = catalog.people
    first, end = people.quote_starts[entry], people.quote_starts[entry + 1]
    rows = people.quotes.slice(int(first), int(end - first)).select("text", "source", "time")
    return [QuoteOut(text=text, source=source, time=time or None) for text, source, time in rows.iter_rows()]


def _user(catalog: Catalog, number: int) -> dict[str, Any]:
    return {
        "id": catalog.users.ids[number],
        "items": _size(catalog.user_items, number),
        "explanations": _size(catalog.user_explanations, number),
    }


def _item(served: ServedModel, number: int) -> dict[str, Any]:
    catalog = served.model.catalog_
    return {
        "id": catalog.items.ids[number],
        "title": _title(served, number),
        "users": int(catalog.item_popularity[number]),
        "explanations": _size(catalog.item_explanations, number),
    }


def _explanation(served: ServedModel, number: int) -> dict[str, Any]:
    only = np.array([number], np.int32)
    return {
        **_texts(served, only)[0],
        "frequency": int(served.model.catalog_.popularity[number]),
        "aspect": None if served.aspects is None else served.aspects[number],
    }


def _said(served: ServedModel, relation: CSR, row: int) -> list[SaidOut]:
    """The explanations of a row of a relation, the most frequent first."""
    entries = slice(relation.indptr[row], relation.indptr[row + 1])
    numbers, counts = relation.indices[entries], relation.counts[entries]
    order = np.lexsort((numbers, -counts))[:SAID]
    texts = _texts(served, numbers[order])
    return [SaidOut(**text, count=count) for text, count in zip(texts, counts[order].tolist(), strict=True)]


def _texts(served: ServedModel, explanations: NDArray[np.int32]) -> list[dict[str, Any]]:
    catalog = served.model.catalog_
    ids, texts = catalog.explanations.terms(explanations).to_list(), catalog.text_of(explanations).to_list()
    rows = zip(ids, texts, served.sentiments(explanations), strict=True)
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


def _title(served: ServedModel, item: int) -> str | None:
    return None if served.titles is None else served.titles[item]
