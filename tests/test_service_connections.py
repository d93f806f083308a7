"""What a connection may send, hold open and leave unread. Nothing waits for a clock: the time is given."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvicorn

from service_world import World, make_world
from whyrank.service import protocol
from whyrank.service.app import create_app
from whyrank.service.protocol import BODY_SECONDS, HEAD_BYTES, HEAD_SECONDS, UNREAD_SECONDS, URL_BYTES, Protocol
from whyrank.service.run import _listen
from whyrank.service.server import NO_DESCRIPTOR, Seldom, Server, _report

KEY = "a key that nobody guesses"
HASH = hashlib.sha256(KEY.encode()).hexdigest()
HALF = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"
WHOLE = HALF + b"\r\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


async def hello(scope: object, receive: object, send: Callable[..., object]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


class Running:
    """A server in this loop."""

    def __init__(self, server: Server, port: int) -> None:
        self.server, self.port = server, port
        self.writers: list[asyncio.StreamWriter] = []

    @property
    def connections(self) -> list[Protocol]:
        return list(self.server.server_state.connections)

    async def connect(self, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(data)
        return reader, writer

    async def ask(self, data: bytes) -> int:
        """The status of the first answer."""
        return await status_of((await self.connect(data))[0])

    def pass_time(self, seconds: float) -> None:
        for each in self.connections:
            each.expire(time.monotonic() + seconds)


@contextlib.asynccontextmanager
async def serving(app: object, lifespan: str = "off") -> AsyncIterator[Running]:
    listening = _listen("127.0.0.1", 0)
    config = uvicorn.Config(app, http=Protocol, ws="none", lifespan=lifespan, backlog=64, log_config=None)
    server = Server(config)
    task = asyncio.create_task(server._serve([listening]))
    await until(lambda: server.started)
    running = Running(server, listening.getsockname()[1])
    try:
        yield running
    finally:
        for each in (*running.writers, *running.connections):
            each.transport.abort()
        await until(lambda: not running.connections)
        for each in server.server_state.tasks:
            each.cancel()
        server.should_exit = True
        await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def status_of(reader: asyncio.StreamReader) -> int:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    return int(head.split()[1])


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What still comes until the other side closes."""
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(), 60)
    return b""


def test_connections_that_do_not_send_a_request_are_closed() -> None:
    async def play() -> None:
        async with serving(hello) as running:
            silent, half = await running.connect(), await running.connect(HALF)
            used = await running.connect(WHOLE)
            assert await status_of(used[0]) == 200
            await until(lambda: sum(each._in_head for each in running.connections) == 1)
            running.pass_time(HEAD_SECONDS / 2)
            assert len(running.connections) == 3
            used[1].write(b"\r\n")  # ends uvicorn's time limit for connections without a request
            running.pass_time(HEAD_SECONDS + 1)
            assert await ended(silent[0]) == b""
            assert (await ended(half[0])).startswith(b"HTTP/1.1 408")
            await until(lambda: not running.connections)

    asyncio.run(play())


def test_bodies_that_do_not_come_hold_no_place_and_are_cut_off(world: World) -> None:
    """Even without a key, where participants answer."""
    app = create_app(world.settings("pop", keys=(HASH,), in_flight=2))
    body = json.dumps({"user": world.user, "item": world.item}).encode()
    head = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n%scontent-length: %d\r\n\r\n"
    slow = head % (b"/v1/take/x", b"", 100) + b"{"
    asked = head % (b"/v1/explain", b"authorization: Bearer %s\r\n" % KEY.encode(), len(body)) + body

    async def play() -> None:
        async with serving(app, "on") as running:
            readers = [(await running.connect(slow))[0] for _ in range(20)]
            await until(lambda: app.unfinished == 20)
            assert await running.ask(asked) == 200
            running.pass_time(BODY_SECONDS / 2)
            assert app.unfinished == 20
            running.pass_time(BODY_SECONDS + 1)
            assert [await status_of(each) for each in readers] == [408] * 20
            await until(lambda: app.unfinished == 0)

    asyncio.run(play())


def test_an_answer_that_is_not_read_is_given_up() -> None:
    async def large(scope: object, receive: object, send: Callable[..., object]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"x" * (50 << 20)})

    async def play() -> None:
        async with serving(large) as running:
            asking = socket.create_connection(("127.0.0.1", running.port))
            asking.send(WHOLE)
            await until(lambda: any(each.transport.get_write_buffer_size() for each in running.connections))
            running.pass_time(0)
            assert len(running.connections) == 1
            running.pass_time(UNREAD_SECONDS + 1)
            await until(lambda: not running.connections)
            asking.close()
            reader, _ = await running.connect(WHOLE)
            assert len(await ended(reader)) > 50 << 20

    asyncio.run(play())


@pytest.mark.parametrize(
    ("start", "part", "status"),
    [
        (b"GET /", b"x" * 1000, 414),
        (b"GET / HTTP/1.1\r\nhost: x\r\na: ", b"x" * 1000, 431),
        (b"GET / HTTP/1.1\r\nhost: x\r\n", b"a: " + b"x" * 995 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: ", b"x" * 1000, 431),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1;", b"x" * 1000, 431),
    ],
    ids=["url", "one header", "headers", "trailer", "chunk extension"],
)
def test_what_has_no_end_is_cut_off(start: bytes, part: bytes, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "OVERHEAD_BYTES", 100_000)
    taken = 0

    async def never(scope: object, receive: Callable[..., object], send: object) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def play() -> bytes:
        nonlocal taken
        async with serving(never) as running:
            reader, writer = await running.connect(start)
            with contextlib.suppress(ConnectionError):
                while not reader.at_eof() and taken < 1000:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
                    taken += 1
            answer = await ended(reader)
            await until(lambda: not running.connections)
            return answer

    answer = asyncio.run(play())
    assert taken < 1000
    assert not answer or answer.startswith(b"HTTP/1.1 %d" % status)


@pytest.mark.parametrize(("size", "status"), [(URL_BYTES - 100, 200), (URL_BYTES + 1, 414)])
def test_a_long_url_is_answered_or_refused(size: int, status: int) -> None:
    async def play() -> int:
        async with serving(hello) as running:
            return await running.ask(b"GET /" + b"x" * size + b" HTTP/1.1\r\nhost: x\r\n\r\n")

    assert asyncio.run(play()) == status


@pytest.mark.parametrize(("size", "status"), [(HEAD_BYTES - 100, 200), (HEAD_BYTES + 1, 431)])
def test_large_headers_are_answered_or_refused(size: int, status: int) -> None:
    async def play() -> int:
        async with serving(hello) as running:
            return await running.ask(HALF + b"a: " + b"x" * size + b"\r\n\r\n")

    assert asyncio.run(play()) == status


def test_what_is_no_http_is_a_problem_and_logged_seldom(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> bytes:
        async with serving(hello) as running:
            for _ in range(5):
                reader, _ = await running.connect(b"nonsense\r\n\r\n")
                answer = await ended(reader)
            return answer

    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "filters", [Seldom()])
    answer = asyncio.run(play())
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in answer
    assert b"nosniff" in answer
    assert [each.message for each in caplog.records].count("Invalid HTTP request received.") == 1


def test_a_lack_of_descriptors_is_one_line(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "filters", [Seldom()])
    loop = asyncio.new_event_loop()
    for _ in range(1000):
        _report(loop, {"message": "socket.accept() out of system resource", "exception": OSError(24, "")})
    _report(loop, {"message": "something else"})
    loop.close()
    assert [each.message for each in caplog.records] == [NO_DESCRIPTOR, "something else"]


def test_requests_that_wait_in_one_connection_are_bounded() -> None:
    started = 0

    async def never(scope: object, receive: object, send: Callable[..., object]) -> None:
        nonlocal started
        started += 1
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await hello(scope, receive, send)

    async def play() -> None:
        async with serving(never) as running:
            reader, _ = await running.connect(WHOLE * 17)
            await until(lambda: started == 1)
            assert len(running.connections) == 1
            many, _ = await running.connect(WHOLE * 1000)
            assert await ended(many) == b""
            assert not reader.at_eof()
            assert len(running.connections) == 1

    asyncio.run(play())


def test_a_new_connection_takes_the_place_of_the_one_that_waits_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "most_connections", lambda: 10)
    go = asyncio.Event()

    async def slow(scope: dict[str, object], receive: object, send: Callable[..., object]) -> None:
        if scope["path"] == "/slow":
            await go.wait()
        await hello(scope, receive, send)

    async def play() -> None:
        async with serving(slow) as running:
            busy, _ = await running.connect(WHOLE.replace(b"/healthz", b"/slow"))
            await until(lambda: any(not each.waits_for_client for each in running.connections))
            idle = [await running.connect() for _ in range(30)]
            slow_bodies = [
                await running.connect(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n") for _ in range(30)
            ]
            assert await running.ask(WHOLE) == 200
            assert len(running.connections) <= 10
            assert await ended(idle[0][0]) == b""
            go.set()
            assert await status_of(busy) == 200
            assert len(slow_bodies) == 30

    asyncio.run(play())


def test_connections_are_fewer_than_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    for descriptors, expected in ((256, 85), (1024, 640), (1 << 20, 4096), (resource.RLIM_INFINITY, 4096)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=descriptors: (soft, soft))
        protocol.most_connections.cache_clear()
        assert protocol.most_connections() == expected
    protocol.most_connections.cache_clear()


def test_the_health_of_a_service_is_told_when_its_descriptors_run_out(tmp_path: Path, world: World) -> None:
    resource = pytest.importorskip("resource")
    if not hasattr(resource, "prlimit"):
        pytest.skip("limits of another process can be set on Linux only")
    from service_world import Process
    from test_service_process import ask, store_of

    with Process("serve", str(world.folder / "pop"), "--store", store_of(tmp_path), "--rate", "0") as service:
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (256, 256))
        address = ("127.0.0.1", int(service.url.rsplit(":", 1)[1].strip("/")))
        idle = [socket.create_connection(address) for _ in range(600)]
        assert ask(service.url + "healthz")[0] == 200
        assert ask(service.url + "readyz")[0] == 200
        assert ask(service.url + "v1/explain", {"user": world.user, "item": world.item})[0] == 200
        for each in idle:
            each.close()
        service.process.terminate()
        service.wait_for("(Shutting down)")
        assert not [line for line in service.log if "Traceback" in line]
