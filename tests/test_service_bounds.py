"""What one request may cost: nothing slow on the event loop, and a bound on everything that clients choose."""

from __future__ import annotations

import asyncio
import difflib
import json
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service_world import World, make_world
from whyrank.data.vocabulary import NEAR, Vocabulary
from whyrank.explain import diversity, options
from whyrank.service import answer
from whyrank.service.app import create_app
from whyrank.service.limits import Turns
from whyrank.service.messages import MAX_BANNED, MAX_REASONS
from whyrank.service.problems import json_of
from whyrank.service.registry import ServedModel


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[TestClient]:
    with world.client("pop", "toy") as client:
        yield client


def on_the_loop() -> bool:
    """Whether the thread that calls this runs an event loop."""
    return asyncio._get_running_loop() is not None


class Watched:
    """A function that notes whether it is called on an event loop."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function, self.calls = function, list[bool]()

    def __call__(self, *given: object, **named: object) -> object:
        self.calls.append(on_the_loop())
        return self.function(*given, **named)


def ask(client: TestClient, world: World, **more: object) -> object:
    return client.post("/v1/explain", json={"user": world.user, "item": world.item, **more})


def test_few_pairs_are_ranked_on_the_loop_and_this_is_seen(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = Watched(answer.ranking.explain)
    monkeypatch.setattr(answer.ranking, "explain", rank)
    assert ask(client, world).status_code == 200
    assert rank.calls == [True]


@pytest.mark.parametrize("body", [{"item": "i9999"}, {"exclude": ["nothing"]}], ids=["item", "exclude"])
def test_the_nearest_ids_are_looked_for_in_a_thread(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch, body: dict[str, object]
) -> None:
    nearest = Watched(difflib.SequenceMatcher)
    monkeypatch.setattr("whyrank.data.vocabulary.difflib.SequenceMatcher", nearest)
    assert ask(client, world, **body).status_code == 404
    for path in ("users/nobody", "items/nothing", "explanations/nothing"):
        assert client.get(f"/v1/{path}").status_code == 404
    assert nearest.calls == [False] * 4


def test_an_unknown_id_is_compared_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, compared = [], []

    class Noting(difflib.SequenceMatcher[str]):
        def set_seq2(self, b: Any) -> None:
            texts.append(len(b))
            super().set_seq2(b)

        def set_seq1(self, a: Any) -> None:
            compared.append(a)
            super().set_seq1(a)

    monkeypatch.setattr("whyrank.data.vocabulary.difflib.SequenceMatcher", Noting)
    Vocabulary.of(range(15_000)).nearest("7" * 5000)
    assert max(texts) <= 100
    assert 1 < len(compared) <= NEAR + 1


def test_a_near_id_is_still_found_among_many() -> None:
    assert "i10007" in Vocabulary.of(f"i{at}" for at in range(10_000, 30_000)).nearest("i10007x")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"diversity": 0.3}, (diversity, "word_rows")),
        ({"banned": ["room"]}, (options, "_mentions")),
        ({"similar": True}, (answer.ranking, "count_reasons")),
        ({"polarity": "any", "n": 20, "pairs": None}, (answer.ranking, "explain")),
    ],
    ids=["diversity", "banned", "similar", "many"],
)
def test_what_goes_through_all_explanations_does_so_in_a_thread(
    world: World, monkeypatch: pytest.MonkeyPatch, body: dict[str, object], where: tuple[object, str]
) -> None:
    watched = Watched(getattr(*where))
    monkeypatch.setattr(*where, watched)
    asked = {"user": world.user, "item": world.item, **body}
    if "pairs" in body:
        asked = {"pairs": [{"user": world.user, "item": world.item}] * 30}
    with world.client("pop") as client:
        watched.calls.clear()
        assert client.post("/v1/explain", json=asked).status_code == 200
    assert watched.calls
    assert not any(watched.calls)


@pytest.mark.parametrize("words", [["x" * 101], ["ſ" * 100] * 21, ["a"] * 101, [""]])
def test_banned_words_are_bounded(client: TestClient, world: World, words: list[str]) -> None:
    assert ask(client, world, banned=words).status_code == 422


def test_as_many_banned_words_as_may_be_are_taken(client: TestClient, world: World) -> None:
    words = [chr(0x400 + at) * (MAX_BANNED // 100) for at in range(100)]
    assert ask(client, world, banned=words).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"user": "u", "item": "i", **{f"member {at}": 1 for at in range(50_000)}},
        {"pairs": [{f"member {at}": 1 for at in range(50)} for _ in range(1000)]},
        {"user": 1, "item": 2, "x" * 500_000: 1},
        {"user": "u", "item": "i", "exclude": [1] * 300_000},
    ],
    ids=["members", "pairs", "a long name", "list"],
)
def test_answers_to_nonsense_are_short(client: TestClient, body: object) -> None:
    response = client.post("/v1/explain", content=json.dumps(body), headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert len(response.content) < 1000


def test_an_answer_has_a_limit_and_what_is_ranked_in_portions_is_as_if_ranked_at_once(
    client: TestClient, world: World
) -> None:
    pairs = [{"user": world.user, "item": f"i{at:05d}"} for at in range(100)]
    body = {"pairs": pairs, "n": 100, "grounded": False, "polarity": "any", "explore": 1.0, "draw": 3}
    whole = client.post("/v1/explain", json=body)
    assert whole.status_code == 200
    alone = [client.post("/v1/explain", json=body | {"pairs": pairs[at : at + 1]}).json() for at in (0, 57, 99)]
    assert [whole.json()["results"][at] for at in (0, 57, 99)] == [each["results"][0] for each in alone]
    assert len(whole.json()["results"]) == 100
    too_many = client.post("/v1/explain", json=body | {"pairs": [*pairs, pairs[0]]})
    assert (too_many.status_code, f"at most {MAX_REASONS:,}" in too_many.json()["detail"]) == (422, True)


def play(app: object, scenes: Callable[[], Any]) -> Any:
    """Run scenes in the loop of an application that has started."""

    async def run() -> Any:
        async with LifespanOf(app):
            return await asyncio.wait_for(scenes(), 60)

    return asyncio.run(run())


class LifespanOf:
    """An application between its start and its end, in one loop."""

    def __init__(self, app: Any) -> None:
        self.app, self.inbox, self.outbox = app, asyncio.Queue[Any](), asyncio.Queue[Any]()

    async def __aenter__(self) -> None:
        self.task = asyncio.create_task(self.app({"type": "lifespan"}, self.inbox.get, self.outbox.put))
        await self.inbox.put({"type": "lifespan.startup"})
        assert (await self.outbox.get())["type"] == "lifespan.startup.complete"

    async def __aexit__(self, *_: object) -> None:
        await self.inbox.put({"type": "lifespan.shutdown"})
        await self.task


async def ask_as(app: Any, client: str, body: object, gone: asyncio.Event | None = None) -> int:
    """The status that a client is answered; None of it where the client went away, which is 0."""
    sent: list[dict[str, Any]] = []
    inbox = [{"type": "http.request", "body": json.dumps(body).encode()}]

    async def receive() -> dict[str, Any]:
        if inbox:
            return inbox.pop()
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/explain", "raw_path": b"", "query_string": b""}
    await app({**scope, "headers": [], "client": (client, 1), "http_version": "1.1"}, receive, send)
    return int(sent[0]["status"]) if sent else 0


class Gate:
    """A function that waits until it may go on, and notes for whom it is called."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function, self.open, self.users = function, threading.Event(), list[str]()

    def __call__(self, model: object, pairs: list[tuple[str, str]], *more: object, **named: object) -> object:
        if len(pairs) > 1:
            self.users.append(pairs[0][0])
            assert self.open.wait(60)
        return self.function(model, pairs, *more, **named)


def heavy(world: World, user: str) -> dict[str, object]:
    return {"pairs": [{"user": user, "item": world.item}] * 50}


def test_one_client_with_costly_requests_leaves_room_for_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads are busy and the queue is full of one client's requests: others are answered, and in their turn."""
    gate, app = Gate(answer.ranking.explain), create_app(world.settings("pop", in_flight=4))

    async def scenes() -> None:
        monkeypatch.setattr(answer.ranking, "explain", gate)
        greedy = [asyncio.create_task(ask_as(app, "greedy", heavy(world, f"g{at}"))) for at in range(8)]
        while len(gate.users) < 2 or sum(each.done() for each in greedy) < 2:
            await asyncio.sleep(0.001)
        assert [each.result() for each in greedy if each.done()] == [503, 503]
        light = {"user": world.user, "item": world.item}
        assert [await ask_as(app, "modest", light) for _ in range(5)] == [200] * 5
        modest = asyncio.create_task(ask_as(app, "modest", heavy(world, "m")))
        while sum(each.done() for each in greedy) < 3:  # one of the greedy ones makes room
            await asyncio.sleep(0.001)
        gate.open.set()
        assert await modest == 200
        assert sorted(await asyncio.gather(*greedy)) == [200] * 5 + [503] * 3
        assert gate.users.index("m") <= 3  # after those under way and at most one that waited

    play(app, scenes)


def test_what_nobody_waits_for_is_not_done(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, app = Gate(answer.ranking.explain), create_app(world.settings("pop"))

    async def scenes() -> None:
        monkeypatch.setattr(answer.ranking, "explain", gate)
        staying = [asyncio.create_task(ask_as(app, "a", heavy(world, f"s{at}"))) for at in range(2)]
        while len(gate.users) < 2:
            await asyncio.sleep(0.001)
        gone = asyncio.Event()
        leaving = [asyncio.create_task(ask_as(app, "b", heavy(world, "l"), gone)) for _ in range(5)]
        while len(app.state.heavy._waiting) < 5:
            await asyncio.sleep(0.001)
        gone.set()
        assert await asyncio.gather(*leaving) == [0] * 5
        assert not app.state.heavy._waiting
        gate.open.set()
        assert await asyncio.gather(*staying) == [200, 200]
        assert "l" not in gate.users

    play(app, scenes)


def test_turns_go_to_whoever_has_had_least() -> None:
    async def scenes() -> list[str]:
        turns, order = Turns(1, 10), list[str]()

        async def work(client: str, cost: float) -> None:
            async with turns.one(client, cost):
                order.append(client)
                await asyncio.sleep(0)

        asked = [("a", 10.0), ("a", 10.0), ("a", 10.0), ("b", 1.0), ("b", 1.0), ("c", 30.0), ("c", 1.0)]
        await asyncio.gather(*(work(*each) for each in asked))
        return order

    assert asyncio.run(scenes()) == ["a", "b", "c", "b", "a", "a", "c"]


def test_no_answer_holds_what_is_not_json() -> None:
    document = {"a": float("nan"), "b": [float("inf"), -float("inf")], "c": {"d": np.float64("nan").item()}}
    assert json.loads(json_of(document)) == {"a": None, "b": [None, None], "c": {"d": None}}


def test_scores_that_are_no_numbers_are_null(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    with world.client("toy") as client:
        monkeypatch.setattr(ServedModel, "sentiments", lambda self, numbers: [math.inf] * len(numbers))
        monkeypatch.setattr(answer.ranking, "score_parts", lambda *_: {"user": np.full(len(_[2].row), np.nan)})
        text = ask(client, world).text
    reasons = json.loads(text, parse_constant=refuse)["results"][0]["reasons"]
    assert reasons
    assert all(each["sentiment"] is None and each["parts"] == {"user": None} for each in reasons)
