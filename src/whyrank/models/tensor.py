"""Tensor factorizations with one score per triplet: CD and PITF, and their joint forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from whyrank.data.triplets import Triplets
from whyrank.index.form import Block, Floats, Numbers, rows
from whyrank.models.factors import FactorModel
from whyrank.models.parameters import parameter
from whyrank.training import PairwisePass, Pass, Table, TriplePass

if TYPE_CHECKING:
    from whyrank.models.bper import BPER


@dataclass(kw_only=True, eq=False)
class CD(FactorModel):
    """Canonical decomposition: the sum over k of p_uk q_ik o_ek."""

    id = "cd"
    summary = "canonical decomposition"
    fitted: ClassVar[tuple[str, ...]] = ("user_factors", "item_factors", "explanation_factors")
    layout: ClassVar[dict[str, tuple[str, str | None]]] = {
        "user": ("user_factors", None),
        "item": ("item_factors", None),
        "explanation": ("explanation_factors", None),
    }

    def tables(self, train: Triplets) -> dict[str, Table]:
        sizes = {"user": train.users, "item": train.items, "explanation": train.explanations}
        return {name: Table(len(vocabulary), self.factors) for name, vocabulary in sizes.items()}

    def passes(self, train: Triplets) -> tuple[Pass, ...]:
        records = (train.record_user, train.record_item, train.record_explanations)
        return (TriplePass("cd", "user", "item", ("explanation",), *records, self._weight()),)

    def _weight(self) -> float:
        return 1.0

    def keys(self) -> Floats:
        return self.explanation_factors_

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        return rows(self.user_factors_, users) * rows(self.item_factors_, items)

    def blocks(self) -> tuple[Block, ...]:
        return (Block("interaction", self.keys().shape[1]),)


@dataclass(kw_only=True, eq=False)
class PITF(FactorModel):
    """Pairwise interaction tensor factorization: p_u . oU_e + q_i . oI_e under one loss."""

    id = "pitf"
    summary = "pairwise interaction tensor factorization"
    fitted: ClassVar[tuple[str, ...]] = ("user_factors", "item_factors", "explanation_by_user", "explanation_by_item")
    layout: ClassVar[dict[str, tuple[str, str | None]]] = {
        "user": ("user_factors", None),
        "item": ("item_factors", None),
        "explanation_by_user": ("explanation_by_user", None),
        "explanation_by_item": ("explanation_by_item", None),
    }
    folds: ClassVar[dict[str, str]] = {"user": "explanation_by_user", "item": "explanation_by_item"}

    def tables(self, train: Triplets) -> dict[str, Table]:
        pool = len(train.explanations)
        sizes = {"user": len(train.users), "item": len(train.items)}
        sizes |= {"explanation_by_user": pool, "explanation_by_item": pool}
        return {name: Table(size, self.factors) for name, size in sizes.items()}

    def passes(self, train: Triplets) -> tuple[Pass, ...]:
        sides = ("explanation_by_user", "explanation_by_item")
        records = (train.record_user, train.record_item, train.record_explanations)
        return (TriplePass("pitf", "user", "item", sides, *records, self._weight()),)

    def _weight(self) -> float:
        return 1.0

    def keys(self) -> Floats:
        return np.hstack([self.explanation_by_user_, self.explanation_by_item_])

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        return np.hstack([rows(self.user_factors_, users), rows(self.item_factors_, items)])

    def blocks(self) -> tuple[Block, ...]:
        return (Block("user", self.factors), Block("item", self.factors))

    def as_bper(self) -> BPER:
        """BPER with mu = 0.5 and no biases: the same ranking, scores halved (the paper's Section 4.4)."""
        from whyrank.models.bper import BPER

        bper = BPER(factors=self.factors, seed=self.seed, mu=0.5)
        for name in self.fitted:
            setattr(bper, f"{name}_", getattr(self, f"{name}_"))
        bper.user_bias_ = bper.item_bias_ = np.zeros(len(self.catalog_.explanations), np.float32)
        return self._share_catalog(bper)


@dataclass(kw_only=True, eq=False)
class _Joint(FactorModel):
    """Item ranking by p_u . q_i, learned together with the explanation task, which `alpha` weighs."""

    ranks_items = True

    alpha: float = parameter(0.5, "weight of the explanation task in training", at_least=0)

    def _weight(self) -> float:
        return self.alpha

    def passes(self, train: Triplets) -> tuple[Pass, ...]:
        items = PairwisePass("user", "item", train.user, train.item, known=train.user_items)
        return (*super().passes(train), items)

    def item_keys(self) -> Floats:
        return self.item_factors_

    def item_queries(self, users: Numbers) -> Floats:
        return rows(self.user_factors_, users)


@dataclass(kw_only=True, eq=False)
class CDJ(_Joint, CD):
    """CD and item ranking p_u . q_i, learned together."""

    id = "cd-j"
    summary = "CD with items: joint ranking"


@dataclass(kw_only=True, eq=False)
class PITFJ(_Joint, PITF):
    """PITF and item ranking p_u . q_i, learned together."""

    id = "pitf-j"
    summary = "PITF with items: joint ranking"
