"""Arrays from machine to machine, over connections of their own: faster than through Ray's object store (docs/ray.md).

Every machine listens at the address by which Ray knows it, and both ends of a connection prove that they know the
secret of this start of the run, which came to them through Ray. Who says nothing is not waited for, and a machine that
no longer answers is noticed also where no connection was closed.
"""

from __future__ import annotations

import contextlib
import hmac
import queue
import secrets
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.lab.ray.session import Lost

Address = tuple[str, int]
Tag = tuple[int, int, int, int]
HEADER = struct.Struct("<4iqq")  # a tag, and the shape of an array of float32
HELLO = struct.Struct("<32si")  # a number drawn for this connection, and who says hello
WAIT = 60.0  # seconds for all machines to meet
HANDSHAKE = 20.0  # seconds for one connection
HANDSHAKES = 256  # at a time
PAUSE = 0.1  # seconds after the system refused to accept a connection
# After a minute without a sign of life (10 s idle, ten questions) or with something that nobody takes, in milliseconds.
LIVELY = {"TCP_NODELAY": 1, "TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 10, "TCP_USER_TIMEOUT": 60_000}


class Peers:
    """The other machines of a run. What is sent waits there until somebody asks for it by its tag."""

    def __init__(self, me: int, host: str, secret: bytes) -> None:
        self.me, self.secret, self.sent_bytes = me, secret, 0
        self._listener = socket.create_server((host, 0), backlog=64)
        self.address: Address = self._listener.getsockname()
        self._sockets: dict[int, socket.socket] = {}
        self._outgoing: dict[int, queue.SimpleQueue[tuple[Tag, NDArray[np.float32]] | None]] = {}
        self._arrived: dict[tuple[int, Tag], NDArray[np.float32]] = {}
        self._greeted: deque[socket.socket] = deque()  # connections whose other end has not proved itself yet
        self._changed, self._trouble = threading.Condition(), ""
        self._start(self._accept)

    def meet(self, addresses: Sequence[Address]) -> None:
        """Connect to all machines: to those before this one from here, the others come."""
        for peer, address in enumerate(addresses[: self.me]):
            deadline = monotonic() + HANDSHAKE
            try:
                connection = socket.create_connection((str(address[0]), int(address[1])), HANDSHAKE)
                self._greet(connection, peer, deadline)
            except (OSError, EOFError) as error:
                raise Lost(f"machine {peer} does not answer at {address} ({error})") from None
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._sockets) == len(addresses) - 1, WAIT):
                raise Lost(f"only {len(self._sockets) + 1} of {len(addresses)} machines have met")

    def send(self, peer: int, tag: Tag, array: NDArray[np.float32]) -> None:
        """Send an array that is not changed any more; it leaves while other work goes on."""
        self.sent_bytes += array.nbytes
        self._outgoing[peer].put((tag, array))

    def receive(self, peer: int, tag: Tag) -> NDArray[np.float32]:
        """What a machine sends under a tag; raises Lost where a machine is no longer there."""
        with self._changed:
            self._changed.wait_for(lambda: (peer, tag) in self._arrived or self._trouble)
            if (peer, tag) not in self._arrived:
                raise Lost(self._trouble)
            return self._arrived.pop((peer, tag))

    def close(self) -> None:
        """Leave: the others then know that they wait in vain."""
        self._lose("this machine has left")
        with contextlib.suppress(OSError):  # some systems need this to wake who accepts, others refuse it
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for outgoing in self._outgoing.values():
            outgoing.put(None)
        for each in self._sockets.values():
            with contextlib.suppress(OSError):  # the other end may have been quicker
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _start(self, work: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        while not self._trouble:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # this listener was closed, or there is no descriptor left for now
                with self._changed:
                    self._changed.wait_for(lambda: self._trouble, PAUSE)
                continue
            with self._changed:
                self._greeted.append(connection)
                oldest = self._greeted.popleft() if len(self._greeted) > HANDSHAKES else None
            if oldest is not None:  # a machine of the run takes milliseconds
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._start(self._answer, connection)  # others need not wait for one who says nothing

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):  # somebody else
            self._greet(connection, None, monotonic() + HANDSHAKE)
        with self._changed, contextlib.suppress(ValueError):  # was the oldest of too many
            self._greeted.remove(connection)

    def _greet(self, connection: socket.socket, peer: int | None, deadline: float) -> None:
        """Let both ends prove that they know the secret; `peer` is who must be there, None: a machine after this.

        A proof names the end it is for and holds both hellos, that is both machines; the run is in its key. Who accepts
        proves nothing before the other end has: a stranger cannot let one listener answer for another.
        """
        try:
            connection.settimeout(HANDSHAKE)
            mine, hello = HELLO.pack(secrets.token_bytes(32), self.me), bytearray(HELLO.size)
            connection.sendall(mine)
            _fill(connection, memoryview(hello), deadline)
            _, other = HELLO.unpack(hello)
            if other <= self.me if peer is None else other != peer:
                raise OSError("it is not the machine that is meant")
            hellos = bytes(hello) + mine if peer is None else mine + bytes(hello)
            if peer is None:
                self._require_proof(connection, b"connect" + hellos, deadline)
                connection.sendall(hmac.digest(self.secret, b"accept" + hellos, "sha256"))
            else:
                connection.sendall(hmac.digest(self.secret, b"connect" + hellos, "sha256"))
                self._require_proof(connection, b"accept" + hellos, deadline)
        except BaseException:
            connection.close()
            raise
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in LIVELY.items():
            if hasattr(socket, name):  # not every system has all of them
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._add(other, connection)

    def _require_proof(self, connection: socket.socket, what: bytes, deadline: float) -> None:
        proof = bytearray(32)
        _fill(connection, memoryview(proof), deadline)
        if not hmac.compare_digest(proof, hmac.digest(self.secret, what, "sha256")):
            raise OSError("it is not of this run")

    def _add(self, peer: int, connection: socket.socket) -> None:
        with self._changed:
            if peer in self._sockets:
                connection.close()
                return
            self._outgoing[peer] = queue.SimpleQueue()
            self._sockets[peer] = connection
            self._start(self._send_to, connection, self._outgoing[peer])
            self._start(self._receive_from, peer, connection)
            self._changed.notify_all()

    def _send_to(self, to: socket.socket, outgoing: queue.SimpleQueue[tuple[Tag, NDArray[np.float32]] | None]) -> None:
        while (item := outgoing.get()) is not None:
            tag, array = item
            try:
                to.sendall(HEADER.pack(*tag, *array.shape))
                to.sendall(array.data.cast("B") if array.size else b"")
            except Exception as error:  # whatever it is, others must not wait for ever
                self._lose(f"a machine is gone ({error})")
                return

    def _receive_from(self, peer: int, source: socket.socket) -> None:
        header = bytearray(HEADER.size)
        try:
            while True:
                _fill(source, memoryview(header))
                *tag, rows, width = HEADER.unpack(header)
                array = np.empty((rows, width), np.float32)
                if array.size:
                    _fill(source, array.data.cast("B"))
                with self._changed:
                    self._arrived[peer, tuple(tag)] = array
                    self._changed.notify_all()
        except Exception as error:  # whatever it is, others must not wait for ever
            self._lose(f"machine {peer} is gone ({error})")

    def _lose(self, trouble: str) -> None:
        with self._changed:
            self._trouble = self._trouble or trouble
            self._changed.notify_all()


def _fill(source: socket.socket, place: memoryview, deadline: float | None = None) -> None:
    """Receive what a place has room for; until a deadline, however little comes at a time."""
    while place:
        if deadline is not None:
            left = deadline - monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            source.settimeout(left)
        count = source.recv_into(place)
        if not count:
            raise EOFError("the connection was closed")
        place = place[count:]
