"""Shared data, small enough that every test is quick, and limits for machines with two cores."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")
os.environ.setdefault("POLARS_MAX_THREADS", "2")

import polars as pl
import pytest
from hypothesis import HealthCheck, settings

from whyrank.data import Split, Triplets
from whyrank.lab.simulate import simulate

settings.register_profile(
    "quick",
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("quick")


# Modules that start processes, serve, or fit many models: begun first, the longest of them first of all, so that no
# process is left alone with one of them, and left out by `make check`.
LONG = (
    *("test_ray", "test_faults", "test_cluster", "test_service_process", "test_page", "test_experiments", "test_docs"),
    *("test_cli", "test_damaged_models", "test_training", "test_refresh", "test_statements", "test_entry_points"),
    *("test_forget", "test_service_connections", "test_kill", "test_copies", "test_portable"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order tests, and mark those that are `slow` (by what they need) and `fast` (all others of modules not LONG)."""
    order = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.stem, len(LONG)))
    for item in items:
        if "tiny_encoder" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
        if item.path.stem not in LONG and not item.get_closest_marker("slow"):
            item.add_marker("fast")


@pytest.fixture(scope="session")
def data() -> Triplets:
    """A simulated data set with planted structure."""
    return simulate("small", users=150, items=40, explanations=80, records=1500, triplets=2600, seed=3)


@pytest.fixture(scope="session")
def split(data: Triplets) -> Split:
    return data.split(seed=1)


@pytest.fixture
def tiny() -> Triplets:
    """Five triplets that fit in a head."""
    rows = [
        ("ann", "inn", "quiet", "Quiet rooms", 5, "2020-01-01"),
        ("ann", "inn", "clean", "Clean", 5, "2020-01-01"),
        ("bob", "inn", "quiet", "Quiet rooms", 4, "2020-02-01"),
        ("bob", "spa", "warm", "Warm water", 3, "2020-03-01"),
        ("cat", "spa", "rude", "Rude staff", 1, "2020-04-01"),
    ]
    columns = ["user", "item", "explanation", "text", "rating", "time"]
    return Triplets.from_frame(pl.DataFrame(rows, schema=columns, orient="row"))
