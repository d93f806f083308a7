"""Test training on a cluster without a cluster: its store, learning from parts, going on."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from one_process import OneProcess, model_arrays, reviews_in_files
from whyrank import artifacts, atomic
from whyrank.artifacts import REPORT, read_report
from whyrank.cli import main
from whyrank.data import Split, Triplets, read
from whyrank.errors import ArtifactError, ClusterError
from whyrank.lab.ray.dataset import Dataset
from whyrank.lab.ray.export import has_times
from whyrank.lab.ray.fit import fit, job_of, put_data
from whyrank.lab.ray.ingest import ingest
from whyrank.lab.ray.peers import HELLO, LIVELY, Peers, _fill
from whyrank.lab.ray.session import Lost, Machine, connect
from whyrank.lab.ray.shard_worker import ClusterState
from whyrank.lab.ray.statements import mine_statement_files
from whyrank.lab.ray.store import StateStore
from whyrank.lab.ray.training import ClusterTrainer, owners_of
from whyrank.mining import Mined, mine
from whyrank.models import (
    BPER,
    BPERJ,
    BPR,
    CD,
    CDJ,
    PITF,
    Model,
    load,
)
from whyrank.models.parameters import values
from whyrank.training import Epoch, Monitor, Run, Storage
from whyrank.version import __version__


@pytest.mark.parametrize("where", ["folder", "memory://whyrank-test"])
def test_a_store_gives_back_what_was_put_into_it(tmp_path: Path, where: str) -> None:
    pytest.importorskip("fsspec")
    store = StateStore.at(tmp_path / "folder" if where == "folder" else where)
    arrays = {"a": np.arange(6, dtype=np.int64).reshape(2, 3), "b": np.empty((0, 3), np.float32)}
    store.write("state-1/x", arrays)
    found = store.read("state-1/x")
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
    table = pl.DataFrame({"id": ["a", "b"]})
    store.write_table("ids", table)
    assert store.read_table("ids").equals(table)
    assert store.read_document("manifest") is None
    store.write_document("manifest", {"epoch": 3})
    store.write_document("manifest", {"epoch": 4})
    assert store.read_document("manifest") == {"epoch": 4}
    assert store.folders("state-") == ["state-1"]
    store.remove("state-1")
    assert store.folders("state-") == []
    with pytest.raises(ArtifactError, match="missing or damaged"):
        store.read("state-1/x")
    store.remove()


def test_a_store_is_removed_by_nobody_who_has_lost_it(tmp_path: Path) -> None:
    store = StateStore.at(tmp_path / "store")
    old = store.claimed()
    old.within("whole").write_document("x", {})
    new = store.claimed()
    for each in (old, old.within("whole")):
        with pytest.raises(ClusterError, match="another run has taken over"):
            each.remove()
    assert (tmp_path / "store" / "whole" / "x.json").is_file()
    new.remove()
    assert not (tmp_path / "store").exists()
    with pytest.raises(ClusterError, match=r"store/claim\.json: is missing"):
        new.write_document("x", {})
    assert not (tmp_path / "store").exists()


def test_the_claim_is_looked_at_last_before_a_file_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, sync = StateStore.at(tmp_path / "store"), atomic._sync
    old, slept = store.claimed(), list[Path]()
    old.write_document("x", {"by": "old"})

    def slow(file: Path) -> None:  # while a given-up worker's disk is slow the run begins again
        sync(file)
        if not slept:
            slept.append(file)
            store.claimed().write_document("x", {"by": "new"})

    monkeypatch.setattr(atomic, "_sync", slow)
    with pytest.raises(ClusterError, match="another run has taken over"):
        old.write_document("x", {"by": "old again"})
    assert store.read_document("x") == {"by": "new"}


SHAPES = [
    *((kind, {}) for kind in (BPER, BPERJ, CDJ, PITF, BPR)),
    (BPER, {"epoch_unit": "records", "bias_start": "popularity", "schedule": "linear", "shards": 1}),
    (BPERJ, {"epoch_unit": "records", "shards": 4}),
    (CDJ, {"epoch_unit": "records"}),
]


@pytest.mark.parametrize("machines", [2, 5])
@pytest.mark.parametrize(("kind", "settings"), SHAPES)
def test_the_engine_learns_on_several_machines_what_it_learns_here(
    data: Triplets, tmp_path: Path, kind: type[Model], settings: dict[str, object], machines: int
) -> None:
    chosen: dict[str, Any] = {"factors": 5, "epochs": 2, "shards": 3, "learning_rate": 0.05} | settings
    here, there = Losses(), Losses()
    mine = model_arrays(kind(**chosen).fit(data, run=Run(monitors=(here,))).save(tmp_path / "here"))
    parts = put_data(data, StateStore.at(tmp_path / "store"))
    made = fit(OneProcess(machines), kind(**chosen), parts, tmp_path / "there", Run(monitors=(there,)))
    assert model_arrays(made) == mine
    assert there.losses == here.losses


@pytest.mark.parametrize("kind", [CD, PITF, CDJ])
def test_pairs_with_several_records_are_learned_as_they_are_here(
    data: Triplets, tmp_path: Path, kind: type[Model]
) -> None:
    repeated = replace(data, record_item=data.record_item % np.int32(5))  # few items: pairs come again
    assert repeated.user_items.counts.max() > 1
    settings = {"factors": 5, "epochs": 2, "shards": 3, "learning_rate": 0.05}
    here, there = Losses(), Losses()
    mine = model_arrays(kind(**settings).fit(repeated, run=Run(monitors=(here,))).save(tmp_path / "here"))
    parts = put_data(repeated, StateStore.at(tmp_path / "store"))
    made = fit(OneProcess(machines=3), kind(**settings), parts, tmp_path / "there", Run(monitors=(there,)))
    assert model_arrays(made) == mine
    assert there.losses == here.losses


def test_fewer_epochs_than_are_in_the_store_are_refused(data: Triplets, tmp_path: Path) -> None:
    parts = put_data(data, StateStore.at(tmp_path / "store"))
    fit(OneProcess(), BPER(factors=4, epochs=3), parts, tmp_path / "there")
    with pytest.raises(ArtifactError, match="holds 3 epochs and only 2 are asked for"):
        fit(OneProcess(), BPER(factors=4, epochs=2), parts, tmp_path / "there", Run(resume=True))


class Losses(Monitor):
    """Remembers the loss of every epoch."""

    def __init__(self) -> None:
        self.losses: list[tuple[int, float]] = []

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.losses.append((epoch.number, epoch.loss))
        return False


class StopAfter(Monitor):
    """Wants no epoch after the given one, of any training; counts those of each curve."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.seen = epoch, {"loss": 0, "item_loss": 0}

    def on_epoch(self, epoch: Epoch, storage: Storage | None) -> bool:
        self.seen[epoch.curve] += 1
        return epoch.number >= self.epoch


def test_a_monitor_stops_a_training_on_a_cluster_as_it_does_here(data: Triplets, tmp_path: Path) -> None:
    cluster = OneProcess()
    parts = put_data(data, StateStore.at(tmp_path / "store"))
    here, there, model = StopAfter(2), StopAfter(2), BPER(factors=4, epochs=5)
    fitted = BPER(factors=4, epochs=5).fit(data, run=Run(monitors=(here,)))
    made = fit(cluster, model, parts, tmp_path / "there", Run(monitors=(there,)))
    assert here.seen == there.seen == {"loss": 2, "item_loss": 0}
    assert model_arrays(made) == model_arrays(fitted.save(tmp_path / "here"))


@pytest.mark.parametrize("model", [BPERJ(factors=4, epochs=2), BPER(factors=4, epochs=2)], ids=lambda m: m.id)
def test_a_split_folder_is_learned_from_as_it_is_here(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Model
) -> None:
    cluster = OneProcess()
    monkeypatch.setattr("whyrank.lab.ray.session.connect", lambda address: nullcontext(cluster))
    monkeypatch.delattr("whyrank.artifacts.add_report")  # the curve comes with the model, in one step
    data.split(seed=1).write(tmp_path / "split")
    settings = [part for name, value in values(model).items() for part in ("--set", f"{name}={value}")]
    for name, how in (("here", []), ("there", ["--ray", "local"])):
        with pytest.raises(SystemExit) as ended:
            main(["fit", str(tmp_path / "split"), "--model", model.id, *settings, *how, "-o", str(tmp_path / name)])
        assert ended.value.code == 0
    assert model_arrays(tmp_path / "there") == model_arrays(tmp_path / "here")
    here, there = (read_report(tmp_path / name / REPORT) for name in ("here", "there"))
    assert here == there
    assert here["training"]


def test_a_model_is_not_made_of_data_that_another_run_has_replaced(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, place = OneProcess(), StateStore.at(tmp_path / "store")
    other, save = replace(data, record_item=data.record_item[::-1].copy()), artifacts.save

    def late(*arguments: Any) -> Path:  # parts are read while the model is written
        put_data(other, place)
        return save(*arguments)

    monkeypatch.setattr(artifacts, "save", late)
    for model in (BPER(factors=4, epochs=1, shards=1), PITF(factors=4, epochs=1, shards=1)):
        with pytest.raises(ClusterError, match="another run has taken over"):
            fit(cluster, model, put_data(data, place), tmp_path / "there")
        assert not (tmp_path / "there").exists()


def test_outputs_of_one_name_do_not_share_a_store_and_it_is_claimed_before_data_is_written(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = list[StateStore]()

    def seen(triplets: Triplets, store: StateStore) -> Dataset:
        stores.append(store)
        return put_data(triplets, store)

    monkeypatch.setattr("whyrank.lab.ray.fit.put_data", seen)
    monkeypatch.setattr("whyrank.lab.ray.session.connect", lambda address: nullcontext(OneProcess()))
    data.write(tmp_path / "data.parquet")
    for folder in "ab":
        assert fit_there(tmp_path / "data.parquet", tmp_path / folder / "model", tmp_path / "runs") == 0
    assert len({store.url for store in stores}) == 2
    assert all(store.run for store in stores)
    assert not list((tmp_path / "runs").iterdir())


def test_a_run_that_ends_leaves_the_store_to_the_run_that_took_over(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def then_taken(cluster: OneProcess, model: Model, parts: Dataset, *arguments: Any, **named: Any) -> Path:
        made = fit(cluster, model, parts, *arguments, **named)
        StateStore(parts.store.url).claimed().write_document("of-another", {})
        return made

    monkeypatch.setattr("whyrank.lab.ray.fit.fit", then_taken)
    monkeypatch.setattr("whyrank.lab.ray.session.connect", lambda address: nullcontext(OneProcess()))
    data.write(tmp_path / "data.parquet")
    assert fit_there(tmp_path / "data.parquet", tmp_path / "model", tmp_path / "runs") == 0
    assert "the store was not removed: " in capsys.readouterr().err
    assert list((tmp_path / "runs").glob("*/of-another.json"))
    assert load(tmp_path / "model").id == "bper"


def fit_there(file: Path, output: Path, store: Path) -> object:
    """The exit code of a small fit by the command."""
    settings = ("--model", "bper", "--set", "epochs=1", "--set", "factors=4", "--ray", "local")
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(file), *settings, "--store", str(store), "-o", str(output)])
    return ended.value.code


def test_more_threads_than_a_machine_has_are_an_error_at_once(data: Triplets, tmp_path: Path) -> None:
    parts = put_data(data, StateStore.at(tmp_path / "store"))
    for model in (BPERJ(epochs=1), BPER(epochs=1)):
        cluster = OneProcess()
        with pytest.raises(ClusterError, match="3 threads of one machine are asked for"):
            fit(cluster, model, parts, tmp_path / "there", Run(threads=3))
        assert not cluster.tasks


def test_machines_that_differ_are_an_error_at_once(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, parts = OneProcess(machines=2), put_data(data, StateStore.at(tmp_path / "store"))
    for found, error in (
        (("0.1.0", None), r"127\.0\.0\.1 has whyrank 0\.1\.0, not "),
        ((__version__, None), r"127\.0\.0\.1 does not see .*store.*; give a --store that all machines share"),
    ):
        monkeypatch.setattr("whyrank.lab.ray.fit.look", lambda store, found=found: found)
        with pytest.raises(ClusterError, match=error):
            fit(cluster, BPER(epochs=1), parts, tmp_path / "there")


def test_who_does_not_know_the_secret_is_not_listened_to() -> None:
    first, second = (Peers(number, "127.0.0.1", b"secret") for number in range(2))
    stranger = Peers(1, "127.0.0.1", b"another")
    with pytest.raises(Lost, match="machine 0 does not answer"):
        stranger.meet([first.address, stranger.address])
    second.meet([first.address, second.address])
    first.meet([first.address, second.address])
    first.send(1, (1, 2, 3, 4), np.ones((2, 3), np.float32))
    assert np.array_equal(second.receive(0, (1, 2, 3, 4)), np.ones((2, 3), np.float32))
    first.close()
    with pytest.raises(Lost, match="machine 0 is gone"):
        second.receive(0, (5, 0, 0, 0))
    for each in (second, stranger):
        each.close()


def test_a_silent_connection_keeps_nobody_waiting() -> None:
    first, second = (Peers(number, "127.0.0.1", b"secret") for number in range(2))
    with socket.create_connection(first.address), socket.create_connection(first.address) as rude:
        rude.sendall(b"GET / HTTP/1.1\r\n" + b"\r\n" * 40)
        second.meet([first.address, second.address])
        first.meet([first.address, second.address])
    second.send(0, (1, 0, 0, 0), np.zeros((0, 3), np.float32))
    assert first.receive(1, (1, 0, 0, 0)).shape == (0, 3)
    for each in (first, second):
        each.close()


def test_a_machine_that_says_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whyrank.lab.ray.peers.HANDSHAKE", 0.05)
    second = Peers(1, "127.0.0.1", b"secret")
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(Lost, match=r"machine 0 does not answer at .*timed out"),
    ):
        second.meet([silent.getsockname(), second.address])
    second.close()


def test_what_was_said_is_not_taken_for_an_answer() -> None:
    """Who knows no secret can send back what it was sent."""
    second = Peers(1, "127.0.0.1", b"secret")
    for claimed in (1, 2):  # its own number, and another one
        with socket.create_connection(second.address) as mirror:
            hello = mirror.recv(HELLO.size, socket.MSG_WAITALL)
            mirror.sendall(HELLO.pack(HELLO.unpack(hello)[0], claimed))
            if claimed == 2:
                mirror.sendall(hello[:32])
            assert mirror.recv(1) == b""  # closed, and nothing was proved
    assert not second._sockets
    second.close()


def test_a_listener_does_not_prove_itself_for_a_stranger_to_pass_on() -> None:
    """A stranger between two listeners gives each what the other one says."""
    first, second = (Peers(number, "127.0.0.1", b"secret") for number in range(2))
    with socket.create_connection(first.address) as one, socket.create_connection(second.address) as two:
        hellos = [each.recv(HELLO.size, socket.MSG_WAITALL) for each in (one, two)]
        one.sendall(hellos[1])
        two.sendall(hellos[0])
        assert two.recv(32, socket.MSG_WAITALL) == b""  # it was not to be called by a machine before it
        one.sendall(bytes(32))
        assert one.recv(1) == b""
    assert not first._sockets
    second.meet([first.address, second.address])  # the place of the real one is not taken
    first.meet([first.address, second.address])
    for each in (first, second):
        each.close()


def test_a_proof_is_for_one_end_of_a_connection() -> None:
    """Machine 2 calls what it takes for machine 0, and its proof does not open another connection."""
    first, third = (Peers(number, "127.0.0.1", b"secret") for number in (0, 2))
    with socket.create_server(("127.0.0.1", 0)) as false, socket.create_connection(first.address) as one:
        caller = ThreadPoolExecutor(1).submit(third.meet, [false.getsockname()])
        two, _ = false.accept()
        with two:
            two.sendall(HELLO.pack(bytes(32), 0))  # a number of the stranger's own
            one.sendall(two.recv(HELLO.size, socket.MSG_WAITALL))
            one.recv(HELLO.size, socket.MSG_WAITALL)
            proof = two.recv(32, socket.MSG_WAITALL)
            assert len(proof) == 32
            one.sendall(proof)
            assert one.recv(1) == b""
            two.sendall(proof)  # nor is it an answer
            assert two.recv(1) == b""
        assert isinstance(caller.exception(), Lost)
    assert not first._sockets
    assert not third._sockets
    for each in (first, third):
        each.close()


def test_a_handshake_has_one_deadline_however_little_comes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    class Drip:
        def settimeout(self, seconds: float) -> None:
            assert 0 < seconds <= 3 - now[0]

        def recv_into(self, place: memoryview) -> int:
            now[0] += 1
            return 1

    monkeypatch.setattr("whyrank.lab.ray.peers.monotonic", lambda: now[0])
    with pytest.raises(TimeoutError):
        _fill(Drip(), memoryview(bytearray(32)), 3.0)  # type: ignore[arg-type]
    assert now == [3]


def test_many_who_say_nothing_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whyrank.lab.ray.peers.HANDSHAKES", 3)
    first, second = (Peers(number, "127.0.0.1", b"secret") for number in range(2))
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(first.address, timeout=10)) for _ in range(5)]
        for each in silent[:2]:
            each.recv(HELLO.size, socket.MSG_WAITALL)
            assert each.recv(1) == b""  # the oldest, long before their time is up
        second.meet([first.address, second.address])
        first.meet([first.address, second.address])
    for each in (first, second):
        each.close()


def test_a_listener_that_the_system_refuses_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, again = threading.Event(), threading.Event()

    class Refused:
        def accept(self) -> None:
            (again if asked.is_set() else asked).set()
            raise OSError(errno.EMFILE, "too many open files")

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", 1

        def shutdown(self, how: int) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr("whyrank.lab.ray.peers.PAUSE", 1000.0)
    monkeypatch.setattr("whyrank.lab.ray.peers.socket.create_server", lambda *_, **__: Refused())
    peers = Peers(0, "127.0.0.1", b"secret")
    assert asked.wait(10)
    assert not again.wait(0.1)
    peers.close()  # ends the pause, and the thread


def test_connections_notice_a_machine_that_is_gone_without_a_word() -> None:
    first, second = (Peers(number, "127.0.0.1", b"secret") for number in range(2))
    second.meet([first.address, second.address])
    first.meet([first.address, second.address])
    for each in (first._sockets[1], second._sockets[0]):
        assert each.gettimeout() is None
        assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        for name, value in LIVELY.items():
            assert each.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value or name == "TCP_NODELAY"
    for each in (first, second):
        each.close()


def test_what_is_lost_is_learned_again_from_the_last_manifest(
    data: Triplets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, calls = ClusterTrainer._learn, []

    def losing(self: ClusterTrainer) -> None:
        calls.append(self.done + 1)
        if calls == [1, 2, 3]:
            raise Lost("gone")
        learn(self)

    monkeypatch.setattr(ClusterTrainer, "_learn", losing)
    settings, parts = {"factors": 5, "epochs": 3, "shards": 3}, put_data(data, StateStore.at(tmp_path / "store"))
    made = fit(OneProcess(machines=3), BPER(**settings), parts, tmp_path / "there", Run(checkpoint_seconds=0))
    assert calls == [1, 2, 3, 3]
    assert model_arrays(made) == model_arrays(BPER(**settings).fit(data).save(tmp_path / "here"))


class Forgetful(OneProcess):
    """Workers that it dismisses are not reached any more, but live."""

    def dismiss(self, handle: Any) -> None:
        pass


def test_a_worker_that_was_given_up_and_still_lives_writes_nothing(data: Triplets, tmp_path: Path) -> None:
    settings = {"factors": 4, "epochs": 3, "shards": 3}
    mine = model_arrays(BPER(**settings).fit(data).save(tmp_path / "here"))
    cluster, store = Forgetful(machines=3), StateStore.at(tmp_path / "store")
    parts = put_data(data, store)
    trainer = ClusterTrainer(cluster, job_of(BPER(**settings), parts), Run())
    trainer.epoch()
    given_up, early, old = trainer.workers._handles, trainer.save(), trainer.workers.store
    cluster.count = 2  # one machine seems to be gone
    trainer.workers._handles = []
    for _ in range(2):
        trainer.epoch()
    state = trainer.save()
    before = {file: file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file()}
    for worker, _ in given_up:
        with pytest.raises(ClusterError, match="another run has taken over"):
            worker.write(ClusterState(old, state.folder, state.machines))  # even under the name of the new state
        with pytest.raises(ClusterError, match="another run has taken over"):
            worker.write(early)
    assert {file: file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file()} == before
    assert early.folder != state.folder
    made = fit(OneProcess(), BPER(**settings), parts, tmp_path / "there", Run(resume=True))
    assert model_arrays(made) == mine
    with pytest.raises(ClusterError, match="another run has taken over"):
        trainer.save()  # so has the driver that was given up
    for worker, thread in given_up + trainer.workers._handles:
        worker.close()
        thread.shutdown()


def test_a_driver_that_was_taken_over_ends_when_it_loses_its_workers(data: Triplets, tmp_path: Path) -> None:
    parts = put_data(data, StateStore.at(tmp_path / "store"))
    job = job_of(BPER(factors=4, epochs=3, shards=3), parts)
    first = ClusterTrainer(OneProcess(machines=2), job, Run())
    first.epoch()
    first.save()
    second = ClusterTrainer(OneProcess(machines=2), job, Run(resume=True))
    second.epoch()
    first.workers.dismiss()  # as after a loss
    with pytest.raises(ClusterError, match="another run has taken over"):
        first.epoch()
    assert second.save().folder in second.store.folders("state-")
    second.workers.dismiss()


def test_row_shards_go_to_machines_by_their_cores() -> None:
    machines = [Machine("a", "1", 1), Machine("b", "2", 3)]
    assert owners_of(machines, None, 8).tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    assert owners_of(machines, 1, 8).tolist() == [0] * 4 + [1] * 4
    assert owners_of(machines * 3, 1, 2).tolist() == [1, 4]


def test_ratings_outside_of_their_scale_are_unknown_in_parts_as_in_the_whole(
    data: Triplets, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Stars in all files but one, whose own scale would be another."""
    odd = pl.when(pl.int_range(pl.len()) % 50 == 0).then(float("inf")).otherwise(26.0)
    rows = data.frame().sample(fraction=1, shuffle=True, seed=1)
    (tmp_path / "files").mkdir()
    rows[20:].write_parquet(tmp_path / "files" / "0.parquet")
    rows[:20].with_columns(rating=odd.cast(pl.Float32)).write_parquet(tmp_path / "files" / "1.parquet")
    here = read(tmp_path / "files")
    assert here.rating is not None
    assert np.nanmax(here.rating) == 5
    there = ingest(OneProcess(), tmp_path / "files", StateStore.at(tmp_path / "store"), parts=3)
    assert there.digest == here.digest()
    assert caplog.text.count("20 ratings outside of the scale 1 to 5") == 2


def test_a_part_without_records_does_not_lose_the_times(tmp_path: Path) -> None:
    rows = [(f"u{n % 2}", f"i{n % 2}", f"e{n % 3}", 1000 + n) for n in range(12)]
    names = ["user", "item", "explanation", "time"]
    (tmp_path / "files").mkdir()
    for number, columns in enumerate((names, names[:3])):
        table = pl.DataFrame(rows[number::2], names, orient="row").select(columns)
        table.write_parquet(tmp_path / "files" / f"{number}.parquet")
    there = ingest(OneProcess(), tmp_path / "files", StateStore.at(tmp_path / "store"), parts=4)
    assert 0 in {len(there.part("item", number)["item"]) for number in range(4)}
    here = read(tmp_path / "files")
    assert there.digest == here.digest()
    assert all(has_times(there, number) for number in range(4))


def test_a_named_scale_is_in_a_model_of_a_cluster(tiny: Triplets, tmp_path: Path) -> None:
    cluster, named = OneProcess(), Triplets.from_frame(tiny.frame(), rating_range=(0, 10))
    mine = model_arrays(BPERJ(factors=4, epochs=2).fit(named).save(tmp_path / "here"))
    parts = put_data(named, StateStore.at(tmp_path / "store"))
    made = fit(cluster, BPERJ(factors=4, epochs=2), parts, tmp_path / "there")
    assert model_arrays(made) == mine
    assert load(made).catalog_.rating_range == (0, 10)


def test_ray_is_not_imported_before_it_is_used() -> None:
    modules = ", ".join(f"whyrank.lab.ray.{name}" for name in ("fit", "statements", "explain", "ingest"))
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


def test_a_split_by_hash_depends_on_ids_alone(data: Triplets) -> None:
    def parts(split: Split) -> dict[tuple[str, str], str]:
        return {
            pair: name
            for name in ("train", "validation", "test")
            for pair in getattr(split, name).frame().select("user", "item").iter_rows()
        }

    whole = parts(data.split(seed=1, method="hash"))
    half = data.take(np.arange(0, data.records, 2))
    some = parts(half.split(seed=1, method="hash"))
    assert all(whole[pair] == part for pair, part in some.items())
    assert parts(data.split(seed=2, method="hash")) != whole
    shares = [sum(part == name for part in whole.values()) / len(whole) for name in ("test", "validation")]
    assert shares == pytest.approx([0.3, 0.07], abs=0.04)


def test_statements_found_file_by_file_are_those_of_one_machine(tmp_path: Path) -> None:
    files = reviews_in_files(tmp_path)
    here = mine(files)
    mine_statement_files(OneProcess(), files, tmp_path / "mined", tmp_path / "stages")
    there = Mined.read(tmp_path / "mined")
    assert there.frame().equals(here.frame())
    assert there.explanations.equals(here.explanations)
    assert (there.reviews, there.rejected, there.problems) == (here.reviews, here.rejected, here.problems)


def test_data_that_was_being_replaced_is_not_taken_for_whole(tiny: Triplets, data: Triplets, tmp_path: Path) -> None:
    store, write = StateStore.at(tmp_path / "store"), StateStore.write
    put_data(data, store)

    def interrupted(self: StateStore, name: str, arrays: dict[str, np.ndarray]) -> None:
        if "user" in name:
            raise KeyboardInterrupt
        write(self, name, arrays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateStore, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            put_data(tiny, store)
    assert Dataset.load(store) is None
    assert put_data(data, store).read().records == data.records


def test_a_cluster_does_not_go_on_from_the_state_of_another_alpha(data: Triplets, tmp_path: Path) -> None:
    parts = put_data(data, StateStore.at(tmp_path / "store"))
    marks = {
        ClusterTrainer(OneProcess(), job_of(BPERJ(factors=4, epochs=1, alpha=alpha), parts), Run()).mark
        for alpha in (0.5, 0.9)
    }
    assert len(marks) == 2
