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
from whyrank.explain._told import familiar_and_detailed
from whyrank.explain.evidence import EvidenceColumns, evidence
from whyrank.explain.options import Options
from whyrank.explain.rank import Places, Ranked, Ranker, fallback_of, pair_places, rank, user_numbers
from whyrank.explain.topics import groups_of
from whyrank.index import _columns as columns
from whyrank.index.form import Block, Floats, Numbers, Rows, given_mu
from whyrank.wording.templates import OFTEN, OFTEN_SHARE, VARIANTS, Templates, default_templates

Pairs: TypeAlias = pl.DataFrame | Iterable[tuple[object, object]]
Status = Literal["ok", "no_reason", "unknown_item"]
Ids: TypeAlias = Sequence[str] | pl.Series


@dataclass(eq=False)
class Explained:
    """Reasons of many pairs in columns, pair by pair, best first; `row` says to which pair each belongs."""

    model: Ranker
    user_ids: Ids
    item_ids: Ids
    users: Numbers  # -1: unknown
    items: Numbers  # -1: unknown
    row: NDArray[np.int64]
    rank: NDArray[np.int32]
    explanation: Numbers
    score: Floats
    chances: NDArray[np.float64] | None  # of reasons at their ranks, list by list; None: nothing is drawn
    evidence: EvidenceColumns
    options: Options
    templates: Templates
    queries: Floats | None = None  # of the pairs, where they are at hand

    @property
    def catalog(self) -> Catalog:
        return self.model.catalog_

    @cached_property
    def parts(self) -> dict[str, Floats]:
        """Whose part of each score is how large."""
        reasons = (self.row, self.explanation, self.score)
        return score_parts(self.model, self.users, self.items, *reasons, self.options.mu, self.queries)

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
    def starts(self) -> NDArray[np.int64]:
        """Where each pair's reasons begin, and the end."""
        return np.searchsorted(self.row, np.arange(len(self.users) + 1))

    def statuses(self) -> list[Status]:
        """What came of each pair."""
        answered = set(self.row.tolist())
        return [
            "unknown_item" if item < 0 else "ok" if at in answered else "no_reason"
            for at, item in enumerate(self.items.tolist())
        ]

    def fallbacks(self) -> list[str | None]:
        """Why pairs are answered from the item and popularity alone: `unknown_user`, or `not_personal` as asked for."""
        why, numbers = fallback_of(self.options), zip(self.users.tolist(), self.items.tolist(), strict=True)
        return [why if user < 0 <= item else None for user, item in numbers]

    def sentences(self) -> list[str]:
        """A sentence for each reason; those of a list take turns with the templates, from its first reason on."""
        catalog, said, users = self.catalog, self.evidence, self.users[self.row]
        often = np.maximum(OFTEN, OFTEN_SHARE * catalog.user_items.sizes()[users])
        rows = (self.rank, self.explanation, said.entries, said.column("user_mentions"), often)
        familiar, detailed = familiar_and_detailed(*rows, catalog.details.explanation, groups_of(catalog)[2])
        counts = [said.column(name) for name in ("supporting", "opposing", "mixed", "detail", "user_says")]
        variant = (self.explanation[self.starts[self.row]] + self.rank - 1) % VARIANTS
        told: list[NDArray[np.integer]] = [self.explanation, variant, *counts, familiar, detailed]
        quotes = [str(each[0]["text"]) if each else None for each in self.quotes]
        listed = zip(*(column.tolist() for column in told), strict=True)
        return self.templates.writer(catalog).sentences(listed, quotes)

    @cached_property
    def quotes(self) -> list[list[dict[str, object]]]:
        """What people wrote, for each reason: text, source and time; by others than the user where there are any."""
        return quotes_of(self.catalog.people, self.evidence.entries, self.users[self.row])


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
    (users, items), size = numbers, ranked.numbers.size
    row, rank, found = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int32)
    scores = np.empty(size, np.float32)
    lists = (np.ascontiguousarray(ranked.numbers), np.ascontiguousarray(ranked.scores))
    size = columns.listed(*lists, row, rank, found, scores)
    row, rank, found, scores = row[:size], rank[:size], found[:size], scores[:size]
    return Explained(
        model=model,
        user_ids=ids[0],
        item_ids=ids[1],
        users=users,
        items=items,
        row=row,
        rank=rank,
        explanation=found,
        score=scores,
        chances=ranked.propensities,
        evidence=evidence(model.catalog_, users, items, row, found, similar=similar),
        options=options,
        templates=templates or default_templates(),
        queries=ranked.queries,
    )


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
    users: Numbers,
    items: Numbers,
    row: NDArray[np.int64],
    explanations: Numbers,
    scores: Floats,
    mu: float | None = None,
    queries: Floats | None = None,
) -> dict[str, NDArray[np.float32]]:
    """Whose part of each score is how large: of the dot product block by block, of the bonus as the model divides it.

    `row` says to which pair each explanation belongs; `queries` are those of the pairs, if they are at hand. What is
    left over has the name "bonus".
    """
    weight = given_mu(mu)
    shares = model.bonus_at(users, items, row, explanations, **weight)
    names, widths, into = _parts_of(tuple(model.blocks()), tuple(shares))
    table, rest = np.empty((len(into), len(row)), np.float32), np.empty(len(row), np.float32)
    for place, share in enumerate(shares.values(), len(widths)):
        table[place] = share
    if queries is None:
        queries = model.queries(users, items, **weight)
    given = (np.ascontiguousarray(queries, np.float32), model.search().keys, row, explanations, widths, into)
    matters = columns.parts_of(*given, scores, table, rest)
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
