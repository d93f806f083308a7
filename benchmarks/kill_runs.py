"""Kill whyrank outright at random moments, start it again, and look whether anything was lost or doubled.

    python benchmarks/kill_runs.py --kills 50 --seed 0 [--only fit,learn,log] [--store postgresql+psycopg://...]

Commands that write: after every kill the output is the old one or the new one, whole; in the end it is what an
undisturbed run writes, and nothing else is left beside it. The service: every event that was acknowledged is there
after the restart, and after the client has sent the others again every event is there once. With `--log`, every list
that was durably answered is there once, and what was done with it. Workers of a service: one
of two or both are killed, while slow clients hold a hundred connections; each is replaced, reasons are given again, and
no acknowledged event is lost. `--store` is a database for the service instead of a file; our tables in it are dropped.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

# Small data, so checkpoints and parts must be small as well for a kill to fall between them.
START = """
import functools, sys
import whyrank.cli.learn as learn
import whyrank.explain.bulk as bulk
import whyrank.training as training
training.Run = functools.partial(training.Run, checkpoint_seconds=0.05)
bulk.ROWS, learn.SAVED = 2000, 0.05
from whyrank.cli import main
if __name__ == "__main__":
    main()
"""
COMMAND = [sys.executable, "-c", START]
NAMES = ["fit", "mine", "explain", "experiment", "learn", "serve", "log", "workers"]


@dataclass(frozen=True)
class Work:
    """A command that writes: its arguments, those that gave the older result, and what of the output must agree."""

    name: str
    new: tuple[str, ...]
    old: tuple[str, ...]
    output: str
    content: Callable[[Path], str]


@dataclass
class Tally:
    """What came of killing one command."""

    name: str
    kills: int = 0
    old: int = 0  # kills after which the older result was there
    new: int = 0  # kills after which the new one was there already
    resumed: int = 0  # starts that found the work of an earlier one
    seconds: float = 0.0

    def row(self) -> str:
        return f"| {self.name} | {self.kills} | {self.old} | {self.new} | {self.resumed} | {self.seconds:.0f} |"


HEADER = """| command | kills | old result there | new one there | starts that went on | seconds |
|---|--:|--:|--:|--:|--:|"""


# -- commands that write -----------------------------------------------------------------------------------------------


def of_files(folder: Path) -> str:
    """A hash of all files of a folder (or of one file), by name."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
        if file.is_file():
            digest.update(str(file.relative_to(folder.parent)).encode() + file.read_bytes())
    return digest.hexdigest()


def of_mined(folder: Path) -> str:
    """All of a mined folder but how long it took."""
    account = json.loads((folder / "mining.json").read_text())
    del account["seconds"]
    return json.dumps([account, *(of_files(file) for file in sorted(folder.glob("*.parquet")))])


def of_experiment(folder: Path) -> str:
    """The figures of a report but those of time."""

    def without_time(value: object) -> object:
        if isinstance(value, dict):
            return {k: without_time(v) for k, v in value.items() if not re.search("second|cpu|time|memory", k)}
        return [without_time(each) for each in value] if isinstance(value, list) else value

    return json.dumps(without_time(json.loads((folder / "results.json").read_text())))


FIT = ("fit", "split", "--model", "bper", "--resume", "-o", "model", "--set", "epochs=4000", "--threads", "1")
EXPLAIN = ("explain", "pop", "--pairs", "pairs.parquet", "-o", "reasons.parquet", "--grounded", "--diversity", "0.3")
MINE = ("mine", "reviews.jsonl.gz", "-o", "mined")
CONVERT = ("convert", "-o", "extra", "--form", "extra")
EXPERIMENT = ("experiment", "ranking,mu", "split", "-o", "report", "--splits", "1")
LEARN = ("learn", "taught", "--log", "log", "-o", "new", "--explore", "1", "--epsilon", "0.1", "--force")
WORKS = (
    Work("fit", FIT, ("fit", "split", "--model", "pop", "-o", "model"), "model", of_files),
    Work("mine", MINE, (*MINE, "--set", "min_count=20"), "mined", of_mined),
    Work("convert to EXTRA", (*CONVERT, "triplets.csv"), (*CONVERT, "fewer.csv"), "extra", of_files),
    Work("explain --pairs", (*EXPLAIN, "-n", "5"), (*EXPLAIN, "-n", "3"), "reasons.parquet", of_files),
    Work(
        "experiment",
        (*EXPERIMENT, "--models", "pop,share,counts,bper"),
        (*EXPERIMENT, "--models", "pop,share"),
        "report",
        of_experiment,
    ),
    Work("learn", LEARN, ("fit", "split", "--model", "pop", "-o", "new"), "new", of_files),
)


INPUTS = ("split", "pop", "pairs.parquet", "reviews.jsonl.gz", "triplets.csv", "fewer.csv", "taught", "log")


def make_world(folder: Path, **sizes: int) -> None:
    """What the commands read, of the size of `simulate small` or another one."""
    import polars as pl

    import whyrank as wr
    from whyrank.data.tables import write_table
    from whyrank.lab.simulate import simulate_reviews

    split = wr.simulate("small", seed=0, **sizes).split(seed=0)
    split.write(folder / "split")
    wr.POP().fit(split).save(folder / "pop")
    split.data.write(folder / "triplets.csv")
    split.train.write(folder / "fewer.csv")
    pairs = split.data.frame().select("user", "item").unique(maintain_order=True)
    write_table(pl.concat([pairs] * 4), folder / "pairs.parquet")
    write_table(simulate_reviews("small", seed=0, **sizes), folder / "reviews.jsonl.gz")


def make_log(folder: Path, lists: int) -> None:
    """What `learn` reads: a model, and what people did with its lists."""
    import whyrank as wr
    from whyrank.lab.simulate.log import simulate_log

    people = wr.simulate_people(users=300, items=30, explanations=100, records=3000, seed=0)
    model = wr.Profile(epochs=1, factors=8).fit(people.triplets)
    model.save(folder / "taught")
    simulate_log(people, model, lists, wr.Options(explore=1.0, epsilon=0.1)).write(folder / "log")


def run(arguments: tuple[str, ...], folder: Path) -> float:
    """Run a command to its end; how long it took."""
    begin = time.perf_counter()
    done = subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"whyrank {' '.join(arguments)}: {done.stderr}")
    return time.perf_counter() - begin


def kill_command(work: Work, world: Path, kills: int, rng: random.Random) -> Tally:
    """Kill a command so often, start it again after each kill, and let it end once."""
    tally, begin = Tally(work.name), time.perf_counter()
    calm, stormy, kept = _place(world, "calm"), _place(world, "stormy"), world / "kept"
    run(work.old, calm)
    before = work.content(calm / work.output)
    _copy(calm / work.output, kept)
    _copy(kept, stormy / work.output)
    seconds = run(work.new, calm)
    after = work.content(calm / work.output)
    assert before != after, "the two results must differ for this to show anything"
    while tally.kills < kills:
        tally.resumed += _begun(stormy, work.output, kept)
        if not _killed([*COMMAND, *work.new], stormy, rng.uniform(0, 1.05 * seconds)):
            assert work.content(stormy / work.output) == after, f"{work.name}: ended with another result"
            _copy(kept, stormy / work.output)  # once more from the start
            continue
        tally.kills += 1
        found = work.content(stormy / work.output)
        assert found in (before, after), f"{work.name}: neither the old nor the new result after kill {tally.kills}"
        tally.old += found == before
        tally.new += found == after
    run(work.new, stormy)
    assert work.content(stormy / work.output) == after, f"{work.name}: another result after the kills"
    left = sorted({path.name for path in stormy.iterdir()} - {path.name for path in calm.iterdir()})
    assert not left, f"{work.name}: left behind {left}"
    tally.seconds = time.perf_counter() - begin
    return tally


def _place(world: Path, name: str) -> Path:
    """A fresh folder to work in, with what the commands read."""
    folder = world / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for each in INPUTS:
        (folder / each).symlink_to(world / each)
    return folder


def _begun(folder: Path, output: str, kept: Path) -> bool:
    """Whether an earlier start left work to go on from: a checkpoint, parts, or runs that the old result had not."""
    hidden = any((folder / f".{output}.{kind}").exists() for kind in ("checkpoint", "parts"))
    runs, before = ({path.name for path in (place / "runs").glob("*.npz")} for place in (folder / output, kept))
    return hidden or bool(runs - before)


def _killed(command: list[str], folder: Path, seconds: float) -> bool:
    """Start, wait, kill; False if it had ended by itself."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.send_signal(signal.SIGKILL)
        said = process.communicate()[1]
    if process.returncode == -signal.SIGKILL:
        return True
    assert process.returncode == 0, said
    return False


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.unlink(missing_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


# -- the service -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def service(world: Path, store: str, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`whyrank serve` on a port of its own; killed in the end."""
    arguments = ("serve", "pop", "--store", store, "--rate", "0", "--port", "0", *more)
    environment = {**os.environ, "COLUMNS": "200"}
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=world, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stderr is not None
            said = ""
            while not (found := re.search(r"(http://\S+/)", said)) or "startup complete" not in said:
                line = process.stderr.readline()
                assert line, said
                said += line
            threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would stop the service
            yield found[1], process
        finally:
            process.kill()


def emptied(store: str) -> str:
    """A store without any of our tables."""
    from whyrank.online.store import Store
    from whyrank.online.tables import metadata

    opened = Store(store)
    with opened.writing() as connection:
        metadata.drop_all(connection)
    opened.close()
    return store


def send(url: str, numbers: list[int]) -> None:
    """Events with keys of their own, acknowledged when this returns."""
    events = [{"id": f"event {number}", "event": "shown", "user": "u", "item": "i"} for number in numbers]
    body = json.dumps({"events": events}).encode()
    request = urllib.request.Request(f"{url}v1/feedback", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        answer = json.load(response)
    assert answer["stored"] + answer["repeated"] == len(numbers)


def count(url: str) -> int:
    with urllib.request.urlopen(f"{url}v1/feedback", timeout=60) as response:
        return sum(each["shown"] for each in json.load(response)["models"])


def kill_service(world: Path, store: str, kills: int, rng: random.Random) -> Tally:
    """Kill the service while events come in, as often, and count them after every restart."""
    tally, begin = Tally(f"serve, with feedback, {emptied(store).partition(':')[0]}"), time.perf_counter()
    acknowledged, waiting, last = 0, [], 0
    while tally.kills < kills:
        with service(world, store) as (url, process):
            there = count(url)
            assert acknowledged <= there <= acknowledged + len(waiting), "an event was lost or doubled"
            tally.resumed += there > 0
            if waiting:
                send(url, waiting)  # some of them may have been stored before the kill
                acknowledged, waiting = acknowledged + len(waiting), []
            assert count(url) == acknowledged, "an event was lost or doubled"
            kill = ["sh", "-c", f"sleep {rng.uniform(0, 0.3):.3f}; kill -9 {process.pid}"]
            with subprocess.Popen(kill), contextlib.suppress(OSError, http.client.HTTPException):
                while True:  # until the kill cuts off a request, or the answer to one
                    waiting = list(range(last, last + rng.randint(1, 20)))
                    last += len(waiting)
                    send(url, waiting)
                    acknowledged, waiting = acknowledged + len(waiting), []
            tally.kills += 1
    with service(world, store) as (url, _):
        assert acknowledged <= count(url) <= acknowledged + len(waiting), "an event was lost or doubled"
        tally.name += f" ({count(url):,} events)"
    tally.seconds = time.perf_counter() - begin
    return tally


def shown(url: str) -> str:
    """Ask for reasons that are logged durably, click on them, and return the exposure when both are acknowledged."""
    body = json.dumps({"user": "u000001", "item": "i00001", "grounded": False, "durable": True}).encode()
    request = urllib.request.Request(f"{url}v1/explain", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        exposure: str = json.load(response)["results"][0]["exposure"]
    body = json.dumps({"events": [{"exposure": exposure, "event": "clicked", "position": 1}]}).encode()
    request = urllib.request.Request(f"{url}v1/feedback", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60):
        return exposure


def kill_log(world: Path, store: str, kills: int, rng: random.Random) -> Tally:
    """Kill the service while exposures and clicks are logged, as often, and look for them after every kill."""
    from whyrank.online.log import Log

    tally, begin = Tally(f"serve --log, {emptied(store).partition(':')[0]}"), time.perf_counter()
    acknowledged: list[str] = []
    while tally.kills < kills:
        with service(world, store, "--log") as (url, process):
            tally.resumed += bool(acknowledged)

            def client(url: str = url) -> None:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    while True:  # until the kill cuts off a request, or the answer to one
                        acknowledged.append(shown(url))

            clients = [threading.Thread(target=client) for _ in range(4)]
            for each in clients:
                each.start()
            time.sleep(rng.uniform(0, 0.5))
            process.kill()
            for each in clients:
                each.join()
            tally.kills += 1
        log = Log.read(store)  # refuses positions of an exposure that are there twice
        assert set(acknowledged) <= set(log.exposures["exposure"]), "an exposure was lost"
        clicked = log.events["exposure"].to_list()
        assert set(acknowledged) <= set(clicked), "a click was lost"
        assert len(clicked) == len(set(clicked)), "a click was doubled"
    tally.name += f" ({len(acknowledged):,} acknowledged of {log.lists:,} exposures)"
    tally.seconds = time.perf_counter() - begin
    return tally


def workers_of(process: subprocess.Popen[str]) -> set[int]:
    """Process ids of the workers of a service."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    found = set()
    for each in children:
        with contextlib.suppress(OSError):  # it may have ended in between
            if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes():
                found.add(int(each))
    return found


def hold(url: str, count: int) -> list[socket.socket]:
    """Connections of clients that send the first byte of a body and no more."""
    at, held = urlsplit(url), []
    head = (
        b"POST /v1/explain HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"
    )
    for _ in range(count):
        with contextlib.suppress(OSError):
            held.append(socket.create_connection((at.hostname, at.port), timeout=60))
            held[-1].sendall(head)
    return held


def explained(url: str) -> bool:
    """Whether reasons are given."""
    body = json.dumps({"user": "nobody", "item": "nothing"}).encode()
    request = urllib.request.Request(f"{url}v1/explain", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20):
            return True
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 404  # ranked, for an item that nobody knows
    except OSError:
        return False


def kill_workers(world: Path, store: str, kills: int, rng: random.Random, slow: int = 100) -> Tally:
    """Kill one worker of two, or both, as often, while events come in and slow clients hold connections."""
    tally, begin = Tally(f"serve --workers 2, slow clients, {emptied(store).partition(':')[0]}"), time.perf_counter()
    last, longest = 0, 0.0
    with service(world, store, "--workers", "2") as (url, process):
        wait_until(lambda: len(workers_of(process)) == 2)
        while tally.kills < kills:
            held = hold(url, slow)
            killed = set(rng.sample(sorted(workers_of(process)), rng.randint(1, 2)))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            at = time.perf_counter()
            wait_until(lambda killed=killed: len(workers_of(process) - killed) == 2 and explained(url))
            longest = max(longest, time.perf_counter() - at)
            numbers = list(range(last, last + rng.randint(1, 20)))
            while True:  # a request that a kill cuts off is sent again
                with contextlib.suppress(OSError):
                    send(url, numbers)
                    break
            last += len(numbers)
            tally.kills += len(killed)
            for each in held:
                each.close()
        assert count(url) == last, "an event was lost or doubled"
    tally.name += f" ({last:,} events, replaced and answering after {longest:.1f} s at most)"
    tally.seconds = time.perf_counter() - begin
    return tally


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help=f"names, separated by commas: {', '.join(NAMES)}")
    parser.add_argument("--store", help="a database instead of a SQLite file; our tables in it are dropped")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else NAMES
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        make_world(world)
        store = arguments.store or f"sqlite:///{world}/store.db"
        if "learn" in chosen:
            make_log(world, 60_000)
        print(HEADER, flush=True)
        for work in WORKS:
            if work.name.split()[0] in chosen:
                run(work.new, _place(world, "warm"))  # kernels may have to be compiled
                rng = random.Random(f"{arguments.seed} {work.name}")
                print(kill_command(work, world, arguments.kills, rng).row(), flush=True)
        services = {"serve": kill_service, "log": kill_log, "workers": kill_workers}
        for name, kill in services.items():
            if name in chosen:
                rng = random.Random(f"{arguments.seed} {name}")
                print(kill(world, store, arguments.kills, rng).row(), flush=True)


if __name__ == "__main__":
    main()
