"""HTTP as the service takes it: uvicorn's protocol, with bounds on what a connection may send, hold open and leave
unread. uvicorn itself bounds none of these."""

from __future__ import annotations

import asyncio
import time
from functools import cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from whyrank.service.guard import HEADERS
from whyrank.service.problems import Problem

URL_BYTES = 1 << 14
HEAD_BYTES = 1 << 16  # of all headers of a request
OVERHEAD_BYTES = 1 << 20  # of chunk sizes and trailers, which are not part of a body
PIPELINED = 16  # requests of one connection that wait for the one before
HEAD_SECONDS = 10.0  # from connecting, or the first byte of a later request, to the end of the headers
BODY_SECONDS = 30.0
UNREAD_SECONDS = 10.0  # in which a client must take UNREAD_BYTES of its answer, or all of the rest
UNREAD_BYTES = 1 << 16
ACCEPTED = 64  # connections taken at once; asyncio would take a whole queue before one of them can be closed again
CONNECTIONS = 4096
SPARE = 6 * ACCEPTED  # descriptors for connections that are just coming or going, for models and for the store


class Protocol(HttpToolsProtocol):
    """One connection. `expire` is called about once a second."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # whatever the client has not taken counts
        self._since, self._in_head = time.monotonic(), False
        self._taken = self._head = 0  # bytes, as they came and as headers
        self._unread: tuple[float, int] | None = None  # when and how much, at the last look
        self._refusal: Problem | None = None
        if len(self.connections) > most_connections():
            self._make_room()

    def data_received(self, data: bytes) -> None:
        self._taken += len(data)
        super().data_received(data)
        limit = HEAD_BYTES + URL_BYTES if self._in_head else OVERHEAD_BYTES
        if self._taken > limit and not self.transport.is_closing():
            self._refusal = _headers_too_large()
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._since, self._in_head, self._taken, self._head = time.monotonic(), True, 0, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > URL_BYTES:
            self._refuse(Problem("url-too-long", 414, f"a URL may have {URL_BYTES:,} bytes"))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._head += len(name) + len(value)
        if self._head > HEAD_BYTES:
            self._refuse(_headers_too_large())

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED:
            self._refuse(Problem("overloaded", 503, f"at most {PIPELINED} requests may wait in one connection"))
        self._since, self._in_head, self._taken = time.monotonic(), False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._taken -= len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        self._since = time.monotonic()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closing would wait until the client reads
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for whatever is wrong with a request before it reaches the application."""
        problem = self._refusal or Problem("invalid-request", 400, "the request is not HTTP/1.1")
        self._end(problem)

    @property
    def waits_for_client(self) -> bool:
        """Whether there is no complete request whose answer is under way."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def expire(self, now: float) -> None:
        """End a connection whose client takes too long to send a request or to take an answer."""
        left = self.transport.get_write_buffer_size()
        if left:
            if self._unread is None:
                self._unread = now, left
            elif now - self._unread[0] >= UNREAD_SECONDS:
                if left > self._unread[1] - UNREAD_BYTES:
                    self.transport.abort()
                self._unread = now, left
            return
        self._unread = None
        if self.transport.is_closing() or not self.waits_for_client or self.flow.read_paused:
            return
        in_body = self.cycle is not None and not self.cycle.response_complete
        if now - self._since >= (BODY_SECONDS if in_body else HEAD_SECONDS):
            if in_body or self._in_head:
                self._end(Problem("too-slow", 408, "the request did not come in time"))
            else:
                self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Stop the parser, from one of its callbacks."""
        self._refusal = problem
        raise problem

    def _end(self, problem: Problem) -> None:
        """Answer, unless another answer is under way, and close."""
        cycle, left = self.cycle, self.transport.get_write_buffer_size()
        half_answered = cycle is not None and cycle.response_started and not cycle.response_complete
        if self.waits_for_client and not (self.pipeline or half_answered or left):
            self.transport.write(_raw(problem))
            self.transport.close()
        else:
            self.transport.abort()

    def _make_room(self) -> None:
        """Close the connection that has been waiting for its client longest, rather than turn a new one away."""
        others: set[Any] = self.connections - {self}
        waiting = [each for each in others if each.waits_for_client]
        oldest = min(waiting, key=lambda each: each._since, default=self)
        oldest.transport.abort()
        self.connections.discard(oldest)  # its descriptor is free when the loop comes round


@cache
def most_connections() -> int:
    """How many connections a worker holds: fewer than it has descriptors, so that there is always one for a new one."""
    try:
        import resource
    except ImportError:  # not on Windows
        return CONNECTIONS
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return CONNECTIONS
    return min(max(descriptors - SPARE, descriptors // 3, 1), CONNECTIONS)


def _headers_too_large() -> Problem:
    return Problem("headers-too-large", 431, f"headers may have {HEAD_BYTES:,} bytes")


def _raw(problem: Problem) -> bytes:
    """A problem as it goes over the wire where no application is there to send it."""
    response = problem.response()
    headers = [*response.raw_headers, *HEADERS, (b"connection", b"close")]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    return b"HTTP/1.1 %d \r\n" % problem.status + lines + b"\r\n" + bytes(response.body)
