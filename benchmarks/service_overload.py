"""Ask the service for twice what it can answer, for a while, and see that it neither falls nor swells.

    python benchmarks/service_overload.py --seconds 600 --workers 1

With `--slow N`, as many more clients hold connections on which a body never comes to its end.

Needs wrk. First it measures how many requests a second the service answers when each of a few connections waits for
its answer. Then twice as many are due on schedule; those that find all connections waiting are not sent, but counted.
There is no rate limit per client, so that the bound on requests under way (503) is what protects it. It ends with code
1 unless nearly all that was due was sent, the workers are still the same processes, every answer was 200, 429 or 503
(the last two with Retry-After), private memory has not grown by more than `--growth` MB after the first tenth, and
requests are answered with 200 again within `--recovery` seconds of the end.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

import service_load
from kill_runs import hold
from service_load import load, prepare, workers_of

FEW = 8  # connections that find out the capacity
CONNECTIONS = 512  # of the overload
TIMEOUT = 10.0


@dataclass
class Seen:
    """What came back."""

    answers: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)  # seconds of those answered with 200
    without_retry: int = 0
    asked: int = 0


def resident(processes: list[str]) -> float:
    """MB of all workers that no other process shares."""
    total = 0
    for process in processes:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith(("Private_", "Swap:")))
    return total / 1024


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bool]:
    """One request over an open connection: its status, and whether it says when to come back."""
    writer.write(request)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT)
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1]), b"retry-after:" in head.lower()


async def connection(host: str, port: int, ticks: asyncio.Queue[bytes | None], seen: Seen) -> None:
    """Send what is due, one after the other, until there is nothing more."""
    reader = writer = None
    while (request := await ticks.get()) is not None:
        began = time.monotonic()
        try:
            if reader is None or writer is None or reader.at_eof():  # the service closes what is idle for some seconds
                reader, writer = await asyncio.open_connection(host, port)
            status, retry = await ask(reader, writer, request)
            seen.answers[str(status)] += 1
            seen.without_retry += status != 200 and not retry
            if status == 200:
                seen.waits.append(time.monotonic() - began)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
            seen.answers[type(error).__name__] += 1
            writer = None
    if writer is not None:
        writer.close()


async def overload(
    url: str,
    bodies: list[bytes],
    rate: float,
    seconds: float,
    watch: list[float],
    pids: list[str],
    slow_clients: int = 0,
) -> Seen:
    """Send `rate` requests a second on schedule; what cannot be sent because all connections wait is dropped."""
    at, seen = urlsplit(url), Seen()
    assert at.hostname is not None
    assert at.port is not None
    ticks: asyncio.Queue[bytes | None] = asyncio.Queue(CONNECTIONS)
    slow = asyncio.create_task(be_slow(url, slow_clients))
    tasks = [asyncio.create_task(connection(at.hostname, at.port, ticks, seen)) for _ in range(CONNECTIONS)]
    head = f"POST {at.path} HTTP/1.1\r\nhost: {at.netloc}\r\ncontent-type: application/json\r\ncontent-length: "
    requests = itertools.cycle([head.encode() + b"%d\r\n\r\n" % len(body) + body for body in bodies])
    begin = look = time.monotonic()
    while (now := time.monotonic()) < begin + seconds:
        for _ in range(int((now - begin) * rate) - seen.asked):
            seen.asked += 1
            if ticks.full():
                seen.answers["not sent, all connections wait"] += 1
            else:
                ticks.put_nowait(next(requests))
        if now >= look:
            watch.append(resident(pids))
            look = now + max(seconds / 60, 1)
        await asyncio.sleep(0.005)
    for _ in tasks:
        await ticks.put(None)
    await asyncio.gather(*tasks)
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    return seen


async def be_slow(url: str, count: int) -> None:
    """Hold connections with unfinished requests, again and again, as the service closes them after a while."""
    while count:
        held = await asyncio.to_thread(hold, url, count)
        try:
            await asyncio.sleep(10)
        finally:
            for each in held:
                each.close()


def recovered(url: str, body: bytes, longest: float) -> float:
    """Seconds until requests, one at a time, are answered with 200 ten times in a row."""
    begin, in_a_row = time.monotonic(), 0
    with httpx.Client(timeout=TIMEOUT, headers={"content-type": "application/json"}) as client:
        while in_a_row < 10 and time.monotonic() - begin < longest:
            in_a_row = in_a_row + 1 if client.post(url, content=body).status_code == 200 else 0
    return time.monotonic() - begin if in_a_row == 10 else float("inf")


def trial(arguments: argparse.Namespace, folder: Path) -> bool:
    model, file = prepare(arguments.pool, folder)
    bodies = file.read_bytes().splitlines()
    service = service_load.start(model, arguments.workers, folder, in_flight=arguments.in_flight)
    process, url = service.process, service.url + "explain"
    try:
        load(service, "explain", file, 3, FEW)
        capacity = load(service, "explain", file, 5, FEW)["rate"]
        pids, watch = workers_of(process, arguments.workers), list[float]()
        rate = arguments.times * capacity
        seen = asyncio.run(overload(url, bodies, rate, arguments.seconds, watch, pids, arguments.slow))
        back = recovered(url, bodies[0], arguments.recovery)
        same = process.poll() is None and workers_of(process, arguments.workers) == pids
    finally:
        service.end()
    grown = max(watch) - watch[len(watch) // 10]
    waits = sorted(seen.waits) or [float("nan")]
    sent = Counter({name: n for name, n in seen.answers.items() if not name.startswith("not sent")})
    facts = {
        "capacity, requests/s": round(capacity),
        "asked, requests/s": round(seen.asked / arguments.seconds),
        "sent of those": round(sent.total() / arguments.seconds),
        "seconds": arguments.seconds,
        **dict(sorted(seen.answers.items())),
        "answered with 200 a second": round(seen.answers["200"] / arguments.seconds),
        "p50 and p99 of those, ms": f"{1e3 * waits[len(waits) // 2]:.0f}, {1e3 * waits[int(0.99 * len(waits))]:.0f}",
        "private memory, MB: a tenth on, most": f"{watch[len(watch) // 10]:.0f}, {max(watch):.0f}",
        "the same processes at the end": same,
        "recovered after, s": round(back, 2),
    }
    print("| | |\n|---|--:|\n" + "\n".join(f"| {name} | {value} |" for name, value in facts.items()))
    return (
        sent.total() >= 0.95 * seen.asked
        and same
        and set(sent) <= {"200", "429", "503"}
        and not seen.without_retry
        and grown <= arguments.growth
        and back <= arguments.recovery
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", type=int, choices=sorted(service_load.DATA), default=8191)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--times", type=float, default=2.0, help="of its capacity")
    parser.add_argument(
        "--in-flight", type=int, default=64, help="requests under way in one worker, as the service has it"
    )
    parser.add_argument("--slow", type=int, default=0, help="clients that never finish a request")
    parser.add_argument("--growth", type=float, default=50)
    parser.add_argument("--recovery", type=float, default=5)
    parser.add_argument("--folder", type=Path, help="keep the model here for the next run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not trial(arguments, folder):
            sys.exit("the service did not stand it")


if __name__ == "__main__":
    main()
