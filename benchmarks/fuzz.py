"""Damaged input for every reader: a typed error or a valid result; never another exception, a hang or a program run.

    python benchmarks/fuzz.py --inputs 1000000 --seed 0 [--seconds 420] [--jobs 2] [--only csv,pickle]
    python benchmarks/fuzz.py --seed 0 --show csv 123        # one input again, with its traceback

An input is a sound file with some mutations, a function of the seed, the reader and the input's number. Work is done in
chunks, each in a process of its own; finished chunks are kept in benchmarks/output/, so that the same call goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # tiny files gain nothing from more
os.environ.setdefault("RUST_BACKTRACE", "0")

from fuzz_readers import READERS, Files, Reader, make_corpus
from whyrank.errors import WhyrankError

OUTPUT = Path(__file__).parent / "output"
CHUNK = 5000
LIMIT = 20.0  # seconds of the processor for one input
PATIENCE = 1800.0  # seconds in which a process must get to another input: it may share its processor with others
LARGEST = 50_000  # bytes of one input
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "pty.spawn", "socket.connect")
FORBIDDEN += ("os.chmod", "os.chown", "os.symlink", "ctypes.dlopen")


# -- mutations ---------------------------------------------------------------------------------------------------------

TOKENS = [b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"\n\n", b'"', b'""', b"'", b",", b"\t", b":", b"::"]
TOKENS += [b"\\"]
TOKENS += [b"{", b"}", b"[", b"]", b"null", b"true", b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"-0.0", b"0x10"]
TOKENS += [str(2**power + more).encode() for power in (7, 15, 31, 32, 63, 64) for more in (-1, 0)]
TOKENS += [b"9" * 400, b"[" * 3000, b'{"a":' * 2000, b"../../../../etc/passwd", b"%s%n", b"\xc3\x28", b"\xed\xa0\x80"]
TOKENS += ["\u202e\U0001f600\u0000".encode(), b"A" * 5000, b"__class__", b"cos\nsystem\n(S'true'\ntR."]


def mutated(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The content with one to eight changes."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randint(0, len(data))
        end = min(len(data), at + 1 + int(rng.expovariate(1 / 8)))
        kind = rng.randrange(9)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 2:
            del data[at:end]
        elif kind == 3:
            data[at:at] = data[at:end] * rng.choice((1, 2, 3, 50))
        elif kind == 4:
            data[at:at] = rng.choice(TOKENS)
        elif kind == 5:
            data[at:end] = rng.choice(TOKENS)
        elif kind == 6:
            other = rng.choice(others)
            start = rng.randint(0, len(other))
            data[at:end] = other[start : start + int(rng.expovariate(1 / 30))]
        elif kind == 7 and rng.random() < 0.3:
            del data[at:]
        else:
            data[at:at] = rng.randbytes(1 + rng.getrandbits(3))
    return bytes(data[:LARGEST])


# -- one input ---------------------------------------------------------------------------------------------------------


class Hang(BaseException):
    """An input took longer than LIMIT."""


class Watched:
    """What the process did while a reader was at work; hooks cannot be removed, so there is one."""

    now, hooked = False, False
    place = ""  # where the input is: a command that goes on from it may write there
    seen: ClassVar[list[str]] = []


def _watch() -> None:
    signal.signal(signal.SIGPROF, _alarm)
    if not Watched.hooked:
        sys.addaudithook(_audit)
        Watched.hooked = True


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    own = event == "os.chmod" and str(arguments[0]).startswith(Watched.place)
    if Watched.now and event in FORBIDDEN and not own:
        Watched.seen.append(f"{event}{arguments!r}"[:200])


def _alarm(*_: object) -> None:
    raise Hang(f"more than {LIMIT:.0f} s")


class Fuzzer:
    """Reads inputs of one reader by number."""

    def __init__(self, reader: Reader, seed: int, folder: Path) -> None:
        self.reader, self.seed = reader, seed
        self.corpus = make_corpus(reader, folder / "corpus")
        self.place = folder / "input"
        Watched.place = f"{self.place}/"
        _watch()
        if not any(self._is_taken(sample) for sample in self.corpus):
            raise AssertionError(f"{reader.name} refuses all that is sound")

    def prepare(self, number: int) -> None:
        """Put the input with a number where the reader looks."""
        rng = random.Random(f"{self.seed} {self.reader.name} {number}")
        sample = rng.choice(self.corpus)
        name = rng.choice(sorted(sample))
        files = dict(sample)
        files[name] = mutated(files[name], [files[name], *(other[name] for other in self.corpus if name in other)], rng)
        if self.reader.mend is not None and rng.random() < 0.8:
            files = self.reader.mend(files)
        self._put(files)

    def _put(self, files: Files) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        for path, content in files.items():
            (self.place / path).parent.mkdir(parents=True, exist_ok=True)
            (self.place / path).write_bytes(content)

    def _is_taken(self, files: Files) -> bool:
        self._put(files)
        try:
            self.reader.read(self.place)
        except WhyrankError:
            return False
        return True

    def read(self, number: int) -> bool:
        """Whether the input was taken; raises what must not be."""
        self.prepare(number)
        Watched.seen.clear()
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        Watched.now = True
        try:
            self.reader.read(self.place)
            return True
        except WhyrankError:
            return False
        finally:
            Watched.now = False
            signal.setitimer(signal.ITIMER_PROF, 0)
            if Watched.seen:
                raise AssertionError(f"forbidden: {Watched.seen[0]}")


@dataclass
class Counts:
    """What came of some inputs of one reader."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    worst: float = 0.0
    failures: list[str] | tuple[str, ...] = ()

    def add(self, other: Counts) -> None:
        self.inputs += other.inputs
        self.accepted += other.accepted
        self.refused += other.refused
        self.seconds += other.seconds
        self.worst = max(self.worst, other.worst)
        self.failures = [*self.failures, *other.failures]


def fuzz(reader: Reader, seed: int, numbers: range, tell: Callable[[int], object] = lambda number: None) -> Counts:
    """Read the inputs with the given numbers."""
    found: list[str] = []
    counts = Counts(failures=found)
    with scratch() as folder, contextlib.ExitStack() as stack:
        stack.callback(logging.disable, logging.NOTSET)
        logging.disable(logging.CRITICAL)
        if reader.around is not None:
            stack.enter_context(reader.around(folder))
        fuzzer = Fuzzer(reader, seed, folder)
        for number in numbers:
            tell(number)
            begin = time.process_time()
            try:
                taken = fuzzer.read(number)
                counts.accepted += taken
                counts.refused += not taken
            except BaseException as error:  # Hang and the panics of Rust are no Exceptions
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
                where = traceback.extract_tb(error.__traceback__)[-1]
                found.append(
                    f"{number}: {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"[:300]
                )
            counts.inputs += 1
            took = time.process_time() - begin
            counts.seconds, counts.worst = counts.seconds + took, max(counts.worst, took)
    return counts


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory where there is one: millions of small files are written."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


# -- many inputs -------------------------------------------------------------------------------------------------------


def chunks(inputs: int, readers: list[Reader]) -> list[tuple[str, int, int]]:
    """(reader, first number, last number + 1), shared out by the readers' weights, some of every reader first."""
    total = sum(reader.weight for reader in readers)
    cut = []
    for reader in readers:
        count = round(inputs * reader.weight / total)
        cut += [(reader.name, start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    return sorted(cut, key=lambda chunk: chunk[1])


def run_chunk(seed: int, name: str, start: int, stop: int) -> Counts:
    """Inputs in a process of their own; where it dies or hangs is a failure, and the others are read without it."""
    if start == stop:
        return Counts()
    with tempfile.NamedTemporaryFile() as progress:
        command = [sys.executable, __file__, "--seed", str(seed), "--chunk", name, str(start), str(stop), progress.name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        before = None
        while True:
            try:
                output, errors = process.communicate(timeout=PATIENCE)
                break
            except subprocess.TimeoutExpired:
                before, last = Path(progress.name).read_text(), before
                if before == last:
                    process.kill()
        if process.returncode == 0:
            return Counts(**json.loads(output.splitlines()[-1]))
        said = [line for line in errors.splitlines() if line and not line.startswith("note")]
        problem = f"the process ended with {process.returncode}: {said[-1] if said else ''}"
        at = int(Path(progress.name).read_text() or start)
    total = Counts(inputs=1, failures=[f"{at}: {problem}"])
    total.add(run_chunk(seed, name, start, at))
    total.add(run_chunk(seed, name, at + 1, stop))
    return total


def run(inputs: int, seed: int, seconds: float, jobs: int, readers: list[Reader]) -> bool:
    """Do the chunks that are not done yet, until the time is over; whether all are done."""
    OUTPUT.mkdir(exist_ok=True)
    kept = OUTPUT / f"fuzz-{seed}.jsonl"
    done = {tuple(json.loads(line)["chunk"]) for line in kept.read_text().splitlines()} if kept.is_file() else set()
    todo = [chunk for chunk in chunks(inputs, readers) if chunk not in done]
    end = time.monotonic() + seconds

    def work(chunk: tuple[str, int, int]) -> None:
        if time.monotonic() < end:
            result = run_chunk(seed, *chunk)
            with kept.open("a") as file:
                file.write(json.dumps({"chunk": chunk, **vars(result)}) + "\n")

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(work, todo))
    return report(kept, readers) and len(todo) == 0


def report(kept: Path, readers: list[Reader]) -> bool:
    """Print what all finished chunks gave."""
    totals = {reader.name: Counts() for reader in readers}
    for line in kept.read_text().splitlines() if kept.is_file() else ():
        document = json.loads(line)
        name = document.pop("chunk")[0]
        if name in totals:
            totals[name].add(Counts(**document))
    overall = Counts()
    print("| reader | inputs | accepted | refused | failed | seconds | slowest, ms |\n|---|--:|--:|--:|--:|--:|--:|")
    for name, each in [*totals.items(), ("all", overall)]:
        if name != "all":
            overall.add(each)
        numbers = f"{each.inputs:,} | {each.accepted:,} | {each.refused:,} | {len(each.failures)}"
        print(f"| {name} | {numbers} | {each.seconds:.0f} | {each.worst * 1000:.0f} |")
    for name, each in totals.items():
        for failure in each.failures:
            print(f"{name} {failure}")
    return not overall.failures


def show(reader: Reader, seed: int, number: int) -> None:
    """Read one input, and let what it raises through."""
    with scratch() as folder, contextlib.ExitStack() as stack:
        if reader.around is not None:
            stack.enter_context(reader.around(folder))
        fuzzer = Fuzzer(reader, seed, folder)
        fuzzer.prepare(number)
        for file in sorted(fuzzer.place.rglob("*")):
            if file.is_file():
                print(file.relative_to(fuzzer.place), file.read_bytes()[:600])
        print("taken" if fuzzer.read(number) else "refused")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no chunk after so long")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help="readers, separated by commas")
    parser.add_argument("--show", nargs=2, metavar=("READER", "NUMBER"))
    parser.add_argument("--chunk", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    named = {reader.name: reader for reader in READERS}
    if arguments.show:
        show(named[arguments.show[0]], arguments.seed, int(arguments.show[1]))
    elif arguments.chunk:
        name, start, stop, progress = arguments.chunk
        with open(progress, "w") as at:

            def tell(number: int) -> None:
                at.seek(0)
                at.write(str(number))
                at.flush()

            counts = fuzz(named[name], arguments.seed, range(int(start), int(stop)), tell)
        print(json.dumps(vars(counts)))
    else:
        chosen = [named[name] for name in arguments.only.split(",")] if arguments.only else list(READERS)
        sound = run(arguments.inputs, arguments.seed, arguments.seconds, arguments.jobs, chosen)
        sys.exit(0 if sound else 1)


if __name__ == "__main__":
    main()
