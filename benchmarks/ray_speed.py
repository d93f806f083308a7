"""The engine here and on a loopback cluster: triplets a second, what a task costs, bytes moved; and an estimate.

    python benchmarks/ray_speed.py                # half of yelp's size
    python benchmarks/ray_speed.py --times 0.05   # a quick look

BPER, 20 factors, whole epochs with shuffling and sorting, the best of three, by wall clock and by processor time (which
other processes disturb less; of Ray: that of all its workers). Two processes are two workers of one processor each on
one node of Ray, which share its memory; the cluster is two nodes of one processor each on this machine: it shows what
tasks and copies cost, not how a network behaves. Bytes are those of all objects that the tasks of an epoch hand on. The
estimate is that of `whyrank fit --plan`, whose constants are rounded from what is printed here; for models that do not
train in blocks, a fit's processor time stands beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # loopback only, for the length of this run
os.environ.setdefault("RAY_worker_niceness", "0")  # as any other process

import numpy as np
import ray
from ray.cluster_utils import Cluster as Machines

from training_scale import YELP
from whyrank.cluster.dataset import Dataset
from whyrank.cluster.fit import passes_of, put_data
from whyrank.cluster.partitions import Cut
from whyrank.cluster.plan import DataSizes, plan_fit
from whyrank.cluster.positives import Columns, collect, read_part, scatter
from whyrank.cluster.session import Cluster, connect
from whyrank.cluster.solver import ClusterJob, ClusterSolver
from whyrank.cluster.store import Store
from whyrank.data.triplets import Triplets
from whyrank.models import BPER, COUNTS, PITF, RUCF, BPERPlus, Model, Profile
from whyrank.models.factors import FactorModel
from whyrank.simulation import simulate
from whyrank.thread_pool import ThreadPool
from whyrank.training import Run, Storage
from whyrank.training.blocks import BlockSolver

SHARDS = 4
STORE = 2_000_000_000  # bytes of a node's object store
LARGE = DataSizes(100_000_000, 10_000_000, 1_000_000, 5_000_000_000, 10_000_000_000)


def worker_seconds() -> float:
    """Processor time of all Ray workers of this machine."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if (file.parent / "cmdline").read_bytes().startswith(b"ray::"):
                ticks += sum(map(int, file.read_text().rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def best(
    work: Callable[[int], object], rounds: int = 3, clock: Callable[[], float] = time.process_time
) -> tuple[float, float]:
    """Wall and processor seconds of the fastest of some epochs, after one that compiles."""
    times = []
    for number in range(1, rounds + 2):
        begin, processor = time.perf_counter(), clock()
        work(number)
        times.append((time.perf_counter() - begin, clock() - processor))
    return min(wall for wall, _ in times[1:]), min(seconds for _, seconds in times[1:])


def local(model: FactorModel, data: Triplets, threads: int) -> tuple[float, float]:
    tables, passes = model.tables(data), model.passes(data)
    with ThreadPool(threads) as pool:
        solver = BlockSolver(Storage.started(tables, 0, 0.1), passes, model.settings(), pool)
        return best(lambda number: solver.epoch(number))


class Counted(Cluster):
    """Counts tasks, and remembers what they hand on."""

    def __init__(self) -> None:
        super().__init__(ray)
        self.tasks, self.references = 0, list[Any]()

    def submit(self, function: Callable[..., Any], *arguments: Any, cpus: float = 1) -> Any:
        self.tasks += 1
        self.references.append(super().submit(function, *arguments, cpus=cpus))
        return self.references[-1]

    def submit_many(self, returns: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        found = super().submit_many(returns, function, *arguments)
        self.tasks += 1
        self.references += found
        return found

    def moved(self) -> int:
        places = ray.experimental.get_object_locations(self.references)
        return sum(place.get("object_size") or 0 for place in places.values())


def remote(model: FactorModel, data: Dataset) -> tuple[tuple[float, float], int, int]:
    """Seconds, tasks and bytes of an epoch."""
    tables = model.tables(data)  # type: ignore[arg-type]
    cluster = Counted()
    solver = ClusterSolver(ClusterJob(cluster, data, tables, passes_of(model), model.settings()))
    solver.start()
    cluster.gather([cluster.submit(len, part) for parts in solver.parts.values() for part in parts])
    seconds = best(lambda number: solver.epoch(number), clock=worker_seconds)
    cluster.tasks, cluster.references = 0, []
    solver.epoch(9)
    return seconds, cluster.tasks, cluster.moved()


def overhead(cluster: Cluster, count: int = 2000) -> float:
    """Seconds that an empty task costs when many are sent at once."""
    cluster.gather([cluster.submit(abs, 1) for _ in range(50)])
    begin = time.perf_counter()
    cluster.gather([cluster.submit(abs, 1) for _ in range(count)])
    return (time.perf_counter() - begin) / count


def copying(cluster: Cluster, megabytes: int = 64, count: int = 10) -> float:
    """Bytes a second that go through a task as a shard does: taken in, copied, handed on."""
    shard = cluster.submit(np.zeros, megabytes * 250_000, np.float32)
    for timed in (False, True):
        begin = time.perf_counter()
        for _ in range(count):
            shard = cluster.submit(np.copy, shard)
        cluster.gather([cluster.submit(len, shard)])
        if timed:
            return megabytes * 1e6 * count / (time.perf_counter() - begin)
    raise AssertionError


def two_processes(model: FactorModel, data: Dataset) -> tuple[float, float]:
    """Seconds of an epoch by two workers of one processor on one node."""
    quiet: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=2, object_store_memory=STORE, **quiet)
    try:
        return remote(model, data)[0]
    finally:
        ray.shutdown()


def beside_plan(model: Model, data: Triplets) -> None:
    """The processor time of a second fit, by one thread, and what the plan says of it."""
    for _ in range(2):
        begin = time.process_time()
        model.fit(data, run=Run(threads=1))
        seconds = time.process_time() - begin
    planned = plan_fit(model, data, 1, 1)
    print(
        f"{model.id}, pool of {len(data.explanations):,}: {seconds:.2f} s, planned {planned.here_seconds:.2f} s",
        flush=True,
    )


def sorting(model: FactorModel, data: Dataset) -> float:
    """Positives a second that one process cuts up and sorts into blocks."""
    one = passes_of(model)[0]
    take = Columns.of(one)
    cuts = tuple(
        Cut(rows, SHARDS, 0, 1, number) for number, rows in ((0, data.user_count), (2, data.explanation_count))
    )
    parts = [read_part(data, take, number) for number in range(data.parts)]

    def work(number: int) -> None:
        pieces = [scatter(part, take, cuts[0], False) for part in parts]
        for shard in range(SHARDS):
            collect(take, cuts, shard, *(piece[shard] for piece in pieces))

    return data.triplets / best(work, 2)[1]


def speed(name: str, data: Triplets, seconds: tuple[float, float]) -> None:
    wall, processor = seconds
    print(
        f"{name}: {len(data) / wall / 1e6:.2f} M triplets/s by the clock ({wall:.2f} s an epoch), "
        f"{len(data) / processor / 1e6:.2f} M a second of processors ({processor:.2f} s)",
        flush=True,
    )


def main(times: float) -> None:
    data = simulate("yelp", **{name: int(size * times) for name, size in YELP.items()}, seed=0)
    print(f"simulate yelp x {times}: {data!r}, {os.cpu_count()} cores", flush=True)
    bper, pitf = BPER(shards=SHARDS), PITF(shards=SHARDS)
    speed("1 process, 1 thread", data, local(bper, data, 1))
    speed("1 process, 2 threads", data, local(bper, data, 2))
    speed("PITF, 1 process, 1 thread", data, local(pitf, data, 1))
    with tempfile.TemporaryDirectory() as folder:
        parts = put_data(data, Store.at(Path(folder) / "store"))
        print(f"sorting into blocks, 1 process: {sorting(bper, parts) / 1e6:.1f} M positives/s", flush=True)
        speed("2 processes (Ray local, 2 workers of 1 processor)", data, two_processes(bper, parts))
        size = {"num_cpus": 1, "object_store_memory": STORE}
        machines = Machines(initialize_head=True, head_node_args=size | {"node_ip_address": "127.0.0.2"})
        machines.add_node(node_ip_address="127.0.0.3", **size)
        with connect(machines.address) as cluster:
            print(f"an empty task: {overhead(cluster) * 1e3:.2f} ms", flush=True)
            print(f"a shard through a task: {copying(cluster) / 1e9:.2f} GB/s", flush=True)
            seconds, tasks, moved = remote(bper, parts)
            speed("loopback cluster, 2 nodes", data, seconds)
            print(
                f"  an epoch: {tasks} tasks, {moved / 1e6:.0f} MB handed on ({moved / len(data):.0f} bytes a triplet)"
            )
        machines.shutdown()
    for pool in (2_000, 10_000):
        small = simulate("small", users=4000, items=800, explanations=pool, records=15_000, triplets=30_000, seed=0)
        features = np.random.default_rng(0).standard_normal((len(small.explanations), 128))
        for model in (Profile(epochs=1), COUNTS(), RUCF(neighbours=50), BPERPlus(features=features)):
            beside_plan(model, small)
    print(f"\nplan for this data:\n{plan_fit(bper, data, 2, 1).text()}")
    for shards in (32, 64, 96, 128):
        print(f"\n{LARGE}\n{plan_fit(BPER(shards=shards), LARGE, 32, 16).text()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=float, default=0.5)
    main(parser.parse_args().times)
