"""Command: doctor."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whyrank.cli.app import Json, command, console, print_json
from whyrank.render import FittingTable
from whyrank.version import __version__

if TYPE_CHECKING:
    from whyrank.data.triplets import Triplets

CORE = ("numpy", "numba", "polars", "rich", "safetensors", "threadpoolctl", "typer")
EXTRAS = ("vaderSentiment", "wordllama", "torch", "transformers", "matplotlib", "optuna", "ray")
SERVE = ("starlette", "uvicorn", "uvloop", "httptools", "msgspec", "prometheus-client", "sqlalchemy")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
EPOCHS = 50


@command("doctor", "whyrank doctor")
def doctor_command(
    compile_all: Annotated[
        bool,
        typer.Option("--compile", help="First compile what mines, trains and answers, so that no later command waits."),
    ] = False,
    json: Json = False,
) -> None:
    """Check this installation: versions, threads, caches, and a self-test of determinism and speed.

    Ends with exit code 1 if the same seed does not give the same bits with one and with two threads.
    """
    compiled = {"compiled": f"in {_compile_all():.0f} s"} if compile_all else {}
    tested = _self_test()
    facts = {
        "whyrank": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "versions": {name: _version(name) for name in (*CORE, *EXTRAS, *SERVE)},
        "threads": {name: os.environ.get(name, "not set") for name in THREADS},
        "blas": _blas(),
        "caches": _caches(),
        **compiled,
        **tested,
    }
    if json:
        print_json(facts)
    else:
        _show(facts)
    if not tested["deterministic"]:
        raise typer.Exit(1)


def _show(facts: dict[str, object]) -> None:
    rows = []
    for name, value in facts.items():
        if isinstance(value, dict):
            shown = ", ".join(f"{part} {each or '-'}" for part, each in value.items())
        elif isinstance(value, bool):
            shown = "yes: the same bits with 1 and 2 threads" if value else "NO: 1 and 2 threads give other bits"
        else:
            shown = str(value)
        rows.append([name, shown])
    console().print(FittingTable(["fact", "value"], rows, head=False, wrap=["value"]))


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


def _caches() -> dict[str, str]:
    from whyrank.compile import cache_folder
    from whyrank.text.cache import encodings

    kernels = cache_folder()
    return {
        "kernels": str(kernels or "nowhere to write: every process compiles"),
        "text vectors": str(encodings() or "nowhere: texts are encoded every time"),
    }


def _compile_all() -> float:
    """Use everything that is compiled once, on little data; how long that took.

    Models are also saved and loaded: kernels are compiled apart for arrays that may not be written to.
    """
    from whyrank.evaluation import evaluate
    from whyrank.lab.simulate import simulate, simulate_reviews
    from whyrank.mining import mine
    from whyrank.models import MODELS, BPERPlus, load
    from whyrank.training import Run

    begin = time.perf_counter()
    split = simulate("small", users=150, items=40, explanations=80, records=1500, triplets=2600, seed=0).split(seed=0)
    pairs = split.data.frame().select("user", "item").unique(maintain_order=True)
    user, item = pairs.row(0)
    for name, kind in MODELS.items():
        if issubclass(kind, BPERPlus) or not kind.__module__.startswith("whyrank."):
            continue  # trained by torch, ranked as others are; models of other packages know themselves what they need
        model = kind(**({"epochs": 1} if "epochs" in kind.__dataclass_fields__ else {}))
        evaluate(model.fit(split, run=Run(threads=2)), split)
        with tempfile.TemporaryDirectory() as folder:
            loaded = load(model.save(Path(folder) / name))
            loaded.explain(user, item)
            loaded.explain(user, item, diversity=0.5, grounded=False)
            loaded.explain_many(pairs)
            if loaded.ranks_items:
                loaded.recommend(user)
    if _version("wordllama") and _version("vaderSentiment"):
        mine(simulate_reviews("small", users=60, items=20, records=500, seed=0))
    return time.perf_counter() - begin


def _self_test() -> dict[str, object]:
    """Fit the same model with one and with two threads, and rank with it, in some ten seconds at most."""
    from whyrank.lab.simulate import simulate

    data = simulate("small", users=3000, items=500, explanations=800, records=30_000, triplets=50_000, seed=0)
    compiled, _ = _fitted(data, 1, 1)
    alone, first = _fitted(data, 1, EPOCHS)
    together, second = _fitted(data, 2, EPOCHS)
    updates = 2 * EPOCHS * len(data) / 1e6
    return {
        "first fit": f"{compiled:.1f} s (compiles when the cache is empty; expect under 15 s)",
        "deterministic": first == second,
        "speed, 1 thread": f"{updates / alone:.1f} M pair updates/s (expect 5 or more; 11 on an EPYC at 2.6 GHz)",
        "speed, 2 threads": f"{updates / together:.1f} M pair updates/s",
    }


def _fitted(data: Triplets, threads: int, epochs: int) -> tuple[float, str]:
    """How long a fit took, and a hash of what was learned."""
    from whyrank.models import BPER
    from whyrank.training import Run

    begin = time.perf_counter()
    model = BPER(epochs=epochs).fit(data, run=Run(threads=threads))
    seconds = time.perf_counter() - begin
    return seconds, hashlib.sha256(model.keys().tobytes() + model.user_factors_.tobytes()).hexdigest()
