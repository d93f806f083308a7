"""What stands before every route: keys, limits, headers and counts, in one layer that costs little."""

from __future__ import annotations

import asyncio
import math
import time
from functools import partial

from starlette._utils import get_route_path
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whyrank.service.limits import Buckets, Keys, needed_scope
from whyrank.service.measures import Measures
from whyrank.service.problems import Problem, forbidden
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
STORES = ("/v1/feedback", "/v1/studies", "/v1/take/", "/v1/experiments")
GONE = 499  # as proxies count a client that went away before its answer


class Guard:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, settings: Settings, measures: Measures) -> None:
        self.app, self.settings, self.measures = app, settings, measures
        self.keys = Keys(settings.keys)
        self.buckets = Buckets(settings.rate / settings.workers)
        self.under_way = {True: 0, False: 0}  # requests that need the store, and the others: these never wait for it
        self.unfinished = 0  # bytes of bodies that have not come to their end

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

        try:
            if path == "":
                await RedirectResponse(scope["path"] + "/")(scope, receive, sending)
            elif path in ALWAYS_OPEN:
                await self.app(scope, receive, sending)
            else:
                self._check_host(scope)
                self._admit(scope, path)
                body = receive if scope["method"] in ("GET", "HEAD") else await self._whole(receive)
                await self._run(scope, path, body, sending)
        except Problem as problem:
            await problem.response()(scope, receive, sending)
        except ClientDisconnect:
            status = GONE
        finally:
            self.measures.count(scope, status, time.perf_counter() - begin)

    async def _run(self, scope: Scope, path: str, receive: Receive, send: Send) -> None:
        """Hand a complete request to the application, unless too many are there already."""
        stores = path.startswith(STORES)
        if self.under_way[stores] >= self.settings.in_flight:
            raise _overloaded()
        self.under_way[stores] += 1
        try:
            await asyncio.sleep(0)  # few pairs are ranked without a pause: all that have come are counted before one is
            await self.app(scope, receive, send)
        finally:
            self.under_way[stores] -= 1

    def _check_host(self, scope: Scope) -> None:
        """Raise a Problem for a name that is not ours: a web page can have its own name lead to this machine, and its
        scripts would then read what they are answered."""
        if not self.settings.hosts:
            return
        given = [value for name, value in scope["headers"] if name == b"host"]
        host = host_name(given[0].decode("latin-1")) if len(given) == 1 else ""
        if host not in self.settings.hosts:
            hint = "start it with --allow-host if this is a name of it"
            raise Problem("unknown-host", 421, f"this service does not answer for the host {host[:100]!r}; {hint}")

    def _admit(self, scope: Scope, path: str) -> None:
        """Raise a Problem unless this request may go on."""
        headers = dict(scope["headers"])
        client = scope["client"][0] if scope.get("client") else ""
        if self.keys and (path.startswith("/v1/") or path == "/metrics") and not path.startswith("/v1/take/"):
            scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
            found = self.keys.find(key.strip()) if scheme.lower() == b"bearer" else None
            if found is None:
                self._take_token(client)  # guesses are slowed down too
                hint = "send a key of this service as `Authorization: Bearer KEY`"
                raise Problem("unauthorized", 401, hint, {"WWW-Authenticate": "Bearer"})
            client, scope["whyrank.scopes"] = found
            needed = needed_scope(scope["method"], path)
            if needed not in found[1]:
                self._take_token(client)
                raise forbidden(needed)
        self._take_token(client)
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > self.settings.body_limit:
            raise self._too_large()

    def _take_token(self, client: str) -> None:
        wait = self.buckets.wait(client, time.monotonic())
        if wait:
            seconds = str(max(1, math.ceil(wait)))
            raise Problem("rate-limited", 429, f"try again in {seconds} s", {"Retry-After": seconds})

    async def _whole(self, receive: Receive) -> Receive:
        """Wait for the end of the body, so that clients that are slow to send one keep nobody else waiting."""
        body, more = bytearray(), True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part, more = message.get("body", b""), message.get("more_body", False)
                body += part
                self.unfinished += len(part)
                if len(body) > self.settings.body_limit:
                    raise self._too_large()
                if self.unfinished > self.settings.in_flight * self.settings.body_limit:
                    raise _overloaded()
        finally:
            self.unfinished -= len(body)
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def receiving() -> Message:
            return whole.pop() if whole else await receive()

        return receiving

    def _too_large(self) -> Problem:
        limit = f"{self.settings.body_limit:,}"
        return Problem("body-too-large", 413, f"the body may have {limit} bytes; send it in parts")


def _overloaded() -> Problem:
    return Problem("overloaded", 503, "too many requests are under way; try again", {"Retry-After": "1"})


def host_name(given: str) -> str:
    """A host without its port, as it is compared."""
    name, separator, port = given.rpartition(":")
    has_port = separator and port.isdigit() and (":" not in name or name.endswith("]"))  # not the end of ::1
    return (name if has_port else given).strip("[]").rstrip(".").lower()


async def _say_briefly(send: Send, message: Message) -> None:
    """A start that failed says why in one line, as the command line does; tracebacks are for bugs."""
    if message["type"] == "lifespan.startup.failed" and "whyrank.errors." in message["message"]:
        lines = message["message"].strip().splitlines()
        message["message"] = lines[-1].partition(": ")[2]
    await send(message)
