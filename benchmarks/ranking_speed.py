"""Exact top-10 reasons: pairs a second against numpy, faiss IndexFlatIP and torch on the same fitted BPER.

python benchmarks/ranking_speed.py TRIPLETS.parquet      users with 3 or more pairs, explanations said 5 times or more
python benchmarks/ranking_speed.py yelp                  simulated data of that preset's size
Two ways to train: `printed`, the algorithm as it is printed, which is BPER's default, and `published`, as its authors'
code does it: an epoch draws as many triplets as there are records, and factors start within 0.005. Two sizes of a call:
faiss multiplies matrices only for large ones. whyrank is timed twice: in the first call to a model's search, and after
it has been asked about the same users and items in other pairs. What preparing the search took is printed below, as it
is not in these times, and neither is filling the index of faiss. Best of --repeat rounds in which all take their turn;
ratios are to faiss with as many threads. --joint adds exact joint ranking of BPER-J: time against all pairs scored, and
how often the two steps of the paper find other pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import whyrank as wr
from whyrank.index.search import Search

N = 10
TURN = 0.3  # seconds
FIRST_CALLS = 10  # in each round
ACQUAINTANCE = 12  # calls about users and items that make them known


TRAININGS: dict[str, dict[str, Any]] = {
    "printed": {},
    "published": {"epoch_unit": "records", "factor_range": 0.005},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a Parquet file of triplets, or a preset to simulate")
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--trained", nargs="+", choices=TRAININGS, default=list(TRAININGS))
    parser.add_argument("--whole", action="store_true", help="the file as it is, with nobody left out")
    parser.add_argument("--bias-start", default="popularity", choices=["popularity", "zero"])
    parser.add_argument("--mu", type=float, default=0.7)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--calls", nargs="+", type=int, default=[2000, 10_000], help="pairs in a call of each rival")
    parser.add_argument(
        "--joint", type=int, default=0, metavar="USERS", help="also rank pairs jointly for so many users"
    )
    arguments = parser.parse_args()
    split = triplets_of(arguments.data, arguments.whole).split(seed=0)
    pairs, notes = (split.test.record_user, split.test.record_item), []
    name, pool = Path(arguments.data).name, len(split.train.explanations)
    print(f"{name}: BPER of {arguments.epochs} epochs, {pool:,} explanations; pairs a second\n")
    print("| trained as | pairs a call | threads | pool rated: first, later | whyrank: first call, later ", end="")
    print("| numpy | faiss | torch | times faiss: first, later |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for training in arguments.trained:
        options = {"epochs": arguments.epochs, "bias_start": arguments.bias_start, "mu": arguments.mu}
        model = (wr.BPERJ if arguments.joint else wr.BPER)(**options, **TRAININGS[training]).fit(split.train)
        queries = model.queries(*pairs)
        for calls in arguments.calls:
            chosen = np.random.default_rng(0).permutation(len(queries))[:calls]
            for threads in (1, 2):
                some = (pairs[0][chosen], pairs[1][chosen])
                print(f"| {training} | " + row(model, some, threads, arguments.repeat), flush=True)
        notes.append(f"{training}: " + ", ".join(remarks(model, split, queries)))
        if arguments.joint:
            notes.append(json.dumps(joint(model, arguments.joint)))
    print("\n" + "\n".join(notes))


def row(model: Any, pairs: tuple[Any, Any], threads: int, repeat: int) -> str:
    """All rivals on some pairs: pairs a second, and ratios."""
    queries, count = model.queries(*pairs), len(pairs[0])
    first = min(first_call(model, queries, threads) for _ in range(FIRST_CALLS * repeat))
    search = prepared(model)
    search.top(queries, N, threads=threads)
    rated = search.scored()
    others = np.random.default_rng(1)
    for _ in range(ACQUAINTANCE):
        users = others.permutation(pairs[0])
        search.top(model.queries(users, pairs[1]), N, pairs=(users, pairs[1]), threads=threads)
    best = fastest(rivals(model, search, (queries, pairs), threads), repeat)
    later, faiss = search.scored(), best["faiss"]
    speeds = [f"{count / seconds:,.0f}" for seconds in best.values()]
    return (
        f"{count:,} | {threads} | {rated:.1%}, {later:.1%} | {count / first:,.0f}, {' | '.join(speeds)} "
        f"| {faiss / first:.1f}, {faiss / best['whyrank']:.1f} |"
    )


def prepared(model: Any) -> Search:
    """Make the model's search anew, ready to be asked."""
    model._forget()
    search: Search = model.search()
    search._prepare()
    return search


def first_call(model: Any, queries: Any, threads: int) -> float:
    """Seconds of it."""
    search, began = prepared(model), time.perf_counter()
    search.top(queries, N, threads=threads)
    return time.perf_counter() - began


def remarks(model: Any, split: Any, queries: Any) -> Iterator[str]:
    """How long preparing takes, all test pairs, and one; how well they are ranked."""
    search = prepared(model)
    ready = fastest({"ready": lambda: prepared(model)}, 3)["ready"]
    yield f"prepared in {ready:.3f} s"
    for threads in (1, 2):
        taken = min(first_call(model, queries, threads) for _ in range(3))
        yield f"all {len(queries):,} test pairs in one call {taken:.3g} s with {threads} thread{'s' * (threads > 1)}"
    single = fastest({"one": lambda: [search.top(queries[k : k + 1], N) for k in range(100)]}, 3)["one"]
    yield f"a call of one pair {1e4 * single:.0f} microseconds"
    if split.validation.records:
        quality = wr.evaluate(model, split.validation, items=False, beyond_accuracy=False).explanation["ndcg_paper"]
        yield f"NDCG@10 on validation {quality:.2%}"


def triplets_of(data: str, whole: bool = False) -> wr.Triplets:
    """Simulated data, or a file's users with 3 or more pairs and explanations with 5 or more, until stable."""
    if not data.endswith(".parquet"):
        return wr.simulate(data, seed=0)
    if whole:
        return wr.read(data)
    frame, before = pl.read_parquet(data).select("user", "item", "explanation").unique(maintain_order=True), -1
    while frame.height != before:
        before = frame.height
        frame = frame.filter(pl.struct("user", "item").n_unique().over("user") >= 3)
        frame = frame.filter(pl.len().over("explanation") >= 5)
    return wr.Triplets.from_frame(frame)


def rivals(model: Any, search: Search, asked: tuple[Any, Any], threads: int) -> dict[str, Callable[[], object]]:
    """Each answers all queries with so many threads: in one call, or as fits a cache."""
    import faiss
    import torch
    from threadpoolctl import threadpool_limits

    keys, (queries, pairs) = model.keys(), asked
    index, table = faiss.IndexFlatIP(keys.shape[1]), torch.from_numpy(keys)
    index.add(keys)
    batches = [queries[start : start + 128] for start in range(0, len(queries), 128)]

    def by_whyrank() -> None:
        search.top(queries, N, pairs=pairs, threads=threads)

    def by_numpy() -> None:
        with threadpool_limits(threads):
            for batch in batches:
                np.argpartition(batch @ keys.T, -N, axis=1)

    def by_faiss() -> None:
        faiss.omp_set_num_threads(threads)
        index.search(queries, N)

    def by_torch() -> None:
        torch.set_num_threads(threads)
        for batch in batches:
            torch.topk(torch.from_numpy(batch) @ table.T, N)

    return {"whyrank": by_whyrank, "numpy": by_numpy, "faiss": by_faiss, "torch": by_torch}


def fastest(rivals: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Seconds of each at its best. Each goes on for a while: threads of the one before spin until they fall asleep."""
    best = dict.fromkeys(rivals, float("inf"))
    for _ in range(repeat):
        for name, run in rivals.items():
            end = time.perf_counter() + TURN
            while True:
                began = time.perf_counter()
                run()
                now = time.perf_counter()
                best[name] = min(best[name], now - began)
                if now > end:
                    break
    return best


def joint(model: Any, count: int) -> dict[str, Any]:
    """Exact pairs of some users by lists and by brute force, and the paper's two steps beside them."""
    keys, items, catalog = model.keys(), np.arange(len(model.catalog_.items), dtype=np.int32), model.catalog_
    plain, seconds = vars(wr.Options.plain()), {"exact": 0.0, "brute": 0.0, "two_step": 0.0}
    other_sets = other_pairs = 0
    for user in np.random.default_rng(0).integers(0, len(catalog.users), count):
        name, number = catalog.users.ids[int(user)], np.array([user], np.int32)
        began = time.perf_counter()
        found = model.recommend_pairs(name, N, **plain)
        seconds["exact"] += time.perf_counter() - began
        began = time.perf_counter()
        item_scores = (model.item_queries(number) @ model.item_keys().T)[0]
        item_scores[catalog.user_items.row(int(user))] = -np.inf

        def queries_of(some: Any, user: int = user) -> Any:
            return model.queries(np.full(len(some), user, np.int32), some)

        best = brute_pairs(keys, item_scores, queries_of, items)
        seconds["brute"] += time.perf_counter() - began
        assert np.allclose(best, [pair.score for pair in found], rtol=1e-4, atol=1e-4)
        began = time.perf_counter()
        two_step = model.recommend(name, N, 1, **plain)
        seconds["two_step"] += time.perf_counter() - began
        exact = {(pair.item, pair.reason.explanation) for pair in found}
        shared = len(exact & {(each.item, each.reasons[0].explanation) for each in two_step})
        other_sets, other_pairs = other_sets + (shared < N), other_pairs + N - shared
    report = {f"{name}_milliseconds_a_user": round(1000 * total / count, 2) for name, total in seconds.items()}
    report |= {"users": count, "items": len(items), "users_where_two_step_differs": other_sets / count}
    return report | {"pairs_that_two_step_misses": other_pairs / count / N}


def brute_pairs(keys: Any, item_scores: Any, queries_of: Callable[[Any], Any], items: Any) -> Any:
    """The best sums over all items and the whole pool."""
    best = np.empty(0, np.float32)
    for start in range(0, len(items), 256):
        some = items[start : start + 256]
        totals = (item_scores[some][:, None] + queries_of(some) @ keys.T).ravel()
        best = np.sort(np.concatenate([best, np.partition(totals, -N)[-N:]]))[::-1][:N]
    return best


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
