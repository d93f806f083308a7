"""What logging costs: processor time of a request with and without it, and how long a large log takes to read.

    python benchmarks/exposure_load.py --requests 4000 --rounds 3 --lists 1000000 [--store postgresql+psycopg://...]

Two services with the same model answer the same requests in turns, one with `--log`. Processor time of the service,
its writing thread included, is compared, since requests a second depend on what else the machine does. Then a store is
filled with lists of three reasons and a tenth as many events by the service's own writer, and read as tables.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

START = """
from whyrank.cli import main
if __name__ == "__main__":
    main()
"""
CLIENTS = 4


class Service:
    """A service in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-c", START, "serve", *arguments, "--port", "0", "--rate", "0"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        self.url, self.seconds, self.cpu, self.count = "", 0.0, 0.0, 0
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(r"(http://\S+/)", line)
            self.url = found[1] if found else self.url
            if "startup complete" in line:
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def ticks(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, bodies: list[bytes]) -> None:
        """Send all requests over a few connections and add up what they took."""
        begin, cpu = time.perf_counter(), self.ticks()
        threads = [threading.Thread(target=self._client, args=(bodies[at::CLIENTS],)) for at in range(CLIENTS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.seconds += time.perf_counter() - begin
        self.cpu += self.ticks() - cpu
        self.count += len(bodies)

    def _client(self, bodies: list[bytes]) -> None:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        for body in bodies:
            connection.request("POST", "/v1/explain", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
        connection.close()


def requests_cost(folder: Path, requests: int, rounds: int, store: str | None) -> None:
    """Compare a service that logs with one that does not."""
    import whyrank as wr

    split = wr.simulate("small", seed=0).split(seed=0)
    wr.BPER(epochs=2).fit(split).save(folder / "model")
    pairs = split.data.frame().select("user", "item").unique(maintain_order=True).rows()
    bodies = [json.dumps({"user": u, "item": i, "n": 3}).encode() for u, i in pairs]
    bodies = (bodies * (requests // len(bodies) + 1))[:requests]
    plain = Service(str(folder / "model"), "--store", f"sqlite:///{folder}/plain.db")
    logging = Service(str(folder / "model"), "--store", store or f"sqlite:///{folder}/log.db", "--log")
    services = (plain, logging)
    try:
        for each in services:
            each.ask(bodies[:500])
            each.cpu, each.seconds, each.count = 0.0, 0.0, 0
        for _ in range(rounds):
            for each in services:
                each.ask(bodies)
    finally:
        for each in services:
            each.process.terminate()
            each.process.wait()
    for name, each in (("without", plain), ("with", logging)):
        print(
            f"{name} logging: {1e6 * each.cpu / each.count:.0f} us of processor time, {each.count / each.seconds:.0f}/s"
        )
    print(f"logging costs {logging.cpu / plain.cpu - 1:.1%} of processor time", flush=True)


class Uncounted:
    """A writer's counts that nobody reads."""

    def exposures_written(self, count: int) -> None: ...
    def exposures_failed(self, count: int) -> None: ...
    def exposures_queued(self, count: int) -> None: ...


def large_log(folder: Path, lists: int, store_url: str | None) -> None:
    """Fill a store and read it."""
    from whyrank.online import events
    from whyrank.online.log import Log
    from whyrank.online.store import Store
    from whyrank.online.writer import Exposure, Writer, new_id

    url = store_url or f"sqlite:///{folder}/large.db"
    store = Store(url).create()
    slate = json.dumps([{"i": "i00001", "e": f"e{at:05d}", "p": 1.0} for at in range(3)])
    begin, writer, ids = time.perf_counter(), Writer(store, Uncounted()), []
    for start in range(0, lists, 10_000):
        size = min(10_000, lists - start)
        ids += [new_id() for _ in range(size)]
        writer.put(
            [
                Exposure(id_, at, f"u{at % 50_000:06d}", "explain", "bper", "d", "t", "ab"[at % 2], "{}", slate)
                for at, id_ in enumerate(ids[start:], start)
            ]
        )
        writer.flush()
    writer.close()
    print(f"{lists:,} lists written in {time.perf_counter() - begin:.1f} s")
    begin = time.perf_counter()
    for start in range(0, lists, 10_000):
        part = ids[start : start + 10_000 : 10]
        events.add(store, [{"event": "clicked", "exposure": id_, "position": 1} for id_ in part])
    print(f"{lists // 10:,} events written in {time.perf_counter() - begin:.1f} s")
    store.close()
    begin = time.perf_counter()
    log = Log.read(url, experiment="t")
    print(f"{log} read in {time.perf_counter() - begin:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lists", type=int, default=1_000_000)
    parser.add_argument("--store", help="a database instead of SQLite files")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if given.requests:
            requests_cost(Path(name), given.requests, given.rounds, given.store)
        if given.lists:
            large_log(Path(name), given.lists, given.store)


if __name__ == "__main__":
    main()
