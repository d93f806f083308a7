"""Who may ask and how much, what every answer carries, and where the service stands."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from service_world import World, make_world
from whyrank.errors import ParameterError
from whyrank.service import pages
from whyrank.service.app import create_app
from whyrank.service.limits import ApiKeys, Buckets
from whyrank.service.run import _hosts, is_loopback, make_config, run
from whyrank.service.settings import Settings, read_keys

KEY = "a key that nobody guesses"
HASH = hashlib.sha256(KEY.encode()).hexdigest()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def locked(world: World) -> Iterator[TestClient]:
    with world.client("pop", keys=(HASH,)) as client:
        yield client


def test_every_route_of_the_api_needs_a_key_except_the_participants(locked: TestClient) -> None:
    document = locked.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods:
            response = locked.request(method, path.replace("{id}", "x").replace("{token}", "x"), json={})
            free = path.startswith("/v1/take/") or path in ("/healthz", "/readyz")
            assert (response.status_code == 401) != free, (path, method, response.status_code)
            if not free:
                assert response.headers["www-authenticate"] == "Bearer"


def test_the_right_key_opens_and_a_wrong_one_does_not(locked: TestClient) -> None:
    assert locked.get("/v1/models", headers={"authorization": f"Bearer {KEY}"}).status_code == 200
    for wrong in (f"Bearer {KEY}x", f"Basic {KEY}", KEY, "Bearer", f"Bearer {HASH}"):
        assert locked.get("/v1/models", headers={"authorization": wrong}).status_code == 401
    assert locked.get("/").status_code == 200


def test_keys_are_read_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# team\n{HASH.upper()}  alice\n\n")
    assert read_keys(file) == (HASH,)
    monkeypatch.setenv("WHYRANK_API_KEYS", f"{HASH},")
    assert read_keys(None) == (HASH,)
    monkeypatch.delenv("WHYRANK_API_KEYS")
    assert read_keys(None) == ()


@pytest.mark.parametrize("text", ["", "# nobody", KEY, "abc"])
def test_a_file_without_usable_hashes_is_refused_and_never_quoted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(ParameterError) as caught:
        read_keys(file)
    assert KEY not in str(caught.value)


def test_all_hashes_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append(one)
        return one == two

    monkeypatch.setattr("whyrank.service.limits.hmac.compare_digest", compare)
    keys = ApiKeys([HASH, "0" * 64, "1" * 64])
    assert keys.find(KEY.encode()) is not None
    assert keys.find(b"wrong") is None
    assert len(compared) == 6


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 5))
def test_a_bucket_never_lets_more_through_than_its_rate_and_size(gaps: list[float], rate: int) -> None:
    buckets, now, passed = Buckets(rate), 0.0, 0
    for gap in gaps:
        now += gap
        passed += buckets.wait("one", now) == 0
    assert passed <= rate * now + buckets.size + 1e-6


def test_a_bucket_says_when_to_come_back_and_then_lets_in() -> None:
    buckets = Buckets(0.5)
    assert buckets.wait("one", 0.0) == 0
    wait = buckets.wait("one", 0.0)
    assert wait == pytest.approx(2)
    assert buckets.wait("two", 0.0) == 0
    assert buckets.wait("one", wait) == 0


def test_too_many_requests_are_told_to_wait(world: World) -> None:
    with world.client("pop", rate=0.001) as client:
        assert client.get("/v1/models").status_code == 200
        response = client.get("/v1/models")
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) > 0
        assert client.get("/healthz").status_code == 200


def test_guesses_of_keys_are_slowed_down(world: World) -> None:
    with world.client("pop", rate=0.001, keys=(HASH,)) as client:
        assert [client.get("/v1/models").status_code for _ in range(2)] == [401, 429]
        assert client.get("/v1/models", headers={"authorization": f"Bearer {KEY}"}).status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(world: World, chunked: bool) -> None:
    body = b'{"user": "' + b"x" * 5000 + b'", "item": "y"}'

    def parts() -> Iterator[bytes]:
        yield from (body[at : at + 1000] for at in range(0, len(body), 1000))

    with world.client("pop", body_limit=2000) as client:
        content = parts() if chunked else body
        response = client.post("/v1/explain", content=content, headers={"content-type": "application/json"})
    assert response.status_code == 413
    assert response.json()["type"].endswith("body-too-large")


def test_more_requests_than_may_be_under_way_are_turned_away(world: World) -> None:
    """The third of five that come at once is told to come back, although each is answered without a pause. Requests
    whose bodies have not ended hold no place."""
    app = create_app(world.settings("pop", in_flight=2))
    body = json.dumps({"user": world.user, "item": world.item}).encode()

    async def ask(receive: object) -> list[dict[str, object]]:
        sent: list[dict[str, object]] = []

        async def send(message: dict[str, object]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/explain", "raw_path": b"", "query_string": b""}
        headers = [(b"content-type", b"application/json")]
        await app({**scope, "headers": headers, "client": ("c", 1), "http_version": "1.1"}, receive, send)
        return sent

    async def play() -> list[list[dict[str, object]]]:
        end = asyncio.Event()

        async def slow() -> dict[str, object]:
            await end.wait()
            return {"type": "http.request", "body": body}

        async def quick() -> dict[str, object]:
            return {"type": "http.request", "body": body}

        waiting = [asyncio.create_task(ask(slow)) for _ in range(9)]
        await asyncio.sleep(0)
        at_once = await asyncio.gather(*(ask(quick) for _ in range(5)))
        end.set()
        late = await asyncio.gather(*waiting)
        return [*at_once, *late, await ask(quick)]

    with TestClient(app):
        statuses = [answer[0]["status"] for answer in asyncio.run(play())]
    assert statuses == [200, 200, 503, 503, 503, *([200, 200] + 7 * [503]), 200]


def test_bodies_that_do_not_end_take_a_bounded_amount_of_memory(world: World) -> None:
    app = create_app(world.settings("pop", in_flight=2, body_limit=1000))

    async def ask(parts: list[bytes]) -> int:
        sent: list[dict[str, object]] = []

        async def receive() -> dict[str, object]:
            if not parts:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": parts.pop(), "more_body": True}

        async def send(message: dict[str, object]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/explain", "raw_path": b"", "query_string": b""}
        await app({**scope, "headers": [], "client": ("c", 1), "http_version": "1.1"}, receive, send)
        return sent[0]["status"]

    async def play() -> tuple[int, int, int]:
        waiting = [asyncio.create_task(ask([b"x" * 900])) for _ in range(2)]
        await asyncio.sleep(0)
        held = app.state.bodies.unfinished
        refused = await ask([b"x" * 900])
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return held, refused, app.state.bodies.unfinished

    with TestClient(app):
        assert asyncio.run(play()) == (1800, 503, 0)


def test_a_client_that_goes_away_is_counted_and_not_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(world.settings("pop"))

    async def play() -> list[object]:
        sent: list[object] = []

        async def receive() -> dict[str, object]:
            return {"type": "http.disconnect"}

        async def send(message: object) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/explain", "raw_path": b"", "query_string": b""}
        await app({**scope, "headers": [], "client": ("c", 1), "http_version": "1.1"}, receive, send)
        return sent

    with TestClient(app) as client:
        assert asyncio.run(play()) == []
        assert 'status="499"' in client.get("/metrics").text
    assert not [each for each in caplog.records if each.name.startswith("uvicorn")]


def test_every_answer_carries_the_security_headers(world: World) -> None:
    with world.client("pop") as client:
        for path in ("/", "/v1/models", "/v1/none", "/healthz"):
            headers = client.get(path).headers
            policy = headers["content-security-policy"]
            assert "unsafe-inline" not in policy
            assert "unsafe-eval" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
        assert client.get("/v1/models").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("cut", [False, True])
def test_it_works_behind_a_prefix_whether_the_proxy_cuts_it_off_or_not(world: World, cut: bool) -> None:
    with world.client("pop", prefix="/why", keys=(HASH,)) as client:
        before = "" if cut else "/why"
        assert client.get(f"{before}/healthz").status_code == 200
        assert client.get(f"{before}/v1/models").status_code == 401
        assert client.get(f"{before}/v1/models", headers={"authorization": f"Bearer {KEY}"}).status_code == 200
        assert client.get(f"{before}/").status_code == 200
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/why"}]


def test_a_prefix_without_its_slash_leads_to_the_page(world: World) -> None:
    with world.client("pop", prefix="/why") as client:
        response = client.get("/why", follow_redirects=False)
        assert (response.status_code, response.headers["location"]) == (307, "/why/")


def test_the_page_is_served_and_its_absence_explained(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    with world.client("pop") as client:
        assert "make page" in client.get("/").text
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<p>page</p>")
    (tmp_path / "assets" / "main-1a2b.js").write_text("1")
    with world.client("pop") as client:
        page, script = client.get("/?view=explore"), client.get("/assets/main-1a2b.js")
        assert (page.text, page.headers["cache-control"]) == ("<p>page</p>", "no-cache")
        assert "immutable" in script.headers["cache-control"]
        assert client.get("/assets/none.js").json()["status"] == 404
        assert client.get("/..%2f..%2fsettings.py").status_code == 404


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("a.b", False)]
)
def test_loopback_is_known(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_listening_to_others_without_keys_is_refused(world: World) -> None:
    with pytest.raises(ParameterError, match="no API keys"):
        run(world.settings("pop"), "0.0.0.0", 0)


@pytest.mark.parametrize("prefix", ["why", "/why/", "/a b", "//"])
def test_a_prefix_must_be_a_path(prefix: str) -> None:
    with pytest.raises(ParameterError, match="prefix"):
        Settings(prefix=prefix)


def test_settings_survive_the_way_to_a_worker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHYRANK_SERVICE", "")
    settings = world.settings("pop", "rand", keys=(HASH,), workers=3)
    settings.to_environment()
    assert Settings.from_environment() == settings


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("LocalHost.:80", 200),
        ("reasons.example:8000", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:8000", 421),
        ("", 421),
    ],
)
def test_a_service_without_keys_answers_under_its_own_names_only(world: World, host: str, status: int) -> None:
    settings = world.settings("pop", hosts=("reasons.example",))
    with TestClient(create_app(replace(settings, hosts=_hosts(settings, "127.0.0.1")))) as client:
        for path in ("/", "/v1/users", "/v1/studies", "/metrics"):
            assert client.get(path, headers={"host": host}).status_code == status
        assert client.get("/healthz", headers={"host": "10.0.0.7"}).status_code == 200


def test_names_are_checked_where_anybody_may_ask_and_where_names_are_given(world: World) -> None:
    open_, locked = world.settings("pop"), world.settings("pop", keys=(HASH,))
    assert _hosts(open_, "127.0.0.1") == ("localhost", "127.0.0.1", "::1")
    assert "127.0.0.2" in _hosts(open_, "127.0.0.2")
    assert _hosts(locked, "127.0.0.1") == ()
    assert _hosts(open_, "0.0.0.0") == ()
    assert "a.example" in _hosts(replace(locked, hosts=("A.example:443",)), "0.0.0.0")
    assert _hosts(Settings(study_only=True), "127.0.0.1") == ()


@pytest.mark.parametrize(("proxies", "expected"), [((), [200, 429, 429]), (("127.0.0.1",), [200, 200, 429])])
def test_forwarded_addresses_are_believed_from_trusted_proxies_only(
    world: World, proxies: tuple[str, ...], expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    monkeypatch.setenv("WHYRANK_SERVICE", "")
    settings = world.settings("pop", rate=0.001, proxies=proxies)
    settings.to_environment()
    config = make_config(settings, "whyrank.service.app:from_environment")
    config.load()
    with TestClient(config.loaded_app, client=("127.0.0.1", 5)) as client:
        statuses = [
            client.get("/v1/models", headers={"x-forwarded-for": address}).status_code
            for address in ("10.1.1.1", "10.1.1.2", "10.1.1.2")
        ]
    assert statuses == expected


@pytest.mark.parametrize("proxy", ["*", "proxy.example", "10.0.0.0/99", ""])
def test_proxies_are_addresses(proxy: str) -> None:
    with pytest.raises(ParameterError, match="proxy"):
        Settings(proxies=(proxy,))


@pytest.mark.parametrize("key", ["", "\n", "\r\n"])
def test_the_hash_of_an_empty_key_is_refused(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = hashlib.sha256(key.encode()).hexdigest()
    (tmp_path / "keys").write_text(f"{HASH}\n{empty.upper()}\n")
    with pytest.raises(ParameterError, match="empty key"):
        read_keys(tmp_path / "keys")
    monkeypatch.setenv("WHYRANK_API_KEYS", empty)
    with pytest.raises(ParameterError, match="empty key"):
        read_keys(None)
    assert ApiKeys([empty]).find(b"") is None
