"""Exposures, experiments, scopes and erasure over HTTP."""

from __future__ import annotations

import hashlib
import http.client
import itertools
import json
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

import whyrank as wr
from service_world import Process, World, make_world
from test_online_log import exposure, put
from test_service import checked
from test_service_process import ask
from whyrank.atomic import sole_writer
from whyrank.data.catalog import Catalog
from whyrank.online import ab, events
from whyrank.online.assignment import Experiment, parse_arms
from whyrank.online.log import Log
from whyrank.online.store import Store
from whyrank.online.writer import Exposure
from whyrank.service import messages, messages_online
from whyrank.service.settings import read_keys


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def client(world: World, url: str) -> Iterator[TestClient]:
    with world.client("toy", "pop", store=url) as client:
        yield client


def pair(world: World, **more: object) -> dict[str, object]:
    return {"user": world.user, "item": world.item, "grounded": False, **more}


def test_an_answer_is_logged_as_it_was_given(client: TestClient, world: World, url: str) -> None:
    body = pair(world, n=3, log=True, durable=True, specificity=0.1)
    answer = checked(client.post("/v1/explain", json=body), messages.ExplainAnswer)
    (result,) = answer["results"]
    log = Log.read(url)
    assert log.exposures["exposure"].unique().to_list() == [result["exposure"]]
    assert log.exposures["explanation"].to_list() == [each["explanation"] for each in result["reasons"]]
    assert log.exposures.select("user", "item", "route", "propensity").unique().rows() == [
        (world.user, world.item, "explain", 1.0)
    ]
    assert log.exposures["model"][0] == client.app.state.registry.models["toy"].digest
    export = checked(client.get(f"/v1/users/{world.user}/export"), messages_online.ExportAnswer)
    assert export["exposures"][0]["options"] == {"grounded": False, "n": 3, "specificity": 0.1}


def test_lists_of_every_route_are_logged_and_others_are_not(client: TestClient, world: World, url: str) -> None:
    wanted = {"user": world.user, "n": 2, "grounded": False, "log": True, "durable": True}
    many = {"pairs": [{"user": world.user, "item": world.item}, {"user": "new", "item": "unknown"}], "grounded": False}
    recommended = checked(client.post("/v1/recommend", json=wanted), messages.RecommendAnswer)
    paired = checked(client.post("/v1/pairs", json=wanted), messages.PairsAnswer)
    several = client.post("/v1/explain", json={**many, "log": True, "durable": True}).json()["results"]
    assert [("exposure" in each) for each in several] == [True, False]  # an unknown item shows nothing
    assert "exposure" not in client.post("/v1/explain", json=pair(world)).json()["results"][0]
    log = Log.read(url)
    assert log.lists == 2 + 1 + 1
    rows = log.exposures.filter(pl.col("exposure") == paired["exposure"])
    assert rows.select("position", "item", "explanation").rows() == [
        (each["rank"], each["item"], each["reason"]["explanation"]) for each in paired["pairs"]
    ]
    found = {each["exposure"]: each["item"] for each in recommended["recommendations"]}
    logged = log.exposures.filter(pl.col("route") == "recommend").select("exposure", "item").unique().rows()
    assert dict(logged) == found


def test_by_setting_everything_is_logged_but_what_asks_not_to_be(world: World, url: str) -> None:
    with world.client("toy", store=url, log=True) as client:
        assert "exposure" in client.post("/v1/explain", json=pair(world)).json()["results"][0]
        assert "exposure" not in client.post("/v1/explain", json=pair(world, log=False)).json()["results"][0]
        nobody = pair(world, personal=False, durable=True)
        answer = checked(client.post("/v1/explain", json=nobody), messages.ExplainAnswer)
        assert answer["results"][0]["fallback"] == "not_personal"
    assert sorted(Log.read(url).exposures["user"].unique()) == ["", world.user]  # the end of a service writes all


def test_reasons_are_given_where_the_log_is_full(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyrank.online.writer.QUEUED", 0)
    answer = client.post("/v1/explain", json=pair(world, log=True))
    assert answer.status_code == 200
    assert "exposure" not in answer.json()["results"][0]
    assert client.post("/v1/explain", json=pair(world, durable=True)).status_code == 503
    assert "whyrank_exposures_failed_total 2.0" in client.get("/metrics").text


def test_whoever_waits_for_a_store_that_fails_is_told_so_on_both_ways(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise sa.exc.OperationalError("INSERT", None, Exception("database or disk is full"))

    monkeypatch.setattr(client.app.state.store, "writing", broken)
    for more in ({}, {"exclude": []}):  # a list of texts takes the way through the framework
        answer = client.post("/v1/explain", json=pair(world, durable=True, **more))
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:whyrank:problem:store-failed")
    assert client.post("/v1/explain", json=pair(world)).status_code == 200


def test_answers_that_are_not_personal_are_those_of_somebody_unknown(client: TestClient, world: World) -> None:
    for path, body in (("explain", pair(world)), ("recommend", {"user": world.user}), ("pairs", {"user": world.user})):
        theirs = client.post(f"/v1/{path}", json={**body, "user": "nobody knows"}).json()
        plain = client.post(f"/v1/{path}", json={**body, "personal": False}).json()
        text = client.post(f"/v1/{path}", json=body).text
        assert str(plain).replace("not_personal", "unknown_user").replace(world.user, "nobody knows") == str(theirs)
        assert "not_personal" not in text


def test_feedback_beyond_the_end_of_a_list_is_refused_where_the_list_is_known(client: TestClient, world: World) -> None:
    made = client.post("/v1/explain", json=pair(world, log=True, durable=True)).json()["results"][0]["exposure"]
    click = {"exposure": made, "event": "clicked", "position": 1}
    beyond = client.post("/v1/feedback", json={"events": [click, click | {"position": 99}]})
    assert beyond.status_code == 422
    assert "beyond the end of its list; use 1 to" in beyond.json()["detail"]
    later = client.post("/v1/feedback", json={"events": [{"exposure": "0" * 32, "event": "shown", "position": 99}]})
    assert later.json() == {"stored": 1, "repeated": 0}
    assert client.post("/v1/feedback", json={"events": [click]}).json() == {"stored": 1, "repeated": 0}


def test_feedback_names_an_exposure(client: TestClient, world: World, url: str) -> None:
    made = client.post("/v1/explain", json=pair(world, log=True, durable=True)).json()["results"][0]["exposure"]
    click = {"exposure": made, "event": "clicked", "position": 1}
    bought = {"exposure": made, "event": "converted", "value": 19.9}
    assert client.post("/v1/feedback", json={"events": [click, click, bought]}).json() == {"stored": 2, "repeated": 1}
    assert Log.read(url).events.select("event", "position", "value", "user").rows() == [
        ("clicked", 1, 1.0, world.user),
        ("converted", None, 19.9, world.user),
    ]
    (counts,) = client.get("/v1/feedback").json()["models"]
    assert (counts["model"], counts["clicked"], counts["converted"]) == ("toy", 1, 1)
    metrics = client.get("/metrics").text
    assert "whyrank_exposures_written_total 1.0" in metrics
    assert "whyrank_events_written_total 2.0" in metrics
    for wrong in ({"event": "clicked"}, {"event": "clicked", "user": "u"}, {**click, "rank": 1}):
        assert client.post("/v1/feedback", json={"events": [wrong]}).status_code == 422


ARMS = [{"name": "a", "model": "toy"}, {"name": "b", "model": "pop", "options": {"specificity": 0.5}}]
ARMS += [{"name": "c", "model": "none"}]


def test_an_experiment_decides_who_gets_what(client: TestClient, world: World, url: str) -> None:
    made = checked(client.post("/v1/experiments", json={"name": "t", "arms": ARMS}), messages_online.ExperimentOut, 201)
    assert "salt" not in made
    seen: dict[str, dict[str, object]] = {}
    for at in range(30):
        body = pair(world, user=f"u{at:06d}", experiment="t", durable=True)
        answer = checked(client.post("/v1/explain", json=body), messages.ExplainAnswer)
        again = client.post("/v1/explain", json=body).json()
        assert (again["arm"], again["experiment"]) == (answer["arm"], "t")
        seen[str(answer["arm"])] = answer
    assert seen["a"]["model"] == "toy"
    assert seen["b"]["model"] == "pop"
    assert seen["c"]["results"][0]["reasons"] == []  # type: ignore[index]
    log = Log.read(url, experiment="t")
    assert log.lists == 60
    assert set(log.exposures.filter(pl.col("arm") == "c")["position"]) == {0}
    for wrong in ({"model": "pop"}, {"personal": False}, {"experiment": "none there"}):
        assert client.post("/v1/explain", json={**body, **wrong}).status_code in (404, 422)
    two = {"pairs": [{"user": user, "item": world.item} for user in ("x", "y")], "experiment": "t"}
    assert client.post("/v1/explain", json=two).status_code == 422
    found = checked(client.get("/v1/experiments/t/results?points=2"), messages_online.ExperimentResultsAnswer)
    assert found["verdict"].startswith("Too early to say")
    assert sum(arm["users"] for arm in found["arms"]) == 30
    lists = checked(client.get("/v1/experiments/t/exposures?arm=a&limit=3"), messages_online.ExposuresAnswer)
    assert {each["arm"] for each in lists["exposures"]} == {"a"}


def test_an_arm_whose_model_is_not_served_is_named_and_fails_nobody_else(world: World, url: str) -> None:
    store = Store(url).create()
    ab.create(store, Experiment("elsewhere", parse_arms(["a=other", "b=none"], "999999:1")))
    store.close()
    with world.client(str(world.folder / "toy"), store=url, experiment="elsewhere") as client:
        answer = client.post("/v1/explain", json=pair(world, experiment="elsewhere"))
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:whyrank:problem:arm-unavailable")
        assert "arm a of experiment elsewhere needs the model 'other'" in answer.json()["detail"]
        assert "arm" not in client.post("/v1/explain", json=pair(world)).json()


def test_pairs_are_counted_for_the_model_of_the_arm(client: TestClient, world: World) -> None:
    arms = [{"name": "a", "model": "pop", "share": 1e-6}, {"name": "b", "model": "toy"}]
    assert client.post("/v1/experiments", json={"name": "counted", "arms": arms}).status_code == 201

    def counts() -> dict[str, float]:
        text = client.get("/metrics").text
        return {each[0]: float(each[1]) for each in re.findall(r'pairs_explained_total\{model="(\w+)"\} (\S+)', text)}

    before = counts()
    assert client.post("/v1/explain", json=pair(world, experiment="counted")).json()["arm"] == "b"
    after = counts()
    assert after["toy"] == before.get("toy", 0) + 1
    assert after.get("pop", 0) == before.get("pop", 0)


def test_an_experiment_is_ramped_and_stopped(client: TestClient, world: World) -> None:
    client.post("/v1/experiments", json={"name": "t", "arms": ARMS[:2], "ramp": 0.0})
    body = pair(world, experiment="t")
    assert "arm" not in client.post("/v1/explain", json=body).json()
    checked(client.post("/v1/experiments/t/ramp", json={"ramp": 1}), messages_online.ExperimentOut)
    assert "arm" in client.post("/v1/explain", json=body).json()
    checked(client.post("/v1/experiments/t/stop"), messages_online.ExperimentOut)
    assert "arm" not in client.post("/v1/explain", json=body).json()
    assert client.post("/v1/experiments/t/stop").status_code == 422
    assert client.get("/v1/experiments/other").json()["type"] == "urn:whyrank:problem:unknown-experiment"
    assert client.post("/v1/experiments", json={"name": "t", "arms": ARMS[:2]}).status_code == 422
    unknown = [{"name": "a", "model": "toy"}, {"name": "b", "model": "gone"}]
    assert client.post("/v1/experiments", json={"name": "u", "arms": unknown}).status_code == 404
    assert client.get("/readyz").status_code == 200  # none of this is a damaged store


def test_by_setting_an_experiment_answers_requests_that_name_no_model(world: World, url: str) -> None:
    with world.client("toy", "pop", store=url, experiment="t") as client:
        assert "arm" not in client.post("/v1/explain", json=pair(world)).json()  # there is none yet
        client.post("/v1/experiments", json={"name": "t", "arms": ARMS[:2]})
        assert "arm" in client.post("/v1/explain", json=pair(world)).json()
        assert "arm" not in client.post("/v1/explain", json=pair(world, model="pop")).json()


def test_an_experiment_by_setting_makes_no_request_for_pairs_fail(world: World, url: str) -> None:
    drawn = {"name": "d", "model": "toy", "options": {"explore": 1.0}}
    with world.client("toy", "pop", store=url, experiment="t") as client:
        client.post("/v1/experiments", json={"name": "t", "arms": [*ARMS, drawn]})
        asked = [{"user": f"u{at:06d}", "n": 2, "grounded": False} for at in range(30)]
        found = [client.post("/v1/pairs", json=body) for body in asked]
        assert {each.status_code for each in found} == {200}
        assert {each.json().get("arm") for each in found} == {"a", None}
        named = [client.post("/v1/pairs", json={**body, "experiment": "t"}).status_code for body in asked]
        assert set(named) == {200, 422}


def test_what_others_change_in_the_store_is_noticed_and_what_is_old_is_erased(
    world: World, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyrank.service.app.EXPERIMENTS", 0.01)
    store = Store(url).create()
    put(store, exposure(world.user, time=1000))
    with world.client("toy", "pop", store=url, experiment="t", retain_days=30) as client:
        ab.create(store, Experiment("t", parse_arms(["a=toy", "b=pop"], None)))
        seen = ({"arm"} <= client.post("/v1/explain", json=pair(world)).json().keys() for _ in range(10_000))
        assert any(seen)
        left = (client.get(f"/v1/users/{world.user}/export").json()["exposures"] for _ in range(10_000))
        assert any(all(each["time"] > 1000 for each in listed) for listed in left)
    store.close()


# -- which reasons work ------------------------------------------------------------------------------------------------


IDS = itertools.count()  # of exposures; those of one millisecond have no order otherwise


def show(store: Store, user: str, explanations: list[str], clicked: Sequence[int] = (), **named: str | None) -> str:
    """Log a list with clicks at some of its positions."""
    slate = json.dumps([{"i": "inn", "e": each, "p": 1.0} for each in explanations], separators=(",", ":"))
    head = (f"{next(IDS):032x}", int(time.time()), user, "explain", named.get("served") or "toy", "d1")
    made = Exposure(*head, named.get("experiment"), named.get("arm"), "{}", slate)
    put(store, made)
    events.add(store, [{"event": "clicked", "exposure": made.id, "position": each} for each in clicked])
    return made.id


@pytest.fixture
def store(client: TestClient, url: str) -> Iterator[Store]:
    """The store of a service with an experiment."""
    client.post("/v1/experiments", json={"name": "t", "arms": ARMS[:2]})
    store = Store(url)
    yield store
    store.close()


def catalog_of(client: TestClient) -> Catalog:
    return client.app.state.registry.models["toy"].model.catalog_


def test_reasons_are_counted_where_they_were_shown(client: TestClient, store: Store) -> None:
    catalog = catalog_of(client)
    first, second, *_ = catalog.explanations.ids.to_list()
    for user in ("ann", "bob", "eve"):
        show(store, user, [first, second], clicked=[1], experiment="t", arm="a")
    last = show(store, "ann", [second, first], clicked=[1, 2], experiment="t", arm="b")
    events.add(store, [{"event": "clicked", "exposure": last, "position": 1, "key": "again"}])  # counts once
    show(store, "joe", ["gone"], served="no longer")
    asked = "/v1/feedback/reasons?by=explanation&minimum=1"
    found = checked(client.get(asked), messages_online.WorkingAnswer)
    assert (found["lists"], found["shown"], found["events"], found["more"], found["total"]) == (5, 9, 5, False, 3)
    rows = {row["key"]: row for row in found["rows"]}
    assert [row["key"] for row in found["rows"]] == [first, second, "gone"]
    assert (rows[first]["shown"], rows[first]["users"], rows[first]["events"], rows[first]["rate"]) == (4, 3, 4, 1.0)
    assert rows[first]["text"] == catalog.texts_listed[0]
    # Of five at position 1 four were clicked, of four at position 2 one.
    assert rows[first]["expected"] == pytest.approx((3 * 4 / 5 + 1 / 4) / 4)
    assert (rows["gone"]["text"], rows["gone"]["model"]) == ("gone", None)
    (only,) = client.get(f"{asked}&experiment=t&arm=b&limit=1&order=shown").json()["rows"]
    assert (only["shown"], only["events"]) == (1, 1)
    assert client.get("/v1/feedback/reasons?by=explanation&minimum=5").json()["rows"] == []
    assert client.get(f"{asked}&experiment=other").status_code == 404
    assert client.get(f"{asked}&event=seen").status_code == 422


def test_aspects_are_counted_over_their_reasons(world: World, url: str, tmp_path: Path) -> None:
    first, second, third, *_ = wr.load(world.folder / "pop").catalog_.explanations.ids.to_list()
    aspects = pl.DataFrame({"id": [first, second], "aspect": ["food", "food"]})
    aspects.write_csv(tmp_path / "aspects.csv")
    with world.client("toy", store=url, aspects=str(tmp_path / "aspects.csv")) as client:
        store = Store(url)
        show(store, "ann", [first, second, third], clicked=[2])
        store.close()
        (row,) = client.get("/v1/feedback/reasons?minimum=2").json()["rows"]
        assert (row["key"], row["shown"], row["events"], row["rate"]) == ("food", 2, 1, 0.5)


def test_what_reads_the_log_is_made_once_in_a_while(
    client: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lists() -> list[int]:
        results = client.get("/v1/experiments/t/results").json()["arms"][0]["lists"]
        return [results, client.get("/v1/feedback/reasons").json()["lists"]]

    monkeypatch.setattr("whyrank.service.state.RECENT", 1e9)
    show(store, "ann", ["quiet"], experiment="t", arm="a")
    assert lists() == [1, 1]
    show(store, "ann", ["quiet"], experiment="t", arm="a")
    assert lists() == [1, 1]
    monkeypatch.setattr("whyrank.service.state.RECENT", 0)
    assert lists() == [2, 2]


def test_the_lists_behind_a_figure_are_paged_and_told_in_words(client: TestClient, store: Store) -> None:
    catalog = catalog_of(client)
    first, second, *_ = catalog.explanations.ids.to_list()
    made = [show(store, f"u{at}", [first, second][at % 2 :], clicked=[1], experiment="t", arm="a") for at in range(5)]
    path = "/v1/experiments/t/exposures"
    page = checked(client.get(f"{path}?limit=2"), messages_online.ExposuresAnswer)["exposures"]
    assert [each["exposure"] for each in page] == [made[4], made[3]]
    assert page[0]["slate"][0]["text"] == catalog.texts_listed[0]
    assert [(each["event"], each["position"]) for each in page[0]["events"]] == [("clicked", 1)]
    rest = client.get(f"{path}?before={made[3]}").json()["exposures"]
    assert [each["exposure"] for each in rest] == made[2::-1]
    both = client.get(path, params={"explanation": first}).json()["exposures"]
    assert [each["exposure"] for each in both] == made[4::-2]
    assert client.get(path, params={"explanation": first.swapcase() + "?"}).json()["exposures"] == []


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_may_do_what_its_scopes_say(world: World, url: str, tmp_path: Path) -> None:
    names = {"asker": "ask", "logger": "ask,log", "boss": "administer", "prometheus": "metrics", "all": ""}
    lines = [f"{hashlib.sha256(name.encode()).hexdigest()} {name} {scopes}" for name, scopes in names.items()]
    (tmp_path / "keys").write_text("# keys\n" + "\n".join(lines))
    may = {
        ("POST", "/v1/explain"): {"asker", "logger", "all"},
        ("GET", "/v1/users"): {"asker", "logger", "all"},
        ("GET", "/v1/aspects"): {"asker", "logger", "all"},
        ("POST", "/v1/feedback"): {"logger", "all"},
        ("GET", "/v1/feedback"): {"boss", "all"},
        ("GET", "/v1/feedback/reasons"): {"boss", "all"},
        ("GET", "/v1/experiments"): {"boss", "all"},
        ("GET", "/v1/users/x/export"): {"boss", "all"},
        ("DELETE", "/v1/users/x"): {"boss", "all"},
        ("GET", "/v1/studies"): {"boss", "all"},
        ("GET", "/metrics"): {"prometheus", "all"},
    }
    bodies = {"/v1/explain": pair(world), "/v1/feedback": {"events": [{"event": "shown", "user": "u", "item": "i"}]}}
    shutil.copytree(world.folder / "pop", tmp_path / "pop")
    keys = read_keys(tmp_path / "keys")
    with world.client(str(tmp_path / "pop"), store=url, keys=keys) as client:
        for (method, path), who in may.items():
            for name in (*names, "stranger"):
                headers = {"Authorization": f"Bearer {name}"}
                status = client.request(method, path, headers=headers, json=bodies.get(path)).status_code
                expected = {200, 201} if name in who else {401} if name == "stranger" else {403}
                assert status in expected, (method, path, name)
        logs = client.post("/v1/explain", headers={"Authorization": "Bearer asker"}, json=pair(world, log=True))
        assert (logs.status_code, logs.json()["type"]) == (403, "urn:whyrank:problem:forbidden")


def test_a_scope_that_is_none_is_refused(tmp_path: Path) -> None:
    for text in ("name everything", "my old key", "name ,"):
        (tmp_path / "keys").write_text(f"{hashlib.sha256(b'x').hexdigest()} {text}")
        with pytest.raises(Exception, match="scope"):
            read_keys(tmp_path / "keys")


# -- people ------------------------------------------------------------------------------------------------------------


def test_a_user_is_erased_from_the_store_and_the_models_in_service(world: World, url: str, tmp_path: Path) -> None:
    shutil.copytree(world.folder / "toy", tmp_path / "toy")
    with world.client(str(tmp_path / "toy"), store=url) as client:
        assert client.get(f"/v1/users/{world.user}").status_code == 200
        client.post("/v1/explain", json=pair(world, log=True))
        (tmp_path / "toy.refresh").mkdir()
        with sole_writer(tmp_path / "toy.refresh"):  # a refresh runs
            busy = client.delete(f"/v1/users/someone-{world.user}")
        assert (busy.status_code, busy.json()["type"]) == (503, "urn:whyrank:problem:still-served")
        receipt = checked(client.delete(f"/v1/users/{world.user}"), messages_online.ReceiptAnswer)
        assert world.user not in str(receipt)
        assert receipt["store"]["exposures"] == 1  # also what was only queued
        assert receipt["user"] == hashlib.sha256(f"{receipt['salt']}\0{world.user}".encode()).hexdigest()
        assert receipt["folders"][0]["before"] != receipt["folders"][0]["after"]
        assert client.get(f"/v1/users/{world.user}").status_code == 404
        assert client.post("/v1/explain", json=pair(world)).json()["results"][0]["fallback"] == "unknown_user"
        assert client.get(f"/v1/users/{world.user}/export").json()["exposures"] == []


def test_what_another_worker_still_holds_is_erased_as_well(
    world: World, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyrank.online.writer.GATHER", 60.0)  # nothing is written until a worker ends
    shutil.copytree(world.folder / "toy", tmp_path / "toy")
    with world.client(str(tmp_path / "toy"), store=url) as one:
        with world.client(str(tmp_path / "toy"), store=url) as two:
            for user in (world.user, "somebody"):
                two.post("/v1/explain", json=pair(world, user=user, log=True))
            assert one.delete(f"/v1/users/{world.user}").json()["store"]["exposures"] == 0
        assert Log.read(url).exposures["user"].unique().to_list() == ["somebody"]


def test_a_model_that_stays_in_memory_is_not_claimed_to_have_forgotten(
    world: World, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyrank.service.registry.AGAIN", -1.0)
    shutil.copytree(world.folder / "toy", tmp_path / "toy")
    with world.client(str(tmp_path / "toy"), store=url) as client:
        with monkeypatch.context() as broken:
            broken.setattr("whyrank.service.registry.shown_report", lambda folder: 1 / 0)
            for _ in range(2):
                answer = client.delete(f"/v1/users/{world.user}")
                assert (answer.status_code, answer.json()["type"]) == (503, "urn:whyrank:problem:still-served")
                assert "model toy in memory still holds the user: ZeroDivisionError" in answer.json()["detail"]
        assert client.delete(f"/v1/users/{world.user}").status_code == 200


# -- kills -------------------------------------------------------------------------------------------------------------


def test_what_was_acknowledged_survives_a_kill_once(world: World, url: str) -> None:
    """Clients ask without a pause while the service is killed; what they were told is there, and nothing twice."""
    acknowledged: list[str] = []
    enough = threading.Event()
    with Process("serve", str(world.folder / "pop"), "--store", url, "--log", "--rate", "0") as service:

        def client() -> None:
            while True:
                try:
                    answer = ask(service.url + "v1/explain", pair(world, durable=True))[1]
                except (OSError, http.client.HTTPException):  # a kill may cut an answer short
                    return
                acknowledged.append(answer["results"][0]["exposure"])  # type: ignore[index]
                if len(acknowledged) >= 20:
                    enough.set()

        threads = [threading.Thread(target=client) for _ in range(3)]
        for each in threads:
            each.start()
        assert enough.wait(60)
        service.process.kill()
        for each in threads:
            each.join(60)
    log = Log.read(url)  # refuses an exposure whose positions are there twice
    assert len(set(acknowledged)) == len(acknowledged) >= 20
    assert set(acknowledged) <= set(log.exposures["exposure"])
