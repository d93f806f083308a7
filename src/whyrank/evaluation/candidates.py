"""What is ranked for a test pair: the whole pool, what people say about its item, or what `explain` shows of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.data.split import Split
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError, ParameterError
from whyrank.explain.options import Options
from whyrank.models.base import Model

Kind = Literal["pool", "item", "item-all", "served"]


class Measured(NamedTuple):
    """The part of a test set that a protocol measures, and how much of it that is."""

    test: Triplets  # with the explanations that can be reached
    records: NDArray[np.int64]  # of the whole test part, those that are left
    pairs: float  # share of the test pairs with an explanation that can be reached
    truths: float  # share of the explanations of test pairs that can be reached


def check_kind(candidates: str) -> None:
    if candidates not in get_args(Kind):
        raise ParameterError(f"candidates is {candidates!r}; use one of {', '.join(get_args(Kind))}")


def options_for(candidates: Kind, given: Mapping[str, Any] | None = None) -> Options:
    """How such candidates are ranked: by score alone or, where they are served, with the defaults of `explain`."""
    check_kind(candidates)
    return Options.of(given or {}) if candidates == "served" else Options.plain(**given or {})


def measured(test: Triplets, reached: NDArray[np.bool_] | None) -> Measured:
    """The records of a test part with those of their explanations that can be reached; None: all can."""
    if reached is None:
        return Measured(test, np.arange(test.records), 1.0, 1.0)
    left = test.without(~reached)
    if not left.records:
        raise DataError(
            "no explanation of a test pair is known of its item", expected="items with records in the training part"
        )
    records = np.unique(test.record_explanations.rows_of_entries()[reached]).astype(np.int64)
    return Measured(left, records, left.records / test.records, float(reached.mean()))


def of_split(split: Split, candidates: Kind) -> tuple[Measured, CSR | None]:
    """What is measured of a split's test part, and the candidates of every item; None: the whole pool.

    `item`: what the training part says about it, validation included. `item-all`: the test part as well. With `served`
    the options choose, see `options_for`.
    """
    check_kind(candidates)
    if candidates in ("pool", "served"):
        return measured(split.test, None), None
    if candidates == "item":
        known = split.training.item_explanations
        return measured(split.test, known.holds(split.test.item, split.test.explanation)), known
    parts = (split.train_records, split.validation_records, split.test_records)
    return measured(split.test, None), split.data.take(np.sort(np.concatenate(parts))).item_explanations


def of_model(model: Model, test: Triplets, candidates: Kind) -> tuple[Measured, CSR | None]:
    """The same without a split: what the model was fitted to is the training part. Candidates have its numbers."""
    check_kind(candidates)
    if candidates in ("pool", "served"):
        return measured(test, None), None
    said = model.catalog_.item_explanations
    items, pool = _numbers(model, test)
    item, explanation = items[test.item], pool[test.explanation]
    known = (item >= 0) & (explanation >= 0)
    if candidates == "item":
        reached = known & said.holds(np.maximum(item, 0), np.maximum(explanation, 0))
        return measured(test, reached), said
    rows = np.concatenate([said.rows_of_entries(), item[known]])
    columns = np.concatenate([said.indices, explanation[known]])
    return measured(test, None), CSR.from_pairs(rows, columns, said.rows, len(model.catalog_.explanations))


def in_numbers_of(model: Model, test: Triplets, known: CSR | None) -> CSR | None:
    """Candidates of a split under the model's numbers; what it does not know cannot be ranked."""
    catalog = model.catalog_
    if known is None or (test.items is catalog.items and test.explanations is catalog.explanations):
        return known
    items, pool = _numbers(model, test)
    item, explanation = items[known.rows_of_entries()], pool[known.indices]
    kept = (item >= 0) & (explanation >= 0)
    return CSR.from_pairs(item[kept], explanation[kept], len(catalog.items), len(catalog.explanations))


def _numbers(model: Model, test: Triplets) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The model's numbers of the items and explanations of a test part, -1 where it does not know them."""
    catalog = model.catalog_
    return (
        catalog.items.numbers(test.items.ids, missing="negative"),
        catalog.explanations.numbers(test.explanations.ids, missing="negative"),
    )
