"""How likely a model, with its options, would have shown what was shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.explain._lists import along_lists, at_positions
from whyrank.explain.options import Options
from whyrank.explain.rank import CHUNK, Ranker, candidates, drawing
from whyrank.online.rewards import ShownLists, Values

DEEPEST = 3  # positions whose chances, whatever stands above, are computed exactly in reasonable time


class Policy(NamedTuple):
    """A model and the options under which lists of it are shown."""

    model: Ranker
    options: Options = Options()


class Along(NamedTuple):
    """The chances of shown lists under a policy; one row per list."""

    chance: Values  # of each reason given those above it; at the end of a short list: that nothing more is shown
    expected: Values  # what the policy would get at each position given those above it, by a table of rewards


def along(policy: Policy, lists: ShownLists, rewards: tuple[Values, Values], fold: NDArray[np.int64]) -> Along:
    """How likely each shown reason is given those above it; `rewards` (explanation x position) are of two folds."""
    catalog = policy.model.catalog_
    shown, cut = lists.numbers(catalog)
    users = catalog.users.numbers(lists.users, missing="negative")
    items = catalog.items.numbers(lists.items, missing="negative")
    chance, expected = np.ones(shown.shape), np.zeros(shown.shape)
    rules = drawing(catalog, policy.options)
    for part, asked in _alike(lists):
        numbers, scores = _candidates(policy, users[part], items[part], asked)
        for side in (0, 1):
            rows = np.flatnonzero(fold[part] == side)
            found = along_lists(numbers[rows], scores[rows], *rules, shown[part[rows], :asked], rewards[side])
            chance[part[rows], :asked], expected[part[rows], :asked] = found
    chance[cut] = 0.0
    return Along(chance, expected)


def anywhere(policy: Policy, lists: ShownLists) -> Values:
    """The chance of each shown reason at its position, whatever stands above it; for lists of up to three."""
    catalog = policy.model.catalog_
    shown, _ = lists.numbers(catalog)
    users = catalog.users.numbers(lists.users, missing="negative")
    items = catalog.items.numbers(lists.items, missing="negative")
    chance, rules = np.zeros(shown.shape), drawing(catalog, policy.options)
    for part, asked in _alike(lists):
        numbers, scores = _candidates(policy, users[part], items[part], asked)
        chance[part, :asked] = at_positions(numbers, scores, *rules, shown[part, :asked])
    return chance


def _alike(lists: ShownLists) -> Iterator[tuple[NDArray[np.int64], int]]:
    """The lists of every length that was asked for, a part at a time: candidates depend on the length."""
    for asked in np.unique(lists.asked[lists.asked > 0]).tolist():
        rows = np.flatnonzero(lists.asked == asked)
        for start in range(0, len(rows), CHUNK):
            yield rows[start : start + CHUNK], asked


def _candidates(
    policy: Policy, users: NDArray[np.int32], items: NDArray[np.int32], n: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """What lists are drawn from; of an unknown item nothing."""
    numbers, scores = candidates(policy.model, users, items, n, policy.options)
    numbers[items < 0] = -1
    return numbers, scores
