"""uvicorn's HTTP/1.1 with two holes mended: offers of HTTP/2, and requests on a connection that is being closed."""

from __future__ import annotations

import re

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# An offer to go on in HTTP/2, as curl --http2 and Java's client make it. It may be declined by ignoring it, but the
# parser takes what follows for another protocol, and the body is lost.
OFFER = re.compile(rb"(?i)\r\nupgrade:[ \t]*h2c[ \t]*(?=\r\n)")


class Protocol(HttpToolsProtocol):
    """One connection."""

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # what was sent after the last request that is answered
        if self.cycle is None or not self.cycle.more_body:
            head, end, rest = data.partition(b"\r\n\r\n")
            data = OFFER.sub(b"", head + end[:2]) + end[2:] + rest
        super().data_received(data)
