"""When is an approximate index worth it? Exact search beside faiss IVF and HNSW, at 126,696 and at 2 M explanations.

    python benchmarks/large_pools.py [--epochs 30]

BPER on `simulate yelp`; the larger pool holds its keys and as many more as needed, each a fitted key moved by a tenth
of its columns' deviation. One thread, 1,000 queries of random pairs, top 10; recall is against the exact lists, which a
full matrix product confirms on a sample. "Known" is after some calls about the same users and items in other pairs.
HNSW is built with the settings of `whyrank export`, on the smaller pool only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np

import whyrank as wr
from whyrank.index.search import Search

N, QUERIES, LARGE = 10, 1000, 2_000_000
ACQUAINTANCE = 12  # calls about users and items that make them known
HNSW_UP_TO = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    chosen = parser.parse_args()
    data = wr.simulate("yelp", seed=0)
    model = wr.BPER(epochs=chosen.epochs).fit(data)
    rng = np.random.default_rng(0)
    users, items = (rng.integers(0, len(ids), QUERIES).astype(np.int32) for ids in (data.users, data.items))
    queries, keys = model.queries(users, items), model.keys()
    faiss.omp_set_num_threads(1)
    print("| explanations | search | prepared, s | ms a query | recall |\n|---|---|--:|--:|--:|")
    others = [model.queries(rng.permutation(users), items) for _ in range(ACQUAINTANCE)]
    for pool in (keys, enlarged(keys, rng)):
        compare(pool, queries, others, model.factors)


def enlarged(keys: Any, rng: np.random.Generator) -> Any:
    more = keys[rng.integers(0, len(keys), LARGE - len(keys))]
    moved = more + 0.1 * keys.std(0) * rng.standard_normal(more.shape, dtype=np.float32)
    return np.ascontiguousarray(np.vstack([keys, moved]), np.float32)


def compare(keys: Any, queries: Any, others: list[Any], factors: int) -> None:
    search = Search(keys, np.arange(len(keys)), constant=2, parts=(factors, factors))
    prepared = seconds(lambda: search.top(queries[:1], N))
    exact, took = timed(lambda: search.top(queries, N, threads=1)[0])
    confirm(keys, queries[:50], exact)
    show(len(keys), "exact, whyrank", prepared, took, 1.0)
    prepared += seconds(lambda: [search.top(each, N, threads=1) for each in others])
    found, took = timed(lambda: search.top(queries, N, threads=1)[0])
    show(len(keys), "exact, whyrank, known users and items", prepared, took, recall(exact, found))
    flat = faiss.IndexFlatIP(keys.shape[1])
    flat.add(keys)
    some = queries[:100]
    _, took = timed(lambda: flat.search(some, N))
    show(len(keys), "exact, faiss flat", 0.0, took * len(queries) / len(some), 1.0)
    quantizer = faiss.IndexFlatIP(keys.shape[1])
    lists = int(4 * len(keys) ** 0.5)
    index = faiss.IndexIVFFlat(quantizer, keys.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    prepared = seconds(lambda: (index.train(keys), index.add(keys)))
    for probes in (4, 32):
        index.nprobe = probes
        found, took = timed(lambda: index.search(queries, N)[1])
        show(len(keys), f"faiss IVF, {probes} of {lists} lists", prepared, took, recall(exact, found))
    if len(keys) <= HNSW_UP_TO:
        hnsw(keys, queries, exact)


def hnsw(keys: Any, queries: Any, exact: Any) -> None:
    squares = (keys.astype(np.float64) ** 2).sum(1)
    filled = np.sqrt(squares.max() - squares).astype(np.float32)[:, None]
    index = faiss.IndexHNSWFlat(keys.shape[1] + 1, 32)
    index.hnsw.efConstruction, index.hnsw.efSearch = 200, 200
    prepared = seconds(lambda: index.add(np.hstack([keys, filled])))
    asked = np.hstack([queries, np.zeros((len(queries), 1), np.float32)])
    found, took = timed(lambda: index.search(asked, N)[1])
    show(len(keys), "faiss HNSW", prepared, took, recall(exact, found))


def confirm(keys: Any, queries: Any, exact: Any) -> None:
    scores = queries @ keys.T
    best = -np.sort(-np.take_along_axis(scores, exact[: len(queries)], 1), axis=1)
    top = -np.sort(np.partition(-scores, N, axis=1)[:, :N], axis=1)
    assert np.allclose(best, top, rtol=1e-5, atol=1e-5), "the exact search is not exact"


def recall(exact: Any, found: Any) -> float:
    return float(np.mean([len(set(a) & set(b)) / N for a, b in zip(exact.tolist(), found.tolist(), strict=True)]))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    best, answer = float("inf"), None
    for _ in range(3):
        began = time.perf_counter()
        answer = work()
        best = min(best, time.perf_counter() - began)
    return answer, best


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(pool: int, name: str, prepared: float, took: float, share: float) -> None:
    print(f"| {pool:,} | {name} | {prepared:.1f} | {1000 * took / QUERIES:.3f} | {share:.3f} |", flush=True)


if __name__ == "__main__":
    main()
