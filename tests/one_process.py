"""A cluster without machines, for what needs none: a task runs when it is sent, a reference is what it stands for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from whyrank.lab.ray.session import Cluster, Machine
from whyrank.lab.simulate import simulate_reviews


class OneProcess(Cluster):
    """Its machines are threads, which talk to each other as machines do."""

    cpus = 2

    def __init__(self, machines: int = 1) -> None:
        self.tasks: list[str] = []
        self.count = machines

    def machines(self, cpus: int = 1) -> list[Machine]:
        return [Machine(str(number), "127.0.0.1", 2) for number in range(self.count) if cpus <= 2]

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.tasks.append(function.__name__)
        return function(*arguments)

    def submit_many(self, returns: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        return list(self.submit(function, *arguments))

    def on_each(self, function: Callable[..., Any], *arguments: Any) -> list[tuple[Machine, Any]]:
        return [(machine, function(*arguments)) for machine in self.machines()]

    def start(self, machine: Machine, cpus: float, kind: Callable[..., object], *arguments: Any) -> Any:
        return kind(*arguments), ThreadPoolExecutor(1)

    def call(self, handle: Any, method: str, *arguments: Any) -> Any:
        lives_on, thread = handle
        return thread.submit(getattr(lives_on, method), *arguments)

    def dismiss(self, handle: Any) -> None:
        lives_on, thread = handle
        lives_on.close()
        thread.shutdown()

    def put(self, value: object) -> Any:
        return value

    def _results(self, references: list[Any]) -> list[Any]:
        return [each.result() if isinstance(each, Future) else each for each in references]

    def first(self, references: Sequence[Any], count: int = 1) -> tuple[list[Any], list[Any]]:
        return list(references[:count]), list(references[count:])


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
