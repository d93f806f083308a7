"""How training grows with the data, and how it compares with the paper's way of writing it.

    python benchmarks/training_scale.py

First epochs of BPER at 0.25, 0.5, 1 and 2 times yelp's size; then Algorithm 1 in plain Python, as the authors had it,
beside the engine on one small slice.
"""

from __future__ import annotations

import math
import random
import time

import numpy as np

from training_speed import Ours, timed
from whyrank.lab.simulate import simulate
from whyrank.models import BPER
from whyrank.training import Run

YELP = {"users": 895_729, "items": 164_779, "explanations": 126_696, "records": 2_608_860, "triplets": 3_875_118}

SENTENCES = 186_000  # about as many as the simulation can make


def scaling(threads: int = 2) -> None:
    for times in (0.25, 0.5, 1, 2):
        sizes = {name: int(size * times) for name, size in YELP.items()}
        sizes["explanations"] = min(sizes["explanations"], SENTENCES)
        data = simulate("yelp", **sizes, seed=0)
        ours = Ours([(data.user, data.explanation), (data.item, data.explanation)], threads)
        ours.epoch()
        wall, processor = np.min([timed(ours.epoch) for _ in range(4)], axis=0)
        per = processor / len(data) * 1e9
        print(
            f"{times:>4} x yelp, {len(data):,} triplets: an epoch {wall:.2f} s, {processor:.2f} s of processors, "
            f"{per:.0f} ns a triplet",
            flush=True,
        )


def plain_python(triplets: list[tuple[int, int, int]], sizes: tuple[int, int, int], d: int = 20) -> float:
    """Seconds of one epoch of Algorithm 1 with lists and loops."""
    users, items, pool = sizes
    rng = random.Random(0)

    def table(rows: int) -> list[list[float]]:
        return [[rng.uniform(-0.1, 0.1) for _ in range(d)] for _ in range(rows)]

    p, q, by_user, by_item = table(users), table(items), table(pool), table(pool)
    bias_user, bias_item = [0.0] * pool, [0.0] * pool
    said_by: list[set[int]] = [set() for _ in range(users)]
    said_of: list[set[int]] = [set() for _ in range(items)]
    for u, i, e in triplets:
        said_by[u].add(e)
        said_of[i].add(e)
    rate, penalty = 0.01, 0.01

    def step(row: list[float], o: list[list[float]], b: list[float], e: int, other: int) -> None:
        difference = sum(row[k] * (o[e][k] - o[other][k]) for k in range(d)) + b[e] - b[other]
        x = -1 / (1 + math.exp(difference))
        for k in range(d):
            row[k] -= rate * (x * (o[e][k] - o[other][k]) + penalty * row[k])
            o[e][k] -= rate * (x * row[k] + penalty * o[e][k])
            o[other][k] -= rate * (-x * row[k] + penalty * o[other][k])
        b[e] -= rate * (x + penalty * b[e])
        b[other] -= rate * (-x + penalty * b[other])

    begin = time.perf_counter()
    for _ in triplets:
        u, i, e = rng.choice(triplets)
        other = rng.randrange(pool)
        while other in said_by[u]:
            other = rng.randrange(pool)
        step(p[u], by_user, bias_user, e, other)
        other = rng.randrange(pool)
        while other in said_of[i]:
            other = rng.randrange(pool)
        step(q[i], by_item, bias_item, e, other)
    return time.perf_counter() - begin


def against_plain_python() -> None:
    data = simulate("small", users=2000, items=400, explanations=800, records=12_000, triplets=20_000, seed=0)
    triplets = list(zip(data.user.tolist(), data.item.tolist(), data.explanation.tolist(), strict=True))
    theirs = plain_python(triplets, (len(data.users), len(data.items), len(data.explanations)))
    BPER(epochs=1).fit(data)
    for threads in (1, 2):
        begin = time.perf_counter()
        BPER(epochs=100).fit(data, run=Run(threads=threads))
        ours = (time.perf_counter() - begin) / 100
        print(
            f"plain Python {theirs:.2f} s for 20,000 triplets, ours {ours * 1e3:.2f} ms on {threads} thread(s):",
            end=" ",
        )
        print(f"{theirs / ours:,.0f} times", flush=True)


if __name__ == "__main__":
    against_plain_python()
    scaling()
