"""What stands before every route: keys, limits, headers and counts, in one layer that costs little."""

from __future__ import annotations

import asyncio
import math
import time
from functools import partial

from starlette._utils import get_route_path
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whyrank.service.limits import Buckets, Keys
from whyrank.service.measures import Measures
from whyrank.service.problems import Problem
from whyrank.service.settings import Settings

POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "font-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),  # links of participants hold their token
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
NOT_KEPT = (b"cache-control", b"no-store")
ALWAYS_OPEN = ("/healthz", "/readyz")


class Guard:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, settings: Settings, measures: Measures) -> None:
        self.app, self.settings, self.measures = app, settings, measures
        self.keys = Keys(settings.keys)
        self.buckets = Buckets(settings.rate / settings.workers)
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, partial(_say_briefly, send))
            return
        begin, status = time.perf_counter(), 500
        scope["root_path"] = self.settings.prefix  # also right where a proxy has cut the prefix off already
        path = get_route_path(scope)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
                if path.startswith("/v1/"):
                    message["headers"].append(NOT_KEPT)
            await send(message)

        counted = path not in ALWAYS_OPEN
        try:
            if path == "":
                await RedirectResponse(scope["path"] + "/")(scope, receive, sending)
                return
            if counted:
                self._admit(scope, path)
            self.in_flight += counted
            try:
                if counted:  # few pairs are ranked without a pause: all that have come are counted before one is
                    await asyncio.sleep(0)
                await self.app(scope, self._limited(scope, receive), sending)
            finally:
                self.in_flight -= counted
        except Problem as problem:
            await problem.response()(scope, receive, sending)
        finally:
            self.measures.count(scope, status, time.perf_counter() - begin)

    def _admit(self, scope: Scope, path: str) -> None:
        """Raise a Problem unless this request may go on."""
        headers = dict(scope["headers"])
        client = scope["client"][0] if scope.get("client") else ""
        if self.keys and (path.startswith("/v1/") or path == "/metrics") and not path.startswith("/v1/take/"):
            scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
            name = self.keys.find(key.strip()) if scheme.lower() == b"bearer" else None
            if name is None:
                self._take_token(client)  # guesses are slowed down too
                hint = "send a key of this service as `Authorization: Bearer KEY`"
                raise Problem("unauthorized", 401, hint, {"WWW-Authenticate": "Bearer"})
            client = name
        self._take_token(client)
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.settings.body_limit:
            raise self._too_large()
        if self.in_flight >= self.settings.in_flight:
            raise Problem("overloaded", 503, "too many requests are under way; try again", {"Retry-After": "1"})

    def _take_token(self, client: str) -> None:
        wait = self.buckets.wait(client, time.monotonic())
        if wait:
            seconds = str(max(1, math.ceil(wait)))
            raise Problem("rate-limited", 429, f"try again in {seconds} s", {"Retry-After": seconds})

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """`receive` that stops when more bytes come than a body may have."""
        if scope["method"] in ("GET", "HEAD"):
            return receive
        left = self.settings.body_limit

        async def receiving() -> Message:
            nonlocal left
            message = await receive()
            if message["type"] == "http.request":
                left -= len(message.get("body", b""))
                if left < 0:
                    raise HTTPException(413, self._too_large().detail)
            return message

        return receiving

    def _too_large(self) -> Problem:
        limit = f"{self.settings.body_limit:,}"
        return Problem("body-too-large", 413, f"the body may have {limit} bytes; send it in parts")


async def _say_briefly(send: Send, message: Message) -> None:
    """A start that failed says why in one line, as the command line does; tracebacks are for bugs."""
    if message["type"] == "lifespan.startup.failed" and "whyrank.errors." in message["message"]:
        lines = message["message"].strip().splitlines()
        message["message"] = lines[-1].partition(": ")[2]
    await send(message)
