"""The default model as it is served: every route gives what the library gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import whyrank as wr
from whyrank.data import Split
from whyrank.models import DEFAULT, MODELS, Model
from whyrank.service.app import create_app
from whyrank.service.settings import Settings


@pytest.fixture(scope="module")
def folder(split: Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("default")
    return MODELS[DEFAULT]().fit(split).save(folder / "model")


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return wr.load(folder)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    settings = Settings(models=(str(folder),), store=f"sqlite:///{folder.parent}/store.db", rate=0.0)
    with TestClient(create_app(settings)) as client:
        yield client


@pytest.fixture(scope="module")
def pair(split: Split) -> tuple[str, str]:
    return split.train.frame().select("user", "item").row(0)


def shown(reasons: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(each["explanation"], pytest.approx(each["score"], rel=1e-4, abs=1e-5)) for each in reasons]


def ranked(reasons: object) -> list[tuple[str, float]]:
    return [(each.explanation, each.score) for each in reasons]


@pytest.mark.parametrize("options", [{}, {"grounded": False}, {"diversity": 0.3}, {"specificity": 0.2}])
def test_explain(client: TestClient, model: Model, pair: tuple[str, str], options: dict[str, object]) -> None:
    response = client.post("/v1/explain", json={"user": pair[0], "item": pair[1], "n": 5, **options})
    assert response.json()["model"] == DEFAULT
    found = response.json()["results"][0]["reasons"]
    assert ranked(model.explain(*pair, n=5, **({"grounded": True} | options))) == shown(found)
    for each in found:
        assert sum(each["parts"].values()) == pytest.approx(each["score"], rel=1e-3, abs=1e-4)


def test_it_has_no_mu_and_says_so(client: TestClient, pair: tuple[str, str]) -> None:
    response = client.post("/v1/explain", json={"user": pair[0], "item": pair[1], "mu": 0.25})
    assert (response.status_code, response.json()["type"]) == (422, "urn:whyrank:problem:no-mu")


def test_recommend(client: TestClient, model: Model, pair: tuple[str, str]) -> None:
    found = client.post("/v1/recommend", json={"user": pair[0], "n": 4, "reasons": 2, "grounded": False}).json()
    expected = model.recommend(pair[0], n=4, reasons=2)
    assert found["items_by"] == DEFAULT
    assert [each["item"] for each in found["recommendations"]] == [each.item for each in expected]
    for one, two in zip(found["recommendations"], expected, strict=True):
        assert ranked(two.reasons) == shown(one["reasons"])


def test_pairs(client: TestClient, model: Model, pair: tuple[str, str]) -> None:
    found = client.post("/v1/pairs", json={"user": pair[0], "n": 5, "grounded": False}).json()["pairs"]
    expected = model.recommend_pairs(pair[0], n=5)
    assert [(each["item"], each["reason"]["explanation"]) for each in found] == [
        (each.item, each.reason.explanation) for each in expected
    ]


def test_somebody_unknown_is_answered(client: TestClient, pair: tuple[str, str]) -> None:
    for route, more in (("explain", {"item": pair[1]}), ("recommend", {}), ("pairs", {})):
        response = client.post(f"/v1/{route}", json={"user": "nobody", **more})
        assert response.status_code == 200
        assert "unknown_user" in response.text


def test_it_is_described(client: TestClient, pair: tuple[str, str]) -> None:
    described = client.get("/v1/models").json()
    assert (described["default"], described["models"][0]["ranks_items"]) == (DEFAULT, True)
    for path in (f"users/{pair[0]}", f"items/{pair[1]}"):
        assert client.get(f"/v1/{path}").status_code == 200
