"""What stands before every route: names, keys, limits, headers and counts, in one layer that costs little."""

from __future__ import annotations

import math
import re
import time
from functools import lru_cache, partial
from typing import NamedTuple

from starlette._utils import get_route_path
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whyrank.service.calls import Raw, Visitor, send_whole
from whyrank.service.limits import ApiKeys, Buckets
from whyrank.service.measures import Measures
from whyrank.service.problems import MEDIA, Problem, problem_from, too_large
from whyrank.service.settings import SCOPES, Settings

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
PROBES = ("/healthz", "/readyz")  # asked by machines that know no names, as often as they like
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
READS = ("GET", "HEAD", "OPTIONS")
GONE = 499  # as proxies count a client that went away before its answer


class Head(NamedTuple):
    """What the guard looks at in the headers of a request."""

    hosts: list[bytes]
    authorization: bytes
    length: bytes
    origin: bytes
    fetch_site: bytes


class Guard:
    """An ASGI layer around the router: it finds out who asks, and the routes decide what they may."""

    def __init__(self, app: ASGIApp, settings: Settings, measures: Measures) -> None:
        self.app, self.settings, self.measures = app, settings, measures
        self.keys = ApiKeys(settings.keys)
        self.buckets = Buckets(settings.rate / settings.workers)
        self.state: object = None  # of the worker, once it has started

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                scope["app"] = self
                await self.app(scope, receive, partial(_say_briefly, send))
            return
        begin, status = time.perf_counter(), 0
        scope["root_path"] = self.settings.prefix  # also right where a proxy has cut the prefix off already
        scope["app"], scope["whyrank.state"] = self, self.state
        path = get_route_path(scope)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *(OF_API if path.startswith("/v1/") else HEADERS)]
            await send(message)

        try:
            self._admit(scope, path)
            if path == "":
                await RedirectResponse(scope["path"] + "/")(scope, receive, sending)
            else:
                await self.app(scope, receive, sending)
        except ClientDisconnect:
            status = GONE
        except Exception as error:
            if status:  # the answer is under way: the server ends the connection and logs why
                raise
            problem = problem_from(error)
            headers = [(name.lower().encode(), text.encode()) for name, text in (problem.headers or {}).items()]
            await send_whole(sending, problem.status, Raw(problem.body(), MEDIA, headers))
            if problem.kind == "internal":
                raise
        finally:
            route = getattr(scope.get("route"), "path", None)
            self.measures.count(route, scope["method"], status or 500, time.perf_counter() - begin)

    def _admit(self, scope: Scope, path: str) -> None:
        """Find out who asks; raises a Problem for what no route is to see."""
        if CONTROL.search(path):
            raise Problem("invalid-request", 400, "a path must not hold control characters")
        client = scope["client"][0] if scope.get("client") else ""
        head = _head(scope)
        visitor = self._visitor(client, head.authorization)
        scope["whyrank.visitor"] = visitor
        if path in PROBES:
            return
        self._check_host(head)
        check_origin(scope["method"], head)
        self._take_token(visitor.client)
        if head.length.isdigit() and int(head.length[:20]) > self.settings.body_limit:
            raise too_large(self.settings.body_limit)

    def _visitor(self, client: str, authorization: bytes) -> Visitor:
        """Return who asks by the key that is sent; without keys anybody may do everything."""
        if not self.keys:
            return Visitor(client, SCOPES)
        scheme, _, key = authorization.partition(b" ")
        found = self.keys.find(key.strip()) if scheme.lower() == b"bearer" else None
        return Visitor(client, None) if found is None else Visitor(*found)

    def _take_token(self, client: str) -> None:
        wait = self.buckets.wait(client, time.monotonic())
        if wait:
            seconds = str(max(1, math.ceil(wait)))
            raise Problem("rate-limited", 429, f"try again in {seconds} s", {"Retry-After": seconds})

    def _check_host(self, head: Head) -> None:
        """Raise a Problem for a name that is not ours.

        A web page can have its own name lead to this machine, and its scripts would then read what they are answered.
        """
        if not self.settings.hosts:
            return
        host = host_name(head.hosts[0].decode("latin-1")) if len(head.hosts) == 1 else ""
        if host not in self.settings.hosts:
            hint = "start it with --allow-host if this is a name of it"
            raise Problem("unknown-host", 421, f"this service does not answer for the host {host[:100]!r}; {hint}")


def _head(scope: Scope) -> Head:
    """Read the headers in one pass; of one that comes twice the last counts, but for hosts."""
    hosts, authorization, length, origin, fetch_site = [], b"", b"0", b"", b""
    for name, value in scope["headers"]:
        if name == b"host":
            hosts.append(value)
        elif name == b"content-length":
            length = value
        elif name == b"authorization":
            authorization = value
        elif name == b"origin":
            origin = value
        elif name == b"sec-fetch-site":
            fetch_site = value
    return Head(hosts, authorization, length, origin, fetch_site)


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


@lru_cache(256)
def host_name(given: str) -> str:
    """Return a host without its port, as it is compared."""
    name, separator, port = given.rpartition(":")
    has_port = separator and port.isdigit() and (":" not in name or name.endswith("]"))  # not the end of ::1
    return (name if has_port else given).strip("[]").rstrip(".").lower()


async def _say_briefly(send: Send, message: Message) -> None:
    """Say in one line why a start failed, as the command line does; tracebacks are for bugs."""
    if message["type"] == "lifespan.startup.failed" and "whyrank.errors." in message["message"]:
        lines = message["message"].strip().splitlines()
        message["message"] = lines[-1].partition(": ")[2]
    await send(message)
