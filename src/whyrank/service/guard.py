"""What stands before every route: keys, limits, headers and counts, in one layer that costs little."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from starlette._utils import get_route_path
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse
from starlette.types import Message, Receive, Scope, Send

from whyrank.service.limits import ApiKeys, Buckets, needed_scope
from whyrank.service.measures import Measures
from whyrank.service.problems import Problem, forbidden, internal
from whyrank.service.settings import SCOPES, Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from whyrank.service.thin import Short

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
OF_API = [*HEADERS, (b"cache-control", b"no-store")]
ALWAYS_OPEN = ("/healthz", "/readyz")
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
READS = ("GET", "HEAD", "OPTIONS")
STORES = ("/v1/feedback", "/v1/studies", "/v1/take/", "/v1/experiments")
GONE = 499  # as proxies count a client that went away before its answer


class Head(NamedTuple):
    """What the guard looks at in the headers of a request."""

    hosts: list[bytes]
    authorization: bytes
    length: bytes
    is_json: bool
    origin: bytes
    fetch_site: bytes


class Guard:
    """An ASGI layer around the application. `short` holds the routes that are answered without the framework."""

    def __init__(
        self, app: FastAPI, settings: Settings, measures: Measures, short: Mapping[str, Short] | None = None
    ) -> None:
        self.app, self.settings, self.measures = app, settings, measures
        self.short = dict(short or {})
        self.keys = ApiKeys(settings.keys)
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
                message["headers"] = [*message["headers"], *(OF_API if path.startswith("/v1/") else HEADERS)]
            await send(message)

        try:
            if path == "":
                await RedirectResponse(scope["path"] + "/")(scope, receive, sending)
            elif CONTROL.search(path):
                raise Problem("invalid-request", 400, "a path must not hold control characters")
            elif path in ALWAYS_OPEN:
                await self.app(scope, receive, sending)
            else:
                head = _head(scope)
                self._check_host(head)
                check_origin(scope["method"], head)
                self._admit(scope, path, head)
                body = None if scope["method"] in ("GET", "HEAD") else await self._whole(receive)
                await self._run(scope, path, head.is_json, body, receive, sending)
        except Problem as problem:
            await problem.response()(scope, receive, sending)
        except ClientDisconnect:
            status = GONE
        finally:
            route = getattr(scope.get("route"), "path", None)
            self.measures.count(route, scope["method"], status, time.perf_counter() - begin)

    async def _run(
        self, scope: Scope, path: str, is_json: bool, body: bytes | None, receive: Receive, send: Send
    ) -> None:
        """Answer a complete request, unless too many are under way already."""
        stores = path.startswith(STORES) or path.endswith("/history")
        if self.under_way[stores] >= self.settings.in_flight:
            raise _overloaded()
        self.under_way[stores] += 1
        try:
            await asyncio.sleep(0)  # few pairs are ranked without a pause: all that have come are counted before one is
            short = self.short.get(path) if is_json and scope["method"] == "POST" else None
            if scope["query_string"]:
                short = None  # the framework says that there is no such parameter
            if body is not None and short is not None and await self._answered(short, scope, body, send):
                return
            await self.app(scope, receive if body is None else _again(body, receive), send)
        finally:
            self.under_way[stores] -= 1

    async def _answered(self, short: Short, scope: Scope, body: bytes, send: Send) -> bool:
        """Whether a short way has answered."""
        scope["route"] = short  # as the framework leaves it, for counts
        try:
            reply = await short(self.app.state.whyrank, body, scope.get("whyrank.scopes", SCOPES))
        except Problem:
            raise
        except Exception:  # as the framework does: the client is told, and the log has the traceback
            await internal().response()(scope, _nothing, send)
            raise
        if reply is None:
            return False
        headers = [(b"content-length", b"%d" % len(reply)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})
        return True

    def _check_host(self, head: Head) -> None:
        """Raise a Problem for a name that is not ours: a web page can have its own name lead to this machine, and its
        scripts would then read what they are answered."""
        if not self.settings.hosts:
            return
        host = host_name(head.hosts[0].decode("latin-1")) if len(head.hosts) == 1 else ""
        if host not in self.settings.hosts:
            hint = "start it with --allow-host if this is a name of it"
            raise Problem("unknown-host", 421, f"this service does not answer for the host {host[:100]!r}; {hint}")

    def _admit(self, scope: Scope, path: str, head: Head) -> None:
        """Raise a Problem unless this request may go on."""
        client = scope["client"][0] if scope.get("client") else ""
        if self.keys and (path.startswith("/v1/") or path == "/metrics") and not path.startswith("/v1/take/"):
            scheme, _, key = head.authorization.partition(b" ")
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
        if head.length.isdigit() and int(head.length[:20]) > self.settings.body_limit:
            raise self._too_large()

    def _take_token(self, client: str) -> None:
        wait = self.buckets.wait(client, time.monotonic())
        if wait:
            seconds = str(max(1, math.ceil(wait)))
            raise Problem("rate-limited", 429, f"try again in {seconds} s", {"Retry-After": seconds})

    async def _whole(self, receive: Receive) -> bytes:
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
        return bytes(body)

    def _too_large(self) -> Problem:
        limit = f"{self.settings.body_limit:,}"
        return Problem("body-too-large", 413, f"the body may have {limit} bytes; send it in parts")


def _head(scope: Scope) -> Head:
    """Headers in one pass; of one that comes twice the last counts, but for hosts."""
    hosts, authorization, length, kind, origin, fetch_site = [], b"", b"0", b"", b"", b""
    for name, value in scope["headers"]:
        if name == b"host":
            hosts.append(value)
        elif name == b"content-length":
            length = value
        elif name == b"content-type":
            kind = value
        elif name == b"authorization":
            authorization = value
        elif name == b"origin":
            origin = value
        elif name == b"sec-fetch-site":
            fetch_site = value
    return Head(hosts, authorization, length, kind == b"application/json", origin, fetch_site)


def check_origin(method: str, head: Head) -> None:
    """Raise a Problem for what another page asks a browser to send: a form needs nobody's leave to post."""
    if method in READS:
        return
    if head.fetch_site:
        own = head.fetch_site in (b"same-origin", b"none")
    else:
        own = not head.origin or head.origin.partition(b"://")[2].lower() in [host.lower() for host in head.hosts]
    if not own:
        raise Problem("other-origin", 403, "a page of another origin must not change anything here; ask from a server")


def _again(body: bytes, receive: Receive) -> Receive:
    """Receive a body that was received already, and then what comes after it."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return whole.pop() if whole else await receive()

    return receiving


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def _overloaded() -> Problem:
    return Problem("overloaded", 503, "too many requests are under way; try again", {"Retry-After": "1"})


@lru_cache(256)
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
