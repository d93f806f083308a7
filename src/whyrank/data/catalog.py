"""What a fitted model remembers of its training data: who and what there is, and what was said about what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.csr import CSR, checked_array, checked_csr
from whyrank.data.once import made_once
from whyrank.data.people import People, Said, places
from whyrank.data.ratings import Range
from whyrank.data.statements import GENERAL, Positions, positions
from whyrank.data.triplets import Triplets
from whyrank.data.vocabulary import Vocabulary

COMPARED = 20  # items from which on they are compared
SPOKEN_OF = 4  # people from whom on an item is compared with others
STEADY = 10.0  # imaginary people at the average of all items
DETAIL = 0.05  # of those who praise an aspect, how many must say something specific for it to be told
LARGEST_WEIGHT = 100.0  # of the log of worth
RELATIONS = ("user_explanations", "item_explanations", "user_items")


class Details(NamedTuple):
    """What may be told beside plain praise or blame, by entry of item x explanation; empty where nothing is plain."""

    explanation: NDArray[np.int32]  # -1: none that enough people say
    people: NDArray[np.int32]  # who say it about the item


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
    aspects: Vocabulary  # names of what explanations are about; empty where nothing is known of it
    aspect: NDArray[np.int32]  # of each explanation, -1 where unknown
    polarity: NDArray[np.int8] | None  # of each explanation, as its source has it; None: see `sentiment`
    senses: pl.Series | None  # what each explanation says about its aspect, null where unknown
    opposite_senses: pl.Series | None  # the sense that says the opposite, null where there is none
    people: People
    rating_range: Range | None = field(default=None, kw_only=True)  # the scale of ratings, where it was named
    worth_weight: float = field(default=0.0, kw_only=True)  # of the log of a reason's worth in its score

    @classmethod
    def of(cls, train: Triplets) -> Catalog:
        """The catalog of training data."""
        aspects, aspect = _aspects(train.aspects, len(train.explanations))
        sign = np.zeros(len(aspect), np.int8) if train.polarity is None else train.polarity
        found = _positions(aspects, aspect, sign, train.senses, train.opposites)
        said = Said.of(train, (train.user, train.item, train.explanation), aspect, sign, found.of)
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
            aspects=aspects,
            aspect=aspect,
            polarity=train.polarity,
            senses=train.senses,
            opposite_senses=train.opposites,
            people=People.of(said, train.item_explanations, found.opposites, len(train.users), len(aspects)),
            rating_range=train.rating_range,
        )

    @classmethod
    def for_ranking(cls, train: Triplets) -> Catalog:
        """What plain ranking needs while a model is learning; what people say is counted only if it has a worth."""
        if train.worth is not None:
            return cls.of(train)
        return replace(
            cls.of(train.take(np.empty(0, np.int64))),
            popularity=train.popularity,
            user_explanations=train.user_explanations,
            item_explanations=train.item_explanations,
            user_items=train.user_items,
        )

    @made_once
    def ranks(self) -> NDArray[np.int32]:
        """The place of each explanation when ties are broken: by popularity, then by id."""
        return _places(self.popularity)

    @made_once
    def item_users(self) -> CSR:
        """U_i."""
        seen = self.user_items
        return CSR.from_pairs(seen.indices, seen.rows_of_entries(), len(self.items), len(self.users))

    @made_once
    def item_popularity(self) -> NDArray[np.int64]:
        """The number of users of each item."""
        return np.bincount(self.user_items.indices, minlength=len(self.items))

    @made_once
    def item_ranks(self) -> NDArray[np.int32]:
        """As `ranks`, for items."""
        return _places(self.item_popularity)

    @made_once
    def sentiment_source(self) -> str | None:
        """Where sentiment comes from: polarity (as the source has it), ratings, words, "ratings and words"; or None."""
        from whyrank.data.sentiment import sources_of

        return "polarity" if self.polarity is not None else sources_of(self._phrases, self.mean_rating)

    @made_once
    def sentiment(self) -> NDArray[np.float32]:
        """From -1 to 1 per explanation: as its source has it, otherwise from ratings and words; 0 if unknown."""
        from whyrank.data.sentiment import sentiment_of

        if self.polarity is not None:
            return self.polarity.astype(np.float32)
        return sentiment_of(self._phrases, self.mean_rating, self.popularity, self.rating_range)

    @property
    def _phrases(self) -> pl.Series | None:
        """Texts whose words may praise or blame; an id is not a sentence."""
        return None if self.are_tags else self.texts

    @made_once
    def signs(self) -> NDArray[np.int8]:
        """-1, 0 or 1 per explanation: whether it speaks against an item or for it."""
        return np.sign(self.sentiment).astype(np.int8)

    @made_once
    def favourable(self) -> NDArray[np.bool_] | None:
        """Explanations that do not speak against an item; None: none does."""
        return self.signs >= 0 if (self.signs < 0).any() else None

    @made_once
    def unfavourable(self) -> NDArray[np.bool_]:
        """Explanations that speak against an item."""
        return self.signs < 0

    @made_once
    def general(self) -> NDArray[np.bool_] | None:
        """Explanations that praise or blame an aspect without saying why, such as great food; None: none does."""
        if self.senses is None:
            return None
        found = (self.aspect >= 0) & self.senses.is_in(GENERAL).fill_null(False).to_numpy()
        return found if found.any() else None

    @made_once
    def position(self) -> NDArray[np.int32]:
        """What each explanation says, whatever its words, as `people.opposing` counts it; -1 where unknown."""
        sign = np.zeros(len(self.aspect), np.int8) if self.polarity is None else self.polarity
        return _positions(self.aspects, self.aspect, sign, self.senses, self.opposite_senses).of

    @made_once
    def details(self) -> Details:
        """Find what people say most about the aspect of plain praise or blame."""
        if self.general is None:
            return Details(np.empty(0, np.int32), np.empty(0, np.int32))
        said, supporting = self.item_explanations, self.people.supporting
        explanation, plain = said.indices, self.general[said.indices]
        about = said.rows_of_entries().astype(np.int64) * (len(self.aspects) + 1) + self.aspect[explanation] + 1
        about = about * 3 + self.signs[explanation] + 1
        order = np.lexsort((self.ranks[explanation], -supporting, plain, about))
        _, place = np.unique(about[order], return_index=True)
        first = np.empty(len(order), np.int64)  # the most frequent of the same item, aspect and sign that is not plain
        first[order] = order[np.repeat(place, np.diff(np.append(place, len(order))))]
        enough = supporting[first] >= np.maximum(2, DETAIL * supporting)
        enough &= supporting[first] <= supporting  # "praised by 14 people; 21 call them" is no detail of it
        fit = plain & ~plain[first] & enough
        return Details(np.where(fit, explanation[first], -1).astype(np.int32), np.where(fit, supporting[first], 0))

    @made_once
    def opposing(self) -> NDArray[np.int32]:
        """For each entry of item x explanation how many people say the opposite of it about the item."""
        said, there = self.item_explanations, self.people.opposing
        item, position = said.rows_of_entries(), self.position[said.indices]
        known = position >= 0
        known[known] = there.holds(item[known], position[known])
        counts = np.zeros(len(position), np.int32)
        counts[known] = there.counts[places(there, item[known], position[known], len(self.explanations))]
        return counts

    @made_once
    def standing(self) -> NDArray[np.float32]:
        """Where each entry of item x explanation stands among the items, from 0: its people say it most often.

        The share of an item's people who say it is steadied towards that of all items. Only items that enough people
        speak about are compared; others are first, and so are all where aspects are unknown or items are few.
        """
        said, people = self.item_explanations, self.item_popularity
        known = people >= SPOKEN_OF
        standing = np.zeros(len(said.indices), np.float32)
        if not len(self.aspects) or known.sum() < COMPARED:
            return standing
        item = said.rows_of_entries()
        entries = np.flatnonzero(known[item])
        said_by, base = self.people.supporting[entries], self.popularity / max(int(people.sum()), 1)
        explanation = said.indices[entries]
        share = (said_by + STEADY * base[explanation]) / (people[item[entries]] + STEADY)
        order = np.lexsort((entries, -share, explanation))
        first = np.searchsorted(explanation[order], explanation[order])
        fresh = np.ones(len(order), np.bool_)  # equal shares stand where the last of them stands
        fresh[:-1] = (np.diff(explanation[order]) != 0) | (np.diff(share[order]) != 0)
        last = np.flatnonzero(fresh)
        place = last[np.searchsorted(last, np.arange(len(order)))]
        standing[entries[order]] = (place - first) / known.sum()
        return standing

    @made_once
    def worth_added(self) -> NDArray[np.float32]:
        """What worth adds to the score of each entry of item x explanation, -inf: never shown; empty: nothing."""
        worth = self.people.worth
        if not len(worth) or (not self.worth_weight and not (worth <= 0).any()):
            return np.empty(0, np.float32)
        with np.errstate(divide="ignore"):
            added = np.float32(self.worth_weight) * np.log(worth) if self.worth_weight else np.zeros_like(worth)
        added[np.isnan(worth)] = 0  # unknown: neither more nor less
        added[worth <= 0] = -np.inf
        return added

    @made_once
    def ids_listed(self) -> list[str]:
        """The explanations' ids, quicker one by one than from a column."""
        return self.explanations.ids.to_list()

    @made_once
    def texts_listed(self) -> list[str]:
        """The explanations' texts, quicker one by one than from a column."""
        return self.ids_listed if self.texts is None else self.texts.to_list()

    @made_once
    def are_tags(self) -> bool:
        """Whether explanations have no texts but their ids, as tags and ticked boxes have."""
        return self.texts is None or self.texts.equals(self.explanations.ids)

    @made_once
    def aspects_listed(self) -> list[str | None]:
        """The names of aspects; the last one, of number -1, is None."""
        return [*self.aspects.ids.to_list(), None]

    @made_once
    def shown(self) -> list[tuple[str, str, str | None, int]]:
        """What is shown of each explanation wherever it stands: id, text, aspect and sign."""
        aspects = [self.aspects_listed[number] for number in self.aspect.tolist()]
        return list(zip(self.ids_listed, self.texts_listed, aspects, self.signs.tolist(), strict=True))

    def table(self) -> pl.DataFrame:
        """One row per explanation: id, text, popularity, sentiment, aspect."""
        return pl.DataFrame(
            {
                "id": self.explanations.ids,
                "text": self.text_of(np.arange(len(self.explanations))),
                "popularity": self.popularity,
                "sentiment": self.sentiment,
                "aspect": self._aspect_names(),
            }
        )

    def _aspect_names(self) -> pl.Series:
        """The name of each explanation's aspect."""
        names = pl.Series(self.aspects_listed, dtype=pl.String)
        return names.gather(self.aspect % len(names)).alias("aspect")

    def grown(self, new: Triplets, *, explanations: bool = False) -> Catalog:
        """This catalog with further triplets; known ids keep their numbers, new ones come behind.

        New explanations are taken in only when asked for; otherwise they raise UnknownId. Nothing counts twice.
        """
        new = self._uncounted(new)
        users, items = self.users.grown(new.users.ids), self.items.grown(new.items.ids)
        pool = self.explanations.grown(new.explanations.ids) if explanations else self.explanations
        user, item = users.numbers(new.users.ids)[new.user], items.numbers(new.items.ids)[new.item]
        said = pool.numbers(new.explanations.ids)[new.explanation]
        seen = (users.numbers(new.users.ids)[new.record_user], items.numbers(new.items.ids)[new.record_item])
        fresh_pair = ~self.knows(*self.numbers_of(new))
        popularity = np.bincount(said, minlength=len(pool))
        before = np.zeros(len(pool))
        before[: len(self.popularity)] = self.popularity
        fresh = _mean_ratings(new)
        rating = np.full(len(pool), np.nan, np.float32)
        rating[: len(self.mean_rating)] = self.mean_rating
        moved = pool.numbers(new.explanations.ids)
        old, weight = rating[moved], before[moved]
        total = np.where(np.isnan(old), 0, old * weight) + np.where(np.isnan(fresh), 0, fresh * new.popularity)
        count = np.where(np.isnan(old), 0, weight) + np.where(np.isnan(fresh), 0, new.popularity)
        rating[moved] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        item_explanations = _merged(self.item_explanations, item, said, len(items), len(pool))
        aspects, aspect, polarity = self._grown_aspects(new, pool)
        senses, opposites = (
            self._grown_names(*columns, new, pool)
            for columns in ((self.senses, new.senses), (self.opposite_senses, new.opposites))
        )
        sign = np.zeros(len(pool), np.int8) if polarity is None else polarity
        found = _positions(aspects, aspect, sign, senses, opposites)
        told = Said.of(new, (user, item, said), aspect, sign, found.of)
        known_pair = ~fresh_pair[new.record_explanations.rows_of_entries()]
        nothing = np.int32(-1)  # people who were counted before may say the same of an aspect, or the opposite
        told = told._replace(
            aspect=np.where(known_pair, nothing, told.aspect), position=np.where(known_pair, nothing, told.position)
        )
        added = CSR.from_pairs(told.item, told.explanation, len(items), len(pool))
        people = People.of(told, added, found.opposites, len(users), len(aspects))
        return Catalog(
            users=users,
            items=items,
            explanations=pool,
            texts=self._grown_texts(new, pool),
            popularity=before.astype(np.int64) + popularity,
            mean_rating=rating,
            user_explanations=_merged(self.user_explanations, user, said, len(users), len(pool)),
            item_explanations=item_explanations,
            user_items=_merged(self.user_items, seen[0][fresh_pair], seen[1][fresh_pair], len(users), len(items)),
            aspects=aspects,
            aspect=aspect,
            polarity=polarity,
            senses=senses,
            opposite_senses=opposites,
            people=self.people.grown(
                *(people, self.item_explanations, added, item_explanations, len(users), found, len(self.explanations))
            ),
            rating_range=self.rating_range,
            worth_weight=self.worth_weight,
        )

    def with_explanations(self, ids: list[str], texts: list[str]) -> Catalog:
        """This catalog with further explanations that nobody has said yet."""
        known_texts, new = self.texts, len(ids)
        if known_texts is None and texts != ids:
            known_texts = self.explanations.ids
        return replace(
            self,
            explanations=self.explanations.grown(ids),
            texts=None
            if known_texts is None
            else pl.concat([known_texts, pl.Series(known_texts.name, texts, pl.String)]),
            popularity=np.pad(self.popularity, (0, new)),
            mean_rating=np.pad(self.mean_rating, (0, new), constant_values=np.nan),
            aspect=np.pad(self.aspect, (0, new), constant_values=-1),
            polarity=None if self.polarity is None else np.pad(self.polarity, (0, new)),
            senses=_padded(self.senses, new),
            opposite_senses=_padded(self.opposite_senses, new),
        )

    def _uncounted(self, new: Triplets) -> Triplets:
        """Those of further triplets that this catalog has not counted.

        Of a pair that it knows they are those that the user or the item has not had yet: a catalog does not remember
        what was said about a pair, so the rest has been counted or cannot be told from what has been.
        """
        user, item = self.numbers_of(new)
        explanation = self.explanations.numbers(new.explanations.ids, missing="negative")[new.explanation]
        record = new.record_explanations.rows_of_entries()
        known = self.knows(user, item)[record] & (explanation >= 0)
        for relation, rows in ((self.user_explanations, user), (self.item_explanations, item)):
            known[known] = relation.holds(rows[record[known]], explanation[known])
        return new.without(known)

    def numbers_of(self, new: Triplets) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The user and the item of every record; -1 for what is unknown."""
        user = self.users.numbers(new.users.ids, missing="negative")[new.record_user]
        return user, self.items.numbers(new.items.ids, missing="negative")[new.record_item]

    def knows(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which pairs of numbers, -1 for what is unknown, this catalog has a record of."""
        known = (users >= 0) & (items >= 0)
        known[known] = self.user_items.holds(users[known], items[known])
        return known

    def _grown_aspects(
        self, new: Triplets, pool: Vocabulary
    ) -> tuple[Vocabulary, NDArray[np.int32], NDArray[np.int8] | None]:
        """Aspects and polarity of a grown pool: known explanations keep theirs, new ones bring theirs."""
        added = new.explanations.numbers(pool.ids[len(self.explanations) :])
        names = pl.repeat(None, len(added), dtype=pl.String, eager=True)
        if new.aspects is not None:
            names = new.aspects.gather(added)
        aspects = self.aspects.grown(names.drop_nulls())
        aspect = np.concatenate([self.aspect, aspects.numbers(names, missing="negative")])
        if self.polarity is None and (new.polarity is None or not len(added)):
            return aspects, aspect, None
        old = np.zeros(len(self.explanations), np.int8) if self.polarity is None else self.polarity
        fresh = np.zeros(len(added), np.int8) if new.polarity is None else new.polarity[added]
        return aspects, aspect, np.concatenate([old, fresh])

    def _grown_names(
        self, old: pl.Series | None, fresh: pl.Series | None, new: Triplets, pool: Vocabulary
    ) -> pl.Series | None:
        """A column of names of a grown pool: known explanations keep theirs, new ones bring theirs."""
        added = new.explanations.numbers(pool.ids[len(self.explanations) :])
        if old is None and (fresh is None or not len(added)):
            return None
        nothing = pl.Series([], dtype=pl.String)
        before = nothing.extend_constant(None, len(self.explanations)) if old is None else old
        more = nothing.extend_constant(None, len(added)) if fresh is None else fresh.gather(added)
        return pl.concat([before.rename(""), more.rename("")])

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
        if self.worth_weight:
            arrays["worth_weight"] = np.array([self.worth_weight], np.float64)
        for name in RELATIONS:
            for part, array in getattr(self, name)._asdict().items():
                arrays[f"{name}.{part}"] = array
        people = self.people.arrays(self.item_explanations)
        return arrays | {f"people.{name}": array for name, array in people.items()}

    def tables(self) -> dict[str, pl.DataFrame]:
        """Everything textual, by name, for an artifact."""
        explanations = {"id": self.explanations.ids}
        if self.texts is not None:
            explanations["text"] = self.texts
        if len(self.aspects):
            explanations["aspect"] = self._aspect_names()
        if self.polarity is not None:
            explanations["polarity"] = pl.Series(self.polarity, dtype=pl.Int8)
        names = {"sense": self.senses, "opposite": self.opposite_senses}
        explanations |= {name: values for name, values in names.items() if values is not None}
        tables = {
            "users": pl.DataFrame({"id": self.users.ids}),
            "items": pl.DataFrame({"id": self.items.ids}),
            "explanations": pl.DataFrame(explanations),
        }
        if len(self.aspects):
            tables["aspects"] = pl.DataFrame({"id": self.aspects.ids})
        if len(self.people.quotes):
            tables["quotes"] = self.people.quotes
        return tables

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[np.generic]], tables: Mapping[str, pl.DataFrame]) -> Catalog:
        """The catalog behind `arrays()` and `tables()`; models of version 0.1 know nothing of aspects and people."""
        users, items, explanations = (_vocabulary(tables[name], name) for name in ("users", "items", "explanations"))
        sizes = {"user": len(users), "item": len(items), "explanation": len(explanations)}
        pool = tables["explanations"]
        relations = {}
        for name in RELATIONS:
            row, column = name.removesuffix("s").split("_")
            relations[name] = checked_csr(arrays, name, sizes[row], sizes[column])
        if ("aspect" in pool.columns) != ("aspects" in tables):
            raise ValueError("aspects are not whole")
        names = _column(tables["aspects"], "id") if "aspects" in tables else None
        aspects, aspect = _aspects(pool["aspect"] if "aspect" in pool.columns else None, len(pool), names)
        of_people = {n.removeprefix("people."): a for n, a in arrays.items() if n.startswith("people.")}
        said = relations["item_explanations"]
        return cls(
            users=users,
            items=items,
            explanations=explanations,
            texts=_column(pool, "text") if "text" in pool.columns else None,
            popularity=checked_array(arrays, "popularity", np.int64, len(explanations)),
            mean_rating=checked_array(arrays, "mean_rating", np.float32, len(explanations)),
            rating_range=_scale(arrays),
            worth_weight=_weight(arrays),
            aspects=aspects,
            aspect=aspect,
            polarity=_signs(pool["polarity"]) if "polarity" in pool.columns else None,
            senses=_names(pool, "sense"),
            opposite_senses=_names(pool, "opposite"),
            people=People.restore(said, len(users), len(explanations), len(aspects), of_people, tables.get("quotes")),
            **relations,
        )


def _aspects(
    names: pl.Series | None, explanations: int, known: pl.Series | None = None
) -> tuple[Vocabulary, NDArray[np.int32]]:
    """The aspects that there are, and which one each explanation has; `known` are the aspects in their order."""
    if names is None:
        return Vocabulary(pl.Series("aspect", [], pl.String), "aspect"), np.full(explanations, -1, np.int32)
    if known is None:
        aspects = Vocabulary.of(names.drop_nulls(), "aspect")
    elif names.dtype != pl.String or known.n_unique() < len(known):
        raise ValueError("aspects are not as whyrank writes them")
    else:
        aspects = Vocabulary(known, "aspect")
    return aspects, aspects.numbers(names, missing="negative")


def _positions(
    aspects: Vocabulary,
    aspect: NDArray[np.int32],
    sign: NDArray[np.int8],
    senses: pl.Series | None,
    opposites: pl.Series | None,
) -> Positions:
    if not len(aspects):
        return Positions.none(len(aspect))
    names = pl.Series([*aspects.ids, None], dtype=pl.String).gather(aspect % (len(aspects) + 1))
    return positions(names, sign, senses, opposites)


def _padded(names: pl.Series | None, more: int) -> pl.Series | None:
    """A column of names with so many more rows, null where nothing is known."""
    return None if names is None else names.extend_constant(None, more)


def _names(table: pl.DataFrame, name: str) -> pl.Series | None:
    """A saved column of names, which may be null."""
    if name not in table.columns:
        return None
    if table[name].dtype != pl.String:
        raise ValueError(f"{name} is not a column of texts")
    return table[name]


def _signs(polarity: pl.Series) -> NDArray[np.int8]:
    if polarity.dtype != pl.Int8 or polarity.null_count() or not polarity.is_between(-1, 1).all():
        raise ValueError("polarity is not a column of -1, 0 and 1")
    return polarity.to_numpy()


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


def _scale(arrays: Mapping[str, NDArray[np.generic]]) -> Range | None:
    """The named scale of ratings; models know none that were saved without one."""
    if "rating_range" not in arrays:
        return None
    low, high = checked_array(arrays, "rating_range", np.float64, 2).tolist()
    if not -np.inf < low < high < np.inf:
        raise ValueError("rating_range is not a range")
    return low, high


def _weight(arrays: Mapping[str, NDArray[np.generic]]) -> float:
    """The weight of worth; 0 where none was chosen."""
    if "worth_weight" not in arrays:
        return 0.0
    weight = float(checked_array(arrays, "worth_weight", np.float64, 1)[0])
    if not 0 <= weight <= LARGEST_WEIGHT:
        raise ValueError("worth_weight is out of range")
    return weight


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
