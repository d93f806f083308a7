"""What a request knows: reasons that answer a query come first, and what was chosen counts more."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from starlette.testclient import TestClient

from whyrank.cli import main
from whyrank.data import Split, Triplets
from whyrank.errors import ParameterError, UnknownId
from whyrank.explain import context
from whyrank.explain.context import affinity, answers
from whyrank.explain.options import Options
from whyrank.models import BPERJ, CDJ, POP, Model, ProfileJ
from whyrank.service.app import create_app
from whyrank.service.settings import Settings

# Statement, text, aspect, and how many people say it about the inn, the spa and the hut.
SAID = {
    "room|quiet|+": ("quiet rooms", "room", 3, 2, 0),
    "location|near station|+": ("close to the station", "location", 4, 0, 0),
    "breakfast|good|+": ("good breakfast", "breakfast", 9, 2, 1),
    "pool|warm|+": ("warm pool", "pool", 5, 8, 0),
    "staff|friendly|+": ("friendly staff", "staff", 7, 1, 6),
}
PLAIN = vars(Options.plain())


@pytest.fixture(scope="module")
def model() -> Model:
    rows = []
    for id_, (text, aspect, *counts) in SAID.items():
        for item, count in zip(("inn", "spa", "hut"), counts, strict=True):
            rows += [(f"{item}{k}", item, id_, text, aspect, 1) for k in range(count)]
    columns = ["user", "item", "explanation", "text", "aspect", "polarity"]
    return POP().fit(Triplets.from_frame(pl.DataFrame(rows, schema=columns, orient="row")))


def order(model: Model, **options: object) -> list[str]:
    return [each.text for each in model.explain("nobody", "inn", 5, **(PLAIN | options))]


USUAL = ["friendly staff", "warm pool", "good breakfast", "quiet rooms", "close to the station"]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("quiet", ["quiet rooms"]),
        ("QUIET ROOM", ["quiet rooms"]),
        ("quiet, near the station", ["quiet rooms", "close to the station"]),
        (("quiet", "near the station"), ["quiet rooms", "close to the station"]),
        ("breakfast; pool", ["warm pool", "good breakfast"]),  # both in full, then by score
        ("near pool", ["warm pool", "close to the station"]),  # half of the phrase each
        ("the", []),
        ("nothing of the kind", []),
        ((), []),
    ],
)
def test_reasons_that_answer_a_query_come_first_and_the_rest_by_score(
    model: Model, query: object, first: list[str]
) -> None:
    assert order(model, query=query) == first + [text for text in USUAL if text not in first]


def test_more_of_a_phrase_comes_before_less_of_it(model: Model) -> None:
    shares = dict(zip(model.catalog_.ids_listed, answers(model.catalog_, ["friendly breakfast staff"]), strict=True))
    assert shares["staff|friendly|+"] == pytest.approx(2 / 3)
    assert shares["breakfast|good|+"] == pytest.approx(1 / 3)
    assert shares["pool|warm|+"] == 0
    assert order(model, query="friendly breakfast staff")[:2] == ["friendly staff", "good breakfast"]


def test_a_chosen_aspect_counts_two_and_an_unknown_one_is_named(model: Model) -> None:
    plain = {each.text: each.score for each in model.explain("nobody", "inn", 5, **PLAIN)}
    options = PLAIN | {"context_aspects": ["room"]}
    chosen = {each.text: each.score for each in model.explain("nobody", "inn", 5, **options)}
    assert chosen["quiet rooms"] == pytest.approx(plain["quiet rooms"] + 2, abs=1e-5)
    assert {text: chosen[text] for text in USUAL if text != "quiet rooms"} == {
        text: plain[text] for text in USUAL if text != "quiet rooms"
    }
    with pytest.raises(UnknownId, match="rooms"):
        order(model, context_aspects=["rooms"])


def test_chosen_items_count_as_often_as_people_mention_an_aspect_about_them(model: Model) -> None:
    catalog, total = model.catalog_, sum(sum(row[2:]) for row in SAID.values())
    for items in (["spa"], ["spa", "hut"], ["hut", "hut", "unheard of"]):
        places = [("inn", "spa", "hut").index(each) for each in set(items) if each != "unheard of"]
        mine = {id_: sum(row[2:][place] for place in places) for id_, row in SAID.items()}
        for id_, added in zip(catalog.ids_listed, affinity(catalog, items, []), strict=True):
            usual = sum(SAID[id_][2:]) / total
            share = (mine[id_] + 10 * usual) / (sum(mine.values()) + 10)
            assert added == pytest.approx(min(max(math.log2(share / usual), 0), 2), abs=1e-5)
    assert not affinity(catalog, ["unheard of"], []).any()
    assert order(model, context_items=["hut"])[0] == "friendly staff"


def test_without_aspects_explanations_are_compared_one_by_one(tiny: Triplets) -> None:
    catalog = POP().fit(tiny).catalog_
    added = dict(zip(catalog.ids_listed, affinity(catalog, ["spa"], []).tolist(), strict=True))
    assert added["warm"] > 0
    assert added["quiet"] == 0


def test_vectors_answer_what_shares_no_word(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def encode(texts: list[str], cache: bool) -> np.ndarray:
        alike = ("silent", "quiet rooms")
        return np.array([[0.6, 0.8] if text in alike else [0.8, -0.6] for text in texts], np.float32)

    monkeypatch.setattr(context, "_vectors_of", encode)
    assert order(model, query="silent") == USUAL
    assert order(model, query="silent", query_by="vectors")[0] == "quiet rooms"
    assert answers(model.catalog_, [" , "], "vectors").tolist() == [0] * 5


def test_what_is_no_query_is_refused() -> None:
    for wrong in ({"query": 7}, {"query": [7]}, {"query_by": "ear"}, {"context_items": "spa"}):
        with pytest.raises(ParameterError):
            Options(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [BPERJ, CDJ, ProfileJ], ids=lambda kind: kind.id)
def test_chosen_items_stand_for_the_history_of_somebody_unknown(kind: type[Model], split: Split) -> None:
    model = (ProfileJ(epochs=3, refit=False) if kind is ProfileJ else kind(epochs=60)).fit(split)
    catalog = model.catalog_
    items = catalog.items.ids.to_list()
    user = int(np.argmax(catalog.user_items.sizes()))
    known = [items[k] for k in catalog.user_items.row(user)]
    theirs = [each.item for each in model.recommend(catalog.users.ids[user], len(items), 0)]
    usual = [each.item for each in model.recommend("nobody", len(items), 0)]
    found = [each.item for each in model.recommend("nobody", len(items), 0, context_items=[*known, "unheard of"])]
    assert set(found) == set(items) - set(known)
    if kind is ProfileJ:  # its users are their items
        assert found == theirs
    alone = model.recommend("nobody", 3, 0, context_items=known)
    assert [each.item for each in alone] == found[:3]
    assert {each.fallback for each in alone} == {"unknown_user"}
    assert found != [each for each in usual if each in found]
    mine = model.recommend(catalog.users.ids[user], 3, 0, context_items=known[:2])
    assert [each.item for each in mine] == theirs[:3]  # who is known has a history
    pairs = model.recommend_pairs("nobody", 5, 1e-6, context_items=known)
    assert {each.item for each in pairs} <= set(found)


def test_the_command_line_and_the_service_take_them_too(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(tmp_path / "model")
    asked = {"query": ["quiet"], "context_items": ["hut"], "context_aspects": ["location"]}
    expected = [each.text for each in model.explain("nobody", "inn", 5, **asked)]
    flags = ["--query", "quiet", "--context-item", "hut", "--context-aspect", "location"]
    with pytest.raises(SystemExit):
        main(["explain", str(tmp_path / "model"), "--user", "nobody", "--item", "inn", *flags, "--json"])
    assert [each["text"] for each in json.loads(capsys.readouterr().out)["reasons"]] == expected
    settings = Settings(models=(str(tmp_path / "model"),), store=f"sqlite:///{tmp_path}/store.db")
    with TestClient(create_app(settings)) as client:
        answer = client.post("/v1/explain", json={"user": "nobody", "item": "inn", **asked}).json()
        assert [each["text"] for each in answer["results"][0]["reasons"]] == expected
        assert client.post("/v1/explain", json={"user": "u", "item": "inn", "query_by": "vectors"}).status_code == 422
