"""Training speed: pair updates per second against implicit's BPR; whole epochs, with shuffling and sorting.

    python benchmarks/training_speed.py triplets.parquet     # columns user, explanation; `simulate yelp` follows
    python benchmarks/training_speed.py --end-to-end         # BPER with the paper's settings, all 500 epochs

One relation (user x explanation), 20 factors, the same data and threads. Runs alternate; the best of each side counts,
by wall clock and by processor time (which other processes on the machine disturb less). implicit makes nnz draws an
epoch, whyrank one update per triplet. implicit's time is that of 3 epochs less that of 1: its set-up does not count.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.csr import CSR
from whyrank.lab.simulate import simulate
from whyrank.models import BPER
from whyrank.thread_pool import ThreadPool
from whyrank.training import FactorSettings, PairwisePass, Run, Storage, Table
from whyrank.training.blocks import BlockSolver

FACTORS = 20
Pairs = tuple[NDArray[np.int32], NDArray[np.int32]]


def read_pairs(path: str) -> Pairs:
    frame = pl.read_parquet(path, columns=["user", "explanation"])
    return tuple(np.unique(frame[name].to_numpy(), return_inverse=True)[1].astype(np.int32) for name in frame.columns)


def timed(work: Callable[[], object]) -> NDArray[np.float64]:
    """Wall and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return np.array([time.perf_counter() - wall, time.process_time() - processor])


class Ours:
    def __init__(self, relations: list[Pairs], threads: int, shards: int | None = None) -> None:
        tables, passes = {}, []
        for number, (row, column) in enumerate(relations):
            rows, columns = int(row.max()) + 1, int(column.max()) + 1
            tables |= {f"row{number}": Table(rows, FACTORS), f"column{number}": Table(columns, FACTORS, bias=True)}
            known = CSR.from_pairs(row, column, rows, columns)
            passes.append(PairwisePass(f"row{number}", f"column{number}", row, column, known))
        settings = FactorSettings(shards=shards)
        self.solver = BlockSolver(Storage.started(tables, 0, 0.1), tuple(passes), settings, ThreadPool(threads))
        self.updates, self.done = len(relations) * len(relations[0][0]), 0

    def epoch(self) -> None:
        self.done += 1
        self.solver.epoch(self.done)


def implicit_epoch(matrix: object, threads: int) -> NDArray[np.float64]:
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    def fit(iterations: int) -> NDArray[np.float64]:
        model = BayesianPersonalizedRanking(
            factors=FACTORS, learning_rate=0.01, regularization=0.01, iterations=iterations,
            num_threads=threads, random_state=0,
        )  # fmt: skip
        return timed(lambda: model.fit(matrix, show_progress=False))

    return (fit(3) - fit(1)) / 2


def compare(name: str, pairs: Pairs, threads: int, shards: int | None, rounds: int) -> None:
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((np.ones(len(pairs[0]), np.float32), pairs))
    matrix.sum_duplicates()
    ours = Ours([pairs], threads, shards)
    ours.epoch()  # compiles
    mine, theirs = [], []
    for _ in range(rounds):
        theirs.append(implicit_epoch(matrix, threads))
        mine += [timed(ours.epoch) for _ in range(3)]
    speeds = [ours.updates / np.min(mine, axis=0), matrix.nnz / np.min(theirs, axis=0)]
    for kind, (here, there) in enumerate(zip(*speeds, strict=True)):
        clock = ("wall clock", "processor time")[kind]
        print(
            f"{name}, {threads} threads, {ours.solver.shards} shards, {clock}: "
            f"whyrank {here / 1e6:.1f} M/s, implicit {there / 1e6:.1f} M/s, ratio {here / there:.2f}",
            flush=True,
        )


def end_to_end(preset: str, threads: int) -> None:
    """A whole fit with the paper's settings on the training records of a simulated split; peak memory includes both."""
    training = simulate(preset, seed=0).split(seed=0).training
    seconds, processor = timed(lambda: BPER().fit(training, run=Run(threads=threads)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"simulate {preset}: {len(training):,} triplets, 500 epochs, {threads} threads: {seconds:.1f} s "
        f"({processor:.1f} s of processors), peak {peak:.2f} GB",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("triplets", nargs="?")
    parser.add_argument("--end-to-end", action="store_true")
    parser.add_argument("--presets", nargs="+", default=["amazon", "yelp"])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--shards", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    if chosen.end_to_end:
        for preset in chosen.presets:
            end_to_end(preset, max(chosen.threads))
    else:
        data = {Path(chosen.triplets).name: read_pairs(chosen.triplets)} if chosen.triplets else {}
        yelp = simulate("yelp", seed=0)
        data["simulate yelp"] = yelp.user, yelp.explanation
        for name, pairs in data.items():
            for threads in chosen.threads:
                compare(name, pairs, threads, chosen.shards, chosen.rounds)
