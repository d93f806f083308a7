"""The same engine on a real cluster of three nodes: the same bits, whatever dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ray_faults
from whyrank.cluster.dataset import Dataset
from whyrank.cluster.fit import fit, put_data
from whyrank.cluster.session import Cluster, connect
from whyrank.cluster.store import Store
from whyrank.data.triplets import Triplets
from whyrank.errors import ArtifactError, ClusterError, ParameterError, TrainingError
from whyrank.models import BPER, BPERJ, BPR, CD, CDJ, PITF, PITFJ, POP, Model
from whyrank.training import Epoch, Monitor, Storage

try:
    import ray
    from ray.cluster_utils import Cluster as Machines
except ImportError:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip("Ray is missing: pip install 'whyrank[ray]'", allow_module_level=True)

# Ray itself opens sockets and files that it leaves to the end of the process.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")

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
    return put_data(data, Store.at(tmp_path / "store"))


def facts(folder: Path) -> dict[str, Any]:
    """What a model folder says of itself, with the SHA-256 of every file."""
    return dict(json.loads((folder / "manifest.json").read_text()))


def fitted_here(data: Triplets, folder: Path, kind: type[Model] = BPER, **settings: object) -> dict[str, Any]:
    return facts(kind(**(QUICK | settings)).fit(data).save(folder))  # type: ignore[arg-type]


def worker_nodes(machines: Any) -> list[str]:
    return [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeManagerAddress"] != "127.0.0.2"]


# -- training ----------------------------------------------------------------------------------------------------------

SHAPES = [
    *((kind, {}) for kind in (BPER, PITF, CD, BPERJ, CDJ, PITFJ, BPR)),
    (BPER, {"epoch_unit": "records", "bias_start": "popularity", "schedule": "linear", "shards": 1}),
    (CDJ, {"epoch_unit": "records"}),
]


@pytest.mark.parametrize(("kind", "settings"), SHAPES)
def test_a_fit_on_the_cluster_writes_the_very_folder_of_a_fit_here(
    cluster: Cluster, dataset: Dataset, data: Triplets, tmp_path: Path, kind: type[Model], settings: dict[str, Any]
) -> None:
    settings = {"epochs": 2} | settings
    made = fit(cluster, kind(**(QUICK | settings)), dataset, tmp_path / "there")
    assert facts(made) == fitted_here(data, tmp_path / "here", kind, **settings)


def test_a_worker_killed_inside_a_task_changes_nothing(
    cluster: Cluster, dataset: Dataset, data: Triplets, tmp_path: Path, fault: Callable[[str], Path]
) -> None:
    plans = [fault(f"kill-{name}") for name in ("pairwise", "collect")]
    made = fit(cluster, BPER(**QUICK), dataset, tmp_path / "there")
    assert not any(plan.exists() for plan in plans)
    assert facts(made) == fitted_here(data, tmp_path / "here")


def test_a_slow_node_changes_nothing(
    cluster: Cluster, machines: Any, dataset: Dataset, data: Triplets, tmp_path: Path, fault: Callable[[str], Path]
) -> None:
    fault(f"slow-{worker_nodes(machines)[0]}")
    made = fit(cluster, BPER(**(QUICK | {"epochs": 1})), dataset, tmp_path / "there")
    assert facts(made) == fitted_here(data, tmp_path / "here", epochs=1)


def test_a_full_disk_is_an_error_that_says_so_and_the_run_goes_on_afterwards(
    cluster: Cluster, dataset: Dataset, data: Triplets, tmp_path: Path, fault: Callable[[str], Path]
) -> None:
    plans = [fault(f"full-{node['NodeID']}") for node in ray.nodes() if node["Alive"]][:1]
    with pytest.raises(ClusterError, match=r"disk is full on .* \(127\.0\.0\.\d\).*No space left"):
        for _ in range(20):  # until the node has something to write
            fit(cluster, BPER(**QUICK), dataset, tmp_path / "there", checkpoint_seconds=0)
    for plan in plans:
        plan.unlink()
    made = fit(cluster, BPER(**QUICK), dataset, tmp_path / "there", resume=True)
    assert facts(made) == fitted_here(data, tmp_path / "here")


DRIVER = """
import sys
from pathlib import Path
from test_ray import QUICK
from whyrank.cluster.dataset import Dataset
from whyrank.cluster.fit import fit
from whyrank.cluster.session import connect
from whyrank.cluster.store import Store
from whyrank.models import BPERJ
from whyrank.training import Monitor

class Tell(Monitor):
    def on_epoch(self, epoch, storage):
        print(epoch.number, flush=True)
        return False

with connect(sys.argv[1]) as cluster:
    data = Dataset.load(Store.at(sys.argv[2]))
    fit(cluster, BPERJ(**QUICK | {"epochs": 40}), data, Path(sys.argv[3]), monitors=[Tell()], checkpoint_seconds=0)
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
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            if line.strip() == "3":
                driver.send_signal(signal.SIGKILL)
                break
        driver.wait()
    assert driver.returncode == -signal.SIGKILL
    watch = Watch()
    model = BPERJ(**(QUICK | {"epochs": 5}))
    made = fit(cluster, model, dataset, tmp_path / "there", resume=True, monitors=[watch])
    assert watch.epochs[0] in (3, 4)  # what came before it was not done again
    assert facts(made) == fitted_here(data, tmp_path / "here", BPERJ, epochs=5)
    with pytest.raises(ArtifactError, match="other data or settings"):
        fit(cluster, BPERJ(**(QUICK | {"seed": 9})), dataset, tmp_path / "there", resume=True)


def test_a_node_removed_in_the_middle_of_an_epoch_changes_nothing(
    cluster: Cluster, machines: Any, dataset: Dataset, data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = SimpleNamespace(blocks=0)
    submit_many = Cluster.submit_many
    extra = machines.add_node(node_ip_address="127.0.0.5", num_cpus=2, object_store_memory=80_000_000)
    machines.wait_for_nodes()

    def counted(self: Cluster, returns: int, function: Callable[..., Any], *arguments: Any) -> Any:
        if function.__name__ == "pairwise":
            submitted.blocks += 1
            if submitted.blocks == 25:  # in the second epoch
                self.gather([submit_many(self, returns, function, *arguments)[-1]])
                machines.remove_node(extra, allow_graceful=False)
        return submit_many(self, returns, function, *arguments)

    monkeypatch.setattr(Cluster, "submit_many", counted)
    made = fit(cluster, BPER(**QUICK), dataset, tmp_path / "there")
    assert submitted.blocks >= 54
    assert facts(made) == fitted_here(data, tmp_path / "here")


def test_what_is_lost_is_learned_again_from_the_last_manifest(
    cluster: Cluster, dataset: Dataset, data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whyrank.cluster.session import Lost
    from whyrank.cluster.solver import ClusterSolver

    epoch, calls = ClusterSolver.epoch, []

    def losing(self: ClusterSolver, number: int) -> tuple[int, int]:
        calls.append(number)
        if calls.count(3) == 1 and number == 3:
            self.values.clear()
            raise Lost("gone")
        return epoch(self, number)

    monkeypatch.setattr(ClusterSolver, "epoch", losing)
    made = fit(cluster, BPER(**QUICK), dataset, tmp_path / "there", checkpoint_seconds=0)
    assert calls == [1, 2, 3, 3]
    assert facts(made) == fitted_here(data, tmp_path / "here")


def test_what_cannot_be_trained_on_a_cluster_says_so(cluster: Cluster, dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="leave out --ray"):
        fit(cluster, POP(), dataset, tmp_path / "there")
    with pytest.raises(TrainingError, match="lower learning_rate"):
        fit(cluster, BPER(**(QUICK | {"learning_rate": 90.0, "regularization": 0.0})), dataset, tmp_path / "there")


