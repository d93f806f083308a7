"""Items with reasons: first items then their reasons, or both at once and exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.people import places as entries_of
from whyrank.errors import ParameterError
from whyrank.explain.goals import ChosenItems, choose_items
from whyrank.explain.options import ItemGoals, Options
from whyrank.explain.rank import (
    PLAIN,
    ItemRanker,
    Ranked,
    check_count,
    check_mu,
    chosen_items,
    fallback_of,
    grounded_candidates,
    item_queries,
    pair_places,
    rank,
    rank_items,
    seen_by,
    user_numbers,
)
from whyrank.explain.reasons import Reason, reasons
from whyrank.explain.result import explained
from whyrank.explain.topics import groups_of
from whyrank.index._backing import first_of_aspects
from whyrank.index.form import Candidates, Floats, Numbers, bonus_of, given_mu
from whyrank.index.joint import PartBound, TopPairs, top_pairs
from whyrank.wording.templates import Templates

KEPT = 16  # values of mu whose bounds of items are kept


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
    """The best pairs of an item and a reason; of one item no more reasons of an aspect than one list may have."""
    check_count(n)
    check_mu(model, options.mu)
    if not 1e-37 < weight < 1e37:
        raise ParameterError(f"weight is {weight}; use a number above 0 that float32 can hold")
    if options.diversity:
        raise ParameterError("pairs that are ranked together go by their scores alone; leave out diversity")
    if options.drawn:
        raise ParameterError("pairs that are ranked together are not drawn; leave out explore and epsilon")
    catalog, mu = model.catalog_, given_mu(options.mu)
    allowed, boost = options.allowed(catalog), options.boost(catalog)
    users = user_numbers(catalog, [str(user)], options)
    chosen = chosen_items(catalog, options)
    item_scores = (model.item_keys() @ item_queries(model, users, chosen)[0]).astype(np.float32)
    bounds = _bounds(model, users, options.mu) if boost is None else None
    worth = worth_bounds(catalog) if options.grounded else None

    def with_user(items: Numbers) -> tuple[Numbers, Numbers]:
        return np.repeat(users, len(items)), items

    def candidates(items: Numbers) -> Candidates:
        return grounded_candidates(catalog, items, options, allowed)

    wanted = n
    while True:
        best = top_pairs(
            item_scores,
            lambda items: model.queries(*with_user(items), **mu),
            model.search(),
            wanted,
            weight=weight,
            excluded=seen_by(catalog.user_items, users, chosen).row(0),
            bounds=bounds,
            extra=worth,
            bonus_of=lambda items: model.bonus(*with_user(items), wanted, **mu),  # noqa: B023 - used at once
            allowed=allowed,
            boost=boost,
            candidates_of=candidates if options.grounded else None,
        )
        kept = _fit_to_show(catalog, best, options)[:n]
        if len(kept) == n or len(best.items) < wanted:
            break
        wanted *= 4
    items, explanations = best.items[kept], best.explanations[kept]
    scores = _scores(model, *with_user(items), explanations, boost, options.mu)
    scores += worth_of(catalog, items, explanations)[:, None] if options.grounded else 0
    return BestPairs(*with_user(items), Ranked(explanations[:, None], scores), best.scores[kept], item_scores[items])


def worth_bounds(catalog: Catalog) -> Floats | None:
    """What worth adds at most to the score of a reason of each item; None: nothing."""
    added = catalog.worth_added
    if not len(added):
        return None
    most = np.zeros(len(catalog.items), np.float32)
    np.maximum.at(most, catalog.item_explanations.rows_of_entries(), added)
    return most


def worth_of(catalog: Catalog, items: Numbers, explanations: Numbers) -> Floats:
    """What worth adds to the scores of reasons that may be shown."""
    added = catalog.worth_added
    if not len(added):
        return np.zeros(len(items), np.float32)
    return added[entries_of(catalog.item_explanations, items, explanations, len(catalog.explanations))]


def _fit_to_show(catalog: Catalog, best: TopPairs, options: Options) -> NDArray[np.int64]:
    """Which of the pairs remain when the reasons of every item are chosen as those of a list."""
    if not len(catalog.aspects) or not (options.per_aspect or options.consistent):
        return np.arange(len(best.items))
    order = np.argsort(best.items, kind="stable")
    kept = []
    for places in np.split(order, np.flatnonzero(np.diff(best.items[order])) + 1):
        numbers = best.explanations[places][None, :]
        limits = (groups_of(catalog), catalog.signs, options.per_aspect, options.consistent)
        chosen = first_of_aspects(numbers, best.scores[places][None, :], *limits, len(places))[0][0]
        kept.append(places[np.isin(numbers[0], chosen[chosen >= 0])])
    return np.sort(np.concatenate(kept))


def _scores(
    model: ItemRanker, users: Numbers, items: Numbers, explanations: Numbers, boost: Floats | None, mu: float | None
) -> Floats:
    """The score of one explanation for each pair, in a column."""
    weight = given_mu(mu)
    scores = model.search().scores(model.queries(users, items, **weight), explanations[:, None], boost=boost)
    bonus = model.bonus(users, items, 1, **weight)
    return scores if bonus is None else scores + bonus_of(bonus, np.arange(len(users)), explanations)[:, None]


def _bounds(model: ItemRanker, users: Numbers, mu: float | None) -> Floats | None:
    """What no reason's score exceeds, per item, where scores are a user's part plus an item's part.

    The item's part is the same for all users, so it is kept. Elsewhere the search's own bounds serve.
    """
    blocks, nobody, weight = model.blocks(), np.full(1, -1, np.int32), given_mu(mu)
    of_user = model.bonus_parts(users, nobody, **weight).get("user")
    if [block.name for block in blocks[:2]] != ["user", "item"] or (
        of_user is None and model.bonus(users[:0], users[:0], 1) is not None
    ):
        return None
    keys, (width, other) = model.keys(), (blocks[0].width, blocks[1].width)

    def items_best() -> Floats:
        everyone = np.arange(len(model.catalog_.items), dtype=np.int32)
        unknown = np.repeat(nobody, len(everyone))
        bonus = model.bonus_parts(unknown, everyone, **weight).get("item")
        return PartBound(keys, range(width, width + other))(model.queries(unknown, everyone, **weight), bonus)

    mu, by_mu = getattr(model, "mu", None) if mu is None else mu, model.cached("bounds", dict[object, Floats])
    items_part = by_mu.get(mu)  # held here: other threads may clear what is kept
    if items_part is None:
        items_part = items_best()
        if len(by_mu) >= KEPT:
            by_mu.clear()
        by_mu[mu] = items_part
    rest = [*range(width), *range(width + other, keys.shape[1])]
    users_part = model.cached("user's part", lambda: PartBound(keys, rest))(
        model.queries(users, nobody, **weight), of_user
    )
    return np.nextafter(items_part + users_part[0], np.float32(np.inf))
