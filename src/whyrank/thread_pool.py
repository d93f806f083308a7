"""Threads that work off a list of tasks. Who does which task never matters to the result."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import TracebackType
from typing import TypeVar

R = TypeVar("R")


class ThreadPool:
    """The calling thread and `threads - 1` others."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._others = ThreadPoolExecutor(threads - 1, "whyrank") if threads > 1 else None

    def run(self, tasks: Sequence[Callable[[], R]]) -> list[R]:
        """Run all tasks and wait for them; results in the order of the tasks."""
        if self._others is None or len(tasks) < 2:
            return [task() for task in tasks]
        waiting = deque(enumerate(tasks))
        results: dict[int, R] = {}

        def work() -> None:
            while True:
                try:
                    number, task = waiting.popleft()
                except IndexError:
                    return
                results[number] = task()

        helpers = [self._others.submit(work) for _ in range(min(self.threads, len(tasks)) - 1)]
        try:
            work()
        finally:
            for helper in helpers:
                if not helper.cancel():  # one that has not begun would find nothing to do
                    helper.result()
        return [results[number] for number in range(len(tasks))]

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._others is not None:
            self._others.shutdown(wait=True)


def shared_thread_pool(threads: int) -> ThreadPool:
    """A pool that stays open, for work too short to start threads for; anyone may use it at any time."""
    return _pool_of(os.getpid(), threads)


@cache
def _pool_of(process: int, threads: int) -> ThreadPool:
    """One for each process: threads do not survive a fork."""
    return ThreadPool(threads)
