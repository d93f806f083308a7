"""ExpGCN: vectors that are averaged over the graphs of users and items with explanations (Wei et al., 2023)."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from whyrank.data.catalog import Catalog
from whyrank.data.triplets import Triplets
from whyrank.errors import ParameterError
from whyrank.index.form import Block, Floats, Numbers, rows
from whyrank.models.base import Model, Shape
from whyrank.models.counts import held_out, quality, sampled
from whyrank.models.parameters import parameter, seed_parameter, values
from whyrank.thread_pool import ThreadPool
from whyrank.training import Run
from whyrank.training.checkpoint import Arrays, Checkpoint
from whyrank.training.graph import TABLES, GraphSettings, GraphTrainer, Tables
from whyrank.training.loop import run_epochs


@dataclass(kw_only=True, eq=False)
class ExpGCN(Model):
    """p_u . oU_e + q_i . oI_e, where vectors are means over the layers of a graph convolution.

    The graph of users, items and explanations is divided by the kind of its edges: users with what they said, items
    with what was said about them. In each, a node's vector in the next layer is the sum of its neighbours', divided by
    the roots of both degrees (LightGCN); explanations start from the same vectors in both. Trained by BPR with several
    negatives and Adam; it stops when validation no longer rises. The task of ranking items is left out.
    """

    id = "expgcn"
    summary = "graph convolution over user-explanation and item-explanation"
    uses_validation = True
    fitted: ClassVar[tuple[str, ...]] = ("user_factors", "item_factors", "explanation_by_user", "explanation_by_item")

    factors: int = parameter(64, "d: length of a vector", at_least=1, at_most=4096)
    layers: int = parameter(2, "how far the convolution reaches", at_least=0, at_most=8)
    learning_rate: float = parameter(0.005, "of Adam", above=0)
    regularization: float = parameter(1e-6, "weight of the squared vectors", at_least=0)
    negatives: int = parameter(20, "drawn for every triplet", at_least=1, at_most=1000)
    batch: int = parameter(4096, "triplets a step", at_least=1)
    epochs: int = parameter(200, "passes over the training data at most", at_least=1)
    seed: int = seed_parameter()

    def shapes(self) -> dict[str, Shape]:
        catalog, d = self.catalog_, self.factors
        sizes = (catalog.users, catalog.items, catalog.explanations, catalog.explanations)
        return {name: (len(size), d) for name, size in zip(self.fitted, sizes, strict=True)}

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        learn, check = held_out(train, validation)
        check, probe = sampled(check), copy.copy(self)
        probe.catalog_ = Catalog.for_ranking(learn)

        def measure(tables: Tables) -> float:
            probe._set_tables(dict(zip(TABLES, tables, strict=True)))
            return quality(probe, check)

        settings = GraphSettings(*(getattr(self, name) for name in GraphSettings._fields))
        checkpoint = Checkpoint(run, self.id, values(self), (train.digest(), validation.digest() if validation else ""))
        with ThreadPool(run.threads or os.cpu_count() or 1) as threads:
            trainer = GraphTrainer(learn, settings, measure, threads)
            run_epochs(trainer, run, checkpoint)
            self._set_tables(trainer.best())

    def _set_tables(self, tables: Arrays) -> None:
        self.user_factors_, self.item_factors_ = tables["user_factors"], tables["item_factors"]
        self.explanation_by_user_ = tables["explanation_by_user"]
        self.explanation_by_item_ = tables["explanation_by_item"]
        self._forget()

    def keys(self) -> Floats:
        return np.hstack([self.explanation_by_user_, self.explanation_by_item_])

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        return np.hstack([rows(self.user_factors_, users), rows(self.item_factors_, items)])

    def blocks(self) -> tuple[Block, ...]:
        return (Block("user", self.factors), Block("item", self.factors))

    def _grow(self, catalog: Catalog) -> None:
        raise ParameterError("ExpGCN cannot fold in: its vectors come from the whole graph; fit it again")
