"""Goals of lists of items: shares are kept at the least cost, and unexpected items come forward."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import whyrank as wr
from whyrank.cli import main
from whyrank.data import Split
from whyrank.errors import ParameterError
from whyrank.explain.goals import fair_places, unexpected
from whyrank.explain.recommend import best_items
from whyrank.service import messages
from whyrank.service.app import create_app
from whyrank.service.settings import Settings


def keeps(group: list[int], shares: list[float], available: list[int]) -> bool:
    """Whether every prefix of a list has what is owed."""
    return all(
        group[:k].count(g) >= min(int(share * k + 1e-9), available[g])
        for k in range(1, len(group) + 1)
        for g, share in enumerate(shares)
    )


@given(
    st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 9)), min_size=1, max_size=6),
    st.sampled_from([(0.5,), (0.34,), (1.0,), (0.5, 0.5), (0.3, 0.4), (0.25, 0.75)]),
    st.integers(1, 4),
)
def test_no_list_that_keeps_the_shares_has_a_larger_dcg(
    rows: list[tuple[int, int]], shares: tuple[float, ...], n: int
) -> None:
    rows = sorted(rows, key=lambda row: -row[1])
    group = [g if g < len(shares) else -1 for g, _ in rows]
    gains = np.array([gain for _, gain in rows], float)
    available = [group.count(g) for g in range(len(shares))]
    count = min(n, len(rows))
    discounts = 1 / np.log2(np.arange(2, count + 2))
    lists = [p for p in permutations(range(len(rows)), count) if keeps([group[k] for k in p], list(shares), available)]
    chosen = fair_places(np.array(group, np.int64), list(shares), n)
    assert len(set(chosen.tolist())) == count
    if lists:
        assert tuple(chosen.tolist()) in set(lists)
        best = max(float((gains[list(p)] * discounts).sum()) for p in lists)
        assert float((gains[chosen] * discounts).sum()) == pytest.approx(best)


@pytest.fixture(scope="module")
def model(split: Split) -> wr.Model:
    return wr.BPERJ(epochs=5, factors=4).fit(split)


def test_shares_hold_in_every_list_and_cost_is_told(model: wr.Model) -> None:
    ids = model.catalog_.items.ids.to_list()
    groups = {item: "small" if place % 4 == 0 else "large" for place, item in enumerate(ids)}
    goals = wr.ItemGoals(shares={"small": 0.5}, groups=groups)
    for user in model.catalog_.users.ids[:10]:
        listed = [groups[each.item] for each in model.recommend(user, 8, reasons=0, goals=goals)]
        assert all(listed[:k].count("small") >= k // 2 for k in range(1, 9))
    found = best_items(model, np.array([0], np.int32), 8, goals)
    assert 0 < found.ndcg <= 1
    assert best_items(model, np.array([0], np.int32), 8, wr.ItemGoals()).ndcg == 1


def test_serendipity_brings_unexpected_items_forward(model: wr.Model) -> None:
    means = []
    for share in (0.0, 0.5, 1.0):
        rows = []
        for user in range(20):
            goals = wr.ItemGoals(serendipity=share)
            items = best_items(model, np.array([user], np.int32), 5, goals).items
            rows.append(unexpected(model.catalog_, user, items).mean())
        means.append(float(np.mean(rows)))
    assert means[0] < means[1] < means[2]


def test_an_item_like_the_users_own_is_expected(model: wr.Model) -> None:
    own = model.catalog_.user_items.row(3)[:1]
    everything = np.arange(len(model.catalog_.items), dtype=np.int32)
    found = unexpected(model.catalog_, 3, everything)
    assert found[own[0]] < found.mean()
    assert (found >= 0).all()
    assert (found <= 1).all()


def test_goals_that_cannot_be_are_refused() -> None:
    with pytest.raises(ParameterError, match="add up"):
        wr.ItemGoals(shares={"a": 0.6, "b": 0.6}, groups={"x": "a", "y": "b"})
    with pytest.raises(ParameterError, match="no item is in group 'c'"):
        wr.ItemGoals(shares={"c": 0.6}, groups={"x": "a"})
    with pytest.raises(ParameterError, match="serendipity is 2"):
        wr.ItemGoals(serendipity=2)


def test_the_command_takes_goals(model: wr.Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model.save(tmp_path / "model")
    ids = model.catalog_.items.ids.to_list()
    lines = [f"{item},{'small' if place % 4 == 0 else 'large'}" for place, item in enumerate(ids)]
    (tmp_path / "groups.csv").write_text("\n".join(["item,group", *lines]) + "\n")
    user = model.catalog_.users.ids[0]
    given_ = ["recommend", str(tmp_path / "model"), "--user", user, "-n", "4", "--reasons", "0"]
    with pytest.raises(SystemExit) as done:
        main([*given_, "--groups", str(tmp_path / "groups.csv"), "--share", "small=0.5", "--json"])
    assert done.value.code == 0
    found = json.loads(capsys.readouterr().out)
    small = {item for place, item in enumerate(ids) if place % 4 == 0}
    assert sum(each["item"] in small for each in found["recommendations"]) >= 2
    assert found["ndcg_of_best_list"] <= 1
    with pytest.raises(SystemExit) as done:
        main([*given_, "--share", "small=0.5"])
    assert done.value.code == 2
    assert "give both" in capsys.readouterr().err


def test_goals_are_asked_for_over_http_and_cost_what_the_library_says(model: wr.Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    ids = model.catalog_.items.ids
    groups = {item: "small" if place % 3 == 0 else "large" for place, item in enumerate(ids)}
    pl.DataFrame({"item": list(groups), "group": list(groups.values())}).write_csv(tmp_path / "groups.csv")
    user = model.catalog_.users.ids[0]
    settings = Settings(
        models=(str(tmp_path / "model"),), groups=str(tmp_path / "groups.csv"), store=f"sqlite:///{tmp_path}/s.db"
    )
    with TestClient(create_app(settings)) as client:

        def asked(**goals: object) -> dict[str, Any]:
            answer = client.post("/v1/recommend", json={"user": user, "n": 6, "reasons": 0, **goals})
            msgspec.json.decode(answer.content, type=messages.RecommendAnswer)
            return answer.json()  # type: ignore[no-any-return]

        plain = asked()
        assert "ndcg" not in plain
        for goals in ({"serendipity": 0.8}, {"shares": {"small": 0.5}}, {"serendipity": 0.3, "shares": {"small": 0.5}}):
            given = wr.ItemGoals(**goals, groups=groups)  # type: ignore[arg-type]
            found, expected = asked(**goals), model.recommend(user, 6, 0, goals=given)
            assert [each["item"] for each in found["recommendations"]] == [each.item for each in expected]
            assert found["ndcg"] == pytest.approx(best_items(model, np.array([0], np.int32), 6, given).ndcg)
        small = [groups[each["item"]] == "small" for each in asked(shares={"small": 0.5})["recommendations"]]
        assert sum(small) >= 3
        assert client.get("/v1/models").json()["service"]["groups"] == ["large", "small"]
        wrong = {"user": user, "shares": {"none": 0.5}}
        assert client.post("/v1/recommend", json=wrong).json()["detail"].startswith("no item is in group 'none'")
        assert client.post("/v1/recommend", json={"user": user, "serendipity": 2}).status_code == 422
        arms = [{"name": name, "model": plain["model"], "options": {"serendipity": 0.8}} for name in ("a", "b")]
        assert client.post("/v1/experiments", json={"name": "new", "arms": arms}).status_code == 201
        assert (
            asked(experiment="new")["recommendations"][0]["item"]
            == asked(serendipity=0.8)["recommendations"][0]["item"]
        )
        assert asked(experiment="new")["ndcg"] == asked(serendipity=0.8)["ndcg"]
        pair = {"user": user, "item": ids[0], "experiment": "new"}
        assert client.post("/v1/explain", json=pair).json()["experiment"] == "new"  # where goals change nothing
        arms[1]["options"] = {"serendipity": 2}
        refused = client.post("/v1/experiments", json={"name": "wrong", "arms": arms})
        assert "serendipity is 2" in refused.json()["detail"]
