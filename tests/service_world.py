"""What the tests of the service share: small models on disk, clients, and a service in a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from starlette.testclient import TestClient

import whyrank as wr
from whyrank.index.form import Block, rows
from whyrank.models import MODELS, POP, RAND, Model
from whyrank.models.parameters import parameter
from whyrank.service.app import create_app
from whyrank.service.settings import Settings

LONGEST = 150.0  # seconds that a service lives in a test
START = """
import whyrank.cli.serve, whyrank.cli.study
from whyrank.cli.app import main
if __name__ == "__main__":
    main()
"""


@dataclass(kw_only=True, eq=False)
class Toy(Model):
    """A model with mu that ranks items, with factors drawn at random."""

    id = "toy"
    summary = "random factors, for tests"
    ranks_items = True
    fitted = ("user_factors", "item_factors", "explanation_factors")

    mu: float = parameter(0.5, "weight of the user's part", at_least=0, at_most=1)
    seed: int = parameter(0, "of the factors", at_least=0)

    def _fit(self, train: Any, run: Any, validation: Any) -> None:
        rng = np.random.default_rng(self.seed)
        for name, count, width in (
            ("user", len(train.users), 2),
            ("item", len(train.items), 2),
            ("explanation", len(train.explanations), 4),
        ):
            setattr(self, f"{name}_factors_", rng.normal(size=(count, width)).astype(np.float32))

    def keys(self) -> np.ndarray:
        popularity = np.log1p(self.catalog_.popularity).astype(np.float32)[:, None]
        return np.hstack([self.explanation_factors_, popularity])

    def queries(self, users: np.ndarray, items: np.ndarray, mu: float | None = None) -> np.ndarray:
        ones, mu = np.ones((len(users), 1), np.float32), self.mu if mu is None else mu
        weighed = [mu * rows(self.user_factors_, users), (1 - mu) * rows(self.item_factors_, items), ones]
        return np.hstack(weighed).astype(np.float32)

    def blocks(self) -> tuple[Block, ...]:
        return Block("user", 2), Block("item", 2), Block("popularity", 1)

    def item_keys(self) -> np.ndarray:
        return np.hstack([self.item_factors_, np.log1p(self.catalog_.item_popularity).astype(np.float32)[:, None]])

    def item_queries(self, users: np.ndarray) -> np.ndarray:
        return np.hstack([rows(self.user_factors_, users), np.ones((len(users), 1), np.float32)])


@dataclass(frozen=True)
class World:
    """Folders with a split and fitted models, and an id of each kind."""

    folder: Path
    user: str
    item: str

    def settings(self, *models: str, **more: Any) -> Settings:
        values = {"store": f"sqlite:///{self.folder}/store.db", "split": str(self.folder / "split"), "rate": 0.0}
        return Settings(models=tuple(str(self.folder / name) for name in models), **(values | more))

    @contextlib.contextmanager
    def client(self, *models: str, **more: Any) -> Iterator[TestClient]:
        with TestClient(create_app(self.settings(*models, **more)), raise_server_exceptions=False) as client:
            yield client


def make_world(folder: Path) -> World:
    """Fit and save what the tests use. The toy model is known to this process only."""
    MODELS[Toy.id] = Toy
    split = wr.simulate("small", seed=0).split(seed=0)
    split.write(folder / "split")
    for model in (POP(), RAND(), Toy()):
        model.fit(split).save(folder / model.id)
    return World(folder, "u000578", "i00075")


class Process:
    """`whyrank` in a process of its own, listening on a port of its own."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-c", START, *arguments, "--port", "0"]
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "400"}
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, **threads, **environment}
        )
        self.log: list[str] = []
        self._limit = threading.Timer(LONGEST, self.process.kill)  # what is waited for may never be said
        self._limit.start()
        self.url = self.wait_for(r"(http://\S+/)")
        workers = int(arguments[arguments.index("--workers") + 1]) if "--workers" in arguments else 1
        for _ in range(workers):
            self.wait_for("(Application startup complete)")

    def wait_for(self, pattern: str) -> str:
        """Read the log up to a line that matches."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(pattern, line)
            if found:
                return found[1]
        self.__exit__()
        raise AssertionError("the service ended:\n" + "".join(self.log))

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
