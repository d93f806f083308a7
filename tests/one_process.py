"""A cluster without machines, for what needs none: a task runs when it is sent, a reference is what it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from whyrank.errors import ClusterError
from whyrank.lab.ray.session import Cluster, Machine


class OneProcess(Cluster):
    """Its machines are threads; what they hand on to each other is a future, as it is a reference on a cluster."""

    def __init__(self, machines: int = 1) -> None:
        self.tasks: list[str] = []
        self.count = machines
        self.silent = False

    def machines(self, cpus: int = 1) -> list[Machine]:
        if cpus > 2:
            raise ClusterError(f"{cpus} threads of one machine are asked for")
        return [Machine(str(number), "127.0.0.1", 2) for number in range(self.count)]

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.tasks.append(function.__name__)
        return function(*arguments)

    def start(self, machine: Machine, cpus: float, kind: Callable[..., object], *arguments: Any) -> Any:
        return kind(*arguments), ThreadPoolExecutor(1)

    def call(self, handle: Any, method: str, *arguments: Any, returns: int = 1) -> Any:
        lives_on, thread = handle

        def work() -> Any:
            return getattr(lives_on, method)(*(a.result() if isinstance(a, Future) else a for a in arguments))

        done = thread.submit(work)
        return done if returns == 1 else [thread.submit(lambda at=at: done.result()[at]) for at in range(returns)]

    def answer(self, handles: Sequence[Any], seconds: float) -> bool:
        return not self.silent

    def dismiss(self, handle: Any) -> None:
        handle[1].shutdown(cancel_futures=True)

    def put(self, value: object) -> Any:
        return value

    def gather(self, references: Sequence[Any]) -> list[Any]:
        return [each.result() if isinstance(each, Future) else each for each in references]

    def first(self, references: Sequence[Any], seconds: float | None = None) -> tuple[list[Any], list[Any]]:
        futures = [each for each in references if isinstance(each, Future)]
        if self.silent or not futures:
            return ([], list(references)) if self.silent else (list(references), [])
        done = wait(futures, seconds, "FIRST_COMPLETED").done
        return [each for each in references if each in done], [each for each in references if each not in done]
