"""Several workers on one socket; one that ends or hangs is replaced, whatever ended it.

uvicorn's own supervisor asks one worker after the other for a sign of life and waits for it: a worker that is killed
just then is missed until the wait is over, and so are all others.
"""

from __future__ import annotations

import contextlib
import logging
import logging.config
import multiprocessing
import signal
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from socket import socket
from types import FrameType

from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import LOGGING_CONFIG

from whyrank.service.server import GRACE, Server, make_config
from whyrank.service.settings import Settings

LOOK = 0.5  # seconds between two looks where nothing happens
HUNG = 120.0  # seconds without a sign of life after which a worker is killed
LONGEST = 30.0  # seconds between two starts of a worker that cannot start
STARTUP_FAILURE = 3  # exit code of uvicorn
RETRY = 5.0  # seconds until a worker that could not be started is tried again
log = logging.getLogger("uvicorn.error")
spawn = multiprocessing.get_context("spawn")


def work(application: str, listening: socket, beats: Connection) -> None:
    """What a worker does."""

    async def beat() -> None:
        with contextlib.suppress(OSError):  # the parent is gone, and this process is about to be
            beats.send_bytes(b".")

    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C reaches all processes of a terminal
        Server(make_config(Settings.from_environment(), application, beat)).run(sockets=[listening])


@dataclass
class Worker:
    """A process, and when it was last seen to serve (None: not yet)."""

    process: SpawnProcess
    beats: Connection
    seen: float | None = None


@dataclass
class Workers:
    """The workers of a service. `run` returns when it is told to stop (SIGINT, SIGTERM)."""

    application: str
    listening: socket
    count: int
    stopping: bool = False
    failed: bool = False  # whether it stops because no worker could start
    served: bool = False  # whether any worker ever did
    workers: list[Worker] = field(default_factory=list)
    _delay: float = 1.0
    _due: list[float] = field(default_factory=list)  # when others are started, the next one first

    def run(self) -> bool:
        """Whether the service could start."""
        logging.config.dictConfig(LOGGING_CONFIG)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        self.workers = [self._started() for _ in range(self.count)]
        while not self.stopping:
            self.look(LOOK)
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join(GRACE + LOOK)
            worker.process.kill()
            worker.process.join()
        return not self.failed

    def look(self, seconds: float) -> None:
        """Wait for news of any worker, and replace those that ended or hang."""
        wait([each for worker in self.workers for each in (worker.process.sentinel, worker.beats)], seconds)
        now = time.monotonic()
        for worker in list(self.workers):
            self._listen(worker, now)
            if worker.process.exitcode is None and worker.seen is not None and now - worker.seen > HUNG:
                log.error("worker [%s] gives no sign of life and is killed", worker.process.pid)
                worker.process.kill()
                worker.process.join()
            if worker.process.exitcode is not None and not self.stopping:
                self._replace(worker, now)
        while self._due and self._due[0] <= now and not self.stopping:
            self._due.pop(0)
            try:
                self.workers.append(self._started())
            except OSError as error:  # no process or descriptor left: others go on, and it is tried again
                log.error("a worker cannot be started (%s); trying again in %.0f s", error, RETRY)
                self._due.append(now + RETRY)

    def _listen(self, worker: Worker, now: float) -> None:
        try:
            while worker.beats.poll():
                worker.beats.recv_bytes()
                worker.seen, self.served, self._delay = now, True, 1.0
        except (EOFError, OSError):  # the worker has ended
            worker.process.join(LOOK)

    def _replace(self, worker: Worker, now: float) -> None:
        code, pid = worker.process.exitcode, worker.process.pid
        self.workers.remove(worker)
        worker.beats.close()
        mark_process_dead(pid)  # type: ignore[no-untyped-call]
        if code == STARTUP_FAILURE and not self.served:
            self.stopping = self.failed = True
            return
        delay = 0.0
        if worker.seen is None:  # it could not start, which may be for a reason that passes
            delay, self._delay = self._delay, min(2 * self._delay, LONGEST)
        log.error("worker [%s] ended (code %s); another one is started in %.0f s", pid, code, delay)
        self._due.append(now + delay)
        self._due.sort()

    def _started(self) -> Worker:
        ours, theirs = spawn.Pipe(duplex=False)
        process = spawn.Process(target=work, args=(self.application, self.listening, theirs))
        process.start()
        theirs.close()  # so that its end is the worker's end
        return Worker(process, ours)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True
