"""How many requests a second the service answers, beside a route on the same stack that does nothing.

    python benchmarks/service_load.py --pools 8191 126696 --workers 1 2 --seconds 5 --repeats 3
    python benchmarks/service_load.py --memory 4

Needs wrk (Debian: apt install wrk). The model has BPER's form with random factors (20 per side); the data has Yelp's
sizes for the large pool. `share` is what ranking adds to a request that does nothing: 1 - explain / nothing, in
requests a second. `--memory N` starts N workers on the large pool and prints resident and proportional memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from starlette.responses import Response

import whyrank as wr
from whyrank.models import MODELS, Model
from whyrank.models.parameters import parameter
from whyrank.ranking.form import Block, rows
from whyrank.service import routes, schemas
from whyrank.service.app import create_app
from whyrank.service.guard import Guard
from whyrank.service.settings import Settings

HERE = Path(__file__).parent
DATA = {  # explanations: a preset and its sizes
    8191: (
        "tripadvisor",
        {"users": 23_800, "items": 7_500, "explanations": 8_191, "records": 100_000, "triplets": 178_000},
    ),
    126_696: ("yelp", {}),
}
LUA = """
local bodies = {}
for line in io.lines("%s") do bodies[#bodies + 1] = line end
local at = 0
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
request = function()
  at = at %% #bodies + 1
  return wrk.format(nil, nil, nil, bodies[at])
end
"""


@dataclass(kw_only=True, eq=False)
class Synthetic(Model):
    """BPER's form with random factors and biases that follow popularity."""

    id = "synthetic"
    summary = "random factors of BPER's form, for load tests"
    fitted = ("user_factors", "item_factors", "explanation_factors")

    factors: int = parameter(20, "per side", at_least=1)
    mu: float = parameter(0.7, "weight of the user's side", at_least=0, at_most=1)

    def _fit(self, train: Any, run: Any, validation: Any) -> None:
        rng, d = np.random.default_rng(0), self.factors
        self.user_factors_ = rng.normal(0, 0.4, (len(train.users), d)).astype(np.float32)
        self.item_factors_ = rng.normal(0, 0.4, (len(train.items), d)).astype(np.float32)
        factors = rng.normal(0, 0.4, (len(train.explanations), 2 * d)).astype(np.float32)
        bias = np.log1p(train.popularity).astype(np.float32)[:, None]
        self.explanation_factors_ = np.hstack([factors, bias, bias])

    def keys(self) -> np.ndarray:
        d = self.factors  # joined on every call, as BPER joins its tables
        return np.hstack([self.explanation_factors_[:, : 2 * d], self.explanation_factors_[:, 2 * d :]])

    def queries(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        mu = np.float32(self.mu)
        constants = np.tile(np.array([mu, 1 - mu], np.float32), (len(users), 1))
        return np.hstack([mu * rows(self.user_factors_, users), (1 - mu) * rows(self.item_factors_, items), constants])

    def blocks(self) -> tuple[Block, ...]:
        return Block("user", self.factors), Block("item", self.factors), Block("popularity", 2)


async def nothing(body: schemas.ExplainRequest) -> Response:
    """A route that takes the same body and does nothing with it."""
    return Response(b'{"model":"synthetic","mu":0.7,"results":[]}', media_type="application/json")


def application() -> Guard:
    """The service with one more model and one more route; what uvicorn's workers run."""
    MODELS[Synthetic.id] = Synthetic
    routes.router.post("/nothing")(nothing)
    return create_app(Settings.from_environment())


def prepare(pool: int, folder: Path) -> tuple[Path, Path]:
    """A saved model, and a file of request bodies, made once."""
    model, bodies = folder / f"model-{pool}", folder / f"bodies-{pool}.jsonl"
    if not bodies.is_file():
        preset, sizes = DATA[pool]
        data = wr.simulate(preset, seed=0, **sizes)
        Synthetic().fit(data).save(model)
        rng = np.random.default_rng(0)
        records = rng.integers(0, data.records, 5000)
        pairs = zip(
            data.users.terms(data.record_user[records]), data.items.terms(data.record_item[records]), strict=True
        )
        bodies.write_text("".join(json.dumps({"user": u, "item": i, "n": 10}) + "\n" for u, i in pairs))
    return model, bodies


def start(model: Path, workers: int, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = Settings(
        models=(str(model),), store=f"sqlite:///{folder}/load.db", workers=workers, rate=0, in_flight=1024
    )
    settings.to_environment()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "uvicorn", "service_load:application", "--factory", "--no-access-log"]
    command += ["--port", str(port), "--log-level", "warning", "--timeout-worker-healthcheck", "300"]
    command += ["--workers", str(workers)] if workers > 1 else []
    process = subprocess.Popen(command, env=environment)
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            return process, f"http://127.0.0.1:{port}/v1/"
        except OSError:
            time.sleep(0.5)
            assert process.poll() is None, "the service did not start"
    raise SystemExit("the service did not become ready")


def load(url: str, bodies: Path, seconds: int, connections: int) -> dict[str, float]:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA % bodies)
        script.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", script.name, url]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit(text)
    found = {name: re.search(rf"{name}\s+([\d.]+)(us|ms|s)", text) for name in ("50%", "99%")}
    unit = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert rate is not None
    return {"rate": float(rate[1])} | {
        name.replace("%", ""): float(each[1]) * unit[each[2]] for name, each in found.items() if each
    }


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    print("| pool | workers | route | requests/s | p50 ms | p99 ms | share of ranking |\n|---|---|---|---|---|---|---|")
    for pool in arguments.pools:
        model, bodies = prepare(pool, folder)
        for workers in arguments.workers:
            process, url = start(model, workers, folder)
            try:
                load(url + "explain", bodies, 2, arguments.connections)  # warm
                best: dict[str, dict[str, float]] = {}
                for route in ("nothing", "explain") * arguments.repeats:
                    found = load(url + route, bodies, arguments.seconds, arguments.connections)
                    if found["rate"] > best.get(route, {"rate": 0})["rate"]:
                        best[route] = found
            finally:
                process.terminate()
                process.wait()
            share = 1 - best["explain"]["rate"] / best["nothing"]["rate"]
            for route, told in (("nothing", ""), ("explain", f"{share:.0%}")):
                row = best[route]
                times = f"{row['50']:.2f} | {row['99']:.2f}"
                print(f"| {pool:,} | {workers} | {route} | {row['rate']:,.0f} | {times} | {told} |", flush=True)


def memory(workers: int, folder: Path) -> None:
    model, bodies = prepare(126_696, folder)
    process, url = start(model, workers, folder)
    try:
        load(url + "explain", bodies, 10, 16)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        print(
            "| worker | resident MB | of that shared files MB | proportional MB | private MB |\n|---|---|---|---|---|"
        )
        total = 0.0
        for child in children:
            text = Path(f"/proc/{child}/smaps_rollup").read_text()
            sizes = {n: int(v) / 1024 for n, v in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
            if sizes["Rss"] < 100:  # multiprocessing's own helper
                continue
            private = sizes["Private_Clean"] + sizes["Private_Dirty"]
            total += sizes["Pss"]
            shared = sizes["Shared_Clean"] + sizes["Shared_Dirty"]
            print(f"| {child} | {sizes['Rss']:,.0f} | {shared:,.0f} | {sizes['Pss']:,.0f} | {private:,.0f} |")
        size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file()) / 2**20
        print(f"\nall workers together (proportional): {total:,.0f} MB; the model folder: {size:,.0f} MB")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, nargs="+", choices=sorted(DATA), default=sorted(DATA))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--memory", type=int, metavar="WORKERS")
    parser.add_argument("--folder", type=Path, help="keep models here for the next run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.memory:
            memory(arguments.memory, folder)
        else:
            measure(arguments, folder)


if __name__ == "__main__":
    sys.modules["service_load"] = sys.modules["__main__"]
    main()
