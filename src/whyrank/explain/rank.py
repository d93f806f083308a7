"""From a model and pairs, by number, to ranked explanations, by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import ClassVar, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.errors import ParameterError
from whyrank.explain._lists import draw_lists
from whyrank.explain.diversity import diversify
from whyrank.explain.options import Options
from whyrank.explain.topics import groups_of
from whyrank.index._backing import backed, first_of_aspects
from whyrank.index._grounded import Backed
from whyrank.index.form import Candidates, Floats, Numbers, Scorer, given_mu
from whyrank.index.search import Search
from whyrank.rng import key_of

Cached = TypeVar("Cached")
Places = NDArray[np.uint64]
CHUNK = 8192  # pairs whose queries and lists are in memory at once
WHOLE = 1 << 22  # scores of whole pools that are in memory at once, for models that need them
PLAIN = Options.plain()
CHOSEN = 4  # times as many as a list takes are looked at first, where not all of the best may be in it
DRAWN_FROM = 20  # candidates of a drawn list at least; few enough that every chance is exact and quick
NO_MASK = np.empty(0, np.bool_)
BOOSTS = 16  # cached of a catalog
PLANS = 64  # cached of a catalog
_boosts: WeakKeyDictionary[Catalog, dict[tuple[float, float], tuple[Floats | None]]] = WeakKeyDictionary()
_plans: WeakKeyDictionary[Catalog, dict[int, tuple[Options, AppliedOptions]]] = WeakKeyDictionary()


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
    rules: Backed | None  # of grounded lists alone: they need the people and the sentiment of everything


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
    plan = _plan(model.catalog_, options)
    # A model that scores n explanations alone has to score them all where others may be the best.
    narrowed = options.grounded or among is not None or plan.allowed is not None or plan.boost is not None
    whole = model.scores_n and narrowed
    chunk = max(1, min(CHUNK, WHOLE // len(model.catalog_.explanations))) if whole else CHUNK
    given = (plan, whole, threads, among)
    places = np.arange(len(users), dtype=np.uint64) if places is None and options.drawn else places
    if len(users) <= chunk:
        return _lists(model, users, items, n, options, *given, places)
    shape = (len(users), n)
    chances = np.empty(shape, np.float64) if options.drawn else None
    ranked = Ranked(np.empty(shape, np.int32), np.empty(shape, np.float32), chances)
    for start in range(0, len(users), chunk):
        part = slice(start, start + chunk)
        found = _lists(model, users[part], items[part], n, options, *given, None if places is None else places[part])
        ranked.numbers[part], ranked.scores[part] = found.numbers, found.scores
        if chances is not None:
            chances[part] = found.propensities
    return ranked


def _lists(
    model: Ranker,
    users: Numbers,
    items: Numbers,
    n: int,
    options: Options,
    plan: AppliedOptions,
    whole: bool,
    threads: int | None,
    among: CSR | None,
    places: Places | None,
) -> Ranked:
    """Lists by score, or drawn; draws of pairs differ by `places`."""
    if not options.drawn:
        if options.grounded and among is None and not options.diversity:
            return _backed(model, users, items, n, options.mu, plan, whole, threads)
        return Ranked(*_rank_chunk(model, users, items, n, options, plan, whole, threads, among))
    wanted = min(bounded(n), len(model.catalog_.explanations))
    best = _top(model, users, items, wanted, options, plan, whole, threads, among)
    numbers, scores = best
    assert places is not None
    return Ranked(*draw_lists(numbers, scores, *drawing(model.catalog_, options), key_of(options.draw), places, n))


def _backed(
    model: Ranker,
    users: Numbers,
    items: Numbers,
    n: int,
    weight: float | None,
    plan: AppliedOptions,
    whole: bool,
    threads: int | None,
) -> Ranked:
    """Grounded lists in one call, as `_rank_chunk` makes them in several."""
    assert plan.rules is not None
    mu, pool = given_mu(weight), len(model.catalog_.explanations)
    queries = model.queries(users, items, **mu)
    bonus = model.bonus(users, items, pool if whole else CHOSEN * n, **mu)
    found = model.search().backed(queries, items, n, plan.rules, bonus=bonus, boost=plan.boost, threads=threads)
    return Ranked(*found, queries=queries)


def _plan(catalog: Catalog, options: Options) -> AppliedOptions:
    """Made once for a catalog, unless a request has wishes of its own: lists of ids and words may change."""
    if options.boosts or options.exclude or options.banned or options.keep is not None or _context(options):
        return _planned(catalog, options)
    plans = _plans.setdefault(catalog, {})
    known = plans.get(id(options))
    if known is not None:
        return known[1]
    if len(plans) >= PLANS:
        plans.clear()
    plan = _planned(catalog, options)
    plans[id(options)] = options, plan  # as long as the options are here, no others have their id
    return plan


def _planned(catalog: Catalog, options: Options) -> AppliedOptions:
    allowed = options.allowed(catalog)
    rules = _rules(catalog, options, allowed) if options.grounded else None
    return AppliedOptions(allowed, _boost(catalog, options), rules)


def _context(options: Options) -> bool:
    return bool(options.query or options.context_items or options.context_aspects)


def _rules(catalog: Catalog, options: Options, allowed: NDArray[np.bool_] | None) -> Backed:
    """What the options say about what is backed, and about lists."""
    said, people, chooses = catalog.item_explanations, catalog.people, len(catalog.aspects) > 0
    return Backed(
        said.indptr,
        said.indices,
        people.supporting,
        catalog.opposing,
        catalog.standing,
        catalog.worth_added,
        float(options.backing),
        int(options.support),
        float(options.distinctive),
        NO_MASK if allowed is None else allowed,
        groups_of(catalog),
        catalog.signs,
        int(options.per_aspect) if chooses else 0,
        bool(options.consistent) and chooses,
    )


def _boost(catalog: Catalog, options: Options) -> Floats | None:
    """What options add to scores, made once for a catalog unless a request has wishes of its own."""
    if options.boosts or _context(options):
        return options.boost(catalog)
    cached, key = _boosts.setdefault(catalog, {}), (options.specificity, options.vague)
    known = cached.get(key)  # another thread may clear it any time
    if known is not None:
        return known[0]
    if len(cached) >= BOOSTS:
        cached.clear()
    made = options.boost(catalog)
    if made is not None:
        made.flags.writeable = False  # so that searches may recognize it
    cached[key] = (made,)
    return made


def bounded(n: int) -> int:
    """How many candidates lists of `n` reasons are drawn from: the best by score of those that may be shown."""
    return max(DRAWN_FROM, 4 * n)


def drawing(catalog: Catalog, options: Options) -> tuple[NDArray[np.int32], NDArray[np.int8], int, bool, float, float]:
    """What the chances of a list depend on beside the candidates and their scores, as kernels take it."""
    limits = (int(options.per_aspect), bool(options.consistent))
    return groups_of(catalog), catalog.signs, *limits, float(options.explore), float(options.epsilon)


def candidates(
    model: Ranker, users: Numbers, items: Numbers, n: int, options: Options, threads: int | None = None
) -> tuple[Numbers, Floats]:
    """What lists of `n` reasons are drawn from, best first, with scores: one row per pair, -1 where there are fewer."""
    shape = (len(users), min(bounded(n), len(model.catalog_.explanations)))
    numbers, scores = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
    plan = _plan(model.catalog_, options)
    chunk = max(1, min(CHUNK, WHOLE // len(model.catalog_.explanations))) if model.scores_n else CHUNK
    for start in range(0, len(users), chunk):
        part = slice(start, start + chunk)
        found = _top(model, users[part], items[part], shape[1], options, plan, model.scores_n, threads, None)
        numbers[part], scores[part] = found
    return numbers, scores


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


def grounded_candidates(
    catalog: Catalog, items: Numbers, options: Options, allowed: NDArray[np.bool_] | None
) -> Candidates:
    """What people say about each item, as far as it is allowed and backed."""
    said = catalog.item_explanations
    every = allowed is None and not options.backing and options.support <= 1 and options.distinctive >= 1
    if every and not len(catalog.worth_added):
        return Candidates.of_rows(said, items)
    return Candidates(*backed(items, *_rules(catalog, options, allowed)[:-4]))


def _rank_chunk(
    model: Ranker,
    users: Numbers,
    items: Numbers,
    n: int,
    options: Options,
    plan: AppliedOptions,
    whole: bool,
    threads: int | None,
    among: CSR | None,
) -> tuple[Numbers, Floats]:
    """Ask for more until every list is full or nothing is left, where not all that rank high may be shown."""
    catalog = model.catalog_
    pool, chosen = len(catalog.explanations), len(catalog.aspects) > 0 and (options.per_aspect or options.consistent)
    wanted = min(max(5 * n, 50) if options.diversity else CHOSEN * n if chosen else n, pool)
    found = _top(model, users, items, wanted, options, plan, whole, threads, among)
    if not (options.diversity or chosen):
        return found
    lists = _chosen(catalog, found, n, options)
    rows = _unfinished(found, lists) if chosen else np.empty(0, np.int64)
    while len(rows) and wanted < pool:
        wanted = min(4 * wanted, pool)
        found = _top(model, users[rows], items[rows], wanted, options, plan, whole, threads, among)
        more = _chosen(catalog, found, n, options)
        lists[0][rows], lists[1][rows] = more
        rows = rows[_unfinished(found, more)]
    return lists


def _chosen(catalog: Catalog, found: tuple[Numbers, Floats], n: int, options: Options) -> tuple[Numbers, Floats]:
    """What a list takes of the best that were found."""
    if options.diversity:
        return diversify(catalog, *found, n, options)
    return first_of_aspects(*found, groups_of(catalog), catalog.signs, options.per_aspect, options.consistent, n)


def _unfinished(found: tuple[Numbers, Floats], lists: tuple[Numbers, Floats]) -> NDArray[np.int64]:
    """Lists that are not full where more could have been found."""
    return np.flatnonzero((lists[0][:, -1] < 0) & (found[0][:, -1] >= 0))


def _top(
    model: Ranker,
    users: Numbers,
    items: Numbers,
    n: int,
    options: Options,
    plan: AppliedOptions,
    whole: bool,
    threads: int | None,
    among: CSR | None,
) -> tuple[Numbers, Floats]:
    """The best of what may be shown, by score alone."""
    mu, search = given_mu(options.mu), model.search()
    queries = model.queries(users, items, **mu)
    bonus = model.bonus(users, items, len(model.catalog_.explanations) if whole else n, **mu)
    if among is not None:
        given, allowed = Candidates.of_rows(among, items), plan.allowed
    elif options.grounded:
        given, allowed = grounded_candidates(model.catalog_, items, options, plan.allowed), None
    else:
        return search.top(
            queries, n, pairs=(users, items), bonus=bonus, allowed=plan.allowed, boost=plan.boost, threads=threads
        )
    return search.among(queries, n, given, bonus=bonus, allowed=allowed, boost=plan.boost, threads=threads)
