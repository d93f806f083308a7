"""Objectives of lists of items beyond their scores: serendipity, and a minimum share of the places for groups."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.explain.options import ItemGoals
from whyrank.index.form import Floats, Numbers

POOL = 10  # times as many of the best items as are asked for, among which unexpected ones are looked for


class ChosenItems(NamedTuple):
    """Items in the order in which they are shown, with the model's scores, and what is left of the list's NDCG."""

    items: Numbers
    scores: Floats
    ndcg: float  # by the model's own scores, from 0 (the worst candidate) to 1; 1 is the list by score alone


def choose_items(
    catalog: Catalog, user: int, numbers: Numbers, scores: Floats, n: int, goals: ItemGoals
) -> ChosenItems:
    """The list that serves the goals best: `numbers` are the candidates, best first, all that may be shown.

    Under shares it is exact: no other list that keeps them has a larger DCG.
    """
    span = max(float(scores[0] - scores[-1]), 1e-12) if len(scores) else 1.0
    gains = (scores.astype(np.float64) - float(scores[-1] if len(scores) else 0)) / span
    value = gains
    if goals.serendipity:
        near = slice(0, POOL * n)
        value = gains - 2.0  # below all that are near
        mixed = goals.serendipity * unexpected(catalog, user, numbers[near])
        value[near] = (1 - goals.serendipity) * gains[near] + mixed
    order = np.argsort(-value, kind="stable")
    group = _groups(catalog, numbers[order], goals)
    chosen = order[fair_places(group, list(goals.shares.values()), n)]
    best = gains[: len(chosen)]
    discounts = 1 / np.log2(np.arange(2, len(chosen) + 2))
    ideal = float((best * discounts).sum())
    return ChosenItems(
        numbers[chosen], scores[chosen], float((gains[chosen] * discounts).sum()) / ideal if ideal else 1.0
    )


def fair_places(group: NDArray[np.int64], shares: list[float], n: int) -> NDArray[np.int64]:
    """Which candidates, best first, fill `n` places so that each group g has floor(shares[g] x k) of the first k.

    Takes the best candidate at every place after which everything that is still owed can be kept; -1 is no group. A
    group that runs out owes nothing more.
    """
    count = min(n, len(group))
    left = [int((group == g).sum()) for g in range(len(shares))]
    owed = np.array(
        [[min(math.floor(share * k + 1e-9), left[g]) for g, share in enumerate(shares)] for k in range(1, count + 1)],
        np.int64,
    ).reshape(count, len(shares))
    have, taken = np.zeros(len(shares), np.int64), np.zeros(len(group), np.bool_)
    chosen = np.empty(count, np.int64)
    for place in range(count):
        # After this place, every later deadline must leave room for what is missing until then.
        room = np.arange(count - place)
        missing = np.maximum(owed[place:] - have, 0)
        tight = missing.sum(1) > room
        allowed = ~taken
        for deadline in np.flatnonzero(tight):
            allowed &= np.isin(group, np.flatnonzero(missing[deadline] > 0))
        best = int(np.flatnonzero(allowed)[0]) if allowed.any() else int(np.flatnonzero(~taken)[0])
        chosen[place], taken[best] = best, True
        if group[best] >= 0:
            have[group[best]] += 1
    return chosen


def unexpected(catalog: Catalog, user: int, items: Numbers) -> NDArray[np.float64]:
    """From 0 to 1: how little an item is like the user's own, by what people say about them, and how little known."""
    said = catalog.item_explanations
    pool = len(catalog.explanations)
    own = catalog.user_items.row(user) if user >= 0 else np.empty(0, np.int32)
    history = np.zeros(pool)
    for item in own:
        row = said.row(int(item))
        history[row] += 1 / max(np.sqrt(len(row)), 1.0)
    length = max(float(np.sqrt((history**2).sum())), 1e-12)
    rows = [said.row(item) for item in items.tolist()]
    like = np.array([history[row].sum() / max(np.sqrt(len(row)), 1.0) for row in rows]) / length
    places = catalog.item_ranks[items] / max(len(catalog.items) - 1, 1)  # 0: the most popular
    return np.asarray(0.5 * (1 - np.clip(like, 0, 1)) + 0.5 * places)


def _groups(catalog: Catalog, items: Numbers, goals: ItemGoals) -> NDArray[np.int64]:
    """The number of each item's group among those with a share, -1 for others."""
    number = {name: place for place, name in enumerate(goals.shares)}
    ids = catalog.items.terms(items).to_list()
    return np.array([number.get(goals.groups.get(item, ""), -1) for item in ids], np.int64)
