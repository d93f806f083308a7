"""A cluster without machines, for what needs none: a task runs when it is sent, a reference is what it stands for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from whyrank.cluster.session import Cluster
from whyrank.simulation import simulate_reviews


class OneProcess(Cluster):
    cpus, machines, most_cpus = 2, 1, 2

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def submit(self, function: Callable[..., Any], *arguments: Any, cpus: float = 1) -> Any:
        self.tasks.append(function.__name__)
        return function(*arguments)

    def submit_many(self, returns: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        found = self.submit(function, *arguments)
        return [found] if returns == 1 else list(found)

    def put(self, value: object) -> Any:
        return value

    def gather(self, references: Sequence[Any]) -> list[Any]:
        return list(references)

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
