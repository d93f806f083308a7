"""How well a model ranks: reasons of test pairs, and items of test users where it ranks items."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.data.split import Split
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError, ParameterError
from whyrank.evaluation import beyond
from whyrank.evaluation.candidates import Kind, in_numbers_of, of_model, of_split, options_for
from whyrank.evaluation.metrics import per_list
from whyrank.explain.options import Options
from whyrank.explain.rank import pair_places, rank_items
from whyrank.explain.result import ranked_known
from whyrank.explain.words import word_sets
from whyrank.models.base import Model

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """Mean metrics as fractions, and the values behind them for significance tests.

    `explanation` is the mean over pairs, `by_user` the mean over users of the mean over their pairs.
    """

    model: str
    k: int
    pairs: int
    explanation: dict[str, float]
    recommendation: dict[str, float] | None
    explanation_on_recommended: dict[str, float] | None
    seconds: float
    per_pair: dict[str, Values] = field(repr=False)
    per_user: dict[str, Values] | None = field(repr=False, default=None)
    known_pairs: int = 0  # pairs that the model was fitted to: figures are too good where there are any
    users: NDArray[np.int32] | None = field(repr=False, default=None)  # of each pair, for tests that cluster by user
    candidates: Kind = "pool"
    reach: dict[str, float] | None = None  # of candidates "item" and "item-all": see `evaluate`
    learned_among: str = "pool"  # candidates that the model has learned from
    by_user: dict[str, float] = field(default_factory=dict)
    without_reason: float = 0.0  # share of the pairs with an empty list, which is a miss
    served: Evaluation | None = None  # the same pairs, with the lists that `explain` shows

    def as_dict(self) -> dict[str, object]:
        """What `whyrank evaluate --json` prints."""
        names = (
            "model",
            "k",
            "pairs",
            "explanation",
            "by_user",
            "without_reason",
            "recommendation",
            "explanation_on_recommended",
            "seconds",
            "known_pairs",
            "candidates",
            "reach",
            "learned_among",
        )
        shown = ("explanation", "by_user", "without_reason")
        served = None if self.served is None else {name: getattr(self.served, name) for name in shown}
        return {name: getattr(self, name) for name in names} | {"served": served}


def evaluate(
    model: Model,
    test: Triplets | Split,
    k: int = 10,
    *,
    candidates: Kind = "pool",
    known: Triplets | None = None,
    items: bool = True,
    beyond_accuracy: bool = True,
    served: bool = True,
    threads: int | None = None,
    **options: Any,
) -> Evaluation:
    """Rank the explanations of every test pair (of a split: its test part) and measure the top `k`.

    The model is asked as `explain` asks it, with the same options: nothing of the test record reaches it, and pairs of
    unknown items get no list.

    Models that rank items are also measured on items, one list per test user over the items that are neither in the
    user's training data nor in `known`, which are no misses. As the paper does, explanations of joint models are then
    measured a second time on the test pairs whose item was recommended (`explanation_on_recommended`, which has no
    figures but `pairs` where there is none); `explanation` is always over all measured pairs.

    Args:
        model: A fitted model.
        test: Test records, or a split.
        k: Length of the lists.
        candidates: What is ranked. "pool": all explanations, as the paper does. "item": what the training part
            (without a split: what the model was fitted to) says about the item, where only explanations that can be
            reached count and pairs without any are left out. "item-all": what anybody ever said about the item, test
            records included, as StaR does, which tells the list what somebody will say. "served": what `explain` shows
            with its defaults, where a pair without a reason is a miss.
        known: More records whose items are not recommended (of a split: its validation part).
        items: Whether items are measured, too.
        beyond_accuracy: Whether coverage, novelty, personalization and redundancy are measured, too.
        served: Whether the served lists are measured, too, beside other candidates (`served`).
        threads: How many threads rank; all cores unless given.
        options: Options of `whyrank.Options`. Without any, candidates are ranked by score alone, and served lists as by
            default.

    Returns:
        The figures. `reach` has the shares of test `pairs` and `truths` (explanations of test pairs) that can be
        reached, and the mean number of `candidates` of a pair.

    Raises:
        NotFitted: The model is not fitted.
        ParameterError: `k` or `candidates` is bad.
        DataError: Nothing can be measured.

    Examples:
        >>> import whyrank as wr
        >>> split = wr.simulate("small", users=60, items=9, records=300, triplets=500, seed=0).split(seed=0)
        >>> found = evaluate(wr.POP().fit(split), split, candidates="item")
        >>> 0 < found.reach["pairs"] <= 1
        True
    """
    if k < 1:
        raise ParameterError(f"k is {k}; use at least 1")
    model._check_fitted()
    whole = test.test if isinstance(test, Split) else test
    if not whole.records:
        raise DataError("the test part is empty", expected="at least one record")
    if isinstance(test, Split):
        known = test.validation if known is None else known
        measured, among = of_split(test, candidates)
        among = in_numbers_of(model, whole, among)
    else:
        measured, among = of_model(model, whole, candidates)
    users, found_items, relevant = in_terms_of(model, measured.test)
    begin = time.perf_counter()
    ranked = _lists(model, measured.test, users, found_items, k, options_for(candidates, options), threads, among)
    per_pair = per_list(padded(ranked, k), relevant)
    explanation = {name: float(values.mean()) for name, values in per_pair.items()}
    recommendation = on_recommended = per_user = None
    if items and model.ranks_items:
        others = _pairs(model, *in_terms_of(model, known)[:2]) if known is not None else None
        per_user, correct = _evaluate_items(model, *in_terms_of(model, whole)[:2], others, k, threads)
        correct = correct[measured.records]
        recommendation = {name: float(values.mean()) for name, values in per_user.items()}
        on_recommended = {n: float(v[correct].mean()) for n, v in per_pair.items()} if correct.any() else {}
        on_recommended["pairs"] = float(correct.sum())
    if beyond_accuracy:
        popularity = test.training.popularity if isinstance(test, Split) else None
        explanation |= _beyond(model, ranked, users, relevant, popularity)
    seconds, fitted = time.perf_counter() - begin, int(model.catalog_.knows(users, found_items).sum())
    reach = None
    if among is not None:
        sizes = np.where(found_items >= 0, among.sizes()[found_items], 0)
        reach = {"pairs": measured.pairs, "truths": measured.truths, "candidates": float(sizes.mean())}
    shown = None
    if served and candidates != "served":
        again = partial(evaluate, candidates="served", items=False, beyond_accuracy=False, threads=threads)
        shown = again(model, test, k, **options)
    return Evaluation(
        *(model.id, k, measured.test.records, explanation, recommendation, on_recommended, seconds, per_pair),
        *(per_user, fitted, measured.test.record_user, candidates, reach, model.learned_among),
        by_user=by_user(per_pair, measured.test.record_user),
        without_reason=float((ranked[:, 0] < 0).mean()),
        served=shown,
    )


def _lists(
    model: Model,
    test: Triplets,
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    k: int,
    options: Options,
    threads: int | None,
    among: CSR | None,
) -> NDArray[np.int32]:
    """The lists of test pairs, as `explain` ranks them."""
    asking = users if options.personal else np.full_like(users, -1)
    places = None
    if options.drawn:
        places = pair_places(test.users.terms(test.record_user), test.items.terms(test.record_item))
    return ranked_known(model, asking, items, k, options, threads, places, among).numbers


def by_user(per_pair: Mapping[str, Values], users: NDArray[np.int32]) -> dict[str, float]:
    """Means over users of the means over their pairs.

    >>> by_user({"hit": np.array([1.0, 1.0, 0.0])}, np.array([7, 7, 9]))
    {'hit': 0.5}
    """
    _, place, pairs = np.unique(users, return_inverse=True, return_counts=True)
    return {name: float((np.bincount(place, values) / pairs).mean()) for name, values in per_pair.items()}


def in_terms_of(model: Model, test: Triplets) -> tuple[NDArray[np.int32], NDArray[np.int32], CSR]:
    """Test records under the model's own numbers; unknown users and items are -1, unknown explanations never hit."""
    catalog = model.catalog_
    if test.users is catalog.users and test.items is catalog.items and test.explanations is catalog.explanations:
        return test.record_user, test.record_item, test.record_explanations
    numbers = [
        known.numbers(own.ids, missing="negative")
        for own, known in zip(
            (test.users, test.items, test.explanations),
            (catalog.users, catalog.items, catalog.explanations),
            strict=True,
        )
    ]
    said = numbers[2][test.explanation]
    unknown = said < 0  # each gets a number of its own beyond the pool, so that it stays relevant but out of reach
    said[unknown] = len(catalog.explanations) + np.arange(unknown.sum())
    record = test.record_explanations.rows_of_entries()
    relevant = CSR.from_pairs(record, said, test.records, len(catalog.explanations) + len(said))
    return numbers[0][test.record_user], numbers[1][test.record_item], relevant


def padded(ranked: NDArray[np.int32], k: int) -> NDArray[np.int32]:
    """Lists of exactly k places, -1 where the pool was smaller."""
    return np.pad(ranked, ((0, 0), (0, k - ranked.shape[1])), constant_values=-1)


def _evaluate_items(
    model: Model, users: NDArray[np.int32], items: NDArray[np.int32], others: CSR | None, k: int, threads: int | None
) -> tuple[dict[str, Values], NDArray[np.bool_]]:
    """Metrics per test user over items outside of `others`, and which test pairs had their item recommended."""
    known = (users >= 0) & (items >= 0)
    relevant = _pairs(model, users, items)
    asked = np.flatnonzero(relevant.sizes()).astype(np.int32)
    if not len(asked):
        raise DataError("no test user or item is known to the model", expected="a test part of the same data")
    most = k if others is None else k + int(others.sizes()[asked].max())
    ranked = padded(rank_items(model, asked, most, threads).numbers, most)
    if others is not None:
        rows = np.repeat(asked, most)
        left = ~others.holds(rows, ranked.ravel()).reshape(ranked.shape)
        left |= np.isin(ranked, -1) | relevant.holds(rows, ranked.ravel()).reshape(ranked.shape)
        order = np.argsort(~left, axis=1, kind="stable")
        ranked = np.where(np.take_along_axis(left, order, 1), np.take_along_axis(ranked, order, 1), np.int32(-1))
    ranked = ranked[:, :k]
    per_user = per_list(ranked, relevant.take(asked))
    place = np.full(len(model.catalog_.users) + 1, -1)
    place[asked] = np.arange(len(asked))
    correct = known & (ranked[place[users]] == items[:, None]).any(1)
    return per_user, correct


def _pairs(model: Model, users: NDArray[np.int32], items: NDArray[np.int32]) -> CSR:
    """Of every user the items of these pairs; pairs with unknown numbers (-1) are left out."""
    known = (users >= 0) & (items >= 0)
    return CSR.from_pairs(users[known], items[known], len(model.catalog_.users), len(model.catalog_.items))


def _beyond(
    model: Model,
    ranked: NDArray[np.int32],
    users: NDArray[np.int32],
    relevant: CSR,
    popularity: NDArray[np.int64] | None,
) -> dict[str, float]:
    """`popularity` is that of a split's training part, the same for all models; None: what the model was fitted to."""
    catalog = model.catalog_
    if popularity is None or len(popularity) != len(catalog.explanations):
        popularity = catalog.popularity
    unknown = max(int(relevant.indices.max(initial=-1)) + 1 - len(popularity), 0)  # numbers beyond the pool
    said = np.concatenate([popularity, np.zeros(unknown, popularity.dtype)])
    return {
        "ndcg_propensity": beyond.propensity_ndcg(ranked, relevant, said),
        "coverage": beyond.coverage(ranked, len(catalog.explanations)),
        "novelty": beyond.novelty(ranked, catalog.popularity),
        "personalization": beyond.personalization(ranked, users),
        "redundancy": beyond.redundancy(ranked, word_sets(catalog)),
    }
