"""What the routes of one worker share."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy.exc import SQLAlchemyError

from whyrank.online.erased import ErasedMeanwhile
from whyrank.online.store import WAIT
from whyrank.online.visits import Followed
from whyrank.service.limits import Bodies, Places, Turns
from whyrank.service.problems import store_busy, store_failed
from whyrank.service.settings import Settings

if TYPE_CHECKING:
    from whyrank.online.assignment import Experiment
    from whyrank.online.store import Store
    from whyrank.service.arms import Arms
    from whyrank.service.measures import Measures
    from whyrank.service.registry import ModelRegistry

Result = TypeVar("Result")
THREADS = 2  # larger requests that are ranked at the same time in one worker
READERS = 4  # of the store, in one worker
RECENT = 5.0  # seconds for which an answer that reads much of the log is given again
MOST_RECENT = 32
MOST_FOLLOWED = 4  # experiments whose visits are in memory


@dataclass
class State:
    """Made when a worker starts; only the registry's contents change afterwards.

    Ranking, reading the store and writing to it have places of their own: a store that is locked or slow keeps no
    reasons waiting.
    """

    settings: Settings
    measures: Measures
    store: Store
    bodies: Bodies = field(init=False)
    light: Places = field(init=False)  # ranked at once, between other requests
    heavy: Turns = field(init=False)  # ranked in threads
    _reading: Places = field(init=False)
    _writing: Places = field(init=False)
    _arms: Arms | None = None
    models: ModelRegistry | None = None  # none where only a study is served
    _recent: dict[Hashable, tuple[float, bytes]] = field(default_factory=dict)
    _followed: dict[str, Followed] = field(default_factory=dict)
    _checked: tuple[float, Exception | None] = (-math.inf, None)

    def __post_init__(self) -> None:
        most = self.settings.in_flight
        self.bodies = Bodies(self.settings.body_limit, most * self.settings.body_limit)
        self.light, self.heavy = Places(most), Turns(THREADS, most)
        self._reading, self._writing = Places(most), Places(most)
        self._threads = anyio.CapacityLimiter(THREADS)
        self._readers = anyio.CapacityLimiter(READERS)  # who waits for the store keeps no others from a thread
        self._writers = anyio.CapacityLimiter(self.store.writers)
        self._waiters = anyio.CapacityLimiter(READERS)
        self._folders = anyio.CapacityLimiter(1)
        self._check, self._reading_log = anyio.Lock(), anyio.Lock()

    @property
    def registry(self) -> ModelRegistry:
        """The models in service."""
        assert self.models is not None
        return self.models

    @property
    def arms(self) -> Arms:
        """Experiments that run, and the log."""
        assert self._arms is not None
        return self._arms

    @arms.setter
    def arms(self, made: Arms) -> None:
        self._arms = made

    async def check_store(self) -> None:
        """Raise unless the store can be used; looks at most once a second, however many ask."""
        async with self._check:
            if time.monotonic() - self._checked[0] >= 1:
                problem = None
                try:
                    await self._read(self.store.check)
                except Exception as error:  # told to everybody who asks until the next look
                    problem = error
                self._checked = time.monotonic(), problem
        if self._checked[1] is not None:
            raise self._checked[1]

    async def ranking(self, client: str, cost: float, work: Callable[[], Result]) -> Result:
        """Do in a thread what takes long, when it is the client's turn."""
        async with self.heavy.one(client, cost):
            return await anyio.to_thread.run_sync(work, limiter=self._threads)

    async def reading(self, work: Callable[[], Result]) -> Result:
        """Do what reads the store, in a thread."""
        with self._reading.one():
            return await self._read(work)

    async def _read(self, work: Callable[[], Result]) -> Result:
        return await anyio.to_thread.run_sync(self.store.guarded, work, limiter=self._readers)

    async def recent(self, key: Hashable, work: Callable[[], bytes]) -> bytes:
        """Do what reads much of the log: one at a time, and not again within a few seconds, however many ask."""
        with self._reading.one():
            async with self._reading_log:
                now = time.monotonic()
                self._recent = {each: made for each, made in self._recent.items() if now - made[0] < RECENT}
                if key not in self._recent:
                    made = await self._read(work)
                    while len(self._recent) >= MOST_RECENT:
                        del self._recent[next(iter(self._recent))]
                    self._recent[key] = time.monotonic(), made
                return self._recent[key][1]

    def followed(self, experiment: Experiment) -> Followed:
        """Return the visits of an experiment as this worker knows them; it keeps those of a few experiments.

        For what `recent` calls, which is one at a time.
        """
        found = self._followed.pop(experiment.name, None) or Followed(self.store, experiment)
        while len(self._followed) >= MOST_FOLLOWED:
            del self._followed[next(iter(self._followed))]
        self._followed[experiment.name] = found
        return found

    async def writing(self, work: Callable[[], Result]) -> Result:
        """Do what writes to the store, in a thread, when it is its turn."""
        with self._writing.one():
            try:
                with anyio.fail_after(WAIT):
                    await self._writers.acquire_on_behalf_of(work)
            except TimeoutError:
                raise store_busy() from None
            try:
                return await anyio.to_thread.run_sync(self.store.guarded, work, limiter=anyio.CapacityLimiter(1))
            finally:
                self._writers.release_on_behalf_of(work)

    async def logged(self, waiting: Future[None]) -> None:
        """Wait until exposures are on disk."""
        with self._writing.one():
            try:
                await asyncio.wait_for(asyncio.wrap_future(waiting), WAIT)
            except (TimeoutError, ErasedMeanwhile):  # it was not stored; who asks again is logged
                raise store_busy() from None
            except SQLAlchemyError:  # the writer has put it into the service's log
                raise store_failed() from None

    async def flushed(self) -> None:
        """Wait until everything that was logged so far is on disk."""
        with self._writing.one():
            await anyio.to_thread.run_sync(self.arms.writer.flush, limiter=self._waiters)

    async def changing_folders(self, work: Callable[[], Result]) -> Result:
        """Do what writes or loads models, one at a time."""
        with self._writing.one():
            return await anyio.to_thread.run_sync(work, limiter=self._folders)
