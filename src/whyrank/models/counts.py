"""Strong baselines without factors: counts of what the user says and of what is said about the item."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from whyrank.data.catalog import Catalog
from whyrank.data.csr import CSR
from whyrank.data.split import split_records
from whyrank.data.triplets import Triplets
from whyrank.explain.options import Options
from whyrank.explain.rank import PLAIN, rank
from whyrank.index.form import Block, Bonus, Floats, Numbers, Rows
from whyrank.models._evidence import SideMentions, Strength, evidence_at, evidence_of_pairs, evidence_of_rows
from whyrank.models.base import Model, Shape
from whyrank.models.parameters import parameter
from whyrank.training import Run
from whyrank.training._metrics import hits

Scales = NDArray[np.float64]
MANY = 256  # pairs of a call, from which on what they share is made once
SAMPLE = 2000  # validation records that decide between settings
WORTH_WEIGHTS = (1.0, 2.0)
SERVED = Options()
LEAST = 0.02  # share of the records that has to be held out


def held_out(train: Triplets, validation: Triplets | None) -> tuple[Triplets, Triplets]:
    """Training and validation records; a tenth of training, drawn by a fixed seed, where validation has hardly any.

    Where nearly everybody has one record, that of some is held out although nothing else is known of them.
    """
    if validation is not None and validation.records >= LEAST * train.records:
        return train, validation
    for method in ("random", "hash"):
        split = split_records(train, seed=0, test=0.1, validation=0.0, method=method, warn=False)
        if split.test.records >= LEAST * train.records and split.train.records:
            return split.train, split.test
    return train, train


def sampled(validation: Triplets, sample: int = SAMPLE) -> Triplets:
    """A fixed sample of records, by which settings are chosen."""
    return validation.take(np.sort(np.random.default_rng(0).permutation(validation.records)[:sample]))


def quality(model: Model, part: Triplets, k: int = 10, among: CSR | None = None, options: Options = PLAIN) -> float:
    """ndcg_paper@k on records; `among`: the candidates of every item."""
    return float(record_quality(model, part, k, among, options).mean())


def record_quality(
    model: Model, part: Triplets, k: int = 10, among: CSR | None = None, options: Options = PLAIN
) -> NDArray[np.float64]:
    """ndcg_paper@k of every record."""
    ranked = rank(model, part.record_user, part.record_item, k, options, among=among).numbers
    gains = 1 / np.log2(np.arange(2, k + 2))
    found = hits(ranked, part.record_explanations.indptr, part.record_explanations.indices)
    scores: NDArray[np.float64] = found @ gains[: ranked.shape[1]] / gains.sum()
    return scores


def best_worth_weight(parts: Sequence[tuple[Model, Triplets]]) -> float:
    """Choose how much a reason's worth counts in lists that are shown: as much as what is said, or twice.

    Args:
        parts: Models, each with records that it has not learned from.

    Returns:
        The weight of the log of worth by which the lists of these records are best.
    """
    scores = np.zeros(len(WORTH_WEIGHTS))
    for model, check in parts:
        catalog = model.catalog_
        if len(catalog.people.worth):
            for place, weight in enumerate(WORTH_WEIGHTS):
                model.catalog_ = replace(catalog, worth_weight=weight)
                scores[place] += quality(model, check, options=SERVED) * check.records
            model.catalog_ = catalog
    return WORTH_WEIGHTS[int(np.argmax(scores))]


def shared(rows: Numbers) -> tuple[Numbers, NDArray[np.int64]]:
    """The rows whose part is made, and the place of every pair's row among them: of many pairs, each row once."""
    if len(rows) < MANY:
        return rows, np.arange(len(rows))
    some, places = np.unique(rows, return_inverse=True)
    return some, places.astype(np.int64, copy=False)


class EvidenceModel(Model):
    """A model whose bonus is what the user has said plus what was said about the item."""

    logs: ClassVar[bool] = True  # log(1 + each) instead of each

    def strengths(self, mu: float | None = None) -> tuple[Strength, Strength]:
        """How much the user's and the item's mentions add."""
        raise NotImplementedError

    def bonus(self, users: Numbers, items: Numbers, n: int, mu: float | None = None) -> Bonus:
        (some, user_of), (others, item_of) = shared(users), shared(items)
        user, item = self._mentions(mu)
        return Bonus(*evidence_of_pairs(some, user_of, user.plain(), others, item_of, item.plain()))

    def bonus_parts(self, users: Numbers, items: Numbers, mu: float | None = None) -> dict[str, Bonus]:
        return {
            name: Bonus(ends, explanations, values.astype(np.float32))
            for name, rows, mentions in zip(("user", "item"), (users, items), self._mentions(mu), strict=True)
            for ends, explanations, values in [evidence_of_rows(rows, mentions)]
        }

    def bonus_at(
        self, users: Numbers, items: Numbers, row: Rows, explanations: Numbers, mu: float | None = None
    ) -> dict[str, Floats]:
        user, item = self._mentions(mu)
        of_user, of_item = evidence_at(users, row, explanations, user), evidence_at(items, row, explanations, item)
        return {"user": of_user, "item": of_item}

    def _mentions(self, mu: float | None) -> tuple[SideMentions, SideMentions]:
        of_user, of_item = self.strengths(mu)
        said, about = self.catalog_.user_explanations, self.catalog_.item_explanations
        return SideMentions(said, of_user, self.logs), SideMentions(about, of_item, self.logs)


@dataclass(kw_only=True, eq=False)
class COUNTS(EvidenceModel):
    """log p_e + log(1 + n_ue / (a p_e^w)) + log(1 + n_ie / (b p_e^w)): smoothed log-ratios, in closed form.

    n_ue and n_ie count the training records of the user and of the item that hold the explanation, p_e is its share of
    all triplets. What is None is chosen from a small grid on validation records.
    """

    id = "counts"
    summary = "popularity and smoothed log-ratios of user and item counts"
    fitted: ClassVar[tuple[str, ...]] = ("strengths",)
    types: ClassVar[Mapping[str, type]] = {"strengths": np.float64}
    grid: ClassVar[tuple[float, ...]] = (1.0, 3.0, 10.0, 30.0)

    user_smoothing: float | None = parameter(None, "a: larger trusts the user's own words less", above=0)
    item_smoothing: float | None = parameter(None, "b: larger trusts what was said about the item less", above=0)
    power: float | None = parameter(None, "w: how much popularity discounts counts", at_least=0, at_most=2)

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        given = (self.user_smoothing, self.item_smoothing, self.power)
        options = [
            grid if value is None else (value,)
            for value, grid in zip(given, (self.grid, self.grid, (0.5, 1.0)), strict=True)
        ]
        candidates = [np.array(each) for each in itertools.product(*options)]
        self.strengths_: Scales = candidates[0]
        if len(candidates) == 1:
            return
        learn, check = held_out(train, validation)
        view, check = self._view(Catalog.for_ranking(learn)), sampled(check)
        scores = []
        for view.strengths_ in candidates:
            scores.append(quality(view, check))
        self.strengths_ = candidates[int(np.argmax(scores))]

    def shapes(self) -> dict[str, Shape]:
        return {"strengths": (3,)}

    def keys(self) -> Floats:
        logs: Floats = np.log(np.maximum(self.catalog_.popularity, 0.5)).astype(np.float32)
        return logs[:, None]

    def queries(self, users: Numbers, items: Numbers, mu: float | None = None) -> Floats:
        return np.ones((len(users), 1), np.float32)

    def blocks(self) -> tuple[Block, ...]:
        return (Block("popularity", 1),)

    def strengths(self, mu: float | None = None) -> tuple[Strength, Strength]:
        return self.cached(("strengths", self.strengths_.tobytes()), self._strengths)

    def _strengths(self) -> tuple[Strength, Strength]:
        a, b, w = self.strengths_
        popularity = np.maximum(self.catalog_.popularity, 0.5)
        discount = (popularity / popularity.sum()) ** -w
        return Strength(discount / a), Strength(discount / b)


@dataclass(kw_only=True, eq=False)
class SHARE(EvidenceModel):
    """mu x the share of the user's triplets that hold the explanation plus (1 - mu) x that of the item's."""

    id = "share"
    summary = "share of the user's and of the item's own explanations"
    logs: ClassVar[bool] = False

    mu: float = parameter(0.5, "weight of the user's share against the item's", at_least=0, at_most=1)

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        pass

    def strengths(self, mu: float | None = None) -> tuple[Strength, Strength]:
        ones = self.cached("ones", lambda: np.ones(len(self.catalog_.explanations)))
        mu = self.mu if mu is None else mu
        return Strength(ones, mu, activity=1.0), Strength(ones, 1 - mu, activity=1.0)


class _Own(EvidenceModel):
    """Counts of one side alone; ties, and what was never said, by popularity."""

    logs: ClassVar[bool] = False
    weights: ClassVar[tuple[float, float]]  # of the user's and of the item's counts

    def _fit(self, train: Triplets, run: Run, validation: Triplets | None) -> None:
        pass

    def strengths(self, mu: float | None = None) -> tuple[Strength, Strength]:
        ones = self.cached("ones", lambda: np.ones(len(self.catalog_.explanations)))
        return Strength(ones, self.weights[0]), Strength(ones, self.weights[1])


@dataclass(kw_only=True, eq=False)
class USERPOP(_Own):
    """What the user has said most often, whatever the item; StaR's baseline, strong among an item's explanations."""

    id = "userpop"
    summary = "the user's own most frequent explanations"
    weights = (1.0, 0.0)


@dataclass(kw_only=True, eq=False)
class ITEMPOP(_Own):
    """What was said most often about the item, the same for every user; StaR's baseline."""

    id = "itempop"
    summary = "the item's most frequent explanations"
    weights = (0.0, 1.0)
