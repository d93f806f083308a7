"""What the Ray room does without Ray: a fit on several machines is the fit of one, whatever is lost."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from one_process import OneProcess, model_arrays, reviews_in_files
from whyrank.artifacts import REPORT, read_report
from whyrank.cli import main
from whyrank.data import Split, Triplets
from whyrank.errors import ClusterError, ParameterError, TrainingError
from whyrank.explain.bulk import explain_file
from whyrank.lab.ray.explain import explain_files
from whyrank.lab.ray.session import Lost, Machine, connect
from whyrank.lab.ray.split import split_files
from whyrank.lab.ray.statements import mine_statement_files
from whyrank.lab.ray.training import ClusterSolver, ShardWorker, owners_of, solver_on
from whyrank.mining import Mined, mine
from whyrank.models import BPER, BPERJ, BPR, CD, CDJ, PITF, PITFJ, POP, Model, Profile
from whyrank.training import Epoch, Monitor, Run, Storage

QUICK: dict[str, Any] = {"factors": 5, "epochs": 2, "shards": 3, "learning_rate": 0.05}


class Losses(Monitor):
    """Remembers the loss of every epoch; stops after one, if asked to."""

    def __init__(self, stop: int = 0) -> None:
        self.losses: list[tuple[int, float]] = []
        self.stop = stop

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.losses.append((epoch.number, epoch.loss))
        return epoch.number == self.stop


def fitted(model: Model, data: Triplets, cluster: OneProcess | None = None, **run: Any) -> tuple[Model, Losses]:
    """A model, fitted here or on a cluster, and the losses that were seen on the way."""
    seen = Losses(run.pop("stop", 0))
    if cluster is None:
        return model.fit(data, run=Run(monitors=(seen,), **run)), seen
    with solver_on(cluster, model) as solver:
        return model.fit(data, run=Run(monitors=(seen,), solver=solver, **run)), seen


def assert_same(ours: tuple[Model, Losses], theirs: tuple[Model, Losses]) -> None:
    for name in vars(ours[0]):
        if isinstance(value := getattr(ours[0], name), np.ndarray):
            assert np.array_equal(value, getattr(theirs[0], name)), name
    assert ours[1].losses == theirs[1].losses


SHAPES = [
    *((kind, {}) for kind in (BPER, BPERJ, CD, CDJ, PITF, PITFJ, BPR)),
    (BPER, {"epoch_unit": "records", "bias_start": "popularity", "schedule": "linear", "shards": 1}),
    (BPERJ, {"epoch_unit": "records", "shards": 4}),
]


@pytest.mark.parametrize("machines", [2, 5])
@pytest.mark.parametrize(("kind", "settings"), SHAPES)
def test_several_machines_learn_what_one_learns(
    data: Triplets, kind: type[Model], settings: dict[str, Any], machines: int
) -> None:
    made = fitted(kind(**QUICK | settings), data, OneProcess(machines))
    assert_same(made, fitted(kind(**QUICK | settings), data))


@pytest.mark.parametrize("kind", [CD, PITF])
def test_pairs_with_several_records_are_learned_as_they_are_here(data: Triplets, kind: type[Model]) -> None:
    repeated = replace(data, record_item=data.record_item % np.int32(5))  # few items: pairs come again
    assert repeated.user_items.counts.max() > 1
    assert_same(fitted(kind(**QUICK), repeated, OneProcess(3)), fitted(kind(**QUICK), repeated))


@pytest.mark.parametrize(("seconds", "begun"), [(0.0, [1, 2, 3, 3, 4]), (99.0, [1, 2, 3, 1, 2, 3, 4])])
def test_what_is_lost_is_learned_again_from_what_was_gathered(
    data: Triplets, monkeypatch: pytest.MonkeyPatch, seconds: float, begun: list[int]
) -> None:
    learn, calls = ClusterSolver._learn, list[int]()

    def losing(self: ClusterSolver, epoch: int) -> None:
        calls.append(epoch)
        learn(self, epoch)
        if calls == [1, 2, 3]:
            raise Lost("gone")

    monkeypatch.setattr(ClusterSolver, "_learn", losing)
    made = fitted(BPER(**QUICK | {"epochs": 4}), data, OneProcess(3), checkpoint_seconds=seconds)
    assert calls == begun
    assert_same(made, fitted(BPER(**QUICK | {"epochs": 4}), data))


def test_machines_that_stay_silent_end_a_fit_with_an_error(data: Triplets, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, started = OneProcess(2), list[Machine]()
    start = OneProcess.start

    def silent(self: OneProcess, machine: Machine, *arguments: Any) -> Any:
        started.append(machine)
        self.silent = True
        return start(self, machine, *arguments)

    monkeypatch.setattr(OneProcess, "start", silent)
    with pytest.raises(ClusterError, match="has not answered for 60 seconds"):
        fitted(BPER(**QUICK), data, cluster)
    assert len(started) == 2 * 6  # five losses in a row are made good


def test_a_fit_goes_on_here_or_there_from_where_the_other_stopped(data: Triplets, tmp_path: Path) -> None:
    whole = fitted(BPERJ(**QUICK | {"epochs": 4}), data)
    for first, second in ((OneProcess(2), None), (None, OneProcess(3))):
        checkpoint = tmp_path / f"checkpoint-{first is None}"
        fitted(BPERJ(**QUICK | {"epochs": 4}), data, first, checkpoint=checkpoint, stop=2)
        made, seen = fitted(BPERJ(**QUICK | {"epochs": 4}), data, second, checkpoint=checkpoint, resume=True)
        assert seen.losses == whole[1].losses[2:]
        assert_same((made, whole[1]), whole)


def test_the_command_writes_the_folder_that_it_writes_here(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyrank.lab.ray.session.connect", lambda address: nullcontext(OneProcess(2)))
    data.split(seed=1).write(tmp_path / "split")
    for name, how in (("here", []), ("there", ["--ray", "local"])):
        settings = ["--model", "bper-j", "--set", "factors=4", "--set", "epochs=2"]
        with pytest.raises(SystemExit) as ended:
            main(["fit", str(tmp_path / "split"), *settings, *how, "-o", str(tmp_path / name)])
        assert ended.value.code == 0
    assert model_arrays(tmp_path / "there") == model_arrays(tmp_path / "here")
    here, there = (read_report(tmp_path / name / REPORT) for name in ("here", "there"))
    assert here == there
    assert here["training"]


def test_what_cannot_be_trained_on_a_cluster_says_so(data: Triplets, monkeypatch: pytest.MonkeyPatch) -> None:
    for model in (POP(), Profile(), BPER(solver="sequential")):
        with pytest.raises(ParameterError, match="leave out --ray"):
            fitted(model, data, OneProcess())
    with (
        pytest.raises(ClusterError, match="3 threads of one machine are asked for"),
        solver_on(OneProcess(), BPER(), 3),
    ):
        pass
    with pytest.raises(TrainingError, match="lower learning_rate"):
        fitted(BPER(**QUICK | {"learning_rate": 90.0, "regularization": 0.0}), data, OneProcess(2))
    monkeypatch.setattr(ShardWorker, "version", lambda self: "0.1.0")
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1 has whyrank 0\.1\.0, not "):
        fitted(BPER(**QUICK), data, OneProcess(2))
    with pytest.raises(ClusterError, match="no machine of the cluster is left"):
        fitted(BPER(**QUICK), data, OneProcess(0))


def test_row_shards_go_to_machines_by_their_cores() -> None:
    machines = [Machine("a", "1", 1), Machine("b", "2", 3)]
    assert owners_of(machines, None, 8).tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    assert owners_of(machines, 1, 8).tolist() == [0] * 4 + [1] * 4
    assert owners_of(machines * 3, 1, 2).tolist() == [1, 4]


def test_ray_is_not_imported_before_it_is_used() -> None:
    modules = ", ".join(f"whyrank.lab.ray.{name}" for name in ("training", "statements", "explain", "split"))
    code = f"import sys, {modules}; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_address_where_nobody_answers_is_an_error_at_once() -> None:
    pytest.importorskip("ray")
    with (
        pytest.raises(ClusterError, match=r"no Ray cluster answers at 127.0.0.1:1 .*--ray local"),
        connect("127.0.0.1:1"),
    ):
        pass


def test_a_split_by_hash_depends_on_ids_alone_file_by_file_or_whole(data: Triplets, tmp_path: Path) -> None:
    def parts(split: Split) -> dict[tuple[str, str], str]:
        return {
            pair: name
            for name in ("train", "validation", "test")
            for pair in getattr(split, name).frame().select("user", "item").iter_rows()
        }

    drawn = data.split(seed=1, method="hash")
    whole = parts(drawn)
    some = parts(data.take(np.arange(0, data.records, 2)).split(seed=1, method="hash"))
    assert all(whole[pair] == part for pair, part in some.items())
    assert parts(data.split(seed=2, method="hash")) != whole
    shares = [sum(part == name for part in whole.values()) / len(whole) for name in ("test", "validation")]
    assert shares == pytest.approx([0.3, 0.07], abs=0.04)
    (tmp_path / "files").mkdir()
    for number in range(2):
        data.frame()[number::2].write_parquet(tmp_path / "files" / f"{number}.parquet")
    split_files(OneProcess(), tmp_path / "files", tmp_path / "split", drawn.info)
    written = {
        pair: name
        for name in ("train", "validation", "test")
        for pair in pl.read_parquet(tmp_path / "split" / name / "*.parquet").select("user", "item").iter_rows()
    }
    assert written == whole


def test_statements_found_file_by_file_are_those_of_one_machine(tmp_path: Path) -> None:
    files = reviews_in_files(tmp_path)
    here = mine(files)
    mine_statement_files(OneProcess(), files, tmp_path / "mined", tmp_path / "stages")
    there = Mined.read(tmp_path / "mined")
    assert there.frame().equals(here.frame())
    assert there.explanations.equals(here.explanations)
    assert (there.reviews, there.rejected, there.problems) == (here.reviews, here.rejected, here.problems)


def test_finished_files_of_reasons_are_not_made_again(data: Triplets, tmp_path: Path) -> None:
    model = POP().fit(data)
    model.save(tmp_path / "model")
    (tmp_path / "pairs").mkdir()
    pairs = data.frame().select("user", "item").unique(maintain_order=True)
    for number in range(3):
        pairs[number::3].write_csv(tmp_path / "pairs" / f"{number}.csv")
    made = (OneProcess(), tmp_path / "model", tmp_path / "pairs", tmp_path / "out", 3)
    assert sum(report.pairs for report in explain_files(*made)) == len(pairs)
    (tmp_path / "out" / "1.csv.parquet").unlink()
    again = explain_files(*made)
    assert [report.resumed_at == report.pairs for report in again] == [True, False, True]
    for number in range(3):
        explain_file(model, tmp_path / "pairs" / f"{number}.csv", tmp_path / "one.parquet", 3)
        assert pl.read_parquet(tmp_path / "out" / f"{number}.csv.parquet").equals(
            pl.read_parquet(tmp_path / "one.parquet")
        )
