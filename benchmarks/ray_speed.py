"""The same training here and on a loopback cluster: speed, bytes moved, memory of the driver.

    python benchmarks/ray_speed.py                # half of yelp's size
    python benchmarks/ray_speed.py --times 0.05   # a quick look

Whole epochs, the best of some, by the wall clock: on a machine that does something else the figures mean nothing. The
clusters are nodes on this machine: two of one core each, and one of two cores. They show what handing columns on costs,
not how a network behaves.
"""

from __future__ import annotations

import argparse
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # loopback only, for the length of this run
os.environ.setdefault("RAY_worker_niceness", "0")  # as any other process

import numpy as np
from numpy.typing import NDArray
from ray.cluster_utils import Cluster as Machines

from training_scale import YELP
from whyrank.data.triplets import Triplets
from whyrank.lab.ray.dataset import Dataset
from whyrank.lab.ray.fit import job_of, put_data
from whyrank.lab.ray.peers import Address, Peers
from whyrank.lab.ray.session import Cluster, connect
from whyrank.lab.ray.store import StateStore
from whyrank.lab.ray.training import ClusterTrainer
from whyrank.lab.simulate import simulate
from whyrank.models import BPER, PITF
from whyrank.models.factors import FactorModel
from whyrank.thread_pool import ThreadPool
from whyrank.training import Run, Storage
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


def there(cluster: Cluster, model: FactorModel, data: Dataset) -> tuple[float, float]:
    """The same on a cluster; and the bytes that go from machine to machine."""
    trainer = ClusterTrainer(cluster, job_of(model, data), Run())
    seconds = fastest(lambda number: trainer.epoch())
    before = trainer.sent_bytes()
    trainer.epoch()
    moved = trainer.sent_bytes() - before
    trainer.workers.dismiss()
    return seconds, moved


class Echo:
    """Gives back what it gets, by Ray and over a connection."""

    def __init__(self, host: str, secret: bytes) -> None:
        self.peers = Peers(1, host, secret)

    def address(self) -> Address:
        return self.peers.address

    def meet(self, addresses: list[Address]) -> None:
        self.peers.meet(addresses)

    def by_ray(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        return array

    def serve(self, count: int) -> None:
        for number in range(count):
            self.peers.send(0, (number, 0, 0, 0), self.peers.receive(0, (number, 0, 0, 0)))


def transports(cluster: Cluster, rows: int = 16_000, count: int = 50) -> None:
    """Milliseconds for a shard of columns there and back, by both ways."""
    machine, secret, shard = cluster.machines()[-1], secrets.token_bytes(16), np.ones((rows, 24), np.float32)
    echo, mine = cluster.start(machine, 1, Echo, machine.host, secret), Peers(0, "127.0.0.1", secret)
    addresses = [mine.address, *cluster.gather([cluster.call(echo, "address")])]
    cluster.gather([cluster.call(echo, "meet", addresses)])
    mine.meet(addresses)
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        cluster.gather([cluster.call(echo, "by_ray", shard)])
        times.append(time.perf_counter() - begin)
    served, direct = cluster.call(echo, "serve", count), []
    for number in range(count):
        begin = time.perf_counter()
        mine.send(1, (number, 0, 0, 0), shard)
        mine.receive(1, (number, 0, 0, 0))
        direct.append(time.perf_counter() - begin)
    cluster.gather([served])
    cluster.dismiss(echo)
    mine.close()
    by_ray, own = (1e3 * float(np.median(each)) for each in (times, direct))
    print(f"{shard.nbytes / 1e6:.1f} MB there and back: {by_ray:.1f} ms by Ray's object store, {own:.1f} ms directly")


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


def compare(model: FactorModel, data: Triplets, cores: tuple[int, ...], parts: Dataset) -> None:
    """A cluster beside one process with two threads, which is measured before and after it."""
    with nodes(*cores) as cluster:
        if len(cores) > 1 and isinstance(model, BPER):
            transports(cluster)
        alone, before = here(model, data, 2), resident()
        seconds, moved = there(cluster, model, parts)
        after = resident()
        alone = min(alone, here(model, data, 2))
    done = len(data)
    print(
        f"{model.id}, {len(cores)} node(s) of {cores[0]} core(s): {done / seconds / 1e6:.2f} M triplets/s, "
        f"one process with 2 threads {done / alone / 1e6:.2f}: {alone / seconds:.0%}; "
        f"{moved / done:.1f} bytes a triplet and epoch; driver {before:.0f} -> {after:.0f} MB; "
        f"an epoch {seconds:.3f} s",
        flush=True,
    )


def main(times: float, models: list[str]) -> None:
    data = simulate("yelp", **{name: int(size * times) for name, size in YELP.items()}, seed=0)
    print(f"simulate yelp x {times}: {data!r}, {os.cpu_count()} cores", flush=True)
    chosen = [each for each in (BPER(shards=SHARDS), PITF(shards=SHARDS)) if each.id in models]
    with tempfile.TemporaryDirectory() as folder:
        parts = put_data(data, StateStore.at(Path(folder) / "store"))
        for model in chosen:
            print(f"{model.id}, 1 process, 1 thread: {len(data) / here(model, data, 1) / 1e6:.2f} M triplets/s")
            for cores in ((1, 1), (2,)):
                compare(model, data, cores, parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=float, default=0.5)
    parser.add_argument("--models", default="bper,pitf")
    chosen = parser.parse_args()
    main(chosen.times, chosen.models.split(","))
