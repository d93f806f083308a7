"""From a model and pairs, by number, to ranked explanations, by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.errors import ParameterError
from whyrank.ranking.diversity import diversify
from whyrank.ranking.form import Floats, Numbers, Scorer
from whyrank.ranking.options import Options
from whyrank.ranking.request import Candidates
from whyrank.ranking.search import Search

Kept = TypeVar("Kept")
CHUNK = 8192  # pairs whose queries and lists are in memory at once
WHOLE = 1 << 22  # scores of whole pools that are in memory at once, for models that need them
PLAIN = Options()


class Ranked(NamedTuple):
    """Best first, one row per pair; -1 and -inf where there was nothing more to rank."""

    numbers: Numbers
    scores: Floats


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
    n = min(n, len(model.catalog_.explanations))
    ranked = Ranked(np.empty((len(users), n), np.int32), np.empty((len(users), n), np.float32))
    allowed, boost = options.allowed(model.catalog_), options.boost(model.catalog_)
    # A model that scores n explanations alone has to score them all where others may be the best.
    whole = model.scores_n and (options.grounded or allowed is not None or boost is not None)
    chunk = max(1, min(CHUNK, WHOLE // len(model.catalog_.explanations))) if whole else CHUNK
    for start in range(0, len(users), chunk):
        part = slice(start, start + chunk)
        found = _rank_chunk(model, users[part], items[part], n, options, allowed, boost, whole, threads)
        ranked.numbers[part], ranked.scores[part] = found
    return ranked


def rank_items(model: ItemRanker, users: Numbers, n: int, threads: int | None = None) -> Ranked:
    """The `n` best items of every user among those the user has not interacted with."""
    seen = model.catalog_.user_items
    n = min(n, len(model.catalog_.items))
    ranked = Ranked(np.full((len(users), n), -1, np.int32), np.full((len(users), n), -np.inf, np.float32))
    for start in range(0, len(users), CHUNK):
        part = slice(start, start + CHUNK)
        known = seen.take(users[part])
        wanted = min(n + int(known.sizes().max(initial=0)), len(model.catalog_.items))
        numbers, scores = model.item_search().top(model.item_queries(users[part]), wanted, threads=threads)
        for row in range(len(numbers)):
            fresh = np.flatnonzero(~np.isin(numbers[row], known.row(row)) & (numbers[row] >= 0))[:n]
            ranked.numbers[start + row, : len(fresh)] = numbers[row, fresh]
            ranked.scores[start + row, : len(fresh)] = scores[row, fresh]
    return ranked


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
    wanted = n if not options.diversity else min(max(5 * n, 50), len(model.catalog_.explanations))
    candidates = None
    if options.grounded:
        candidates = Candidates.of_rows(model.catalog_.item_explanations, items)
    numbers, scores = model.search().top(
        model.queries(users, items),
        wanted,
        bonus=model.bonus(users, items, len(model.catalog_.explanations) if whole else wanted),
        allowed=allowed,
        boost=boost,
        candidates=candidates,
        threads=threads,
    )
    if options.diversity:
        return diversify(model.catalog_, numbers, scores, n, options.diversity)
    return numbers, scores
