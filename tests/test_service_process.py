"""The service as it runs: a process that is told to stop, killed, and whose models are replaced."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shlex
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import whyrank as wr
from service_world import Process, World, make_world
from whyrank.models import POP, RAND

LONGEST = 120  # seconds that are asked for the same answer


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


def ask(url: str, body: object = None) -> tuple[int, dict[str, object]]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def store_of(folder: Path) -> str:
    return f"sqlite:///{folder}/store.db"


def keep_asking(url: str, body: object, until: Callable[[dict[str, object]], bool]) -> list[int]:
    """Statuses of requests sent one after the other until an answer is as expected."""
    statuses, end = [], time.monotonic() + LONGEST
    while time.monotonic() < end:
        status, answer = ask(url, body)
        statuses.append(status)
        if status == 200 and until(answer):
            return statuses
    raise AssertionError(f"no answer as expected among {len(statuses):,} in {LONGEST} s")


def test_a_replaced_folder_is_loaded_without_a_failed_request(tmp_path: Path, world: World) -> None:
    split = wr.read_split(world.folder / "split")
    RAND(seed=1).fit(split).save(tmp_path / "model")
    body = {"user": world.user, "item": world.item, "n": 3, "grounded": False}
    expected = [each.explanation for each in RAND(seed=2).fit(split).explain(world.user, world.item, 3, grounded=False)]

    def is_new(answer: dict[str, object]) -> bool:
        return [each["explanation"] for each in answer["results"][0]["reasons"]] == expected

    arguments = ("serve", f"r={tmp_path / 'model'}", "--store", store_of(tmp_path), "--workers", "2")
    with Process(*arguments, "--rate", "0") as service:
        assert not is_new(ask(service.url + "v1/explain", body)[1])
        answers: list[list[int]] = []
        clients = [
            threading.Thread(target=lambda: answers.append(keep_asking(service.url + "v1/explain", body, is_new)))
            for _ in range(3)
        ]
        for client in clients:
            client.start()
        RAND(seed=2).fit(split).save(tmp_path / "model")
        for client in clients:
            client.join()
        assert len(answers) == len(clients)
        assert {status for each in answers for status in each} == {200}


def test_a_folder_that_cannot_be_loaded_leaves_the_old_model_in_service(tmp_path: Path, world: World) -> None:
    split = wr.read_split(world.folder / "split")
    POP().fit(split).save(tmp_path / "model")
    with Process("serve", str(tmp_path / "model"), "--store", store_of(tmp_path)) as service:
        broken = POP().fit(split).save(tmp_path / "broken")
        next((broken / "arrays").iterdir()).write_bytes(b"cut short")
        os.rename(tmp_path / "model", tmp_path / "old")
        os.rename(broken, tmp_path / "model")
        service.wait_for("(refused)")
        status, answer = ask(service.url + "v1/explain", {"user": world.user, "item": world.item})
        assert (status, answer["results"][0]["status"]) == (200, "ok")
        assert "cut short" in ask(service.url + "v1/models")[1]["models"][0]["problem"]


def test_requests_under_way_are_answered_before_the_end(tmp_path: Path, world: World) -> None:
    """A request whose body is still coming when the service is told to stop gets its answer."""
    import http.client

    with Process("serve", str(world.folder / "pop"), "--store", store_of(tmp_path)) as service:
        host = service.url.removeprefix("http://").rstrip("/")
        body = json.dumps({"user": world.user, "item": world.item}).encode()
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.putrequest("POST", "/v1/explain")
        connection.putheader("content-type", "application/json")
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body[:5])
        assert ask(service.url + "healthz")[0] == 200  # sent later, so the first one has been taken up
        service.process.send_signal(signal.SIGTERM)
        service.wait_for("(Shutting down)")
        connection.send(body[5:])
        assert connection.getresponse().status == 200
        connection.close()
        assert service.process.wait(60) in (0, -signal.SIGTERM)


def test_offers_of_http_2_keep_their_body_and_what_is_pipelined_is_no_noise(tmp_path: Path, world: World) -> None:
    body = json.dumps({"user": world.user, "item": world.item}).encode()
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    head = b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\n" + offer + b"Content-Length: %d\r\n\r\n" % len(body)
    probe = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
    with Process("serve", str(world.folder / "pop"), "--store", store_of(tmp_path)) as service:
        address = ("127.0.0.1", int(service.url.rsplit(":", 1)[1].strip("/")))
        for parts in ([head + body], [head, body]):
            with socket.create_connection(address, timeout=60) as asking:
                answer = b""
                for part in parts:
                    asking.sendall(part)
                while b'"reasons":[{' not in answer:
                    got = asking.recv(65536)
                    assert got, answer
                    answer += got
        with socket.create_connection(address, timeout=60) as asking, contextlib.suppress(ConnectionError):
            asking.sendall(probe % b"Connection: close\r\n" * 1000)
            while asking.recv(65536):
                pass
        assert ask(service.url + "healthz")[0] == 200
        service.process.terminate()
        service.wait_for("(Shutting down)")
        assert service.process.stderr is not None
        said = "".join(service.log) + service.process.stderr.read()
        assert "Traceback" not in said
        assert said.count("\n") < 20


def test_workers_end_when_the_service_is_killed(tmp_path: Path, world: World) -> None:
    with Process("serve", str(world.folder / "pop"), "--store", store_of(tmp_path), "--workers", "2") as service:
        service.process.kill()
        assert service.process.stderr is not None
        service.process.stderr.read()  # to the end of what the last worker writes
        with pytest.raises(urllib.error.URLError):
            ask(service.url + "healthz")


def workers_of(service: Process) -> list[int]:
    """Process ids, in the order of their starts."""
    return [int(found[1]) for found in re.finditer(r"Started server process \[(\d+)\]", "".join(service.log))]


def test_a_killed_worker_is_replaced(tmp_path: Path, world: World) -> None:
    with Process("serve", str(world.folder / "pop"), "--store", store_of(tmp_path), "--workers", "2") as service:
        os.kill(workers_of(service)[0], signal.SIGKILL)
        service.wait_for("(died)")
        service.wait_for("(Application startup complete)")
        assert ask(service.url + "healthz")[0] == 200
        assert f'pid="{workers_of(service)[0]}"' not in ask_text(service.url + "metrics")
        service.process.terminate()
        assert service.process.wait(60) == 0


def ask_text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        return response.read().decode()


def test_workers_none_of_which_can_start_end_the_service(tmp_path: Path, world: World) -> None:
    (tmp_path / "titles.csv").write_text("nothing\n")
    arguments = ("serve", str(world.folder / "pop"), "--store", store_of(tmp_path), "--workers", "2")
    with pytest.raises(AssertionError, match="could not start"):
        Process(*arguments, "--titles", str(tmp_path / "titles.csv"))


def test_answers_survive_a_kill(tmp_path: Path, world: World) -> None:
    arguments = ["serve", str(world.folder / "pop"), str(world.folder / "rand")]
    arguments += ["--split", str(world.folder / "split"), "--store", store_of(tmp_path)]
    with Process(*arguments) as service:
        made = ask(service.url + "v1/studies", {"a": "pop", "b": "rand", "cases": 5})[1]
        take = f"v1/take/{made['participants'][0]['token']}"
        for case in range(1, 6):
            assert ask(service.url + take, {"case": case, "choice": "right"})[0] == 200
        service.process.kill()
    with Process("study", "serve", "--store", store_of(tmp_path)) as again:
        view = ask(again.url + take)[1]
        assert [case["choice"] for case in view["cases"]] == ["right"] * 5
        assert ask(again.url + "v1/models")[0] == 404


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")
def test_a_full_disk_under_the_store_is_told_and_survived(tmp_path: Path, world: World) -> None:
    """Files that may not grow fail as a full disk does: reasons are given all along, feedback once there is room."""

    def send(first: int) -> tuple[int, dict[str, object]]:
        event = {"event": "shown", "user": world.user, "item": world.item, "model": "pop"}
        return ask(url + "v1/feedback", {"events": [{**event, "id": str(first + at)} for at in range(100)]})

    with Process("serve", str(world.folder / "pop"), "--store", store_of(tmp_path), "--rate", "0") as service:
        url, pid = service.url, service.process.pid
        assert send(0)[0] == 201
        room = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, room[1]))
        for _ in range(3):
            status, problem = send(100)
            assert (status, problem["type"]) == (503, "urn:whyrank:problem:store-failed")
        assert ask(url + "v1/explain", {"user": world.user, "item": world.item})[0] == 200
        assert ask(url + "readyz")[0] == 200
        resource.prlimit(pid, resource.RLIMIT_FSIZE, room)
        assert [send(100), send(0)] == [(201, {"stored": 100, "repeated": 0}), (201, {"stored": 0, "repeated": 100})]
        assert ask(url + "v1/feedback")[1]["models"][0]["shown"] == 200
        service.wait_for("(the store failed: )")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("serve", "nowhere"), "nowhere: is not a saved model"),
        (("serve", "{pop}", "--store", "mysql-ish://"), "is not a database URL"),
        (("serve", "{pop}", "--store", "sqlite:////none/none.db"), "cannot be used"),
        (("serve", "{pop}", "--split", "nowhere"), "nowhere: no such split folder"),
        (("serve", "{pop}", "--host", "0.0.0.0"), "no API keys"),
        (
            ("study", "results", "--store", "sqlite://"),
            "there is no study; make one with `whyrank study create` (the store is sqlite://;",
        ),
    ],
)
def test_a_start_that_cannot_work_ends_with_one_line_and_code_2(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    import whyrank.cli.serve
    import whyrank.cli.study  # noqa: F401 - registers the command
    from whyrank.cli import main

    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    monkeypatch.setattr("whyrank.cli.app._fail", told.append)
    with pytest.raises(SystemExit) as ended:
        main([each.replace("{pop}", str(world.folder / "pop")) for each in arguments])
    assert ended.value.code == 2
    assert said in told[0]


def test_the_study_commands_go_from_cases_to_a_file(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import whyrank.cli.study  # noqa: F401 - registers the commands
    from whyrank.cli import main
    from whyrank.lab.study import studies as study
    from whyrank.online.store import Store

    def call(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["study", *arguments])
        assert ended.value.code == 0
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    (tmp_path / "titles.csv").write_text("item,title\n" + "\n".join(f"i{at:05d},Hotel {at}" for at in range(120)))
    folders = [str(world.folder / name) for name in ("split", "pop", "rand")]
    made = json.loads(call("create", *folders, "--cases", "4", "--titles", "titles.csv", "--json"))
    assert made["participants"][0]["link"].startswith("http://127.0.0.1:8000/?view=take&token=")
    store = Store("sqlite:///whyrank.db")
    for person in made["participants"]:
        for case in study.view(store, person["token"])["cases"]:
            assert case["title"].startswith("Hotel ")
            study.answer(store, person["token"], case["case"], "left")
    store.close()
    result = json.loads(call("results", "--json", "--svg", "chart.svg"))
    assert result["answers"] == 12
    assert (tmp_path / "chart.svg").read_text().startswith("<svg")
    call("export", "-o", "answers.csv")
    assert (tmp_path / "answers.csv").read_text().count("\n") == 13
    assert "pop" in call("results")


def test_commands_that_are_suggested_find_the_same_store(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import whyrank.cli.ab
    import whyrank.cli.study  # noqa: F401 - registers the commands
    from whyrank.cli import main
    from whyrank.cli.stores import store_option

    def call(code: int, *arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        assert ended.value.code == code
        return " ".join("".join(capsys.readouterr()).split())

    def suggested(said: str, command: str) -> list[str]:
        return shlex.split(re.split("[,;] | links begin", said[said.index(command) :] + " ")[0])[1:]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    said = call(0, "ab", "create", "t", "--arm", "a=pop", "--arm", "b=rand", "--store", "sqlite:///my own.db")
    call(0, *suggested(said, "whyrank ab results"))
    assert suggested(said, "whyrank serve") == ["serve", "--experiment", "t", "--store", "sqlite:///my own.db"]
    folders = [str(world.folder / name) for name in ("split", "pop", "rand")]
    url = "http://127.0.0.1:8123/"
    said = call(0, "study", "create", *folders, "--cases", "2", "--store", "sqlite:///my own.db", "--url", url)
    assert "0 answers" in call(0, *suggested(said, "whyrank study results"))
    serve = ["study", "serve", "--port", "8123", "--store", "sqlite:///my own.db"]
    assert suggested(said, "whyrank study serve") == serve
    assert "the store sqlite:///other.db does not exist" in call(2, "ab", "show", "t", "--store", "sqlite:///other.db")
    assert "(the store is sqlite:///other.db;" in call(2, "study", "results", "s", "--store", "sqlite:///other.db")
    assert "secret" not in store_option("postgresql+psycopg://me:secret@host/name")
