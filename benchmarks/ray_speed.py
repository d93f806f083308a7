"""The same training here and on a loopback cluster: speed, and what handing columns on costs.

    python benchmarks/ray_speed.py                # half of yelp's size
    python benchmarks/ray_speed.py --times 0.05   # a quick look

Whole epochs, the best of some, by the wall clock: on a machine that does something else the figures mean nothing. The
clusters are nodes on this machine: two of one core each, and one of two cores. They do not show how a network behaves.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # loopback only, for the length of this run
os.environ.setdefault("RAY_worker_niceness", "0")  # as any other process

from ray.cluster_utils import Cluster as Machines

from training_scale import YELP
from whyrank.data.triplets import Triplets
from whyrank.lab.ray.session import Cluster, connect
from whyrank.lab.ray.training import solver_on
from whyrank.lab.simulate import simulate
from whyrank.models import BPER, PITF
from whyrank.models.factors import FactorModel
from whyrank.thread_pool import ThreadPool
from whyrank.training import Storage
from whyrank.training.blocks import BlockSolver

SHARDS = 4
ROUNDS = 6
STORE = 500_000_000  # bytes of a node's object store


def fastest(work: Callable[[int], object], rounds: int = ROUNDS) -> float:
    """Seconds of the fastest of some epochs, after two that compile and warm up."""
    times = []
    for number in range(1, rounds + 3):
        begin = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - begin)
    return min(times[2:])


def here(model: FactorModel, data: Triplets, threads: int) -> float:
    """Seconds of an epoch in one process."""
    tables, passes = model.tables(data), model.passes(data)
    with ThreadPool(threads) as pool:
        return fastest(BlockSolver(Storage.started(tables, 0, 0.1), passes, model.settings(), pool).epoch)


def there(cluster: Cluster, model: FactorModel, data: Triplets) -> float:
    """Seconds of an epoch on a cluster."""
    tables, passes = model.tables(data), model.passes(data)
    with solver_on(cluster, model) as make:
        return fastest(make(Storage.started(tables, 0, 0.1), passes, model.settings(), None, {}).epoch)


@contextmanager
def nodes(*cores: int) -> Iterator[Cluster]:
    """A cluster of nodes on this machine, with so many cores each."""
    machines = Machines()
    for number, count in enumerate(cores):
        machines.add_node(node_ip_address=f"127.0.0.{number + 2}", num_cpus=count, object_store_memory=STORE)
    try:
        with connect(machines.address) as cluster:
            yield cluster
    finally:
        machines.shutdown()


def resident() -> float:
    """MB of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def compare(model: FactorModel, data: Triplets, cores: tuple[int, ...]) -> None:
    """A cluster beside one process with two threads, which is measured before and after it."""
    with nodes(*cores) as cluster:
        alone, before = here(model, data, 2), resident()
        seconds, after = there(cluster, model, data), resident()
        alone = min(alone, here(model, data, 2))
    print(
        f"{model.id}, {len(cores)} node(s) of {cores[0]} core(s): {len(data) / seconds / 1e6:.2f} M triplets/s, "
        f"one process with 2 threads {len(data) / alone / 1e6:.2f}: {alone / seconds:.0%}; "
        f"driver {before:.0f} -> {after:.0f} MB; an epoch {seconds:.3f} s",
        flush=True,
    )


def main(times: float, models: list[str]) -> None:
    data = simulate("yelp", **{name: int(size * times) for name, size in YELP.items()}, seed=0)
    print(f"simulate yelp x {times}: {data!r}, {os.cpu_count()} cores", flush=True)
    for model in (BPER(shards=SHARDS), PITF(shards=SHARDS)):
        if model.id in models:
            print(f"{model.id}, 1 process, 1 thread: {len(data) / here(model, data, 1) / 1e6:.2f} M triplets/s")
            for cores in ((1, 1), (2,)):
                compare(model, data, cores)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=float, default=0.5)
    parser.add_argument("--models", default="bper,pitf")
    chosen = parser.parse_args()
    main(chosen.times, chosen.models.split(","))
