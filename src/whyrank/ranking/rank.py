"""From a model and pairs, by number, to ranked explanations, by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.errors import ParameterError
from whyrank.kernels.backing import backed, first_of_aspects
from whyrank.kernels.lists import draw_lists
from whyrank.kernels.rng import key_of
from whyrank.ranking.diversity import diversify
from whyrank.ranking.form import Floats, Numbers, Scorer, given_mu
from whyrank.ranking.options import Options
from whyrank.ranking.request import Candidates
from whyrank.ranking.search import Search

Kept = TypeVar("Kept")
CHUNK = 8192  # pairs whose queries and lists are in memory at once
WHOLE = 1 << 22  # scores of whole pools that are in memory at once, for models that need them
PLAIN = Options.plain()
DRAWN_FROM = 20  # candidates of a drawn list at least; few enough that every chance is exact and quick
NO_MASK = np.empty(0, np.bool_)


class Ranked(NamedTuple):
    """Best first (or as drawn), one row per pair; -1 and -inf where there was nothing more to rank."""

    numbers: Numbers
    scores: Floats
    # The chance of each at its position, given those above it; None: nothing was drawn, so that it is 1.
    propensities: NDArray[np.float64] | None = None


class Ranker(Scorer, Protocol):
    """A fitted model, as far as ranking is concerned."""

    scores_n: ClassVar[bool]
    catalog_: Catalog

    def search(self) -> Search: ...

    def digest(self) -> str: ...


class ItemRanker(Ranker, Protocol):
    """A fitted model that ranks items too."""

    def item_queries(self, users: Numbers) -> Floats: ...

    def item_keys(self) -> Floats: ...

    def item_search(self) -> Search: ...

    def kept(self, key: object, make: Callable[[], Kept]) -> Kept: ...


def check_count(n: int) -> None:
    if not isinstance(n, int | np.integer) or n < 1:
        raise ParameterError(f"n is {n!r}; use a whole number, at least 1")


def check_mu(model: object, mu: float | None) -> None:
    if mu is not None and not hasattr(model, "mu"):
        raise ParameterError(f"{type(model).__name__} has no mu; leave it out")


def rank(
    model: Ranker,
    users: Numbers,
    items: Numbers,
    n: int,
    options: Options = PLAIN,
    threads: int | None = None,
) -> Ranked:
    """The `n` best explanations of every pair, exactly; memory grows with the answer, not with the pool."""
    check_count(n)
    check_mu(model, options.mu)
    n = min(n, len(model.catalog_.explanations))
    shape = (len(users), n)
    chances = np.empty(shape, np.float64) if options.drawn else None
    ranked = Ranked(np.empty(shape, np.int32), np.empty(shape, np.float32), chances)
    allowed, boost = options.allowed(model.catalog_), options.boost(model.catalog_)
    # A model that scores n explanations alone has to score them all where others may be the best.
    whole = model.scores_n and (options.grounded or allowed is not None or boost is not None)
    chunk = max(1, min(CHUNK, WHOLE // len(model.catalog_.explanations))) if whole else CHUNK
    for start in range(0, len(users), chunk):
        part = slice(start, start + chunk)
        if chances is not None:
            wanted = min(bounded(n), len(model.catalog_.explanations))
            best = _top(model, users[part], items[part], wanted, options, allowed, boost, whole, threads)
            rules, key = drawing(model.catalog_, options), key_of(options.draw)
            found = draw_lists(best[0], best[1], *rules, key, start, n)
            ranked.numbers[part], ranked.scores[part], chances[part] = found
        else:
            lists = _rank_chunk(model, users[part], items[part], n, options, allowed, boost, whole, threads)
            ranked.numbers[part], ranked.scores[part] = lists
    return ranked


def bounded(n: int) -> int:
    """How many candidates lists of `n` reasons are drawn from: the best by score of those that may be shown."""
    return max(DRAWN_FROM, 4 * n)


def drawing(catalog: Catalog, options: Options) -> tuple[NDArray[np.int32], NDArray[np.int8], int, bool, float, float]:
    """What the chances of a list depend on beside the candidates and their scores, as kernels take it."""
    limits = (int(options.per_aspect), bool(options.consistent))
    return catalog.aspect, catalog.signs, *limits, float(options.explore), float(options.epsilon)


def candidates(
    model: Ranker, users: Numbers, items: Numbers, n: int, options: Options, threads: int | None = None
) -> tuple[Numbers, Floats]:
    """What lists of `n` reasons are drawn from, best first, with scores: one row per pair, -1 where there are fewer."""
    shape = (len(users), min(bounded(n), len(model.catalog_.explanations)))
    numbers, scores = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
    allowed, boost = options.allowed(model.catalog_), options.boost(model.catalog_)
    for start in range(0, len(users), CHUNK):
        part = slice(start, start + CHUNK)
        found = _top(model, users[part], items[part], shape[1], options, allowed, boost, model.scores_n, threads)
        numbers[part], scores[part] = found
    return numbers, scores


def rank_items(model: ItemRanker, users: Numbers, n: int, threads: int | None = None) -> Ranked:
    """The `n` best items of every user among those the user has not interacted with; -1 is somebody unknown."""
    seen = model.catalog_.user_items
    n = min(n, len(model.catalog_.items))
    ranked = Ranked(np.full((len(users), n), -1, np.int32), np.full((len(users), n), -np.inf, np.float32))
    for start in range(0, len(users), CHUNK):
        part = slice(start, start + CHUNK)
        known = seen_by(seen, users[part])
        wanted = min(n + int(known.sizes().max(initial=0)), len(model.catalog_.items))
        numbers, scores = model.item_search().top(model.item_queries(users[part]), wanted, threads=threads)
        for row in range(len(numbers)):
            fresh = np.flatnonzero(~np.isin(numbers[row], known.row(row)) & (numbers[row] >= 0))[:n]
            ranked.numbers[start + row, : len(fresh)] = numbers[row, fresh]
            ranked.scores[start + row, : len(fresh)] = scores[row, fresh]
    return ranked


def seen_by(user_items: CSR, users: Numbers) -> CSR:
    """The items of some users; of somebody unknown (-1) none."""
    found = user_items.take(np.maximum(users, 0))
    if (users >= 0).all():
        return found
    sizes = np.where(users >= 0, found.sizes(), 0)
    kept = np.repeat(users >= 0, found.sizes())
    return CSR(np.concatenate([[0], np.cumsum(sizes)]), found.indices[kept], found.counts[kept])


def grounded_candidates(
    catalog: Catalog, items: Numbers, options: Options, allowed: NDArray[np.bool_] | None
) -> Candidates:
    """What people say about each item, as far as it is allowed and backed."""
    said = catalog.item_explanations
    if allowed is None and not options.backing and options.support <= 1 and options.distinctive >= 1:
        return Candidates.of_rows(said, items)
    people = catalog.people
    of_items = (said.indptr, said.indices, people.supporting, catalog.aspect, catalog.signs)
    of_aspects = (*people.item_aspects[:2], people.praising, people.blaming)
    mask = NO_MASK if allowed is None else allowed
    limits = (float(options.backing), int(options.support), float(options.distinctive))
    return Candidates(*backed(items, *of_items, *of_aspects, catalog.item_popularity, catalog.standing, *limits, mask))


def _rank_chunk(
    model: Ranker,
    users: Numbers,
    items: Numbers,
    n: int,
    options: Options,
    allowed: NDArray[np.bool_] | None,
    boost: Floats | None,
    whole: bool,
    threads: int | None,
) -> tuple[Numbers, Floats]:
    """Ask for more until every list is full or nothing is left, where not all that rank high may be shown."""
    catalog = model.catalog_
    pool, chosen = len(catalog.explanations), len(catalog.aspects) > 0 and (options.per_aspect or options.consistent)
    wanted = min(max(5 * n, 50) if options.diversity else 4 * n if chosen else n, pool)
    numbers, scores = np.full((len(users), n), -1, np.int32), np.full((len(users), n), -np.inf, np.float32)
    rows = np.arange(len(users))
    while len(rows):
        found = _top(model, users[rows], items[rows], wanted, options, allowed, boost, whole, threads)
        if options.diversity:
            numbers[rows], scores[rows] = diversify(catalog, *found, n, options)
        elif chosen:
            numbers[rows], scores[rows] = first_of_aspects(
                *(found[0], found[1], catalog.aspect, catalog.signs), options.per_aspect, options.consistent, n
            )
        else:
            return found
        if wanted == pool or not chosen:
            break
        rows = rows[(numbers[rows, -1] < 0) & (found[0][:, -1] >= 0)]
        wanted = min(4 * wanted, pool)
    return numbers, scores


def _top(
    model: Ranker,
    users: Numbers,
    items: Numbers,
    n: int,
    options: Options,
    allowed: NDArray[np.bool_] | None,
    boost: Floats | None,
    whole: bool,
    threads: int | None,
) -> tuple[Numbers, Floats]:
    """The best of what may be shown, by score alone."""
    candidates, mu = None, given_mu(options.mu)
    if options.grounded:
        candidates, allowed = grounded_candidates(model.catalog_, items, options, allowed), None
    return model.search().top(
        model.queries(users, items, **mu),
        n,
        bonus=model.bonus(users, items, len(model.catalog_.explanations) if whole else n, **mu),
        allowed=allowed,
        boost=boost,
        candidates=candidates,
        threads=threads,
    )
