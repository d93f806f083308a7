"""How many requests a second the service answers, beside a route on the same stack that does nothing.

    python benchmarks/service_load.py --pools 8191 126696 --workers 1 2 --seconds 5 --repeats 3
    python benchmarks/service_load.py --pools 8191 --workers 1 --models bper profile-j --baseline OLD/src
    python benchmarks/service_load.py --memory 4

Needs wrk (Debian: apt install wrk). `bper` is a BPER with random factors (20 per side), `profile-j` the default model,
fitted; the data is simulated and has Yelp's sizes for the large pool. Answers are the default ones, with sentences and
evidence. `nothing` passes the same guard (keys, limits, counts), reads, decodes and checks the same body, and answers a
constant. `rank` ranks as well. The last column is the processor time of a route beyond that of nothing, as a share of a
whole explain. `--baseline` names the `src` folder of another version, whose explain of the same pairs is measured in
turn with the others (`explain, baseline`); it fits its own model. The best of the repeats is shown. `--memory N` starts
N workers on the large pool and prints resident and proportional memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import whyrank as wr
from whyrank.explain.rank import rank
from whyrank.service.app import create_app
from whyrank.service.run import run
from whyrank.service.settings import Settings

try:
    from whyrank.service.app import declared, make_app
    from whyrank.service.calls import Operation, Raw
    from whyrank.service.messages import ExplainRequest, options_of
except ImportError:  # another version, as a baseline
    Operation = None  # type: ignore[assignment,misc]

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


async def nothing(call: Any, asked: Any) -> Any:
    """A route that takes the same body and does nothing with it."""
    return Raw(b'{"model":"bper","mu":0.7,"results":[]}')


async def only_rank(call: Any, asked: Any) -> Any:
    """A route that ranks, and leaves out what makes an answer of it: texts, parts, evidence, JSON."""
    model = call.state.registry.default.model
    users, items = model.catalog_.users.numbers([asked.user]), model.catalog_.items.numbers([asked.item])
    rank(model, users, items, asked.n, options_of(asked), 1)
    return await nothing(call, asked)


def application() -> Any:
    """The service, with two more routes; what uvicorn's workers run."""
    settings = Settings.from_environment()
    if Operation is None:  # a baseline, whose explain alone is asked
        return create_app(settings)
    more = [
        Operation("POST", path, "ask", handler, ExplainRequest)
        for path, handler in (("/v1/nothing", nothing), ("/v1/rank", only_rank))
    ]
    return make_app(settings, [*more, *declared(settings)])


def prepare(pool: int, folder: Path, kind: str = "bper") -> tuple[Path, Path]:
    """A saved model, and a file of request bodies, made once."""
    model, bodies = folder / f"{kind}-{pool}", folder / f"bodies-{pool}.jsonl"
    if not model.is_dir() or not bodies.is_file():
        preset, sizes = DATA[pool]
        data = wr.simulate(preset, seed=0, **sizes)
        rng = np.random.default_rng(0)
        if kind == "profile-j":
            wr.ProfileJ().fit(data).save(model)
        else:
            fitted = wr.BPER(factors=20, epochs=1, bias_start="popularity").fit(data)
            for name in ("user_factors_", "item_factors_", "explanation_by_user_", "explanation_by_item_"):
                setattr(fitted, name, rng.normal(0, 0.4, getattr(fitted, name).shape).astype(np.float32))
            fitted.save(model)
        records = np.random.default_rng(1).integers(0, data.records, 5000)
        pairs = zip(
            data.users.terms(data.record_user[records]), data.items.terms(data.record_item[records]), strict=True
        )
        bodies.write_text("".join(json.dumps({"user": u, "item": i, "n": 10}) + "\n" for u, i in pairs))
    return model, bodies


def prepare_elsewhere(source: Path, pool: int, folder: Path, kind: str) -> Path:
    """The model of another version of the library, fitted by it."""
    folder.mkdir(parents=True, exist_ok=True)
    code = f"import service_load, pathlib; service_load.prepare({pool}, pathlib.Path({str(folder)!r}), {kind!r})"
    subprocess.run([sys.executable, "-c", code], env=environment_of(source), check=True)
    return folder / f"{kind}-{pool}"


def environment_of(source: Path | None) -> dict[str, str]:
    """Variables of a process that imports this file, and the library from `source` (None: as here)."""
    places = [str(HERE), *([str(source)] if source else []), os.environ.get("PYTHONPATH", "")]
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places), **single}


def serve(**given: Any) -> None:
    """What the process that is measured runs; the settings are made by the version that it runs."""
    run(Settings(**given | {"models": tuple(given["models"])}), port=0, application="service_load:application")


class Running(NamedTuple):
    """A service in a process of its own, its address, and what it says."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def failed(self, what: str) -> SystemExit:
        return SystemExit(f"{what}\n" + "\n".join(self.log.read_text().splitlines()[-15:]))


def start(model: Path, workers: int, folder: Path, in_flight: int = 1024, source: Path | None = None) -> Running:
    """The service, once all workers are up. It writes to a file: a pipe that nobody reads would stop it when full."""
    name = "load-baseline" if source else "load"
    given = {"models": [str(model)], "store": f"sqlite:///{folder}/{name}.db", "workers": workers, "rate": 0}
    given["in_flight"] = in_flight
    code = f"import service_load\nif __name__ == '__main__': service_load.serve(**{given!r})"
    log = folder / f"{name}.log"
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment_of(source), text=True, stdout=subprocess.PIPE, stderr=said
        )
    assert process.stdout is not None
    running = Running(process, process.stdout.readline().strip() + "v1/", log)
    while log.read_text().count("startup complete") < workers:
        if process.poll() is not None:
            raise running.failed("the service did not start:")
        time.sleep(0.1)
    return running


def load(service: Running, route: str, bodies: Path, seconds: int, connections: int) -> dict[str, float]:
    """What wrk says of a route: requests a second, how many, and times in milliseconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA % bodies)
        script.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", script.name]
        text = subprocess.run([*command, service.url + route], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise service.failed(text)
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
    print("| pool | model | workers | route | requests/s | p50 ms | p99 ms | CPU us | beyond nothing, of explain |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for pool in arguments.pools:
        for kind in arguments.models:
            model, bodies = prepare(pool, folder, kind)
            old = arguments.baseline and prepare_elsewhere(arguments.baseline, pool, folder / "baseline", kind)
            for workers in arguments.workers:
                best = _best(arguments, folder, model, old, bodies, workers)
                for route, row in best.items():
                    told = f"{(row['cpu'] - best['nothing']['cpu']) / best['explain']['cpu']:.0%}"
                    times = f"{row['50']:.2f} | {row['99']:.2f} | {row['cpu']:.0f}"
                    cells = f"{pool:,} | {kind} | {workers} | {route} | {row['rate']:,.0f}"
                    print(f"| {cells} | {times} | {told} |", flush=True)


def _best(
    arguments: argparse.Namespace, folder: Path, model: Path, old: Path | None, bodies: Path, workers: int
) -> dict[str, dict[str, float]]:
    """The best of several turns of every route; a version beside this one takes its turns between them."""
    running = {"": start(model, workers, folder)}
    try:
        if old:
            running[", baseline"] = start(old, workers, folder, source=arguments.baseline)
        for service in running.values():
            load(service, "explain", bodies, 2, arguments.connections)  # the first requests touch cold pages
        turns = [("nothing", ""), ("rank", ""), ("explain", ""), *([("explain", ", baseline")] if old else [])]
        best: dict[str, dict[str, float]] = {}
        for route, version in turns * arguments.repeats:
            answering = workers_of(running[version].process, workers)
            before = cpu_seconds(answering)
            found = load(running[version], route, bodies, arguments.seconds, arguments.connections)
            found["cpu"] = (cpu_seconds(answering) - before) / found["count"] * 1e6
            kept = best.setdefault(route + version, dict(found))
            better = found if found["rate"] > kept["rate"] else kept
            best[route + version] = better | {"cpu": min(found["cpu"], kept["cpu"])}
        return best
    finally:
        for service in running.values():
            service.end()


def memory(workers: int, folder: Path) -> None:
    model, bodies = prepare(126_696, folder)
    service = start(model, workers, folder)
    try:
        load(service, "explain", bodies, 10, 16)
        print(
            "| worker | resident MB | of that shared files MB | proportional MB | private MB |\n|---|---|---|---|---|"
        )
        total = 0.0
        for child in workers_of(service.process, workers):
            text = Path(f"/proc/{child}/smaps_rollup").read_text()
            sizes = {n: int(v) / 1024 for n, v in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
            private = sizes["Private_Clean"] + sizes["Private_Dirty"]
            total += sizes["Pss"]
            shared = sizes["Shared_Clean"] + sizes["Shared_Dirty"]
            print(f"| {child} | {sizes['Rss']:,.0f} | {shared:,.0f} | {sizes['Pss']:,.0f} | {private:,.0f} |")
        size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file()) / 2**20
        print(f"\nall workers together (proportional): {total:,.0f} MB; the model folder: {size:,.0f} MB")
    finally:
        service.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, nargs="+", choices=sorted(DATA), default=sorted(DATA))
    parser.add_argument("--models", nargs="+", choices=("bper", "profile-j"), default=["bper"])
    parser.add_argument("--baseline", type=Path, metavar="SRC", help="the src folder of a version to measure beside it")
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
