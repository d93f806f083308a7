"""Models that learn next to nothing, and that every other model has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whyrank.data.triplets import Triplets
from whyrank.index.form import Block, Bonus, Floats, Numbers
from whyrank.models.base import Model
from whyrank.models.parameters import seed_parameter
from whyrank.training import Run


@dataclass(kw_only=True, eq=False)
class RAND(Model):
    """Random explanations, a fixed list for every pair: the floor that the paper compares with."""

    id = "rand"
    summary = "random explanations"
    scores_n = True

    seed: int = seed_parameter("every list is drawn from this")

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        pass

    def bonus(self, users: Numbers, items: Numbers, n: int, mu: float | None = None) -> Bonus:
        from whyrank.models._shuffle import random_lists

        pool = len(self.catalog_.explanations)
        n = min(n, pool)
        lists = random_lists(self.seed, users, items, pool, n)
        by_number = np.argsort(lists, axis=1)
        falling = (1 - np.arange(n) / pool).astype(np.float32)
        indptr = np.arange(len(users) + 1, dtype=np.int64) * n
        return Bonus(indptr, np.take_along_axis(lists, by_number, 1).ravel(), falling[by_number].ravel())


@dataclass(kw_only=True, eq=False)
class POP(Model):
    """The explanations said most often, the same for everybody; strong where pools are dominated by a few."""

    id = "pop"
    summary = "the most popular explanations, the same for everybody"

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        pass

    def keys(self) -> Floats:
        logs: Floats = np.log(self.catalog_.popularity + 1.0).astype(np.float32)
        return logs[:, None]

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        return np.ones((len(users), 1), np.float32)

    def blocks(self) -> tuple[Block, ...]:
        return (Block("popularity", 1),)
