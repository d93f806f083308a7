"""BPER: two factorizations, one per side, weighed by `mu` only when ranking (paper, Section 4.2); and BPER-J, BPR."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from whyrank.data.triplets import Triplets
from whyrank.index.form import Block, Floats, Numbers, rows, two_sides
from whyrank.models.base import Model
from whyrank.models.factors import FactorModel, popularity_start
from whyrank.models.parameters import parameter
from whyrank.training import PairwisePass, Table

if TYPE_CHECKING:
    from whyrank.models.tensor import CD


@dataclass(kw_only=True, eq=False)
class BPER(FactorModel):
    """mu x (p_u . oU_e + bU_e) + (1 - mu) x (q_i . oI_e + bI_e), each side learned by BPR on its own (Algorithm 1).

    `mu` may be changed on a fitted model.
    """

    id = "bper"
    summary = "Bayesian personalized explanation ranking (the paper's)"
    fitted: ClassVar[tuple[str, ...]] = (
        *("user_factors", "item_factors", "explanation_by_user", "explanation_by_item", "user_bias", "item_bias"),
    )
    layout: ClassVar[dict[str, tuple[str, str | None]]] = {
        "user": ("user_factors", None),
        "item": ("item_factors", None),
        "explanation_by_user": ("explanation_by_user", "user_bias"),
        "explanation_by_item": ("explanation_by_item", "item_bias"),
    }
    folds: ClassVar[dict[str, str]] = {"user": "explanation_by_user", "item": "explanation_by_item"}

    mu: float = parameter(0.7, "weight of the user's side when ranking", at_least=0, at_most=1)
    bias_start: Literal["zero", "popularity"] = parameter(
        "zero", "biases start at zero (paper) or at popularity (published code)", one_of=("zero", "popularity")
    )

    def tables(self, train: Triplets) -> dict[str, Table]:
        pool, d = len(train.explanations), self.factors
        starts: dict[str, Floats | None] = {"user": None, "item": None}
        if self.bias_start == "popularity":
            starts["user"] = popularity_start(train.user_holders, len(train.users), train.records)
            starts["item"] = popularity_start(train.item_holders, len(train.items), train.records)
        return {
            "user": Table(len(train.users), d),
            "item": Table(len(train.items), d),
            "explanation_by_user": Table(pool, d, bias=True, bias_start=starts["user"]),
            "explanation_by_item": Table(pool, d, bias=True, bias_start=starts["item"]),
        }

    def passes(self, train: Triplets) -> tuple[PairwisePass, ...]:
        e = train.explanation
        return (
            PairwisePass("user", "explanation_by_user", train.user, e, known=train.user_explanations),
            PairwisePass("item", "explanation_by_item", train.item, e, known=train.item_explanations),
        )

    def keys(self) -> Floats:
        sides = (self.explanation_by_user_, self.explanation_by_item_)
        return np.hstack([*sides, self.user_bias_[:, None], self.item_bias_[:, None]])

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        return two_sides(self.user_factors_, users, self.item_factors_, items, self.mu if mu is None else mu)

    def blocks(self) -> tuple[Block, ...]:
        return (Block("user", self.factors), Block("item", self.factors), Block("popularity", 2))

    def as_cd(self) -> CD:
        """The same scores as a CD model with 2d + 2 factors (the paper's Section 4.4, corrected).

        A model that learned from reactions has more, for what it learned.

        The equation as printed has mu and 1 - mu in the slots that the other side leaves; they would multiply on every
        coordinate, so those slots are 1 here.
        """
        return two_sides_as_cd(self, self.mu, self.seed)


def two_sides_as_cd(model: Model, mu: float, seed: int) -> CD:
    """A model whose queries are [user's part, item's part, mu, 1 - mu] as CD: the parts side by side, ones between."""
    from whyrank.models.tensor import CD

    users, items = len(model.catalog_.users), len(model.catalog_.items)
    everybody, everything = np.arange(users, dtype=np.int32), np.arange(items, dtype=np.int32)
    nobody, nothing = np.full(items, -1, np.int32), np.full(users, -1, np.int32)
    own, width, _ = (block.width for block in model.blocks())
    cd = CD(factors=own + width + 2, seed=seed)
    cd.user_factors_, cd.item_factors_ = (np.ones((rows, cd.factors), np.float32) for rows in (users, items))
    cd.user_factors_[:, :own] = model.queries(everybody, nothing)[:, :own]
    cd.user_factors_[:, -2] = mu
    cd.item_factors_[:, own:-2] = model.queries(nobody, everything)[:, own:-2]
    cd.item_factors_[:, -1] = 1 - mu
    cd.explanation_factors_ = model.keys()
    return model._share_catalog(cd)


@dataclass(kw_only=True, eq=False)
class BPERJ(BPER):
    """BPER and item ranking p_u . q_i + b_i, learned together (Algorithm 2); `alpha` weighs the explanation task."""

    id = "bper-j"
    summary = "BPER with items: joint ranking (the paper's)"
    ranks_items = True
    item_constant = 1
    fitted: ClassVar[tuple[str, ...]] = (*BPER.fitted, "item_popularity_bias")
    layout: ClassVar[dict[str, tuple[str, str | None]]] = BPER.layout | {
        "item": ("item_factors", "item_popularity_bias")
    }

    alpha: float = parameter(0.5, "weight of the explanation task in training", at_least=0)

    def tables(self, train: Triplets) -> dict[str, Table]:
        return super().tables(train) | {"item": Table(len(train.items), self.factors, bias=True)}

    def passes(self, train: Triplets) -> tuple[PairwisePass, ...]:
        reasons = (replace(each, weight=self.alpha) for each in super().passes(train))
        return *reasons, PairwisePass("user", "item", train.user, train.item, known=train.user_items)

    def item_keys(self) -> Floats:
        return np.hstack([self.item_factors_, self.item_popularity_bias_[:, None]])

    def item_queries(self, users: Numbers) -> Floats:
        return np.hstack([rows(self.user_factors_, users), np.ones((len(users), 1), np.float32)])


@dataclass(kw_only=True, eq=False)
class BPR(BPERJ):
    """BPER-J with alpha = 0: the item recommender that the paper compares with. Its reasons are untrained."""

    id = "bpr"
    summary = "item ranking alone (BPER-J with alpha = 0)"

    alpha: float = parameter(0.0, "fixed at zero", at_least=0, at_most=0)
