"""What reactions teach: who looks where, and what people like beyond what the reviews say.

A person clicks what they look at and like. Whether they look depends on the position and on whether
they clicked something above; it is told from liking because exploration shows the same reasons at
several positions. What they like has the model's score as its first part; explanations, and users
and items through a few factors per aspect, correct it, drawn towards zero. How strongly is decided
on every tenth list, from "not at all" on, so that few or random clicks change little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.explain.rank import CHUNK
from whyrank.index.form import bonus_of
from whyrank.models.base import Model
from whyrank.models.learned import Correction
from whyrank.online._reactions import (
    ClickModel,
    Linked,
    Numbers,
    Owners,
    Rows,
    Values,
    slopes,
    step_rows,
)
from whyrank.online.rewards import ShownLists
from whyrank.training import Run
from whyrank.training.checkpoint import Arrays, Checkpoint, is_of, set_arrays
from whyrank.training.loop import Trained, Trainer, run_epochs

FACTORS = 16
SWEEPS = 6  # at each strength of the penalty
CHECKED = 10  # every so many lists decide about the strength
STRENGTHS = (4.0, 2.0, 1.0, 0.5)  # of the penalty of factors, in units of what noise would reach
STEPS: tuple[tuple[str, float | None], ...] = (
    ("the score alone", None),
    ("explanations", 0.0),
    *((f"explanations and tastes, penalty {each:g}", each) for each in STRENGTHS),
)
WEAKEST = 0.25  # log-odds per standard deviation that the score of the reviews is worth at least
IMAGINARY = 20.0  # clicks at a position's own average, where few are known


@dataclass(frozen=True, eq=False)
class Reactions:
    """What was learned: the correction of a model, and where people look."""

    correction: Correction
    attention: Values  # position x (nothing clicked above, something); the first is 1
    strength: str  # how much of it the lists that were held out support


def learn_reactions(model: Model, lists: ShownLists, run: Run | None = None) -> Reactions:
    """Fit the model of clicks to shown lists, with the scores of `model` as what is known before.

    With a checkpoint in `run`, an interrupted fit goes on where it was; that of other lists begins
    anew.
    """
    rows, held = _rows(model, lists)
    centre, spread = float(rows.score.mean()), max(float(rows.score.std()), 1e-6)
    rows = rows._replace(score=((rows.score - centre) / spread).astype(np.float32))
    catalog, units = model.catalog_, units_of(model.catalog_)
    owners = (len(catalog.explanations), len(catalog.users), len(catalog.items))
    sizes = (*owners, int(units.max(initial=0)) + 1)
    positions = max(int(lists.length.max()), 1)
    trainer = ReactionTrainer(_take(rows, ~held), _take(rows, held), sizes, 2 * positions)
    run, decides = run or Run(), (tuple(rows), held, sizes, positions)
    run = replace(run, resume=run.checkpoint is not None and is_of(run.checkpoint, *decides))
    run_epochs(trainer, run, Checkpoint(run, *decides), "reactions")
    best = trainer.best
    scale = spread / max(best.slope, WEAKEST)
    tables = (scale * best.bias, best.units[units], scale * best.users, scale * best.items)
    correction = Correction(*(each.astype(np.float32) for each in tables))
    return Reactions(correction, best.attention.reshape(-1, 2), STEPS[trainer.chosen][0])


class ReactionTrainer(Trainer):
    """From no correction to an ever freer one, as long as held-out lists become more likely.

    An epoch is a sweep over all parameters; after every `SWEEPS` the held-out lists are looked at.
    """

    curve = "held-out loss"

    def __init__(self, learn: Rows, check: Rows, sizes: tuple[int, ...], cells: int) -> None:
        pool, users, items, units = sizes
        self._learn, self._check, self.of = learn, check, SWEEPS * len(STEPS)
        owned = {"users": (learn.user, users), "items": (learn.item, items), "units": (learn.unit, units)}
        self._owners = {name: _owners(*each) for name, each in owned.items()}
        start = np.random.default_rng(0).normal(0.0, 0.3, (units, FACTORS))
        nobody = (np.zeros((users, FACTORS)), np.zeros((items, FACTORS)))
        begin = ClickModel(0.0, 0.0, np.zeros(pool), *nobody, start, np.ones(cells))
        self.now = self.best = _look(begin, learn)
        self.chosen, self._likelihood, self._enough = 0, -np.inf, False

    def epoch(self) -> Trained | None:
        step = self.done // SWEEPS
        self.now = self._sweep(STEPS[step][1])
        self.done += 1
        if self.done % SWEEPS:
            return None
        count = len(self._check.user)
        held = slopes(self._check, self.now).likelihood if count else 0.0
        self._enough = held <= self._likelihood
        if not self._enough:
            self.best, self.chosen, self._likelihood = self.now, step, held
        return Trained(-held / max(count, 1), SWEEPS * len(self._learn.user))

    def _sweep(self, strength: float | None) -> ClickModel:
        """Take one step for every group of parameters, each at the current values of the others."""
        rows = self._learn
        now = _look(_level(self.now, rows), rows)
        if strength is None:
            return now
        now = _biases(now, rows)
        if not strength:
            return now
        for name in ("users", "items", "units"):
            found = slopes(rows, now)
            noise = np.sqrt(float(found.curvature.sum()))
            penalty = strength * noise * (len(now.units) ** -0.5 + len(now.users) ** -0.5)
            # Factors of users are drawn to zero by 1, those of aspects by the square: together, by
            # the penalty.
            precision = penalty**2 if name == "units" else 1.0
            left = Linked(rows.unit, now.units)
            right = Linked(np.full(len(rows.user), -1, np.int32), now.units)
            if name == "units":
                left, right = Linked(rows.user, now.users), Linked(rows.item, now.items)
            table = getattr(now, name).copy()
            step_rows(self._owners[name], left, right, found, precision, table)
            now = now._replace(**{name: table})
        return now

    @property
    def finished(self) -> bool:
        return self._enough or self.done >= self.of

    def state(self) -> Arrays:
        parts = {"now": self.now, "best": self.best}
        found = {f"{part}_{name}": array for part, each in parts.items() for name, array in _arrays(each).items()}
        place = np.array([self.done, self.chosen, self._enough], np.int64)
        return found | {"place": place, "likelihood": np.array([self._likelihood])}

    def restore(self, arrays: Arrays) -> None:
        for part in ("now", "best"):
            made = _arrays(getattr(self, part))
            set_arrays(made, {name.removeprefix(f"{part}_"): each for name, each in arrays.items()})
            intercept, slope, *tables = made.values()
            setattr(self, part, ClickModel(float(intercept[0]), float(slope[0]), *tables))
        done, chosen, enough = (int(each) for each in arrays["place"])
        if not (0 <= done <= self.of and 0 <= chosen < len(STEPS)):
            raise ValueError("place is out of range")
        self.done, self.chosen, self._enough = done, chosen, bool(enough)
        self._likelihood = float(arrays["likelihood"][0])


def _arrays(model: ClickModel) -> Arrays:
    """Return all parameters as arrays of their own."""
    return {name: np.array(value, np.float64, ndmin=1) for name, value in model._asdict().items()}


def units_of(catalog: Catalog) -> Numbers:
    """Number what tastes are about: aspects, and explanations without one."""
    alone = catalog.aspect < 0
    found = catalog.aspect.copy()
    found[alone] = len(catalog.aspects) + np.arange(int(alone.sum()))
    return found


def _rows(model: Model, lists: ShownLists) -> tuple[Rows, NDArray[np.bool_]]:
    """Take every shown reason with what is known of it; and which are held out."""
    catalog = model.catalog_
    numbers, _ = lists.numbers(catalog)
    users, items = lists.pairs(catalog)
    row, place = np.nonzero((numbers >= 0) & (items >= 0)[:, None])
    shown = numbers[row, place]
    liked, disliked = lists.liked[row, place], lists.disliked[row, place]
    clicked = (lists.liked > 0).astype(np.int64)
    above = clicked.cumsum(axis=1) - clicked
    unwanted = (disliked > 0) & (liked == 0)
    found = Rows(
        user=users[row],
        item=items[row],
        explanation=shown,
        unit=units_of(catalog)[shown],
        score=_scores(model, users, items, numbers)[row, place],
        cell=np.where(unwanted, -1, 2 * place + (above[row, place] > 0)).astype(np.int32),
        label=liked.astype(np.float32),
        weight=np.where(unwanted, disliked, 1.0).astype(np.float32),
    )
    return found, row % CHECKED == CHECKED - 1


def _take(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    return Rows._make(each[chosen] for each in rows)


def _scores(model: Model, users: Numbers, items: Numbers, numbers: Numbers) -> NDArray[np.float32]:
    """Compute the model's scores of what was shown."""
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


def _level(now: ClickModel, rows: Rows) -> ClickModel:
    """Take a step of the intercept and the slope of the score."""
    found = slopes(rows, now)
    x, gradient, curvature = rows.score.astype(np.float64), found.gradient, found.curvature
    a, b, c = curvature.sum() + 1.0, (curvature * x).sum(), (curvature * x * x).sum() + 1.0
    p, q = gradient.sum(), (gradient * x).sum()
    scale = a * c - b * b
    step = np.clip([(c * p - b * q) / scale, (a * q - b * p) / scale], -2, 2)
    return now._replace(intercept=now.intercept + float(step[0]), slope=now.slope + float(step[1]))


def _look(now: ClickModel, rows: Rows) -> ClickModel:
    """Estimate how many look at each position; at the first one everybody does."""
    labels, liked = slopes(rows, now).sums
    average = max(float(labels.sum()) / max(float(liked.sum()), 1e-9), 1e-9)
    found = (labels + IMAGINARY) / (liked + IMAGINARY / average)
    return now._replace(attention=np.clip(found / found[0], 0.01, 2.0))


def _biases(now: ClickModel, rows: Rows) -> ClickModel:
    """Take a step of each explanation's bias, drawn to zero as strongly as their spread suggests."""
    found, pool = slopes(rows, now), len(now.bias)
    information = np.bincount(rows.explanation, found.curvature, pool)
    known = information > 0
    squares = now.bias[known] ** 2 + 1 / (information[known] + 4)
    precision = 1 / max(float(squares.mean()) if known.any() else 0.25, 1e-4)
    gradient = np.bincount(rows.explanation, found.gradient, pool) - precision * now.bias
    return now._replace(bias=now.bias + np.clip(gradient / (information + precision), -2, 2))


def _owners(owner: Numbers, count: int) -> Owners:
    """Find which rows belong to which owner; those of nobody (-1) to none."""
    order = np.argsort(owner, kind="stable")
    return Owners(np.searchsorted(owner[order], np.arange(count + 1)).astype(np.int64), order)
