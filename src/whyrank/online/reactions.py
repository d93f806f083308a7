"""What reactions teach: who looks where, and what people like beyond what the reviews say.

A person clicks what they look at and like. Whether they look depends on the position and on whether they clicked
something above; it is told from liking because exploration shows the same reasons at several positions. What they like
has the model's score as its first part; explanations, and users and items through a few factors per aspect, correct it,
drawn towards zero. How strongly is decided on every tenth list, from "not at all" on, so that few or random clicks
change little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.kernels.reactions import slopes, step_rows
from whyrank.models.base import Model
from whyrank.models.learned import Correction
from whyrank.online.rewards import Lists, Values
from whyrank.ranking.explain import bonus_of
from whyrank.ranking.form import Numbers
from whyrank.ranking.rank import CHUNK

FACTORS = 16
SWEEPS = 6  # at each strength of the penalty
CHECKED = 10  # every so many lists decide about the strength
STRENGTHS = (4.0, 2.0, 1.0, 0.5)  # of the penalty of users' and items' factors, in units of what noise would reach
WEAKEST = 0.25  # log-odds per standard deviation that the score of the reviews is worth at least
STEADY = 20.0  # imaginary clicks at a position's own average, where few are known
Side = tuple[NDArray[np.int64], NDArray[np.int64]]


class Rows(NamedTuple):
    """Shown reasons, one by one."""

    user: Numbers
    item: Numbers
    explanation: Numbers
    unit: Numbers  # the aspect, or the explanation itself where it has none
    score: NDArray[np.float32]
    cell: Numbers  # position and whether something above was clicked; -1: surely looked at
    label: NDArray[np.float32]
    weight: NDArray[np.float32]

    def take(self, chosen: NDArray[np.bool_]) -> Rows:
        return Rows._make(each[chosen] for each in self)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The parameters of the model of clicks."""

    intercept: float
    slope: float
    bias: Values
    users: Values
    items: Values
    units: Values
    attention: Values

    def answers(self, rows: Rows) -> tuple[Values, Values, Values, float]:
        return slopes(*rows, self.intercept, self.slope, self.bias, self.users, self.items, self.units, self.attention)


@dataclass(frozen=True, eq=False)
class Reactions:
    """What was learned: the correction of a model, and where people look."""

    correction: Correction
    attention: Values  # position x (nothing clicked above, something clicked above); the first is 1
    strength: str  # how much of it the lists that were held out support


def learn_reactions(model: Model, lists: Lists, tell: Callable[[str], None] | None = None) -> Reactions:
    """Fit the model of clicks to shown lists, with the scores of `model` as what is known beforehand."""
    rows, held, sizes = _rows(model, lists)
    centre, spread = float(rows.score.mean()), max(float(rows.score.std()), 1e-6)
    rows = rows._replace(score=((rows.score - centre) / spread).astype(np.float32))
    learn, check = rows.take(~held), rows.take(held)
    best, name = _path(learn, check, sizes, 2 * lists.reward.shape[1], tell or (lambda _: None))
    scale = spread / max(best.slope, WEAKEST)
    catalog = model.catalog_
    correction = Correction(
        (scale * best.bias).astype(np.float32),
        best.units[units_of(catalog)].astype(np.float32),
        (scale * best.users).astype(np.float32),
        (scale * best.items).astype(np.float32),
    )
    return Reactions(correction, best.attention.reshape(-1, 2), name)


def units_of(catalog: Catalog) -> Numbers:
    """What tastes are about: aspects, and explanations without one."""
    alone = catalog.aspect < 0
    found = catalog.aspect.copy()
    found[alone] = len(catalog.aspects) + np.arange(int(alone.sum()))
    return found


def _rows(model: Model, lists: Lists) -> tuple[Rows, NDArray[np.bool_], tuple[int, int, int, int]]:
    """Every shown reason with what is known of it; which are held out; how many of everything there are."""
    catalog = model.catalog_
    numbers, _ = lists.numbers(catalog)
    users = catalog.users.numbers(lists.users, missing="negative")
    items = catalog.items.numbers(lists.items, missing="negative")
    shown = (numbers >= 0) & (items >= 0)[:, None]
    row, place = np.nonzero(shown)
    liked, disliked = lists.liked[row, place], lists.disliked[row, place]
    clicked = (lists.liked > 0).astype(np.int64)
    above = clicked.cumsum(axis=1) - clicked
    unwanted = (disliked > 0) & (liked == 0)
    units = units_of(catalog)
    found = Rows(
        users[row],
        items[row],
        numbers[row, place],
        units[numbers[row, place]],
        _scores(model, users, items, numbers)[row, place],
        np.where(unwanted, -1, 2 * place + (above[row, place] > 0)).astype(np.int32),
        liked.astype(np.float32),
        np.where(unwanted, disliked, 1.0).astype(np.float32),
    )
    sizes = (len(catalog.explanations), len(catalog.users), len(catalog.items), int(units.max(initial=0)) + 1)
    return found, row % CHECKED == CHECKED - 1, sizes


def _scores(model: Model, users: Numbers, items: Numbers, numbers: Numbers) -> NDArray[np.float32]:
    """The model's scores of what was shown."""
    found = np.zeros(numbers.shape, np.float32)
    at = np.maximum(numbers, 0)
    for start in range(0, len(users), CHUNK):
        part = slice(start, start + CHUNK)
        who, what = users[part], items[part]
        found[part] = model.search().scores(model.queries(who, what), at[part])
        bonus = model.bonus(who, what, at.shape[1])
        if bonus is not None:
            row = np.repeat(np.arange(len(who)), at.shape[1])
            found[part] += bonus_of(bonus, row, at[part].ravel()).reshape(found[part].shape)
    return found


def _path(
    learn: Rows, check: Rows, sizes: tuple[int, int, int, int], cells: int, tell: Callable[[str], None]
) -> tuple[Fitted, str]:
    """From no correction to an ever freer one, as long as lists that were held out become more likely."""
    pool, users, items, units = sizes
    sides = {"users": _side(learn.user, users), "items": _side(learn.item, items), "units": _side(learn.unit, units)}
    start = np.random.default_rng(0).normal(0.0, 0.3, (units, FACTORS))
    now = Fitted(
        0.0, 0.0, np.zeros(pool), np.zeros((users, FACTORS)), np.zeros((items, FACTORS)), start, np.ones(cells)
    )
    now = _looks(now, learn)
    steps: list[tuple[str, float | None]] = [("the score alone", None), ("explanations", 0.0)]
    steps += [(f"explanations and tastes, penalty {each:g}", each) for each in STRENGTHS]
    best, name, likelihood = now, "", -np.inf
    for words, strength in steps:
        for _ in range(SWEEPS):
            now = _sweep(now, learn, sides, strength)
        held = now.answers(check)[3] if len(check.user) else 0.0
        tell(words)
        if held <= likelihood:
            break
        best, name, likelihood = now, words, held
    return best, name


def _sweep(now: Fitted, rows: Rows, sides: dict[str, Side], strength: float | None) -> Fitted:
    """One step for every group of parameters, each at the current values of the others."""
    now = _looks(_level(now, rows), rows)
    if strength is None:
        return now
    now = _biases(now, rows)
    if not strength:
        return now
    nobody = np.full(len(rows.user), -1, np.int32)
    for name in ("users", "items", "units"):
        gradient, curvature, _, _ = now.answers(rows)
        information = float(curvature.sum())
        penalty = strength * np.sqrt(information) * (len(now.units) ** -0.5 + len(now.users) ** -0.5)
        # Factors of users are drawn to zero by 1, those of aspects by the square: together, by the penalty.
        precision = penalty**2 if name == "units" else 1.0
        table = getattr(now, name).copy()
        given = (rows.unit, now.units, nobody, now.units)
        if name == "units":
            given = (rows.user, now.users, rows.item, now.items)
        step_rows(*sides[name], *given, gradient, curvature, precision, table)
        now = replace(now, **{name: table})
    return now


def _level(now: Fitted, rows: Rows) -> Fitted:
    """Intercept and slope of the score."""
    gradient, curvature, _, _ = now.answers(rows)
    x = rows.score.astype(np.float64)
    a, b, c = curvature.sum() + 1.0, (curvature * x).sum(), (curvature * x * x).sum() + 1.0
    p, q = gradient.sum(), (gradient * x).sum()
    scale = a * c - b * b
    step = np.clip([(c * p - b * q) / scale, (a * q - b * p) / scale], -2, 2)
    return replace(now, intercept=now.intercept + float(step[0]), slope=now.slope + float(step[1]))


def _looks(now: Fitted, rows: Rows) -> Fitted:
    """How many of those who would click look at each position; at the first one everybody does."""
    _, _, sums, _ = now.answers(rows)
    average = max(float(sums[0].sum()) / max(float(sums[1].sum()), 1e-9), 1e-9)
    found = (sums[0] + STEADY) / (sums[1] + STEADY / average)
    return replace(now, attention=np.clip(found / found[0], 0.01, 2.0))


def _biases(now: Fitted, rows: Rows) -> Fitted:
    """One number per explanation, drawn to zero as strongly as their spread suggests."""
    gradient, curvature, _, _ = now.answers(rows)
    pool = len(now.bias)
    information = np.bincount(rows.explanation, curvature, pool)
    known = information > 0
    spread = float((now.bias[known] ** 2 + 1 / (information[known] + 4)).mean()) if known.any() else 0.25
    precision = 1 / max(spread, 1e-4)
    step = (np.bincount(rows.explanation, gradient, pool) - precision * now.bias) / (information + precision)
    return replace(now, bias=now.bias + np.clip(step, -2, 2))


def _side(owner: Numbers, count: int) -> Side:
    """Which rows belong to which owner; those of nobody (-1) to none."""
    order = np.argsort(owner, kind="stable")
    return np.searchsorted(owner[order], np.arange(count + 1)).astype(np.int64), order
