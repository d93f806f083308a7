"""Models of factors trained by the engine: what they share."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.triplets import Triplets
from whyrank.errors import ParameterError
from whyrank.index.form import Floats, Numbers
from whyrank.models.base import Model, Shape, require_triplets
from whyrank.models.parameters import parameter, seed_parameter
from whyrank.training import FactorSettings, Pass, Run, Storage, Table, fold_in, grow, train


@dataclass(kw_only=True, eq=False)
class FactorModel(Model):
    """Says which tables it learns and by which passes over the triplets; the engine does the rest."""

    layout: ClassVar[dict[str, tuple[str, str | None]]]  # table -> fitted names of its factors and of its bias
    folds: ClassVar[dict[str, str]] = {}  # "user" and "item" -> the table of explanations that gives their factors

    factors: int = parameter(20, "d: length of a vector of factors", at_least=1, at_most=4096)
    learning_rate: float = parameter(0.01, "gamma", above=0)
    regularization: float = parameter(0.01, "lambda", at_least=0)
    epochs: int = parameter(500, "T: passes over the training data", at_least=1)
    seed: int = seed_parameter()
    solver: Literal["blocks", "sequential"] = parameter(
        "blocks", "blocks: parallel; sequential: the paper's loop", one_of=("blocks", "sequential")
    )
    shards: int | None = parameter(None, "blocks a side; None: by the size of the tables", at_least=1, at_most=256)
    epoch_unit: Literal["triplets", "records"] = parameter(
        "triplets",
        "an epoch visits every triplet (paper) or one a record (published code)",
        one_of=("triplets", "records"),
    )
    schedule: Literal["constant", "linear", "cosine"] = parameter(
        "constant", "how the learning rate changes over the epochs", one_of=("constant", "linear", "cosine")
    )
    factor_range: float = parameter(0.1, "factors start uniformly within plus or minus this", at_least=0)

    if TYPE_CHECKING:
        # What is fitted, by the names in `layout`.
        def __getattr__(self, name: str) -> Floats: ...
        def __setattr__(self, name: str, value: object) -> None: ...

    def shapes(self) -> dict[str, Shape]:
        found: dict[str, Shape] = {}
        for table, (factors, bias) in self.layout.items():
            rows = len(
                {"user": self.catalog_.users, "item": self.catalog_.items}.get(table, self.catalog_.explanations)
            )
            found |= {factors: (rows, self.factors)} | ({} if bias is None else {bias: (rows,)})
        return found

    def tables(self, train: Triplets) -> dict[str, Table]:
        """What is learned."""
        raise NotImplementedError

    def passes(self, train: Triplets) -> tuple[Pass, ...]:
        """From what, under which loss."""
        raise NotImplementedError

    def _fit(self, train_: Triplets, run: Run, validation: Triplets | None) -> None:
        self._learn(train_, self.settings(), run, None)

    def _learn(self, triplets: Triplets, settings: FactorSettings, run: Run, start: Storage | None) -> None:
        tables, passes = self.tables(triplets), self.passes(triplets)
        records = triplets.record_explanations.rows_of_entries().astype(np.int64)
        self._set_tables(train(tables, passes, settings, run, records=records, start=start))

    def _set_tables(self, learned: Storage) -> None:
        for table, (factors, bias) in self.layout.items():
            setattr(self, f"{factors}_", learned.factors(table).copy())
            if bias is not None:
                setattr(self, f"{bias}_", learned.bias(table).copy())

    def settings(self) -> FactorSettings:
        """How the tables are trained: parameters of the same names."""
        if self.learning_rate * self.regularization >= 1:
            raise ParameterError(f"regularization is {self.regularization!r}; use less than 1 / learning_rate")
        return FactorSettings(**{each.name: getattr(self, each.name) for each in fields(FactorSettings)})

    def partial_fit(self, new: Triplets, epochs: int = 50, run: Run | None = None) -> Self:
        """Go on learning from further triplets, which may hold new users, items and explanations.

        Triplets of pairs that are known already are learned from again; what has been counted is not counted twice.
        """
        self._check_fitted()
        require_triplets("partial_fit", new)
        run = run or Run()
        catalog = self.catalog_.grown(new, explanations=True)
        triplets = in_terms_of(new, catalog)
        start = grow(self._storage(), self.tables(triplets), self.seed, self.factor_range)
        self._learn(triplets, replace(self.settings(), epochs=epochs), run, start)
        self.catalog_ = catalog
        self._took_in(new.digest())
        self._forget()
        return self

    def seen_at(self, learned: Storage) -> Self:
        """The model as tables that are still being learned make it; it is another object, and holds copies."""
        view = self._view(self.catalog_)
        view._set_tables(learned)
        return view

    def _storage(self) -> Storage:
        """The fitted tables as the engine holds them."""
        tables = {}
        for name, (factors, bias) in self.layout.items():
            tables[name] = Table(len(getattr(self, f"{factors}_")), self.factors, bias=bias is not None)
        storage = Storage(tables)
        for name, (factors, bias) in self.layout.items():
            storage.factors(name)[:] = getattr(self, f"{factors}_")
            if bias is not None:
                storage.bias(name)[:] = getattr(self, f"{bias}_")
        return storage

    def item_query_from(self, items: Numbers) -> Floats:
        """Factors from the items alone, as Algorithm 1 learns a row while all else stays; then the item's bias."""
        factors, bias = self.layout["item"]

        def only_items() -> Storage:
            table = getattr(self, f"{factors}_")
            storage = Storage({"item": Table(len(table), self.factors, bias=bias is not None)})
            storage.factors("item")[:] = table
            if bias is not None:
                storage.bias("item")[:] = getattr(self, f"{bias}_")
            return storage

        positives = CSR(np.array([0, len(items)]), items, np.ones(len(items), np.int32))
        row = fold_in(self.cached("items alone", only_items), "item", positives, self.settings())
        return np.hstack([row, np.ones((1, self.item_constant), np.float32)])

    def _grow(self, catalog: Catalog) -> None:
        if not self.folds:
            raise ParameterError(f"{type(self).__name__} cannot fold in: its factors come in threes; use partial_fit")
        storage = self._storage()
        sides = (("user", catalog.user_explanations), ("item", catalog.item_explanations))
        for side, relation in sides:
            factors, bias = self.layout[side]
            known = getattr(self, f"{factors}_")
            fresh = relation.take(np.arange(len(known), relation.rows))
            rows = fold_in(storage, self.folds[side], fresh, self.settings())
            setattr(self, f"{factors}_", np.vstack([known, rows]))
            if bias is not None:
                old = getattr(self, f"{bias}_")
                setattr(self, f"{bias}_", np.concatenate([old, np.zeros(len(rows), np.float32)]))


def in_terms_of(new: Triplets, catalog: Catalog) -> Triplets:
    """New triplets under a catalog's numbers, with the catalog's relations as what is known."""
    user = catalog.users.numbers(new.users.ids)[new.record_user]
    item = catalog.items.numbers(new.items.ids)[new.record_item]
    said = catalog.explanations.numbers(new.explanations.ids)[new.explanation]
    records = CSR.from_pairs(new.record_explanations.rows_of_entries(), said, new.records, len(catalog.explanations))
    triplets = Triplets(catalog.users, catalog.items, catalog.explanations, user, item, records, catalog.texts)
    vars(triplets).update(
        user_explanations=catalog.user_explanations,
        item_explanations=catalog.item_explanations,
        user_items=catalog.user_items,
    )
    return triplets


def popularity_start(holders: NDArray[np.int64], rows: int, records: int) -> Floats:
    """The published code's start of a bias: how many rows hold an explanation, over all rows, minus the mean."""
    start = holders / max(rows, 1) - records / max(rows * len(holders), 1)
    return start.astype(np.float32)
