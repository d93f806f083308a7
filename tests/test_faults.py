"""Kills, full disks, missing rights, two writers: one clear line, and the old result intact or the new one whole."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kill_runs
from kill_runs import of_files
from whyrank.atomic import Marker, new_folder, sole_writer
from whyrank.data import Split, write
from whyrank.data.tables import write_table
from whyrank.errors import ArtifactError
from whyrank.lab.simulate import simulate_reviews
from whyrank.models import POP

# Commands that write below `out`, and what makes another result of each.
WRITERS = {
    "simulate small -o out/triplets.parquet --users 90 --items 30 --records 900": "--seed 1",
    "convert data.csv -o out/data.jsonl.gz": "--columns explanation=text",
    "convert data.csv -o out/extra": "--form extra-text",
    "split data.csv -o out/split": "--seed 1",
    "fit split --model rand -o out/model": "--set seed=1",
    "fit split --model bper --set epochs=2 -o out/factors": "--set seed=1",
    "mine reviews.jsonl -o out/mined": "--set min_count=3",
    "explain pop --pairs data.csv -o out/reasons.parquet": "-n 2",
    "experiment datasets split -o out/report --splits 1": "--models pop",
    "tune split --model counts --trials 1 -o out/best.json": "--seed 1",
}
# Runs commands in one process and prints their exit codes and last lines.
MANY = """
import contextlib, io, json, sys
from whyrank.cli import main
for arguments in json.load(sys.stdin):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code
        except BaseException as error:
            code, said = repr(error), io.StringIO()
    print(json.dumps([code, said.getvalue()]))
"""


@pytest.fixture(scope="module")
def world(split: Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    split.write(folder / "split")
    write(split.data, folder / "data.csv")
    POP().fit(split).save(folder / "pop")
    write_table(simulate_reviews("small", users=90, items=30, records=900, seed=0), folder / "reviews.jsonl")
    return folder


def run_all(arguments: list[list[str]], folder: Path, *prefix: str) -> list[tuple[int, str]]:
    command = [*prefix, sys.executable, "-c", MANY]
    done = subprocess.run(command, input=json.dumps(arguments), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]


@pytest.fixture(scope="module")
def written(world: Path) -> dict[str, str]:
    """What every command has written before the trouble starts, by a hash."""
    for line, (code, said) in zip(WRITERS, run_all([line.split() for line in WRITERS], world), strict=True):
        assert code == 0, f"{line}: {said}"
    return {path.name: of_files(path) for path in (world / "out").iterdir()}


def check_all_fail(world: Path, written: dict[str, str], reason: str, *prefix: str) -> None:
    """Every command ends with one line that gives the reason, and what was there is there."""
    outcomes = run_all([f"{line} {other}".split() for line, other in WRITERS.items()], world, *prefix)
    for line, (code, said) in zip(WRITERS, outcomes, strict=True):
        assert (code, said.count("\n")) == (2, 1), f"{line}: {code}, {said}"
        assert reason in said, f"{line}: {said}"
    assert {path.name: of_files(path) for path in (world / "out").iterdir() if path.suffix != ".parts"} == written


@contextmanager
def refused(folder: Path) -> Iterator[tuple[str, ...]]:
    """A folder that may not be written to, and what must stand before a command so that this holds for root too."""
    mode = folder.stat().st_mode
    for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        each.chmod(0o555)
    prefix = ("setpriv", "--bounding-set", "-dac_override") if os.getuid() == 0 else ()
    try:
        yield prefix
    finally:
        folder.chmod(mode)
        for each in folder.rglob("*"):
            if each.is_dir():
                each.chmod(0o755)


@pytest.mark.skipif(os.getuid() == 0 and not shutil.which("setpriv"), reason="needs setpriv to give up root's rights")
def test_a_folder_that_may_not_be_written_to_is_named_and_left_alone(world: Path, written: dict[str, str]) -> None:
    with refused(world / "out") as prefix:
        check_all_fail(world, written, "cannot be written (Permission denied)", *prefix)


def test_a_full_disk_is_named_and_leaves_the_old_result(world: Path, written: dict[str, str]) -> None:
    """A limit on the size of files fails as a full disk does, and needs no rights."""
    limit = ("prlimit", "--fsize=100")
    if not shutil.which(limit[0]):
        pytest.skip("needs prlimit")
    check_all_fail(world, written, "cannot be written (", *limit)


def test_two_processes_do_not_write_the_same_output_at_once(world: Path, written: dict[str, str]) -> None:
    with sole_writer(world / "out/model"), sole_writer(world / "out/reasons.parquet"):
        lines = [line for line in WRITERS if "out/model" in line or "out/reasons" in line]
        for code, said in run_all([line.split() for line in lines], world):
            assert code == 2
            assert "another process is writing it" in said
    assert {path.name: of_files(path) for path in (world / "out").iterdir() if path.suffix != ".parts"} == written


def test_a_lock_ends_with_its_owner(tmp_path: Path) -> None:
    (tmp_path / ".model.lock").touch()  # what a killed process leaves
    with sole_writer(tmp_path / "model"), pytest.raises(ArtifactError), sole_writer(tmp_path / "model"):
        pass
    with sole_writer(tmp_path / "model"):
        pass
    assert not list(tmp_path.iterdir())


def test_what_a_killed_write_left_is_swept_by_the_next_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    left = tmp_path / ".model.abc.part"
    (left / "model").mkdir(parents=True)
    with new_folder(tmp_path / "model", Marker("by")) as first:
        with new_folder(tmp_path / "model", Marker("by")) as second:
            (second / "by").write_text("the second")
        assert first.exists()
        (first / "by").write_text("the first, which ends last")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model" / "by").read_text() == "the first, which ends last"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    kill_runs.make_world(folder, users=150, items=40, explanations=80, records=1500, triplets=2600)
    kill_runs.make_log(folder, 1000)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


# Training is killed in test_kill.py; `python benchmarks/kill_runs.py` is the long run of all.
KILLED = [
    pytest.param(work, id=work.name, marks=() if work.name == "explain --pairs" else pytest.mark.slow)
    for work in kill_runs.WORKS[1:]
]


@pytest.mark.parametrize("work", KILLED)
def test_a_command_killed_at_any_moment_leaves_the_old_result_or_the_new_one(
    work: kill_runs.Work, killed: Path
) -> None:
    assert kill_runs.kill_command(work, killed, 1, random.Random(7)).kills == 1


@pytest.mark.slow
def test_feedback_is_neither_lost_nor_doubled_when_the_service_is_killed(killed: Path, store: str) -> None:
    assert kill_runs.kill_service(killed, store, 2, random.Random(7)).kills == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_killed_workers_are_replaced_while_slow_clients_hold_connections(killed: Path, store: str) -> None:
    assert kill_runs.kill_workers(killed, store, 2, random.Random(7), slow=20).kills >= 2
