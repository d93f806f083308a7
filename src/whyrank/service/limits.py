"""Who may ask, and how much: API keys, token buckets, and places for what is under way."""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import hmac
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from whyrank.service.problems import overloaded, too_large
from whyrank.service.settings import SCOPES

CLIENTS = 10_000  # buckets kept; the one used longest ago is forgotten first


class ApiKeys:
    """Known API keys, by hash only, and what each may: `HASH` (everything) or `HASH scope,scope`."""

    def __init__(self, keys: Sequence[str]) -> None:
        words = [each.split() for each in keys]
        self._hashes = [bytes.fromhex(each[0]) for each in words]
        self._scopes = [frozenset(each[1].split(",")) if each[1:] else frozenset(SCOPES) for each in words]

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def find(self, key: bytes) -> tuple[str, frozenset[str]] | None:
        """Find a short name of the key and its scopes, or None for a wrong or empty one.

        It takes as long for any key.
        """
        given = hashlib.sha256(key).digest()
        found: frozenset[str] | None = None
        for known, scopes in zip(self._hashes, self._scopes, strict=True):
            if hmac.compare_digest(known, given):
                found = scopes if found is None else found | scopes
        return (given.hex()[:16], found) if found is not None and key else None


class Buckets:
    """One token bucket per client: `rate` requests a second on average, twice that at once."""

    def __init__(self, rate: float) -> None:
        self.rate, self.size = rate, max(2 * rate, 1.0)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, now: float) -> float:
        """Take one token and return 0, or return the seconds until there will be one."""
        if not self.rate:
            return 0.0
        tokens, then = self._buckets.pop(client, (self.size, now))
        tokens = min(self.size, tokens + (now - then) * self.rate)
        allowed = tokens >= 1
        self._buckets[client] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self.rate


class Bodies:
    """Reads bodies to their end, so that clients that are slow to send one keep nobody else waiting."""

    def __init__(self, limit: int, together: int) -> None:
        self.limit, self._together = limit, together  # bytes of one body, and of all that have not ended
        self.unfinished = 0

    async def read(self, receive: Receive) -> bytes:
        """Read the whole body; raises a Problem for one that is too large, ClientDisconnect for one without an end."""
        body, more = bytearray(), True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part, more = message.get("body", b""), message.get("more_body", False)
                body += part
                self.unfinished += len(part)
                if len(body) > self.limit:
                    raise too_large(self.limit)
                if self.unfinished > self._together:
                    raise overloaded()
        finally:
            self.unfinished -= len(body)
        return bytes(body)


class Places:
    """How many requests may do the same thing at once; more are turned away."""

    def __init__(self, count: int) -> None:
        self._free = count

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take a place for as long as the block lasts; raises a Problem where there is none."""
        if not self._free:
            raise overloaded()
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


@dataclass(order=True)
class _Waiting:
    """Work that waits for its turn."""

    begin: float  # in units of cost: what its client has had, or had all others had when it came
    number: int
    client: str = field(compare=False)
    cost: float = field(compare=False)
    turn: asyncio.Future[None] = field(compare=False)


class Turns:
    """A few places for work of many clients: whoever has had least comes next, and what costs more counts for more.

    Where too many wait, the one is turned away that would have waited longest: the last of the client that asks most.
    """

    def __init__(self, places: int, waiting: int) -> None:
        self._places = self._free = places
        self._most = waiting
        self._waiting: list[_Waiting] = []
        self._numbers = count()
        self._now = 0.0  # where the work begins that is under way
        self._next: dict[str, float] = {}  # where a client's next work begins

    @asynccontextmanager
    async def one(self, client: str, cost: float) -> AsyncIterator[None]:
        """Wait for a turn and hold it for as long as the block lasts."""
        await self._enter(client, cost)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, client: str, cost: float) -> None:
        begin = max(self._now, self._next.get(client, 0.0))
        if self._free:
            self._free -= 1
            self._now, self._next[client] = begin, begin + cost
            return
        if len(self._waiting) >= self._most:
            last = max(self._waiting)
            if last.begin <= begin:
                raise overloaded()
            self._withdraw(last)
            last.turn.set_exception(overloaded())
        entry = _Waiting(begin, next(self._numbers), client, cost, asyncio.get_running_loop().create_future())
        heapq.heappush(self._waiting, entry)
        self._next[client] = begin + cost
        try:
            await entry.turn
        except asyncio.CancelledError:
            if entry.turn.cancelled():
                self._withdraw(entry)
            else:  # its turn came in the same moment
                self._leave()
            raise

    def _withdraw(self, entry: _Waiting) -> None:
        self._waiting.remove(entry)
        heapq.heapify(self._waiting)
        self._next[entry.client] -= entry.cost

    def _leave(self) -> None:
        if self._waiting:
            entry = heapq.heappop(self._waiting)
            self._now = entry.begin
            entry.turn.set_result(None)
            return
        self._free += 1
        if self._free == self._places:  # what was had before does not count against anybody
            self._now = 0.0
            self._next.clear()
