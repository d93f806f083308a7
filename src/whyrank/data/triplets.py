"""Triplets: who said what of which item, interned once and looked up from every side."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from whyrank.data.columns import number_column, polarity_column, record_column, seconds, text_column, worth_column
from whyrank.data.csr import CSR
from whyrank.data.ratings import ANY, Range, checked_range, on_scale
from whyrank.data.tables import as_table
from whyrank.data.vocabulary import Vocabulary
from whyrank.errors import DataError

# What is known beside who said what: the attributes of Triplets, and their columns in tables.
OF_EXPLANATIONS = {"texts": "text", "aspects": "aspect", "polarity": "polarity"}
OF_EXPLANATIONS |= {"senses": "sense", "opposites": "opposite"}
OF_RECORDS = {"rating": "rating", "time": "time", "copy_group": "copy_group"}
OF_TRIPLETS = {"sentences": "sentence", "sources": "source", "worth": "worth"}
Known = pl.Series | NDArray[Any] | None

if TYPE_CHECKING:
    from whyrank.data.split import Shares, Split


@dataclass(frozen=True, eq=False, repr=False)
class Triplets:
    """An immutable set of records, each a (user, item) pair with its set of explanations.

    Read it with `whyrank.read`, mine it with `whyrank.mine`, or make it from a table:

    Examples:
        >>> frame = pl.DataFrame({"user": ["ann", "ann"], "item": ["inn", "inn"], "explanation": ["quiet", "clean"]})
        >>> Triplets.from_frame(frame)
        Triplets(1 user, 1 item, 2 explanations, 1 record, 2 triplets)
    """

    users: Vocabulary
    items: Vocabulary
    explanations: Vocabulary
    record_user: NDArray[np.int32]
    record_item: NDArray[np.int32]
    record_explanations: CSR
    texts: pl.Series | None = None  # one per explanation; None: the id is the text
    rating: NDArray[np.float32] | None = None  # one per record, NaN where unknown
    time: NDArray[np.int64] | None = None  # one per record, seconds since 1970 (or the source's own integers)
    sentences: pl.Series | None = None  # one per triplet: the words the user wrote, where mined
    aspects: pl.Series | None = None  # one per explanation: what it is about, null where unknown
    polarity: NDArray[np.int8] | None = None  # one per explanation: -1 blames, 0 is neutral or unknown, 1 praises
    senses: pl.Series | None = None  # one per explanation: what it says about its aspect, null where unknown
    opposites: pl.Series | None = None  # one per explanation: the sense that says the opposite, null if there is none
    sources: pl.Series | None = None  # one per triplet: the review that the sentence is from, null where unknown
    worth: NDArray[np.float32] | None = None  # one per triplet: of its reason for its item, NaN where unknown
    copy_group: pl.Series | None = None  # one per record: what records with copies of one text share, null where alone
    rating_range: Range | None = None  # the scale of ratings, where it was named; otherwise it is recognised from them

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        texts: pl.DataFrame | None = None,
        record: str | None = None,
        rating_range: Range | None = None,
    ) -> Triplets:
        """Intern a table of triplets: columns user, item, explanation; optional rating, time, text, aspect,
        polarity (-1, 0 or 1), sense, opposite (the sense that says the opposite), sentence, source, worth (of an
        explanation as a reason for an item: 0 is never shown), copy_group (records whose texts are copies of each other
        share one).

        The table is one of polars, or what polars makes one of: columns by name, rows, a table of pandas or Arrow.

        Records come out sorted by (user, item), so the order of the rows does not matter. A repeated triplet counts
        once. `texts` maps ids to texts (columns explanation, text) when the table itself has no text column. `record`
        names a column of integers that says which rows make a record and in which order records stand; without it a
        record is a (user, item) pair. Ratings outside of `rating_range`, which is recognised from the ratings
        unless given, are taken as unknown, with a warning.
        """
        frame, rating_range = as_table(frame), checked_range(rating_range)
        strings = id_columns(frame)
        users, items, explanations = (Vocabulary.of(series, series.name) for series in strings)
        user, item, explanation = (
            vocabulary.intern(series) for vocabulary, series in zip((users, items, explanations), strings, strict=True)
        )
        sizes = len(items), len(explanations)
        records, rows = group_records(user, item, explanation, *sizes, frame, record, rating_range)
        return cls(
            users=users,
            items=items,
            explanations=explanations,
            record_user=records.user,
            record_item=records.item,
            record_explanations=records.explanations,
            texts=_texts(frame, texts, explanations),
            rating=records.rating,
            time=records.time,
            sentences=text_column(frame, "sentence").gather(rows) if "sentence" in frame.columns else None,
            aspects=_names(frame, "aspect", explanations),
            polarity=_polarity(frame, explanations),
            senses=_names(frame, "sense", explanations),
            opposites=_names(frame, "opposite", explanations),
            sources=text_column(frame, "source").gather(rows) if "source" in frame.columns else None,
            worth=worth_column(frame)[rows] if "worth" in frame.columns else None,
            copy_group=_copy_groups(frame, rows[records.explanations.indptr[:-1]]),
            rating_range=rating_range,
        )

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of triplets."""
        return len(self.record_explanations.indices)

    @property
    def records(self) -> int:
        """The number of records."""
        return len(self.record_user)

    def __repr__(self) -> str:
        sizes = (
            (len(self.users), "user"),
            (len(self.items), "item"),
            (len(self.explanations), "explanation"),
            (self.records, "record"),
            (len(self), "triplet"),
        )
        return f"Triplets({', '.join(f'{count:,} {name}' + 's' * (count != 1) for count, name in sizes)})"

    # -- per triplet, record by record ---------------------------------------------------------------------------------

    @cached_property
    def user(self) -> NDArray[np.int32]:
        return np.repeat(self.record_user, self.record_explanations.sizes())

    @cached_property
    def item(self) -> NDArray[np.int32]:
        return np.repeat(self.record_item, self.record_explanations.sizes())

    @property
    def explanation(self) -> NDArray[np.int32]:
        return self.record_explanations.indices

    # -- views, built on first use -------------------------------------------------------------------------------------

    @cached_property
    def user_explanations(self) -> CSR:
        """E_u, with the number of records of the user that hold the explanation."""
        return CSR.from_pairs(self.user, self.explanation, len(self.users), len(self.explanations))

    @cached_property
    def item_explanations(self) -> CSR:
        """E_i, with the number of records of the item that hold the explanation."""
        return CSR.from_pairs(self.item, self.explanation, len(self.items), len(self.explanations))

    @cached_property
    def user_items(self) -> CSR:
        """I_u."""
        return CSR.from_pairs(self.record_user, self.record_item, len(self.users), len(self.items))

    @cached_property
    def item_users(self) -> CSR:
        """U_i."""
        return CSR.from_pairs(self.record_item, self.record_user, len(self.items), len(self.users))

    @property
    def user_holders(self) -> NDArray[np.int64]:
        """By how many users each explanation is said."""
        return np.bincount(self.user_explanations.indices, minlength=len(self.explanations))

    @property
    def item_holders(self) -> NDArray[np.int64]:
        """Of how many items each explanation is said."""
        return np.bincount(self.item_explanations.indices, minlength=len(self.explanations))

    @cached_property
    def popularity(self) -> NDArray[np.int64]:
        """The number of triplets of each explanation."""
        return np.bincount(self.explanation, minlength=len(self.explanations))

    def text_of(self, explanations: NDArray[np.integer]) -> pl.Series:
        """The texts of explanations given by number."""
        return (self.explanations.ids if self.texts is None else self.texts).gather(explanations)

    # -- other triplets ------------------------------------------------------------------------------------------------

    def take(self, records: NDArray[np.integer]) -> Triplets:
        """The given records, in the given order, under the same vocabularies."""
        some = any(getattr(self, name) is not None for name in OF_TRIPLETS)
        return replace(
            self,
            record_user=self.record_user[records],
            record_item=self.record_item[records],
            record_explanations=self.record_explanations.take(records),
            **self._known(OF_RECORDS, records),
            **self._known(OF_TRIPLETS, self._entries(records) if some else records),
        )

    def joined(self, other: Triplets) -> Triplets:
        """These records and those of `other`, which has the same vocabularies, by user and item.

        What only one of them has (ratings, times, sentences, sources, worth) is unknown for the records of the other.
        """
        if not other.records:
            return self
        first, second, sizes = self.record_explanations, other.record_explanations, (self.records, other.records)
        said = CSR(
            np.concatenate([first.indptr, second.indptr[1:] + first.indptr[-1]]),
            np.concatenate([first.indices, second.indices]),
            np.concatenate([first.counts, second.counts]),
        )
        whole = replace(
            self,
            record_user=np.concatenate([self.record_user, other.record_user]),
            record_item=np.concatenate([self.record_item, other.record_item]),
            record_explanations=said,
            **{name: _after(getattr(self, name), getattr(other, name), *sizes) for name in OF_RECORDS},
            **{name: _after(getattr(self, name), getattr(other, name), len(self), len(other)) for name in OF_TRIPLETS},
        )
        return whole.take(np.lexsort((whole.record_item, whole.record_user)))

    def without(self, triplets: NDArray[np.bool_]) -> Triplets:
        """All but the marked triplets; records of which nothing is left go, too."""
        left = ~triplets
        records, place = np.unique(self.record_explanations.rows_of_entries()[left], return_inverse=True)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(records)))])
        said = CSR(indptr, self.explanation[left], self.record_explanations.counts[left])
        return replace(self.take(records), record_explanations=said, **self._known(OF_TRIPLETS, np.flatnonzero(left)))

    def renumbered(self, like: Triplets) -> Triplets:
        """The same records under the vocabularies of `like`; what is unknown there is left out."""
        pairs = ((self.users, like.users), (self.items, like.items), (self.explanations, like.explanations))
        if all(own is known for own, known in pairs):
            return self
        users, items, pool = (known.numbers(own.ids, missing="negative") for own, known in pairs)
        left = self.without((users[self.user] < 0) | (items[self.item] < 0) | (pool[self.explanation] < 0))
        record, said = left.record_explanations.rows_of_entries(), pool[left.explanation]
        order = np.lexsort((said, record))
        return replace(
            left,
            users=like.users,
            items=like.items,
            explanations=like.explanations,
            record_user=users[left.record_user],
            record_item=items[left.record_item],
            record_explanations=CSR.from_pairs(record, said, left.records, len(like.explanations)),
            **{name: getattr(like, name) for name in OF_EXPLANATIONS},
            **left._known(OF_TRIPLETS, order),
        )

    def filtered(
        self, *, user_pairs: int = 1, item_pairs: int = 1, explanation_uses: int = 1, rounds: int = 1000
    ) -> Triplets:
        """Only users and items with enough pairs and explanations used often enough, repeated until stable."""
        frame = self.frame()
        for _ in range(rounds):
            before = len(frame)
            pairs = frame.select("user", "item").unique()
            enough = {
                "user": pairs.group_by("user").len().filter(pl.col("len") >= user_pairs),
                "item": pairs.group_by("item").len().filter(pl.col("len") >= item_pairs),
                "explanation": frame.group_by("explanation").len().filter(pl.col("len") >= explanation_uses),
            }
            for name, kept in enough.items():
                frame = frame.join(kept.select(name), on=name, how="semi")
            if len(frame) == before:
                break
        if not len(frame):
            raise DataError("nothing is left after filtering", expected="lower thresholds")
        return replace(Triplets.from_frame(frame, rating_range=ANY), rating_range=self.rating_range)

    def frame(self, *, record: bool = False) -> pl.DataFrame:
        """The triplets as a table with external ids; with `record`, the number of each row's record comes first."""
        records = self.record_explanations.rows_of_entries()
        known = self._known(OF_EXPLANATIONS, self.explanation) | self._known(OF_RECORDS, records)
        known |= self._known(OF_TRIPLETS, np.arange(len(self)))
        columns = {"record": pl.Series(records)} if record else {}
        columns |= {
            "user": self.users.terms(self.user),
            "item": self.items.terms(self.item),
            "explanation": self.explanations.terms(self.explanation),
        }
        for name, column in (OF_EXPLANATIONS | OF_RECORDS | OF_TRIPLETS).items():
            if known[name] is not None:
                columns[column] = pl.Series(known[name])
        return pl.DataFrame(columns).with_columns(cs.float().fill_nan(None))

    def _known(self, names: Iterable[str], numbers: NDArray[np.integer]) -> dict[str, Any]:
        """Return what is known of explanations, records or triplets, at the given places."""
        columns: dict[str, Known] = {name: getattr(self, name) for name in names}
        return {name: None if column is None else column[numbers] for name, column in columns.items()}

    def split(self, seed: int = 0, **shares: Unpack[Shares]) -> Split:
        """The paper's protocol: see `whyrank.data.split.split_records` for the shares."""
        from whyrank.data.split import split_records

        return split_records(self, seed=seed, **shares)

    def write(self, path: str | Path) -> Path:
        """Write to a file or folder; the form follows the name (see `whyrank.data.write`)."""
        from whyrank.data.files import write

        return write(self, path)

    def digest(self) -> str:
        """SHA-256 of everything the triplets hold; equal data has an equal digest."""
        hasher = hashlib.sha256()
        for vocabulary in (self.users, self.items, self.explanations):
            hasher.update(vocabulary.digest().encode())
        arrays = (self.record_user, self.record_item, *self.record_explanations[:2], self.rating, self.time)
        for array in arrays:
            hasher.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        hasher.update(b"-" if self.texts is None else Vocabulary(self.texts).digest().encode())
        if self.rating_range is not None:
            hasher.update(f"{self.rating_range}".encode())
        if self.aspects is not None:  # data without them keep the digest that earlier versions gave them
            hasher.update(b"aspects" + Vocabulary(self.aspects.fill_null("")).digest().encode())
        if self.polarity is not None:
            hasher.update(b"polarity" + self.polarity.tobytes())
        for name, values in (("senses", self.senses), ("opposites", self.opposites)):
            if values is not None:
                hasher.update(name.encode() + Vocabulary(values.fill_null("")).digest().encode())
        if self.worth is not None:
            hasher.update(b"worth" + self.worth.tobytes())
        if self.copy_group is not None:
            hasher.update(b"copies" + Vocabulary(self.copy_group.fill_null("")).digest().encode())
        return hasher.hexdigest()

    def _entries(self, records: NDArray[np.integer]) -> NDArray[np.int64]:
        """The places of the records' triplets among all triplets."""
        places = CSR(
            self.record_explanations.indptr,
            np.arange(len(self), dtype=np.int32),
            np.empty(len(self), np.int32),
        )
        return places.take(records).indices.astype(np.int64)


def _after(one: Known, other: Known, size: int, other_size: int) -> Any:
    """Put a column after another one; unknown values stand for one that is not there. None: neither is."""
    known = one if other is None else other
    if known is None:
        return None
    counts = ((one, size), (other, other_size))
    if isinstance(known, pl.Series):
        nothing = pl.Series([None], dtype=known.dtype)
        return pl.concat([nothing.new_from_index(0, n) if each is None else pl.Series("", each) for each, n in counts])
    gap = np.zeros(1, known.dtype) if known.dtype.kind == "i" else np.full(1, np.nan, known.dtype)
    return np.concatenate([np.repeat(gap, n) if each is None else each for each, n in counts])


class Records(NamedTuple):
    """Records in order, by number."""

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    explanations: CSR
    rating: NDArray[np.float32] | None
    time: NDArray[np.int64] | None


def group_records(
    user: NDArray[np.int32],
    item: NDArray[np.int32],
    explanation: NDArray[np.int32],
    items: int,
    explanations: int,
    frame: pl.DataFrame,
    record: str | None = None,
    rating_range: Range | None = None,
) -> tuple[Records, NDArray[np.int64]]:
    """Rows of numbers as records, and the row that each triplet is from; `frame` may have rating and time."""
    pair = user.astype(np.int64) * items + item if record is None else record_column(frame, record)
    order = _order(pair, explanation, explanations)
    user, item, explanation, pair = user[order], item[order], explanation[order], pair[order]
    new_pair = _changes(pair)
    if record is not None:
        _check_records(frame, record, order, new_pair[1:] | ~(_changes(user) | _changes(item))[1:])
    kept = new_pair | _changes(explanation)
    starts = np.flatnonzero(new_pair)
    counts = np.diff(np.append(np.flatnonzero(kept), len(order))).astype(np.int32)
    indptr = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(np.add.reduceat(kept, starts, dtype=np.int64), out=indptr[1:])
    rating, time = _ratings(frame, order, starts, rating_range), _times(frame, order, starts)
    return Records(user[starts], item[starts], CSR(indptr, explanation[kept], counts), rating, time), order[kept]


def id_columns(frame: pl.DataFrame) -> list[pl.Series]:
    """The three id columns as strings, none missing or empty."""
    columns = []
    for name in ("user", "item", "explanation"):
        if name not in frame.columns:
            raise DataError("missing column", column=name, expected="columns user, item and explanation")
        series = text_column(frame, name)
        empty = series.is_null() | (series == "")
        if empty.any():
            raise DataError("empty id", row=int(empty.arg_true()[0]) + 1, column=name, expected="a non-empty id")
        columns.append(series)
    if not len(frame):
        raise DataError("no triplets", expected="at least one row")
    return columns


def _order(pair: NDArray[np.int64], explanation: NDArray[np.int32], explanations: int) -> NDArray[np.int64]:
    """The stable order by pair, then explanation; one sort of one key where the key fits 63 bits."""
    if int(pair.max(initial=0)) < (1 << 62) // max(explanations, 1) and int(pair.min(initial=0)) >= 0:
        return np.argsort(pair * explanations + explanation, kind="stable")
    return np.lexsort((explanation, pair))


def _changes(sorted_numbers: NDArray[np.integer]) -> NDArray[np.bool_]:
    return np.concatenate([[True], sorted_numbers[1:] != sorted_numbers[:-1]])


def _texts(frame: pl.DataFrame, texts: pl.DataFrame | None, explanations: Vocabulary) -> pl.Series | None:
    """One text per explanation: from the table's own text column, or from a table of texts; the first one wins."""
    if texts is None:
        if "text" not in frame.columns:
            return None
        texts = frame.select("explanation", "text")
    known = texts.select(text_column(texts, "explanation"), text_column(texts, "text")).drop_nulls()
    known = known.unique("explanation", keep="first", maintain_order=True)
    ids = pl.DataFrame({"explanation": explanations.ids})
    joined = ids.join(known, on="explanation", how="left", maintain_order="left")
    return joined.select(pl.coalesce("text", "explanation").alias("text"))["text"]


def _names(frame: pl.DataFrame, column: str, explanations: Vocabulary) -> pl.Series | None:
    """One aspect or sense per explanation, null where none is given; None: none is given at all."""
    if column not in frame.columns:
        return None
    return _of_explanations(frame, text_column(frame, column).replace("", None), explanations)


def _copy_groups(frame: pl.DataFrame, rows: NDArray[np.int64]) -> pl.Series | None:
    """The group of each record, by its first row; None: none is given."""
    if "copy_group" not in frame.columns:
        return None
    return text_column(frame, "copy_group").gather(rows).replace("", None)


def _polarity(frame: pl.DataFrame, explanations: Vocabulary) -> NDArray[np.int8] | None:
    """One sign per explanation, 0 where none is given; None: none is given at all."""
    if "polarity" not in frame.columns:
        return None
    signs = _of_explanations(frame, polarity_column(frame), explanations)
    return None if signs is None else signs.fill_null(0).to_numpy()


def _of_explanations(frame: pl.DataFrame, values: pl.Series, explanations: Vocabulary) -> pl.Series | None:
    """What rows say about their explanation, one for each: the first one wins, null where there is none."""
    known = pl.DataFrame([text_column(frame, "explanation"), values]).drop_nulls()
    if not len(known):
        return None
    known = known.unique("explanation", keep="first", maintain_order=True)
    ids = pl.DataFrame({"explanation": explanations.ids})
    return ids.join(known, on="explanation", how="left", maintain_order="left")[values.name]


def _ratings(
    frame: pl.DataFrame, order: NDArray[np.int64], starts: NDArray[np.int64], named: Range | None
) -> NDArray[np.float32] | None:
    """The mean rating over the rows of each record, NaN where all are missing."""
    if "rating" not in frame.columns:
        return None
    values = on_scale(number_column(frame, "rating"), named)[order]
    known = ~np.isnan(values)
    totals = np.add.reduceat(np.where(known, values, 0.0), starts)
    counts = np.add.reduceat(known.astype(np.int64), starts)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan).astype(np.float32)


def _times(frame: pl.DataFrame, order: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The latest time of each record, in whole seconds (integers are kept as they are)."""
    if "time" not in frame.columns:
        return None
    return np.maximum.reduceat(seconds(frame["time"])[order], starts)


def _check_records(frame: pl.DataFrame, record: str, order: NDArray[np.int64], agrees: NDArray[np.bool_]) -> None:
    """Refuse a record whose rows, neighbours in `order`, are of several users or items."""
    if not agrees.all():
        row = int(order[np.flatnonzero(~agrees)[0] + 1])
        raise DataError(
            f"record {frame[record][row]} has another user or item in an earlier row",
            row=row + 1,
            column=record,
            expected="one user and one item in each record",
        )
