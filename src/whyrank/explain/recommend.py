"""Items with reasons: first items then their reasons, or both at once and exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.errors import ParameterError
from whyrank.explain.goals import ChosenItems, choose_items
from whyrank.explain.options import ItemGoals, Options
from whyrank.explain.rank import (
    CHUNK,
    PLAIN,
    ItemRanker,
    Ranked,
    check_count,
    check_mu,
    chosen_items,
    fallback_of,
    item_queries,
    pair_places,
    rank,
    rank_items,
    seen_by,
    user_numbers,
)
from whyrank.explain.reasons import Reason, reasons
from whyrank.explain.result import explained
from whyrank.index.form import Floats, Numbers, given_mu
from whyrank.wording.templates import Templates

FIRST = 64  # items of the first round of a joint ranking; every round takes twice as many
PAIR = np.dtype(
    [
        ("item", np.int32),
        ("place", np.int32),
        ("explanation", np.int32),
        ("reason_score", np.float32),
        ("score", np.float32),
    ]
)
OFF = 2.0**-20  # times the size of a number: how far a few float32 operations on it can be off


@dataclass(frozen=True)
class Recommendation:
    """An item for a user, with its reasons."""

    item: str
    score: float
    reasons: list[Reason]
    fallback: str | None = None  # unknown_user, not_personal: by what is left of scores without the user

    def as_dict(self) -> dict[str, object]:
        return vars(self) | {"reasons": [each.as_dict() for each in self.reasons]}


@dataclass(frozen=True)
class RecommendedPair:
    """An item and one reason, ranked together; `score` is item score + weight x reason's score."""

    item: str
    score: float
    item_score: float
    reason: Reason

    def as_dict(self) -> dict[str, object]:
        return vars(self) | {"reason": self.reason.as_dict()}


def recommend(
    model: ItemRanker,
    user: object,
    n: int,
    how_many: int,
    options: Options,
    templates: Templates | None = None,
    goals: ItemGoals | None = None,
) -> list[Recommendation]:
    """The paper's two steps: the best items, then the best reasons for each; for an unknown user without their part."""
    check_count(n)
    users = user_numbers(model.catalog_, [str(user)], options)
    items, scores, _ = best_items(model, users, n, goals, options)
    ids = model.catalog_.items.terms(items).to_list()
    found: list[list[Reason]] = [[] for _ in items]
    if how_many > 0:
        repeated = np.repeat(users, len(items))
        named = ([str(user)] * len(ids), ids)
        places = pair_places(*named) if options.drawn else None
        lists = rank(model, repeated, items, how_many, options, places=places)
        found = reasons(explained(model, named, (repeated, items), lists, options, similar=True, templates=templates))
    fallback = fallback_of(options) if users[0] < 0 else None
    return [Recommendation(*each, fallback) for each in zip(ids, scores.tolist(), found, strict=True)]


def best_items(
    model: ItemRanker, users: Numbers, n: int, goals: ItemGoals | None = None, options: Options = PLAIN
) -> ChosenItems:
    """The items of one user (-1: unknown) in the order in which they are shown."""
    ranked = rank_items(model, users, n if goals is None else len(model.catalog_.items), 1, options)
    items = ranked.numbers[0][ranked.numbers[0] >= 0]
    scores = ranked.scores[0][: len(items)]
    if goals is None:
        return ChosenItems(items, scores, 1.0)
    return choose_items(model.catalog_, int(users[0]), items, scores, n, goals)


def recommend_pairs(
    model: ItemRanker,
    user: object,
    n: int,
    weight: float,
    options: Options,
    templates: Templates | None = None,
) -> list[RecommendedPair]:
    """The paper's Top(u, M) over all (item, explanation) pairs, exactly, without looking at all of them."""
    best = top_items_and_reasons(model, user, n, weight, options)
    ids = model.catalog_.items.terms(best.items).to_list()
    named = ([str(user)] * len(ids), ids)
    found = reasons(
        explained(model, named, (best.users, best.items), best.ranked, options, similar=True, templates=templates)
    )
    columns = zip(ids, best.scores.tolist(), best.item_scores.tolist(), found, strict=True)
    return [RecommendedPair(item, score, of_item, each[0]) for item, score, of_item, each in columns]


class BestPairs(NamedTuple):
    """Items and reasons that were ranked together, by number, best first."""

    users: Numbers
    items: Numbers
    ranked: Ranked  # one explanation each
    scores: Floats
    item_scores: Floats


def top_items_and_reasons(model: ItemRanker, user: object, n: int, weight: float, options: Options) -> BestPairs:
    """The best pairs of an item and a reason; of one item no more reasons of an aspect than one list may have.

    Items are looked at in the order of what a pair with them can reach, until no other can be among the best.
    """
    check_count(n)
    check_mu(model, options.mu)
    if not 1e-37 < weight < 1e37:
        raise ParameterError(f"weight is {weight}; use a number above 0 that float32 can hold")
    if options.diversity:
        raise ParameterError("pairs that are ranked together go by their scores alone; leave out diversity")
    if options.drawn:
        raise ParameterError("pairs that are ranked together are not drawn; leave out explore and epsilon")
    catalog = model.catalog_
    users, chosen = user_numbers(catalog, [str(user)], options), chosen_items(catalog, options)
    item_scores = (model.item_keys() @ item_queries(model, users, chosen)[0]).astype(np.float32)
    if not np.isfinite(item_scores).all():
        raise ParameterError("item scores hold NaN or infinity: the model has diverged, fit it again")
    left = np.ones(len(item_scores), np.bool_)
    left[seen_by(catalog.user_items, users, chosen).row(0)] = False
    items = np.flatnonzero(left).astype(np.int32)
    reach = _reach(model, users, items, item_scores[items], weight, options)
    order = np.argsort(-reach, kind="stable")
    items, reach = items[order], reach[order]
    best, done, step = np.empty(0, PAIR), 0, CHUNK if options.grounded else FIRST
    while done < len(items) and (len(best) < n or reach[done] >= best["score"][-1]):
        some = items[done : done + step]
        lists = rank(model, np.repeat(users, len(some)), some, n, options)
        best = _best(np.concatenate([best, _pairs(some, lists, item_scores[some], weight)]), n)
        done, step = done + len(some), min(2 * step, CHUNK)
    items, columns = best["item"].copy(), (best["explanation"][:, None], best["reason_score"][:, None])
    ranked = Ranked(*(np.ascontiguousarray(each) for each in columns))
    return BestPairs(np.repeat(users, len(items)), items, ranked, best["score"].copy(), item_scores[items])


def _pairs(items: Numbers, lists: Ranked, item_scores: Floats, weight: float) -> NDArray[np.void]:
    """Every item with each of its reasons."""
    row, place = np.nonzero(lists.numbers >= 0)
    found = np.empty(len(row), PAIR)
    found["item"], found["place"], found["explanation"] = items[row], place, lists.numbers[row, place]
    found["reason_score"] = lists.scores[row, place]
    found["score"] = item_scores[row] + np.float32(weight) * found["reason_score"]
    return found


def _best(pairs: NDArray[np.void], n: int) -> NDArray[np.void]:
    """The `n` best pairs: equal scores go by item, then by place in its list."""
    return pairs[np.lexsort((pairs["place"], pairs["item"], -pairs["score"]))[:n]]


def _reach(
    model: ItemRanker, users: Numbers, items: Numbers, item_scores: Floats, weight: float, options: Options
) -> NDArray[np.float64]:
    """What no pair with each item exceeds; of grounded lists, which are short, nothing is known."""
    if options.grounded:
        return np.full(len(items), np.inf)
    mu, bounds = given_mu(options.mu), np.empty(len(items), np.float64)
    allowed, boost = options.allowed(model.catalog_), options.boost(model.catalog_)
    for start in range(0, len(items), CHUNK):
        some = items[start : start + CHUNK]
        pairs = (np.repeat(users, len(some)), some)
        found = model.search().bounds(model.queries(*pairs, **mu), allowed=allowed, boost=boost).astype(np.float64)
        bonus = model.bonus(*pairs, len(model.catalog_.explanations) if model.scores_n else 1, **mu)
        if bonus is not None:
            highest = np.zeros(len(some))
            np.maximum.at(highest, np.repeat(np.arange(len(some)), np.diff(bonus.indptr)), bonus.values)
            found += highest + OFF * (np.abs(np.where(np.isfinite(found), found, 0)) + highest)
        bounds[start : start + CHUNK] = found
    own, most = item_scores.astype(np.float64), weight * bounds
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(most), own + most + OFF * (np.abs(own) + np.abs(most)), most)
