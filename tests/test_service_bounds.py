"""What one request may cost: nothing slow on the event loop, and a bound on everything that clients choose."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service_world import World, make_world
from whyrank.data.vocabulary import NEAR, Vocabulary
from whyrank.explain import diversity, options
from whyrank.service import answers, routes
from whyrank.service.problems import Problem
from whyrank.service.reason_documents import ReasonDocuments
from whyrank.service.schemas import MAX_BANNED


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
    rank = Watched(answers.ranking.explain)
    monkeypatch.setattr(answers.ranking, "explain", rank)
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
        ({"similar": True}, (answers.ranking, "evidence")),
        ({"polarity": "any", "n": 3, "pairs": None}, (answers.ranking, "explain")),
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
        asked = {"pairs": [{"user": world.user, "item": world.item}] * 9}
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
def test_answers_to_nonsense_are_short_and_their_making_is_bounded(
    client: TestClient, body: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whyrank.service import problems

    counted: list[int] = []
    plain = problems.RequestValidationError.errors

    def errors(self: object) -> object:
        found = plain(self)
        counted.append(len(found))
        return found

    monkeypatch.setattr(problems.RequestValidationError, "errors", errors)
    response = client.post("/v1/explain", content=json.dumps(body), headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert len(response.content) < 10_000
    assert max(counted) <= 5000


def test_no_answer_holds_what_is_not_json() -> None:
    document = {"a": float("nan"), "b": [float("inf"), -float("inf")], "c": {"d": np.float64("nan").item()}}
    expected = {"a": None, "b": [None, None], "c": {"d": None}}
    assert json.loads(routes.answer(document).body) == expected
    assert json.loads(Problem("internal", 500, "x", **document).response().body)["b"] == [None, None]


def test_scores_that_are_no_numbers_are_null(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    with world.client("toy") as client:
        loaded = client.app.app.state.whyrank.shelf.default
        catalog = loaded.model.catalog_
        documents = ReasonDocuments(catalog, np.full(len(catalog.explanations), np.inf))
        monkeypatch.setitem(loaded.__dict__, "documents", documents)
        monkeypatch.setattr(answers.ranking, "score_parts", lambda *_: {"user": np.full(len(_[3]), np.nan)})
        text = ask(client, world).text
    reasons = json.loads(text, parse_constant=refuse)["results"][0]["reasons"]
    assert reasons
    assert all(each["sentiment"] is None and each["parts"] == {"user": None} for each in reasons)
