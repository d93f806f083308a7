"""A run whose states are in an object store: a server that speaks S3, asked over HTTP."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from needs import module
from one_process import OneProcess, model_arrays
from whyrank.data import Triplets
from whyrank.errors import ArtifactError
from whyrank.lab.ray.dataset import Dataset
from whyrank.lab.ray.fit import fit
from whyrank.lab.ray.store import StateStore
from whyrank.models import BPER, ProfileJ
from whyrank.training import Epoch, Monitor, Run, Storage

module("moto", "rare")
s3fs = module("s3fs", "rare")

NUMBERS = itertools.count(1)  # of buckets
# botocore and aiohttp leave connections to the end of the process.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of buckets on loopback, in a process of its own, and where it is."""
    log = tmp_path_factory.mktemp("server") / "log"
    command = [sys.executable, "-W", "ignore", "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with (
        log.open("w") as handle,
        subprocess.Popen(command, stdout=handle, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr is not None
        said = next((line for line in process.stderr if "Running on" in line), "")
        url = next(word for word in said.split() if word.startswith("http://127.0.0.1:"))
        threading.Thread(target=process.stderr.read, daemon=True).start()  # so that it never waits for a reader
        patch = pytest.MonkeyPatch()
        patch.setenv("AWS_ENDPOINT_URL", url)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "nobody")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield url
        patch.undo()
        process.terminate()


@pytest.fixture
def bucket(server: str) -> str:
    name = f"runs-{next(NUMBERS)}"
    s3fs.S3FileSystem().mkdir(name)
    return f"s3://{name}/run"


def test_an_object_store_gives_back_what_was_put_into_it(bucket: str) -> None:
    store = StateStore.at(bucket)
    assert store.read_document("manifest") is None
    store.write_document("manifest", {"epoch": 3})
    store.write_document("manifest", {"epoch": 4})
    assert store.read_document("manifest") == {"epoch": 4}
    assert store.folders("state-") == []
    other = s3fs.S3FileSystem(skip_instance_cache=True)  # as another machine
    other.pipe_file(f"{bucket}/state-1/x.json", b"{}")
    assert store.folders("state-") == ["state-1"]
    store.remove("state-1")
    assert store.folders("state-") == []
    other.pipe_file(f"{bucket}/state-2/x.json", b"{}")
    store.remove()
    other.invalidate_cache()
    assert not other.exists(bucket)
    with pytest.raises(ArtifactError, match="missing or damaged"):
        store.read("state-1/x")


class Stop(Monitor):
    """Breaks off after some epochs."""

    def __init__(self, after: int) -> None:
        self.after, self.epochs = after, list[int]()

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.epochs.append(epoch.number)
        if len(self.epochs) == self.after:
            raise KeyboardInterrupt
        return False


@pytest.mark.parametrize(
    "model",
    [BPER(factors=4, epochs=4, shards=2), ProfileJ(factors=4, epochs=2, item_epochs=1)],
    ids=["bper", "profile-j"],
)
def test_a_run_in_an_object_store_is_resumed_to_the_same_bits(
    data: Triplets, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: BPER | ProfileJ
) -> None:
    cluster = OneProcess()
    monkeypatch.setattr("whyrank.lab.ray.profile.here", lambda: cluster)
    mine = model_arrays(model.fit(data).save(tmp_path / "here"))
    stop, watch = Stop(3), Stop(100)
    parts = Dataset.of(data, StateStore.at(bucket), 2)
    with pytest.raises(KeyboardInterrupt):
        fit(cluster, model, parts, tmp_path / "there", Run(monitors=(stop,), checkpoint_seconds=0))
    there = Dataset.load(StateStore.at(bucket))
    assert there is not None
    made = fit(cluster, model, there, tmp_path / "there", Run(resume=True, monitors=(watch,)))
    assert model_arrays(made) == mine
    assert len(watch.epochs) == {"bper": 2, "profile-j": 5}[model.id]
    StateStore.at(bucket).remove()
    assert not s3fs.S3FileSystem(skip_instance_cache=True).exists(bucket)
