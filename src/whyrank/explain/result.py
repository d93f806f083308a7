"""One explain: from a model, pairs and options to columns, which everything else only formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.columns import text_column
from whyrank.data.csr import CSR
from whyrank.data.people import People
from whyrank.data.tables import as_table
from whyrank.errors import DataError
from whyrank.explain._columns import distinct_rows, first_quotes, parts_of
from whyrank.explain.evidence import ReasonColumns, count_reasons
from whyrank.explain.options import Options
from whyrank.explain.rank import Places, Ranked, Ranker, fallback_of, pair_places, rank, user_numbers
from whyrank.index.form import Block, Floats, Numbers, Rows, given_mu
from whyrank.wording.templates import Templates, Told, default_templates

Pairs: TypeAlias = pl.DataFrame | Iterable[tuple[object, object]]
Status = Literal["ok", "no_reason", "unknown_item"]
Ids: TypeAlias = Sequence[str] | pl.Series


STATUSES: tuple[Status, ...] = ("ok", "no_reason", "unknown_item")


@dataclass(eq=False)
class Explained:
    """ReasonColumns of many pairs in columns, pair by pair, best first; `row` says to which pair each belongs."""

    model: Ranker
    user_ids: Ids
    item_ids: Ids
    users: Numbers  # -1: unknown
    items: Numbers  # -1: unknown
    reasons: ReasonColumns
    chances: NDArray[np.float64] | None  # of reasons at their ranks, list by list; None: nothing is drawn
    options: Options
    templates: Templates
    queries: Floats | None = None  # of the pairs, where they are at hand

    @property
    def catalog(self) -> Catalog:
        return self.model.catalog_

    @property
    def row(self) -> Rows:
        return self.reasons.row

    @property
    def rank(self) -> Numbers:
        return self.reasons.rank

    @property
    def explanation(self) -> Numbers:
        return self.reasons.explanation

    @property
    def score(self) -> Floats:
        return self.reasons.score

    @cached_property
    def parts(self) -> dict[str, Floats]:
        """Whose part of each score is how large."""
        return score_parts(self.model, (self.users, self.items), self.reasons, self.options.mu, self.queries)

    @property
    def ids(self) -> list[str]:
        """The explanations' ids."""
        listed = self.catalog.ids_listed
        return [listed[number] for number in self.explanation.tolist()]

    @property
    def propensity(self) -> NDArray[np.float64]:
        """The chance of each reason at its rank, given those above it; 1 where nothing is drawn."""
        return np.ones(len(self.row)) if self.chances is None else self.chances[self.row, self.rank - 1]

    @property
    def polarity(self) -> NDArray[np.int8]:
        """Whether each reason speaks for the item (1), against it (-1) or neither."""
        return self.catalog.signs[self.explanation]

    @cached_property
    def starts(self) -> Rows:
        """Where each pair's reasons begin, and the end."""
        return np.searchsorted(self.row, np.arange(len(self.users) + 1))

    def status_numbers(self) -> NDArray[np.int8]:
        """What came of each pair, as places in STATUSES."""
        return np.where(self.items < 0, 2, np.where(np.diff(self.starts) > 0, 0, 1)).astype(np.int8)

    def statuses(self) -> list[Status]:
        """What came of each pair."""
        return [STATUSES[number] for number in self.status_numbers().tolist()]

    def fallbacks(self) -> list[str | None]:
        """Why pairs are answered from the item and popularity alone: `unknown_user`, or `not_personal` as asked for."""
        why, numbers = fallback_of(self.options), zip(self.users.tolist(), self.items.tolist(), strict=True)
        return [why if user < 0 <= item else None for user, item in numbers]

    def sentences(self) -> list[str]:
        """A sentence for each reason."""
        quotes = [str(each[0]["text"]) if each else None for each in self.quotes]
        return self.templates.writer(self.catalog).sentences(self.reasons.told.tolist(), quotes)

    def sentence_column(self) -> pl.Series:
        """The sentences as a column: those with equal counts and the same quote are written once."""
        people, told = self.catalog.people, self.reasons.told
        asker = self.users[self.row]
        quote = first_quotes(self.reasons.entry, asker, people.quote_starts, people.quote_users)
        counts = told.view(np.int64).reshape(len(told), len(Told._fields))
        first, place = distinct_rows(np.column_stack([counts, quote]))
        texts = people.quotes["text"].gather(pl.Series(quote[first]).set(pl.Series(quote[first] < 0), None))
        written = self.templates.writer(self.catalog).sentences(told[first].tolist(), texts.to_list())
        return pl.Series(written, dtype=pl.String).gather(place)

    @cached_property
    def quotes(self) -> list[list[dict[str, object]]]:
        """What people wrote, for each reason: text, source and time; by others than the user where there are any."""
        return quotes_of(self.catalog.people, self.reasons.entry, self.users[self.row])


def quotes_of(people: People, entries: Rows, askers: Numbers) -> list[list[dict[str, object]]]:
    """The quotes of some entries (-1: none), each for a user, by others than whom they are where there are any."""
    if not len(people.quotes):
        return [[] for _ in entries]
    at = np.maximum(entries, 0)
    starts = people.quote_starts[at]
    stops = np.where(entries >= 0, people.quote_starts[at + 1], starts)
    texts, sources, users, times = people.quotes_listed or _gathered(people, starts, stops)
    if people.quotes_listed is None:
        stops = np.cumsum(stops - starts)
        starts = np.concatenate([[0], stops[:-1]])
    lists: list[list[dict[str, object]]] = []
    for asker, start, stop in zip(askers.tolist(), starts.tolist(), stops.tolist(), strict=True):
        places = [place for place in range(start, stop) if users[place] != asker] or range(start, stop)
        lists.append([{"text": texts[k], "source": sources[k], "time": times[k] or None} for k in places])
    return lists


def _gathered(people: People, starts: Rows, stops: Rows) -> tuple[list[str], list[str | None], list[int], list[int]]:
    """The quotes between places, one stretch after the other."""
    sizes = stops - starts
    rows = np.arange(sizes.sum()) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    texts, sources, users, times = (each.to_list() for each in people.quotes[rows])
    return texts, sources, users, times


def explain(
    model: Ranker,
    pairs: Pairs,
    options: Options | None = None,
    n: int = 10,
    *,
    on_unknown: Literal["mark", "raise"] = "mark",
    similar: bool = False,
    templates: Templates | None = None,
    threads: int | None = None,
    places: Places | None = None,
) -> Explained:
    """The `n` best reasons of every pair, in columns.

    An unknown user is answered from the item and popularity, and marked (`fallbacks`); an unknown item is marked
    (`statuses`) and has no reasons, or raises UnknownId. `similar` counts what people say about similar items, too,
    which takes longest. Draws differ by `places`, as in `rank`; unless given, they depend on user and item alone.
    """
    catalog, options, (user_ids, item_ids) = model.catalog_, options or Options(), pair_ids(pairs)
    users = user_numbers(catalog, user_ids, options)
    items = catalog.items.numbers(item_ids, missing="error" if on_unknown == "raise" else "negative")
    if options.drawn and places is None:
        places = pair_places(user_ids, item_ids)
    return explained(
        model,
        (user_ids, item_ids),
        (users, items),
        ranked_known(model, users, items, n, options, threads, places),
        options,
        similar=similar,
        templates=templates,
    )


def ranked_known(
    model: Ranker,
    users: Numbers,
    items: Numbers,
    n: int,
    options: Options,
    threads: int | None,
    places: Places | None = None,
    among: CSR | None = None,
) -> Ranked:
    """As `rank`, but nothing for unknown items."""
    known = np.flatnonzero(items >= 0)
    if len(known) == len(items):
        return rank(model, users, items, n, options, threads, among, places)
    left = None if places is None else places[known]
    found = rank(model, users[known], items[known], n, options, threads, among, left)
    shape = (len(items), found.numbers.shape[1])
    numbers, scores = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
    numbers[known], scores[known] = found.numbers, found.scores
    if found.propensities is None:
        return Ranked(numbers, scores)
    propensities = np.ones(shape, np.float64)
    propensities[known] = found.propensities
    return Ranked(numbers, scores, propensities)


def explained(
    model: Ranker,
    ids: tuple[Ids, Ids],
    numbers: tuple[Numbers, Numbers],
    ranked: Ranked,
    options: Options,
    *,
    similar: bool = False,
    templates: Templates | None = None,
) -> Explained:
    """Ranked explanations with their evidence."""
    found = count_reasons(model.catalog_, numbers, (ranked.numbers, ranked.scores), similar=similar)
    written = templates or default_templates()
    return Explained(model, *ids, *numbers, found, ranked.propensities, options, written, ranked.queries)


def pair_ids(pairs: Pairs) -> tuple[Ids, Ids]:
    """Users and items of pairs in any form, as texts."""
    if hasattr(pairs, "columns"):
        table = as_table(pairs)
        for name in ("user", "item"):
            if name not in table.columns:
                raise DataError("missing column", column=name, expected="user and item")
        return text_column(table, "user"), text_column(table, "item")
    listed = [tuple(pair) for pair in pairs]
    if any(len(pair) != 2 for pair in listed):
        raise DataError("not a pair", expected="(user, item)")
    return [str(user) for user, _ in listed], [str(item) for _, item in listed]


def score_parts(
    model: Ranker,
    pairs: tuple[Numbers, Numbers],
    found: ReasonColumns,
    mu: float | None = None,
    queries: Floats | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Whose part of each score is how large: of the dot product block by block, of the bonus as the model divides it.

    `queries` are those of the pairs, if they are at hand. What is left over has the name "bonus".
    """
    weight = given_mu(mu)
    shares = model.bonus_at(*pairs, found.row, found.explanation, **weight)
    names, widths, into = _parts_of(tuple(model.blocks()), tuple(shares))
    table, rest = np.empty((len(into), len(found.row)), np.float32), np.empty(len(found.row), np.float32)
    for place, share in enumerate(shares.values(), len(widths)):
        table[place] = share
    if queries is None:
        queries = model.queries(*pairs, **weight)
    given = (np.ascontiguousarray(queries, np.float32), model.search().keys, found.row, found.explanation)
    matters = parts_of(*given, (widths, into), found.score, table, rest)
    parts = {name: table[place] for name, place in names}
    return parts | {"bonus": rest} if matters else parts


@cache
def _parts_of(
    blocks: tuple[Block, ...], shares: tuple[str, ...]
) -> tuple[tuple[tuple[str, int], ...], NDArray[np.int64], NDArray[np.int64]]:
    """The names of parts with their places, the widths of blocks, and where blocks and shares of one name go."""
    all_names = [*(block.name for block in blocks), *shares]
    places = {name: all_names.index(name) for name in all_names}
    into = np.array([places[name] for name in all_names], np.int64)
    return tuple(places.items()), np.array([block.width for block in blocks], np.int64), into
