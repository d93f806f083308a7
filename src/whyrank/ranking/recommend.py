"""Items with reasons: first items then their reasons, or both at once and exactly."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from whyrank.errors import ParameterError
from whyrank.ranking.form import Floats, Numbers
from whyrank.ranking.joint import PartBound, top_pairs
from whyrank.ranking.options import Options
from whyrank.ranking.rank import ItemRanker, Ranked, check_count, rank, rank_items
from whyrank.ranking.reasons import Reason, bonus_of, reasons
from whyrank.ranking.request import Candidates

KEPT = 16  # values of mu whose bounds of items are kept


@dataclass(frozen=True)
class Recommendation:
    """An item for a user, with its reasons."""

    item: str
    score: float
    reasons: list[Reason]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class RecommendedPair:
    """An item and one reason, ranked together; `score` is item score + weight x reason's score."""

    item: str
    score: float
    item_score: float
    reason: Reason

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def recommend(model: ItemRanker, user: object, n: int, how_many: int, options: Options) -> list[Recommendation]:
    """The paper's two steps: the best items, then the best reasons for each."""
    check_count(n)
    users = model.catalog_.users.numbers([user])
    ranked = rank_items(model, users, n)
    items = ranked.numbers[0][ranked.numbers[0] >= 0]
    scores = ranked.scores[0][: len(items)]
    repeated = np.repeat(users, len(items))
    found: list[list[Reason]] = [[] for _ in items]
    if how_many > 0:
        found = reasons(model, repeated, items, rank(model, repeated, items, how_many, options))
    ids = model.catalog_.items.terms(items).to_list()
    return [Recommendation(*each) for each in zip(ids, scores.tolist(), found, strict=True)]


def recommend_pairs(model: ItemRanker, user: object, n: int, weight: float, options: Options) -> list[RecommendedPair]:
    """The paper's Top(u, M) over all (item, explanation) pairs, exactly, without looking at all of them."""
    check_count(n)
    if not 1e-37 < weight < 1e37:
        raise ParameterError(f"weight is {weight}; use a number above 0 that float32 can hold")
    if options.diversity:
        raise ParameterError("pairs that are ranked together go by their scores alone; leave out diversity")
    catalog = model.catalog_
    boost = options.boost(catalog)
    users = catalog.users.numbers([user])
    item_scores = (model.item_keys() @ model.item_queries(users)[0]).astype(np.float32)

    def with_user(items: Numbers) -> tuple[Numbers, Numbers]:
        return np.repeat(users, len(items)), items

    best = top_pairs(
        item_scores,
        lambda items: model.queries(*with_user(items)),
        model.search(),
        n,
        weight=weight,
        excluded=catalog.user_items.row(int(users[0])),
        bounds=_bounds(model, users) if boost is None else None,
        bonus_of=lambda items: model.bonus(*with_user(items), n),
        allowed=options.allowed(catalog),
        boost=boost,
        candidates_of=(lambda items: Candidates.of_rows(catalog.item_explanations, items))
        if options.grounded
        else None,
    )
    ranked = Ranked(best.explanations[:, None], _scores(model, *with_user(best.items), best.explanations, boost))
    found = reasons(model, *with_user(best.items), ranked)
    ids = catalog.items.terms(best.items).to_list()
    scores, of_items = best.scores.tolist(), item_scores[best.items].tolist()
    return [
        RecommendedPair(item, score, of_item, each[0])
        for item, score, of_item, each in zip(ids, scores, of_items, found, strict=True)
    ]


def _scores(model: ItemRanker, users: Numbers, items: Numbers, explanations: Numbers, boost: Floats | None) -> Floats:
    """The score of one explanation for each pair, in a column."""
    scores = model.search().scores(model.queries(users, items), explanations[:, None], boost=boost)
    bonus = model.bonus(users, items, 1)
    return scores if bonus is None else scores + bonus_of(bonus, np.arange(len(users)), explanations)[:, None]


def _bounds(model: ItemRanker, users: Numbers) -> Floats | None:
    """What no reason's score exceeds, per item, where scores are a user's part plus an item's part.

    The item's part is the same for all users, so it is kept. Elsewhere the search's own bounds serve.
    """
    blocks, nobody = model.blocks(), np.full(1, -1, np.int32)
    of_user = model.bonus_parts(users, nobody).get("user")
    if [block.name for block in blocks[:2]] != ["user", "item"] or (
        of_user is None and model.bonus(users[:0], users[:0], 1) is not None
    ):
        return None
    keys, (width, other) = model.keys(), (blocks[0].width, blocks[1].width)

    def items_best() -> Floats:
        everyone = np.arange(len(model.catalog_.items), dtype=np.int32)
        unknown = np.repeat(nobody, len(everyone))
        bonus = model.bonus_parts(unknown, everyone).get("item")
        return PartBound(keys, range(width, width + other))(model.queries(unknown, everyone), bonus)

    mu, by_mu = getattr(model, "mu", None), model.kept("bounds", dict[object, Floats])
    items_part = by_mu.get(mu)  # held here: other threads may clear what is kept
    if items_part is None:
        items_part = items_best()
        if len(by_mu) >= KEPT:
            by_mu.clear()
        by_mu[mu] = items_part
    rest = [*range(width), *range(width + other, keys.shape[1])]
    users_part = model.kept("user's part", lambda: PartBound(keys, rest))(model.queries(users, nobody), of_user)
    return np.nextafter(items_part + users_part[0], np.float32(np.inf))
