"""The cases of a study: test pairs, what was really said, and the lists of two models."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whyrank.errors import DataError, ParameterError
from whyrank.explain.options import Options
from whyrank.explain.rank import rank

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from whyrank.data.triplets import Triplets
    from whyrank.models import Model

AT_ONCE = 256  # test pairs that are ranked at once until enough cases are found


@dataclass(frozen=True)
class Case:
    """One pair with its ground truth and two lists, all as texts."""

    user: str
    item: str
    truth: list[str]
    a: list[str]
    b: list[str]


class Cases:
    """The test pairs of a split, read when they are first needed."""

    def __init__(self, folder: str, number: int = 1) -> None:
        self._folder, self._number, self._lock = folder, number, threading.Lock()
        self._test: Triplets | None = None

    @property
    def known(self) -> int | None:
        """How many test pairs there are, once that is known."""
        return None if self._test is None else self._test.records

    def test(self) -> Triplets:
        from whyrank.data import read_split

        with self._lock:
            if self._test is None:
                self._test = read_split(self._folder, self._number).test
            return self._test


def sample_cases(
    test: Triplets, a: Model, b: Model, *, count: int, n: int, seed: int, options: Options | None = None
) -> list[Case]:
    """Draw test pairs on which both models have `n` reasons and the two lists differ.

    Lists of different lengths would tell the models apart, and equal lists leave nothing to choose.
    """
    options = options or Options.plain()
    if count < 1 or n < 1:
        raise ParameterError("a study needs at least one case and at least one reason in a list")
    order = np.random.default_rng([seed, 9]).permutation(test.records)
    cases: list[Case] = []
    for start in range(0, len(order), AT_ONCE):
        records = np.sort(order[start : start + AT_ONCE])
        found = dict(_cases(test, records, a, b, n, options))
        cases += [found[record] for record in order[start : start + AT_ONCE].tolist() if record in found]
        if len(cases) >= count:
            return cases[:count]
    have = f"only {len(cases)} of {test.records} test pairs have two different lists of {n} reasons"
    raise DataError(f"{have}; ask for fewer cases or a smaller n", expected=f"{count} cases")


def _cases(
    test: Triplets, records: NDArray[np.int64], a: Model, b: Model, n: int, options: Options
) -> list[tuple[int, Case]]:
    users = test.users.terms(test.record_user[records])
    items = test.items.terms(test.record_item[records])
    lists_a, lists_b = (_lists(model, users, items, n, options) for model in (a, b))
    texts = test.explanations.ids if test.texts is None else test.texts
    made = []
    for at, record in enumerate(records.tolist()):
        one, two = lists_a.get(at), lists_b.get(at)
        if one is None or two is None or set(one) == set(two):
            continue
        truth = texts.gather(test.record_explanations.row(record)).to_list()
        made.append((record, Case(users[at], items[at], truth, one, two)))
    return made


def _lists(model: Model, users: pl.Series, items: pl.Series, n: int, options: Options) -> dict[int, list[str]]:
    """Full lists of texts by place, for the pairs that the model knows."""
    catalog = model.catalog_
    user_numbers = catalog.users.numbers(users, missing="negative")
    item_numbers = catalog.items.numbers(items, missing="negative")
    known = np.flatnonzero((user_numbers >= 0) & (item_numbers >= 0))
    if not len(known):
        return {}
    numbers = rank(model, user_numbers[known], item_numbers[known], n, options).numbers
    full = [(at, row) for at, row in zip(known.tolist(), numbers, strict=True) if len(row) == n and (row >= 0).all()]
    return {at: catalog.text_of(row).to_list() for at, row in full}
