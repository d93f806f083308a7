"""A cluster without machines, for what needs none: a task runs when it is sent, a reference is what it stands for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from whyrank.lab.ray.session import Cluster, Machine
from whyrank.lab.simulate import simulate_reviews


class OneProcess(Cluster):
    """Its machines are threads; what they hand on to each other is a future, as it is a reference on a cluster."""

    def __init__(self, machines: int = 1) -> None:
        self.count, self.silent = machines, False

    def nodes(self) -> list[Machine]:
        return [Machine(str(number), "127.0.0.1", 2) for number in range(self.count)]

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
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
        if self.silent:
            return [], list(references)
        if not isinstance(references[0], Future):
            return list(references[:1]), list(references[1:])
        done = wait(references, seconds, "FIRST_COMPLETED").done
        return [each for each in references if each in done], [each for each in references if each not in done]


def reviews_in_files(folder: Path) -> list[Path]:
    """Reviews to mine, in three files."""
    reviews = simulate_reviews("small", users=150, items=40, explanations=80, records=1500, triplets=2600, seed=3)
    files = [folder / f"{number}.parquet" for number in range(3)]
    for number, file in enumerate(files):
        reviews[number * 500 : (number + 1) * 500].write_parquet(file)
    return files


def model_arrays(folder: Path) -> dict[str, object]:
    """The SHA-256 of every array of a model folder."""
    files = json.loads((folder / "manifest.json").read_text())["files"]
    return {name: about for name, about in files.items() if name.startswith("arrays/")}
