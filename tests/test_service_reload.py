"""Folders that are replaced: whatever happens to one of them, the service goes on looking, and says what is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest

from service_world import World, make_world
from whyrank.errors import ArtifactError
from whyrank.service import app as service_app
from whyrank.service import registry as shelf
from whyrank.service.registry import ModelRegistry


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def folder(world: World, tmp_path: Path) -> Path:
    return Path(shutil.copytree(world.folder / "pop", tmp_path / "model"))


def replace(folder: Path, change: object = None) -> None:
    """Another folder takes the place of this one."""
    fresh = Path(shutil.copytree(folder, folder.with_name("fresh")))
    if change is not None:
        manifest = json.loads((fresh / "manifest.json").read_text())
        (fresh / "manifest.json").write_text(json.dumps({**manifest, **change}))
    shutil.rmtree(folder)
    os.rename(fresh, folder)


@pytest.mark.parametrize("change", [{"model": ["bper"]}, {"model": []}, {"parameters": None}])
def test_no_manifest_ends_the_looking(folder: Path, change: object) -> None:
    models = ModelRegistry([("m", folder)])
    old = models.models["m"]
    replace(folder, change)
    models.refresh()
    assert models.models["m"] is old
    assert models.problems["m"]


@pytest.mark.parametrize(
    "error", [RuntimeError("bug"), MemoryError(), KeyError("x"), OSError(24, "Too many open files")]
)
def test_whatever_is_raised_is_logged_told_and_tried_again(
    folder: Path, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counted: list[tuple[str, str]] = []
    models = ModelRegistry([("m", folder)], reloaded=lambda *each: counted.append(each))
    old, load, clock = models.models["m"], shelf.load, [0.0]
    monkeypatch.setattr(shelf.time, "monotonic", lambda: clock[0])

    def fail(path: object) -> object:
        raise error

    monkeypatch.setattr(shelf, "load", fail)
    replace(folder)
    for _ in range(3):
        models.refresh()
    assert models.models["m"] is old
    assert models.problems["m"].startswith(type(error).__name__)
    assert counted == [("m", "refused")]
    assert sum("model m: refused" in each for each in caplog.messages) == 1
    monkeypatch.setattr(shelf, "load", load)
    models.refresh()
    assert models.models["m"] is old
    clock[0] += shelf.AGAIN + 1
    models.refresh()
    assert models.models["m"] is not old
    assert not models.problems
    assert counted[1:] == [("m", "recovered"), ("m", "loaded")]


def test_a_panic_of_polars_is_survived(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = ModelRegistry([("m", folder)])

    def fail(path: object) -> object:
        raise pl.exceptions.PanicException("index out of bounds")

    monkeypatch.setattr(shelf, "load", fail)
    replace(folder)
    models.refresh()
    assert "PanicException" in models.problems["m"]


def test_what_is_refused_for_good_is_not_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models, tries = ModelRegistry([("m", folder)]), []

    def fail(path: object) -> object:
        tries.append(path)
        raise ArtifactError("damaged")

    monkeypatch.setattr(shelf, "load", fail)
    replace(folder)
    for _ in range(3):
        models.refresh()
    assert (len(tries), models.problems["m"]) == (1, "damaged")


def test_a_folder_that_is_gone_is_told_at_the_second_look_and_forgotten_when_it_is_back(folder: Path) -> None:
    models = ModelRegistry([("m", folder)])
    os.rename(folder, folder.with_name("away"))
    models.refresh()
    assert not models.problems
    models.refresh()
    assert "gone" in models.problems["m"]
    os.rename(folder.with_name("away"), folder)
    models.refresh()
    assert not models.problems


def test_looking_goes_on_without_threads_and_the_service_still_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, looks = ModelRegistry([("m", folder)]), []

    async def to_thread(work: object) -> None:
        looks.append(models.problems.copy())
        if len(looks) == 1:
            raise RuntimeError("can't start new thread")
        work()

    async def play() -> None:
        task = asyncio.create_task(service_app._watch(models, 0))
        while len(looks) < 4:
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    monkeypatch.setattr(service_app.asyncio, "to_thread", to_thread)
    asyncio.run(play())
    assert "can't start new thread" in looks[1]["m"]
    assert not models.problems


def test_a_problem_is_in_models_readiness_and_metrics(world: World, folder: Path) -> None:
    with world.client(str(folder), reload_seconds=0) as client:
        assert client.get("/readyz").json()["problems"] == []
        replace(folder, {"model": ["bper"]})
        client.app.state.registry.refresh()
        assert client.get("/v1/models").json()["models"][0]["problem"]
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["problems"]) == (200, ["pop"])
        metrics = client.get("/metrics").text
        assert 'whyrank_model_problem{model="pop"} 1.0' in metrics
        assert 'whyrank_reloads_total{model="pop",outcome="refused"} 1.0' in metrics
