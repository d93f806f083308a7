"""From a model and pairs, by number, to ranked explanations, by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import ClassVar, NamedTuple, Protocol, TypedDict, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.errors import ParameterError
from whyrank.explain._drawn import Drawing, draw_lists
from whyrank.explain.diversity import diversify
from whyrank.explain.options import Options
from whyrank.explain.topics import groups_of
from whyrank.index._grounded import ItemRules, ListRules, first_that_fit
from whyrank.index.form import Bonus, Floats, Numbers, Scorer, given_mu
from whyrank.index.search import Search
from whyrank.rng import key_of

Cached = TypeVar("Cached")
Places = NDArray[np.uint64]
CHUNK = 8192  # pairs whose queries and lists are in memory at once
WHOLE = 1 << 22  # scores of whole pools that are in memory at once, for models that need them
PLAIN = Options.plain()
CHOSEN = 4  # times as many as a list takes are looked at first, where not all of the best may be in it
DRAWN_FROM = 20  # candidates of a drawn list at least; few enough that every chance is exact and quick
PLANS = 64  # cached of a catalog
NO_MASK, NO_NUMBERS, NO_FLOATS = np.empty(0, np.bool_), np.empty(0, np.int32), np.empty(0, np.float32)
WISHES = attrgetter("boosts", "exclude", "banned", "keep", "query", "context_items", "context_aspects")
SETTINGS = attrgetter(
    *("grounded", "backing", "support", "distinctive", "polarity", "per_aspect", "consistent", "specificity", "vague")
)
_plans: WeakKeyDictionary[Catalog, dict[tuple[object, ...], AppliedOptions]] = WeakKeyDictionary()


class Ranked(NamedTuple):
    """Best first (or as drawn), one row per pair; -1 and -inf where there was nothing more to rank."""

    numbers: Numbers
    scores: Floats
    # The chance of each at its position, given those above it; None: nothing was drawn, so that it is 1.
    propensities: NDArray[np.float64] | None = None
    queries: Floats | None = None  # that were asked with, where they are at hand


class AppliedOptions(NamedTuple):
    """What options come to for a catalog."""

    allowed: NDArray[np.bool_] | None
    boost: Floats | None
    lists: ListRules
    items: ItemRules | None  # what may be said of each item; None: anything of the pool


class Ranker(Scorer, Protocol):
    """A fitted model, as far as ranking is concerned."""

    scores_n: ClassVar[bool]
    catalog_: Catalog

    def search(self) -> Search: ...

    def digest(self) -> str: ...


class ItemRanker(Ranker, Protocol):
    """A fitted model that ranks items too."""

    def item_queries(self, users: Numbers) -> Floats: ...

    def item_query_from(self, items: Numbers) -> Floats: ...

    def item_keys(self) -> Floats: ...

    def item_search(self) -> Search: ...

    def cached(self, key: object, make: Callable[[], Cached]) -> Cached: ...


def user_numbers(catalog: Catalog, users: Sequence[str] | pl.Series, options: Options) -> Numbers:
    """Users by number; -1 for those who are unknown, and for all where the answer is not to be personal."""
    if not options.personal:
        return np.full(len(users), -1, np.int32)
    return catalog.users.numbers(users, missing="negative")


def fallback_of(options: Options) -> str:
    """What an answer without the user's part is marked with."""
    return "unknown_user" if options.personal else "not_personal"


def check_count(n: int) -> None:
    if not isinstance(n, int | np.integer) or n < 1:
        raise ParameterError(f"n is {n!r}; use a whole number, at least 1")


def check_mu(model: object, mu: float | None) -> None:
    if mu is not None and not hasattr(model, "mu"):
        raise ParameterError(f"{type(model).__name__} has no mu; leave it out")


def pair_places(users: Iterable[object], items: Iterable[object]) -> Places:
    """Numbers by which draws of pairs differ: the same for the same user and item, whatever else is asked for.

    >>> pair_places(["ann", "bob"], ["inn", "inn"])[1] == pair_places(["bob"], ["inn"])[0]
    np.True_
    """
    names = (f"{user}\0{item}".encode() for user, item in zip(users, items, strict=True))
    return np.array([int.from_bytes(blake2b(name, digest_size=8).digest(), "big") for name in names], np.uint64)


def rank(
    model: Ranker,
    users: Numbers,
    items: Numbers,
    n: int,
    options: Options = PLAIN,
    threads: int | None = None,
    among: CSR | None = None,
    places: Places | None = None,
) -> Ranked:
    """The `n` best explanations of every pair, exactly; memory grows with the answer, not with the pool.

    `among` has a row of explanations per item and leaves only those of a pair's item, whatever the options say.
    `places` are the numbers by which draws of pairs differ; unless given, those of the rows.
    """
    check_count(n)
    check_mu(model, options.mu)
    n = min(n, len(model.catalog_.explanations))
    task = _Ranking.of(model, options, threads, among)
    if options.drawn and places is None:
        places = np.arange(len(users), dtype=np.uint64)
    parts = list(task.chunks(len(users)))
    found = [task.lists(users[part], items[part], n, None if places is None else places[part]) for part in parts]
    if len(found) == 1:
        return found[0]
    whole = zip(*(each[:3] for each in found), strict=True)
    return Ranked(*(None if column[0] is None else np.concatenate(column) for column in whole))  # type: ignore[arg-type]


def candidates(
    model: Ranker, users: Numbers, items: Numbers, n: int, options: Options, threads: int | None = None
) -> tuple[Numbers, Floats]:
    """What lists of `n` reasons are drawn from, best first, with scores: one row per pair, -1 where there are fewer."""
    task = _Ranking.of(model, options, threads)
    wanted = min(bounded(n), len(model.catalog_.explanations))
    found = [task.best(users[part], items[part], wanted, None) for part in task.chunks(len(users))]
    return np.concatenate([each.numbers for each in found]), np.concatenate([each.scores for each in found])


def bounded(n: int) -> int:
    """How many candidates lists of `n` reasons are drawn from: the best by score of those that may be shown."""
    return max(DRAWN_FROM, 4 * n)


def drawing(catalog: Catalog, options: Options) -> Drawing:
    """What the chances of a list depend on beside the candidates and their scores."""
    return Drawing(_plan(catalog, options).lists, float(options.explore), float(options.epsilon))


class _Ranking(NamedTuple):
    """What stays the same for all pairs of a call."""

    model: Ranker
    options: Options
    plan: AppliedOptions
    whole: bool  # a model that scores n explanations alone has to score all where others may be the best
    threads: int | None

    @classmethod
    def of(cls, model: Ranker, options: Options, threads: int | None, among: CSR | None = None) -> _Ranking:
        plan = _plan(model.catalog_, options)
        if among is not None:
            plan = plan._replace(items=_rules_of(among, plan.allowed))
        narrowed = plan.items is not None or plan.allowed is not None or plan.boost is not None
        return cls(model, options, plan, model.scores_n and narrowed, threads)

    def chunks(self, pairs: int) -> Iterator[slice]:
        """Cut pairs into pieces whose queries, lists and bonuses fit into memory."""
        size = max(1, min(CHUNK, WHOLE // len(self.model.catalog_.explanations))) if self.whole else CHUNK
        for start in range(0, max(pairs, 1), size):
            yield slice(start, start + size)

    def lists(self, users: Numbers, items: Numbers, n: int, places: Places | None) -> Ranked:
        """Lists by score, or drawn; draws of pairs differ by `places`."""
        catalog, options, pool = self.model.catalog_, self.options, len(self.model.catalog_.explanations)
        if options.drawn:
            assert places is not None
            best = self.best(users, items, min(bounded(n), pool), None)
            chances = drawing(catalog, options)
            return Ranked(*draw_lists(best.numbers, best.scores, chances, key_of(options.draw), places, n))
        if options.diversity:
            return self._until_full(users, items, n, min(max(5 * n, 50), pool))
        if self.plan.items is not None:
            return self.best(users, items, n, self.plan.lists)
        return self._until_full(users, items, n, min(CHOSEN * n, pool) if self._limited else n)

    @property
    def _limited(self) -> bool:
        """Whether not all of the best may be in a list."""
        limits = self.plan.lists
        return bool(limits.per_aspect or limits.consistent)

    def _until_full(self, users: Numbers, items: Numbers, n: int, wanted: int) -> Ranked:
        """Ask for more until every list is full or nothing is left."""
        found, pool = self.best(users, items, wanted, None), len(self.model.catalog_.explanations)
        lists = self._chosen(found, n)
        rows = _unfinished(found, lists) if self._limited else NO_NUMBERS
        while len(rows) and wanted < pool:
            wanted = min(4 * wanted, pool)
            found = self.best(users[rows], items[rows], wanted, None)
            more = self._chosen(found, n)
            lists.numbers[rows], lists.scores[rows] = more.numbers, more.scores
            rows = rows[_unfinished(found, more)]
        return lists

    def _chosen(self, found: Ranked, n: int) -> Ranked:
        """What a list takes of the best that were found."""
        if self.options.diversity:
            chosen = diversify(self.model.catalog_, found.numbers, found.scores, n, self.plan.lists, self.options)
            return Ranked(*chosen)
        return Ranked(*first_that_fit(found.numbers, found.scores, self.plan.lists, n)) if self._limited else found

    def best(self, users: Numbers, items: Numbers, n: int, limits: ListRules | None) -> Ranked:
        """The best of what may be shown, by score; of what people say about items within the limits of a list."""
        model, plan, mu = self.model, self.plan, given_mu(self.options.mu)
        queries, pool = model.queries(users, items, **mu), len(model.catalog_.explanations)
        if plan.items is None:
            bonus = model.bonus(users, items, pool if self.whole else n, **mu)
            given: _Filters = {"bonus": bonus, "boost": plan.boost, "threads": self.threads}
            found = model.search().top(queries, n, pairs=(users, items), allowed=plan.allowed, **given)
            return Ranked(*found, queries=queries)
        bonus = model.bonus(users, items, pool if self.whole else CHOSEN * n, **mu)
        rules = (plan.items, limits or _unlimited(plan.lists))
        given = {"bonus": bonus, "boost": plan.boost, "threads": self.threads}
        return Ranked(*model.search().among(queries, items, n, rules, **given), queries=queries)


class _Filters(TypedDict):
    bonus: Bonus | None
    boost: Floats | None
    threads: int | None


def _unlimited(lists: ListRules) -> ListRules:
    return lists._replace(per_aspect=0, consistent=False)


def _unfinished(found: Ranked, lists: Ranked) -> NDArray[np.int64]:
    """Lists that are not full where more could have been found."""
    return np.flatnonzero((lists.numbers[:, -1] < 0) & (found.numbers[:, -1] >= 0))


def _plan(catalog: Catalog, options: Options) -> AppliedOptions:
    """Made once for a catalog, unless a request has wishes of its own."""
    if any(WISHES(options)):
        return _planned(catalog, options)
    plans, settings = _plans.setdefault(catalog, {}), SETTINGS(options)
    plan = plans.get(settings)  # another thread may clear them any time
    if plan is None:
        if len(plans) >= PLANS:
            plans.clear()
        plan = plans[settings] = _planned(catalog, options)
    return plan


def _planned(catalog: Catalog, options: Options) -> AppliedOptions:
    allowed, chooses, people = options.allowed(catalog), len(catalog.aspects) > 0, catalog.people
    lists = ListRules(
        groups_of(catalog),
        catalog.signs,
        int(options.per_aspect) if chooses else 0,
        bool(options.consistent) and chooses,
    )
    items = None
    if options.grounded:
        items = _rules_of(catalog.item_explanations, allowed)._replace(
            supporting=people.supporting,
            opposing=catalog.opposing,
            standing=catalog.standing,
            worth=catalog.worth_added,
            backing=float(options.backing),
            support=int(options.support),
            distinctive=float(options.distinctive),
        )
    return AppliedOptions(allowed, options.boost(catalog), lists, items)


def _rules_of(relation: CSR, allowed: NDArray[np.bool_] | None) -> ItemRules:
    """Everything that a relation has of an item, if it is allowed."""
    counts, mask = (NO_NUMBERS, NO_NUMBERS, NO_FLOATS, NO_FLOATS), NO_MASK if allowed is None else allowed
    return ItemRules(relation.indptr, relation.indices, *counts, 0.0, 0, 1.0, mask)


def rank_items(
    model: ItemRanker, users: Numbers, n: int, threads: int | None = None, options: Options = PLAIN
) -> Ranked:
    """The `n` best items of every user among those the user has not interacted with; -1 is somebody unknown.

    Of the options only `context_items` counts: they take the place of what somebody unknown has interacted with.
    """
    n, chosen = min(n, len(model.catalog_.items)), chosen_items(model.catalog_, options)
    ranked = Ranked(np.empty((len(users), n), np.int32), np.empty((len(users), n), np.float32))
    for start in range(0, len(users), CHUNK):
        part = slice(start, start + CHUNK)
        seen = seen_by(model.catalog_.user_items, users[part], chosen)
        queries = item_queries(model, users[part], chosen)
        ranked.numbers[part], ranked.scores[part] = model.item_search().top(queries, n, excluded=seen, threads=threads)
    return ranked


def chosen_items(catalog: Catalog, options: Options) -> Numbers:
    """The items of the context that are known, in the order of their numbers."""
    if not options.context_items:
        return np.empty(0, np.int32)
    numbers = catalog.items.numbers(list(options.context_items), missing="negative")
    return np.unique(numbers[numbers >= 0])


def item_queries(model: ItemRanker, users: Numbers, chosen: Numbers) -> Floats:
    """The queries of users for items; somebody unknown (-1) has that of the chosen items, if there are any."""
    queries = model.item_queries(users)
    if len(chosen) and (users < 0).any():
        queries[users < 0] = model.item_query_from(chosen)
    return queries


def seen_by(user_items: CSR, users: Numbers, chosen: Numbers) -> CSR:
    """The items of some users; of somebody unknown (-1) those chosen."""
    found, known = user_items.take(np.maximum(users, 0)), users >= 0
    if known.all():
        return found
    sizes = np.where(known, found.sizes(), len(chosen))
    theirs = np.repeat(known, sizes)
    indices = np.empty(len(theirs), np.int32)
    indices[theirs] = found.indices[np.repeat(known, found.sizes())]
    indices[~theirs] = np.tile(chosen, len(users) - int(known.sum()))
    return CSR(np.concatenate([[0], np.cumsum(sizes)]), indices, np.ones(len(indices), np.int32))
