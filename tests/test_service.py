"""The API, against the library's own answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import msgspec
import numpy as np
import polars as pl
import pytest
from starlette.testclient import TestClient

from service_world import World, make_world
from whyrank.data.triplets import Triplets
from whyrank.models import POP, load
from whyrank.service import messages, messages_catalog, messages_online
from whyrank.service.app import create_app
from whyrank.service.settings import Settings


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[TestClient]:
    with world.client("pop", "rand", "toy") as client:
        yield client


def problem(response: object, status: int, kind: str) -> dict[str, object]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert (document["type"], document["status"]) == (f"urn:whyrank:problem:{kind}", status)
    assert "\n" not in document["detail"]
    return document


def checked(response: object, shape: type, status: int = 200) -> dict[str, object]:
    """The answer, which must be exactly what the OpenAPI document promises."""
    assert response.status_code == status, response.text
    document = response.json()
    assert msgspec.to_builtins(msgspec.convert(document, shape)) == document
    return document


def test_explain_gives_the_library_s_reasons(world: World, client: TestClient) -> None:
    body = {"user": world.user, "item": world.item, "n": 4, "model": "toy", "similar": True}
    answer = checked(client.post("/v1/explain", json=body), messages.ExplainAnswer)
    expected = load(world.folder / "toy").explain(world.user, world.item, 4)
    (result,) = answer["results"]
    assert [each["explanation"] for each in result["reasons"]] == [each.explanation for each in expected]
    assert [each["score"] for each in result["reasons"]] == [each.score for each in expected]
    assert result["reasons"][0] == {**expected[0].as_dict(), "sentiment": ANY, "other_rank": None}
    assert (result["status"], result["fallback"], answer["mu"]) == ("ok", None, 0.5)


def test_similar_items_are_counted_only_when_asked_for(world: World, client: TestClient) -> None:
    body = {"user": world.user, "item": world.item}
    (plain, counted) = (client.post("/v1/explain", json={**body, "similar": each}).json() for each in (False, True))
    assert plain["results"][0]["reasons"][0]["evidence"]["similar_items"] is None
    assert counted["results"][0]["reasons"][0]["evidence"]["similar_items"] > 0


def test_reasons_are_grounded_unless_asked_otherwise(world: World, client: TestClient) -> None:
    body = {"user": world.user, "item": world.item, "n": 50, "model": "toy"}
    grounded, free = (
        client.post("/v1/explain", json={**body, **more}).json()["results"][0]["reasons"]
        for more in ({}, {"grounded": False})
    )
    assert all(each["evidence"]["supporting"] > 0 for each in grounded)
    assert any(each["evidence"]["supporting"] == 0 for each in free)


def test_parts_add_up_to_the_score_with_every_option(world: World, client: TestClient) -> None:
    body = {"user": world.user, "item": world.item, "model": "toy", "mu": 0.3}
    body |= {"specificity": 0.5, "diversity": 0.4, "polarity": "positive", "banned": ["pool"]}
    reasons = client.post("/v1/explain", json=body).json()["results"][0]["reasons"]
    assert reasons
    for each in reasons:
        assert sum(each["parts"].values()) == pytest.approx(each["score"], abs=1e-4)
        assert each["sentiment"] >= 0
        assert "pool" not in each["text"].lower()


def test_mu_of_a_request_does_not_change_the_model(world: World, client: TestClient) -> None:
    body = {"user": world.user, "item": world.item, "n": 10, "model": "toy"}
    before = client.post("/v1/explain", json=body).json()
    changed = client.post("/v1/explain", json={**body, "mu": 1.0}).json()
    model = load(world.folder / "toy")
    model.mu = 1.0
    expected = model.explain(world.user, world.item, 10)
    assert [each["explanation"] for each in changed["results"][0]["reasons"]] == [e.explanation for e in expected]
    assert changed["mu"] == 1.0
    assert client.post("/v1/explain", json=body).json() == before


def test_mu_is_taken_in_steps_so_that_what_is_kept_for_it_stays_small(world: World, client: TestClient) -> None:
    body = {"user": world.user, "item": world.item, "model": "toy"}
    answers = [client.post("/v1/explain", json={**body, "mu": mu}).json() for mu in (0.3, 0.3001, 0.2999)]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["mu"] == 0.3


def test_requests_with_mu_share_the_search_that_is_warm(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.client("toy") as client:
        made: list[object] = []
        monkeypatch.setattr("whyrank.models.base.Search", lambda *given, **_: made.append(given))
        for mu in (0.1, 0.9):
            body = {"user": world.user, "item": world.item, "model": "toy", "mu": mu}
            for more in ({}, {"grounded": False}, {"grounded": False, "polarity": "any", "specificity": 0.2}):
                assert client.post("/v1/explain", json=body | more).json()["results"][0]["reasons"]
            assert client.post("/v1/recommend", json={"user": world.user, "model": "toy", "mu": mu}).status_code == 200
        assert made == []


def test_a_query_is_a_text_or_a_list_of_texts(world: World, client: TestClient) -> None:
    body = {"user": world.user, "item": world.item, "model": "toy", "grounded": False, "n": 5}
    found = [client.post("/v1/explain", json={**body, "query": each}).json() for each in ("pool", ["pool"], [])]
    assert found[0] == found[1] != found[2]


def test_an_unknown_user_gets_reasons_without_a_user_part_and_is_told(world: World, client: TestClient) -> None:
    body = {"user": "nobody", "item": world.item, "model": "toy"}
    (result,) = checked(client.post("/v1/explain", json=body), messages.ExplainAnswer)["results"]
    assert result["fallback"] == "unknown_user"
    assert result["reasons"]
    assert all(each["parts"]["user"] == 0 and each["evidence"]["user_says"] == 0 for each in result["reasons"])


def test_many_pairs_answer_in_order_and_name_unknown_items(world: World, client: TestClient) -> None:
    pairs = [{"user": world.user, "item": world.item}, {"user": world.user, "item": "none"}] * 20
    answer = checked(client.post("/v1/explain", json={"pairs": pairs, "model": "toy"}), messages.ExplainAnswer)
    assert [each["status"] for each in answer["results"]] == ["ok", "unknown_item"] * 20
    alone = client.post("/v1/explain", json={**pairs[0], "model": "toy"}).json()["results"][0]
    assert answer["results"][0] == alone


def test_one_pair_with_an_unknown_item_is_a_404_that_names_near_ones(world: World, client: TestClient) -> None:
    document = problem(client.post("/v1/explain", json={"user": world.user, "item": "i0007"}), 404, "unknown-id")
    assert document["id_kind"] == "item"
    assert document["nearest"]


def test_comparing_marks_ranks_in_the_other_list(world: World, client: TestClient) -> None:
    body = {"user": world.user, "item": world.item, "n": 8, "model": "toy", "compare": "pop"}
    answer = checked(client.post("/v1/explain", json=body), messages.ExplainAnswer)
    one, two = answer["results"][0]["reasons"], answer["compare"]["results"][0]["reasons"]
    ranks = {each["explanation"]: each["rank"] for each in two}
    assert [each["other_rank"] for each in one] == [ranks.get(each["explanation"]) for each in one]
    assert any(each["other_rank"] for each in one)


@pytest.mark.parametrize(
    ("more", "status", "kind"),
    [
        ({"mu": 0.5}, 422, "no-mu"),
        ({"model": "none"}, 404, "unknown-model"),
        ({"compare": "pop"}, 422, "invalid-request"),
        ({"n": 0}, 422, "invalid-request"),
        ({"n": "3"}, 422, "invalid-request"),
        ({"colour": 1}, 422, "invalid-request"),
        ({"diversity": 2}, 422, "invalid-request"),
        ({"user": ""}, 422, "invalid-request"),
        ({"user": "a\0b"}, 422, "invalid-request"),
        ({"exclude": ["none"]}, 404, "unknown-id"),
    ],
)
def test_what_cannot_be_answered_is_a_problem(
    world: World, client: TestClient, more: dict[str, object], status: int, kind: str
) -> None:
    body = {"user": world.user, "item": world.item, **more}
    problem(client.post("/v1/explain", json=body), status, kind)


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"user": "\\ud800", "item": "x"}', b"[" * 100_000, b"null"])
def test_bodies_that_are_no_requests_are_problems(client: TestClient, body: bytes) -> None:
    response = client.post("/v1/explain", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    assert response.headers["content-type"] == "application/problem+json"


def test_recommend_gives_the_library_s_items_and_reasons(world: World, client: TestClient) -> None:
    body = {"user": world.user, "n": 5, "reasons": 2, "model": "toy"}
    answer = checked(client.post("/v1/recommend", json=body), messages.RecommendAnswer)
    expected = load(world.folder / "toy").recommend(world.user, 5, 2)
    assert [each["item"] for each in answer["recommendations"]] == [each.item for each in expected]
    reasons = [[each["explanation"] for each in item["reasons"]] for item in answer["recommendations"]]
    assert reasons == [[each.explanation for each in item.reasons] for item in expected]
    assert any(reasons)
    assert answer["items_by"] == "toy"


def test_a_model_that_ranks_no_items_borrows_them(world: World, client: TestClient) -> None:
    own = client.post("/v1/recommend", json={"user": world.user, "model": "toy"}).json()
    body = {"user": world.user, "model": "pop", "compare": "rand"}
    answer = checked(client.post("/v1/recommend", json=body), messages.RecommendAnswer)
    assert (answer["model"], answer["items_by"]) == ("pop", "toy")
    listed = [each["item"] for each in answer["recommendations"]]
    assert listed == [each["item"] for each in own["recommendations"]]
    assert len(answer["compare"]["reasons"]) == len(answer["recommendations"])


def test_without_a_model_that_ranks_items_recommend_says_so(world: World) -> None:
    with world.client("pop") as client:
        problem(client.post("/v1/recommend", json={"user": world.user}), 422, "ranks-no-items")
        problem(client.post("/v1/pairs", json={"user": world.user}), 422, "ranks-no-items")


def test_an_unknown_user_is_recommended_what_is_left_without_them(world: World, client: TestClient) -> None:
    body = {"user": "nobody", "model": "toy", "n": 3}
    answer = checked(client.post("/v1/recommend", json=body), messages.RecommendAnswer)
    users = [each["users"] for each in answer["recommendations"]]
    busiest = client.get("/v1/items?limit=3").json()["items"]
    assert answer["fallback"] == "unknown_user"
    assert users == [each["users"] for each in busiest]


@pytest.mark.parametrize("path", ["/v1/items?limit=3&offst=2", "/v1/models?verbose=1"])
def test_a_parameter_that_a_route_does_not_have_is_refused(client: TestClient, path: str) -> None:
    assert "no parameter" in problem(client.get(path), 422, "invalid-request")["detail"]


def test_what_belongs_into_the_body_is_refused_as_a_parameter(world: World, client: TestClient) -> None:
    found = problem(
        client.post("/v1/explain?n=3", json={"user": world.user, "item": world.item}), 422, "invalid-request"
    )
    assert found["detail"] == "no parameter 'n'; this path takes none"
    assert client.get("/healthz?probe=1").status_code == 200  # probes may say who they are


def test_pairs_are_the_library_s(world: World, client: TestClient) -> None:
    model = load(world.folder / "toy")
    model.mu = 0.25
    for options in ({}, {"grounded": False}, {"grounded": False, "polarity": "negative", "specificity": 0.5}):
        body = {"user": world.user, "n": 7, "weight": 0.5, "mu": 0.25, **options}
        answer = checked(client.post("/v1/pairs", json=body), messages.PairsAnswer)
        expected = model.recommend_pairs(world.user, 7, 0.5, **options)
        assert (answer["model"], answer["fallback"]) == ("toy", None)
        got = [(each["item"], each["reason"]["explanation"], each["score"]) for each in answer["pairs"]]
        assert got == [(each.item, each.reason.explanation, each.score) for each in expected]
        assert [each["rank"] for each in answer["pairs"]] == [1, 2, 3, 4, 5, 6, 7]
    unknown = client.post("/v1/pairs", json={"user": "nobody", "n": 7}).json()["pairs"]
    alone = load(world.folder / "toy").recommend_pairs("nobody", 7)
    assert [(each["item"], each["reason"]["sentence"]) for each in unknown] == [
        (each.item, each.reason.sentence) for each in alone
    ]


def test_pairs_for_an_unknown_user_are_told_apart(client: TestClient) -> None:
    answer = checked(client.post("/v1/pairs", json={"user": "nobody", "n": 4}), messages.PairsAnswer)
    assert answer["fallback"] == "unknown_user"
    scores = [each["score"] for each in answer["pairs"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 4


def test_models_tell_what_the_page_needs(client: TestClient) -> None:
    answer = checked(client.get("/v1/models"), messages_catalog.ModelsAnswer)
    assert answer["default"] == "pop"
    assert [(each["id"], each["mu"], each["ranks_items"]) for each in answer["models"]] == [
        ("pop", None, False),
        ("rand", None, False),
        ("toy", 0.5, True),
    ]
    assert answer["models"][2]["sizes"]["explanations"] == 300


@pytest.mark.parametrize("place", ["pop/metrics.json", "pop.metrics.json"])
def test_a_report_beside_the_model_is_shown(world: World, place: str) -> None:
    report = {"training": [{"epoch": 1, "loss": 0.7}], "mu_curve": [{"mu": 0.5, "ndcg_paper": float("nan")}]}
    file = world.folder / place
    file.write_text(json.dumps(report))
    try:
        with world.client("pop") as client:
            shown = checked(client.get("/v1/models"), messages_catalog.ModelsAnswer)["models"][0]["report"]
    finally:
        file.unlink()
    assert shown["training"] == report["training"]
    assert shown["mu_curve"] == [{"mu": 0.5, "ndcg_paper": None}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [('{"model": "pop", "k": 10, "pairs": 3, "explanation": {"ndcg": 0.1}}', {"ndcg": 0.1}), ("[1, 2", None)],
)
def test_an_evaluation_is_a_report_and_nonsense_is_none(
    world: World, text: str, expected: dict[str, float] | None
) -> None:
    file = world.folder / "pop.metrics.json"
    file.write_text(text)
    try:
        with world.client("pop") as client:
            shown = client.get("/v1/models").json()["models"][0]["report"]
    finally:
        file.unlink()
    assert (shown and shown["evaluation"]["explanation"]) == expected


def test_names_before_folders_are_ids_and_repeats_are_numbered(world: World) -> None:
    pop = str(world.folder / "pop")
    settings = Settings(models=(pop, f"old={pop}", pop), store=world.settings().store)
    with TestClient(create_app(settings)) as client:
        assert [each["id"] for each in client.get("/v1/models").json()["models"]] == ["pop", "old", "pop-2"]


def test_search_finds_ids_in_any_case_exact_ones_first(world: World, client: TestClient) -> None:
    exact = checked(client.get("/v1/users", params={"query": world.user}), messages_catalog.UsersAnswer)
    assert exact["users"][0]["id"] == world.user
    some = client.get("/v1/users", params={"query": "U0005", "limit": 3}).json()
    assert some["total"] == 100
    assert len(some["users"]) == 3
    counts = [each["items"] for each in some["users"]]
    assert counts == sorted(counts, reverse=True)
    rest = client.get("/v1/users", params={"query": "u0005", "limit": 100, "offset": 3}).json()
    assert len({each["id"] for each in some["users"] + rest["users"]}) == 100


@pytest.mark.parametrize("query", ["(", "a|b", "\\", ".*", "%"])
def test_search_takes_texts_not_patterns(client: TestClient, query: str) -> None:
    for path in ("users", "items", "explanations"):
        assert client.get(f"/v1/{path}", params={"query": query}).json()["total"] == 0


def test_the_pool_is_sorted_and_filtered(world: World, client: TestClient) -> None:
    def page(**params: object) -> list[dict[str, object]]:
        answer = client.get("/v1/explanations", params={"limit": 100, **params})
        return checked(answer, messages_catalog.ExplanationsAnswer)["explanations"]

    for query in ("", "s"):  # at the start of some texts, within others
        often = [each["frequency"] for each in page(query=query)]
        assert len(often) > 10
        assert often == sorted(often, reverse=True)
    worst = [each["sentiment"] for each in page(sort="negative")]
    assert worst == sorted(worst)
    assert all(each["sentiment"] < 0 for each in page(polarity="negative"))
    assert all("pool" in each["text"].lower() for each in page(query="pool"))
    texts = [each["text"] for each in page(sort="text")]
    assert texts == sorted(texts)


def test_a_user_an_item_and_an_explanation_tell_their_story(world: World, client: TestClient) -> None:
    catalog = load(world.folder / "pop").catalog_
    user = checked(client.get(f"/v1/users/{world.user}?limit=100"), messages_catalog.UserAnswer)
    row = catalog.user_items.row(catalog.users.number(world.user))
    assert [each["item"] for each in user["history"]] == catalog.items.terms(row).to_list()
    item = checked(client.get(f"/v1/items/{world.item}"), messages_catalog.ItemAnswer)
    assert sum(each["count"] for each in item["said"]) > 0
    said = item["said"][0]
    story = checked(client.get(f"/v1/explanations/{said['id']}"), messages_catalog.ExplanationAnswer)
    assert (story["text"], story["frequency"] >= said["count"]) == (said["text"], True)
    assert {"id": world.item, "title": None, "count": said["count"]} in story["items"]["top"]
    path = f"/v1/items/{world.item}/statements/{said['id']}"
    behind = checked(client.get(path), messages_catalog.StatementAnswer)
    assert (behind["item"], behind["text"], behind["people"]) == (world.item, said["text"], said["count"])
    problem(client.get(f"/v1/items/{world.item}/statements/nothing"), 404, "unknown-id")
    number = catalog.explanations.number(said["id"])
    assert story["users"]["total"] == int((catalog.user_explanations.indices == number).sum())
    problem(client.get("/v1/users/nobody"), 404, "unknown-id")


def test_an_item_page_counts_people_aspect_by_aspect(tmp_path: Path) -> None:
    rows = [
        ("ann", "inn", "bed|soft|+", "bed", 1, "Such a soft bed.", "r1"),
        ("bob", "inn", "bed|soft|+", "bed", 1, "The bed was soft.", "r2"),
        ("cid", "inn", "bed|hard|-", "bed", -1, "A hard bed.", "r3"),
        ("ann", "inn", "pool|warm|+", "pool", 1, "Warm pool!", "r1"),
        ("ann", "spa", "bed|hard|-", "bed", -1, "Hard bed.", "r4"),
        ("bob", "spa", "pool|warm|+", "pool", 1, "A warm pool.", "r5"),
    ]
    columns = ["user", "item", "explanation", "aspect", "polarity", "sentence", "source"]
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    POP().fit(Triplets.from_frame(frame)).save(tmp_path / "pop")
    with TestClient(
        create_app(Settings(models=(str(tmp_path / "pop"),), store=f"sqlite:///{tmp_path}/s.db"))
    ) as client:
        item = checked(client.get("/v1/items/inn"), messages_catalog.ItemAnswer)
        bed, pool = item["aspects"]
        counts = ("mentions", "praising", "blaming", "similar_praising", "similar_blaming")
        assert [bed["aspect"], *(bed[name] for name in counts)] == ["bed", 3, 2, 1, 0, 1]
        assert [pool["aspect"], *(pool[name] for name in counts)] == ["pool", 1, 1, 0, 1, 0]
        soft = bed["statements"][0]
        assert (soft["id"], soft["people"], soft["polarity"]) == ("bed|soft|+", 2, 1)
        assert {quote["source"] for quote in soft["quotes"]} == {"r1", "r2"}
        aspects = checked(client.get("/v1/aspects"), messages_catalog.AspectsAnswer)["aspects"]
        assert [tuple(each.values()) for each in aspects] == [("bed", 2, 4, 2, 2), ("pool", 1, 2, 2, 0)]
        found = client.get("/v1/explanations", params={"aspect": "bed"}).json()["explanations"]
        assert {each["id"] for each in found} == {"bed|soft|+", "bed|hard|-"}
        problem(client.get("/v1/explanations", params={"aspect": "zebra"}), 404, "unknown-id")


def test_average_popularity_is_that_of_the_whole_pool(world: World, client: TestClient) -> None:
    found = {each["id"]: each["average_popularity"] for each in client.get("/v1/models").json()["models"]}
    logs = np.log1p(load(world.folder / "pop").catalog_.popularity).mean()
    assert found["pop"] == pytest.approx([logs, logs], rel=1e-5)
    assert found["toy"] == pytest.approx([logs, logs], rel=1e-5)  # whatever its mu weighs
    assert found["rand"] == [0, 0]


def test_near_duplicates_share_their_words(client: TestClient) -> None:
    found = client.get("/v1/explanations", params={"query": "pool", "limit": 100}).json()["explanations"]
    stories = [client.get(f"/v1/explanations/{each['id']}").json() for each in found]
    alike = [(story, near) for story in stories for near in story["near_duplicates"]]
    assert alike
    assert all(near["overlap"] >= 0.6 and near["id"] != story["id"] for story, near in alike)


def test_ids_with_slashes_and_spaces_are_found(tmp_path: Path) -> None:
    import polars as pl

    from whyrank.data import Triplets
    from whyrank.models import POP

    rows = {"user": ["a/b c", "ü"], "item": ["x?y", "x#z"], "explanation": ["good / cheap", "100% fine"]}
    POP().fit(Triplets.from_frame(pl.DataFrame(rows))).save(tmp_path / "pop")
    with World(tmp_path, "", "").client("pop", split=None) as client:
        assert client.get("/v1/users/a%2Fb%20c").json()["id"] == "a/b c"
        assert client.get("/v1/items/x%3Fy").json()["id"] == "x?y"
        assert client.get("/v1/explanations/good%20%2F%20cheap").json()["text"] == "good / cheap"
        assert client.get("/v1/explanations/100%25%20fine").json()["id"] == "100% fine"


def test_titles_and_aspects_come_from_tables(world: World, tmp_path: Path) -> None:
    (tmp_path / "titles.csv").write_text(f"item,title\n{world.item},The Grand\n")
    (tmp_path / "aspects.csv").write_text("id,aspect\ne00165,location\n")
    files = {"titles": str(tmp_path / "titles.csv"), "aspects": str(tmp_path / "aspects.csv")}
    experiment = {"name": "t", "arms": [{"name": name, "model": "pop"} for name in "ab"]}
    pairs = [{"user": world.user, "item": item, "said": ["clean"]} for item in (world.item, "gone")]
    report = world.folder / "pop.metrics.json"
    report.write_text(json.dumps({"missed": pairs}))
    with world.client("pop", store=f"sqlite:///{tmp_path}/t.db", **files) as client:
        report.unlink()
        (model,) = client.get("/v1/models").json()["models"]
        assert [each["title"] for each in model["report"]["missed"]] == ["The Grand", None]
        assert client.post("/v1/experiments", json=experiment).status_code == 201
        asked = {"user": world.user, "item": world.item, "experiment": "t"}
        assert client.post("/v1/explain", json=asked).status_code == 200
        client.get(f"/v1/users/{world.user}/export")  # writes what is logged
        (shown,) = client.get("/v1/experiments/t/exposures").json()["exposures"]
        assert {each["title"] for each in shown["slate"]} == {"The Grand"}
        assert client.get("/v1/items", params={"query": "grand"}).json()["items"][0]["id"] == world.item
        assert client.get(f"/v1/items/{world.item}").json()["title"] == "The Grand"
        assert client.get("/v1/explanations/e00165").json()["aspect"] == "location"
        assert client.get("/v1/explanations/e00091").json()["aspect"] is None


def test_feedback_is_counted_and_a_retry_counts_once(world: World, tmp_path: Path) -> None:
    event = {"event": "clicked", "user": world.user, "item": world.item, "model": "pop", "id": "1"}
    with world.client("pop", store=f"sqlite:///{tmp_path}/f.db") as client:
        for stored in (1, 0):
            body = {"events": [event, {**event, "id": "2", "event": "shown"}, event]}
            answer = checked(client.post("/v1/feedback", json=body), messages_online.FeedbackStored, 201)
            assert answer == {"stored": 2 * stored, "repeated": 3 - 2 * stored}
        counts = checked(client.get("/v1/feedback"), messages_online.FeedbackAnswer)["models"]
    assert counts == [{"model": "pop", "shown": 1, "clicked": 1, "dismissed": 0, "helpful": 0, "converted": 0}]


def test_health_metrics_and_paths_that_do_not_exist(client: TestClient) -> None:
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").json()["models"] == ["pop", "rand", "toy"]
    assert 'whyrank_requests_total{method="GET",route="/healthz",status="200"}' in client.get("/metrics").text
    problem(client.get("/v1/nothing"), 404, "not-found")
    problem(client.delete("/v1/models"), 405, "method-not-allowed")


def test_a_bug_is_a_problem_without_its_traceback(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("whyrank.service.browse.users", broken)
    with world.client("pop") as client:
        assert "secret" not in json.dumps(problem(client.get("/v1/users"), 500, "internal"))
