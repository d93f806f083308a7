"""What the routes of one worker share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from whyrank.online.store import WAIT
from whyrank.online.visits import Followed
from whyrank.service.problems import store_busy
from whyrank.service.settings import Settings

if TYPE_CHECKING:
    from fastapi import Request

    from whyrank.online.assignment import Experiment
    from whyrank.online.store import Store
    from whyrank.service.exposing import Exposing
    from whyrank.service.measures import Measures
    from whyrank.service.shelf import Shelf
    from whyrank.service.study_cases import Cases

Result = TypeVar("Result")
RECENT = 5.0  # seconds for which an answer that reads much of the log is given again
MOST_RECENT = 32
MOST_FOLLOWED = 4  # experiments whose visits are in memory


@dataclass
class State:
    """Made when a worker starts; only the shelf's contents change afterwards."""

    settings: Settings
    measures: Measures
    store: Store
    threads: anyio.CapacityLimiter  # for ranking
    readers: anyio.CapacityLimiter  # of the store: whoever waits for it does not keep others from a thread
    writers: anyio.CapacityLimiter
    _exposing: Exposing | None = None
    models: Shelf | None = None  # none where only a study is served
    cases: Cases | None = None  # none without a split
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    _recent: dict[Hashable, tuple[float, bytes]] = field(default_factory=dict)
    _followed: dict[str, Followed] = field(default_factory=dict)
    _reading_log: anyio.Lock = field(default_factory=anyio.Lock)
    _checked: tuple[float, Exception | None] = (-math.inf, None)

    @property
    def shelf(self) -> Shelf:
        assert self.models is not None
        return self.models

    @property
    def exposing(self) -> Exposing:
        assert self._exposing is not None
        return self._exposing

    @exposing.setter
    def exposing(self, made: Exposing) -> None:
        self._exposing = made

    async def check_store(self) -> None:
        """Raise unless the store can be used; looks at most once a second, however many ask."""
        async with self._lock:
            if time.monotonic() - self._checked[0] >= 1:
                problem = None
                try:
                    await self.reading(self.store.check)
                except Exception as error:  # told to everybody who asks until the next look
                    problem = error
                self._checked = time.monotonic(), problem
        if self._checked[1] is not None:
            raise self._checked[1]

    async def reading(self, work: Callable[[], Result]) -> Result:
        """What reads the store, in a thread."""
        return await anyio.to_thread.run_sync(self.store.guarded, work, limiter=self.readers)

    async def recent(self, key: Hashable, work: Callable[[], bytes]) -> bytes:
        """What reads much of the log: one at a time, and not again within a few seconds, however many ask."""
        async with self._reading_log:
            now = time.monotonic()
            self._recent = {each: made for each, made in self._recent.items() if now - made[0] < RECENT}
            if key not in self._recent:
                made = await self.reading(work)
                while len(self._recent) >= MOST_RECENT:
                    del self._recent[next(iter(self._recent))]
                self._recent[key] = time.monotonic(), made
            return self._recent[key][1]

    def followed(self, experiment: Experiment) -> Followed:
        """The visits of an experiment as this worker knows them; of a few experiments, those that were looked at last.

        For what `recent` calls, which is one at a time.
        """
        found = self._followed.pop(experiment.name, None) or Followed(self.store, experiment)
        while len(self._followed) >= MOST_FOLLOWED:
            del self._followed[next(iter(self._followed))]
        self._followed[experiment.name] = found
        return found

    async def writing(self, work: Callable[[], Result]) -> Result:
        """What writes to the store, in a thread, when it is its turn."""
        try:
            with anyio.fail_after(WAIT):
                await self.writers.acquire_on_behalf_of(work)
        except TimeoutError:
            raise store_busy() from None
        try:
            return await anyio.to_thread.run_sync(self.store.guarded, work, limiter=anyio.CapacityLimiter(1))
        finally:
            self.writers.release_on_behalf_of(work)


def state_of(request: Request) -> State:
    state: State = request.app.state.whyrank
    return state
