"""One worker: uvicorn's server with the protocol of `protocol`, and a log that clients cannot fill."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from socket import socket
from typing import Any

import uvicorn

from whyrank.service.problems import STORE_FAILED
from whyrank.service.protocol import ACCEPTED, Protocol
from whyrank.service.settings import Settings

GRACE = 30  # seconds that requests under way have when the service is told to stop
QUEUE = 2048  # connections that wait to be taken
BEAT = 5  # seconds between two signs of life of a worker
SELDOM = 10.0  # seconds between two equal lines of what clients can cause at will
NO_DESCRIPTOR = "no descriptor is left for a new connection; raise the limit (ulimit -n)"
OFTEN = {
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "No supported WebSocket library detected. Please use \"pip install 'uvicorn[standard]'\", or install 'websockets' or 'wsproto' manually.",  # noqa: E501
    NO_DESCRIPTOR,
    STORE_FAILED,
}
log = logging.getLogger("uvicorn.error")


def make_config(settings: Settings, application: str, beat: Callable[[], Awaitable[None]] | None = None) -> Any:
    """uvicorn's settings."""
    config = uvicorn.Config(
        application,
        factory=True,
        http=Protocol,
        ws="none",
        backlog=ACCEPTED,
        access_log=False,  # would hold the tokens of participants; /metrics counts
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_graceful_shutdown=GRACE,
        callback_notify=beat,
        timeout_notify=BEAT,
    )
    log.addFilter(SELDOM_LINES)
    return config


class Server(uvicorn.Server):
    """A server that ends connections whose clients are too slow."""

    async def startup(self, sockets: list[socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(_report)
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(QUEUE)  # uvicorn's backlog is both this and how many are accepted at once

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                assert isinstance(connection, Protocol)
                connection.expire(now)
        return await super().on_tick(counter)


class Seldom(logging.Filter):
    """Lets lines that clients can cause at will pass once in a while only."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg not in OFTEN:
            return True
        now = time.monotonic()
        if now - self._last.get(record.msg, -SELDOM) < SELDOM:
            return False
        self._last[record.msg] = now
        return True


SELDOM_LINES = Seldom()


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio tells each connection that it cannot take, with a traceback."""
    if "out of system resource" in context["message"]:
        log.warning(NO_DESCRIPTOR)
    else:
        loop.default_exception_handler(context)
