"""The log as tables, in a folder and in a store, and the thread that writes it."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from whyrank.errors import DataError, ParameterError
from whyrank.online import events, tables, writer
from whyrank.online.erased import ErasedMeanwhile
from whyrank.online.erasure import erase, export, retain
from whyrank.online.exposure import Exposure, new_id
from whyrank.online.log import EVENTS, EXPOSURES, Log
from whyrank.online.store import Store
from whyrank.online.tables import VERSION, exposures, schema
from whyrank.online.writer import QueueFull, Writer


class Counted:
    """What a writer reports."""

    def __init__(self) -> None:
        self.written = self.failed = 0

    def exposures_written(self, count: int) -> None:
        self.written += count

    def exposures_failed(self, count: int) -> None:
        self.failed += count

    def exposures_queued(self, count: int) -> None:
        pass


def exposure(user: str = "ann", *, id: str | None = None, time: int = 1000, arm: str | None = None) -> Exposure:
    slate = json.dumps([{"i": "inn", "e": "quiet", "p": 0.5}, {"i": "inn", "e": "clean", "p": 1.0}])
    name = None if arm is None else "test"
    return Exposure(id or new_id(), time, user, "explain", "bper", "d1", name, arm, "{}", slate)


def put_durably(writer: Writer, given: Exposure) -> None:
    """Wait until an exposure is written; raises what the writer says."""
    waiting = writer.put([given], durable=True)
    assert waiting is not None
    waiting.result(60)


def shown(**changed: list[object]) -> pl.DataFrame:
    columns: dict[str, list[object]] = {
        "exposure": ["x", "x", "y"],
        "time": [5, 5, 9],
        "user": ["ann", "ann", "bob"],
        "item": ["i", "i", "j"],
        "position": [2, 1, 0],
        "explanation": ["b", "a", None],
        "propensity": [0.5, 1.0, 1.0],
        "experiment": ["t", "t", None],
        "arm": ["a", "a", None],
        "model": ["d"] * 3,
        "route": ["explain"] * 3,
    }
    return pl.DataFrame(columns | changed, strict=False)


def done(**changed: list[object]) -> pl.DataFrame:
    columns: dict[str, list[object]] = {"exposure": ["x"], "event": ["clicked"], "time": [7], "user": ["ann"]}
    return pl.DataFrame(columns | changed, strict=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path}/store.db").create()
    yield store
    store.close()


def put(store: Store, *given: Exposure) -> None:
    made = Writer(store, Counted())
    made.put(given)
    made.close()


def test_a_log_has_its_columns_and_its_order_whatever_it_is_made_of() -> None:
    log = Log(shown(), done())
    assert dict(log.exposures.schema) == {name: kind() for name, kind in EXPOSURES.items()}
    assert dict(log.events.schema) == {name: kind() for name, kind in EVENTS.items()}
    assert log.exposures["position"].to_list() == [1, 2, 0]
    assert log.events["value"].to_list() == [1.0]
    assert repr(log) == "Log(2 lists, 2 reasons, 1 event)"
    turned = Log(shown().reverse(), done())
    assert turned.digest() == log.digest()
    assert Log(shown(), done(value=[2.0])).digest() != log.digest()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"propensity": [0.5, 0.0, 1.0]}, "column 'propensity'"),
        ({"position": [1, 1, 0]}, "each position once"),
        ({"position": [2, 1, 1]}, "null where position is 0"),
        ({"user": ["ann", None, "bob"]}, "row 2, column 'user'"),
        ({"time": ["now", "5", "9"]}, "column 'time'"),
    ],
)
def test_exposures_that_cannot_be_are_refused_with_their_place(changed: dict[str, list[object]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        Log(shown(**changed), done())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"event": ["looked"]}, "one of shown"),
        ({"exposure": ["z"]}, "an exposure of the log"),
        ({"value": [float("nan")]}, "finite"),
    ],
)
def test_events_that_cannot_be_are_refused_with_their_place(changed: dict[str, list[object]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        Log(shown(), done(**changed))


def test_a_folder_gives_back_what_was_written(tmp_path: Path) -> None:
    log = Log(shown(), done(position=[1]))
    log.write(tmp_path / "log")
    assert Log.read(tmp_path / "log").digest() == log.digest()
    lines = tmp_path / "lines"
    lines.mkdir()
    log.exposures.write_ndjson(lines / "exposures.jsonl")
    log.events.write_ndjson(lines / "events.jsonl")
    assert Log.read(lines).digest() == log.digest()
    assert Log.read(lines, since=6).lists == 1
    assert len(Log.read(lines, until=7).events) == 0
    assert Log.read(lines, experiment="t").exposures["exposure"].unique().to_list() == ["x"]
    (lines / "events.jsonl").write_text("{")
    with pytest.raises(DataError, match=r"events\.jsonl"):
        Log.read(lines)
    with pytest.raises(ParameterError, match="no such folder"):
        Log.read(tmp_path / "nowhere")


def test_a_store_gives_back_what_was_put_and_done(store: Store) -> None:
    one, two = exposure("ann", arm="a"), exposure("bob", time=2000)
    empty = exposure("eve")._replace(slate='[{"i": "inn", "e": null, "p": 1.0}]')
    put(store, one, two, empty)
    click = {"event": "clicked", "exposure": one.id, "position": 2, "value": 3.0}
    assert events.add(store, [click, click, {**click, "position": 1}]) == (2, 1)
    assert events.add(store, [click, {**click, "key": "another"}]) == (1, 1)
    events.add(store, [{"event": "clicked", "exposure": "unknown"}, {"event": "shown", "user": "ann", "item": "inn"}])
    log = Log.read(store.url)
    rows = log.exposures.filter(pl.col("exposure") == one.id)
    assert rows.select("position", "explanation", "propensity", "arm").rows() == [
        (1, "quiet", 0.5, "a"),
        (2, "clean", 1.0, "a"),
    ]
    nothing = log.exposures.filter(pl.col("exposure") == empty.id)
    assert nothing.select("position", "explanation").rows() == [(0, None)]
    assert log.events.select("position", "value", "user").rows() == [(1, 3.0, "ann"), (2, 3.0, "ann"), (2, 3.0, "ann")]
    assert Log.read(store.url, since=1500).lists == 1
    assert Log.read(store.url, experiment="test").lists == 1


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1, None])
def test_a_store_of_another_version_is_refused(store: Store, version: int | None) -> None:
    with store.writing() as connection:
        connection.execute(schema.delete())
        if version is not None:
            connection.execute(schema.insert(), {"version": version})
    with pytest.raises(ParameterError, match=f"schema version {version or 1}, this whyrank has {VERSION}"):
        Store(store.url).create()


def test_what_is_put_twice_is_there_once_and_durable_means_written(store: Store) -> None:
    counted, one = Counted(), exposure()
    made = Writer(store, counted)
    for _ in range(2):
        waiting = made.put([one, exposure()], durable=True)
        assert waiting is not None
        waiting.result(30)
    with store.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(exposures)) == 3
    made.close()
    assert counted.written == 4
    with pytest.raises(QueueFull):
        made.put([one])


def test_a_locked_store_delays_exposures_and_fails_those_who_wait(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "AGAIN", 0.01)
    monkeypatch.setattr(writer, "QUEUED", 3)
    monkeypatch.setattr("whyrank.online.store.WAIT", 0.01)
    told = threading.Event()
    counted = Counted()
    other = Store(store.url).create()
    lock = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    made = Writer(other, counted, lambda problem: told.set())
    made.put([exposure()])
    waiting = made.put([exposure()], durable=True)
    assert waiting is not None
    with pytest.raises(sa.exc.OperationalError):
        waiting.result(60)
    assert told.is_set()
    with pytest.raises(QueueFull):
        made.put([exposure()] * 3)
    lock.rollback()
    lock.close()
    made.close(60)
    assert (counted.written, counted.failed) == (1, 4)
    other.close()


def test_a_writer_outlives_those_who_stop_waiting(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that waits in vain cancels its future; one that fails afterwards is told to nobody, either."""
    counted, held = Counted(), threading.Event()
    writing = store.writing

    def slow() -> AbstractContextManager[sa.Connection]:
        held.wait(60)
        return writing()

    monkeypatch.setattr(store, "writing", slow)
    made = Writer(store, counted)
    waiting = made.put([exposure()], durable=True)
    assert waiting is not None
    assert waiting.cancel()
    held.set()
    later = made.put([exposure()], durable=True)
    assert later is not None
    later.result(60)
    made.close(60)
    assert counted.written == 2


def test_an_erased_user_is_in_no_byte_of_a_sqlite_store_that_is_still_open(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/store.db").create()
    put(store, *(exposure("somebody-or-other") for _ in range(50)), exposure("bob"))
    erase(store, "somebody-or-other")
    assert not any(b"somebody-or-other" in file.read_bytes() for file in tmp_path.iterdir())
    assert any(b"bob" in file.read_bytes() for file in tmp_path.iterdir())
    store.close()


def test_erasing_a_user_leaves_others_and_retention_leaves_what_is_new(store: Store) -> None:
    one, two, late = exposure("ann"), exposure("bob"), exposure("bob", time=10 * 86_400)
    put(store, one, two, late)
    for each in (one, two):
        events.add(store, [{"event": "clicked", "exposure": each.id}])
    events.add(store, [{"event": "shown", "user": "ann", "item": "inn"}])
    assert len(export(store, "ann")["exposures"]) == 1
    assert len(export(store, "ann")["events"]) == 2
    assert erase(store, "ann") == {"exposures": 1, "events": 2, "study_cases": 0}
    assert export(store, "ann") == {"user": "ann", "exposures": [], "events": [], "study_cases": []}
    assert len(export(store, "bob")["exposures"]) == 2
    assert retain(store, 5, now=11 * 86_400) == {"exposures": 1, "events": 1}
    assert [each["id"] for each in export(store, "bob")["exposures"]] == [late.id]
    with pytest.raises(ParameterError, match="at least 1"):
        retain(store, 0)


def test_what_another_process_has_not_written_yet_is_erased_as_well(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers: one still holds exposures of a user whom the other erases."""
    counted, held = Counted(), threading.Event()
    other = Store(store.url).create()
    writing = other.writing

    def slow() -> AbstractContextManager[sa.Connection]:
        held.wait(60)
        return writing()

    monkeypatch.setattr(other, "writing", slow)
    slow_one, quick = Writer(other, counted), Writer(store, counted)
    early, bob, there = exposure("ann"), exposure("bob"), exposure("ann")
    slow_one.put([early, bob])
    waiting = quick.put([there], durable=True)
    assert waiting is not None
    waiting.result(60)
    events.add(store, [{"event": "clicked", "exposure": early.id}, {"event": "clicked", "exposure": bob.id}])
    assert erase(store, "ann")["exposures"] == 1
    later = exposure("ann")
    slow_one.put([later])
    held.set()
    for each in (slow_one, quick):
        each.close(60)
    assert set(Log.read(store.url).exposures["exposure"]) == {bob.id, later.id}
    with store.reading() as connection:
        assert connection.scalars(sa.select(tables.events.c.exposure)).all() == [bob.id]
    other.close()


def test_exposures_from_after_an_erasure_are_written_though_the_clock_stepped_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = time.time_ns()
    writer = Writer(store, Counted())
    erase(store, "ann")
    monkeypatch.setattr("whyrank.online.exposure.time.time_ns", lambda: started - 3600 * 10**9)
    same = exposure("ann")  # of a process that saw the clock step
    put_durably(writer, same)
    monkeypatch.setattr("whyrank.online.exposure._ahead", -(2**62))
    fresh = exposure("ann")  # of one that was started afterwards
    assert fresh.id < same.id
    put_durably(writer, fresh)
    writer.close(60)
    assert set(Log.read(store.url).exposures["exposure"]) == {same.id, fresh.id}


def test_whoever_waits_for_an_exposure_of_somebody_erased_meanwhile_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyrank.online.writer.IDLE", 3600.0)
    early, bob = exposure("ann"), exposure("bob")
    writer = Writer(store, Counted())
    put_durably(writer, bob)  # it has read which erasures there are
    erase(store, "ann")
    with pytest.raises(ErasedMeanwhile):
        put_durably(writer, early)
    put_durably(writer, exposure("ann"))  # the erasure is known by now
    erase(store, "bob")  # a writer that knows some erasures notices others
    with pytest.raises(ErasedMeanwhile):
        put_durably(writer, bob)
    writer.close(60)
    assert Log.read(store.url).exposures["user"].unique().to_list() == ["ann"]


def test_erasures_are_forgotten_when_nobody_can_hold_anything_from_before_them(store: Store) -> None:
    found = []
    for _ in range(2):
        erase(store, "ann")
        with store.writing() as connection:
            found += connection.scalars(sa.select(tables.erased.c.number)).all()
            connection.execute(tables.erased.update().values(time=1000))
    assert found == [1, 2]  # numbers go on, so that writers notice
    retain(store, 1000)
    with store.writing() as connection:
        assert connection.scalars(sa.select(tables.erased.c.number)).all() == []
    erase(store, "ann")
    with store.writing() as connection:
        assert connection.scalars(sa.select(tables.erased.c.number)).all() == [3]


def test_two_stores_have_other_hashes_of_the_same_user(store: Store, tmp_path: Path) -> None:
    other = Store(f"sqlite:///{tmp_path}/other.db").create()
    found = []
    for each in (store, other):
        erase(each, "ann")
        with each.reading() as connection:
            found.append(connection.scalar(sa.select(tables.erased.c.hash)))
    other.close()
    assert len(set(found)) == 2


def test_later_ids_are_larger() -> None:
    made = [new_id() for _ in range(100)]
    assert len(set(made)) == 100
    assert [each[:12] for each in made] == sorted(each[:12] for each in made)


def test_many_rows_are_written_as_they_are_and_once(store: Store) -> None:
    counted = Counted()
    made = Writer(store, counted)
    many = [exposure(user=f"u{at}", id=f"{at:032x}") for at in range(2 * writer.TOGETHER + 7)]
    for given in (many[:10], many):  # a batch that is written again doubles nothing
        waiting = made.put(given, durable=True)
        assert waiting is not None
        waiting.result(20)
    made.close()
    with store.reading() as connection:
        found = [Exposure(*row) for row in connection.execute(sa.select(exposures).order_by(exposures.c.id))]
    assert found == many


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_process_makes_other_ids() -> None:
    new_id()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, "\n".join(new_id() for _ in range(50)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = {each[12:] for each in os.read(reading, 1 << 14).decode().split()}
    os.close(reading)
    os.close(writing)
    assert len(theirs) == 50
    assert not theirs & {new_id()[12:] for _ in range(300)}
