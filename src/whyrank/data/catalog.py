"""What a fitted model remembers of its training data: who and what there is, and what was said of what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.data.ratings import Range
from whyrank.data.triplets import Triplets
from whyrank.data.vocabulary import Vocabulary

RELATIONS = ("user_explanations", "item_explanations", "user_items")


@dataclass(frozen=True, eq=False)
class Catalog:
    """Vocabularies, texts and relations of the training data; enough for evidence, exclusions and external ids."""

    users: Vocabulary
    items: Vocabulary
    explanations: Vocabulary
    texts: pl.Series | None
    popularity: NDArray[np.int64]
    mean_rating: NDArray[np.float32]  # of the records that hold an explanation; NaN where there are no ratings
    user_explanations: CSR
    item_explanations: CSR
    user_items: CSR
    rating_range: Range | None = field(default=None, kw_only=True)  # the scale of ratings, where it was named

    @classmethod
    def of(cls, train: Triplets) -> Catalog:
        return cls(
            users=train.users,
            items=train.items,
            explanations=train.explanations,
            texts=train.texts,
            popularity=train.popularity,
            mean_rating=_mean_ratings(train),
            user_explanations=train.user_explanations,
            item_explanations=train.item_explanations,
            user_items=train.user_items,
            rating_range=train.rating_range,
        )

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """The place of each explanation when ties are broken: by popularity, then by id."""
        return _places(self.popularity)

    @cached_property
    def item_users(self) -> CSR:
        """U_i."""
        seen = self.user_items
        return CSR.from_pairs(seen.indices, seen.rows_of_entries(), len(self.items), len(self.users))

    @cached_property
    def item_popularity(self) -> NDArray[np.int64]:
        """The number of users of each item."""
        return np.bincount(self.user_items.indices, minlength=len(self.items))

    @cached_property
    def item_ranks(self) -> NDArray[np.int32]:
        """As `ranks`, for items."""
        return _places(self.item_popularity)

    @cached_property
    def sentiment(self) -> NDArray[np.float32]:
        """From -1 to 1 per explanation: from ratings and words together, from either where there is no other."""
        from whyrank.data.sentiment import sentiment_of

        texts = self.text_of(np.arange(len(self.explanations)))
        return sentiment_of(texts, self.mean_rating, self.popularity, self.rating_range)

    def table(self) -> pl.DataFrame:
        """One row per explanation: id, text, popularity, sentiment."""
        return pl.DataFrame(
            {
                "id": self.explanations.ids,
                "text": self.text_of(np.arange(len(self.explanations))),
                "popularity": self.popularity,
                "sentiment": self.sentiment,
            }
        )

    def grown(self, new: Triplets, *, explanations: bool = False) -> Catalog:
        """This catalog with further triplets; known ids keep their numbers, new ones come behind.

        New explanations are taken in only when asked for; otherwise they raise UnknownId.
        """
        users, items = self.users.grown(new.users.ids), self.items.grown(new.items.ids)
        pool = self.explanations.grown(new.explanations.ids) if explanations else self.explanations
        user, item = users.numbers(new.users.ids)[new.user], items.numbers(new.items.ids)[new.item]
        said = pool.numbers(new.explanations.ids)[new.explanation]
        seen = (users.numbers(new.users.ids)[new.record_user], items.numbers(new.items.ids)[new.record_item])
        fresh_pair = ~self.knows(*self._numbers_of(new))
        popularity = np.bincount(said, minlength=len(pool))
        before = np.zeros(len(pool))
        before[: len(self.popularity)] = self.popularity
        fresh = Catalog.of(new).mean_rating
        rating = np.full(len(pool), np.nan, np.float32)
        rating[: len(self.mean_rating)] = self.mean_rating
        moved = pool.numbers(new.explanations.ids)
        old, weight = rating[moved], before[moved]
        total = np.where(np.isnan(old), 0, old * weight) + np.where(np.isnan(fresh), 0, fresh * new.popularity)
        count = np.where(np.isnan(old), 0, weight) + np.where(np.isnan(fresh), 0, new.popularity)
        rating[moved] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return Catalog(
            users=users,
            items=items,
            explanations=pool,
            texts=self._grown_texts(new, pool),
            popularity=before.astype(np.int64) + popularity,
            mean_rating=rating,
            user_explanations=_merged(self.user_explanations, user, said, len(users), len(pool)),
            item_explanations=_merged(self.item_explanations, item, said, len(items), len(pool)),
            user_items=_merged(self.user_items, seen[0][fresh_pair], seen[1][fresh_pair], len(users), len(items)),
            rating_range=self.rating_range,
        )

    def uncounted(self, new: Triplets) -> Triplets:
        """Those of further triplets that this catalog has not counted, for `grown`.

        Of a pair that it knows they are those that the user or the item has not had yet: a catalog does not remember
        what was said of a pair, so the rest has been counted or cannot be told from what has been.
        """
        user, item = self._numbers_of(new)
        explanation = self.explanations.numbers(new.explanations.ids, missing="negative")[new.explanation]
        record = new.record_explanations.rows_of_entries()
        known = self.knows(user, item)[record] & (explanation >= 0)
        for relation, rows in ((self.user_explanations, user), (self.item_explanations, item)):
            known[known] = relation.holds(rows[record[known]], explanation[known])
        return new.without(known)

    def _numbers_of(self, new: Triplets) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The user and the item of every record; -1 for what is unknown."""
        user = self.users.numbers(new.users.ids, missing="negative")[new.record_user]
        return user, self.items.numbers(new.items.ids, missing="negative")[new.record_item]

    def knows(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which pairs of numbers, -1 for what is unknown, this catalog has a record of."""
        known = (users >= 0) & (items >= 0)
        known[known] = self.user_items.holds(users[known], items[known])
        return known

    def _grown_texts(self, new: Triplets, pool: Vocabulary) -> pl.Series | None:
        if self.texts is None and new.texts is None:
            return None
        added = pool.ids[len(self.explanations) :]
        texts = new.text_of(new.explanations.numbers(added)) if len(added) else added
        return pl.concat([self.text_of(np.arange(len(self.explanations))).rename("text"), texts.rename("text")])

    def text_of(self, explanations: NDArray[np.integer]) -> pl.Series:
        """The texts of explanations given by number."""
        return (self.explanations.ids if self.texts is None else self.texts).gather(explanations)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Everything numeric, by name, for an artifact."""
        arrays: dict[str, NDArray[np.generic]] = {
            "popularity": self.popularity,
            "mean_rating": self.mean_rating,
        }
        if self.rating_range is not None:
            arrays["rating_range"] = np.array(self.rating_range, np.float64)
        for name in RELATIONS:
            for part, array in getattr(self, name)._asdict().items():
                arrays[f"{name}.{part}"] = array
        return arrays

    def tables(self) -> dict[str, pl.DataFrame]:
        """Everything textual, by name, for an artifact."""
        explanations = {"id": self.explanations.ids}
        if self.texts is not None:
            explanations["text"] = self.texts
        return {
            "users": pl.DataFrame({"id": self.users.ids}),
            "items": pl.DataFrame({"id": self.items.ids}),
            "explanations": pl.DataFrame(explanations),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[np.generic]], tables: Mapping[str, pl.DataFrame]) -> Catalog:
        """The catalog behind `arrays()` and `tables()`."""
        users, items, explanations = (_vocabulary(tables[name], name) for name in ("users", "items", "explanations"))
        sizes = {"user": len(users), "item": len(items), "explanation": len(explanations)}
        pool = tables["explanations"]
        return cls(
            users=users,
            items=items,
            explanations=explanations,
            texts=_column(pool, "text") if "text" in pool.columns else None,
            popularity=_checked(arrays, "popularity", np.int64, len(explanations)),
            mean_rating=_checked(arrays, "mean_rating", np.float32, len(explanations)),
            rating_range=_scale(arrays),
            **{name: _relation(arrays, name, sizes) for name in RELATIONS},
        )


def _merged(old: CSR, row: NDArray[np.int32], column: NDArray[np.int32], rows: int, columns: int) -> CSR:
    """A relation with further entries."""
    all_rows = np.concatenate([np.repeat(old.rows_of_entries(), old.counts), row])
    all_columns = np.concatenate([np.repeat(old.indices, old.counts), column])
    return CSR.from_pairs(all_rows, all_columns, rows, columns)


def _vocabulary(table: pl.DataFrame, name: str) -> Vocabulary:
    ids = _column(table, "id")
    if not len(ids) or ids.n_unique() < len(ids):
        raise ValueError(f"{name} have no ids of their own")
    return Vocabulary(ids, name.removesuffix("s"))


def _column(table: pl.DataFrame, name: str) -> pl.Series:
    if name not in table.columns or table[name].dtype != pl.String or table[name].null_count():
        raise ValueError(f"{name} is not a column of texts")
    return table[name]


def _relation(arrays: Mapping[str, NDArray[np.generic]], name: str, sizes: Mapping[str, int]) -> CSR:
    """A relation such as user_items; compiled code follows its numbers without looking, so they are looked at here."""
    row, column = name.removesuffix("s").split("_")
    indptr = _checked(arrays, f"{name}.indptr", np.int64, sizes[row] + 1)
    indices = _checked(arrays, f"{name}.indices", np.int32)
    counts = _checked(arrays, f"{name}.counts", np.int32, len(indices))
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError(f"the rows of {name} do not follow each other")
    if len(indices) and not 0 <= indices.min() <= indices.max() < sizes[column]:
        raise ValueError(f"{name} names a number that does not exist")
    return CSR(indptr, indices, counts)


def _checked(arrays: Mapping[str, NDArray[np.generic]], name: str, kind: type, size: int | None = None) -> Any:
    """An array of one dimension, of the kind and size that it must have."""
    array = arrays[name]
    if array.dtype != kind or array.ndim != 1 or size not in (None, len(array)):
        raise ValueError(f"{name} has the wrong size or type")
    return array


def _scale(arrays: Mapping[str, NDArray[np.generic]]) -> Range | None:
    """The named scale of ratings; models know none that were saved without one."""
    if "rating_range" not in arrays:
        return None
    low, high = _checked(arrays, "rating_range", np.float64, 2).tolist()
    if not -np.inf < low < high < np.inf:
        raise ValueError("rating_range is not a range")
    return low, high


def _places(popularity: NDArray[np.int64]) -> NDArray[np.int32]:
    places = np.empty(len(popularity), np.int32)
    places[np.argsort(-popularity, kind="stable")] = np.arange(len(popularity), dtype=np.int32)
    return places


def _mean_ratings(train: Triplets) -> NDArray[np.float32]:
    """The mean rating of each explanation's records."""
    means = np.full(len(train.explanations), np.nan, np.float32)
    if train.rating is None:
        return means
    rating = np.repeat(train.rating, train.record_explanations.sizes())
    known = np.isfinite(rating)
    total = np.bincount(train.explanation[known], weights=rating[known], minlength=len(means))
    count = np.bincount(train.explanation[known], minlength=len(means))
    np.divide(total, count, out=means, where=count > 0, casting="unsafe")
    return means
