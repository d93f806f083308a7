"""What runs are asked: everything that experiments need of a fitted model, as numbers and small arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.data.split import Split
from whyrank.data.triplets import Triplets
from whyrank.errors import DataError
from whyrank.evaluation import beyond, evaluate
from whyrank.evaluation.candidates import Kind, of_split, options_for
from whyrank.evaluation.metrics import discounts, per_list
from whyrank.explain.goals import choose_items, unexpected
from whyrank.explain.options import ItemGoals, Options
from whyrank.explain.rank import rank, rank_items
from whyrank.explain.words import word_sets
from whyrank.lab.experiments import relation
from whyrank.lab.experiments.cache import Facts, Result
from whyrank.lab.experiments.jobs import K
from whyrank.models import Model

STEPS = [step / 10 for step in range(11)]
FEW = 64  # records that are ranked before the clock starts
METRICS = ("ndcg_paper", "precision", "recall", "f1")
ASKED = 300  # test users whose item lists show what goals cost
CANDIDATES = 1000  # best items of a user that goals choose from
MOST = 20_000  # validation pairs that decide; more change nothing but time


def choose_mu(
    model: Model,
    validation: Triplets,
    threads: int | None = None,
    options: Options | None = None,
    among: CSR | None = None,
) -> float:
    """Set `mu` to what ranks validation best (ndcg_paper), and say it; the smallest where several do.

    `among` has the candidates of every item; None: the whole pool, or what the options choose.
    """
    part = sample(validation)
    if not part.records:
        raise DataError("the validation part is empty", expected="a split with validation records")
    scores = []
    for model.mu in STEPS:  # type: ignore[attr-defined]
        scores.append(means(model, part, threads, options, among)["ndcg_paper"])
    model.mu = STEPS[int(np.argmax(scores))]  # type: ignore[attr-defined]
    return float(model.mu)  # type: ignore[attr-defined]


def sample(part: Triplets, most: int = MOST) -> Triplets:
    """At most so many records, always the same ones."""
    if part.records <= most:
        return part
    return part.take(np.sort(np.random.default_rng(0).permutation(part.records)[:most]))


def lists(
    model: Model,
    part: Triplets,
    threads: int | None = None,
    options: Options | None = None,
    among: CSR | None = None,
) -> NDArray[np.int32]:
    """Rank the top K of every record, -1 where there are fewer."""
    found = rank(model, part.record_user, part.record_item, K, options or Options.plain(), threads, among).numbers
    return np.pad(found, ((0, 0), (0, K - found.shape[1])), constant_values=-1)


def means(
    model: Model,
    part: Triplets,
    threads: int | None = None,
    options: Options | None = None,
    among: CSR | None = None,
) -> dict[str, float]:
    """Accuracy over all records of a part."""
    values = per_list(lists(model, part, threads, options, among), part.record_explanations)
    return {name: float(each.mean()) for name, each in values.items()}


# -- asks --------------------------------------------------------------------------------------------------------------


def ask_lists(model: Model, split: Split, threads: int | None, candidates: Kind = "pool") -> Result:
    """Test lists and their means; with items where the model ranks them."""
    measured, among = of_split(split, candidates)
    test, options = measured.test, options_for(candidates)
    few = test.take(np.arange(min(FEW, test.records)))
    lists(model, few, threads, options, among)  # compiles, and prepares the search
    begin = time.perf_counter()
    ranked = lists(model, test, threads, options, among)
    seconds = time.perf_counter() - begin
    accuracy = per_list(ranked, test.record_explanations)
    means_of = {name: float(each.mean()) for name, each in accuracy.items()}
    facts: Facts = {"explanation": means_of | _beyond(model, ranked, test), "ranking_seconds": seconds}
    facts["without_reason"] = float((ranked[:, 0] < 0).mean())
    arrays: dict[str, NDArray[np.generic]] = {"lists": ranked}
    if candidates != "served":
        arrays["served"] = lists(model, split.test, threads, options_for("served"))
    if among is not None:
        sizes = float(among.sizes()[test.record_item].mean())
        facts["reach"] = {"pairs": measured.pairs, "truths": measured.truths, "candidates": sizes}
    return Result(facts | _items(model, split, threads), arrays)


def ask_means(model: Model, split: Split, threads: int | None) -> Result:
    """Means on test, without the lists."""
    return Result({"explanation": means(model, split.test, threads)} | _items(model, split, threads))


def ask_mu(model: Model, split: Split, threads: int | None) -> Result:
    """Test means over mu, from one fit."""
    chosen, curve = model.mu, []  # type: ignore[attr-defined]
    for model.mu in STEPS:  # type: ignore[attr-defined]
        curve.append(means(model, split.test, threads))
    model.mu = chosen  # type: ignore[attr-defined]
    return Result({"curve": curve})


def ask_unknown(model: Model, split: Split, threads: int | None) -> Result:
    """Test means when the user, the item or both are unknown to the model."""
    test = split.test
    nobody = np.full(test.records, -1, np.int32)
    sides = {"user": (nobody, test.record_item), "item": (test.record_user, nobody), "both": (nobody, nobody)}
    facts = {}
    for side, (users, items) in sides.items():
        found = rank(model, users, items, K, threads=threads).numbers
        values = per_list(found, test.record_explanations)
        facts[side] = {name: float(each.mean()) for name, each in values.items()}
    return Result(facts)


def ask_diversity(model: Model, split: Split, threads: int | None) -> Result:
    return _options_curve(model, split, threads, [Options.plain(diversity=step) for step in STEPS])


def ask_specificity(model: Model, split: Split, threads: int | None) -> Result:
    return _options_curve(model, split, threads, [Options.plain(specificity=step) for step in STEPS])


def ask_serendipity(model: Model, split: Split, threads: int | None) -> Result:
    """Items over serendipity: accuracy, and how unexpected lists are."""
    return _goals_curve(model, split, [ItemGoals(serendipity=step) for step in STEPS], threads)


def ask_fairness(model: Model, split: Split, threads: int | None) -> Result:
    """Items over the least share of the places that the less popular half of the items has."""
    catalog = model.catalog_
    tail = catalog.item_ranks >= len(catalog.items) // 2
    groups = {item: "tail" for item, rare in zip(catalog.items.ids.to_list(), tail.tolist(), strict=True) if rare}
    return _goals_curve(model, split, [ItemGoals(shares={"tail": step}, groups=groups) for step in STEPS], threads)


ASKS: dict[str, Callable[[Model, Split, int | None], Result]] = {
    "lists": ask_lists,
    "means": ask_means,
    "mu": ask_mu,
    "unknown": ask_unknown,
    "diversity": ask_diversity,
    "specificity": ask_specificity,
    "serendipity": ask_serendipity,
    "fairness": ask_fairness,
    "relation": relation.ask_relation,
}


def _options_curve(model: Model, split: Split, threads: int | None, steps: Sequence[Options]) -> Result:
    """Accuracy, redundancy and novelty of a fixed sample of test pairs over a row of options."""
    part, curve = sample(split.test), []
    for options in steps:
        ranked = lists(model, part, threads, options)
        values = per_list(ranked, part.record_explanations)
        curve.append({name: float(values[name].mean()) for name in METRICS} | _beyond(model, ranked, part))
    return Result({"curve": curve})


def on_validation(model: Model, split: Split, threads: int | None) -> Facts:
    """Means on validation of a model that has not learned from it; of joint models also those of items."""
    facts: Facts = {"validation": means(model, sample(split.validation), threads)}
    if model.ranks_items:
        found = evaluate(model, split.validation, K, beyond_accuracy=False, served=False, threads=threads)
        facts["validation_items"] = found.recommendation
        facts["validation_on_recommended"] = found.explanation_on_recommended
    return facts


def _goals_curve(model: Model, split: Split, steps: Sequence[ItemGoals], threads: int | None) -> Result:
    """Item lists of a fixed sample of test users: NDCG, unexpectedness, serendipity and the tail's part, by goals."""
    catalog, relevant = model.catalog_, split.test.user_items
    users = np.flatnonzero(relevant.sizes()).astype(np.int32)
    users = np.sort(np.random.default_rng(0).permutation(users)[:ASKED])
    ranked = rank_items(model, users, CANDIDATES, threads)
    tail = catalog.item_ranks >= len(catalog.items) // 2
    places = discounts(K)
    curve = []
    for goals in steps:
        rows = []
        for user, numbers, scores in zip(users.tolist(), ranked.numbers, ranked.scores, strict=True):
            found = numbers >= 0
            if not found.any():
                continue
            items = choose_items(catalog, user, numbers[found], scores[found], K, goals).items
            liked, weight = np.isin(items, relevant.row(user)), places[: len(items)]
            fresh = unexpected(catalog, user, items)
            ideal = places[: min(len(relevant.row(user)), K)].sum()
            ndcg = float((liked * weight).sum() / ideal)
            part = float((tail[items] * weight).sum() / weight.sum())
            rows.append((ndcg, float(fresh.mean()), float((liked * fresh).mean()), part))
        values = np.array(rows).reshape(-1, 4).mean(0) if rows else np.zeros(4)
        curve.append(dict(zip(("ndcg", "unexpected", "serendipity", "tail"), values.tolist(), strict=True)))
    return Result({"curve": curve})


def _items(model: Model, split: Split, threads: int | None) -> Facts:
    """Item metrics of joint models, and reasons on pairs whose item was recommended."""
    if not model.ranks_items:
        return {}
    test = evaluate(model, split, K, beyond_accuracy=False, served=False, threads=threads)
    return {"recommendation": test.recommendation, "on_recommended": test.explanation_on_recommended}


def _beyond(model: Model, ranked: NDArray[np.int32], part: Triplets) -> dict[str, float]:
    catalog, users = model.catalog_, part.record_user
    return {
        "coverage": beyond.coverage(ranked, len(catalog.explanations)),
        "novelty": beyond.novelty(ranked, catalog.popularity),
        "personalization": beyond.personalization(ranked, users),
        "redundancy": beyond.redundancy(ranked, word_sets(catalog)),
    }
