"""Who gets in: keys and scopes for every route, however its path is written, and pages of other origins."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service_world import World, make_world
from whyrank.service.app import declared
from whyrank.service.calls import Operation
from whyrank.service.settings import Settings

KEYS = ("ask", "log", "administer", "metrics")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def locked(world: World) -> Iterator[TestClient]:
    hashes = tuple(f"{hashlib.sha256(name.encode()).hexdigest()} {name}" for name in KEYS)
    with world.client("pop", keys=hashes) as client:
        yield client


def as_(scope: str) -> dict[str, str]:
    return {"authorization": f"Bearer {scope}"}


def test_metrics_have_a_scope_of_their_own(locked: TestClient) -> None:
    statuses = {scope: locked.get("/metrics", headers=as_(scope)).status_code for scope in KEYS}
    assert statuses == {"ask": 403, "log": 403, "administer": 403, "metrics": 200}
    assert locked.delete("/v1/users/x", headers=as_("metrics")).status_code == 403


@pytest.mark.parametrize("mark", ["%0A", "%00", "%0D%0A", "%1F", "%7F", "%C2%85"])
def test_no_key_gets_further_with_a_control_character_in_the_path(locked: TestClient, mark: str) -> None:
    for path in ("/metrics", "/v1/users/u/export", "/v1/studies", "/v1/models"):
        for decorated in (path + mark, path.replace("/v1", f"/v1{mark}"), mark + path):
            for headers in ({}, as_("ask")):
                assert locked.get(f"/{decorated.lstrip('/')}", headers=headers).status_code in (400, 401, 403, 404)
        assert locked.get(path + mark, headers=as_("ask")).status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 422),
        ({"origin": "http://testserver"}, 422),
        ({"origin": "http://testserver", "sec-fetch-site": "same-origin"}, 422),
        ({"sec-fetch-site": "none"}, 422),
        ({"origin": "https://behind.proxy", "sec-fetch-site": "same-origin"}, 422),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://testserver", "sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_pages_of_other_origins_change_nothing(world: World, headers: dict[str, str], status: int) -> None:
    with world.client("pop") as client:
        body = {"name": "t", "arms": [{"name": "a", "model": "pop"}]}
        answer = client.post("/v1/experiments", json=body, headers=headers)
        assert answer.status_code == status, answer.text
        assert client.get("/v1/models", headers=headers).status_code == 200
        if status == 403:
            assert answer.json()["type"] == "urn:whyrank:problem:other-origin"
            for path in ("/v1/experiments/t/stop", "/v1/take/t", "/v1/users/u"):
                assert client.post(path, headers=headers).status_code == 403
                assert client.delete(path, headers=headers).status_code == 403


def operations() -> list[Operation]:
    return declared(Settings(split="split"))


def target_of(operation: Operation) -> str:
    """A path that the route takes."""
    return re.sub(r"{(\w+)(:\w+)?}", "1", operation.path)


@pytest.mark.parametrize("operation", operations(), ids=lambda each: f"{each.method} {each.path}")
def test_every_route_is_closed_to_keys_without_its_scope_however_its_path_is_written(
    locked: TestClient, operation: Operation
) -> None:
    path = target_of(operation)
    decorated = [path, path + "/", path + "?", path + "%0A", path.replace("1", "%31"), "/." + path, path + ";x=1"]
    for written in [*decorated, path.upper(), path.replace("/v1/", "/v1//")]:
        for key in (None, *KEYS, "wrong"):
            headers = {} if key is None else as_(key)
            answer = locked.request(operation.method, written, headers=headers, json={})
            if operation.scope is None or key == operation.scope:
                continue
            assert answer.status_code in (400, 401, 403, 404, 405), (written, key)
    statuses = {key: locked.request(operation.method, path, headers=as_(key), json={}).status_code for key in KEYS}
    closed = {key for key, status in statuses.items() if status == 403}
    assert closed == (set() if operation.scope is None else set(KEYS) - {operation.scope})


def test_ids_with_line_breaks_can_be_handed_out_and_erased(world: World, tmp_path: Path) -> None:
    shutil.copytree(world.folder / "pop", tmp_path / "pop")
    with world.client(str(tmp_path / "pop"), store=f"sqlite:///{tmp_path}/store.db") as client:
        odd = {"id": "two\nlines"}
        body = {"user": odd["id"], "item": world.item, "log": True, "durable": True}
        assert client.post("/v1/explain", json=body).status_code == 200
        assert len(client.get("/v1/export", params=odd).json()["exposures"]) == 1
        assert client.delete("/v1/users", params=odd).json()["store"]["exposures"] == 1
        assert client.get("/v1/export", params=odd).json()["exposures"] == []
