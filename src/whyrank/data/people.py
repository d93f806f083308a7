"""Who says what about an item: counts of people instead of records, aspect by aspect, with dates and quotes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.csr import CSR, checked_array, checked_csr
from whyrank.data.once import made_once
from whyrank.data.private import is_private
from whyrank.data.statements import Positions

if TYPE_CHECKING:
    from whyrank.data.triplets import Triplets

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
QUOTES = 3  # of one explanation of one item
SHORTEST, LONGEST = 30, 140  # characters of a quote that is quickly read and still says something
LISTED = 250_000  # quotes that are in memory as a list, too
CUT = 280  # characters that are kept of a longer one
UNKNOWN = 0  # the time of what has none
TEXTS = {"text": pl.String, "source": pl.String, "user": pl.Int32, "time": pl.Int64}
NEVER = np.iinfo(np.int64).min
NO_LONGS = np.empty(0, np.int64)
NO_WORTH = np.empty(0, np.float32)


class Said(NamedTuple):
    """Triplets by number, one entry each: who says what about which item."""

    user: Ints
    item: Ints
    explanation: Ints
    aspect: Ints  # -1: unknown
    sign: NDArray[np.int8]
    position: Ints  # see `whyrank.data.statements`; -1: none
    time: Longs | None
    sentence: pl.Series | None
    source: pl.Series | None
    worth: NDArray[np.float32] | None

    @classmethod
    def of(
        cls,
        triplets: Triplets,
        numbers: tuple[Ints, Ints, Ints],
        aspect: Ints,
        sign: NDArray[np.int8],
        position: Ints,
    ) -> Said:
        """Triplets under the numbers of a catalog, whose explanations have these aspects, signs and positions."""
        sizes = triplets.record_explanations.sizes()
        time = None if triplets.time is None else np.repeat(triplets.time, sizes)
        explanation = numbers[2]
        return cls(
            *numbers,
            *(aspect[explanation], sign[explanation], position[explanation]),
            *(time, triplets.sentences, triplets.sources),
            worth=triplets.worth,
        )


@dataclass(frozen=True, eq=False)
class People:
    """Counts of different people. What belongs to an entry of the relation item x explanation has its order.

    `supporting` counts who says an explanation about an item and never the opposite, `mixed` who says both, and
    `opposing` (item x position) who says the opposite of a position and never the position itself. `item_aspects`
    counts who mentions an aspect of an item; `praising` and `blaming`, in the order of its entries, who has something
    good or bad to say about it. `user_aspects` counts the items of which a user mentions an aspect. `latest` is when an
    explanation was last said about an item (empty: no times are known), `worth` how much it is worth as a reason for
    the item (NaN: unknown; empty: none is known): 0 is never shown. The quotes of entry k are the rows
    quote_starts[k] to quote_starts[k + 1] of `quotes`.
    """

    supporting: Ints
    mixed: Ints
    opposing: CSR
    latest: Longs
    item_aspects: CSR
    praising: Ints
    blaming: Ints
    user_aspects: CSR
    quote_starts: Longs
    quotes: pl.DataFrame
    worth: NDArray[np.float32]

    @classmethod
    def of(cls, said: Said, relation: CSR, opposites: CSR, users: int, aspects: int) -> People:
        """Count triplets whose relation item x explanation is `relation`; `opposites` are those of positions."""
        items, explanations = relation.rows, opposites.rows
        entry = places(relation, said.item, said.explanation, explanations)
        about = said.aspect >= 0
        user, item, aspect, sign = said.user[about], said.item[about], said.aspect[about], said.sign[about]
        item_aspects = _distinct(item, aspect, user, items, aspects, users)
        of_aspect = places(item_aspects, item, aspect, aspects)
        opposing, mixed = _opposing(said, opposites, items, users)
        quotes = _chosen(_quotes(said, entry))
        return cls(
            supporting=_people(entry[~mixed], said.user[~mixed], len(relation.indices), users),
            mixed=_people(entry[mixed], said.user[mixed], len(relation.indices), users),
            opposing=opposing,
            latest=latest_times(entry, said.time, len(relation.indices)),
            item_aspects=item_aspects,
            praising=_people(of_aspect[sign > 0], user[sign > 0], len(item_aspects.indices), users),
            blaming=_people(of_aspect[sign < 0], user[sign < 0], len(item_aspects.indices), users),
            user_aspects=_distinct(user, aspect, item, users, aspects, items),
            quote_starts=_starts(quotes["entry"].to_numpy(), len(relation.indices)),
            quotes=quotes.select(*TEXTS),
            worth=_most_worth([entry], [said.worth], len(relation.indices)),
        )

    def grown(
        self, new: People, old_relation: CSR, new_relation: CSR, both: CSR, users: int, found: Positions, known: int
    ) -> People:
        """With the counts of further triplets, of pairs of users and items that this one has not counted.

        Both sides and `both`, the relation of all triplets, are in the same numbers; the first `known` explanations are
        old. Who said several opposites of a new position before it was known counts once for each.
        """
        columns = len(found.of)
        moved = [places(both, each.rows_of_entries(), each.indices, columns) for each in (old_relation, new_relation)]
        size = len(both.indices)
        aspects = _added(self.item_aspects, new.item_aspects, both.rows)
        sides = [
            places(aspects, each.rows_of_entries(), each.indices, _width(aspects))
            for each in (self.item_aspects, new.item_aspects)
        ]
        latest = NO_LONGS
        if len(self.latest) or len(new.latest):
            latest = np.full(size, NEVER, np.int64)
            for entry, times in zip(moved, (self.latest, new.latest), strict=True):
                if len(times):
                    latest[entry] = np.maximum(latest[entry], times)
            latest[latest == NEVER] = UNKNOWN
        late = _opposing_before(old_relation, self.supporting + self.mixed, found, known)
        quotes = _chosen(
            pl.concat(
                each.quotes.with_columns(entry=pl.Series(np.repeat(entry, np.diff(each.quote_starts)), dtype=pl.Int64))
                for entry, each in zip(moved, (self, new), strict=True)
            )
        )
        return People(
            supporting=_summed(moved, (self.supporting, new.supporting), size),
            mixed=_summed(moved, (self.mixed, new.mixed), size),
            opposing=_added(_added(self.opposing, new.opposing, both.rows), late, both.rows),
            latest=latest,
            item_aspects=aspects,
            praising=_summed(sides, (self.praising, new.praising), len(aspects.indices)),
            blaming=_summed(sides, (self.blaming, new.blaming), len(aspects.indices)),
            user_aspects=_added(self.user_aspects, new.user_aspects, users),
            quote_starts=_starts(quotes["entry"].to_numpy(), size),
            quotes=quotes.select(*TEXTS),
            worth=_most_worth(moved, [each.worth if len(each.worth) else None for each in (self, new)], size),
        )

    @made_once
    def quote_users(self) -> Ints:
        """Who wrote each quote."""
        return np.ascontiguousarray(self.quotes["user"].to_numpy(), np.int32)

    @made_once
    def quotes_listed(self) -> tuple[list[str], list[str | None], list[int], list[int]] | None:
        """Texts, sources, users and times of quotes, quicker one by one than from a table; None: there are too many."""
        if len(self.quotes) > LISTED:
            return None
        texts, sources, users, times = (self.quotes[name].to_list() for name in TEXTS)
        return texts, sources, users, times

    # -- saving --------------------------------------------------------------------------------------------------------

    def arrays(self, relation: CSR) -> dict[str, NDArray[np.generic]]:
        """Everything numeric that does not follow from the relation item x explanation, for an artifact."""
        named: dict[str, NDArray[np.generic]] = {}
        if not np.array_equal(self.supporting, relation.counts):
            named["supporting"] = self.supporting
        if self.mixed.any():
            named["mixed"] = self.mixed
        if len(self.opposing.indices):
            named |= {f"opposing.{part}": array for part, array in self.opposing._asdict().items()}
        if len(self.latest):
            named["latest"] = self.latest
        if len(self.item_aspects.indices):
            named |= {"praising": self.praising, "blaming": self.blaming}
            for name in ("item_aspects", "user_aspects"):
                named |= {f"{name}.{part}": array for part, array in getattr(self, name)._asdict().items()}
        if len(self.quotes):
            named["quote_starts"] = self.quote_starts
        if len(self.worth):
            named["worth"] = self.worth
        return named

    @classmethod
    def restore(
        cls,
        relation: CSR,
        users: int,
        explanations: int,
        aspects: int = 0,
        arrays: Mapping[str, NDArray[np.generic]] = {},
        quotes: pl.DataFrame | None = None,
    ) -> People:
        """What was saved; compiled code follows the numbers, so they are checked here.

        What is missing is unknown: then every record counts as a person.
        """
        entries, items = len(relation.indices), relation.rows
        has_aspects = any(name in ("praising", "blaming") or "_aspects." in name for name in arrays)
        if (quotes is None) != ("quote_starts" not in arrays):
            raise ValueError("quotes are not whole")
        of_items = checked_csr(arrays, "item_aspects", items, aspects) if has_aspects else CSR.empty(items)
        by_users = checked_csr(arrays, "user_aspects", users, aspects) if has_aspects else CSR.empty(users)
        starts = np.zeros(entries + 1, np.int64)
        if quotes is not None:
            starts = checked_array(arrays, "quote_starts", np.int64, entries + 1)
            if dict(quotes.schema) != TEXTS or quotes["text"].null_count() or quotes["user"].null_count():
                raise ValueError("quotes are not as whyrank writes them")
            if starts[0] != 0 or starts[-1] != len(quotes) or (np.diff(starts) < 0).any():
                raise ValueError("quotes do not follow each other")

        def counts(name: str, size: int, missing: bool, otherwise: Ints) -> Ints:
            found: Ints = otherwise if missing else checked_array(arrays, name, np.int32, size)
            if len(found) and found.min() < 0:
                raise ValueError(f"{name} counts less than nothing")
            return found

        worth = checked_array(arrays, "worth", np.float32, entries) if "worth" in arrays else NO_WORTH
        if (worth < 0).any() or np.isinf(worth).any():
            raise ValueError("worth is not a column of numbers of at least 0")
        nobody, none_mixed = np.zeros(len(of_items.indices), np.int32), np.zeros(entries, np.int32)
        opposed = "opposing.indptr" in arrays
        return cls(
            supporting=counts("supporting", entries, "supporting" not in arrays, relation.counts),
            mixed=counts("mixed", entries, "mixed" not in arrays, none_mixed),
            opposing=checked_csr(arrays, "opposing", items, explanations) if opposed else CSR.empty(items),
            latest=checked_array(arrays, "latest", np.int64, entries) if "latest" in arrays else NO_LONGS,
            item_aspects=of_items,
            praising=counts("praising", len(nobody), not has_aspects, nobody),
            blaming=counts("blaming", len(nobody), not has_aspects, nobody),
            user_aspects=by_users,
            quote_starts=starts,
            quotes=pl.DataFrame(schema=TEXTS) if quotes is None else quotes,
            worth=worth,
        )


def places(relation: CSR, rows: Ints, columns: Ints, width: int) -> Longs:
    """Where entries that a relation has stand among its entries."""
    there = relation.rows_of_entries().astype(np.int64) * width + relation.indices
    return np.searchsorted(there, rows.astype(np.int64) * width + columns)


def _people(entry: Longs, user: Ints, entries: int, users: int) -> Ints:
    """How many different users each entry has."""
    keys = entry * users + user
    keys.sort()  # np.unique hashes such keys, which takes twenty times as long
    once = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
    return np.bincount(once // max(users, 1), minlength=entries).astype(np.int32)


def _opposing(said: Said, opposites: CSR, items: int, users: int) -> tuple[CSR, NDArray[np.bool_]]:
    """Count who says the opposite of a position and never the position itself; mark triplets of those who say both."""
    placed = np.flatnonzero(said.position >= 0)
    rows = opposites.take(said.position[placed])
    sizes = rows.sizes()
    user, item = np.repeat(said.user[placed], sizes), np.repeat(said.item[placed], sizes)
    relation = CSR.from_pairs(item, rows.indices, items, opposites.rows)
    against = np.unique(places(relation, item, rows.indices, opposites.rows) * users + user)
    placed = placed[relation.holds(said.item[placed], said.position[placed])]
    own = places(relation, said.item[placed], said.position[placed], opposites.rows) * users + said.user[placed]
    mixed = np.zeros(len(said.user), np.bool_)
    mixed[placed] = np.isin(own, against)
    left = against[~np.isin(against, own)]
    counts = np.bincount(left // max(users, 1), minlength=len(relation.indices))
    return relation._replace(counts=counts.astype(np.int32)), mixed


def _opposing_before(relation: CSR, people: Ints, found: Positions, known: int) -> CSR:
    """Count who had said the opposite of positions that the first `known` explanations do not have."""
    rows = found.opposites.take(np.maximum(found.of[relation.indices], 0))
    new = (rows.indices >= known) & np.repeat(found.of[relation.indices] >= 0, rows.sizes())
    item, position = np.repeat(relation.rows_of_entries(), rows.sizes())[new], rows.indices[new]
    late = CSR.from_pairs(item, position, relation.rows, len(found.of))
    entry = places(late, item, position, len(found.of))
    counts = np.bincount(entry, np.repeat(people, rows.sizes())[new], len(late.indices))
    return late._replace(counts=counts.astype(np.int32))


def _distinct(rows_of: Ints, columns_of: Ints, counted: Ints, rows: int, columns: int, among: int) -> CSR:
    """Row -> columns, each with how many different ones of what is counted it has."""
    plain = CSR.from_pairs(rows_of, columns_of, rows, columns)
    return plain._replace(
        counts=_people(places(plain, rows_of, columns_of, columns), counted, len(plain.indices), among)
    )


def latest_times(entry: Longs, time: Longs | None, entries: int) -> Longs:
    """The latest time of each entry; empty where no times are known."""
    if time is None:
        return NO_LONGS
    found = np.full(entries, NEVER, np.int64)
    np.maximum.at(found, entry, time)
    return found


def _most_worth(
    entries: Sequence[Longs], worth: Sequence[NDArray[np.float32] | None], size: int
) -> NDArray[np.float32]:
    """The most that is known of each entry, NaN where nothing is; empty where no worth is known at all."""
    if all(each is None for each in worth):
        return NO_WORTH
    found = np.full(size, np.nan, np.float32)
    for entry, values in zip(entries, worth, strict=True):
        if values is not None:
            np.fmax.at(found, entry, values)
    return found


def _quotes(said: Said, entry: Longs) -> pl.DataFrame:
    """Every sentence that somebody wrote and that is not private; blanks are single, long ones are cut after a word."""
    if said.sentence is None:
        return pl.DataFrame(schema={"entry": pl.Int64, **TEXTS})
    source = pl.repeat(None, len(entry), dtype=pl.String, eager=True) if said.source is None else said.source
    time = np.full(len(entry), UNKNOWN, np.int64) if said.time is None else said.time
    table = pl.DataFrame(
        {"entry": entry.astype(np.int64), "text": said.sentence, "source": source, "user": said.user, "time": time}
    )
    tidy = pl.col("text").str.replace_all(r"\s+", " ").str.strip_chars()
    cut = pl.col("text").str.head(CUT).str.replace(r"\s\S*$", "") + "…"
    long = pl.col("text").str.len_chars() > CUT
    return (
        table.with_columns(tidy)
        .filter((pl.col("text").str.len_chars() > 0) & ~pl.col("text").map_batches(is_private, pl.Boolean))
        .with_columns(pl.when(long).then(cut).otherwise("text").alias("text"))
        .cast({"user": pl.Int32})
    )


def _chosen(quotes: pl.DataFrame) -> pl.DataFrame:
    """The best few of every entry, from different people: of moderate length, then the latest, then by text."""
    length = pl.col("text").str.len_chars()
    return (
        quotes.with_columns(odd=~length.is_between(SHORTEST, LONGEST))
        .sort(
            *("entry", "odd", "time", "text", "source", "user"),
            descending=[False, False, True, False, False, False],
            nulls_last=True,
        )
        .unique(["entry", "user"], keep="first", maintain_order=True)
        .unique(["entry", "text"], keep="first", maintain_order=True)
        .group_by("entry", maintain_order=True)
        .head(QUOTES)
        .select("entry", *TEXTS)
    )


def _starts(entry: Longs, entries: int) -> Longs:
    starts = np.zeros(entries + 1, np.int64)
    np.cumsum(np.bincount(entry, minlength=entries), out=starts[1:])
    return starts


def _added(one: CSR, other: CSR, rows: int) -> CSR:
    """Two relations of one numbering added up; both may have fewer rows."""
    width = max(_width(one), _width(other))
    keys = np.concatenate([each.rows_of_entries().astype(np.int64) * width + each.indices for each in (one, other)])
    found, place = np.unique(keys, return_inverse=True)
    counts = np.bincount(place, np.concatenate([one.counts, other.counts]), len(found)).astype(np.int32)
    row, column = np.divmod(found, width)
    return CSR(_starts(row, rows), column.astype(np.int32), counts)


def _summed(moved: list[Longs], counts: tuple[Ints, Ints], size: int) -> Ints:
    total = np.zeros(size, np.int32)
    for entry, values in zip(moved, counts, strict=True):
        total[entry] += values
    return total


def _width(relation: CSR) -> int:
    return int(relation.indices.max(initial=0)) + 1
