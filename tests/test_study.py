"""The blind study: drawn fairly, blind, durable and counted right."""

from __future__ import annotations

import csv
import io
import itertools
import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from starlette.testclient import TestClient

import whyrank as wr
from service_world import World, make_world
from whyrank.errors import DataError, ParameterError
from whyrank.explain.options import Options
from whyrank.lab.study import messages as messages_study
from whyrank.lab.study import results as study_results
from whyrank.lab.study import studies as study
from whyrank.lab.study.cases import Case, sample_cases
from whyrank.lab.study.statistics import exact_interval, fleiss_kappa, winner
from whyrank.models import load
from whyrank.online.store import Store


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path}/study.db").create()
    yield store
    store.close()


def some_cases(count: int) -> list[Case]:
    return [Case(f"u{at}", f"i{at}", [f"truth {at}"], [f"a {at}"], [f"b {at}"]) for at in range(count)]


def tokens(store: Store, id_: str) -> list[str]:
    return [each["token"] for each in study.shown(store, id_)["participants"]]


def vote(store: Store, token: str, wanted: dict[str, str]) -> None:
    """Answer so that every item's winner is `a`, `b` or `tie`, whatever side it is on."""
    for case in study.view(store, token)["cases"]:
        option = wanted.get(case["item"])
        if option == "tie":
            study.answer(store, token, case["case"], "tie")
        elif option:
            side = "left" if case["left"][0].startswith(option) else "right"
            study.answer(store, token, case["case"], side)


# -- statistics --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.9, 0.95]))
def test_the_interval_is_clopper_and_pearson_s(counts: tuple[int, int], confidence: float) -> None:
    won, trials = counts
    expected = stats.binomtest(won, trials).proportion_ci(confidence, method="exact")
    assert exact_interval(won, trials, confidence) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_kappa_of_the_textbook_example() -> None:
    table = [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
    assert fleiss_kappa(table) == pytest.approx(0.210, abs=5e-4)


@pytest.mark.parametrize("votes", [[], [[1, 0]], [[3, 0], [2, 0]]])
def test_kappa_is_undefined_without_pairs_of_votes_or_without_variety(votes: list[list[int]]) -> None:
    assert fleiss_kappa(votes) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), max_size=8))
def test_kappa_does_not_depend_on_the_order_of_cases_or_options(votes: list[tuple[int, int, int]]) -> None:
    turned = [(c, a, b) for a, b, c in reversed(votes)]
    assert fleiss_kappa(votes) == pytest.approx(fleiss_kappa(turned))


@pytest.mark.parametrize(
    ("votes", "agreement", "expected"),
    [([2, 1], 2, 0), ([1, 2], 2, 1), ([1, 1], 2, None), ([2, 2], 2, None), ([1, 0], 1, 0), ([0, 1, 2], 2, 2)],
)
def test_a_case_is_won_when_enough_agree_and_nobody_equals_them(
    votes: list[int], agreement: int, expected: int | None
) -> None:
    assert winner(votes, agreement) == expected


# -- cases and sides ---------------------------------------------------------------------------------------------------


PLAIN = vars(Options.plain())


def test_cases_are_drawn_from_the_seed_and_hold_what_models_say(world: World) -> None:
    test = wr.read_split(world.folder / "split").test
    a, b = load(world.folder / "pop"), load(world.folder / "toy")
    made = sample_cases(test, a, b, count=30, n=3, seed=1)
    assert made == sample_cases(test, a, b, count=30, n=3, seed=1)
    assert made != sample_cases(test, a, b, count=30, n=3, seed=2)
    assert len({(case.user, case.item) for case in made}) == 30
    for case in made[:5]:
        assert case.a == [each.text for each in a.explain(case.user, case.item, 3, **PLAIN)]
        assert case.b == [each.text for each in b.explain(case.user, case.item, 3, **PLAIN)]


def test_cases_with_short_or_equal_lists_are_not_shown(world: World) -> None:
    test = wr.read_split(world.folder / "split").test
    a, b = load(world.folder / "pop"), load(world.folder / "toy")
    grounded = sample_cases(test, a, b, count=5, n=20, seed=0, options=Options.plain(grounded=True))
    assert all(len(case.a) == len(case.b) == 20 and set(case.a) != set(case.b) for case in grounded)
    with pytest.raises(DataError, match="only 0 of"):
        sample_cases(test, a, a, count=1, n=3, seed=0)


@given(st.integers(0, 2**62), st.integers(1, 40))
def test_sides_are_balanced_and_orders_complete(seed: int, count: int) -> None:
    arranged = study.arrangement(seed, count)
    assert sorted(number for number, _ in arranged) == list(range(1, count + 1))
    assert abs(2 * sum(left for _, left in arranged) - count) <= 1
    assert arranged == study.arrangement(seed, count)


def test_no_place_and_no_side_gives_a_model_away() -> None:
    """Over many participants every case stands everywhere, and model a is on the left half of the time."""
    arranged = [study.arrangement(seed, 5) for seed in range(2000)]
    for place in range(5):
        left = sum(each[place][1] for each in arranged)
        assert stats.binomtest(left, 2000).pvalue > 1e-4
        assert stats.chisquare(list(Counter(each[place][0] for each in arranged).values())).pvalue > 1e-4


def test_participants_differ_in_order_and_sides(store: Store) -> None:
    # Seeds are drawn anew: with 40 cases two participants never share their sides by chance, with 12 one time in 150.
    id_ = study.create(store, some_cases(40), a="x", b="y", n=1, people=4)
    views = [study.view(store, token)["cases"] for token in tokens(store, id_)]
    assert len({json.dumps([case["item"] for case in view]) for view in views}) == 4
    sides = [{case["item"]: case["left"][0][0] for case in view} for view in views]
    assert len({json.dumps(each, sort_keys=True) for each in sides}) == 4
    assert views[0] == study.view(store, tokens(store, id_)[0])["cases"]


# -- answers -----------------------------------------------------------------------------------------------------------


def test_results_count_valid_cases_only(store: Store) -> None:
    id_ = study.create(store, some_cases(4), a="x", b="y", n=1, people=3, ties=True)
    ballots = [
        {"i0": "a", "i1": "b", "i2": "tie", "i3": "a"},
        {"i0": "a", "i1": "b", "i2": "tie", "i3": "b"},
        {"i0": "b", "i1": "b", "i2": "a"},
    ]
    for token, ballot in zip(tokens(store, id_), ballots, strict=True):
        vote(store, token, ballot)
    result = study_results.results(store, id_)
    assert [(each["option"], each["cases"]) for each in result["outcomes"]] == [("x", 1), ("y", 1), ("tie", 1)]
    assert (result["cases"], result["valid_cases"], result["answers"]) == (4, 3, 11)
    assert [each["winner"] for each in result["per_case"]] == ["x", "y", "tie", None]
    assert result["outcomes"][0]["share"] == pytest.approx(1 / 3)
    assert (result["outcomes"][0]["low"], result["outcomes"][0]["high"]) == exact_interval(1, 3)
    assert result["kappa"] == pytest.approx(fleiss_kappa([[2, 1, 0], [0, 3, 0], [1, 0, 2], [1, 1, 0]]))
    rows = list(csv.DictReader(io.StringIO(study_results.answers_csv(store, id_))))
    assert len(rows) == 11
    assert Counter(row["choice"] for row in rows) == {"x": 4, "y": 5, "tie": 2}


def test_the_chart_shows_shares_and_escapes_names(store: Store) -> None:
    id_ = study.create(store, some_cases(2), a="<x>&", b="y", n=1, people=2)
    for token in tokens(store, id_):
        vote(store, token, {"i0": "a", "i1": "a"})
    root = ElementTree.fromstring(study_results.chart(study_results.results(store, id_)))
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "<x>&" in texts
    assert "100.0% (2)" in texts
    assert "0.0% (0)" in texts


def test_the_same_answer_twice_counts_once_and_another_is_refused(store: Store) -> None:
    id_ = study.create(store, some_cases(3), a="x", b="y", n=1)
    token = tokens(store, id_)[0]
    first = study.answer(store, token, 1, "left")
    assert study.answer(store, token, 1, "left") == first == {"case": 1, "choice": "left", "answered": 1, "total": 3}
    with pytest.raises(study.AlreadyAnswered):
        study.answer(store, token, 1, "right")
    assert study_results.results(store, id_)["answers"] == 1


def test_an_answer_that_is_withdrawn_can_be_given_again(store: Store) -> None:
    token = tokens(store, study.create(store, some_cases(3), a="x", b="y", n=1))[0]
    study.answer(store, token, 1, "left")
    assert study.withdraw(store, token, 1) == {"case": 1, "answered": 0, "total": 3}
    assert study.withdraw(store, token, 1)["answered"] == 0  # nothing is left to take back
    assert study.answer(store, token, 1, "right")["choice"] == "right"
    with pytest.raises(ParameterError, match="no case 9"):
        study.withdraw(store, token, 9)


def test_answers_sent_at_once_count_once(store: Store) -> None:
    id_ = study.create(store, some_cases(3), a="x", b="y", n=1)
    chosen = tokens(store, id_)
    with ThreadPoolExecutor(8) as pool:
        work = [(token, place) for token in chosen for place in (1, 2, 3)] * 4
        list(pool.map(lambda each: study.answer(store, each[0], each[1], "left"), work))
    assert study_results.results(store, id_)["answers"] == 9


def test_bad_answers_are_refused(store: Store) -> None:
    id_ = study.create(store, some_cases(3), a="x", b="y", n=1)
    token = tokens(store, id_)[0]
    with pytest.raises(ParameterError, match="no case 4"):
        study.answer(store, token, 4, "left")
    with pytest.raises(ParameterError, match="ties"):
        study.answer(store, token, 1, "tie")
    with pytest.raises(study.NoSuchStudy):
        study.answer(store, "wrong", 1, "left")
    assert study_results.results(store, id_)["answers"] == 0


@pytest.mark.parametrize("wrong", [{"agreement": 4}, {"agreement": 0}, {"b": "x"}])
def test_a_study_that_cannot_be_valid_is_refused(store: Store, wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        study.create(store, some_cases(1), **{"a": "x", "b": "y", "n": 1, "people": 3, **wrong})
    assert study.listed(store) == []


# -- over HTTP ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("store")
    with world.client("pop", "rand", "toy", store=f"sqlite:///{folder}/s.db") as client:
        yield client


def create(client: TestClient, **more: object) -> dict[str, object]:
    body = {"a": "toy", "b": "rand", "title": "Toy or RAND?", "cases": 6, "participants": 3, **more}
    response = client.post("/v1/studies", json=body)
    assert response.status_code == 201, response.text
    return response.json()


def keys_of(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | set().union(*(keys_of(each) for each in value.values()), set())
    if isinstance(value, list):
        return set().union(*(keys_of(each) for each in value), set())
    return set()


def test_a_study_goes_from_creation_to_results(client: TestClient) -> None:
    made = create(client)
    assert msgspec.to_builtins(msgspec.convert(made, messages_study.StudyAnswer)) == made
    for person in made["participants"]:
        for case in range(1, 7):
            body = {"case": case, "choice": "left"}
            assert client.post(f"/v1/take/{person['token']}", json=body).status_code == 200
    result = client.get(f"/v1/studies/{made['id']}/results").json()
    assert msgspec.to_builtins(msgspec.convert(result, messages_study.ResultsAnswer)) == result
    assert (result["answers"], result["left_share"]) == (18, 1.0)
    assert client.get(f"/v1/studies/{made['id']}/results.csv").text.count("\n") == 19
    assert client.get(f"/v1/studies/{made['id']}/chart.svg").headers["content-type"] == "image/svg+xml"
    listed = client.get("/v1/studies").json()["studies"]
    msgspec.convert({"studies": listed}, messages_study.StudiesAnswer)
    assert made["id"] in [each["id"] for each in listed]
    more = client.post(f"/v1/studies/{made['id']}/participants", json={"count": 2}).json()
    assert [each["answered"] for each in more["participants"]] == [6, 6, 6, 0, 0]


def test_a_participant_sees_nothing_that_tells_the_models_apart(world: World, client: TestClient) -> None:
    made = create(client, n=3)
    token = made["participants"][0]["token"]
    first, page = client.get(f"/v1/take/{token}"), client.get(f"/?view=take&token={token}")
    answer = client.post(f"/v1/take/{token}", json={"case": 1, "choice": "left"})
    refused = client.post(f"/v1/take/{token}", json={"case": 1, "choice": "right"})
    view = first.json()
    assert msgspec.to_builtins(msgspec.convert(view, messages_study.TakeView)) == view
    assert keys_of(view) == {
        *("question", "ties", "total", "answered", "cases"),
        *("case", "item", "title", "truth", "left", "right", "choice"),
    }
    # Texts of the pool apart, nothing names a model, an explanation, a user, the study or a score.
    pool = {text for case in view["cases"] for text in itertools.chain(case["left"], case["right"], case["truth"])}
    rest = json.dumps(view)
    for text in sorted(pool, key=len, reverse=True):
        rest = rest.replace(json.dumps(text), '""')
    catalog = load(world.folder / "pop").catalog_
    secrets = {"toy", "rand", "pop", "Toy or RAND?", made["id"], "score", "model"}
    secrets |= set(catalog.explanations.ids.to_list()) | set(catalog.users.ids.to_list())
    for response in (rest, page.text, answer.text, refused.text, *(str(each.headers) for each in (first, answer))):
        assert [secret for secret in secrets if secret.lower() in response.lower()] == []
    assert all(len(case["left"]) == len(case["right"]) == 3 for case in view["cases"])


def test_the_order_of_a_list_is_the_model_s_own(world: World, client: TestClient) -> None:
    made = create(client)
    view = client.get(f"/v1/take/{made['participants'][0]['token']}").json()
    stored = {case["item"]: case for case in client.get(f"/v1/studies/{made['id']}/results").json()["per_case"]}
    for case in view["cases"]:
        pair = [stored[case["item"]]["a"], stored[case["item"]]["b"]]
        assert [case["left"], case["right"]] in (pair, pair[::-1])


def test_studies_say_what_is_missing(world: World, client: TestClient, tmp_path: Path) -> None:
    scarce = {"cases": 1000, "n": 20, "grounded": True, "polarity": "negative"}
    refusals = [
        ({"a": "toy", "b": "toy"}, 422, "invalid-request"),
        ({"a": "toy", "b": "none"}, 404, "unknown-model"),
        ({"a": "toy", "b": "rand", "agreement": 9}, 422, "invalid-request"),
        ({"a": "toy", "b": "rand", **scarce}, 422, "no-test-pairs"),
    ]
    for body, status, kind in refusals:
        response = client.post("/v1/studies", json=body)
        assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (status, kind)
    with world.client("pop", "rand", split=None, store=f"sqlite:///{tmp_path}/s.db") as without:
        assert without.get("/v1/models").json()["service"]["studies"] is False
        response = without.post("/v1/studies", json={"a": "pop", "b": "rand"})
        assert response.json()["type"].endswith("no-test-pairs")
    for path in ("/v1/studies/none", "/v1/studies/none/results", "/v1/take/none"):
        assert client.get(path).json()["type"].endswith("not-found")


def test_a_service_for_participants_serves_nothing_else(world: World, client: TestClient, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    with world.client("toy", "rand", store=url) as owner:
        token = create(owner)["participants"][0]["token"]
    with world.client(store=url, study_only=True, split=None) as alone:
        assert alone.get(f"/v1/take/{token}").status_code == 200
        assert alone.post(f"/v1/take/{token}", json={"case": 1, "choice": "left"}).status_code == 200
        assert alone.get("/readyz").status_code == 200
        paths = client.get("/openapi.json").json()["paths"]
        for path, methods in paths.items():
            if not path.startswith("/v1/take/") and path not in ("/healthz", "/readyz"):
                for method in methods:
                    assert alone.request(method, path, json={}).status_code in (404, 405), path
