"""The paper's neighbour models: revised user-based and item-based collaborative filtering."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.explain._neighbours import neighbours
from whyrank.index.form import Bonus, Floats, Numbers
from whyrank.models._neighbours import weighted_sets
from whyrank.models.base import Model, Shape
from whyrank.models.parameters import parameter
from whyrank.training import Run

STEP = 4096  # rows whose neighbours are looked for at once
HELD = 1 << 22  # neighbours that are held at once


@dataclass(kw_only=True, eq=False)
class _Neighbours(Model):
    """Scores an explanation by the similarity of those neighbours who share the other side and have said it.

    Explanations that no neighbour has said score 0 and stand behind, by popularity.
    """

    fitted = ("least",)

    neighbours: int | None = parameter(None, "size of a neighbour set; None: all who share an explanation", at_least=1)

    def relation(self) -> CSR:
        """Whose explanations are compared: E_u or E_i."""
        raise NotImplementedError

    def shapes(self) -> dict[str, Shape]:
        return {"least": (self.relation().rows,)}

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        own = self.relation()
        self.least_: Floats = np.zeros(own.rows, np.float32)
        if self.neighbours is None or self.neighbours >= own.rows:  # all others belong to the set
            return
        inverse = CSR.from_pairs(own.indices, own.rows_of_entries(), len(train.explanations), own.rows)
        step = max(1, min(STEP, HELD // self.neighbours))
        for start in range(0, own.rows, step):
            rows = np.arange(start, min(start + step, own.rows), dtype=np.int32)
            found, similarity = neighbours(*own[:2], *inverse[:2], rows, self.neighbours)
            self.least_[rows] = np.where(found[:, -1] >= 0, similarity[:, -1], 0)

    def _grow(self, catalog: Catalog) -> None:
        room = len(catalog.users if self.id == "rucf" else catalog.items) - len(self.least_)
        self.least_ = np.concatenate([self.least_, np.zeros(room, np.float32)])

    def _scores(self, rows: Numbers, groups: Numbers, companions: CSR) -> Bonus:
        own = self.relation()
        pool = len(self.catalog_.explanations)
        return Bonus(*weighted_sets(rows, groups, *own[:2], *companions[:2], self.least_, pool))


@dataclass(kw_only=True, eq=False)
class RUCF(_Neighbours):
    """Users who know the item and resemble the user, by the Jaccard index of what they say."""

    id = "rucf"
    of_users = ("least",)
    summary = "revised user-based collaborative filtering"

    def relation(self) -> CSR:
        return self.catalog_.user_explanations

    def bonus(self, users: Numbers, items: Numbers, n: int, mu: float | None = None) -> Bonus:
        return self._scores(users, items, self.catalog_.item_users)


@dataclass(kw_only=True, eq=False)
class RICF(_Neighbours):
    """Items of the user that resemble the item, by the Jaccard index of what is said about them."""

    id = "ricf"
    summary = "revised item-based collaborative filtering"

    def relation(self) -> CSR:
        return self.catalog_.item_explanations

    def bonus(self, users: Numbers, items: Numbers, n: int, mu: float | None = None) -> Bonus:
        return self._scores(items, users, self.catalog_.user_items)
