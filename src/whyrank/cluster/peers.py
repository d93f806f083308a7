"""Arrays from machine to machine, over connections of their own: faster than through Ray's object store (docs/ray.md).

Every machine listens at the address by which Ray knows it, and both ends of a connection prove that they know the
secret of the run, which came to them through Ray.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyrank.cluster.session import Lost

Address = tuple[str, int]
Tag = tuple[int, int, int, int]
HEADER = struct.Struct("<4iqq")  # a tag, and the shape of an array of float32
WAIT = 60.0  # seconds for all machines to meet


class Peers:
    """The other machines of a run. What is sent waits there until somebody asks for it by its tag."""

    def __init__(self, me: int, host: str, secret: bytes) -> None:
        self.me, self.secret, self.sent_bytes = me, secret, 0
        self._listener = Listener((host, 0), "AF_INET", backlog=64, authkey=secret)
        self.address: Address = self._listener.address
        self._sockets: dict[int, socket.socket] = {}
        self._outgoing: dict[int, queue.SimpleQueue[tuple[Tag, NDArray[np.float32]] | None]] = {}
        self._arrived: dict[tuple[int, Tag], NDArray[np.float32]] = {}
        self._changed, self._trouble = threading.Condition(), ""
        self._start(self._accept)

    def meet(self, addresses: Sequence[Address]) -> None:
        """Connect to all machines: to those before this one from here, the others come."""
        for peer, address in enumerate(addresses[: self.me]):
            try:
                connection = Client((str(address[0]), int(address[1])), "AF_INET", authkey=self.secret)
                connection.send_bytes(struct.pack("<i", self.me))
            except (OSError, EOFError, AuthenticationError) as error:
                raise Lost(f"machine {peer} does not answer at {address} ({error})") from None
            self._add(peer, connection)
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
                connection = self._listener.accept()
                (peer,) = struct.unpack("<i", connection.recv_bytes(4))
            except (AuthenticationError, EOFError, OSError, struct.error):
                continue  # somebody else, or this listener was closed
            self._add(peer, connection)

    def _add(self, peer: int, connection: Connection) -> None:
        plain = socket.socket(fileno=os.dup(connection.fileno()))
        connection.close()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._outgoing[peer] = queue.SimpleQueue()
        self._start(self._send_to, plain, self._outgoing[peer])
        self._start(self._receive_from, peer, plain)
        with self._changed:
            self._sockets[peer] = plain
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


class PeersTeam:
    """All machines of a run, as softmax training knows them (`training.team`)."""

    def __init__(self, peers: Peers, size: int) -> None:
        self.peers, self.me, self.size, self._swaps = peers, peers.me, size, 0

    def swap(self, mine: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        self._swaps += 1
        tag = (self._swaps, 0, 0, 0)
        others = [machine for machine in range(self.size) if machine != self.me]
        for machine in others:
            self.peers.send(machine, tag, mine[machine].reshape(1, -1))
        found = list(mine)
        for machine in others:
            found[machine] = self.peers.receive(machine, tag).ravel()
        return found


def _fill(source: socket.socket, place: memoryview) -> None:
    while place:
        count = source.recv_into(place)
        if not count:
            raise EOFError("the connection was closed")
        place = place[count:]
