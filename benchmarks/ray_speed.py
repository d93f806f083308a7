"""The engine here and on a loopback cluster: triplets a second, bytes moved, memory of the driver; and an estimate.

    python benchmarks/ray_speed.py                # half of yelp's size
    python benchmarks/ray_speed.py --times 0.05   # a quick look

Whole epochs with all sorting, the best of some, by the wall clock. The clusters are nodes on this machine: two of one
core each, and one of two cores. They show what handing columns on costs, not how a network behaves.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # loopback only, for the length of this run
os.environ.setdefault("RAY_worker_niceness", "0")  # as any other process

from ray.cluster_utils import Cluster as Machines

from training_scale import YELP
from whyrank.cluster.dataset import Dataset
from whyrank.cluster.fit import job_of, put_data
from whyrank.cluster.session import Cluster, connect
from whyrank.cluster.store import Store
from whyrank.cluster.training import ClusterTrainer
from whyrank.data.triplets import Triplets
from whyrank.models import BPER, PITF
from whyrank.models.factors import FactorModel
from whyrank.simulation import simulate
from whyrank.thread_pool import ThreadPool
from whyrank.training import Run, Storage
from whyrank.training.blocks import BlockSolver

SHARDS = 4
ROUNDS = 5
STORE = 500_000_000  # bytes of a node's object store


def seconds_of(work: Callable[[int], object], rounds: int = ROUNDS) -> float:
    """Of the fastest of some epochs, after one that compiles and one that warms up."""
    times = []
    for number in range(1, rounds + 3):
        begin = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - begin)
    return min(times[2:])


def here(model: FactorModel, data: Triplets, threads: int) -> float:
    tables, passes = model.tables(data), model.passes(data)
    with ThreadPool(threads) as pool:
        return seconds_of(BlockSolver(Storage.started(tables, 0, 0.1), passes, model.settings(), pool).epoch)


def there(cluster: Cluster, model: FactorModel, data: Dataset) -> tuple[float, float]:
    """Seconds of an epoch, and bytes that it moves."""
    trainer = ClusterTrainer(cluster, job_of(model, data), Run())
    try:
        seconds = seconds_of(lambda number: trainer.epoch())
        before = trainer.sent_bytes()
        trainer.epoch()
        return seconds, trainer.sent_bytes() - before
    finally:
        trainer.dismiss()


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


def main(times: float) -> None:
    data = simulate("yelp", **{name: int(size * times) for name, size in YELP.items()}, seed=0)
    print(f"simulate yelp x {times}: {data!r}, {os.cpu_count()} cores", flush=True)
    models = BPER(shards=SHARDS), PITF(shards=SHARDS)
    alone = {model.id: here(model, data, 2) for model in models}
    for model in models:
        one = here(model, data, 1)
        print(
            f"{model.id}: 1 thread {len(data) / one / 1e6:.2f} M/s; 2 threads {len(data) / alone[model.id] / 1e6:.2f} M/s",
            flush=True,
        )
    with tempfile.TemporaryDirectory() as folder:
        parts = put_data(data, Store.at(Path(folder) / "store"))
        for cores in ((1, 1), (2,)):
            with nodes(*cores) as cluster:
                for model in models:
                    before = resident()
                    seconds, moved = there(cluster, model, parts)
                    print(
                        f"{model.id}, nodes of {cores} cores: {len(data) / seconds / 1e6:.2f} M/s, "
                        f"{alone[model.id] / seconds:.0%} of 2 threads, {moved / len(data):.1f} bytes a triplet; "
                        f"driver {before:.0f} -> {resident():.0f} MB",
                        flush=True,
                    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=float, default=0.5)
    main(parser.parse_args().times)
