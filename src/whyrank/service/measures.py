"""Numbers for Prometheus; with several workers they add them up in files of a shared folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from whyrank.service.calls import Raw

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Measures:
    """What is counted."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("whyrank_requests", "Requests", ["route", "method", "status"], registry=self.registry)
        self.seconds = Histogram(
            "whyrank_request_seconds",
            "Seconds per request",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        pairs = Counter("whyrank_pairs_explained", "Pairs explained", ["model"], registry=self.registry)
        self.pairs_of: Callable[[str], Counter] = cache(pairs.labels)
        self.reloads = Counter(
            "whyrank_reloads", "Model folders loaded anew, or not", ["model", "outcome"], registry=self.registry
        )
        self.problems = Gauge(
            "whyrank_model_problem",
            "1: a newer folder of the model is not served",
            ["model"],
            registry=self.registry,
            multiprocess_mode="livemax",
        )
        self.written = Counter("whyrank_exposures_written", "Exposures in the store", registry=self.registry)
        self.failed = Counter("whyrank_exposures_failed", "Exposures that could not be stored", registry=self.registry)
        self.queued = Gauge(
            "whyrank_exposures_queued",
            "Exposures that wait for the store",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.events = Counter("whyrank_events_written", "Events in the store", registry=self.registry)
        self.models = Gauge("whyrank_models", "Models loaded", registry=self.registry, multiprocess_mode="max")
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """Count an answer of a route; None: of no route, by whatever method."""
        key = (route, method, status) if route else ("other", "ANY", status)
        if key not in self._series:  # finding a series by its labels takes longer than counting
            counter = self.requests.labels(key[0], key[1], str(status))
            self._series[key] = counter, self.seconds.labels(key[0])
        counter, histogram = self._series[key]
        counter.inc()
        histogram.observe(seconds)

    def reloaded(self, model: str, outcome: str) -> None:
        """Count what came of a look at a model's folder: loaded, refused, failed, or recovered."""
        self.reloads.labels(model, outcome).inc()
        self.problems.labels(model).set(outcome in ("refused", "failed"))

    def exposures_written(self, count: int) -> None:
        self.written.inc(count)

    def exposures_failed(self, count: int) -> None:
        self.failed.inc(count)

    def exposures_queued(self, count: int) -> None:
        self.queued.set(count)

    def exposition(self) -> Raw:
        """Return all numbers as text."""
        registry = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            _forget_dead_workers(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return Raw(generate_latest(registry), CONTENT_TYPE_LATEST)


def _forget_dead_workers(folder: Path) -> None:
    """Remove the gauges of workers that were replaced: they would be added to those of the others."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = file.stem.rpartition("_")[2]
        if pid.isdigit() and not _is_alive(int(pid)):
            mark_process_dead(int(pid))  # type: ignore[no-untyped-call]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's: a number that was given again
        return True
    return True
