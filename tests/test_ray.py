"""The same on a real cluster of three nodes: the same bits, whatever dies."""

from __future__ import annotations

import json
import os
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
from one_process import model_arrays, reviews_in_files
from whyrank.cli import main
from whyrank.data import Split, Triplets
from whyrank.errors import ClusterError
from whyrank.explain.bulk import explain_file
from whyrank.lab.experiments.cache import Cache
from whyrank.lab.experiments.jobs import Job
from whyrank.lab.experiments.lab import Lab
from whyrank.lab.experiments.tuning import tune
from whyrank.lab.ray import session
from whyrank.lab.ray.explain import explain_files
from whyrank.lab.ray.session import Cluster, connect
from whyrank.lab.ray.statements import mine_statement_files
from whyrank.lab.ray.training import solver_on
from whyrank.mining import Mined, mine
from whyrank.models import BPER, BPERJ, PITF, Model
from whyrank.training import Run

try:
    import ray
    from ray.cluster_utils import Cluster as Machines
except ImportError:
    if os.environ.get("WHYRANK_TESTS") == "all":
        raise
    pytest.skip("Ray is missing: pip install 'whyrank[ray]'", allow_module_level=True)

# Ray itself opens sockets and files that it leaves to the end of the process.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
]

QUICK: dict[str, Any] = {"factors": 5, "epochs": 3, "seed": 2, "shards": 3, "learning_rate": 0.05}
HERE = Path(__file__).parent
PATHS = [str(HERE), str(HERE.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def machines(plan: Path) -> Iterator[Any]:
    """Three nodes on loopback, one processor each; the first is the head."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", os.pathsep.join(PATHS))
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


def fitted(cluster: Cluster | None, model: Model, data: Triplets, folder: Path) -> dict[str, object]:
    """The arrays of a model that was fitted here or on the cluster."""
    if cluster is None:
        return model_arrays(model.fit(data).save(folder))
    with solver_on(cluster, model) as solver:
        return model_arrays(model.fit(data, run=Run(solver=solver)).save(folder))


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BPERJ, PITF])
def test_a_fit_on_the_cluster_is_the_fit_here(
    cluster: Cluster, data: Triplets, tmp_path: Path, kind: type[Model]
) -> None:
    there = fitted(cluster, kind(**QUICK), data, tmp_path / "there")
    assert there == fitted(None, kind(**QUICK), data, tmp_path / "here")


@pytest.mark.parametrize("plan_", ["kill-stage", "kill-held", "stop-stage"])
def test_a_worker_that_dies_or_stops_changes_nothing(
    cluster: Cluster,
    data: Triplets,
    tmp_path: Path,
    fault: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    plan_: str,
) -> None:
    monkeypatch.setattr(session, "SILENT_SECONDS", 15.0)  # to start a worker takes some of them
    file = fault(plan_)
    there = fitted(cluster, BPER(**QUICK), data, tmp_path / "there")
    assert not file.exists()
    assert there == fitted(None, BPER(**QUICK), data, tmp_path / "here")


def test_a_node_removed_in_the_middle_of_an_epoch_changes_nothing(
    cluster: Cluster, machines: Any, data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, call, last = list[object](), Cluster.call, list(machines.worker_nodes)[-1]

    def removing(self: Cluster, handle: Any, method: str, *arguments: Any, returns: int = 1) -> Any:
        reference = call(self, handle, method, *arguments, returns=returns)
        called.extend(arguments[:1] if method == "stage" else ())
        if called == [1] * 9 + [2]:  # three machines had three stages each, and the first begins the second epoch
            machines.remove_node(last, allow_graceful=False)
            limit = time.monotonic() + 60
            while any(node["NodeID"] == last.node_id and node["Alive"] for node in ray.nodes()):
                assert time.monotonic() < limit
        return reference

    monkeypatch.setattr(Cluster, "call", removing)
    there = fitted(cluster, BPER(**QUICK), data, tmp_path / "there")
    assert called[-18:] == [1] * 6 + [2] * 6 + [3] * 6  # again from the start, by the two that are left
    assert there == fitted(None, BPER(**QUICK), data, tmp_path / "here")


# -- `--ray local` -----------------------------------------------------------------------------------------------------

LOCAL = """
import os, signal, sys
from pathlib import Path
from whyrank.lab.ray.session import connect

def below(root):
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = {root}
    while more := {p for p, parent in parents.items() if parent in found} - found:
        found |= more
    return found

with connect("local") as cluster:
    cluster.gather([cluster.submit(os.getpid)])
    sockets = set()
    for process in below(os.getpid()):
        for file in Path(f"/proc/{process}/fd").glob("*"):
            try:
                sockets.add(os.readlink(file))
            except OSError:
                continue
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                print(words[1].split(":")[0])
"""


def test_a_local_cluster_listens_on_loopback_only() -> None:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("reads Linux's table of sockets")
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env["PYTHONPATH"] = os.pathsep.join(PATHS)
    done = subprocess.run([sys.executable, "-c", LOCAL], env=env, capture_output=True, text=True, check=True)
    hosts = set(done.stdout.split())
    assert hosts
    assert hosts <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_who_has_imported_ray_before_does_not_open_it_to_everybody() -> None:
    code = "import ray\nfrom whyrank.lab.ray.session import connect\nwith connect('local'): pass"
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env["PYTHONPATH"] = os.pathsep.join(PATHS)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0 or "Ray was imported before and listens at" in done.stderr


# -- bulk, mining, experiments -----------------------------------------------------------------------------------------


def test_bulk_neither_loses_nor_doubles_a_pair_when_a_worker_dies(
    cluster: Cluster, data: Triplets, tmp_path: Path, fault: Callable[[str], Path]
) -> None:
    model = BPER(**QUICK).fit(data)
    model.save(tmp_path / "model")
    (tmp_path / "pairs").mkdir()
    pairs = data.frame().select("user", "item").unique(maintain_order=True)
    pairs = pl.concat([pairs, pl.DataFrame({"user": ["nobody"], "item": ["nothing"]})])
    for number in range(3):
        pairs[number::3].write_csv(tmp_path / "pairs" / f"{number}.csv")
        explain_file(model, tmp_path / "pairs" / f"{number}.csv", tmp_path / f"{number}.parquet", 3)
    plan = fault("kill-explain_one")
    reports = explain_files(cluster, tmp_path / "model", tmp_path / "pairs", tmp_path / "out", 3)
    assert not plan.exists()
    assert sum(report.pairs for report in reports) == len(pairs)
    for number in range(3):
        there = pl.read_parquet(tmp_path / "out" / f"{number}.csv.parquet")
        assert there.equals(pl.read_parquet(tmp_path / f"{number}.parquet"))


def test_mining_goes_on_when_a_worker_dies_and_says_where_a_disk_is_full(
    cluster: Cluster, tmp_path: Path, fault: Callable[[str], Path]
) -> None:
    files = reviews_in_files(tmp_path)
    full = fault("full-find_file")
    with pytest.raises(ClusterError, match=r"disk is full on .* \(127\.0\.0\.\d\).*No space left"):
        mine_statement_files(cluster, files, tmp_path / "mined", tmp_path / "stages")
    full.unlink()
    plan = fault("kill-find_file")
    mine_statement_files(cluster, files, tmp_path / "mined", tmp_path / "stages")
    assert not plan.exists()
    assert Mined.read(tmp_path / "mined").frame().equals(mine(files).frame())


def test_runs_of_experiments_and_grids_are_those_of_one_machine(cluster: Cluster, split: Split, tmp_path: Path) -> None:
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
    space = {"factors": [4], "epochs": [1, 2], "learning_rate": [0.01, 0.2]}
    here, there = (tune("bper", split, space, sampler="grid", threads=1, workers=w) for w in (None, cluster))
    assert (here.parameters, here.values) == (there.parameters, there.values)
    assert sorted(str(t["parameters"]) for t in here.trials) == sorted(str(t["parameters"]) for t in there.trials)


# -- commands ----------------------------------------------------------------------------------------------------------


def run(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code == 0


def test_every_command_takes_the_address_of_a_cluster(
    cluster: Cluster, machines: Any, data: Triplets, tmp_path: Path
) -> None:
    there = ("--ray", machines.address)
    (tmp_path / "files").mkdir()
    for number in range(3):
        data.frame()[number::3].write_parquet(tmp_path / "files" / f"{number}.parquet")
    quick = ("--model", "bper", "--set", "epochs=1", "--set", "factors=4", "--set", "shards=2")
    run("split", tmp_path / "files", "--method", "hash", *there, "-o", tmp_path / "parts")
    run("fit", tmp_path / "parts" / "train", *quick, *there, "-o", tmp_path / "there")
    run("fit", tmp_path / "parts" / "train", *quick, "-o", tmp_path / "here")
    assert model_arrays(tmp_path / "there") == model_arrays(tmp_path / "here")
    run("explain", tmp_path / "there", "--pairs", tmp_path / "parts" / "test", *there, "-o", tmp_path / "reasons")
    first = next((tmp_path / "parts" / "test").glob("*.parquet"))
    run("explain", tmp_path / "here", "--pairs", first, "-o", tmp_path / "first.parquet")
    assert pl.read_parquet(tmp_path / "reasons" / first.name).equals(pl.read_parquet(tmp_path / "first.parquet"))
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(tmp_path / "files"), *quick, "--threads", "2", *there, "-o", str(tmp_path / "there")])
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
