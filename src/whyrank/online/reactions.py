"""What reactions teach: who looks where, and what people like beyond what the reviews say.

A person clicks what they look at and like. Whether they look depends on the position and on whether they clicked
something above; it is told from liking because exploration shows the same reasons at several positions. What they like
has the model's score as its first part; explanations, and users and items through a few factors per aspect, correct it,
drawn towards zero. How strongly is decided on every tenth list, from "not at all" on, so that few or random clicks
change little.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.explain.rank import CHUNK
from whyrank.index.form import Numbers, bonus_of
from whyrank.models.base import Model
from whyrank.models.learned import Correction
from whyrank.online._reactions import slopes, step_rows
from whyrank.online.rewards import ShownLists, Values
from whyrank.training import Run
from whyrank.training.checkpoint import Arrays, Checkpoint, is_of, set_arrays
from whyrank.training.loop import Trained, Trainer, run_epochs

FACTORS = 16
SWEEPS = 6  # at each strength of the penalty
CHECKED = 10  # every so many lists decide about the strength
STRENGTHS = (4.0, 2.0, 1.0, 0.5)  # of the penalty of users' and items' factors, in units of what noise would reach
STEPS: tuple[tuple[str, float | None], ...] = (
    ("the score alone", None),
    ("explanations", 0.0),
    *((f"explanations and tastes, penalty {each:g}", each) for each in STRENGTHS),
)
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
class ClickModel:
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

    def arrays(self) -> Arrays:
        """All parameters as arrays of their own."""
        return {each.name: np.array(getattr(self, each.name), np.float64, ndmin=1) for each in fields(self)}

    def like(self, given: Arrays) -> ClickModel:
        """Parameters of the same sizes from arrays; raises ValueError or KeyError where they do not fit."""
        made = self.arrays()
        set_arrays(made, given)
        return ClickModel(float(made.pop("intercept")[0]), float(made.pop("slope")[0]), **made)


@dataclass(frozen=True, eq=False)
class Reactions:
    """What was learned: the correction of a model, and where people look."""

    correction: Correction
    attention: Values  # position x (nothing clicked above, something clicked above); the first is 1
    strength: str  # how much of it the lists that were held out support


def learn_reactions(model: Model, lists: ShownLists, run: Run | None = None) -> Reactions:
    """Fit the model of clicks to shown lists, with the scores of `model` as what is known beforehand.

    With a checkpoint in `run`, an interrupted fit goes on where it was; that of other lists begins anew.
    """
    rows, held, sizes = _rows(model, lists)
    centre, spread = float(rows.score.mean()), max(float(rows.score.std()), 1e-6)
    rows = rows._replace(score=((rows.score - centre) / spread).astype(np.float32))
    positions = max(int(lists.length.max()), 1)
    trainer = ReactionTrainer(rows.take(~held), rows.take(held), sizes, 2 * positions)
    run, decides = run or Run(), (tuple(rows), held, sizes, positions)
    run = replace(run, resume=run.checkpoint is not None and is_of(run.checkpoint, *decides))
    run_epochs(trainer, run, Checkpoint(run, *decides), "reactions")
    best = trainer.best
    scale = spread / max(best.slope, WEAKEST)
    catalog = model.catalog_
    correction = Correction(
        (scale * best.bias).astype(np.float32),
        best.units[units_of(catalog)].astype(np.float32),
        (scale * best.users).astype(np.float32),
        (scale * best.items).astype(np.float32),
    )
    return Reactions(correction, best.attention.reshape(-1, 2), STEPS[trainer.chosen][0])


class ReactionTrainer(Trainer):
    """From no correction to an ever freer one, as long as lists that were held out become more likely.

    An epoch is a sweep over all parameters; after every `SWEEPS` of them the held-out lists are looked at.
    """

    curve = "held-out loss"

    def __init__(self, learn: Rows, check: Rows, sizes: tuple[int, int, int, int], cells: int) -> None:
        pool, users, items, units = sizes
        self._learn, self._check, self.of = learn, check, SWEEPS * len(STEPS)
        owners = {"users": (learn.user, users), "items": (learn.item, items), "units": (learn.unit, units)}
        self._sides = {name: _side(*each) for name, each in owners.items()}
        start = np.random.default_rng(0).normal(0.0, 0.3, (units, FACTORS))
        tables = (np.zeros(pool), np.zeros((users, FACTORS)), np.zeros((items, FACTORS)), start, np.ones(cells))
        self.now = self.best = _looks(ClickModel(0.0, 0.0, *tables), learn)
        self.chosen, self._likelihood, self._enough = 0, -np.inf, False

    def epoch(self) -> Trained | None:
        step = self.done // SWEEPS
        self.now = _sweep(self.now, self._learn, self._sides, STEPS[step][1])
        self.done += 1
        if self.done % SWEEPS:
            return None
        count = len(self._check.user)
        held = self.now.answers(self._check)[3] if count else 0.0
        self._enough = held <= self._likelihood
        if not self._enough:
            self.best, self.chosen, self._likelihood = self.now, step, held
        return Trained(-held / max(count, 1), SWEEPS * len(self._learn.user))

    @property
    def finished(self) -> bool:
        return self._enough or self.done >= self.of

    def state(self) -> Arrays:
        parts = {"now": self.now.arrays(), "best": self.best.arrays()}
        found = {f"{part}_{name}": array for part, arrays in parts.items() for name, array in arrays.items()}
        place = np.array([self.done, self.chosen, self._enough], np.int64)
        return found | {"place": place, "likelihood": np.array([self._likelihood])}

    def restore(self, arrays: Arrays) -> None:
        for part in ("now", "best"):
            given = {name.removeprefix(f"{part}_"): each for name, each in arrays.items()}
            setattr(self, part, getattr(self, part).like(given))
        done, chosen, enough = (int(each) for each in arrays["place"])
        if not (0 <= done <= self.of and 0 <= chosen < len(STEPS)):
            raise ValueError("place is out of range")
        self.done, self.chosen, self._enough = done, chosen, bool(enough)
        self._likelihood = float(arrays["likelihood"][0])


def units_of(catalog: Catalog) -> Numbers:
    """What tastes are about: aspects, and explanations without one."""
    alone = catalog.aspect < 0
    found = catalog.aspect.copy()
    found[alone] = len(catalog.aspects) + np.arange(int(alone.sum()))
    return found


def _rows(model: Model, lists: ShownLists) -> tuple[Rows, NDArray[np.bool_], tuple[int, int, int, int]]:
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


def _sweep(now: ClickModel, rows: Rows, sides: dict[str, Side], strength: float | None) -> ClickModel:
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


def _level(now: ClickModel, rows: Rows) -> ClickModel:
    """Intercept and slope of the score."""
    gradient, curvature, _, _ = now.answers(rows)
    x = rows.score.astype(np.float64)
    a, b, c = curvature.sum() + 1.0, (curvature * x).sum(), (curvature * x * x).sum() + 1.0
    p, q = gradient.sum(), (gradient * x).sum()
    scale = a * c - b * b
    step = np.clip([(c * p - b * q) / scale, (a * q - b * p) / scale], -2, 2)
    return replace(now, intercept=now.intercept + float(step[0]), slope=now.slope + float(step[1]))


def _looks(now: ClickModel, rows: Rows) -> ClickModel:
    """How many of those who would click look at each position; at the first one everybody does."""
    _, _, sums, _ = now.answers(rows)
    average = max(float(sums[0].sum()) / max(float(sums[1].sum()), 1e-9), 1e-9)
    found = (sums[0] + STEADY) / (sums[1] + STEADY / average)
    return replace(now, attention=np.clip(found / found[0], 0.01, 2.0))


def _biases(now: ClickModel, rows: Rows) -> ClickModel:
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
