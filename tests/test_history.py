"""The history of a model: what was served since when, what changed, and why newer versions were not taken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import whyrank as wr
from service_world import World, make_world
from whyrank.models import POP
from whyrank.service import refresh_log
from whyrank.service.history import changes
from whyrank.service.refresh_log import add_refresh, log_file, read_refreshes

GATE = {
    "metric": "ndcg",
    "records": 50,
    "served": 0.4,
    "candidate": 0.3,
    "difference": -0.1,
    "interval": [float("-inf"), float("inf")],
    "tolerance": 0.02,
    "passed": False,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def folder(world: World, tmp_path: Path) -> Path:
    return Path(shutil.copytree(world.folder / "pop", tmp_path / "model"))


def entry(run: str, outcome: str, time: str, **more: object) -> dict[str, object]:
    about = {"digest": "d", "kind": "pop", "data": "x", "sizes": {"users": 3}, "files": 1, "gate": None}
    return {"time": time, "outcome": outcome, "run": run, **about, **more}


def test_versions_are_remembered_over_restarts_with_their_figures_and_differences(
    world: World, folder: Path, tmp_path: Path
) -> None:
    settings = {"store": f"sqlite:///{tmp_path}/store.db", "reload_seconds": 0}
    with world.client(str(folder), **settings) as client:
        (first,) = client.get("/v1/models/pop/history").json()["versions"]
        assert (first["outcome"], first["until"], first["evaluation"]) == ("served", None, None)
        report = {"evaluation": {"k": 10, "pairs": 7, "explanation": {"hit": 0.5}}}
        folder.with_name("model.metrics.json").write_text(json.dumps(report))
        client.app.state.registry.refresh()
        (again,) = client.get("/v1/models/pop/history").json()["versions"]
        assert again["evaluation"]["explanation"] == {"hit": 0.5}  # measured later, the same version
        assert {**again, "evaluation": None} == first
    with world.client(str(folder), **settings) as client:
        assert len(client.get("/v1/models/pop/history").json()["versions"]) == 1
        smaller = wr.simulate("small", seed=1)
        fresh = POP().fit(smaller)
        fresh.save(folder)
        client.app.state.registry.refresh()
        newest, oldest = client.get("/v1/models/pop/history").json()["versions"]
        assert (newest["digest"], oldest["digest"]) == (fresh.digest(), first["digest"])
        assert oldest["until"] == newest["time"]
        gained = newest["sizes"]["triplets"] - oldest["sizes"]["triplets"]
        assert any(f"{abs(gained):,} " in each and each.endswith("triplets") for each in newest["changes"])
        assert client.get("/v1/models/gone/history").status_code == 404


def test_a_folder_that_cannot_be_loaded_is_in_the_history_with_the_reason(
    world: World, folder: Path, tmp_path: Path
) -> None:
    with world.client(str(folder), store=f"sqlite:///{tmp_path}/store.db", reload_seconds=0) as client:
        good = Path(shutil.copytree(folder, tmp_path / "good"))
        (folder / "manifest.json").write_text("{}")
        shelf = client.app.state.registry
        shelf.refresh()
        shelf.refresh()
        newest, oldest = client.get("/v1/models/pop/history").json()["versions"]
        assert (newest["outcome"], oldest["outcome"], oldest["until"]) == ("not loaded", "served", None)
        assert newest["problem"] == shelf.problems["pop"]
        shutil.rmtree(folder)
        shutil.move(good, folder)
        shelf.refresh()
        assert len(client.get("/v1/models/pop/history").json()["versions"]) == 2  # the same model is served on


def test_refreshes_say_why_a_version_was_refused_or_let_in(world: World, folder: Path, tmp_path: Path) -> None:
    with world.client(str(folder), store=f"sqlite:///{tmp_path}/store.db", reload_seconds=0) as client:
        digest = client.get("/v1/models/pop/history").json()["versions"][0]["digest"]
        passed = {**GATE, "passed": True, "candidate": 0.5, "difference": 0.1, "interval": [0.05, 0.15]}
        add_refresh(folder, entry("a", "swapped", "2020-01-01T00:00:00Z", digest="elsewhere"))
        add_refresh(folder, entry("b", "swapped", "2020-01-02T00:00:00Z", digest=digest, gate=passed, files=4))
        add_refresh(folder, entry("c", "refused", "2999-01-03T00:00:00Z", gate=GATE))
        with log_file(folder).open("a") as file:
            file.write('nonsense\n{"outcome": "refused"}\n[1]\n')
        found = client.get("/v1/models/pop/history").json()["versions"]
        assert [each["outcome"] for each in found] == ["refused", "served", "swapped"]
        assert (found[1]["gate"]["passed"], found[1]["files"]) == (True, 4)
        assert (found[0]["gate"]["candidate"], found[0]["gate"]["interval"]) == (0.3, [None, None])
        assert len(client.get("/v1/models/pop/history?limit=2").json()["versions"]) == 2


def test_the_log_of_refreshes_has_each_run_once_and_does_not_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh_log, "MOST", 3)
    for run in ("a", "b", "b", "c", "d"):
        add_refresh(tmp_path / "m", entry(run, "refused", "2020-01-01T00:00:00Z"))
    assert [each["run"] for each in read_refreshes(tmp_path / "m")] == ["b", "c", "d"]
    assert read_refreshes(tmp_path / "other") == []


def test_differences_are_said_in_words() -> None:
    old = {"kind": "bper", "sizes": {"users": 1200, "items": 5}, "parameters": {"mu": 0.5}, "data": "a"}
    assert changes(old, old) == ["the same data and settings, fitted again"]
    assert changes(old, {**old, "data": "b"}) == ["other data of the same size"]
    assert changes(old, {**old, "sizes": {"users": 100, "items": 6}}) == ["1,100 fewer users", "1 more item"]
    assert changes(old, {**old, "parameters": {"mu": 0.7}}) == ["mu 0.5 → 0.7"]
    assert changes(old, {**old, "kind": "pop", "parameters": {}}) == ["model bper → pop"]
