"""The same engine on a real cluster of three nodes: the same bits, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ray_faults
from needs import module
from one_process import reviews_in_files
from whyrank.cli import main
from whyrank.data import read
from whyrank.data.split import Split
from whyrank.data.triplets import Triplets
from whyrank.errors import ArtifactError, ClusterError, ParameterError, TrainingError
from whyrank.explain.bulk import explain_file
from whyrank.lab.experiments.cache import Cache
from whyrank.lab.experiments.jobs import Job
from whyrank.lab.experiments.lab import Lab
from whyrank.lab.experiments.tuning import tune
from whyrank.lab.ray.dataset import Dataset
from whyrank.lab.ray.explain import explain_files
from whyrank.lab.ray.fit import fit, put_data
from whyrank.lab.ray.ingest import ingest
from whyrank.lab.ray.session import Cluster, connect
from whyrank.lab.ray.split import split_files
from whyrank.lab.ray.statements import mine_statement_files
from whyrank.lab.ray.store import StateStore
from whyrank.mining import Mined, mine
from whyrank.models import BPER, BPERJ, BPR, CD, CDJ, PITF, PITFJ, POP, Model, ProfileJ
from whyrank.training import Epoch, Monitor, Run, Storage

ray = module("ray", "ray")
Machines = module("ray.cluster_utils", "ray").Cluster

# Ray itself opens sockets and files that it leaves to the end of the process.
QUIET = ("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(*QUIET)]

QUICK = {"factors": 5, "epochs": 3, "seed": 2, "shards": 3, "learning_rate": 0.05}
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def machines(plan: Path) -> Iterator[Any]:
    """Three nodes on loopback, one processor each; the first is the head."""
    patch = pytest.MonkeyPatch()
    paths = [str(HERE), str(HERE.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    patch.setenv("PYTHONPATH", os.pathsep.join(paths))
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    patch.setenv("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    patch.setenv("RAY_worker_niceness", "0")  # tests share the machine with other tests
    patch.setenv("RAY_health_check_period_ms", "500")  # a node whose process is gone is noticed after five of them
    patch.setenv("RAY_AUTH_MODE", "disabled")  # a loopback cluster that lives for a minute
    patch.setenv(ray_faults.PLAN, str(plan))
    size = {"num_cpus": 1, "object_store_memory": 80_000_000}
    started = Machines(initialize_head=True, head_node_args=size | {"node_ip_address": "127.0.0.2"})
    for number in (3, 4):
        started.add_node(node_ip_address=f"127.0.0.{number}", wait=False, **size)
    started.wait_for_nodes()
    yield started
    started.shutdown()
    patch.undo()


@pytest.fixture(scope="module")
def cluster(machines: Any) -> Iterator[Cluster]:
    hook = {"worker_process_setup_hook": "ray_faults.install"}
    ray.init(address=machines.address, log_to_driver=False, logging_level="ERROR", runtime_env=hook)
    with connect(machines.address) as joined:
        yield joined
    ray.shutdown()


@pytest.fixture
def fault(plan: Path) -> Iterator[Callable[[str], Path]]:
    """Makes things go wrong until the test ends."""

    def add(name: str) -> Path:
        (plan / name).touch()
        return plan / name

    yield add
    for file in plan.iterdir():
        file.unlink()


@pytest.fixture
def dataset(data: Triplets, tmp_path: Path) -> Dataset:
    return put_data(data, StateStore.at(tmp_path / "store"))


def facts(folder: Path) -> dict[str, Any]:
    """What a model folder says of itself: the SHA-256 of every array, and tables as they are.

    Arrow files of the same table may differ in where they keep its texts.
    """
    found = dict(json.loads((folder / "manifest.json").read_text()))
    for name in found["files"]:
        if name.startswith("tables/"):
            found["files"][name] = pl.read_ipc(folder / name).to_dict(as_series=False)
    return found


def fitted_here(data: Triplets, folder: Path, kind: type[Model] = BPER, **settings: object) -> dict[str, Any]:
    return facts(kind(**(QUICK | settings)).fit(data).save(folder))  # type: ignore[arg-type]


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BPER, PITF, CD, BPERJ, CDJ, PITFJ, BPR])
def test_a_fit_on_the_cluster_writes_the_very_folder_of_a_fit_here(
    cluster: Cluster, dataset: Dataset, data: Triplets, tmp_path: Path, kind: type[Model]
) -> None:
    here = fitted_here(data, tmp_path / "here", kind, epochs=2)  # first: kernels are then compiled once, for all
    made = fit(cluster, kind(**(QUICK | {"epochs": 2})), dataset, tmp_path / "there")
    assert facts(made) == here


def test_a_worker_killed_inside_a_task_changes_nothing(
    cluster: Cluster, dataset: Dataset, data: Triplets, tmp_path: Path, fault: Callable[[str], Path]
) -> None:
    plans = [fault(f"kill-{name}") for name in ("epoch", "write")]
    made = fit(cluster, BPER(**QUICK), dataset, tmp_path / "there")
    assert not any(plan.exists() for plan in plans)
    assert facts(made) == fitted_here(data, tmp_path / "here")


def test_a_slow_node_changes_nothing(
    cluster: Cluster, dataset: Dataset, data: Triplets, tmp_path: Path, fault: Callable[[str], Path]
) -> None:
    plan = fault("slow")
    made = fit(cluster, BPER(**(QUICK | {"epochs": 1})), dataset, tmp_path / "there")
    assert not plan.exists()
    assert facts(made) == fitted_here(data, tmp_path / "here", epochs=1)


def test_a_full_disk_is_an_error_that_says_so_and_the_run_goes_on_afterwards(
    cluster: Cluster, dataset: Dataset, data: Triplets, tmp_path: Path, fault: Callable[[str], Path], plan: Path
) -> None:
    fault("full")
    with pytest.raises(ClusterError, match=r"disk is full on .* \(127\.0\.0\.\d\).*No space left"):
        fit(cluster, BPER(**QUICK), dataset, tmp_path / "there", Run(checkpoint_seconds=0))
    (full,) = plan.iterdir()
    full.unlink()
    made = fit(cluster, BPER(**QUICK), dataset, tmp_path / "there", Run(resume=True))
    assert facts(made) == fitted_here(data, tmp_path / "here")


DRIVER = """
import sys
from pathlib import Path
from test_ray import QUICK
from whyrank.cli import main
from whyrank.lab.ray.dataset import Dataset
from whyrank.lab.ray.fit import fit
from whyrank.lab.ray.session import connect
from whyrank.lab.ray.store import StateStore
from whyrank.models import BPERJ
from whyrank.training import Monitor, Run

class Tell(Monitor):
    def on_epoch(self, epoch, storage):
        print(epoch.number, flush=True)
        if epoch.number == 3:  # done, but not yet written
            sys.stdin.readline()
        return False

with connect(sys.argv[1]) as cluster:
    data = Dataset.load(StateStore.at(sys.argv[2]))
    fit(cluster, BPERJ(**QUICK | {"epochs": 5}), data, Path(sys.argv[3]), Run(monitors=(Tell(),), checkpoint_seconds=0))
"""


class Watch(Monitor):
    def __init__(self) -> None:
        self.epochs: list[int] = []

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.epochs.append(epoch.number)
        return False


def test_a_killed_driver_is_resumed_by_another_one(
    cluster: Cluster, machines: Any, dataset: Dataset, data: Triplets, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", DRIVER, machines.address, dataset.store.url, str(tmp_path / "never")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=HERE) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            if line.strip() == "3":
                driver.send_signal(signal.SIGKILL)
                break
        driver.wait()
    assert driver.returncode == -signal.SIGKILL
    watch = Watch()
    model = BPERJ(**(QUICK | {"epochs": 5}))
    made = fit(cluster, model, dataset, tmp_path / "there", Run(resume=True, monitors=(watch,)))
    assert watch.epochs == [3, 4, 5]  # what was written was not done again
    assert facts(made) == fitted_here(data, tmp_path / "here", BPERJ, epochs=5)
    with pytest.raises(ArtifactError, match="other data or settings"):
        fit(cluster, BPERJ(**(QUICK | {"seed": 9})), dataset, tmp_path / "there", Run(resume=True))


def test_a_node_removed_in_the_middle_of_an_epoch_changes_nothing(
    cluster: Cluster, machines: Any, dataset: Dataset, data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, call, last = list[object](), Cluster.call, list(machines.worker_nodes)[-1]

    def removing(self: Cluster, handle: Any, method: str, *arguments: Any) -> Any:
        reference = call(self, handle, method, *arguments)
        called.extend(arguments if method == "epoch" else ())
        if called == [1, 1, 1, 2]:  # the first of three machines has begun the second epoch
            machines.remove_node(last, allow_graceful=False)
            limit = time.monotonic() + 60
            while any(node["NodeID"] == last.node_id and node["Alive"] for node in ray.nodes()):
                assert time.monotonic() < limit  # until they are told, others would ask a machine that may still answer
        return reference

    monkeypatch.setattr(Cluster, "call", removing)
    made = fit(cluster, BPER(**QUICK), dataset, tmp_path / "there")
    assert called[-6:] == [1, 1, 2, 2, 3, 3]  # again from the start, by the two that are left
    assert facts(made) == fitted_here(data, tmp_path / "here")


def test_what_cannot_be_trained_on_a_cluster_says_so(cluster: Cluster, dataset: Dataset, tmp_path: Path) -> None:
    for model in (POP(), ProfileJ()):
        with pytest.raises(ParameterError, match="leave out --ray"):
            fit(cluster, model, dataset, tmp_path / "there")
    with pytest.raises(TrainingError, match="lower learning_rate"):
        fit(cluster, BPER(**(QUICK | {"learning_rate": 90.0, "regularization": 0.0})), dataset, tmp_path / "there")


# -- data --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(data: Triplets, tmp_path: Path) -> Path:
    """The data in four files, in no order, with repeated rows; the last file has no texts."""
    rows = data.frame().sample(fraction=1, shuffle=True, seed=1)
    rows = pl.concat([rows, rows.head(50)]).with_columns(rating=pl.int_range(pl.len()) % 7 / 3)
    (tmp_path / "files").mkdir()
    for number in range(4):
        part = rows[number::4]
        (part.drop("text") if number == 3 else part).write_parquet(tmp_path / "files" / f"{number}.parquet")
    return tmp_path / "files"


def test_a_folder_of_files_is_numbered_as_if_it_were_read_here(cluster: Cluster, folder: Path, tmp_path: Path) -> None:
    here = read(folder)
    there = ingest(cluster, folder, StateStore.at(tmp_path / "store"), parts=5)
    assert there.digest == here.digest()
    assert there.parts == 5
    settings: dict[str, Any] = QUICK | {"bias_start": "popularity", "epochs": 1}
    made = facts(fit(cluster, BPERJ(**settings), there, tmp_path / "there"))
    mine = facts(BPERJ(**settings).fit(here).save(tmp_path / "here"))
    assert made == mine


def test_a_split_by_hash_is_the_same_here_and_there(cluster: Cluster, folder: Path, tmp_path: Path) -> None:
    here = read(folder).split(seed=4, method="hash", test=0.25, validation=0.2)
    split_files(cluster, folder, tmp_path / "split", here.info)
    for name in ("train", "validation", "test"):
        mine, there = getattr(here, name).frame(), read(tmp_path / "split" / name).frame()
        keys = ["user", "item", "explanation"]
        assert mine.select(keys).sort(keys).equals(there.select(keys).sort(keys))
        assert len(mine)


# -- bulk, experiments -------------------------------------------------------------------------------------------------


def test_bulk_neither_loses_nor_doubles_a_pair_when_a_worker_dies(
    cluster: Cluster, data: Triplets, tmp_path: Path, fault: Callable[[str], Path]
) -> None:
    model = BPER(**(QUICK | {"epochs": 1})).fit(data)
    model.save(tmp_path / "model")
    (tmp_path / "pairs").mkdir()
    pairs = data.frame().select("user", "item").unique(maintain_order=True)
    pairs = pl.concat([pairs, pl.DataFrame({"user": ["nobody"], "item": ["nothing"]})])
    for number in range(3):
        pairs[number::3].write_csv(tmp_path / "pairs" / f"{number}.csv")
    for number in range(3):
        explain_file(model, tmp_path / "pairs" / f"{number}.csv", tmp_path / f"{number}.parquet", 3)
    plan = fault("kill-explain_one")
    reports = explain_files(cluster, tmp_path / "model", tmp_path / "pairs", tmp_path / "out", 3)
    assert not plan.exists()
    assert sum(report.pairs for report in reports) == len(pairs)
    for number in range(3):
        there = pl.read_parquet(tmp_path / "out" / f"{number}.csv.parquet")
        assert there.equals(pl.read_parquet(tmp_path / f"{number}.parquet"))
    (tmp_path / "out" / "1.csv.parquet").unlink()
    again = explain_files(cluster, tmp_path / "model", tmp_path / "pairs", tmp_path / "out", 3)
    assert [report.resumed_at == report.pairs for report in again] == [True, False, True]


def test_runs_of_experiments_on_the_cluster_are_those_of_the_lab(
    cluster: Cluster, split: Split, tmp_path: Path
) -> None:
    configs = {"bper": {"factors": 4, "epochs": 1}}
    labs = [Lab("small", [split], Cache(tmp_path / place), configs) for place in ("here", "there")]
    jobs = [Job("pop", 0), Job("bper", 0), Job("bper", 0, "mu")]
    labs[0].run(jobs)
    labs[1].run(jobs, workers=cluster)
    assert labs[1].missing(jobs) == []
    for job in jobs:
        here, there = (lab.cache.load(lab.key(job)) for lab in labs)
        assert here is not None
        assert there is not None
        assert all(np.array_equal(here.arrays[name], there.arrays[name]) for name in here.arrays)
        assert {n for n in here.facts if not n.startswith("training")} <= set(there.facts)


def test_a_grid_searched_on_the_cluster_finds_the_same_best(cluster: Cluster, split: Split) -> None:
    space = {"factors": [4], "epochs": [1, 2], "learning_rate": [0.01, 0.2]}
    here, there = (tune("bper", split, space, sampler="grid", threads=1, workers=w) for w in (None, cluster))
    assert here.parameters == there.parameters
    assert here.values == there.values
    assert sorted(map(str, (t["parameters"] for t in here.trials))) == sorted(
        map(str, (t["parameters"] for t in there.trials))
    )


# -- mining ------------------------------------------------------------------------------------------------------------


def test_mining_goes_on_when_a_worker_dies(cluster: Cluster, tmp_path: Path, fault: Callable[[str], Path]) -> None:
    files = reviews_in_files(tmp_path)
    plan = fault("kill-find_file")
    mine_statement_files(cluster, files, tmp_path / "mined", tmp_path / "stages")
    assert not plan.exists()
    assert Mined.read(tmp_path / "mined").frame().equals(mine(files).frame())


# -- commands ----------------------------------------------------------------------------------------------------------


def run(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code == 0


def test_every_command_takes_the_address_of_a_cluster(
    cluster: Cluster, machines: Any, data: Triplets, folder: Path, tmp_path: Path
) -> None:
    there = ("--ray", machines.address)
    quick = ("--model", "bper", "--set", "epochs=1", "--set", "factors=4", "--set", "shards=2")
    run("split", folder, "--method", "hash", *there, "-o", tmp_path / "parts")
    run("fit", tmp_path / "parts" / "train", *quick, *there, "-o", tmp_path / "there")
    run("fit", tmp_path / "parts" / "train", *quick, "-o", tmp_path / "here")
    run("explain", tmp_path / "there", "--pairs", tmp_path / "parts" / "test", *there, "-o", tmp_path / "reasons")
    first = next((tmp_path / "parts" / "test").glob("*.parquet"))
    run("explain", tmp_path / "here", "--pairs", first, "-o", tmp_path / "first.parquet")
    assert pl.read_parquet(tmp_path / "reasons" / first.name).equals(pl.read_parquet(tmp_path / "first.parquet"))
    assert not list(tmp_path.glob(".*.ray"))
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(folder), "--threads", "2", *there, "-o", str(tmp_path / "there")])
    assert ended.value.code == 2
    data.write(tmp_path / "data.parquet")
    space = {"factors": [4], "epochs": [1], "learning_rate": [0.01, 0.2]}
    (tmp_path / "space.json").write_text(json.dumps(space))
    search = ("--sampler", "grid", "--space", tmp_path / "space.json")
    run("tune", tmp_path / "data.parquet", "--model", "bper", *search, *there, "-o", tmp_path / "bper.json")
    run("experiment", "ranking", tmp_path / "data.parquet", "--models", "pop,rand", "--splits", 2, *there, "-o",
        tmp_path / "report")  # fmt: skip
    assert (tmp_path / "bper.json").is_file()
    assert (tmp_path / "report" / "report.html").is_file()
