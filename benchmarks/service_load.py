"""How many requests a second the service answers, beside a route on the same stack that does nothing.

    python benchmarks/service_load.py --pools 8191 126696 --workers 1 2 --seconds 5 --repeats 3
    python benchmarks/service_load.py --memory 4

Needs wrk (Debian: apt install wrk). The model is a BPER with random factors (20 per side); the data has Yelp's sizes
for the large pool. `nothing` passes the same guard (keys, limits, counts), reads, parses and checks the same body, and
answers a constant. The last column is the processor time of a route beyond that of nothing, as a share of a
whole explain: for `rank` the model's share, for `explain` that of the model and of making the answer. The best of the
repeats is shown. `--memory N` starts N workers on the large pool and prints resident and proportional memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from fastapi import Request
from starlette.responses import Response

import whyrank as wr
from whyrank.ranking.options import Options
from whyrank.ranking.rank import rank
from whyrank.service import routes, schemas
from whyrank.service.app import create_app
from whyrank.service.guard import Guard
from whyrank.service.run import run
from whyrank.service.settings import Settings
from whyrank.service.state import state_of

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


async def nothing(body: schemas.ExplainRequest) -> Response:
    """A route that takes the same body and does nothing with it."""
    return Response(b'{"model":"bper","mu":0.7,"results":[]}', media_type="application/json")


async def only_rank(body: schemas.ExplainRequest, request: Request) -> Response:
    """A route that ranks, and leaves out what makes an answer of it: texts, parts, evidence, JSON."""
    model = state_of(request).shelf.default.model
    users = model.catalog_.users.numbers([pair.user for pair in body.pairs])
    items = model.catalog_.items.numbers([pair.item for pair in body.pairs])
    rank(model, users, items, body.n, Options(grounded=True), 1)
    return await nothing(body)


def application() -> Guard:
    """The service with two more routes; what uvicorn's workers run."""
    routes.router.post("/nothing")(nothing)
    routes.router.post("/rank")(only_rank)
    return create_app(Settings.from_environment())


def prepare(pool: int, folder: Path) -> tuple[Path, Path]:
    """A saved model, and a file of request bodies, made once."""
    model, bodies = folder / f"model-{pool}", folder / f"bodies-{pool}.jsonl"
    if not bodies.is_file():
        preset, sizes = DATA[pool]
        data = wr.simulate(preset, seed=0, **sizes)
        rng = np.random.default_rng(0)
        fitted = wr.BPER(factors=20, epochs=1, bias_start="popularity").fit(data)
        for name in ("user_factors_", "item_factors_", "explanation_by_user_", "explanation_by_item_"):
            setattr(fitted, name, rng.normal(0, 0.4, getattr(fitted, name).shape).astype(np.float32))
        fitted.save(model)
        records = rng.integers(0, data.records, 5000)
        pairs = zip(
            data.users.terms(data.record_user[records]), data.items.terms(data.record_item[records]), strict=True
        )
        bodies.write_text("".join(json.dumps({"user": u, "item": i, "n": 10}) + "\n" for u, i in pairs))
    return model, bodies


def serve() -> None:
    """What the process that is measured runs."""
    run(Settings.from_environment(), port=0, application="service_load:application")


def start(model: Path, workers: int, folder: Path, in_flight: int = 1024) -> tuple[subprocess.Popen[str], str]:
    """The service in a process of its own, and its address once all workers are up."""
    store = f"sqlite:///{folder}/load.db"
    Settings(models=(str(model),), store=store, workers=workers, rate=0, in_flight=in_flight).to_environment()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", "import service_load\nif __name__ == '__main__': service_load.serve()"]
    process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    url, started = process.stdout.readline().strip(), 0
    for line in process.stderr:
        started += "startup complete" in line
        if started == workers:
            return process, url + "v1/"
    raise SystemExit("the service did not start")


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
    rate, count = re.search(r"Requests/sec:\s+([\d.]+)", text), re.search(r"(\d+) requests in", text)
    assert rate is not None
    assert count is not None
    return {"rate": float(rate[1]), "count": float(count[1])} | {
        name.replace("%", ""): float(each[1]) * unit[each[2]] for name, each in found.items() if each
    }


def workers_of(process: subprocess.Popen[str], workers: int) -> list[str]:
    """Process numbers of those that answer."""
    if workers == 1:
        return [str(process.pid)]
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def cpu_seconds(processes: list[str]) -> float:
    """Processor time used so far; unlike the clock it hardly depends on what else the machine does."""
    fields = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in processes]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    print("| pool | workers | route | requests/s | p50 ms | p99 ms | CPU us | beyond nothing, of explain |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for pool in arguments.pools:
        model, bodies = prepare(pool, folder)
        for workers in arguments.workers:
            process, url = start(model, workers, folder)
            try:
                load(url + "explain", bodies, 2, arguments.connections)  # the first requests touch cold pages
                best: dict[str, dict[str, float]] = {}
                for route in ("nothing", "rank", "explain") * arguments.repeats:
                    answering = workers_of(process, workers)
                    before = cpu_seconds(answering)
                    found = load(url + route, bodies, arguments.seconds, arguments.connections)
                    found["cpu"] = (cpu_seconds(answering) - before) / found["count"] * 1e6
                    kept = best.setdefault(route, dict(found))
                    best[route] = (found if found["rate"] > kept["rate"] else kept) | {
                        "cpu": min(found["cpu"], kept["cpu"])
                    }
            finally:
                process.terminate()
                process.wait()
            for route in ("nothing", "rank", "explain"):
                row = best[route]
                told = f"{(row['cpu'] - best['nothing']['cpu']) / best['explain']['cpu']:.0%}"
                times = f"{row['50']:.2f} | {row['99']:.2f} | {row['cpu']:.0f}"
                print(f"| {pool:,} | {workers} | {route} | {row['rate']:,.0f} | {times} | {told} |", flush=True)


def memory(workers: int, folder: Path) -> None:
    model, bodies = prepare(126_696, folder)
    process, url = start(model, workers, folder)
    try:
        load(url + "explain", bodies, 10, 16)
        print(
            "| worker | resident MB | of that shared files MB | proportional MB | private MB |\n|---|---|---|---|---|"
        )
        total = 0.0
        for child in workers_of(process, workers):
            text = Path(f"/proc/{child}/smaps_rollup").read_text()
            sizes = {n: int(v) / 1024 for n, v in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
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
