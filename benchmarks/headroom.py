"""How much better than Profile could reasons be ranked? An answer from above: everything we have, stacked.

    python benchmarks/headroom.py split [--config FOLDER] [--dates TRIPLETS.tsv.gz] [--folds 5]

Boosted trees rank the 60 best of each validation pair anew. They see the scores and ranks of Profile (three seeds),
PITF, BPER and COUNTS, all counts, and what the user says of items like this one and users like this one say of it;
five-fold cross-validation over the validation pairs of split 1. Too slow to serve, and it learns from validation: a
bound, not a model. `--config` takes settings as `whyrank tune` writes them. `--dates` takes rows of user, item,
explanation and day (2011-05-09) without a header, and adds what the user said in the same month and in those around it.
With `--folds` trees learn from training pairs as well, which are many more: each fold as models see it that were fitted
on the others.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp
from scipy.sparse.linalg import norm
from sklearn.ensemble import HistGradientBoostingClassifier

import whyrank as wr

CANDIDATES, FOLDS, K = 60, 5, 10
GAINS = 1 / np.log2(np.arange(2, K + 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("split", type=Path)
    parser.add_argument("--config", type=Path, help="a folder of settings, MODEL.json each")
    parser.add_argument("--dates", type=Path, help="triplets with the day of each")
    parser.add_argument("--folds", type=int, default=0, help="of the training pairs, to learn from them as well")
    arguments = parser.parse_args()
    split = wr.read_split(arguments.split)
    print("| | ndcg_paper@10 %, validation |\n|---|--:|")
    ask = Seen.of(split.train, split.validation, split.validation, arguments, say=True)
    for name, table in ask.tables.items():
        print(f"| {name} | {ask.quality(cross_validated(table, ask.found)):.3f} |", flush=True)
    if arguments.folds:
        fold = np.random.default_rng(0).integers(0, arguments.folds, split.train.records)
        parts = [
            Seen.of(
                split.train.take(np.flatnonzero(fold != k)),
                split.train.take(np.flatnonzero(fold == k)),
                None,
                arguments,
            )
            for k in range(arguments.folds)
        ]
        found = np.concatenate([part.found for part in parts])
        for name, table in ask.tables.items():
            chances = learned(np.concatenate([part.tables[name] for part in parts]), found, table, leaves=31)
            print(f"| {name}, learned from {len(found):,} training pairs | {ask.quality(chances):.3f} |", flush=True)
    print(f"| every relevant one first | {100 * float(ask.ideal.mean()):.3f} |")


class Seen(NamedTuple):
    """Pairs as trees see them: the candidates' features, which of them are relevant, and the best that is possible."""

    tables: dict[str, Any]
    found: Any
    ideal: Any

    @classmethod
    def of(
        cls,
        learn: wr.Triplets,
        check: wr.Triplets,
        validation: wr.Triplets | None,
        arguments: argparse.Namespace,
        say: bool = False,
    ) -> Seen:
        relevant = matrix(check.record_explanations, len(check.explanations)).toarray() > 0
        best, columns = None, []
        for name, model in models(arguments.config):
            scores = dense_scores(model.fit(learn, validation=validation), check)
            if say:
                print(f"| {name} | {quality(scores, relevant):.3f} |", flush=True)
            best = np.argsort(-scores, axis=1, kind="stable")[:, :CANDIDATES] if best is None else best
            columns += above_the_tenth(scores, best)
        tables = {"stacked": [*columns, *counted(learn, check, best)]}
        tables["stacked, with neighbours"] = [*tables["stacked"], *surroundings(learn, check, best)]
        if arguments.dates:
            dated = months_around(learn, check, arguments.dates, best)
            tables["stacked, with neighbours and dates"] = [*tables["stacked, with neighbours"], *dated]
        stacked = {name: np.stack(table, axis=2).astype(np.float32) for name, table in tables.items()}
        many = np.minimum(relevant.sum(1), K)
        return cls(stacked, np.take_along_axis(relevant, best, 1), np.append(0, np.cumsum(GAINS))[many] / GAINS.sum())

    def quality(self, chances: Any) -> float:
        return quality(chances, self.found)


def models(folder: Path | None) -> Iterator[tuple[str, Any]]:
    def settings(name: str) -> dict[str, Any]:
        file = folder / f"{name}.json" if folder else None
        return json.loads(file.read_text())["parameters"] if file and file.is_file() else {}

    for seed in range(3):
        yield ("profile" if seed == 0 else f"profile, seed {seed}"), wr.Profile(**settings("profile") | {"seed": seed})
    for name in ("pitf", "bper", "counts"):
        yield name, wr.MODELS[name](**settings(name))


def dense_scores(model: Any, check: wr.Triplets) -> Any:
    users, items = check.record_user, check.record_item
    scores = model.queries(users, items) @ model.keys().T
    bonus = model.bonus(users, items, K)
    if bonus is not None:
        scores[np.repeat(np.arange(len(users)), np.diff(bonus.indptr)), bonus.explanations] += bonus.values
    return scores


def quality(scores: Any, relevant: Any) -> float:
    top = np.argsort(-scores, axis=1, kind="stable")[:, :K]
    return 100 * float((np.take_along_axis(relevant, top, 1) * GAINS).sum(1).mean() / GAINS.sum())


def above_the_tenth(scores: Any, best: Any) -> list[Any]:
    """Of every candidate how far a model's score is above the tenth, and its rank."""
    tenth = np.partition(scores, -K, axis=1)[:, [-K]]
    ranks = np.empty(scores.shape, np.int32)
    np.put_along_axis(ranks, np.argsort(-scores, axis=1), np.arange(scores.shape[1], dtype=np.int32)[None], 1)
    return [np.take_along_axis(scores - tenth, best, 1), np.take_along_axis(ranks, best, 1)]


def counted(train: wr.Triplets, check: wr.Triplets, best: Any) -> Iterator[Any]:
    """Of every candidate: counts, and how much is known."""
    yield np.log1p(train.popularity)[best]
    sides = (train.user_explanations, check.record_user), (train.item_explanations, check.record_item)
    for relation, rows in sides:
        counts = matrix(relation, len(train.explanations))[rows].toarray()
        total = counts.sum(1, keepdims=True)
        said = np.take_along_axis(counts, best, 1)
        yield from (said, said / np.maximum(total, 1))
        for known in (total, (counts > 0).sum(1, keepdims=True)):
            yield np.broadcast_to(known, best.shape)


def surroundings(train: wr.Triplets, check: wr.Triplets, best: Any) -> Iterator[Any]:
    """What the user says of items like this one, and users like this one of it: shares, and the nearest who does."""
    said = matrix(train.record_explanations, len(train.explanations))
    rarity = np.log(train.records / (train.popularity + 1.0))
    sides = (
        (train.record_user, check.record_user, train.record_item, check.record_item, train.item_explanations),
        (train.record_item, check.record_item, train.record_user, check.record_user, train.user_explanations),
    )
    for rows, asked, others, other, relation in sides:
        words = matrix(relation, len(train.explanations))
        words.data = np.log1p(words.data)
        words = words @ sp.diags(rarity)
        words = sp.diags(1 / np.maximum(norm(words, axis=1), 1e-9)) @ words
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum(np.bincount(rows, minlength=asked.max() + 1))
        starts = np.concatenate([[0], ends[:-1]])
        shares, nearest = np.zeros(best.shape), np.zeros(best.shape)
        for pair, row in enumerate(asked):
            records = order[starts[row] : ends[row]]
            if len(records):
                alike = (words[others[records]] @ words[other[pair]].T).toarray()[:, 0]
                here = said[records][:, best[pair]].toarray()
                shares[pair] = alike**2 @ here / max((alike**2).sum(), 1e-6)
                nearest[pair] = (here * alike[:, None]).max(0)
        yield from (shares, nearest)


def months_around(train: wr.Triplets, check: wr.Triplets, dates: Path, best: Any) -> Iterator[Any]:
    """How often the user said it in the month of the pair and around it, and in which share of all said then."""
    table = pl.read_csv(dates, separator="\t", has_header=False, quote_char=None, infer_schema=False)
    user, item, _, day = table.columns[:4]
    month = pl.col(day).str.slice(0, 4).cast(pl.Int32) * 12 + pl.col(day).str.slice(5, 2).cast(pl.Int32)
    first = table.group_by(pl.col(user).alias("user"), pl.col(item).alias("item")).agg(month.min().alias("month"))

    def months(records: wr.Triplets) -> Any:
        users, items = records.users.terms(records.record_user), records.items.terms(records.record_item)
        pairs = pl.DataFrame({"user": users, "item": items})
        return pairs.join(first, on=["user", "item"], how="left", maintain_order="left")["month"].to_numpy()

    said, then, now = matrix(train.record_explanations, len(train.explanations)), months(train), months(check)
    order = np.argsort(train.record_user, kind="stable")
    ends = np.cumsum(np.bincount(train.record_user, minlength=len(train.users)))
    for kept in (0.0, 0.5, 0.8):  # of the weight, a month further away
        counts, shares = np.zeros(best.shape), np.zeros(best.shape)
        for pair, row in enumerate(check.record_user):
            records = order[ends[row - 1] if row else 0 : ends[row]]
            weights = kept ** np.abs(then[records] - now[pair])
            counts[pair] = weights @ said[records][:, best[pair]]
            shares[pair] = counts[pair] / max(weights @ said[records].sum(1).A1, 1.0)
        yield from (counts, shares)


def cross_validated(table: Any, found: Any) -> Any:
    """The chance of every candidate, by trees that have not seen its pair."""
    fold, chances = np.random.default_rng(0).integers(0, FOLDS, len(found)), np.zeros(found.shape)
    for out in range(FOLDS):
        ask = fold == out
        chances[ask] = learned(table[~ask], found[~ask], table[ask], leaves=15)
    return chances


def learned(table: Any, found: Any, asked: Any, leaves: int) -> Any:
    """The chance of every candidate asked about, by trees that learn from others."""
    trees = HistGradientBoostingClassifier(
        max_iter=250, learning_rate=0.05, max_leaf_nodes=leaves, l2_regularization=5.0, min_samples_leaf=50
    )
    trees.fit(table.reshape(-1, table.shape[2]), found.reshape(-1))
    return trees.predict_proba(asked.reshape(-1, asked.shape[2]))[:, 1].reshape(asked.shape[:2])


def matrix(relation: Any, columns: int) -> Any:
    return sp.csr_matrix((relation.counts.astype(float), relation.indices, relation.indptr), (relation.rows, columns))


if __name__ == "__main__":
    main()
