"""Lists that are drawn reason by reason, and how likely each of them is: Plackett-Luce, mixed with even draws.

Candidates of a row come best first, -1 where there are no more. At every position those candidates are open that are
not in the list yet and that fit it. One of them is drawn: with the chance 1 - epsilon by the softmax of score / explore
(0: the best one), otherwise evenly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.compile import kernel
from whyrank.index._grounded import ListRules, fits
from whyrank.rng import U11, draw, mix

TINY = 1e-100  # below it, chances are computed anew from scores instead of from what was computed once


class Drawing(NamedTuple):
    """What the chances of a list depend on beside the candidates and their scores."""

    limits: ListRules
    explore: float
    epsilon: float


@kernel
def weights_of(scores: NDArray[np.float32], count: int, explore: float) -> NDArray[np.float64]:
    """Two rows: what each candidate's chance is proportional to, and its logarithm."""
    weights = np.ones((2, count), np.float64)
    for c in range(count):
        weights[1, c] = (np.float64(scores[c]) - np.float64(scores[0])) / explore if explore > 0 else 0.0
        weights[0, c] = np.exp(weights[1, c])
    return weights


@kernel
def chances(
    numbers: NDArray[np.int32],
    weights: NDArray[np.float64],
    listed: NDArray[np.int32],
    taken: int,
    rules: Drawing,
    found: NDArray[np.float64],
) -> int:
    """Write the chance of every candidate to be the next one of a list; returns how many are open."""
    limits, explore, epsilon = rules
    count, first = 0, -1
    for c in range(weights.shape[1]):
        found[c] = 0.0
        used = False
        for place in range(taken):
            used |= listed[place] == numbers[c]
        if not used and fits(listed, taken, numbers[c], limits):
            found[c] = 1.0
            count += 1
            if first < 0:
                first = c
    if count == 0:
        return 0
    total, anew = 0.0, weights[0, first] < TINY
    for c in range(first, weights.shape[1]):
        if found[c] > 0:
            total += np.exp(weights[1, c] - weights[1, first]) if anew else weights[0, c]
    for c in range(first, weights.shape[1]):
        if found[c] > 0:
            softmax = (np.exp(weights[1, c] - weights[1, first]) if anew else weights[0, c]) / total
            if explore == 0:
                softmax = 1.0 if c == first else 0.0
            found[c] = (1.0 - epsilon) * softmax + epsilon / count
    return count


@kernel
def width_of(numbers: NDArray[np.int32]) -> int:
    """How many candidates a row has."""
    count = 0
    while count < len(numbers) and numbers[count] >= 0:
        count += 1
    return count


@kernel
def draw_lists(
    numbers: NDArray[np.int32],
    scores: NDArray[np.float32],
    rules: Drawing,
    key: np.uint64,
    places: NDArray[np.uint64],
    n: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float64]]:
    """A list of `n` for every row, with scores and with the chance of each reason given those above it.

    What is drawn for a row depends on its candidates, the key and the row's number in `places` alone.
    """
    rows = len(numbers)
    listed = np.full((rows, n), -1, np.int32)
    values = np.full((rows, n), -np.inf, np.float32)
    propensities = np.ones((rows, n), np.float64)
    found = np.empty(numbers.shape[1], np.float64)
    for row in range(rows):
        count = width_of(numbers[row])
        weights = weights_of(scores[row], count, rules.explore)
        stream = mix(key + mix(places[row] + np.uint64(1)))
        for place in range(min(n, count)):
            open_ = chances(numbers[row], weights, listed[row], place, rules, found)
            if open_ == 0:
                break
            target, reached, chosen = np.float64(draw(stream, place) >> U11) * 2.0**-53, 0.0, -1
            for c in range(count):
                if found[c] > 0:
                    chosen = c  # of rounding the last one
                    reached += found[c]
                    if reached > target:
                        break
            listed[row, place], values[row, place] = numbers[row, chosen], scores[row, chosen]
            propensities[row, place] = found[chosen]
    return listed, values, propensities


@kernel
def along_lists(
    numbers: NDArray[np.int32],
    scores: NDArray[np.float32],
    rules: Drawing,
    listed: NDArray[np.int32],
    rewards: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How likely the lists that were shown are: the chance of each reason given those above it.

    Also what the draw at each position would get on average, given those above, by `rewards` (explanation x position).
    A list that ends where more could be shown, or that goes on where nothing is open, has the chance 0 there.
    """
    rows, n = listed.shape
    propensities = np.ones((rows, n), np.float64)
    expected = np.zeros((rows, n), np.float64)
    found = np.empty(numbers.shape[1], np.float64)
    for row in range(rows):
        count = width_of(numbers[row])
        weights = weights_of(scores[row], count, rules.explore)
        for place in range(n):
            open_ = chances(numbers[row], weights, listed[row], place, rules, found)
            shown = listed[row, place]
            if shown < 0:
                propensities[row, place] = 1.0 if open_ == 0 else 0.0
            else:
                propensities[row, place] = 0.0
            if open_ > 0:
                for c in range(count):
                    expected[row, place] += found[c] * rewards[numbers[row, c], place]
                    if numbers[row, c] == shown:
                        propensities[row, place] = found[c]
            if shown < 0:
                break
    return propensities, expected


@kernel
def at_positions(
    numbers: NDArray[np.int32],
    scores: NDArray[np.float32],
    rules: Drawing,
    listed: NDArray[np.int32],
) -> NDArray[np.float64]:
    """The chance of each shown reason to stand at its position, whatever stands above it; exact, for up to three."""
    rows, n = listed.shape
    chance = np.zeros((rows, n), np.float64)
    width = numbers.shape[1]
    first, second, third = np.empty(width), np.empty(width), np.empty(width)
    above = np.empty(2, np.int32)
    for row in range(rows):
        count = width_of(numbers[row])
        weights = weights_of(scores[row], count, rules.explore)
        chances(numbers[row], weights, above, 0, rules, first)
        for a in range(count):
            if numbers[row, a] == listed[row, 0]:
                chance[row, 0] += first[a]
            if n == 1 or listed[row, 1] < 0 or first[a] == 0.0:
                continue
            above[0] = numbers[row, a]
            chances(numbers[row], weights, above, 1, rules, second)
            for b in range(count):
                if numbers[row, b] == listed[row, 1]:
                    chance[row, 1] += first[a] * second[b]
                if n == 2 or listed[row, 2] < 0 or second[b] == 0.0:
                    continue
                above[1] = numbers[row, b]
                chances(numbers[row], weights, above, 2, rules, third)
                for c in range(count):
                    if numbers[row, c] == listed[row, 2]:
                        chance[row, 2] += first[a] * second[b] * third[c]
    return chance
