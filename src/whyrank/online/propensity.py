"""How likely a model, with its options, would have shown what was shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.explain._drawn import along_lists, at_positions
from whyrank.explain.options import Options
from whyrank.explain.rank import CHUNK, Ranker, candidates, drawing
from whyrank.online.rewards import ShownLists, Values

DEEPEST = 3  # positions whose chances, whatever stands above, are quickly computed exactly


class Policy(NamedTuple):
    """A model and the options under which lists of it are shown."""

    model: Ranker
    options: Options = Options()


class Along(NamedTuple):
    """The chances of shown lists under a policy; one row per list."""

    chance: Values  # of each reason given those above it; at the end: that nothing more is shown
    expected: Values  # what the policy would get at each position, by a table of rewards


class Part(NamedTuple):
    """Lists that asked for the same number of reasons, and what theirs are drawn from."""

    rows: NDArray[np.int64]
    asked: int
    numbers: NDArray[np.int32]
    scores: NDArray[np.float32]


def along(policy: Policy, lists: ShownLists, rewards: tuple[Values, Values], fold: NDArray[np.int64]) -> Along:
    """Compute how likely each shown reason is given those above it.

    `rewards` are tables (explanation x position), one for the lists of each fold.
    """
    catalog = policy.model.catalog_
    shown, cut = lists.numbers(catalog)
    chance, expected = np.ones(shown.shape), np.zeros(shown.shape)
    rules = drawing(catalog, policy.options)
    for part in _parts(policy, lists):
        for side in (0, 1):
            own = fold[part.rows] == side
            rows = part.rows[own]
            drawn = (part.numbers[own], part.scores[own], rules, shown[rows, : part.asked])
            found = along_lists(*drawn, rewards[side])
            chance[rows, : part.asked], expected[rows, : part.asked] = found
    chance[cut] = 0.0
    return Along(chance, expected)


def anywhere(policy: Policy, lists: ShownLists) -> Values:
    """Compute the chance of each shown reason at its position; for lists of up to three."""
    catalog = policy.model.catalog_
    shown, _ = lists.numbers(catalog)
    chance, rules = np.zeros(shown.shape), drawing(catalog, policy.options)
    for part in _parts(policy, lists):
        own = shown[part.rows, : part.asked]
        chance[part.rows, : part.asked] = at_positions(part.numbers, part.scores, rules, own)
    return chance


def _parts(policy: Policy, lists: ShownLists) -> Iterator[Part]:
    """Yield lists by the number that was asked for: candidates depend on it."""
    users, items = lists.pairs(policy.model.catalog_)
    for asked in np.unique(lists.asked[lists.asked > 0]).tolist():
        alike = np.flatnonzero(lists.asked == asked)
        for start in range(0, len(alike), CHUNK):
            rows = alike[start : start + CHUNK]
            found = candidates(policy.model, users[rows], items[rows], asked, policy.options)
            found[0][items[rows] < 0] = -1  # of an unknown item nothing is shown
            yield Part(rows, asked, *found)
