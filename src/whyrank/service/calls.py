"""One request on its way: from a matched route to its answer.

An `Operation` declares a route once: its path, who may use it, what it takes and what it answers. The router, the
checks and the OpenAPI document follow from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from whyrank.service.problems import TEXT, Problem, forbidden, invalid, json_of
from whyrank.service.state import State

Result = TypeVar("Result")
Handler = TypeVar("Handler", bound="Callable[[ApiCall, Any], Awaitable[object]]")
JSON = "application/json"
INLINE = 100  # cost up to which work is done sooner than a thread is handed it


class Visitor(NamedTuple):
    """Who asks, as the guard has found out."""

    client: str  # the name of a key, or an address
    scopes: Collection[str] | None  # what the key may do; None: keys are needed, and this one is missing or wrong


@dataclass(frozen=True)
class ApiCall:
    """A request as the function that answers it sees it."""

    state: State
    client: str
    scopes: Collection[str]
    path: Mapping[str, str]
    receive: Receive

    async def ranked(self, cost: float, work: Callable[[], Result]) -> Result:
        """Do work that takes the processor: at once where it is light, else in a thread, in turn with other clients.

        Work that costs 100 takes some 10 ms. What nobody waits for any more is not begun.
        """
        if cost <= INLINE:
            with self.state.light.one():
                await asyncio.sleep(0)  # all that have come are counted before one is answered
                return work()
        return await self._while_wanted(self.state.ranking(self.client, cost, work))

    async def _while_wanted(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Stop waiting for work whose client is gone."""
        doing, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(self.receive))
        try:
            await asyncio.wait((doing, gone), return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise ClientDisconnect
            return doing.result()
        finally:
            doing.cancel()
            gone.cancel()
            await asyncio.gather(doing, gone, return_exceptions=True)


class Raw(NamedTuple):
    """An answer that is text already."""

    body: bytes
    media: str = JSON
    headers: Sequence[tuple[bytes, bytes]] = ()


@dataclass(frozen=True)
class Operation:
    """A route of the API.

    `asked` is the body of a POST, or else the parameters in path and query; `scope` None needs no key. The function
    that answers returns a struct or a dict, which become JSON, or a `Raw`.
    """

    method: str
    path: str
    scope: str | None
    handler: Callable[[ApiCall, Any], Awaitable[object]]
    asked: type | None = None
    answer: type | None = None
    status: int = 200
    problems: tuple[int, ...] = ()
    media: str = JSON
    tag: str = "reasons"

    @property
    def has_body(self) -> bool:
        """Whether what is asked for is in the body."""
        return self.method == "POST" and self.asked is not None

    @property
    def name(self) -> str:
        """What the route is called in the document."""
        return self.handler.__name__

    def route(self) -> Route:
        """Return this as a route of Starlette's router."""
        return Route(self.path, Endpoint(self), methods=[self.method], name=self.name)


class Operations(list[Operation]):
    """Routes in the order in which they are matched."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def add(self, method: str, path: str, scope: str | None, **about: Any) -> Callable[[Handler], Handler]:
        """Declare the function below as the answer of a route."""

        def declare(handler: Handler) -> Handler:
            self.append(Operation(method, path, scope, handler, **{"tag": self._tag, **about}))
            return handler

        return declare


class Endpoint:
    """An ASGI application that answers one route: may it be asked, what is asked, the answer as JSON."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self._decoder = msgspec.json.Decoder(operation.asked) if operation.has_body else None
        fields = () if operation.has_body or operation.asked is None else msgspec.structs.fields(operation.asked)
        self._parameters = frozenset(each.name for each in fields)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation, visitor = self.operation, scope["whyrank.visitor"]
        check_scope(visitor, operation.scope)
        state: State = scope["whyrank.state"]
        path = scope["path_params"]
        call = ApiCall(state, visitor.client, visitor.scopes or (), path, receive)
        if self._decoder is not None:
            self._no_parameters(scope["query_string"])
            asked = self._decoder.decode(await state.bodies.read(receive))
        else:
            if scope["method"] not in ("GET", "HEAD"):
                await state.bodies.read(receive)  # to its end, so that the connection can be used again
            asked = self._parameters_of(scope["query_string"], path)
        answer = await operation.handler(call, asked)
        raw = answer if isinstance(answer, Raw) else Raw(json_of(answer))
        await send_whole(send, operation.status, raw)

    def _no_parameters(self, query: bytes) -> None:
        if query:
            name = (parse_qsl(query.decode("latin-1"), keep_blank_values=True) or [("?", "")])[0][0]
            raise Problem("invalid-request", 422, f"no parameter {name[:TEXT]!r}; this path takes none")

    def _parameters_of(self, query: bytes, path: Mapping[str, str]) -> Any:
        """Decode what path and query name; a parameter that a route does not have is a mistake, not to be ignored."""
        if self.operation.asked is None:
            if self.operation.scope is not None:  # probes of what is open may say who they are
                self._no_parameters(query)
            return None
        given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
        unknown = [name for name in given if name not in self._parameters or name in path]
        if unknown:
            known = [name for name in self._parameters if name not in path]
            there = f"there are {', '.join(sorted(known))}" if known else "this path takes none"
            raise Problem("invalid-request", 422, f"no parameter {unknown[0][:TEXT]!r}; {there}")
        try:
            return msgspec.convert({**given, **path}, self.operation.asked, strict=False)
        except msgspec.ValidationError as error:
            raise invalid(error) from error


def check_scope(visitor: Visitor, scope: str | None) -> None:
    """Raise a Problem unless whoever asks may do what a route needs."""
    if scope is None:
        return
    if visitor.scopes is None:
        hint = "send a key of this service as `Authorization: Bearer KEY`"
        raise Problem("unauthorized", 401, hint, {"WWW-Authenticate": "Bearer"})
    if scope not in visitor.scopes:
        raise forbidden(scope)


async def send_whole(send: Send, status: int, raw: Raw) -> None:
    """Send an answer."""
    headers = [(b"content-length", b"%d" % len(raw.body)), (b"content-type", raw.media.encode()), *raw.headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": raw.body})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
