"""The log as tables, in a folder and in a store; the thread that writes it; who was erased."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from whyrank.errors import DataError, ParameterError
from whyrank.online import events, tables, writer
from whyrank.online.erased import ErasedMeanwhile
from whyrank.online.erasure import erase, export, retain
from whyrank.online.log import EVENTS, EXPOSURES, Log
from whyrank.online.store import Store
from whyrank.online.tables import VERSION, exposures, schema
from whyrank.online.writer import Exposure, QueueFull, Writer, new_id

HOUR = 3600 * 10**9


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


def put(store: Store, *given: Exposure) -> None:
    made = Writer(store, Counted())
    made.put(given)
    made.close(60)


def put_durably(writer: Writer, *given: Exposure) -> None:
    """Wait until exposures are written; raises what the writer says."""
    waiting = writer.put(given, durable=True)
    assert waiting is not None
    waiting.result(60)


def ids(store: Store) -> set[str]:
    with store.reading() as connection:
        return set(connection.scalars(sa.select(exposures.c.id)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "store.db") as store:
        yield store


@contextmanager
def opened(file: Path) -> Iterator[Store]:
    """A store as another process has it open."""
    store = Store(str(file)).create()
    yield store
    store.close()


@contextmanager
def held(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A store in which nobody gets to write until the block ends."""
    gate, writing = threading.Event(), store.writing

    @contextmanager
    def slow() -> Iterator[sa.Connection]:
        gate.wait(60)
        with writing() as connection:
            yield connection

    monkeypatch.setattr(store, "writing", slow)
    try:
        yield
    finally:
        gate.set()


# -- tables ----------------------------------------------------------------------------------------

SHOWN: dict[str, list[object]] = {
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
DONE: dict[str, list[object]] = {
    "exposure": ["x"],
    "event": ["clicked"],
    "time": [7],
    "user": ["ann"],
}


def log_of(**changed: list[object]) -> Log:
    """A log of two lists and a click, with some columns changed; `of_...` are those of events."""
    of_events = {name[3:]: values for name, values in changed.items() if name.startswith("of_")}
    of_lists = {name: values for name, values in changed.items() if not name.startswith("of_")}
    tables = (SHOWN | of_lists, DONE | of_events)
    return Log(*(pl.DataFrame(each, strict=False) for each in tables))


def test_a_log_has_its_columns_and_its_order_whatever_it_is_made_of() -> None:
    log = log_of()
    assert dict(log.exposures.schema) == {name: kind() for name, kind in EXPOSURES.items()}
    assert dict(log.events.schema) == {name: kind() for name, kind in EVENTS.items()}
    assert log.exposures["position"].to_list() == [1, 2, 0]
    assert log.events["value"].to_list() == [1.0]
    assert repr(log) == "Log(2 lists, 2 reasons, 1 event)"
    assert Log(log.exposures.reverse(), log.events).digest() == log.digest()
    assert log_of(of_value=[2.0]).digest() != log.digest()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"propensity": [0.5, 0.0, 1.0]}, "column 'propensity'"),
        ({"position": [1, 1, 0]}, "each position once"),
        ({"position": [2, 1, 1]}, "null where position is 0"),
        ({"user": ["ann", None, "bob"]}, "row 2, column 'user'"),
        ({"time": ["now", "5", "9"]}, "column 'time'"),
        ({"asked": [1, 1, 1]}, "no list longer than was asked for"),
        ({"of_event": ["looked"]}, "one of shown"),
        ({"of_exposure": ["z"]}, "an exposure of the log"),
        ({"of_value": [float("nan")]}, "finite"),
    ],
)
def test_what_cannot_be_in_a_log_is_refused_with_its_place(changed: dict[str, list[object]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        log_of(**changed)


def test_a_folder_gives_back_what_was_written(tmp_path: Path) -> None:
    log = log_of(of_position=[1])
    log.write(tmp_path / "log")
    assert Log.read(tmp_path / "log").digest() == log.digest()
    lines = tmp_path / "lines"
    lines.mkdir()
    log.exposures.write_ndjson(lines / "exposures.jsonl")
    log.events.write_ndjson(lines / "events.jsonl")
    assert Log.read(lines).digest() == log.digest()
    assert Log.read(lines, since=6).lists == 1
    assert len(Log.read(lines, until=7).events) == 0
    assert set(Log.read(lines, experiment="t").exposures["exposure"]) == {"x"}
    (lines / "events.jsonl").write_text("{")
    with pytest.raises(DataError, match=r"events\.jsonl"):
        Log.read(lines)
    with pytest.raises(ParameterError, match="no such folder"):
        Log.read(tmp_path / "nowhere")


# -- the store -------------------------------------------------------------------------------------


def test_a_store_gives_back_what_was_put_and_done(store: Store, tmp_path: Path) -> None:
    one, two = exposure("ann", arm="a"), exposure("bob", time=2000)
    empty = exposure("eve")._replace(slate='[{"i": "inn", "e": null, "p": 1.0}]')
    put(store, one, two, empty)
    click = {"event": "clicked", "exposure": one.id, "position": 2, "value": 3.0}
    assert events.add(store, [click, click, {**click, "position": 1}]) == (2, 1)
    assert events.add(store, [click, {**click, "key": "another"}]) == (1, 1)
    elsewhere = {"event": "shown", "user": "ann", "item": "inn"}
    events.add(store, [{"event": "clicked", "exposure": "unknown"}, elsewhere])
    log = Log.read(store.url)
    rows = log.exposures.filter(pl.col("exposure") == one.id)
    assert rows.select("position", "explanation", "propensity", "arm").rows() == [
        (1, "quiet", 0.5, "a"),
        (2, "clean", 1.0, "a"),
    ]
    nothing = log.exposures.filter(pl.col("exposure") == empty.id)
    assert nothing.select("position", "explanation").rows() == [(0, None)]
    done = log.events.select("position", "value", "user").rows()
    assert done == [(1, 3.0, "ann"), (2, 3.0, "ann"), (2, 3.0, "ann")]
    assert Log.read(store.url, since=1500).lists == 1
    assert Log.read(tmp_path / "store.db", experiment="test").lists == 1  # a path is a path


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1, None])
def test_a_store_of_another_version_is_refused(store: Store, version: int | None) -> None:
    with store.writing() as connection:
        connection.execute(schema.delete())
        if version is not None:
            connection.execute(schema.insert(), {"version": version})
    said = f"schema version {version or 1}, this whyrank has {VERSION}"
    with pytest.raises(ParameterError, match=said):
        Store(store.url).create()


def test_what_is_put_twice_is_there_once_and_durable_means_written(store: Store) -> None:
    counted = Counted()
    made = Writer(store, counted)
    many = [exposure(f"u{at}", id=f"{at:032x}") for at in range(2 * writer.TOGETHER + 7)]
    for given in (many[:10], many):
        put_durably(made, *given)
        assert ids(store) >= {each.id for each in given}
    with store.reading() as connection:
        query = sa.select(exposures).order_by(exposures.c.id)
        assert [Exposure(*row) for row in connection.execute(query)] == many
    made.close()
    assert counted.written == 10 + len(many)
    with pytest.raises(QueueFull):
        made.put(many)


def test_a_locked_store_delays_exposures_and_fails_those_who_wait(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "AGAIN", 0.01)
    monkeypatch.setattr(writer, "QUEUED", 3)
    monkeypatch.setattr("whyrank.online.store.WAIT", 0.01)
    told, counted = threading.Event(), Counted()
    lock = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    with opened(tmp_path / "store.db") as other:
        lock.execute("BEGIN IMMEDIATE")
        made = Writer(other, counted, lambda problem: told.set())
        made.put([exposure()])
        with pytest.raises(sa.exc.OperationalError):
            put_durably(made, exposure())
        assert told.is_set()
        with pytest.raises(QueueFull):
            made.put([exposure()] * 3)
        lock.rollback()
        lock.close()
        made.close(60)
        assert (counted.written, counted.failed) == (1, 4)


def test_a_writer_outlives_those_who_stop_waiting(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that waits in vain cancels its future, which then takes no result."""
    counted = Counted()
    made = Writer(store, counted)
    with held(store, monkeypatch):
        waiting = made.put([exposure()], durable=True)
        assert waiting is not None
        assert waiting.cancel()
    put_durably(made, exposure())
    made.close(60)
    assert counted.written == 2


# -- people ----------------------------------------------------------------------------------------


def test_an_erased_user_is_in_no_byte_of_a_sqlite_store_that_is_still_open(store: Store, tmp_path: Path) -> None:
    put(store, *(exposure("somebody-or-other") for _ in range(50)), exposure("bob"))
    erase(store, "somebody-or-other")
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"somebody-or-other" not in written
    assert b"bob" in written


def test_erasing_a_user_leaves_others_and_retention_leaves_what_is_new(store: Store) -> None:
    one, two, late = exposure("ann"), exposure("bob"), exposure("bob", time=10 * 86_400)
    put(store, one, two, late)
    for each in (one, two):
        events.add(store, [{"event": "clicked", "exposure": each.id}])
    events.add(store, [{"event": "shown", "user": "ann", "item": "inn"}])
    held = export(store, "ann")
    assert (len(held["exposures"]), len(held["events"])) == (1, 2)
    assert erase(store, "ann") == {"exposures": 1, "events": 2, "study_cases": 0}
    nothing: dict[str, list[object]] = {"exposures": [], "events": [], "study_cases": []}
    assert export(store, "ann") == {"user": "ann", **nothing}
    assert len(export(store, "bob")["exposures"]) == 2
    assert retain(store, 5, now=11 * 86_400) == {"exposures": 1, "events": 1}
    assert ids(store) == {late.id}
    with pytest.raises(ParameterError, match="at least 1"):
        retain(store, 0)


@pytest.mark.parametrize("ahead", [-HOUR, 0, HOUR])
def test_what_another_process_has_not_written_yet_is_erased_whatever_its_clock_says(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """Two workers: one holds exposures of a user whom the other erases."""
    with opened(tmp_path / "store.db") as other:
        slow, quick = Writer(other, Counted()), Writer(store, Counted())
        with held(other, monkeypatch):
            early = exposure("ann", id=f"{int(new_id()[:12], 16) + ahead // 10**6:012x}{'0' * 20}")
            bob = exposure("bob")
            slow.put([early, bob])
            put_durably(quick, exposure("ann"))
            clicks = [{"event": "clicked", "exposure": each.id} for each in (early, bob)]
            events.add(store, clicks)
            assert erase(store, "ann")["exposures"] == 1
        for each in (slow, quick):
            each.close(60)
    assert ids(store) == {bob.id}
    with store.reading() as connection:
        assert connection.scalars(sa.select(tables.events.c.exposure)).all() == [bob.id]


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_shown_after_an_erasure_is_written_though_the_clock_stepped_back(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    before = Writer(store, Counted())
    erase(store, "ann")
    wall = writer.time.time_ns()
    monkeypatch.setattr("whyrank.online.writer.time.time_ns", lambda: wall - HOUR)
    if restarted:  # the new process does not know how the clock was
        monkeypatch.setattr(writer, "_ahead", -(2**62))
    with opened(tmp_path / "store.db") as other:
        made, later = Writer(other, Counted()) if restarted else before, exposure("ann")
        put_durably(made, later)
        made.close(60)
    assert ids(store) == {later.id}
    before.close(60)


def test_whoever_waits_for_an_exposure_of_somebody_erased_meanwhile_is_told(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "IDLE", 3600.0)
    with opened(tmp_path / "store.db") as other:
        made = Writer(store, Counted())
        for user in ("ann", "bob"):
            erase(other, user)
            with pytest.raises(ErasedMeanwhile):
                put_durably(made, exposure(user))
            put_durably(made, exposure(user))  # whoever asks again is logged
        made.close(60)
    assert sorted(Log.read(store.url).exposures["user"].unique()) == ["ann", "bob"]


def test_erasures_are_forgotten_after_a_week_and_their_numbers_go_on(store: Store) -> None:
    def numbers() -> list[int]:
        with store.reading() as connection:
            return list(connection.scalars(sa.select(tables.erased.c.number)))

    for number in (1, 2):
        erase(store, "ann")
        assert numbers() == [number]
        with store.writing() as connection:
            connection.execute(tables.erased.update().values(time=1000))
    retain(store, 1000)
    assert numbers() == []
    erase(store, "ann")
    assert numbers() == [3]  # so that writers notice it


def test_two_stores_have_other_hashes_of_the_same_user(store: Store, tmp_path: Path) -> None:
    found = []
    with opened(tmp_path / "other.db") as other:
        for each in (store, other):
            erase(each, "ann")
            with each.reading() as connection:
                found.append(connection.scalar(sa.select(tables.erased.c.hash)))
    assert len(set(found)) == 2


# -- ids -------------------------------------------------------------------------------------------


def test_later_ids_are_larger() -> None:
    made = [new_id() for _ in range(100)]
    assert len(set(made)) == 100
    assert [each[:12] for each in made] == sorted(each[:12] for each in made)


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
