"""Feedback and studies in a real PostgreSQL server that the test starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from needs import module, need
from test_online_log import Counted, exposure, put_durably
from whyrank.errors import ParameterError
from whyrank.lab.study import results as study_results
from whyrank.lab.study import studies as study
from whyrank.lab.study.cases import Case
from whyrank.online import ab, events
from whyrank.online.assignment import Experiment, parse_arms
from whyrank.online.erasure import erase, export, retain
from whyrank.online.log import Log
from whyrank.online.reading import latest
from whyrank.online.store import Store
from whyrank.online.tables import exposures
from whyrank.online.writer import Writer

pytestmark = pytest.mark.slow


def programs() -> Path:
    """Where Debian puts the server; without it the tests are skipped, but not where everything must run."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    reason = "no PostgreSQL server: /usr/lib/postgresql/*/bin/initdb is not there (Debian: apt install postgresql)"
    need(False, reason)
    raise AssertionError


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    module("psycopg", "postgres")
    bin_, folder = programs(), Path(tempfile.mkdtemp(prefix="whyrank-postgres-"))
    as_root = os.geteuid() == 0  # the server refuses to run as root
    before = ["runuser", "-u", "postgres", "--"] if as_root else []
    if as_root:
        shutil.chown(folder, "postgres", "postgres")

    def call(*command: object) -> None:
        done = subprocess.run([*before, *map(str, command)], capture_output=True, text=True, cwd=folder, check=False)
        assert done.returncode == 0, done.stderr

    try:
        call(bin_ / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        call(bin_ / "pg_ctl", "-D", folder / "data", "-o", options, "-l", folder / "log", "-w", "start")
        try:
            yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
        finally:
            call(bin_ / "pg_ctl", "-D", folder / "data", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store(url).create()
    yield store
    store.close()


def test_workers_that_start_at_once_make_the_tables_once(url: str) -> None:
    stores = [Store(url) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(Store.create, stores))
    for each in stores:
        each.close()


def test_exposures_are_written_once_and_read_as_tables(store: Store) -> None:
    counted, one = Counted(), exposure("pam", arm="a")
    writers = [Writer(store, counted) for _ in range(3)]
    for each in writers:
        put_durably(each, one, exposure("pam"))
    for each in writers:
        each.close()
    events.add(store, [{"event": "clicked", "exposure": one.id, "position": 1}] * 2)
    log = Log.read(store.url, experiment="test")
    assert log.exposures["propensity"].to_list() == [0.5, 1.0]
    assert log.events.select("position", "user").rows() == [(1, "pam")]
    test = Experiment("pg", parse_arms(["a=x", "b=none"], "1:1"))
    assert ab.found(store, ab.create(store, test).name) == test
    assert latest(store, "test", "a", "clicked", limit=5)[0]["exposure"] == one.id
    assert erase(store, "pam") == {"exposures": 4, "events": 1, "study_cases": 0}
    assert retain(store, 1)["exposures"] == 0


def test_an_erasure_waits_for_who_writes_and_stops_who_comes_later(store: Store) -> None:
    late, slow = exposure("pia"), Store(store.url)
    with ThreadPoolExecutor(1) as pool:
        with store.writing() as connection:
            assert store.erased.since(connection, {(0, "pia")}) == set()
            erasing = pool.submit(erase, store, "pia")  # waits until this transaction ends
            connection.execute(exposures.insert(), [late._asdict()])
        assert erasing.result(60)["exposures"] == 1
    with slow.writing() as connection:
        assert slow.erased.since(connection, {(0, "pia")}) == {(0, "pia")}
    slow.close()
    assert export(store, "pia")["exposures"] == []


def test_a_study_goes_from_cases_to_results(store: Store) -> None:
    made = [Case(f"u{at}", f"i{at}", ["ürgent 🙂"], [f"a {at}"], [f"b {at}"]) for at in range(4)]
    id_ = study.create(store, made, a="x", b="y", n=1, people=3, ties=True, titles={"i0": "Grand"})
    study.add_participants(store, id_, 1)
    people = [each["token"] for each in study.shown(store, id_)["participants"]]
    assert len(people) == 4
    for token in people:
        for case in study.view(store, token)["cases"]:
            study.answer(store, token, case["case"], "left" if case["left"][0].startswith("a") else "right")
    with pytest.raises(study.AlreadyAnswered):
        study.answer(store, people[0], 1, "tie")
    result = study_results.results(store, id_)
    assert [(each["option"], each["cases"]) for each in result["outcomes"]] == [("x", 4), ("y", 0), ("tie", 0)]
    assert result["per_case"][0]["truth"] == ["ürgent 🙂"]
    assert study.listed(store)[0]["answers"] == 16


def test_answers_and_events_sent_at_once_count_once(store: Store) -> None:
    made = [Case("u", f"i{at}", ["t"], ["a"], ["b"]) for at in range(3)]
    id_ = study.create(store, made, a="x", b="y", n=1, people=2, agreement=1)
    people = [each["token"] for each in study.shown(store, id_)["participants"]]
    event = {"event": "shown", "user": "u", "item": "i", "explanation": None, "model": "once", "position": 1}
    with ThreadPoolExecutor(8) as pool:
        work = [(token, place) for token in people for place in (1, 2, 3)] * 5
        list(pool.map(lambda each: study.answer(store, each[0], each[1], "right"), work))
        list(pool.map(lambda at: events.add(store, [{**event, "key": f"k{at % 3}"}]), range(24)))
        list(pool.map(lambda _: study.add_participants(store, id_, 2), range(4)))
    assert study_results.results(store, id_)["answers"] == 6
    assert [each["shown"] for each in events.counts(store) if each["model"] == "once"] == [3]
    assert len(study.shown(store, id_)["participants"]) == 10


def test_a_server_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    module("psycopg", "postgres")
    with pytest.raises(ParameterError, match="cannot be used") as caught:
        Store(f"postgresql+psycopg://someone:secret@/none?host={tmp_path}").create()
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
