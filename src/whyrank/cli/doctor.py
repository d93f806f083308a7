"""Command: doctor."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from importlib import metadata

from whyrank.cli.app import Json, command, console, print_json
from whyrank.version import __version__

CORE = ("numpy", "numba", "polars", "rich", "safetensors", "threadpoolctl", "typer")
EXTRAS = ("textblob", "vaderSentiment", "torch", "transformers", "matplotlib", "optuna", "fastapi", "uvicorn", "ray")


@command("doctor", "whyrank doctor")
def doctor_command(json: Json = False) -> None:
    """Look at this installation: versions, threads, caches, and a self-test of determinism and speed."""
    facts = {
        "whyrank": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "versions": {name: _version(name) for name in (*CORE, *EXTRAS)},
        "blas": _blas(),
        "numba cache": os.environ.get("NUMBA_CACHE_DIR", "beside the package"),
        **_self_test(),
    }
    if json:
        print_json(facts)
        return
    from rich.table import Table

    table = Table(show_header=False)
    for name, value in facts.items():
        shown = ", ".join(f"{k} {v or '-'}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(name, shown)
    console().print(table)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _blas() -> str:
    import numpy as np  # noqa: F401 - loads its BLAS
    from threadpoolctl import threadpool_info

    found = [f"{each['internal_api']} {each['version']}, {each['num_threads']} threads" for each in threadpool_info()]
    return "; ".join(found) or "none"


def _self_test() -> dict[str, object]:
    """Fit the same model with one and with all threads; the bits must agree."""
    from whyrank.data.simulate import simulate
    from whyrank.models import BPER
    from whyrank.training import Run

    data = simulate("small", users=3000, items=500, explanations=800, records=30_000, triplets=50_000, seed=0)
    begin = time.perf_counter()
    BPER(epochs=1).fit(data)
    compiled = time.perf_counter() - begin
    digests, seconds = [], []
    for threads in (1, None):
        begin = time.perf_counter()
        model = BPER(epochs=50).fit(data, run=Run(threads=threads))
        seconds.append(time.perf_counter() - begin)
        digests.append(hashlib.sha256(model.keys().tobytes() + model.user_factors_.tobytes()).hexdigest()[:16])
    updates = 2 * 50 * len(data)
    return {
        "first fit": f"{compiled:.1f} s (compiles when the cache is empty; expect under 15 s)",
        "deterministic": "yes" if digests[0] == digests[1] else f"NO: {digests[0]} against {digests[1]}",
        "speed, 1 thread": f"{updates / seconds[0] / 1e6:.1f} M pair updates/s (expect 5 or more)",
        "speed, all threads": f"{updates / seconds[1] / 1e6:.1f} M pair updates/s",
    }
