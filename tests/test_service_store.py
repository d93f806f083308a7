"""A store that is locked, damaged or not one of ours: answers are typed, reasons go on, tokens stay out of the log."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import sqlite3
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from service_world import World, make_world
from whyrank.errors import ParameterError
from whyrank.online.store import Store
from whyrank.service import state
from whyrank.service.app import create_app

TYPED = {200, 201, 404, 409, 422, 503}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize(("turn", "stored"), [(60, 64), (0.05, 1)])
def test_writers_that_wait_for_each_other_do_not_keep_reasons_waiting(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: float, stored: int
) -> None:
    """Those that do not get a turn are told to come back; the one that waits for the database gets through."""
    monkeypatch.setattr(state, "WAIT", turn)
    file = tmp_path / "store.db"
    app = create_app(world.settings("pop", store=f"sqlite:///{file}"))
    event = {"events": [{"event": "shown", "user": "u", "item": "i"}]}

    async def play() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x", timeout=60) as client:
            lock = sqlite3.connect(file, isolation_level=None)
            lock.execute("BEGIN IMMEDIATE")
            writers = [asyncio.create_task(client.post("/v1/feedback", json=event)) for _ in range(70)]
            while sum(each.done() for each in writers) < 70 - stored:
                await asyncio.sleep(0.001)
            for path, body in (("/v1/explain", {"user": world.user, "item": world.item}), ("/v1/users", None)):
                response = await (client.post(path, json=body) if body else client.get(path))
                assert response.status_code == 200
            assert (await client.get("/readyz")).status_code == 200  # reading waits for no writer
            lock.rollback()
            lock.close()
            return [each.status_code for each in await asyncio.gather(*writers)]

    with TestClient(app):
        statuses = asyncio.run(play())
    assert sorted(statuses) == stored * [201] + (70 - stored) * [503]


def test_whoever_waits_for_a_locked_store_holds_no_place_for_ranking(world: World, tmp_path: Path) -> None:
    """Durable explains, exports and erasures, more than there are places: reasons are given meanwhile."""
    file, pair = tmp_path / "store.db", {"user": world.user, "item": world.item}
    shutil.copytree(world.folder / "pop", tmp_path / "pop")
    app = create_app(world.settings(str(tmp_path / "pop"), store=f"sqlite:///{file}"))
    waiting = [("POST", "/v1/explain", pair | {"durable": True}), ("GET", "/v1/users/u/export", None)]
    waiting.append(("DELETE", "/v1/users/u", None))

    async def play() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x", timeout=60) as client:
            lock = sqlite3.connect(file, isolation_level=None)
            lock.execute("BEGIN IMMEDIATE")
            asked = [
                asyncio.create_task(client.request(method, path, json=body))
                for method, path, body in waiting
                for _ in range(24)
            ]
            while sum(each.done() for each in asked) < 72 - 64:
                await asyncio.sleep(0.001)
            for _ in range(70):
                assert (await client.post("/v1/explain", json=pair)).status_code == 200
            assert (await client.get("/v1/users")).status_code == 200
            assert (await client.get("/readyz")).status_code == 200
            lock.rollback()
            lock.close()
            return [each.status_code for each in await asyncio.gather(*asked)]

    with TestClient(app):
        statuses = asyncio.run(play())
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= 24


def test_a_damaged_store_is_a_typed_answer_and_no_token_is_logged(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Bytes of a sound file are overwritten at random places, most of them in its tables."""
    file, whole = tmp_path / "store.db", tmp_path / "whole.db"
    with world.client("pop", "rand", store=f"sqlite:///{file}") as client:
        made = client.post("/v1/studies", json={"a": "pop", "b": "rand", "cases": 5}).json()
        event = {"event": "shown", "user": "u", "item": "i"}
        client.post("/v1/feedback", json={"events": [{**event, "id": str(at)} for at in range(300)]})
    tokens = [each["token"] for each in made["participants"]]
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    shutil.copy(file, whole)
    rng, unready, seen = random.Random(0), 0, set()
    caplog.set_level(logging.WARNING, "httpx")  # clients may say what they ask for
    caplog.set_level(logging.WARNING, "httpx2")
    for _ in range(25):
        content = bytearray(whole.read_bytes())
        for _ in range(rng.choice((1, 30, 300))):
            at = rng.randrange(100, len(content))
            content[at : at + 8] = rng.randbytes(8)
        for each in tmp_path.glob("store.db*"):
            each.unlink()
        file.write_bytes(content)
        try:
            Store(f"sqlite:///{file}").create().close()
        except ParameterError:
            continue
        with world.client("pop", "rand", store=f"sqlite:///{file}") as client:
            paths = ["feedback", "studies", f"studies/{made['id']}", f"studies/{made['id']}/results"]
            paths += [f"studies/{made['id']}/results.csv", f"take/{tokens[0]}"]
            answers = [client.get(f"/v1/{path}") for path in paths]
            answers.append(client.post(f"/v1/take/{tokens[1]}", json={"case": 1, "choice": "left"}))
            answers.append(client.post("/v1/feedback", json={"events": [event]}))
            statuses = {each.status_code for each in answers}
            assert statuses <= TYPED, statuses
            seen |= statuses
            unready += client.get("/readyz").status_code == 503
            assert client.post("/v1/explain", json={"user": world.user, "item": world.item}).status_code == 200
    assert 503 in seen
    assert unready
    assert not [each for each in caplog.messages for token in tokens if token in each]
    assert not [token for token in tokens if token in caplog.text]


def test_a_store_whose_tables_cannot_be_read_is_not_ready(world: World, tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with world.client("pop", store=f"sqlite:///{file}") as client:
        assert client.get("/readyz").status_code == 200
        with sqlite3.connect(file) as connection:
            connection.execute("DROP TABLE whyrank_answer")
        connection.close()
        client.app.state._checked = (-10.0, None)
        response = client.get("/readyz")
        assert (response.status_code, response.json()["type"]) == (503, "urn:whyrank:problem:store-failed")
        assert client.get("/healthz").status_code == 200


def test_readiness_is_looked_at_once_however_many_ask(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    monkeypatch.setattr(Store, "check", lambda self: looks.append(1))
    monkeypatch.setattr(state.time, "monotonic", lambda: 5.0)
    with world.client("pop", store=f"sqlite:///{tmp_path}/store.db") as client:
        assert {client.get("/readyz").status_code for _ in range(20)} == {200}
    assert len(looks) == 1


def test_errors_of_the_database_do_not_quote_values(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/store.db")
    with pytest.raises(sa.exc.OperationalError) as caught, store.reading() as connection:
        connection.execute(sa.text("SELECT * FROM nothing WHERE token = :token"), {"token": "a secret"})
    store.close()
    assert "a secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["mysql://root@localhost/x", "oracle://x", "mssql+pyodbc://x"])
def test_databases_that_are_not_tested_are_refused(url: str) -> None:
    with pytest.raises(ParameterError, match="sqlite and postgresql"):
        Store(url)
