"""The short way of the routes that are asked most gives what the framework's way gives, whatever is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from starlette.testclient import TestClient

from service_world import World, make_world
from whyrank.explain.options import Options
from whyrank.service import answers, answers_pairs, exposing, schemas, shelf
from whyrank.service.app import create_app
from whyrank.service.thin import short_ways, struct_of

LISTS = {"exclude", "banned", "boosts", "query", "context_items", "context_aspects"}
MODELS = (schemas.ExplainOne, schemas.ExplainMany, schemas.RecommendRequest, schemas.PairsRequest)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def clients(world: World) -> Iterator[tuple[TestClient, TestClient]]:
    """One that takes the short ways, and one that has none."""
    with world.client("toy", "pop") as short, world.client("toy", "pop") as whole:
        whole.app.short.clear()
        yield short, whole


def values_of(name: str) -> st.SearchStrategy[Any]:
    """Values for a member of a request: mostly of its kind, inside and outside its range."""
    about = {each.name: each for each in Options.declared()}.get(name)
    odd = st.sampled_from([None, True, 0, 1, -1, 2.0, 1e300, "", "positive", [], ["x"], {}, {"x": 1}])
    if about is None:
        return odd
    if about.kind == "switch":
        return st.booleans() | odd
    if about.kind == "choice":
        return st.sampled_from(about.choices) | odd
    if about.kind == "whole":
        return st.integers(-1, 120) | odd
    return st.floats(-11, 110, allow_nan=False) | odd if about.kind == "number" else odd


def requests(world: World, members: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies that are often right, and often wrong in one member."""
    users, items = st.sampled_from([world.user, "nobody", "a\0b", "", 7]), st.sampled_from([world.item, "nothing", 3])
    of_members = {
        "user": users,
        "item": items,
        "pairs": st.lists(st.fixed_dictionaries({"user": users, "item": items}), max_size=3),
        "n": st.integers(0, 101) | st.just(5.0),
        "reasons": st.integers(-1, 4),
        "weight": st.floats(0, 2) | st.just("1"),
        "model": st.sampled_from([None, "toy", "pop", "missing"]),
        "compare": st.sampled_from([None, "pop", "toy"]),
        "items_by": st.sampled_from([None, "toy", "pop"]),
        "similar": st.booleans(),
    }
    chosen = {name: of_members.get(name, values_of(name)) for name in members}
    needed = {name: each for name, each in chosen.items() if name in ("user", "item", "pairs")}
    optional = {name: each for name, each in chosen.items() if name not in needed} | {"more": st.just(1)}
    few = st.lists(st.sampled_from(sorted(optional)), max_size=3, unique=True)
    return few.flatmap(lambda names: st.fixed_dictionaries(needed | {name: optional[name] for name in names}))


@pytest.mark.parametrize("model", MODELS, ids=lambda each: each.__name__)
def test_both_ways_give_the_same_answer(
    clients: tuple[TestClient, TestClient], world: World, model: type[BaseModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposing.secrets, "randbelow", lambda below: 7)  # drawn lists differ otherwise
    paths = dict(zip(MODELS, ("explain", "explain", "recommend", "pairs"), strict=True))
    statuses: set[int] = set()

    @QUICK
    @given(requests(world, tuple(model.model_fields)))
    def agree(body: dict[str, Any]) -> None:
        short, whole = (client.post(f"/v1/{paths[model]}", json=body) for client in clients)
        assert (short.status_code, short.json()) == (whole.status_code, whole.json())
        headers = [{name: value for name, value in each.headers.items() if name != "date"} for each in (short, whole)]
        assert headers[0] == headers[1]
        statuses.add(short.status_code)

    agree()
    assert statuses >= {200, 422}


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b"[" * 5000),
        b'{"user": "\xff", "item": "i"}',
        b'{"user": "\\ud800", "item": "i"}',
        b'{"user": "u", "item": "i", "mu": NaN}',
        b'\xef\xbb\xbf{"user": "u", "item": "i"}',
    ],
)
def test_what_is_no_request_is_refused_in_the_same_words(clients: tuple[TestClient, TestClient], body: bytes) -> None:
    headers = {"content-type": "application/json"}
    short, whole = (client.post("/v1/explain", content=body, headers=headers) for client in clients)
    assert (short.status_code, short.content) == (whole.status_code, whole.content)
    assert short.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("kind", [None, "text/plain", "application/json; charset=utf-8", "application/xml"])
def test_other_types_of_content_go_the_framework_s_way(
    clients: tuple[TestClient, TestClient], world: World, kind: str | None
) -> None:
    body = json.dumps({"user": world.user, "item": world.item}).encode()
    headers = {} if kind is None else {"content-type": kind}
    short, whole = (client.post("/v1/explain", content=body, headers=headers) for client in clients)
    assert (short.status_code, short.json()) == (whole.status_code, whole.json())


@pytest.mark.parametrize("model", MODELS, ids=lambda each: each.__name__)
def test_a_struct_has_every_simple_member_and_its_default(model: type[BaseModel]) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(struct_of(model))}
    assert set(model.model_fields) - set(fields) == LISTS | ({"shares"} if "serendipity" in fields else set())
    for name, field in fields.items():
        declared = model.model_fields[name]
        assert field.required == declared.is_required()
        assert field.required or field.default == declared.default


def test_a_struct_takes_nothing_that_the_model_refuses() -> None:
    @QUICK
    @given(requests(World("", "u1", "i1"), tuple(schemas.ExplainOne.model_fields)))
    def never_laxer(body: dict[str, Any]) -> None:
        try:
            asked = msgspec.json.decode(json.dumps(body).encode(), type=struct_of(schemas.ExplainOne))
        except msgspec.ValidationError:
            return
        try:
            expected = schemas.ExplainOne.model_validate(body).model_dump()
        except ValidationError as error:
            raise AssertionError(body) from error
        found = msgspec.structs.asdict(asked)
        assert found == {name: expected[name] for name in found}
        options, wanted = schemas.options_of(asked), schemas.options_of(schemas.ExplainOne.model_validate(body))
        assert replace(wanted, exclude=(), banned=()) == options

    never_laxer()


def test_the_short_way_is_taken(clients: tuple[TestClient, TestClient], world: World) -> None:
    taken: list[object] = []

    async def note(state: object, asked: object, scopes: object) -> bytes:
        taken.append(asked)
        return b"{}"

    short = clients[0].app.short
    before = dict(short)
    try:
        for path, each in before.items():
            short[path] = each._replace(reply=note)
        bodies = ({"user": "u", "item": "i"}, {"pairs": [{"user": "u", "item": "i"}]}, {"user": "u"}, {"user": "u"})
        for path, body in zip(("explain", "explain", "recommend", "pairs"), bodies, strict=True):
            assert clients[0].post(f"/v1/{path}", json=body).content == b"{}"
    finally:
        short.update(before)
    assert [type(each).__name__ for each in taken] == [each.__name__ for each in MODELS]


def test_every_short_way_is_a_documented_route(clients: tuple[TestClient, TestClient]) -> None:
    paths = clients[0].get("/openapi.json").json()["paths"]
    assert all("post" in paths[path] for path in short_ways())


def test_a_bug_on_the_short_way_is_a_problem_and_in_the_log(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("a bug")

    monkeypatch.setattr(answers, "explain", broken)
    with world.client("pop") as client:
        response = client.post("/v1/explain", json={"user": world.user, "item": world.item})
        assert (response.status_code, response.json()["type"]) == (500, "urn:whyrank:problem:internal")
        assert "a bug" not in response.text
        counted = 'whyrank_requests_total{method="POST",route="/v1/explain",status="500"} 1.0'
        assert counted in client.get("/metrics").text
    with TestClient(create_app(world.settings("pop"))) as client, pytest.raises(RuntimeError, match="a bug"):
        client.post("/v1/explain", json={"user": world.user, "item": world.item})  # the server logs what it is raised


def test_answers_of_the_short_way_are_counted(world: World) -> None:
    with world.client("pop") as client:
        body = {"user": world.user, "item": world.item}
        client.post("/v1/explain", json=body)
        client.post("/v1/explain", json={"pairs": [body] * 3})
        client.post("/v1/explain", json={**body, "n": 0})
        counts = client.get("/metrics").text
    assert 'whyrank_requests_total{method="POST",route="/v1/explain",status="200"} 2.0' in counts
    assert 'whyrank_requests_total{method="POST",route="/v1/explain",status="422"} 1.0' in counts
    assert 'whyrank_request_seconds_count{route="/v1/explain"} 3.0' in counts
    assert 'whyrank_pairs_explained_total{model="pop"} 4.0' in counts


class Threads:
    """A function that notes which threads call it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.names = function, set[str]()

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.names.add(threading.current_thread().name)
        return self.function(*given, **named)


@pytest.mark.parametrize(
    ("path", "where"), [("recommend", (answers, "recommend")), ("pairs", (answers_pairs, "pairs"))]
)
def test_ranking_items_runs_in_a_thread_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str, where: tuple[object, str]
) -> None:
    work, loop = Threads(getattr(*where)), Threads(exposing.options_of)
    monkeypatch.setattr(*where, work)
    monkeypatch.setattr(exposing, "options_of", loop)
    with world.client("toy") as client:
        assert client.post(f"/v1/{path}", json={"user": world.user}).status_code == 200
    assert work.names
    assert loop.names
    assert not work.names & loop.names


def test_models_are_loaded_and_warmed_off_the_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    load, warm, loop = Threads(shelf.load), Threads(shelf.Loaded.warm), Threads(exposing.options_of)
    monkeypatch.setattr(shelf, "load", load)
    monkeypatch.setattr(shelf.Loaded, "warm", lambda loaded: warm(loaded))
    monkeypatch.setattr(exposing, "options_of", loop)
    with world.client("toy") as client:
        client.post("/v1/explain", json={"user": world.user, "item": world.item})
    assert load.names
    assert warm.names
    assert not (load.names | warm.names) & loop.names


def test_a_loaded_model_has_nothing_left_to_make_for_a_request(world: World) -> None:
    with world.client("toy") as client:
        state = client.app.app.state.whyrank
        catalog, model = state.shelf.default.model.catalog_, state.shelf.default.model
        before = set(vars(catalog)), set(vars(catalog.people)), set(model._cache)
        for more in ({}, {"mu": 0.25}, {"polarity": "negative"}, {"grounded": False}, {"specificity": 0.5}):
            assert client.post("/v1/explain", json={"user": world.user, "item": world.item, **more}).status_code == 200
        assert (set(vars(catalog)), set(vars(catalog.people)), set(model._cache)) == before
